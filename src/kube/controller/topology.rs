//! Which nodes a request admits.

use std::collections::BTreeMap;

use crate::csi::proto::{Topology, TopologyRequirement};
use crate::kube::names::NODE_TOPOLOGY;

/// Whether the node lies in `place`. The agent reports the node's name beside
/// those labels that it was told to report, and the labels may have changed
/// since: they count as they are now.
pub(super) fn contains(place: &Topology, node: &str, labels: &BTreeMap<String, String>) -> bool {
    place.segments.iter().all(|(key, value)| {
        if key == NODE_TOPOLOGY {
            value == node
        } else {
            labels.get(key) == Some(value)
        }
    })
}

/// Whether a volume on the node fulfils the requirement. As the contract has
/// it, the preferred places are the ones that count if there are any: they are
/// the scheduler's choice, or all requisite ones in some order.
pub(super) fn admits(
    requirement: Option<&TopologyRequirement>,
    node: &str,
    labels: &BTreeMap<String, String>,
) -> bool {
    let Some(requirement) = requirement else {
        return true;
    };
    let places = if requirement.preferred.is_empty() {
        &requirement.requisite
    } else {
        &requirement.preferred
    };
    places.is_empty() || places.iter().any(|place| contains(place, node, labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(pairs: &[(&str, &str)]) -> Topology {
        Topology {
            segments: pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        }
    }

    fn admitted(requirement: &TopologyRequirement, node: &str, zone: &str) -> bool {
        let labels = [("zone".to_owned(), zone.to_owned())].into();
        admits(Some(requirement), node, &labels)
    }

    #[test]
    fn names_and_labels_as_they_are_now() {
        let need = TopologyRequirement {
            requisite: vec![
                place(&[(NODE_TOPOLOGY, "n1")]),
                place(&[("zone", "b"), (NODE_TOPOLOGY, "n2")]),
            ],
            preferred: Vec::new(),
        };
        assert!(admitted(&need, "n1", "x"));
        assert!(admitted(&need, "n2", "b"));
        assert!(!admitted(&need, "n2", "a"), "the label was changed");
        assert!(!admitted(&need, "n3", "b"));
        assert!(admits(None, "n3", &BTreeMap::new()));
        assert!(admitted(&TopologyRequirement::default(), "n3", "b"));
    }

    #[test]
    fn preferred_places_are_the_ones_that_count() {
        let need = TopologyRequirement {
            requisite: vec![place(&[("zone", "a")]), place(&[("zone", "b")])],
            preferred: vec![place(&[("zone", "b")])],
        };
        assert!(admitted(&need, "n1", "b") && !admitted(&need, "n1", "a"));
        let unknown = TopologyRequirement {
            requisite: vec![place(&[("rack", "1")])],
            preferred: Vec::new(),
        };
        assert!(!admitted(&unknown, "n1", "a"));
    }
}
