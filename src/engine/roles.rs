//! What every LV of a VG is to the others, read from the metadata text.
//!
//! The model carries segment types that the engine does not drive as text;
//! reports need to look a little deeper.

use std::collections::HashMap;
use std::sync::Arc;

use lvm2::model::{Lv, Vg};
use lvm2::text::Section;

/// What an LV is to the one that builds on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Origin of a thick snapshot.
    Origin,
    /// Thick snapshot: the LV that holds the changed blocks.
    Cow,
    /// Origin of thin volumes outside of the pool.
    ExternalOrigin,
    /// Data of a thin pool.
    PoolData,
    /// Metadata of a thin or cache pool, or the spare for one.
    PoolMeta,
    /// Data of a cache pool.
    CacheData,
    /// A cache pool or cache volume.
    Cache,
    /// What a cache is for.
    CacheOrigin,
    /// Data below dm-integrity.
    IntegrityOrigin,
    /// Checksums of dm-integrity.
    IntegrityMeta,
    /// Data of a VDO pool.
    VdoData,
    /// Leg of a raid.
    RaidImage,
    /// Metadata of a leg of a raid.
    RaidMeta,
    /// Leg of a mirror.
    MirrorImage,
    /// Log of a mirror.
    MirrorLog,
}

/// The first segments of the LVs of a VG, and the LVs' roles.
pub struct Roles {
    segments: HashMap<String, Arc<Section>>,
    roles: HashMap<String, (Role, String)>,
}

impl Roles {
    /// Reads the roles. A text that the model parsed parses here too.
    #[must_use]
    pub fn of(vg: &Vg) -> Self {
        let mut found = Self {
            segments: HashMap::new(),
            roles: HashMap::new(),
        };
        let tree = Section::parse(vg.print().as_bytes()).unwrap_or_default();
        let lvs = tree
            .section(vg.name().as_str())
            .and_then(|vg| vg.section("logical_volumes"));
        for (name, lv) in lvs.iter().flat_map(|lvs| lvs.sections()) {
            for (number, (_, segment)) in lv.sections().enumerate() {
                found.note(name, segment);
                if number == 0 {
                    found.segments.insert(name.to_owned(), Arc::clone(segment));
                }
            }
        }
        found
    }

    fn note(&mut self, user: &str, segment: &Section) {
        let kind = segment.str("type").unwrap_or_default();
        let kind = kind.split('+').next().unwrap_or_default();
        let named: &[(&str, Role)] = match kind {
            "snapshot" => &[
                ("origin", Role::Origin),
                ("cow_store", Role::Cow),
                ("merging_store", Role::Cow),
            ],
            "thin" => &[("external_origin", Role::ExternalOrigin)],
            "thin-pool" => &[("metadata", Role::PoolMeta), ("pool", Role::PoolData)],
            "cache-pool" => &[("metadata", Role::PoolMeta), ("data", Role::CacheData)],
            "cache" => &[("cache_pool", Role::Cache), ("origin", Role::CacheOrigin)],
            "writecache" => &[("writecache", Role::Cache), ("origin", Role::CacheOrigin)],
            "integrity" => &[
                ("origin", Role::IntegrityOrigin),
                ("meta_dev", Role::IntegrityMeta),
            ],
            "vdo-pool" => &[("data", Role::VdoData)],
            "mirror" => &[("mirror_log", Role::MirrorLog)],
            _ => &[],
        };
        for (key, role) in named {
            if let Some(lv) = segment.str(key) {
                self.roles.insert(lv.to_owned(), (*role, user.to_owned()));
            }
        }
        let areas = segment.areas("mirrors").unwrap_or_default();
        let mirrors = areas.into_iter().map(|(lv, _)| (lv, Role::MirrorImage));
        // Pairs of metadata and data.
        let raids = segment.strings("raids").unwrap_or_default();
        let raids = raids
            .into_iter()
            .zip([Role::RaidMeta, Role::RaidImage].into_iter().cycle());
        let raid0 = segment.strings("raid0_lvs").unwrap_or_default();
        let raid0 = raid0.into_iter().map(|lv| (lv, Role::RaidImage));
        for (lv, role) in mirrors.chain(raids).chain(raid0) {
            self.roles.insert(lv.to_owned(), (role, user.to_owned()));
        }
    }

    /// Whether it is a thick snapshot.
    #[must_use]
    pub fn is_snapshot(&self, lv: &Lv) -> bool {
        matches!(self.role(lv.name.as_str()), Some((Role::Cow, _)))
    }

    /// Whether lvm2 counts and lists the LV. A thick snapshot lacks the status
    /// word and is listed all the same; the LV that ties it to its origin has
    /// it and is not.
    #[must_use]
    pub fn is_listed(&self, lv: &Lv) -> bool {
        self.kind(lv.name.as_str()) != "snapshot" && (lv.visible() || self.is_snapshot(lv))
    }

    /// What the LV is to others, and to which.
    #[must_use]
    pub fn role(&self, lv: &str) -> Option<(Role, &str)> {
        // The spare belongs to no pool in particular, so nothing names it.
        let spare = || lv.ends_with("_pmspare").then_some((Role::PoolMeta, ""));
        self.roles
            .get(lv)
            .map(|(role, user)| (*role, user.as_str()))
            .or_else(spare)
    }

    /// A string of the LV's first segment.
    #[must_use]
    pub fn str(&self, lv: &str, key: &str) -> Option<&str> {
        self.segments.get(lv)?.str(key)
    }

    /// A number of the LV's first segment.
    #[must_use]
    pub fn int(&self, lv: &str, key: &str) -> Option<i64> {
        self.segments.get(lv)?.int(key)
    }

    /// The type of the LV's first segment, without its `+FLAG` suffixes.
    #[must_use]
    pub fn kind(&self, lv: &str) -> &str {
        let kind = self.str(lv, "type").unwrap_or_default();
        kind.split('+').next().unwrap_or_default()
    }
}
