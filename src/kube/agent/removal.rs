//! Taking LVs away: for objects that are being deleted, and what was made in vain.

use std::sync::Arc;

use lvm2::name::Tag;

use super::work::{Work, WorkError, has, lv_name};
use crate::engine::{EngineError, LvState, Request, tags};
use crate::kube::crd::{LvmVolume, VolumeState};

impl Work<'_> {
    /// Removes the object's LV. One that is gone is removed already.
    pub(super) fn remove(self, object: &LvmVolume) -> Result<Option<LvState>, WorkError> {
        let found = if object.spec.vol_group.is_empty() {
            self.half_told(object)?
        } else {
            self.owned(object)?
        };
        let Some(lv) = found else {
            return Ok(None);
        };
        let ours = has(&lv, tags::OWNED);
        if !ours && object.state() != VolumeState::Ready {
            tracing::warn!(
                volume = %lv.name, vg = %lv.vg,
                "an LV of this name is there that was not made for the object; it stays"
            );
            return Ok(None);
        }
        let name = lv.name.to_string();
        // Nobody may publish it between the look at the mounts and the removal.
        let _held = self.driver.hold(&name).ok_or(WorkError::Busy)?;
        let published = self
            .driver
            .published(&lv)
            .map_err(|source| EngineError::Host {
                object: name.clone(),
                source: Arc::new(source),
            })?;
        if let Some(at) = published.first() {
            return Err(WorkError::Blocked {
                reason: "VolumeInUse",
                note: format!(
                    "LV {}/{name} is still published at {}; it is removed once its pod is gone",
                    lv.vg,
                    at.display()
                ),
            });
        }
        let remove = Request::Remove {
            name: lv.name.clone(),
            must_exist: false,
            require_tag: Tag::new(tags::OWNED).ok().filter(|_| ours),
        };
        self.engine.submit(&lv.vg, remove).wait()?;
        Ok(Some(lv))
    }

    /// Takes back an LV that was made a moment ago for an object that is gone.
    pub(super) fn take_back(self, made: &LvState) -> Result<(), WorkError> {
        self.discard(&made.vg, &made.name, tags::OWNED)
    }

    /// What was made for an object before its status could say where.
    fn half_told(self, object: &LvmVolume) -> Result<Option<LvState>, WorkError> {
        let Ok(name) = lv_name(object) else {
            return Ok(None);
        };
        let found = self.engine.find(&name)?;
        Ok(found.into_iter().find(|lv| has(lv, tags::OWNED)))
    }
}
