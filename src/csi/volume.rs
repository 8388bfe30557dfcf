//! From a volume's id to its LV.

use lvm2::name::{LvName, VgName};

use crate::engine::{LvState, tags};

use super::driver::Driver;
use super::status::{CsiError, OfVolume};

/// Whether the LV carries `tag`.
pub(super) fn has_tag(lv: &LvState, tag: &str) -> bool {
    lv.tags.iter().any(|t| t == tag)
}

impl Driver {
    /// The complete volume with this id, if there is one.
    pub(super) fn find_volume(&self, id: &str) -> Result<Option<LvState>, CsiError> {
        match self.find_any(id)? {
            Some(lv) if has_tag(&lv, tags::INCOMPLETE) => Err(CsiError::Incomplete {
                volume: id.to_owned(),
            }),
            found => Ok(found),
        }
    }

    /// The volume with this id, complete or not. An id that no LV can have
    /// was never a volume.
    pub(super) fn find_any(&self, id: &str) -> Result<Option<LvState>, CsiError> {
        let Ok(name) = LvName::new(id) else {
            return Ok(None);
        };
        choose(id, self.engine.find(&name).of_volume(id)?)
    }

    /// The volume with this id as it was last seen, complete or not, without
    /// asking any PV.
    pub(super) fn find_last_known(&self, id: &str) -> Result<Option<LvState>, CsiError> {
        let Ok(name) = LvName::new(id) else {
            return Ok(None);
        };
        choose(id, self.engine.find_known(&name).of_volume(id)?)
    }

    /// The complete volume with this id, for those who use what is in it: also an
    /// LV that nobody marked, if the cluster has the volume in its VG. The peer
    /// marks none, and what is not taken over yet, or cannot be, is in use all the
    /// same. A VG that is not this host's to change is not believed to be.
    pub(super) fn usable(&self, id: &str) -> Result<LvState, CsiError> {
        let foreign = match self.volume(id) {
            Err(error @ CsiError::Foreign { .. }) => error,
            known => return known,
        };
        let made_in = self.cluster.as_ref().and_then(|c| c.made_in(id));
        let vg = made_in.and_then(|vg| VgName::new(&vg).ok());
        let (Some(vg), Ok(name)) = (vg, LvName::new(id)) else {
            return Err(foreign);
        };
        let outline = self.engine.outline(&vg).of_volume(id)?;
        outline.permitted().of_volume(id)?;
        let mut found = self.engine.find(&name).of_volume(id)?;
        found.retain(|lv| lv.vg == vg);
        match (found.pop(), found.is_empty()) {
            (Some(lv), true) if has_tag(&lv, tags::INCOMPLETE) => Err(CsiError::Incomplete {
                volume: id.to_owned(),
            }),
            (Some(lv), true) => Ok(lv),
            _ => Err(foreign),
        }
    }

    /// The complete volume with this id.
    pub(super) fn volume(&self, id: &str) -> Result<LvState, CsiError> {
        self.find_volume(id)?.ok_or_else(|| CsiError::NoVolume {
            volume: id.to_owned(),
        })
    }
}

/// Of the LVs that have the volume's name, the one that is ours.
fn choose(id: &str, lvs: Vec<LvState>) -> Result<Option<LvState>, CsiError> {
    let (mut ours, others): (Vec<_>, Vec<_>) =
        lvs.into_iter().partition(|lv| has_tag(lv, tags::OWNED));
    match (ours.pop(), others.first()) {
        (Some(lv), _) if ours.is_empty() => Ok(Some(lv)),
        (Some(lv), _) => {
            let vgs = ours.into_iter().chain([lv]).map(|lv| lv.vg).collect();
            Err(CsiError::Ambiguous {
                volume: id.to_owned(),
                vgs,
            })
        }
        (None, Some(other)) => Err(CsiError::Foreign {
            volume: id.to_owned(),
            vg: other.vg.clone(),
        }),
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use lvm2::id::LvId;
    use lvm2::name::VgName;
    use lvm2::units::Bytes;

    /// An LV of 8 MiB with these tags.
    pub(crate) fn lv(vg: &str, name: &str, tags: &[&str]) -> LvState {
        LvState {
            vg: VgName::new(vg).unwrap(),
            name: LvName::new(name).unwrap(),
            id: LvId::from_random([1; 32]),
            size: Bytes(8 << 20),
            tags: tags.iter().map(|t| (*t).to_owned()).collect(),
            dev: None,
            node: None,
            changed: false,
        }
    }

    #[test]
    fn only_what_the_driver_made_is_a_volume() {
        assert!(choose("a", vec![]).unwrap().is_none());
        let other = lv("sys", "a", &["lvcsi.fs=ext4"]);
        assert!(matches!(
            choose("a", vec![other.clone()]),
            Err(CsiError::Foreign { .. })
        ));
        let ours = lv("data", "a", &["lvcsi"]);
        let found = choose("a", vec![other, ours.clone()]).unwrap().unwrap();
        assert_eq!(found.vg.as_str(), "data");
        let twice = choose("a", vec![ours.clone(), lv("more", "a", &["lvcsi"])]).unwrap_err();
        assert!(twice.to_string().contains("data") && twice.to_string().contains("more"));
    }
}
