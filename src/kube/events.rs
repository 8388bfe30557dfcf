//! Kubernetes Events that a person can act on.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};

use super::names::MANAGER;

/// The same words about the same object are not repeated within this time: a
/// reconciler that keeps failing must not write to the API server each time.
const QUIET: Duration = Duration::from_secs(600);
/// Objects whose last words are remembered.
const REMEMBERED: usize = 4096;
/// Most bytes of a note that the API server takes.
const NOTE: usize = 1024;

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

/// Writes Events without making anybody wait.
pub struct Events {
    recorder: Recorder,
    said: Mutex<HashMap<Topic, (String, Instant)>>,
}

impl Events {
    /// Reports as `instance`: a node's or a pod's name.
    #[must_use]
    pub fn new(client: Client, instance: &str) -> Self {
        let reporter = Reporter {
            controller: MANAGER.to_owned(),
            instance: Some(instance.to_owned()),
        };
        Self {
            recorder: Recorder::new(client, reporter),
            said: Mutex::default(),
        }
    }

    /// Says something about an object, unless it was said a short while ago.
    /// An Event that cannot be written is logged and forgotten.
    pub fn say(&self, about: ObjectReference, saying: Saying) {
        let Saying {
            warning,
            reason,
            action,
            mut note,
        } = saying;
        let object = about.name.clone().unwrap_or_default();
        if warning {
            tracing::warn!(object, reason, note);
        } else {
            tracing::info!(object, reason, note);
        }
        if !self.is_news(&about, reason, &note) {
            return;
        }
        while note.len() > NOTE {
            note.pop();
        }
        let recorder = self.recorder.clone();
        tokio::spawn(async move {
            let event = Event {
                type_: if warning {
                    EventType::Warning
                } else {
                    EventType::Normal
                },
                reason: reason.to_owned(),
                note: Some(note),
                action: action.to_owned(),
                secondary: None,
            };
            if let Err(error) = recorder.publish(&event, &about).await {
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
