//! An API server in memory: objects as JSON, versions, lists, watches, merge
//! patches, finalizers, preconditions, conflicts, and faults on demand. Small on
//! purpose: the semantics are proven on a real server.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::{Method, Request};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use super::answer::{
    Answer, Chunk, Selector, covers, failure, immutable, line, status, streamed, whole,
};
use super::merge;

/// Collections whose names end a path; anything after is an object's name.
const KINDS: [&str; 9] = [
    "lvmvolumes",
    "lvmsnapshots",
    "lvmnodes",
    "nodes",
    "events",
    "pods",
    "csinodes",
    "persistentvolumeclaims",
    "leases",
];
/// When deletions are asked for.
const DELETED_AT: &str = "2026-01-01T00:00:00Z";

#[derive(Default)]
struct State {
    /// By collection path and name.
    objects: BTreeMap<(String, String), Value>,
    version: u64,
    history: Vec<(u64, String, Value)>,
    /// Watches from before this version are told that it has expired.
    forgotten: u64,
    watchers: Vec<Watcher>,
    /// Verb and kind of every request.
    asked: Vec<(&'static str, String)>,
    faults: VecDeque<(&'static str, String, u16)>,
    /// Answers that never end.
    held: Vec<mpsc::UnboundedSender<Chunk>>,
    forbidden: Vec<(&'static str, String)>,
    /// By verb and kind: what happens just before the next such request.
    overtakes: Vec<(&'static str, String, Vec<Value>)>,
    down: bool,
    not_selectable: bool,
}

struct Watcher {
    collection: String,
    selector: Selector,
    chunks: mpsc::UnboundedSender<Chunk>,
}

/// The server. Clones are the same.
#[derive(Clone, Default)]
pub(in crate::kube) struct FakeApi {
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

impl FakeApi {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// A client of it.
    pub(in crate::kube) fn client(&self) -> Client {
        let fake = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let fake = fake.clone();
            async move { fake.answer(request).await }
        });
        Client::new(service, "default")
    }

    /// Puts an object there, as a user would.
    pub(in crate::kube) fn put(&self, collection: &str, mut object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let mut state = self.state();
        let metadata = &mut object["metadata"];
        if metadata["uid"].is_null() {
            metadata["uid"] = json!(format!("uid-{name}"));
        }
        state.store(collection, &name, object);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Changes an object, as a user would.
    pub(in crate::kube) fn change(&self, collection: &str, name: &str, change: &Value) {
        assert!(self.try_change(collection, name, change), "{name} is there");
    }

    /// As [`Self::change`]; false if the object is gone.
    pub(in crate::kube) fn try_change(&self, collection: &str, name: &str, change: &Value) -> bool {
        let key = (collection.to_owned(), name.to_owned());
        let mut state = self.state();
        let Some(mut object) = state.objects.get(&key).cloned() else {
            return false;
        };
        merge(&mut object, change);
        state.store(collection, name, object);
        drop(state);
        self.changed.notify_waiters();
        true
    }

    /// Asks for an object's deletion, as a user would.
    pub(in crate::kube) fn delete(&self, collection: &str, name: &str) {
        let change = json!({ "metadata": { "deletionTimestamp": DELETED_AT } });
        self.change(collection, name, &change);
    }

    pub(in crate::kube) fn get(&self, collection: &str, name: &str) -> Option<Value> {
        let key = (collection.to_owned(), name.to_owned());
        self.state().objects.get(&key).cloned()
    }

    /// All objects of a collection.
    pub(in crate::kube) fn all(&self, collection: &str) -> Vec<Value> {
        let state = self.state();
        let of = state.objects.iter().filter(|((c, _), _)| c == collection);
        of.map(|(_, object)| object.clone()).collect()
    }

    /// The next request of this verb and kind is answered with `code`.
    pub(in crate::kube) fn fail(&self, verb: &'static str, kind: &str, code: u16) {
        self.state().faults.push_back((verb, kind.to_owned(), code));
    }

    /// The next request of this verb and kind has no effect, and its answer
    /// never ends.
    pub(in crate::kube) fn hang(&self, verb: &'static str, kind: &str) {
        self.fail(verb, kind, 0);
    }

    /// Just before the next request of this verb and kind is handled, these
    /// objects are put there in turn, as by somebody quicker.
    pub(in crate::kube) fn overtake(&self, verb: &'static str, kind: &str, objects: Vec<Value>) {
        let entry = (verb, kind.to_owned(), objects);
        self.state().overtakes.push(entry);
    }

    /// Every request of this verb and kind is refused: no role allows it. In
    /// place of a kind stands the start of a path.
    pub(in crate::kube) fn forbid(&self, verb: &'static str, kind: &str) {
        self.state().forbidden.push((verb, kind.to_owned()));
    }

    /// Nobody answers any more, or again.
    pub(in crate::kube) fn down(&self, down: bool) {
        let mut state = self.state();
        state.down = down;
        if down {
            state.watchers.clear();
        }
    }

    /// Every watch ends.
    pub(in crate::kube) fn cut_watches(&self) {
        self.state().watchers.clear();
    }

    /// Every watch ends, and none can go on from where it was.
    pub(in crate::kube) fn forget_history(&self) {
        let mut state = self.state();
        state.version += 1;
        state.forgotten = state.version;
        state.history.clear();
        state.watchers.clear();
    }

    /// The definitions have no selectable fields.
    pub(in crate::kube) fn not_selectable(&self) {
        self.state().not_selectable = true;
    }

    /// How often `verb` was asked of `kind`: `LIST`, `WATCH`, `GET`, `PATCH`,
    /// `POST`.
    pub(in crate::kube) fn count(&self, verb: &str, kind: &str) -> usize {
        let state = self.state();
        let asked = state.asked.iter();
        asked.filter(|(v, k)| *v == verb && k == kind).count()
    }

    /// Verbs and kinds that were asked for, as roles name them.
    pub(in crate::kube) fn asked(&self) -> BTreeSet<(&'static str, String)> {
        let state = self.state();
        let verb = |verb: &'static str| match verb {
            "LIST" => "list",
            "WATCH" => "watch",
            "GET" => "get",
            "PATCH" => "patch",
            "POST" => "create",
            "PUT" => "update",
            "DELETE" => "delete",
            other => other,
        };
        let asked = state.asked.iter();
        asked.map(|(v, kind)| (verb(v), kind.clone())).collect()
    }

    /// Waits until `found` finds something.
    pub(in crate::kube) async fn until<T>(
        &self,
        what: &str,
        mut found: impl FnMut(&Self) -> Option<T>,
    ) -> T {
        tokio::time::timeout(Duration::from_secs(120), self.work(&mut found))
            .await
            .unwrap_or_else(|_| panic!("{what} did not come to pass"))
    }

    /// As [`Self::until`], for as long as it takes.
    pub(in crate::kube) async fn work<T>(&self, mut found: impl FnMut(&Self) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(found) = found(self) {
                return found;
            }
            // Some conditions are about the disks, not about objects.
            let _ = tokio::time::timeout(Duration::from_millis(100), changed).await;
        }
    }

    async fn answer(&self, request: Request<Body>) -> Result<Answer, std::io::Error> {
        let (head, body) = request.into_parts();
        let path = head.uri.path().to_owned();
        let query: BTreeMap<String, String> = head
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| {
                (
                    key.to_owned(),
                    value.replace("%3D", "=").replace("%2F", "/"),
                )
            })
            .collect();
        let strategic = head
            .headers
            .get("content-type")
            .is_some_and(|kind| kind == "application/strategic-merge-patch+json");
        let body = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let answer = {
            let mut state = self.state();
            if state.down {
                return Err(std::io::ErrorKind::ConnectionRefused.into());
            }
            let mut body = body;
            if strategic {
                state.merge_lists(&path, &mut body);
            }
            state.handle(&head.method, &path, &query, &body)
        };
        self.changed.notify_waiters();
        Ok(answer)
    }
}

impl State {
    fn store(&mut self, collection: &str, name: &str, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let key = (collection.to_owned(), name.to_owned());
        let metadata = &object["metadata"];
        let finalizers = metadata["finalizers"].as_array().map_or(0, Vec::len);
        let gone = !metadata["deletionTimestamp"].is_null() && finalizers == 0;
        let what = match (gone, self.objects.contains_key(&key)) {
            (true, _) => "DELETED",
            (false, true) => "MODIFIED",
            (false, false) => "ADDED",
        };
        if gone {
            self.objects.remove(&key);
        } else {
            self.objects.insert(key, object.clone());
        }
        let event = json!({ "type": what, "object": object });
        self.history
            .push((self.version, collection.to_owned(), event.clone()));
        self.watchers.retain(|watcher| {
            !covers(&watcher.collection, collection)
                || !watcher.selector.selects(&event["object"])
                || watcher.chunks.send(line(&event)).is_ok()
        });
    }

    fn handle(
        &mut self,
        method: &Method,
        path: &str,
        query: &BTreeMap<String, String>,
        body: &Value,
    ) -> Answer {
        let (parent, last) = path.rsplit_once('/').unwrap();
        let (collection, name) = if KINDS.contains(&last) {
            (path, None)
        } else {
            (parent, Some(last))
        };
        let kind = collection.rsplit_once('/').unwrap().1.to_owned();
        let watch = query.contains_key("watch");
        let verb = match (method, name) {
            (&Method::GET, None) if watch => "WATCH",
            (&Method::GET, None) => "LIST",
            (&Method::GET, Some(_)) => "GET",
            (&Method::PATCH, _) => "PATCH",
            (&Method::POST, _) => "POST",
            (&Method::PUT, _) => "PUT",
            (&Method::DELETE, _) => "DELETE",
            _ => "OTHER",
        };
        self.asked.push((verb, kind.clone()));
        let fault = self
            .faults
            .iter()
            .position(|(v, k, _)| *v == verb && *k == kind);
        if let Some((_, _, code)) = fault.and_then(|at| self.faults.remove(at)) {
            if code == 0 {
                let (chunks, body) = mpsc::unbounded_channel();
                self.held.push(chunks);
                return streamed(200, body);
            }
            return status(code, "a fault of the test");
        }
        let overtake = self
            .overtakes
            .iter()
            .position(|(v, k, _)| *v == verb && *k == kind);
        if let Some((_, _, objects)) = overtake.map(|at| self.overtakes.remove(at)) {
            for object in objects {
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                self.store(collection, &name, object);
            }
        }
        let of = |k: &str| k == kind || (k.starts_with('/') && path.starts_with(k));
        if self.forbidden.iter().any(|(v, k)| *v == verb && of(k)) {
            return status(403, "no role allows it");
        }
        let selector = Selector {
            field: query.get("fieldSelector").cloned(),
            label: query.get("labelSelector").cloned(),
        };
        let by_spec = |s: &String| s.starts_with("spec.");
        if self.not_selectable && selector.field.as_ref().is_some_and(by_spec) {
            return status(400, "field label not supported");
        }
        match (verb, name) {
            ("LIST", _) => self.list(collection, &selector),
            ("WATCH", _) => self.watch(collection, selector, query),
            ("PUT", Some(name)) => self.replace(collection, name, body),
            ("DELETE", Some(name)) => self.delete(collection, name, body),
            ("GET", Some(name)) => self.show(collection, name),
            ("PATCH", Some(name)) => self.patch(collection, name, body),
            ("POST", None) => self.create(collection, body),
            _ => status(405, "not in this server"),
        }
    }

    fn list(&self, collection: &str, selector: &Selector) -> Answer {
        let items: Vec<_> = self
            .objects
            .iter()
            .filter(|((c, _), object)| covers(collection, c) && selector.selects(object))
            .map(|(_, object)| object)
            .collect();
        let list = json!({
            "apiVersion": "v1",
            "kind": "List",
            "metadata": { "resourceVersion": self.version.to_string() },
            "items": items,
        });
        whole(200, &list)
    }

    fn watch(
        &mut self,
        collection: &str,
        selector: Selector,
        query: &BTreeMap<String, String>,
    ) -> Answer {
        let from: u64 = query
            .get("resourceVersion")
            .and_then(|version| version.parse().ok())
            .unwrap_or(0);
        if from < self.forgotten {
            // As a real server does: once it has read the question, it answers
            // by an event.
            let expired = failure(410, "too old resource version");
            return whole(200, &json!({ "type": "ERROR", "object": expired }));
        }
        let (chunks, body) = mpsc::unbounded_channel();
        for (version, of, event) in &self.history {
            if *version > from && covers(collection, of) && selector.selects(&event["object"]) {
                chunks.send(line(event)).unwrap();
            }
        }
        self.watchers.push(Watcher {
            collection: collection.to_owned(),
            selector,
            chunks,
        });
        streamed(200, body)
    }

    fn show(&self, collection: &str, name: &str) -> Answer {
        match self.objects.get(&(collection.to_owned(), name.to_owned())) {
            Some(object) => whole(200, object),
            None => status(404, "not found"),
        }
    }

    fn patch(&mut self, collection: &str, name: &str, change: &Value) -> Answer {
        let key = (collection.to_owned(), name.to_owned());
        let Some(mut object) = self.objects.get(&key).cloned() else {
            return status(404, "not found");
        };
        let differs = |field: &str| {
            let wanted = &change["metadata"][field];
            !wanted.is_null() && *wanted != object["metadata"][field]
        };
        if differs("resourceVersion") {
            return status(409, "the object has been modified");
        }
        // As a real server has it: no precondition, but a field that is fixed.
        if differs("uid") {
            return immutable("metadata.uid");
        }
        merge(&mut object, change);
        self.store(collection, name, object.clone());
        whole(200, self.objects.get(&key).unwrap_or(&object))
    }

    fn replace(&mut self, collection: &str, name: &str, object: &Value) -> Answer {
        let key = (collection.to_owned(), name.to_owned());
        let Some(old) = self.objects.get(&key) else {
            return status(404, "not found");
        };
        if object["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"] {
            return status(409, "the object has been modified");
        }
        self.store(collection, name, object.clone());
        whole(200, self.objects.get(&key).unwrap_or(object))
    }

    fn delete(&mut self, collection: &str, name: &str, options: &Value) -> Answer {
        let key = (collection.to_owned(), name.to_owned());
        let Some(mut object) = self.objects.get(&key).cloned() else {
            return status(404, "not found");
        };
        for field in ["resourceVersion", "uid"] {
            let wanted = &options["preconditions"][field];
            if !wanted.is_null() && *wanted != object["metadata"][field] {
                return status(409, "the object has been modified");
            }
        }
        object["metadata"]["deletionTimestamp"] = json!(DELETED_AT);
        self.store(collection, name, object.clone());
        whole(200, self.objects.get(&key).unwrap_or(&object))
    }

    /// Turns the finalizers of a strategic merge patch into the whole list.
    fn merge_lists(&self, path: &str, change: &mut Value) {
        let (collection, name) = path.rsplit_once('/').unwrap();
        let key = (collection.to_owned(), name.to_owned());
        let Some(object) = self.objects.get(&key) else {
            return;
        };
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut all = list(&object["metadata"]["finalizers"]);
        let Some(metadata) = change["metadata"].as_object_mut() else {
            return;
        };
        let added = metadata.remove("finalizers").unwrap_or_default();
        let taken = metadata.remove("$deleteFromPrimitiveList/finalizers");
        for finalizer in list(&added) {
            if !all.contains(&finalizer) {
                all.push(finalizer);
            }
        }
        let taken = list(&taken.unwrap_or_default());
        all.retain(|finalizer| !taken.contains(finalizer));
        metadata.insert("finalizers".to_owned(), Value::Array(all));
    }

    fn create(&mut self, collection: &str, body: &Value) -> Answer {
        let mut object = body.clone();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let name = name.to_owned();
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
        if name.is_empty() || name.ends_with('.') || !name.chars().all(good) {
            return status(422, "metadata.name is no RFC 1123 subdomain");
        }
        let key = (collection.to_owned(), name.clone());
        if self.objects.contains_key(&key) {
            return status(409, "already exists");
        }
        object["metadata"]["uid"] = json!(format!("uid-{name}-{}", self.version));
        object["metadata"]["creationTimestamp"] = json!(Timestamp::now().to_string());
        self.store(collection, &name, object);
        whole(201, &self.objects[&key])
    }
}
