//! Waiting for what happens to objects: by watches, never by asking again.

use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod as PodObject;
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::CSINode;
use kube::api::{Api, ListParams};
use kube::core::DynamicObject;
use kube::runtime::wait::{Condition, await_condition, conditions};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

use crate::story::custom;
use crate::{Node, sized};

/// Far more than a busy machine takes for anything that works.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// A client whose waits end with a report.
#[derive(Clone)]
pub struct Waiting {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl Waiting {
    /// Waits until an object is as wanted and returns it (nothing if it was
    /// wanted gone).
    ///
    /// # Panics
    /// After [`PATIENCE`], with the object and the namespace's Events.
    pub async fn until<K>(
        &self,
        what: &str,
        api: Api<K>,
        name: &str,
        wanted: impl Condition<K>,
    ) -> Option<K>
    where
        K: Clone + Debug + Send + DeserializeOwned + Resource + serde::Serialize + 'static,
    {
        let waiting = await_condition(api.clone(), name, wanted);
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(Ok(object)) => object,
            Ok(Err(error)) => panic!("{what}: {name}: {error}"),
            Err(_) => {
                let object = api.get_opt(name).await.ok().flatten();
                let object = object.map(|o| serde_json::to_string(&o).unwrap_or_default());
                panic!(
                    "{what}: {name} is not so after {PATIENCE:?}: {}\n{}",
                    object.unwrap_or_else(|| "no such object".to_owned()),
                    self.report().await
                );
            }
        }
    }

    /// Waits until an object is no more.
    pub async fn gone<K>(&self, what: &str, api: Api<K>, name: &str)
    where
        K: Clone + Debug + Send + DeserializeOwned + Resource + serde::Serialize + 'static,
    {
        let gone = |object: Option<&K>| object.is_none();
        self.until(what, api, name, gone).await;
    }

    /// Waits until a claim is bound; returns its volume's name.
    pub async fn bound(&self, claim: &str) -> String {
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &self.namespace);
        let bound = |object: Option<&PersistentVolumeClaim>| {
            let status = object.and_then(|claim| claim.status.as_ref());
            status.and_then(|status| status.phase.as_deref()) == Some("Bound")
        };
        let claim = self.until("the claim is bound", api, claim, bound).await;
        let spec = claim.and_then(|claim| claim.spec);
        spec.and_then(|spec| spec.volume_name)
            .expect("a bound claim names its volume")
    }

    /// Waits until a pod runs.
    pub async fn running(&self, pod: &str) -> PodObject {
        let api = Api::namespaced(self.client.clone(), &self.namespace);
        let pod = self
            .until("the pod runs", api, pod, conditions::is_pod_running())
            .await;
        pod.expect("a running pod exists")
    }

    /// Waits until a pod has ended well.
    pub async fn succeeded(&self, pod: &str) {
        let phase = |object: &PodObject| {
            let status = object.status.as_ref();
            status.and_then(|status| status.phase.clone())
        };
        let ended = move |object: Option<&PodObject>| {
            matches!(
                object.and_then(phase).as_deref(),
                Some("Succeeded" | "Failed")
            )
        };
        let api = Api::namespaced(self.client.clone(), &self.namespace);
        let pod = self.until("the pod ends", api, pod, ended).await;
        let pod = pod.expect("an ended pod exists");
        if phase(&pod).as_deref() != Some("Succeeded") {
            panic!("the pod failed: {pod:?}\n{}", self.report().await);
        }
    }

    /// Waits until an LVMVolume is as wanted.
    pub async fn until_volume(
        &self,
        what: &str,
        name: &str,
        wanted: impl Condition<DynamicObject>,
    ) {
        let api = custom(&self.client, "LVMVolume", "lvmvolumes");
        self.until(what, api, name, wanted).await;
    }

    /// Waits until an LVMVolume is no more.
    pub async fn gone_volume(&self, name: &str) {
        let gone = |object: Option<&DynamicObject>| object.is_none();
        self.until_volume("the LVMVolume is gone", name, gone).await;
    }

    /// Waits until a node reports free bytes of a VG that are as wanted.
    pub async fn reported(&self, node: Node, vg: &str, wanted: impl Fn(u64) -> bool) {
        let api = custom(&self.client, "LVMNode", "lvmnodes");
        let fits = |object: Option<&DynamicObject>| {
            let groups = object.and_then(|object| object.data["volumeGroups"].as_array());
            let group = groups.and_then(|all| all.iter().find(|group| group["name"] == vg));
            let free = group.and_then(|group| group["free"].as_str());
            free.is_some_and(|free| wanted(sized(free)))
        };
        self.until("the node reports its VG", api, &node.name(), fits)
            .await;
    }

    /// Waits until the kubelet of a node has registered a driver.
    pub async fn driver_is_on(&self, node: Node, driver: &str) {
        let api: Api<CSINode> = Api::all(self.client.clone());
        let registered = |object: Option<&CSINode>| {
            object.is_some_and(|node| node.spec.drivers.iter().any(|known| known.name == driver))
        };
        self.until("the driver is registered", api, &node.name(), registered)
            .await;
    }

    /// Waits until no pod with a label is left.
    pub async fn no_pods(&self, namespace: &str, label: &str) {
        let api: Api<PodObject> = Api::namespaced(self.client.clone(), namespace);
        let params = ListParams::default().labels(label);
        for pod in api.list(&params).await.expect("pods").items {
            let name = pod.metadata.name.unwrap_or_default();
            self.gone("the pod is gone", api.clone(), &name).await;
        }
    }

    /// Waits for an Event with this reason on an object; returns its message.
    pub async fn event(&self, object: &str, reason: &str) -> String {
        self.event_in(&self.namespace, object, reason).await
    }

    /// The same in another namespace.
    pub async fn event_in(&self, namespace: &str, object: &str, reason: &str) -> String {
        let fits = |event: &Event| {
            event.involved_object.name.as_deref() == Some(object)
                && event.reason.as_deref() == Some(reason)
        };
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let seek = async {
            let mut events = pin!(watcher(api, watcher::Config::default()).applied_objects());
            while let Some(event) = events.next().await {
                if let Some(event) = event.ok().filter(fits) {
                    return event.message.unwrap_or_default();
                }
            }
            panic!("the watch of Events ended")
        };
        match tokio::time::timeout(PATIENCE, seek).await {
            Ok(message) => message,
            Err(_) => panic!("no Event {reason} on {object}\n{}", self.report().await),
        }
    }

    /// The Events of the namespace, for messages.
    pub async fn events(&self) -> Vec<Event> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let list = api.list(&ListParams::default()).await;
        list.map(|list| list.items).unwrap_or_default()
    }

    /// What a person would look at after a failure.
    pub async fn report(&self) -> String {
        let mut report = String::new();
        for event in self.events().await {
            report.push_str(&format!(
                "event {} {}: {}: {}\n",
                event.involved_object.kind.unwrap_or_default(),
                event.involved_object.name.unwrap_or_default(),
                event.reason.unwrap_or_default(),
                event.message.unwrap_or_default()
            ));
        }
        let volumes = custom(&self.client, "LVMVolume", "lvmvolumes");
        if let Ok(list) = volumes.list(&ListParams::default()).await {
            for volume in list.items {
                report.push_str(&format!(
                    "lvmvolume {}: {} {}\n",
                    volume.metadata.name.unwrap_or_default(),
                    volume.data["spec"],
                    volume.data["status"]
                ));
            }
        }
        report
    }
}
