//! An API server in memory: objects as JSON, versions, lists, watches, merge
//! patches, finalizers, preconditions, conflicts, and faults on demand. Small on
//! purpose: the semantics are proven on a real server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::Request;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::answer::Answer;
use super::merge;
use super::state::{DELETED_AT, State};

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
