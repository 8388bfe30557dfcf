//! Kubernetes Events that a person can act on.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Event as CoreEvent, EventSource, ObjectReference};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};

use super::names::MANAGER;

/// The same words about the same object are not repeated within this time: a
/// reconciler that keeps failing must not write to the API server each time.
const QUIET: Duration = Duration::from_secs(600);
/// Objects whose last words are remembered.
const REMEMBERED: usize = 4096;
/// Most bytes of a note that the API server takes.
const NOTE: usize = 1024;
/// Most bytes of an object's name in an Event's: the rest is for the time.
const NAME: usize = 220;

/// Something to say about an object.
#[derive(Clone, Debug)]
pub struct Saying {
    /// Whether somebody should look at it.
    pub warning: bool,
    /// One word, such as `ProvisioningFailed`.
    pub reason: &'static str,
    /// What was being done, such as `Provision`.
    pub action: &'static str,
    /// What happened and what to do.
    pub note: String,
}

/// Id of an object, or its name, and a reason.
type Topic = (Option<String>, &'static str);

/// Writes Events without making anybody wait. Other words make another Event:
/// one that is there cannot get them, so they would not be seen.
pub struct Events {
    writer: Writer,
    said: Mutex<HashMap<Topic, (String, Instant)>>,
}

/// Who writes, and how.
#[derive(Clone)]
struct Writer {
    client: Client,
    instance: String,
    /// The roles are the peer's, which allow only the core group's Events.
    core: Arc<AtomicBool>,
}

impl Events {
    /// Reports as `instance`: a node's or a pod's name.
    #[must_use]
    pub fn new(client: Client, instance: &str) -> Self {
        Self {
            writer: Writer {
                client,
                instance: instance.to_owned(),
                core: Arc::default(),
            },
            said: Mutex::default(),
        }
    }

    /// Says something about an object, unless it was said a short while ago.
    /// An Event that cannot be written is logged and forgotten.
    pub fn say(&self, about: ObjectReference, saying: Saying) {
        let Saying {
            warning,
            reason,
            action: _,
            note,
        } = &saying;
        let object = about.name.clone().unwrap_or_default();
        if *warning {
            tracing::warn!(object, reason, note);
        } else {
            tracing::info!(object, reason, note);
        }
        if !self.is_news(&about, reason, note) {
            return;
        }
        let writer = self.writer.clone();
        tokio::spawn(async move {
            let reason = saying.reason;
            if let Err(error) = writer.write(about, saying).await {
                tracing::warn!(object, reason, %error, "an Event is not written");
            }
        });
    }

    fn is_news(&self, about: &ObjectReference, reason: &'static str, note: &str) -> bool {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() >= REMEMBERED {
            said.retain(|_, (_, when)| when.elapsed() < QUIET);
        }
        let key = (about.uid.clone().or_else(|| about.name.clone()), reason);
        match said.get(&key) {
            Some((last, when)) if last == note && when.elapsed() < QUIET => false,
            _ => {
                said.insert(key, (note.to_owned(), Instant::now()));
                true
            }
        }
    }
}

impl Writer {
    async fn write(&self, about: ObjectReference, saying: Saying) -> Result<(), kube::Error> {
        let namespace = about.namespace.as_deref().unwrap_or("default");
        let event = self.event(&about, saying);
        let parameters = PostParams::default();
        let core: Api<CoreEvent> = Api::namespaced(self.client.clone(), namespace);
        if self.core.load(Ordering::Relaxed) {
            core.create(&parameters, &as_core(event)).await?;
            return Ok(());
        }
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let refusal = match api.create(&parameters, &event).await {
            Ok(_) => return Ok(()),
            Err(refusal) => refusal,
        };
        // Refused too while a namespace goes: only a success shows the cause.
        if !matches!(&refusal, kube::Error::Api(status) if status.code == 403)
            || core.create(&parameters, &as_core(event)).await.is_err()
        {
            return Err(refusal);
        }
        if !self.core.swap(true, Ordering::Relaxed) {
            tracing::info!("no role allows Events of events.k8s.io: they are the core group's");
        }
        Ok(())
    }

    fn event(&self, about: &ObjectReference, saying: Saying) -> Event {
        let Saying {
            warning,
            reason,
            action,
            mut note,
        } = saying;
        while note.len() > NOTE {
            note.pop();
        }
        let now = Timestamp::now();
        let about_name = about.name.as_deref().unwrap_or(MANAGER);
        let mut name = about_name.to_owned();
        name.truncate(NAME);
        Event {
            metadata: ObjectMeta {
                // As other reporters name theirs. A prefix that ends with a dot is
                // no name that a server completes.
                name: Some(format!("{name}.{:x}", now.as_nanosecond())),
                namespace: about.namespace.clone(),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            type_: Some(if warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(reason.to_owned()),
            action: Some(action.to_owned()),
            note: Some(note),
            regarding: Some(about.clone()),
            reporting_controller: Some(MANAGER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            ..Event::default()
        }
    }
}

/// The same as an Event of the core group.
fn as_core(event: Event) -> CoreEvent {
    let time = event.event_time.map(|time| Time(time.0));
    CoreEvent {
        metadata: event.metadata,
        first_timestamp: time.clone(),
        last_timestamp: time,
        count: Some(1),
        type_: event.type_,
        reason: event.reason,
        action: event.action,
        message: event.note,
        involved_object: event.regarding.unwrap_or_default(),
        source: Some(EventSource {
            component: event.reporting_controller.clone(),
            host: None,
        }),
        reporting_component: event.reporting_controller,
        reporting_instance: event.reporting_instance,
        ..CoreEvent::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::tests::fake::FakeApi;

    const OURS: &str = "/apis/events.k8s.io/v1/namespaces/openebs/events";
    const CORE: &str = "/api/v1/namespaces/openebs/events";

    fn say(events: &Events, note: &str) {
        let about = ObjectReference {
            kind: Some("LVMVolume".to_owned()),
            name: Some("pvc-1".to_owned()),
            namespace: Some("openebs".to_owned()),
            uid: Some("uid-1".to_owned()),
            ..ObjectReference::default()
        };
        let saying = Saying {
            warning: true,
            reason: "ResizeFailed",
            action: "Resize",
            note: note.to_owned(),
        };
        events.say(about, saying);
    }

    /// Waits until an Event in `collection` has this text.
    async fn written(api: &FakeApi, collection: &str, field: &str, text: &str) {
        let found = |api: &FakeApi| {
            let all = api.all(collection);
            all.iter().any(|event| event[field] == text).then_some(())
        };
        api.until(&format!("an Event {text:?}"), found).await;
    }

    #[tokio::test]
    async fn other_words_reach_the_server_and_the_same_are_not_repeated() {
        let api = FakeApi::default();
        let events = Events::new(api.client(), "n1");
        for _ in 0..2 {
            say(&events, "full");
            written(&api, OURS, "note", "full").await;
        }
        say(&events, "VG missing");
        written(&api, OURS, "note", "VG missing").await;
        let long = "x".repeat(NOTE + 1);
        say(&events, &long);
        written(&api, OURS, "note", &long[1..]).await;
        let all = api.all(OURS);
        assert_eq!(all.len(), 3, "{all:?}");
        assert_eq!(api.count("POST", "events"), 3);
        let event = &all[0];
        assert_eq!(event["type"], "Warning");
        assert_eq!(event["regarding"]["uid"], "uid-1");
        assert_eq!(event["reportingInstance"], "n1");
        assert_eq!(event["action"], "Resize");
    }

    #[tokio::test]
    async fn where_only_the_core_group_s_are_allowed_they_are_written() {
        let api = FakeApi::default();
        api.forbid("POST", "/apis/events.k8s.io/");
        let events = Events::new(api.client(), "n1");
        for note in ["one", "two"] {
            say(&events, note);
            written(&api, CORE, "message", note).await;
        }
        assert_eq!(api.count("POST", "events"), 3, "one was refused");
        let event = &api.all(CORE)[0];
        assert_eq!(event["involvedObject"]["uid"], "uid-1");
        assert_eq!(event["reason"], "ResizeFailed");
        assert!(!event["lastTimestamp"].is_null());
    }

    #[tokio::test]
    async fn a_namespace_that_goes_changes_nothing_for_others() {
        let api = FakeApi::default();
        for _ in 0..2 {
            api.fail("POST", "events", 403);
        }
        let events = Events::new(api.client(), "n1");
        say(&events, "lost");
        let tried = |api: &FakeApi| (api.count("POST", "events") == 2).then_some(());
        api.until("both are refused", tried).await;
        say(&events, "two");
        written(&api, OURS, "note", "two").await;
    }
}
