//! What the API server in memory holds, and what a request does to it.

use std::collections::{BTreeMap, VecDeque};

use hyper::Method;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;

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
pub(super) const DELETED_AT: &str = "2026-01-01T00:00:00Z";

#[derive(Default)]
pub(super) struct State {
    /// By collection path and name.
    pub(super) objects: BTreeMap<(String, String), Value>,
    pub(super) version: u64,
    pub(super) history: Vec<(u64, String, Value)>,
    /// Watches from before this version are told that it has expired.
    pub(super) forgotten: u64,
    pub(super) watchers: Vec<Watcher>,
    /// Verb and kind of every request.
    pub(super) asked: Vec<(&'static str, String)>,
    pub(super) faults: VecDeque<(&'static str, String, u16)>,
    /// Answers that never end.
    pub(super) held: Vec<mpsc::UnboundedSender<Chunk>>,
    pub(super) forbidden: Vec<(&'static str, String)>,
    /// By verb and kind: what happens just before the next such request.
    pub(super) overtakes: Vec<(&'static str, String, Vec<Value>)>,
    pub(super) down: bool,
    pub(super) not_selectable: bool,
}

pub(super) struct Watcher {
    pub(super) collection: String,
    pub(super) selector: Selector,
    pub(super) chunks: mpsc::UnboundedSender<Chunk>,
}

impl State {
    pub(super) fn store(&mut self, collection: &str, name: &str, mut object: Value) {
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

    pub(super) fn handle(
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

    pub(super) fn replace(&mut self, collection: &str, name: &str, object: &Value) -> Answer {
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
    pub(super) fn merge_lists(&self, path: &str, change: &mut Value) {
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
