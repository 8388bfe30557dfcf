//! An API server in memory: objects as JSON, versions, lists, watches, merge
//! patches, finalizers, conflicts, and faults on demand. Small on purpose: the
//! semantics are proven on a real server.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::merge;

type Chunk = Result<Frame<Bytes>, Infallible>;
type Answer = Response<StreamBody<UnboundedReceiverStream<Chunk>>>;

/// Collections whose names end a path; anything after is an object's name.
const KINDS: [&str; 5] = ["lvmvolumes", "lvmsnapshots", "lvmnodes", "nodes", "events"];

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
    down: bool,
    not_selectable: bool,
}

struct Watcher {
    collection: String,
    selector: Option<String>,
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
        let mut object = self.get(collection, name).unwrap();
        merge(&mut object, change);
        self.put(collection, object);
    }

    /// Asks for an object's deletion, as a user would.
    pub(in crate::kube) fn delete(&self, collection: &str, name: &str) {
        let time = "2026-01-01T00:00:00Z";
        let change = json!({ "metadata": { "deletionTimestamp": time } });
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

    /// Waits until `found` finds something.
    pub(in crate::kube) async fn until<T>(
        &self,
        what: &str,
        mut found: impl FnMut(&Self) -> Option<T>,
    ) -> T {
        let waiting = async {
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
        };
        tokio::time::timeout(Duration::from_secs(120), waiting)
            .await
            .unwrap_or_else(|_| panic!("{what} did not come to pass"))
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
            .map(|(key, value)| (key.to_owned(), value.replace("%3D", "=")))
            .collect();
        let body = body.collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let answer = {
            let mut state = self.state();
            if state.down {
                return Err(std::io::ErrorKind::ConnectionRefused.into());
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
            watcher.collection != collection
                || !selected(watcher.selector.as_deref(), &event["object"])
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
            _ => "OTHER",
        };
        self.asked.push((verb, kind.clone()));
        let fault = self
            .faults
            .iter()
            .position(|(v, k, _)| *v == verb && *k == kind);
        if let Some((_, _, code)) = fault.and_then(|at| self.faults.remove(at)) {
            return status(code, "a fault of the test");
        }
        let selector = query.get("fieldSelector").map(String::as_str);
        if self.not_selectable && selector.is_some_and(|s| s.starts_with("spec.")) {
            return status(400, "field label not supported");
        }
        match (verb, name) {
            ("LIST", _) => self.list(collection, selector),
            ("WATCH", _) => self.watch(collection, selector, query),
            ("GET", Some(name)) => self.show(collection, name),
            ("PATCH", Some(name)) => self.patch(collection, name, body),
            ("POST", None) => self.create(collection, body),
            _ => status(405, "not in this server"),
        }
    }

    fn list(&self, collection: &str, selector: Option<&str>) -> Answer {
        let items: Vec<_> = self
            .objects
            .iter()
            .filter(|((c, _), object)| c == collection && selected(selector, object))
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
        selector: Option<&str>,
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
            if *version > from && of == collection && selected(selector, &event["object"]) {
                chunks.send(line(event)).unwrap();
            }
        }
        self.watchers.push(Watcher {
            collection: collection.to_owned(),
            selector: selector.map(str::to_owned),
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
        let wanted = &change["metadata"]["resourceVersion"];
        if !wanted.is_null() && *wanted != object["metadata"]["resourceVersion"] {
            return status(409, "the object has been modified");
        }
        merge(&mut object, change);
        self.store(collection, name, object.clone());
        whole(200, self.objects.get(&key).unwrap_or(&object))
    }

    fn create(&mut self, collection: &str, body: &Value) -> Answer {
        let mut object = body.clone();
        if object["metadata"]["name"].is_null() {
            let prefix = object["metadata"]["generateName"].as_str().unwrap_or("x");
            object["metadata"]["name"] = json!(format!("{prefix}{}", self.version));
        }
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let key = (collection.to_owned(), name.clone());
        if self.objects.contains_key(&key) {
            return status(409, "already exists");
        }
        object["metadata"]["uid"] = json!(format!("uid-{name}"));
        self.store(collection, &name, object);
        whole(201, &self.objects[&key])
    }
}

/// `path=value` of a dotted path.
fn selected(selector: Option<&str>, object: &Value) -> bool {
    let Some((path, value)) = selector.and_then(|s| s.split_once('=')) else {
        return true;
    };
    let pointer = format!("/{}", path.replace('.', "/"));
    object.pointer(&pointer).and_then(Value::as_str) == Some(value)
}

fn line(value: &Value) -> Chunk {
    Ok(Frame::data(Bytes::from(format!("{value}\n"))))
}

fn streamed(code: u16, chunks: mpsc::UnboundedReceiver<Chunk>) -> Answer {
    let mut answer = Response::new(StreamBody::new(UnboundedReceiverStream::new(chunks)));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap();
    answer
}

fn whole(code: u16, value: &Value) -> Answer {
    let (chunks, body) = mpsc::unbounded_channel();
    chunks.send(line(value)).unwrap();
    streamed(code, body)
}

fn status(code: u16, message: &str) -> Answer {
    whole(code, &failure(code, message))
}

fn failure(code: u16, message: &str) -> Value {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        400 => "BadRequest",
        _ => "InternalError",
    };
    json!({
        "apiVersion": "v1", "kind": "Status", "status": "Failure",
        "code": code, "reason": reason, "message": message,
    })
}
