//! Decisions from what is known, each under one lock.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use kube::ResourceExt;
use lvm2::name::VgName;
use lvm2::units::Bytes;

use super::cluster::{Cluster, Watched};
use super::facts::SnapshotFacts;
use super::schedule::{Choice, NodeView, Place, Unusable, VgView, choose};
use super::state::{FAILED, Failure, State};
use super::topology;
use crate::csi::params::{Scheduler, VgMatch};
use crate::csi::proto::TopologyRequirement;
use crate::kube::crd::LvmVolume;

/// Which volumes a node may hold.
pub(super) struct Demand<'a> {
    /// The volume.
    pub(super) volume: &'a str,
    /// Its size.
    pub(super) size: Bytes,
    /// Its VGs; none for all.
    pub(super) vgs: Option<&'a VgMatch>,
    /// What decides between nodes.
    pub(super) scheduler: Scheduler,
    /// Where it must be.
    pub(super) requirement: Option<&'a TopologyRequirement>,
    /// Nodes that this call has tried.
    pub(super) tried: &'a HashMap<String, String>,
}

/// A snapshot on a node that is gone.
#[derive(Clone, Debug)]
pub(super) struct Stranded {
    /// Its name.
    pub(super) name: String,
    /// Since when the node is missed.
    pub(super) since: Instant,
    /// What is known of it.
    pub(super) facts: SnapshotFacts,
}

/// Why a volume cannot grow.
#[derive(Debug)]
pub(super) enum Growth {
    /// So much is free.
    NoRoom(Bytes),
    /// Nobody says how much is free.
    NoReport(String),
}

impl Cluster {
    /// Chooses a node and promises the space there. The promise is given up
    /// by [`Self::withdraw`], or follows the volume once that is seen.
    pub(super) fn place(&self, demand: &Demand<'_>) -> Result<Place, Choice> {
        let now = Instant::now();
        let mut state = self.state();
        let views = state.views(demand.volume, demand.tried, now);
        let matches = |name: &str| match demand.vgs {
            None => true,
            Some(vgs) => VgName::new(name).is_ok_and(|name| vgs.matches(&name)),
        };
        let admitted =
            |node: &NodeView| topology::admits(demand.requirement, &node.name, &node.labels);
        let mut choice = choose(&views, demand.size, demand.scheduler, admitted, matches);
        if choice.places.is_empty() {
            return Err(choice);
        }
        let place = choice.places.swap_remove(0);
        let at = (place.node.as_str(), place.vg.as_str());
        state.ledger.promise(demand.volume, at, demand.size, now);
        Ok(place)
    }

    /// Promises `more` of the VG to a volume that grows, if it is free.
    pub(super) fn grow(&self, object: &LvmVolume, more: Bytes) -> Result<(), Growth> {
        let now = Instant::now();
        let mut state = self.state();
        let node = &object.spec.owner_node_id;
        let vg = &object.spec.vol_group;
        let groups = state.reports.get(node).map(|report| report.groups.iter());
        let Some(mut groups) = groups else {
            return Err(Growth::NoReport(format!(
                "node {node} reports no volume groups"
            )));
        };
        let Some(group) = groups.find(|group| group.name == *vg) else {
            return Err(Growth::NoReport(format!(
                "node {node} does not report volume group {vg}"
            )));
        };
        let free = group.free.bytes().unwrap_or_default();
        let key = format!("{} grows", object.name_any());
        state.ledger.forget(&key);
        let (promised, _) = state.ledger.open((node, vg), now);
        let free = Bytes(free.0.saturating_sub(promised.0));
        if free < more {
            return Err(Growth::NoRoom(free));
        }
        state.ledger.pending(&key, (node, vg), more);
        state.ledger.made(&key, vg, now);
        Ok(())
    }

    /// The growth of the volume was not written.
    pub(super) fn grow_withdrawn(&self, volume: &str) {
        self.state().ledger.forget(&format!("{volume} grows"));
    }

    /// No object was made for what [`Self::place`] promised.
    pub(super) fn withdraw(&self, volume: &str) {
        self.state().ledger.withdraw(volume);
    }

    /// The volume could not be made on the node.
    pub(super) fn failed(&self, volume: &str, node: &str, message: &str) {
        let mut state = self.state();
        state
            .failures
            .retain(|_, failure| failure.at.elapsed() < FAILED);
        let report = state.reports.get(node).map_or(0, |report| report.number);
        let failure = Failure {
            message: message.to_owned(),
            at: Instant::now(),
            report,
        };
        let key = (volume.to_owned(), node.to_owned());
        state.failures.insert(key, failure);
    }

    /// Free space of the VG with most of it, among nodes that `admitted`
    /// admits and VGs that `matches` matches.
    ///
    /// What is answered here is published and stands for a while, so an agent
    /// that starts again takes nothing away: its last report counts. Where no
    /// VG is found and a node may still tell of one, that node is the answer.
    pub(super) fn most_free(
        &self,
        admitted: impl Fn(&str, &BTreeMap<String, String>) -> bool,
        matches: impl Fn(&VgName) -> bool,
    ) -> Result<Option<Bytes>, (String, Unusable)> {
        let mut state = self.state();
        let views = state.views("", &HashMap::new(), Instant::now());
        let mut most = None;
        let mut silent = None;
        for node in views {
            if !admitted(&node.name, &node.labels) {
                continue;
            }
            let waits = match node.unusable {
                None | Some(Unusable::NotRegistered | Unusable::NoAgent) => {
                    let reports = state.reports.contains_key(&node.name);
                    (!reports).then_some(Unusable::NoReport)
                }
                Some(why @ (Unusable::NotReady | Unusable::NoReport)) => Some(why),
                Some(Unusable::Cordoned | Unusable::Gone) => continue,
            };
            if let Some(why) = waits {
                silent.get_or_insert((node.name, why));
                continue;
            }
            let usable = |vg: &&VgView| {
                vg.writable && VgName::new(vg.name.as_str()).is_ok_and(|name| matches(&name))
            };
            most = most.max(node.vgs.iter().filter(usable).map(|vg| vg.free).max());
        }
        match (most, silent) {
            (None, Some(silent)) => Err(silent),
            (most, _) => Ok(most),
        }
    }

    /// Why the node takes no volumes, if so.
    pub(super) fn obstacle(&self, node: &str) -> Option<Unusable> {
        self.state().obstacle(node)
    }

    /// The labels of a node.
    pub(super) fn labels(&self, node: &str) -> BTreeMap<String, String> {
        let state = self.state();
        let facts = state.nodes.get(node);
        facts.map(|facts| facts.labels.clone()).unwrap_or_default()
    }

    /// Volumes and snapshots that wait to be removed from a node whose object
    /// is gone, each with the time since when it is missed.
    pub(super) fn stranded(&self) -> (Vec<(Arc<LvmVolume>, Instant)>, Vec<Stranded>) {
        if self.unheard().contains(&Watched::Nodes) {
            return Default::default();
        }
        let now = Instant::now();
        let mut state = self.state();
        let State {
            volumes,
            deleting,
            nodes,
            gone,
            snapshots,
            ..
        } = &mut *state;
        let mut since = |node: &str| {
            (!nodes.contains_key(node)).then(|| *gone.entry(node.to_owned()).or_insert(now))
        };
        let volumes = deleting.iter().filter_map(|name| volumes.get(name));
        let volumes = volumes
            .filter(|object| object.has_finalizer())
            .filter_map(|object| Some((Arc::clone(object), since(&object.spec.owner_node_id)?)))
            .collect();
        let snapshots = snapshots
            .iter()
            .filter(|(_, facts)| facts.deleting && !facts.finalizers.is_empty())
            .filter_map(|(name, facts)| {
                Some(Stranded {
                    name: name.clone(),
                    since: since(&facts.node)?,
                    facts: facts.clone(),
                })
            })
            .collect();
        (volumes, snapshots)
    }
}
