//! Volumes on the disks that no object stands for. They are reported and left
//! alone: an object may have been lost with the cluster's state.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::reflector::ObjectRef;

use super::Agent;
use super::node::Look;
use crate::engine::tags;
use crate::kube::events::Saying;

/// What was an orphan at the last look. Only what is one twice is reported: an
/// object may just be about to come or to go.
#[derive(Default)]
pub(super) struct Watch {
    suspects: BTreeSet<String>,
    reported: BTreeSet<String>,
}

impl Watch {
    /// Looks for orphans and reports new ones about `lvm_node`, once there is
    /// one: `kubectl describe` shows only Events that name an object's uid.
    pub(super) async fn check(&mut self, agent: &Arc<Agent>, lvm_node: Option<ObjectReference>) {
        if !agent.knows_volumes() {
            return;
        }
        let engine = agent.engine.clone();
        let look = tokio::task::spawn_blocking(move || Look::at(&engine)).await;
        let Ok(Ok(look)) = look else {
            // The publisher of the LVMNode says so.
            return;
        };
        let mut found = BTreeSet::new();
        for vg in &look.vgs {
            for lv in vg.vg.lvs() {
                let name = lv.name.as_str();
                let key = ObjectRef::new(name).within(&agent.namespace);
                let known = agent.volumes.get(&key).is_some();
                if lv.has_tag(tags::OWNED) && lv.visible() && !known {
                    found.insert(format!("{}/{name}", vg.vg.name()));
                }
            }
        }
        let confirmed: BTreeSet<_> = found.intersection(&self.suspects).cloned().collect();
        agent.metrics.orphans(confirmed.len());
        if confirmed.is_empty() {
            self.reported.clear();
        } else if confirmed != self.reported
            && let Some(about) = lvm_node
        {
            report(agent, about, &confirmed);
            self.reported = confirmed;
        }
        self.suspects = found;
    }
}

fn report(agent: &Agent, about: ObjectReference, orphans: &BTreeSet<String>) {
    let names: Vec<_> = orphans.iter().map(String::as_str).collect();
    let note = format!(
        "no LVMVolume stands for these volumes of this driver, which are left alone: {}. Make the \
         objects again, or remove what is not needed: lvremove VG/LV",
        names.join(", ")
    );
    let saying = Saying {
        warning: true,
        reason: "OrphanedVolumes",
        action: "Scan",
        note,
    };
    agent.events.say(about, saying);
}
