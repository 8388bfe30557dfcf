//! What the watches have seen, and what is promised beyond it. Every decision
//! (see [`decide`](super::decide)) is made from memory, under one lock, so that
//! two calls never take the same space.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use kube::ResourceExt;
use tokio::sync::{Notify, watch};

use super::facts::{AgentFacts, ClaimFacts, ClaimKey, NodeFacts, SnapshotFacts};
use super::state::State;
use crate::kube::crd::{LvmNode, LvmVolume};

/// The kinds that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Watched {
    Volumes,
    Nodes,
    Kubelets,
    LvmNodes,
    Agents,
    Snapshots,
    Claims,
}

impl Watched {
    /// All of them.
    pub(super) const ALL: [Self; 7] = [
        Self::Volumes,
        Self::Nodes,
        Self::Kubelets,
        Self::LvmNodes,
        Self::Agents,
        Self::Snapshots,
        Self::Claims,
    ];

    /// The resource's name.
    pub(super) fn resource(self) -> &'static str {
        match self {
            Self::Volumes => "lvmvolumes",
            Self::Nodes => "nodes",
            Self::Kubelets => "csinodes",
            Self::LvmNodes => "lvmnodes",
            Self::Agents => "pods",
            Self::Snapshots => "lvmsnapshots",
            Self::Claims => "persistentvolumeclaims",
        }
    }
}

/// What is known of the cluster.
#[derive(Debug)]
pub(super) struct Cluster {
    state: Mutex<State>,
    /// Kinds of which everything was heard once.
    heard: watch::Sender<BTreeSet<Watched>>,
    /// Counts changes.
    changes: watch::Sender<u64>,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            heard: watch::Sender::new(BTreeSet::new()),
            changes: watch::Sender::new(0),
        }
    }
}

impl Cluster {
    /// The state, locked.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hears of every change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Everything of this kind was heard, or never will be.
    pub(super) fn heard(&self, kind: Watched) {
        self.heard.send_if_modified(|heard| heard.insert(kind));
        self.changed();
    }

    /// Kinds of which not everything was heard yet.
    pub(super) fn unheard(&self) -> Vec<Watched> {
        let heard = self.heard.borrow();
        let all = Watched::ALL.into_iter();
        all.filter(|kind| !heard.contains(kind)).collect()
    }

    /// Waits until everything was heard.
    pub(super) async fn complete(&self) {
        let mut heard = self.heard.subscribe();
        // The sender lives as long as self.
        let _ = heard
            .wait_for(|heard| heard.len() == Watched::ALL.len())
            .await;
    }

    // Volumes.

    /// A volume is there, or has changed.
    pub(super) fn put_volume(&self, object: LvmVolume) {
        let name = object.name_any();
        self.state().put_volume(name.clone(), Arc::new(object));
        self.tell(&name);
    }

    /// A volume is gone.
    pub(super) fn drop_volume(&self, name: &str) {
        self.state().drop_volume(name);
        self.tell(name);
    }

    /// These are all volumes.
    pub(super) fn set_volumes(&self, objects: Vec<LvmVolume>) {
        let present: HashSet<_> = objects.iter().map(ResourceExt::name_any).collect();
        let absent: Vec<_> = {
            let state = self.state();
            let known = state.volumes.keys();
            known
                .filter(|name| !present.contains(*name))
                .cloned()
                .collect()
        };
        for name in absent {
            self.drop_volume(&name);
        }
        for object in objects {
            self.put_volume(object);
        }
    }

    fn tell(&self, volume: &str) {
        if let Some(waiter) = self.state().waiters.get(volume) {
            waiter.notify_waiters();
        }
        self.changed();
    }

    /// The volume as it was seen last.
    pub(super) fn volume(&self, name: &str) -> Option<Arc<LvmVolume>> {
        self.state().volumes.get(name).cloned()
    }

    /// Waits until `found` finds something in how the volume stands.
    pub(super) async fn until<T>(
        &self,
        name: &str,
        mut found: impl FnMut(Option<&Arc<LvmVolume>>) -> Option<T>,
    ) -> T {
        let waiter = Waiter::new(self, name);
        loop {
            let mut changed = std::pin::pin!(waiter.notify.notified());
            changed.as_mut().enable();
            if let Some(found) = found(self.volume(name).as_ref()) {
                return found;
            }
            changed.await;
        }
    }

    // What decides about nodes.

    /// A Node is there, or has changed.
    pub(super) fn put_node(&self, name: &str, facts: NodeFacts) {
        let mut state = self.state();
        state.gone.remove(name);
        state.nodes.insert(name.to_owned(), facts);
        drop(state);
        self.changed();
    }

    /// A Node is gone.
    pub(super) fn drop_node(&self, name: &str) {
        self.state().nodes.remove(name);
        self.changed();
    }

    /// These are all Nodes.
    pub(super) fn set_nodes(&self, nodes: BTreeMap<String, NodeFacts>) {
        let mut state = self.state();
        state.gone.retain(|name, _| !nodes.contains_key(name));
        state.nodes = nodes;
        drop(state);
        self.changed();
    }

    /// The kubelet of a node knows the driver, or does not.
    pub(super) fn put_kubelet(&self, node: &str, knows: bool) {
        let mut state = self.state();
        let all = state.kubelets.get_or_insert_default();
        if knows {
            all.insert(node.to_owned());
        } else {
            all.remove(node);
        }
        drop(state);
        self.changed();
    }

    /// These are all nodes whose kubelets know the driver.
    pub(super) fn set_kubelets(&self, nodes: HashSet<String>) {
        self.state().kubelets = Some(nodes);
        self.changed();
    }

    /// An agent's pod is there, or is gone.
    pub(super) fn put_agent(&self, pod: &str, facts: Option<AgentFacts>) {
        let mut state = self.state();
        match facts {
            Some(facts) => state.agents.insert(pod.to_owned(), facts),
            None => state.agents.remove(pod),
        };
        drop(state);
        self.changed();
    }

    /// These are all agents' pods.
    pub(super) fn set_agents(&self, agents: HashMap<String, AgentFacts>) {
        self.state().agents = agents;
        self.changed();
    }

    /// An LVMNode is there, or has changed.
    pub(super) fn put_report(&self, report: LvmNode) {
        let name = report.name_any();
        let groups = report.spec.volume_groups;
        self.state().put_report(name, groups, Instant::now());
        self.changed();
    }

    /// An LVMNode is gone.
    pub(super) fn drop_report(&self, node: &str) {
        self.state().reports.remove(node);
        self.changed();
    }

    /// These are all LVMNodes.
    pub(super) fn set_reports(&self, reports: Vec<LvmNode>) {
        let present: HashSet<_> = reports.iter().map(ResourceExt::name_any).collect();
        self.state()
            .reports
            .retain(|name, _| present.contains(name));
        for report in reports {
            self.put_report(report);
        }
    }

    // Snapshots and claims.

    /// A snapshot is there, or is gone.
    pub(super) fn put_snapshot(&self, name: &str, facts: Option<SnapshotFacts>) {
        let mut state = self.state();
        match facts {
            Some(facts) => state.snapshots.insert(name.to_owned(), facts),
            None => state.snapshots.remove(name),
        };
        drop(state);
        self.changed();
    }

    /// These are all snapshots.
    pub(super) fn set_snapshots(&self, snapshots: HashMap<String, SnapshotFacts>) {
        self.state().snapshots = snapshots;
        self.changed();
    }

    /// The snapshots of a volume, by name.
    pub(super) fn snapshots_of(&self, volume: &str) -> Vec<String> {
        let state = self.state();
        let of = state.snapshots.iter();
        let mut names: Vec<_> = of
            .filter(|(_, facts)| facts.volume.as_deref() == Some(volume))
            .map(|(name, _)| name.clone())
            .collect();
        names.sort();
        names
    }

    /// A claim is there, or has changed.
    pub(super) fn put_claim(&self, key: ClaimKey, facts: ClaimFacts) {
        self.state().put_claim(key, facts);
        self.changed();
    }

    /// A claim is gone that stood like this at the end.
    pub(super) fn drop_claim(&self, key: &ClaimKey, last: ClaimFacts) {
        self.state().drop_claim(key, last, Instant::now());
        self.changed();
    }

    /// These are all claims.
    pub(super) fn set_claims(&self, claims: HashMap<ClaimKey, ClaimFacts>) {
        let mut state = self.state();
        let due = claims.iter().filter(|(_, facts)| facts.is_due());
        state.claims_due = due.map(|(key, _)| key.clone()).collect();
        state.claims = claims;
        drop(state);
        self.changed();
    }

    /// A claim, if it was seen.
    pub(super) fn claim(&self, key: &ClaimKey) -> Option<ClaimFacts> {
        self.state().claims.get(key).cloned()
    }

    /// Claims whose protection has something to do.
    pub(super) fn claims_due(&self) -> Vec<ClaimKey> {
        self.state().claims_due.iter().cloned().collect()
    }
}

/// Somebody waits for a change of a volume.
struct Waiter<'a> {
    cluster: &'a Cluster,
    name: &'a str,
    notify: Arc<Notify>,
}

impl<'a> Waiter<'a> {
    fn new(cluster: &'a Cluster, name: &'a str) -> Self {
        let mut state = cluster.state();
        let notify = state.waiters.entry(name.to_owned()).or_default();
        let notify = Arc::clone(notify);
        drop(state);
        Self {
            cluster,
            name,
            notify,
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut state = self.cluster.state();
        // The map's and this one.
        if Arc::strong_count(&self.notify) == 2 {
            state.waiters.remove(self.name);
        }
    }
}
