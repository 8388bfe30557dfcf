//! A test's own namespace and classes, and their end.

use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Namespace, PersistentVolume, PersistentVolumeClaim, Pod as PodObject,
};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, ApiResource, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::{Client, Config};
use serde_json::json;

use crate::objects::{Claim, Class, Pod};
use crate::remains::remains;
use crate::wait::Waiting;
use crate::{NAMESPACE, Node, nodes};

/// What a story's objects that are in no namespace, and its namespace, have.
const LABEL: &str = "story";

/// The driver's own objects of a kind, without a type of the driver's own.
pub(crate) fn custom(client: &Client, kind: &str, plural: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("local.openebs.io", "v1alpha1", kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, plural);
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

/// The cluster as its administrator sees it.
#[derive(Clone)]
pub struct Cluster {
    /// Its client.
    pub client: Client,
}

impl Cluster {
    /// Connects by the kubeconfig of `cargo xtask cluster`.
    ///
    /// # Panics
    /// If there is none.
    pub async fn connect() -> Self {
        let path = std::env::var("LVCSI_KUBECONFIG")
            .expect("LVCSI_KUBECONFIG: run by cargo xtask cluster test");
        let file = Kubeconfig::read_from(path).expect("a kubeconfig");
        let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
            .await
            .expect("a configuration");
        // Watches outlive any answer.
        config.read_timeout = Some(Duration::from_secs(600));
        let client = Client::try_from(config).expect("a client");
        Self { client }
    }

    /// LVMVolumes.
    #[must_use]
    pub fn volumes(&self) -> Api<DynamicObject> {
        custom(&self.client, "LVMVolume", "lvmvolumes")
    }

    /// PVs.
    #[must_use]
    pub fn pvs(&self) -> Api<PersistentVolume> {
        Api::all(self.client.clone())
    }

    /// Begins a story in a namespace of its own. What a story left that ended
    /// early goes first: its failure is its own.
    pub async fn story(&self, name: &str) -> Story {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let stories = ListParams::default().labels(LABEL);
        for left in namespaces.list(&stories).await.expect("namespaces").items {
            let story = self.story_of(&left.metadata.name.unwrap_or_default());
            story.clear().await;
            story.namespace_gone().await;
        }
        let namespace: Namespace = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {LABEL: name}},
        }))
        .expect("a namespace");
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap_or_else(|error| panic!("namespace {name}: {error}"));
        let story = self.story_of(name);
        // Pods need it, and its controller may be a moment late.
        let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> =
            Api::namespaced(self.client.clone(), name);
        let exists = |object: Option<&k8s_openapi::api::core::v1::ServiceAccount>| object.is_some();
        story
            .until("the service account", accounts, "default", exists)
            .await;
        story
    }

    fn story_of(&self, name: &str) -> Story {
        Story {
            cluster: self.clone(),
            name: name.to_owned(),
            waiting: Waiting {
                client: self.client.clone(),
                namespace: name.to_owned(),
            },
        }
    }
}

/// One test's objects.
pub struct Story {
    /// Where it happens.
    pub cluster: Cluster,
    /// Its namespace, and the first part of its classes' names.
    pub name: String,
    waiting: Waiting,
}

impl std::ops::Deref for Story {
    type Target = Waiting;

    fn deref(&self) -> &Waiting {
        &self.waiting
    }
}

impl Story {
    /// PVCs.
    #[must_use]
    pub fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.cluster.client.clone(), &self.name)
    }

    /// Pods.
    #[must_use]
    pub fn pods(&self) -> Api<PodObject> {
        Api::namespaced(self.cluster.client.clone(), &self.name)
    }

    /// Makes a StorageClass; returns its name, which begins with the story's.
    pub async fn class(&self, class: Class) -> String {
        let name = format!("{}-{}", self.name, class.name);
        let classes: Api<StorageClass> = Api::all(self.cluster.client.clone());
        let object = class.object(&name, &self.name);
        classes
            .create(&PostParams::default(), &object)
            .await
            .unwrap_or_else(|error| panic!("StorageClass {name}: {error}"));
        name
    }

    /// Makes a PVC.
    pub async fn claim(&self, claim: Claim<'_>) {
        let object = claim.object();
        self.claims()
            .create(&PostParams::default(), &object)
            .await
            .unwrap_or_else(|error| panic!("PVC {}: {error}", claim.name));
    }

    /// Makes a pod.
    pub async fn pod(&self, pod: Pod<'_>) {
        let object = pod.object();
        self.pods()
            .create(&PostParams::default(), &object)
            .await
            .unwrap_or_else(|error| panic!("pod {}: {error}", pod.name));
    }

    /// Asks for a larger volume.
    pub async fn grow(&self, claim: &str, size: &str) {
        let patch = json!({"spec": {"resources": {"requests": {"storage": size}}}});
        self.claims()
            .patch(claim, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap_or_else(|error| panic!("PVC {claim}: {error}"));
    }

    /// Waits until a claim's volume has at least this size.
    pub async fn grown(&self, claim: &str, size: &str) {
        let wanted = crate::sized(size);
        let has = move |object: Option<&PersistentVolumeClaim>| {
            let capacity = object.and_then(|claim| claim.status.as_ref()?.capacity.as_ref());
            let capacity = capacity.and_then(|capacity| capacity.get("storage"));
            capacity.is_some_and(|quantity| crate::sized(&quantity.0) >= wanted)
        };
        self.until("the volume has grown", self.claims(), claim, has)
            .await;
    }

    /// The node that a volume is on.
    pub async fn node_of(&self, pv: &str) -> Node {
        let volume = self
            .cluster
            .volumes()
            .get(pv)
            .await
            .unwrap_or_else(|error| panic!("LVMVolume {pv}: {error}"));
        let owner = volume.data["spec"]["ownerNodeID"].as_str();
        Node::named(owner.expect("an owner"))
    }

    /// The id of a running pod's container.
    pub async fn container(&self, pod: &str) -> String {
        container(self.running(pod).await)
    }

    /// Runs a command in a pod's container; returns what it printed.
    pub async fn exec(&self, pod: &str, script: &str) -> String {
        let object = self.running(pod).await;
        let node = object.spec.clone().and_then(|spec| spec.node_name);
        let id = container(object);
        let node = Node::named(&node.expect("a node"));
        let script = script.replace('\'', r"'\''");
        node.run(&format!(
            "ctr -n k8s.io task exec --exec-id x$RANDOM$RANDOM {id} sh -c '{script}'"
        ))
    }

    /// Deletes a pod at once and waits for its end.
    pub async fn remove_pod(&self, pod: &str) {
        // Without a period the object goes before the kubelet has unmounted anything.
        let params = DeleteParams::default().grace_period(1);
        let deleted = self.pods().delete(pod, &params).await;
        deleted.unwrap_or_else(|error| panic!("pod {pod}: {error}"));
        self.gone("the pod is gone", self.pods(), pod).await;
    }

    /// Deletes a claim and waits for the end of its volume.
    pub async fn remove_claim(&self, claim: &str) {
        let object = self.claims().get(claim).await.expect("a claim");
        let deleted = self.claims().delete(claim, &DeleteParams::default()).await;
        deleted.unwrap_or_else(|error| panic!("PVC {claim}: {error}"));
        self.gone("the claim is gone", self.claims(), claim).await;
        if let Some(pv) = object.spec.and_then(|spec| spec.volume_name) {
            self.gone("the PV is gone", self.cluster.pvs(), &pv).await;
        }
    }

    /// Removes everything and asserts that nothing is left, in the cluster and on
    /// the nodes.
    pub async fn end(self) {
        self.clear().await;
        let left = self.remains().await;
        assert!(left.is_empty(), "left over:\n{}", left.join("\n"));
        // What is in it is not the driver's: nobody has to wait for the rest.
        self.namespace_gone().await;
    }

    /// Removes every object of the story, and asks for its namespace's end.
    async fn clear(&self) {
        let all = ListParams::default();
        let pods = self.pods().list(&all).await.expect("pods").items;
        for pod in pods {
            let params = DeleteParams::default().grace_period(1);
            let name = pod.metadata.name.unwrap_or_default();
            // It may be on its way out.
            let _ = self.pods().delete(&name, &params).await;
            self.gone("the pod is gone", self.pods(), &name).await;
        }
        let claims = self.claims().list(&all).await.expect("claims").items;
        for claim in &claims {
            let name = claim.metadata.name.as_deref().unwrap_or_default();
            let _ = self.claims().delete(name, &DeleteParams::default()).await;
        }
        for claim in claims {
            let name = claim.metadata.name.unwrap_or_default();
            self.gone("the claim is gone", self.claims(), &name).await;
            if let Some(pv) = claim.spec.and_then(|spec| spec.volume_name) {
                self.gone("the PV is gone", self.cluster.pvs(), &pv).await;
            }
        }
        let classes: Api<StorageClass> = Api::all(self.cluster.client.clone());
        let own = ListParams::default().labels(&format!("{LABEL}={}", self.name));
        for class in classes.list(&own).await.expect("classes").items {
            let name = class.metadata.name.unwrap_or_default();
            let _ = classes.delete(&name, &DeleteParams::default()).await;
        }
        let namespaces: Api<Namespace> = Api::all(self.cluster.client.clone());
        // It may be on its way out.
        let _ = namespaces
            .delete(&self.name, &DeleteParams::default())
            .await;
    }

    async fn namespace_gone(&self) {
        let namespaces: Api<Namespace> = Api::all(self.cluster.client.clone());
        self.gone("the namespace is gone", namespaces, &self.name)
            .await;
    }

    /// What is left of the volumes, in the cluster and on every node.
    async fn remains(&self) -> Vec<String> {
        let pvs = self.cluster.pvs().list(&ListParams::default()).await;
        let mut left: Vec<String> = pvs
            .expect("PVs")
            .items
            .into_iter()
            .map(|pv| format!("PV {}", pv.metadata.name.unwrap_or_default()))
            .collect();
        let volumes = self.cluster.volumes().list(&ListParams::default()).await;
        left.extend(
            volumes
                .expect("LVMVolumes")
                .items
                .into_iter()
                .map(|volume| format!("LVMVolume {}", volume.metadata.name.unwrap_or_default())),
        );
        for node in nodes() {
            left.extend(remains(node));
        }
        left
    }
}

fn container(pod: PodObject) -> String {
    let status = pod.status.and_then(|status| status.container_statuses);
    let id = status
        .and_then(|all| all.into_iter().next()?.container_id)
        .expect("a container");
    id.trim_start_matches("containerd://").to_owned()
}
