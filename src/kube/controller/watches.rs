//! The controller's watches: one list each when they start, and no question to
//! the API server after that.

use std::fmt::Debug;
use std::sync::Arc;

use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio_stream::StreamExt;

use super::cluster::{Cluster, Watched};
use super::facts::{AgentFacts, ClaimFacts, ClaimKey, NodeFacts, SnapshotFacts};
use crate::kube::crd::{LvmNode, LvmSnapshot, LvmVolume};
use crate::kube::partial::{Claim, KubeletDrivers, Node, Pod};

/// Where and what to watch.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    /// Namespace of the custom resources.
    pub(super) namespace: String,
    /// Namespace of the agents' pods: the controller's own.
    pub(super) agents: String,
    /// Their labels.
    pub(super) selector: String,
    /// Name of the driver.
    pub(super) driver: String,
}

/// What was seen.
enum Seen<K> {
    /// These are all.
    All(Vec<K>),
    /// This one is there, or has changed.
    One(K),
    /// This one is gone.
    Gone(K),
}

/// Feeds the cluster's state for as long as it is polled.
pub(super) async fn feed(client: Client, scope: Scope, cluster: Arc<Cluster>) {
    let c = &*cluster;
    let Scope {
        namespace,
        agents,
        selector,
        driver,
    } = scope;
    let whole = watcher::Config::default;
    let ours = |namespace: &str| -> (Api<LvmVolume>, Api<LvmNode>, Api<LvmSnapshot>) {
        (
            Api::namespaced(client.clone(), namespace),
            Api::namespaced(client.clone(), namespace),
            Api::namespaced(client.clone(), namespace),
        )
    };
    let (volumes, reports, snapshots) = ours(&namespace);
    let volumes = follow(volumes, whole(), Watched::Volumes, c, |seen| match seen {
        Seen::All(all) => c.set_volumes(all),
        Seen::One(one) => c.put_volume(one),
        Seen::Gone(one) => c.drop_volume(&one.name_any()),
    });
    let reports = follow(reports, whole(), Watched::LvmNodes, c, |seen| match seen {
        Seen::All(all) => c.set_reports(all),
        Seen::One(one) => c.put_report(one),
        Seen::Gone(one) => c.drop_report(&one.name_any()),
    });
    let snapshot = |one: &LvmSnapshot| (one.name_any(), SnapshotFacts::from(one));
    let snapshots = follow(
        snapshots,
        whole(),
        Watched::Snapshots,
        c,
        |seen| match seen {
            Seen::All(all) => c.set_snapshots(all.iter().map(snapshot).collect()),
            Seen::One(one) => c.put_snapshot(&one.name_any(), Some(SnapshotFacts::from(&one))),
            Seen::Gone(one) => c.put_snapshot(&one.name_any(), None),
        },
    );
    let nodes: Api<Node> = Api::all(client.clone());
    let node = |one: &Node| (one.name_any(), NodeFacts::from(one));
    let nodes = follow(nodes, whole(), Watched::Nodes, c, |seen| match seen {
        Seen::All(all) => c.set_nodes(all.iter().map(node).collect()),
        Seen::One(one) => c.put_node(&one.name_any(), NodeFacts::from(&one)),
        Seen::Gone(one) => c.drop_node(&one.name_any()),
    });
    let kubelets: Api<KubeletDrivers> = Api::all(client.clone());
    let knows = |one: &KubeletDrivers| one.spec.knows(&driver);
    let kubelets = follow(kubelets, whole(), Watched::Kubelets, c, |seen| match seen {
        Seen::All(all) => {
            let knowing = all.iter().filter(|one| knows(one));
            c.set_kubelets(knowing.map(ResourceExt::name_any).collect());
        }
        Seen::One(one) => c.put_kubelet(&one.name_any(), knows(&one)),
        Seen::Gone(one) => c.put_kubelet(&one.name_any(), false),
    });
    let pods: Api<Pod> = Api::namespaced(client.clone(), &agents);
    let agent = |one: &Pod| Some((one.name_any(), AgentFacts::of(one)?));
    let labelled = whole().labels(&selector);
    let agents = follow(pods, labelled, Watched::Agents, c, |seen| match seen {
        Seen::All(all) => c.set_agents(all.iter().filter_map(agent).collect()),
        Seen::One(one) => c.put_agent(&one.name_any(), AgentFacts::of(&one)),
        Seen::Gone(one) => c.put_agent(&one.name_any(), None),
    });
    let claims: Api<Claim> = Api::all(client.clone());
    let key = |one: &Claim| -> ClaimKey { (one.namespace().unwrap_or_default(), one.name_any()) };
    let claims = follow(claims, whole(), Watched::Claims, c, |seen| match seen {
        Seen::All(all) => {
            let facts = all.iter().map(|one| (key(one), ClaimFacts::from(one)));
            c.set_claims(facts.collect());
        }
        Seen::One(one) => c.put_claim(key(&one), ClaimFacts::from(&one)),
        Seen::Gone(one) => c.drop_claim(&key(&one), ClaimFacts::from(&one)),
    });
    tokio::join!(volumes, reports, snapshots, nodes, kubelets, agents, claims);
}

async fn follow<K>(
    api: Api<K>,
    config: watcher::Config,
    kind: Watched,
    cluster: &Cluster,
    mut seen: impl FnMut(Seen<K>),
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let stream = watcher(api, config)
        .default_backoff()
        .modify(|object| object.managed_fields_mut().clear());
    let mut stream = std::pin::pin!(stream);
    let mut listed = Vec::new();
    while let Some(event) = stream.next().await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(object)) => listed.push(object),
            Ok(watcher::Event::InitDone) => {
                seen(Seen::All(std::mem::take(&mut listed)));
                cluster.heard(kind);
            }
            Ok(watcher::Event::Apply(object)) => seen(Seen::One(object)),
            Ok(watcher::Event::Delete(object)) => seen(Seen::Gone(object)),
            Err(error) => {
                // What a role does not allow to see is done without, but for
                // the volumes and the nodes themselves.
                let optional = matches!(
                    kind,
                    Watched::Kubelets | Watched::Agents | Watched::Claims | Watched::Snapshots
                );
                if optional && is_forbidden(&error) {
                    cluster.heard(kind);
                }
                tracing::warn!(resource = kind.resource(), %error, "watch");
            }
        }
    }
}

fn is_forbidden(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => {
            super::api::is(error, 403)
        }
        _ => false,
    }
}
