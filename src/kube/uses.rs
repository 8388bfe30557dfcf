//! What the agent and the controller ask of the API server. Tests compare the
//! roles in the manifests with it, and what the code asks with both.

/// Verbs on a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// API group; empty for the core.
    pub group: &'static str,
    /// Resource.
    pub resource: &'static str,
    /// Verbs.
    pub verbs: &'static [&'static str],
    /// Where.
    pub place: Place,
}

/// In which namespace something is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Everywhere, or the resource has none.
    Cluster,
    /// In that of the custom resources.
    Objects,
    /// In the pod's own.
    Own,
}

const fn on(
    group: &'static str,
    resource: &'static str,
    place: Place,
    verbs: &'static [&'static str],
) -> Use {
    Use {
        group,
        resource,
        verbs,
        place,
    }
}

/// Group of the custom resources.
const OURS: &str = super::names::GROUP;

/// The agent's.
pub const AGENT: &[Use] = &[
    on(
        OURS,
        "lvmvolumes",
        Place::Objects,
        &["list", "watch", "patch"],
    ),
    on(
        OURS,
        "lvmnodes",
        Place::Objects,
        &["list", "watch", "create", "patch"],
    ),
    on("", "nodes", Place::Cluster, &["list", "watch"]),
    on("events.k8s.io", "events", Place::Objects, &["create"]),
];

/// The controller's. Where a role of the peer does not allow to patch claims,
/// they are updated.
pub const CONTROLLER: &[Use] = &[
    on(
        OURS,
        "lvmvolumes",
        Place::Objects,
        &["get", "list", "watch", "create", "patch", "delete"],
    ),
    on(
        OURS,
        "lvmsnapshots",
        Place::Objects,
        &["list", "watch", "patch"],
    ),
    on(OURS, "lvmnodes", Place::Objects, &["list", "watch"]),
    on("", "nodes", Place::Cluster, &["list", "watch"]),
    on("", "pods", Place::Own, &["list", "watch"]),
    on(
        "",
        "persistentvolumeclaims",
        Place::Cluster,
        &["get", "list", "watch", "patch"],
    ),
    on("", "persistentvolumes", Place::Cluster, &["get"]),
    on(
        "storage.k8s.io",
        "csinodes",
        Place::Cluster,
        &["list", "watch"],
    ),
    on(
        "coordination.k8s.io",
        "leases",
        Place::Own,
        &["list", "watch", "create", "update"],
    ),
    // About claims too, which are in any namespace.
    on("events.k8s.io", "events", Place::Cluster, &["create"]),
];
