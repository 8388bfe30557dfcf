//! Agents that keep books instead of disks: what an LVMVolume asks for is
//! given or refused, and the LVMNode follows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{GIB, LVM_NODES, VOLUMES};
use crate::kube::tests::fake::FakeApi;

#[derive(Clone, Debug, Default)]
struct Vg {
    size: u64,
    free: u64,
    lvs: BTreeMap<String, u64>,
}

#[derive(Debug, Default)]
struct Node {
    vgs: BTreeMap<String, Vg>,
    paused: bool,
    /// Volumes fail with this kind and message.
    fails: Option<(String, String)>,
    /// Its LVMNode is not written.
    mute: bool,
}

/// The agents of all nodes.
#[derive(Clone)]
pub(super) struct Agents {
    api: FakeApi,
    nodes: Arc<Mutex<BTreeMap<String, Node>>>,
    /// Every LV that was ever made, with its node.
    made: Arc<Mutex<Vec<(String, String)>>>,
}

impl Agents {
    pub(super) fn new(api: &FakeApi) -> Self {
        Self {
            api: api.clone(),
            nodes: Arc::default(),
            made: Arc::default(),
        }
    }

    /// Adds a node with VGs of so many GiB, and reports it.
    pub(super) fn add(&self, name: &str, vgs: &[(&str, u64)]) {
        let vg = |gib: u64| Vg {
            size: gib * GIB,
            free: gib * GIB,
            lvs: BTreeMap::new(),
        };
        let node = Node {
            vgs: vgs
                .iter()
                .map(|(n, gib)| ((*n).to_owned(), vg(*gib)))
                .collect(),
            ..Node::default()
        };
        self.nodes.lock().unwrap().insert(name.to_owned(), node);
        self.report(name);
    }

    fn change(&self, node: &str, change: impl FnOnce(&mut Node)) {
        change(self.nodes.lock().unwrap().get_mut(node).unwrap());
    }

    /// Does nothing any more, or works again.
    pub(super) fn pause(&self, node: &str, paused: bool) {
        self.change(node, |node| node.paused = paused);
    }

    /// Refuses what comes.
    pub(super) fn fail(&self, node: &str, kind: &str, message: &str) {
        let fails = Some((kind.to_owned(), message.to_owned()));
        self.change(node, |node| node.fails = fails);
    }

    /// No longer reports its VGs.
    pub(super) fn mute(&self, node: &str) {
        self.change(node, |node| node.mute = true);
    }

    /// Somebody else takes or gives space, and the LVMNode tells.
    pub(super) fn set_free(&self, node: &str, vg: &str, free: u64) {
        self.change(node, |node| {
            node.vgs.get_mut(vg).unwrap().free = free;
        });
        self.report(node);
    }

    /// A disk was added.
    pub(super) fn extend(&self, node: &str, vg: &str, gib: u64) {
        self.change(node, |node| {
            let vg = node.vgs.get_mut(vg).unwrap();
            vg.size += gib * GIB;
            vg.free += gib * GIB;
        });
        self.report(node);
    }

    /// Every LV that was ever made, with its node.
    pub(super) fn made(&self) -> Vec<(String, String)> {
        self.made.lock().unwrap().clone()
    }

    /// LVs of a VG.
    pub(super) fn lvs(&self, node: &str, vg: &str) -> usize {
        self.nodes.lock().unwrap()[node].vgs[vg].lvs.len()
    }

    /// Works until the test ends.
    pub(super) fn start(&self) {
        let agents = self.clone();
        tokio::spawn(async move {
            let api = agents.api.clone();
            loop {
                let work = |api: &FakeApi| {
                    let all = api.all(VOLUMES);
                    all.into_iter().find(|object| agents.has_work(object))
                };
                let object = api.work(work).await;
                agents.reconcile(&object);
            }
        });
    }

    fn has_work(&self, object: &Value) -> bool {
        let nodes = self.nodes.lock().unwrap();
        let owner = object["spec"]["ownerNodeID"].as_str().unwrap();
        let Some(node) = nodes.get(owner).filter(|node| !node.paused) else {
            return false;
        };
        let deleting = !object["metadata"]["deletionTimestamp"].is_null();
        let name = object["metadata"]["name"].as_str().unwrap();
        let vg = object["spec"]["volGroup"].as_str().unwrap();
        let lv = node.vgs.get(vg).and_then(|vg| vg.lvs.get(name));
        let grows = lv.is_some_and(|lv| *lv < capacity(object));
        deleting || object["status"]["state"] == "Pending" || grows
    }

    fn reconcile(&self, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        let owner = object["spec"]["ownerNodeID"].as_str().unwrap();
        let change = {
            let mut nodes = self.nodes.lock().unwrap();
            let node = nodes.get_mut(owner).unwrap();
            let size = capacity(object);
            if object["metadata"]["deletionTimestamp"].is_null() {
                match object["status"]["state"].as_str() {
                    Some("Pending") => self.provision(node, owner, name, size, object),
                    _ => grow(node, name, size),
                }
            } else {
                for vg in node.vgs.values_mut() {
                    vg.free += vg.lvs.remove(name).unwrap_or(0);
                }
                json!({ "metadata": { "finalizers": [] } })
            }
        };
        self.report(owner);
        self.api.try_change(VOLUMES, name, &change);
    }

    fn provision(
        &self,
        node: &mut Node,
        owner: &str,
        name: &str,
        size: u64,
        object: &Value,
    ) -> Value {
        if let Some((kind, message)) = &node.fails {
            return failure(kind, message);
        }
        let pattern = regex::Regex::new(object["spec"]["vgPattern"].as_str().unwrap()).unwrap();
        let matching = node.vgs.iter_mut().filter(|(vg, _)| pattern.is_match(vg));
        let fitting = matching.filter(|(_, vg)| vg.free >= size);
        let Some((vg_name, vg)) = fitting.min_by_key(|(_, vg)| vg.free) else {
            return failure("ResourceExhausted", "the VG is full");
        };
        vg.free -= size;
        vg.lvs.insert(name.to_owned(), size);
        let entry = (name.to_owned(), owner.to_owned());
        self.made.lock().unwrap().push(entry);
        json!({
            "metadata": {
                "finalizers": ["lvm.openebs.io/finalizer"],
                "labels": { "kubernetes.io/nodename": owner },
            },
            "spec": { "volGroup": vg_name },
            "status": { "state": "Ready" },
        })
    }

    fn report(&self, name: &str) {
        let nodes = self.nodes.lock().unwrap();
        let node = &nodes[name];
        if node.mute {
            return;
        }
        let group = |(name, vg): (&String, &Vg)| {
            json!({
                "name": name, "uuid": format!("uuid-{name}"),
                "size": vg.size.to_string(), "free": vg.free.to_string(),
                "lvCount": vg.lvs.len(), "pvCount": 1, "maxLv": 0, "maxPv": 0,
                "snapCount": 0, "missingPvCount": 0, "metadataCount": 1,
                "metadataUsedCount": 1, "metadataFree": "508Ki", "metadataSize": "1020Ki",
                "permissions": 0, "allocationPolicy": 0,
            })
        };
        let groups: Vec<_> = node.vgs.iter().map(group).collect();
        let object = json!({
            "apiVersion": "local.openebs.io/v1alpha1", "kind": "LVMNode",
            "metadata": { "name": name, "namespace": "openebs" },
            "volumeGroups": groups,
        });
        drop(nodes);
        let present = self.api.get(LVM_NODES, name);
        if present.is_none_or(|present| present["volumeGroups"] != object["volumeGroups"]) {
            self.api.put(LVM_NODES, object);
        }
    }
}

fn capacity(object: &Value) -> u64 {
    object["spec"]["capacity"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

fn failure(kind: &str, message: &str) -> Value {
    json!({
        "metadata": { "annotations": { "local.csi.openebs.io/failure": kind } },
        "status": { "state": "Failed", "error": { "code": "Internal", "message": message } },
    })
}

fn grow(node: &mut Node, name: &str, size: u64) -> Value {
    for vg in node.vgs.values_mut() {
        if let Some(lv) = vg.lvs.get_mut(name) {
            vg.free -= size - *lv;
            *lv = size;
        }
    }
    json!({})
}
