//! The state behind [`Cluster`](super::cluster::Cluster): objects as they were
//! seen last, promises and failures.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lvm2::units::Bytes;
use tokio::sync::Notify;

use super::facts::{AgentFacts, ClaimFacts, ClaimKey, NodeFacts, SnapshotFacts};
use super::forsaken::Purpose;
use super::ledger::Ledger;
use super::schedule::{NodeView, Unusable, VgView};
use crate::kube::crd::{LvmVolume, VolumeGroup, VolumeState};

/// How long a node on which a volume failed is left out for this volume, as
/// long as its VGs do not change.
pub(super) const FAILED: Duration = Duration::from_secs(60);
/// How long claims are remembered that went away before they were bound: longer
/// than their volumes are removed late.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// A node's VGs as reported last.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) groups: Vec<VolumeGroup>,
    /// Counts reports.
    pub(super) number: u64,
}

/// A volume that failed on a node.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) message: String,
    pub(super) at: Instant,
    pub(super) report: u64,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) volumes: HashMap<String, Arc<LvmVolume>>,
    pub(super) deleting: BTreeSet<String>,
    pub(super) nodes: BTreeMap<String, NodeFacts>,
    /// When a node was first missed that an object names.
    pub(super) gone: HashMap<String, Instant>,
    pub(super) reports: HashMap<String, Report>,
    /// Nodes whose kubelet knows the driver; nothing where that cannot be
    /// learnt.
    pub(super) kubelets: Option<HashSet<String>>,
    pub(super) agents: HashMap<String, AgentFacts>,
    pub(super) snapshots: HashMap<String, SnapshotFacts>,
    pub(super) claims: HashMap<ClaimKey, ClaimFacts>,
    pub(super) claims_due: BTreeSet<ClaimKey>,
    /// Volumes by the UID of the claim that they were made for.
    pub(super) made_for: HashMap<String, String>,
    /// UIDs of claims that were seen to go away before they were bound, and when.
    pub(super) unbound: HashMap<String, Instant>,
    pub(super) ledger: Ledger,
    pub(super) failures: HashMap<(String, String), Failure>,
    pub(super) reported: u64,
    pub(super) waiters: HashMap<String, Arc<Notify>>,
}

impl State {
    pub(super) fn put_volume(&mut self, name: String, object: Arc<LvmVolume>) {
        if object.is_deleting() {
            self.deleting.insert(name.clone());
        } else {
            self.deleting.remove(&name);
        }
        match object.state() {
            VolumeState::Ready => {
                let vg = &object.spec.vol_group;
                self.ledger.made(&name, vg, Instant::now());
            }
            VolumeState::Failed | VolumeState::Unknown => self.ledger.forget(&name),
            VolumeState::Pending => {
                if !self.ledger.arrived(&name, &object.spec.owner_node_id) {
                    self.reckon(&name, &object);
                }
            }
        }
        if let Some(claim) = Purpose::of(&object) {
            self.made_for.insert(claim.uid, name.clone());
        }
        self.volumes.insert(name, object);
    }

    /// Promises space to an object that somebody else made: in the VG that its
    /// agent will take by the contract, the one that fits most tightly.
    fn reckon(&mut self, name: &str, object: &LvmVolume) {
        let Ok(size) = object.spec.capacity() else {
            return;
        };
        let node = object.spec.owner_node_id.as_str();
        let named = Some(object.spec.vol_group.as_str()).filter(|vg| !vg.is_empty());
        let pattern = regex::Regex::new(&object.spec.vg_pattern).ok();
        let groups = self
            .reports
            .get(node)
            .map(|report| report.groups.as_slice());
        let tightest = groups
            .unwrap_or_default()
            .iter()
            .filter(|group| match named {
                Some(vg) => group.name == vg,
                None => pattern.as_ref().is_some_and(|p| p.is_match(&group.name)),
            })
            .filter_map(|group| Some((group.free.bytes().ok()?, group.name.as_str())))
            .filter(|(free, _)| *free >= size)
            .min();
        if let Some(vg) = named.or(tightest.map(|(_, vg)| vg)).map(str::to_owned) {
            self.ledger.pending(name, (node, &vg), size);
        }
    }

    pub(super) fn drop_volume(&mut self, name: &str) {
        let object = self.volumes.remove(name);
        if let Some(claim) = object.as_deref().and_then(Purpose::of) {
            self.made_for.remove(&claim.uid);
        }
        self.deleting.remove(name);
        self.ledger.forget(name);
        self.ledger.forget(&format!("{name} grows"));
    }

    pub(super) fn put_claim(&mut self, key: ClaimKey, facts: ClaimFacts) {
        if facts.is_due() {
            self.claims_due.insert(key.clone());
        } else {
            self.claims_due.remove(&key);
        }
        self.claims.insert(key, facts);
    }

    /// A claim was deleted that stood like this at the end.
    pub(super) fn drop_claim(&mut self, key: &ClaimKey, last: ClaimFacts, now: Instant) {
        self.claims_due.remove(key);
        self.claims.remove(key);
        if !last.bound {
            self.unbound
                .retain(|_, at| now.saturating_duration_since(*at) < REMEMBERED);
            self.unbound.insert(last.uid, now);
        }
    }

    pub(super) fn put_report(&mut self, node: String, groups: Vec<VolumeGroup>, now: Instant) {
        self.reported += 1;
        let number = self.reported;
        let report = self.reports.entry(node.clone()).or_default();
        for group in &groups {
            let Ok(after) = group.free.bytes() else {
                continue;
            };
            let before = report.groups.iter().find(|old| old.name == group.name);
            let before = before.and_then(|old| old.free.bytes().ok());
            self.ledger.shown((&node, &group.name), before, after, now);
        }
        *report = Report { groups, number };
    }

    pub(super) fn obstacle(&self, node: &str) -> Option<Unusable> {
        let Some(facts) = self.nodes.get(node) else {
            return Some(Unusable::Gone);
        };
        if facts.unusable.is_some() {
            return facts.unusable;
        }
        if self
            .kubelets
            .as_ref()
            .is_some_and(|all| !all.contains(node))
        {
            return Some(Unusable::NotRegistered);
        }
        // A rolling update may have two pods on a node: one that serves is
        // enough.
        let mut agents = self.agents.values().filter(|agent| agent.node == node);
        if !self.agents.is_empty() && !agents.any(|agent| agent.ready) {
            return Some(Unusable::NoAgent);
        }
        (!self.reports.contains_key(node)).then_some(Unusable::NoReport)
    }

    pub(super) fn views(
        &mut self,
        volume: &str,
        tried: &HashMap<String, String>,
        now: Instant,
    ) -> Vec<NodeView> {
        let names: Vec<String> = self.nodes.keys().cloned().collect();
        let given = self.given();
        names
            .into_iter()
            .map(|name| self.view(name, volume, tried, &given, now))
            .collect()
    }

    /// Number and size of the volumes of each VG, by their objects, and by the
    /// promises to those whose object is not seen yet.
    fn given(&self) -> HashMap<(String, String), (u64, u64)> {
        let mut given: HashMap<_, (u64, u64)> = HashMap::new();
        let mut add = |node: &str, vg: &str, size: Bytes| {
            let sum = given.entry((node.to_owned(), vg.to_owned())).or_default();
            *sum = (sum.0 + 1, sum.1.saturating_add(size.0));
        };
        let mut placed: HashSet<&str> = HashSet::new();
        for (name, object) in &self.volumes {
            if !object.spec.vol_group.is_empty() {
                let size = object.spec.capacity().unwrap_or_default();
                add(&object.spec.owner_node_id, &object.spec.vol_group, size);
                placed.insert(name);
            }
        }
        for (key, (node, vg), size) in self.ledger.all() {
            // Growth is promised under a key with a blank, and is no volume.
            if !placed.contains(key) && !key.contains(' ') {
                add(node, vg, size);
            }
        }
        given
    }

    fn view(
        &mut self,
        name: String,
        volume: &str,
        tried: &HashMap<String, String>,
        given: &HashMap<(String, String), (u64, u64)>,
        now: Instant,
    ) -> NodeView {
        let unusable = self.obstacle(&name);
        let facts = self.nodes.get(&name);
        let report = self.reports.get(&name);
        let key = (volume.to_owned(), name);
        let recent = self.failures.get(&key).filter(|failure| {
            let unchanged = report.is_some_and(|report| report.number == failure.report);
            unchanged && now.saturating_duration_since(failure.at) < FAILED
        });
        let (_, name) = key;
        let failed = tried
            .get(&name)
            .or(recent.map(|failure| &failure.message))
            .cloned();
        let mut vgs = Vec::new();
        for group in report.map_or(&[][..], |report| &report.groups) {
            let (promised, _) = self.ledger.open((&name, &group.name), now);
            let free = group.free.bytes().unwrap_or_default();
            let place = (name.clone(), group.name.clone());
            let (volumes, bytes) = given.get(&place).copied().unwrap_or_default();
            vgs.push(VgView {
                name: group.name.clone(),
                free: Bytes(free.0.saturating_sub(promised.0)),
                volumes,
                given: Bytes(bytes),
                writable: group.permissions != 1 && group.missing_pv_count == 0,
            });
        }
        NodeView {
            labels: facts.map(|facts| facts.labels.clone()).unwrap_or_default(),
            pressed: facts.is_some_and(|facts| facts.pressed),
            name,
            unusable,
            failed,
            vgs,
        }
    }
}
