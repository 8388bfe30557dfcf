//! Which node, and which of its VGs, a new volume goes to.
//!
//! A pure function of what the watches have seen. The peer takes the node and
//! lets its agent find the VG; naming the VG too lets the controller count the
//! space that is promised and not yet taken.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use lvm2::units::{Bytes, format_size};

use crate::csi::params::Scheduler;

/// Reasons that an error spells out; the others are counted.
const SPELLED_OUT: usize = 10;

/// A node as the watches show it.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeView {
    /// Its name, which is the driver's id of it.
    pub(super) name: String,
    /// Its labels.
    pub(super) labels: BTreeMap<String, String>,
    /// Why no volume may be put there, if so.
    pub(super) unusable: Option<Unusable>,
    /// It is short of memory, disk or processes: taken if no other will do.
    pub(super) pressed: bool,
    /// Why this volume was not made there a moment ago, if it was tried.
    pub(super) failed: Option<String>,
    /// Its VGs.
    pub(super) vgs: Vec<VgView>,
}

/// A VG as its LVMNode shows it, less what is promised.
#[derive(Clone, Debug)]
pub(super) struct VgView {
    /// Its name.
    pub(super) name: String,
    /// Neither used nor promised.
    pub(super) free: Bytes,
    /// Volumes with an object on it, and their sizes together. As with the peer,
    /// what others have on the VG does not weigh.
    pub(super) volumes: u64,
    pub(super) given: Bytes,
    /// Neither read-only nor without one of its PVs.
    pub(super) writable: bool,
}

/// Why a node is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// The kubelet does not report.
    NotReady,
    /// An administrator keeps new pods away.
    Cordoned,
    /// Its object is being deleted, or is gone.
    Gone,
    /// The kubelet does not know the driver there.
    NotRegistered,
    /// The agent's pod is not ready.
    NoAgent,
    /// No LVMNode tells of its VGs.
    NoReport,
}

impl Unusable {
    /// Whether a volume that waits there may wait in vain.
    pub(super) fn is_dead(self) -> bool {
        self != Self::Cordoned
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotReady => "the node is not ready",
            Self::Cordoned => "the node is cordoned",
            Self::Gone => "the node is gone",
            Self::NotRegistered => "the kubelet does not know this driver there",
            Self::NoAgent => "the agent of this driver is not ready there",
            Self::NoReport => "its agent has not reported its volume groups",
        })
    }
}

/// Where a volume may go, best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The node.
    pub(super) node: String,
    /// The VG of it.
    pub(super) vg: String,
}

/// What there was to choose from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// Best first: one place a node.
    pub(super) places: Vec<Place>,
    /// Why the others are left out: a person reads these.
    pub(super) reasons: Vec<String>,
}

impl Choice {
    /// The reasons as one text of a bounded length.
    pub(super) fn why(&self) -> String {
        if self.reasons.is_empty() {
            return "the topology admits no node of this cluster".to_owned();
        }
        let mut text = self
            .reasons
            .iter()
            .take(SPELLED_OUT)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("; ");
        if let Some(more @ 1..) = self.reasons.len().checked_sub(SPELLED_OUT) {
            text.push_str(&format!("; and {more} more nodes"));
        }
        text
    }
}

/// Orders the nodes for a volume of `size`. `allowed` says which nodes the
/// topology admits, `matches` which VGs the class names.
pub(super) fn choose(
    nodes: &[NodeView],
    size: Bytes,
    scheduler: Scheduler,
    allowed: impl Fn(&NodeView) -> bool,
    matches: impl Fn(&str) -> bool,
) -> Choice {
    let mut choice = Choice::default();
    let mut ranked = Vec::new();
    for node in nodes.iter().filter(|node| allowed(node)) {
        match candidate(node, size, &matches) {
            Ok(vg) => {
                let rank = (node.pressed, rank(node, scheduler, &matches));
                ranked.push((rank, node.name.as_str(), vg));
            }
            Err(reason) => choice.reasons.push(format!("{}: {reason}", node.name)),
        }
    }
    ranked.sort();
    choice.places = ranked
        .into_iter()
        .map(|(_, node, vg)| Place {
            node: node.to_owned(),
            vg: vg.to_owned(),
        })
        .collect();
    choice
}

/// Why a node cannot hold the volume.
enum Reason<'a> {
    Unusable(Unusable),
    NoVg,
    Failed(&'a str),
    Refused(&'a VgView),
    Full(&'a VgView),
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable(why) => write!(f, "{why}"),
            Self::NoVg => f.write_str("no VG that the class names"),
            Self::Failed(message) => f.write_str(message),
            Self::Refused(vg) => write!(f, "VG {} is read-only or lacks a PV", vg.name),
            Self::Full(vg) => write!(f, "VG {} has {} free", vg.name, format_size(vg.free)),
        }
    }
}

/// The VG that the volume fits in most tightly, as the peer's agent chooses.
fn candidate<'a>(
    node: &'a NodeView,
    size: Bytes,
    matches: &impl Fn(&str) -> bool,
) -> Result<&'a str, Reason<'a>> {
    if let Some(why) = node.unusable {
        return Err(Reason::Unusable(why));
    }
    if let Some(message) = &node.failed {
        return Err(Reason::Failed(message));
    }
    let mut vgs: Vec<&VgView> = node.vgs.iter().filter(|vg| matches(&vg.name)).collect();
    vgs.sort_by_key(|vg| (vg.free, vg.name.as_str()));
    let largest = *vgs.last().ok_or(Reason::NoVg)?;
    let Some(usable) = vgs.iter().rfind(|vg| vg.writable) else {
        return Err(Reason::Refused(largest));
    };
    vgs.iter()
        .find(|vg| vg.writable && vg.free >= size)
        .map(|vg| vg.name.as_str())
        .ok_or(Reason::Full(usable))
}

/// Lower is better. Only VGs that the class names count.
fn rank(node: &NodeView, scheduler: Scheduler, matches: &impl Fn(&str) -> bool) -> Reverse<u64> {
    let vgs = node.vgs.iter().filter(|vg| matches(&vg.name));
    Reverse(match scheduler {
        Scheduler::Space => vgs.map(|vg| vg.free.0).max().unwrap_or(0),
        Scheduler::Capacity => {
            let given = vgs.map(|vg| vg.given.0);
            u64::MAX - given.fold(0, u64::saturating_add)
        }
        Scheduler::Volume => u64::MAX - vgs.map(|vg| vg.volumes).fold(0, u64::saturating_add),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn vg(name: &str, size: u64, free: u64, volumes: u64) -> VgView {
        VgView {
            name: name.to_owned(),
            free: Bytes(free * GIB),
            volumes,
            given: Bytes((size - free) * GIB),
            writable: true,
        }
    }

    fn node(name: &str, vgs: Vec<VgView>) -> NodeView {
        NodeView {
            name: name.to_owned(),
            vgs,
            ..NodeView::default()
        }
    }

    fn order(nodes: &[NodeView], gib: u64, scheduler: Scheduler) -> Vec<String> {
        choose(
            nodes,
            Bytes(gib * GIB),
            scheduler,
            |_| true,
            |vg| vg == "data",
        )
        .places
        .into_iter()
        .map(|place| place.node)
        .collect()
    }

    /// Gives the space of one volume away.
    fn put(nodes: &mut [NodeView], gib: u64, scheduler: Scheduler) -> String {
        let name = order(nodes, gib, scheduler).remove(0);
        let node = nodes.iter_mut().find(|node| node.name == name).unwrap();
        node.vgs[0].free.0 -= gib * GIB;
        node.vgs[0].given.0 += gib * GIB;
        node.vgs[0].volumes += 1;
        name
    }

    #[test]
    fn each_weight_has_its_own_order() {
        let nodes = [
            node("a", vec![vg("data", 100, 20, 1)]),
            node("b", vec![vg("data", 40, 30, 5)]),
            node("c", vec![vg("data", 200, 40, 3)]),
        ];
        assert_eq!(order(&nodes, 1, Scheduler::Space), ["c", "b", "a"]);
        assert_eq!(order(&nodes, 1, Scheduler::Capacity), ["b", "a", "c"]);
        assert_eq!(order(&nodes, 1, Scheduler::Volume), ["a", "c", "b"]);
    }

    #[test]
    fn three_equal_nodes_are_filled_evenly() {
        for scheduler in [Scheduler::Space, Scheduler::Capacity, Scheduler::Volume] {
            let mut nodes: Vec<_> = ["a", "b", "c"]
                .map(|name| node(name, vec![vg("data", 20, 20, 0)]))
                .into();
            let taken: Vec<_> = (0..6).map(|_| put(&mut nodes, 2, scheduler)).collect();
            assert_eq!(taken, ["a", "b", "c", "a", "b", "c"], "{scheduler:?}");
        }
    }

    #[test]
    fn capacity_follows_what_is_given_away_and_volume_the_count() {
        let mut nodes = [
            node("a", vec![vg("data", 20, 20, 0)]),
            node("b", vec![vg("data", 20, 20, 0)]),
        ];
        assert_eq!(put(&mut nodes, 5, Scheduler::Capacity), "a");
        assert_eq!(put(&mut nodes, 1, Scheduler::Capacity), "b");
        assert_eq!(put(&mut nodes, 1, Scheduler::Capacity), "b");
        assert_eq!(put(&mut nodes, 1, Scheduler::Volume), "a");
    }

    #[test]
    fn a_node_without_the_vg_or_without_space_is_left_out_with_its_reason() {
        let mut missing = vg("data", 50, 50, 0);
        missing.writable = false;
        let nodes = [
            node("full", vec![vg("data", 20, 2, 9)]),
            node("none", vec![vg("other", 100, 100, 0)]),
            node("partial", vec![missing]),
            node("fits", vec![vg("data", 20, 3, 9)]),
        ];
        let choice = choose(
            &nodes,
            Bytes(3 * GIB),
            Scheduler::Space,
            |_| true,
            |vg| vg == "data",
        );
        assert_eq!(
            choice.places,
            [Place {
                node: "fits".to_owned(),
                vg: "data".to_owned()
            }]
        );
        assert_eq!(choice.reasons.len(), 3);
        assert!(choice.reasons[0].starts_with("full: VG data has "));
        assert_eq!(choice.reasons[1], "none: no VG that the class names");
        assert_eq!(
            choice.reasons[2],
            "partial: VG data is read-only or lacks a PV"
        );
    }

    #[test]
    fn nodes_that_cannot_serve_and_nodes_outside_the_topology_are_left_out() {
        let mut nodes = Vec::new();
        for (name, unusable) in [
            ("dead", Some(Unusable::NotReady)),
            ("cordoned", Some(Unusable::Cordoned)),
            ("bare", Some(Unusable::NoAgent)),
            ("good", None),
            ("elsewhere", None),
        ] {
            let mut node = node(name, vec![vg("data", 20, 20, 0)]);
            node.unusable = unusable;
            nodes.push(node);
        }
        let choice = choose(
            &nodes,
            Bytes(GIB),
            Scheduler::Space,
            |node| node.name != "elsewhere",
            |_| true,
        );
        assert_eq!(choice.places.len(), 1);
        assert_eq!(choice.places[0].node, "good");
        assert_eq!(choice.reasons.len(), 3);
    }

    #[test]
    fn a_node_under_pressure_is_the_last_choice_and_a_failed_one_none() {
        let mut nodes = [
            node("a", vec![vg("data", 100, 90, 0)]),
            node("b", vec![vg("data", 20, 10, 0)]),
            node("c", vec![vg("data", 20, 20, 0)]),
        ];
        nodes[0].pressed = true;
        nodes[2].failed = Some("VG data: hangs".to_owned());
        assert_eq!(order(&nodes, 1, Scheduler::Space), ["b", "a"]);
        let choice = choose(
            &nodes,
            Bytes(50 * GIB),
            Scheduler::Space,
            |_| true,
            |_| true,
        );
        assert_eq!(choice.places[0].node, "a");
        assert!(
            choice.why().contains("c: VG data: hangs"),
            "{}",
            choice.why()
        );
    }

    #[test]
    fn a_thousand_nodes_make_no_endless_error() {
        let nodes: Vec<_> = (0..1000)
            .map(|n| node(&format!("n{n}"), Vec::new()))
            .collect();
        let choice = choose(&nodes, Bytes(1), Scheduler::Space, |_| true, |_| true);
        assert!(choice.why().ends_with("and 990 more nodes"));
        assert!(choice.why().len() < 1000);
    }

    #[test]
    fn the_tightest_vg_of_a_node_is_taken() {
        let nodes = [node(
            "a",
            vec![
                vg("large", 100, 90, 0),
                vg("small", 20, 10, 0),
                vg("tiny", 5, 1, 0),
            ],
        )];
        let choice = choose(&nodes, Bytes(8 * GIB), Scheduler::Space, |_| true, |_| true);
        assert_eq!(choice.places[0].vg, "small");
    }
}
