//! Where volumes are: on this node and nowhere else.

use super::proto::{Topology, TopologyRequirement};

/// The topology key whose value is the node's id.
pub(crate) const NODE_KEY: &str = "openebs.io/nodename";

/// The place of every volume of node `node_id`.
pub(crate) fn of_node(node_id: &str) -> Topology {
    Topology {
        segments: [(NODE_KEY.to_owned(), node_id.to_owned())].into(),
    }
}

/// Whether `node_id` lies in `place`. A key that this driver does not report
/// is a place where the node is not.
pub(crate) fn contains(place: &Topology, node_id: &str) -> bool {
    place
        .segments
        .iter()
        .all(|(key, value)| key == NODE_KEY && value == node_id)
}

/// Whether a volume on `node_id` fulfils the requirement. Preferences need no
/// look: there is one place only.
pub(crate) fn allows(requirement: Option<&TopologyRequirement>, node_id: &str) -> bool {
    requirement.is_none_or(|needed| {
        needed.requisite.is_empty()
            || needed
                .requisite
                .iter()
                .any(|place| contains(place, node_id))
    })
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

    #[test]
    fn requirements_that_include_this_node() {
        let need = |requisite: Vec<Topology>| TopologyRequirement {
            requisite,
            preferred: vec![place(&[(NODE_KEY, "elsewhere")])],
        };
        assert!(allows(None, "n1"));
        assert!(allows(Some(&need(vec![])), "n1"));
        assert!(allows(
            Some(&need(vec![of_node("n2"), of_node("n1")])),
            "n1"
        ));
        assert!(!allows(Some(&need(vec![of_node("n2")])), "n1"));
        assert!(!allows(
            Some(&need(vec![place(&[(NODE_KEY, "n1"), ("zone", "a")])])),
            "n1"
        ));
    }
}
