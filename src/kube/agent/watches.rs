//! The agent's watches: one list each when they start, and no question to the
//! API server after that.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, ListParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource, ResourceExt};
use tokio::sync::watch;
use tokio_stream::{Stream, StreamExt};

use crate::kube::crd::{LvmNode, LvmVolume};

/// First wait before the API server is asked again; it doubles.
const FIRST: Duration = Duration::from_millis(500);
/// Longest wait.
const SLOWEST: Duration = Duration::from_secs(30);

/// How to watch the volumes of `node` only. Servers with our definitions
/// select them by field; with the peer's definitions, which cannot, all
/// volumes come and those of other nodes are passed over.
pub(super) async fn volumes_of(api: &Api<LvmVolume>, node: &str) -> watcher::Config {
    let field = format!("spec.ownerNodeID={node}");
    let mut wait = FIRST;
    loop {
        let ask = ListParams::default().fields(&field).limit(1);
        match api.list_metadata(&ask).await {
            Ok(_) => return watcher::Config::default().fields(&field),
            Err(kube::Error::Api(status)) if status.code == 400 => {
                tracing::info!("the LVMVolume definition has no selectable fields: watching all");
                return watcher::Config::default();
            }
            Err(error) => {
                tracing::warn!(%error, ?wait, "volumes cannot be watched yet");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(SLOWEST);
            }
        }
    }
}

/// Events of volumes, without what nobody needs in memory.
pub(super) fn volumes(
    api: Api<LvmVolume>,
    config: watcher::Config,
) -> impl Stream<Item = Result<watcher::Event<LvmVolume>, watcher::Error>> + Send {
    watcher(api, config).default_backoff().modify(|object| {
        object.managed_fields_mut().clear();
    })
}

/// Keeps `owner` and the labels of this node's Node up to date.
pub(super) async fn node(
    client: Client,
    name: String,
    owner: watch::Sender<Option<OwnerReference>>,
    mut labels: impl FnMut(Vec<(String, String)>),
) {
    let api: Api<Node> = Api::all(client);
    let mut stream = std::pin::pin!(one(api, &name));
    while let Some(event) = stream.next().await {
        let Some(node) = object(event) else { continue };
        labels(node.labels().clone().into_iter().collect());
        let reference = node.controller_owner_ref(&());
        owner.send_if_modified(|old| {
            let differs = *old != reference;
            *old = reference;
            differs
        });
    }
}

/// Keeps `present` at what the LVMNode of this node is.
pub(super) async fn lvm_node(
    api: Api<LvmNode>,
    name: String,
    present: watch::Sender<Option<Option<Arc<LvmNode>>>>,
) {
    let mut stream = std::pin::pin!(one(api, &name));
    let mut listed = None;
    while let Some(event) = stream.next().await {
        match event {
            Ok(watcher::Event::Init) => listed = None,
            Ok(watcher::Event::InitApply(node)) => listed = Some(Arc::new(node)),
            Ok(watcher::Event::InitDone) => {
                present.send_replace(Some(listed.take()));
            }
            Ok(watcher::Event::Apply(node)) => {
                present.send_replace(Some(Some(Arc::new(node))));
            }
            Ok(watcher::Event::Delete(_)) => {
                present.send_replace(Some(None));
            }
            Err(error) => tracing::debug!(%error, "watch of the LVMNode"),
        }
    }
}

fn one<K>(
    api: Api<K>,
    name: &str,
) -> impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send
where
    K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send,
    K: 'static,
{
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    watcher(api, config)
        .default_backoff()
        .modify(|object| object.managed_fields_mut().clear())
}

/// The object that an event shows to be there.
fn object<K>(event: Result<watcher::Event<K>, watcher::Error>) -> Option<K> {
    match event {
        Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => Some(object),
        Ok(_) => None,
        Err(error) => {
            tracing::debug!(%error, "watch");
            None
        }
    }
}
