//! The steps of an operation on devices, before and after its commit. Each
//! can be repeated without harm.

use std::fmt;

use lvm2::name::{LvName, dm_name};

/// What is done to a device. LVs are named as in the metadata that the step
/// belongs to: the old one for [`Step::Deactivate`], the new one for the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Zero these byte ranges `(offset, length)` of an LV through its PVs.
    Wipe { lv: LvName, ranges: Vec<(u64, u64)> },
    /// Remove the device, if there is one.
    Deactivate { lv: LvName },
    /// Load the new table beside the live one, if the LV is active.
    Load { lv: LvName },
    /// Make device, table and name what the metadata asks for.
    Activate { lv: LvName },
    /// The same, but only if the LV is active.
    Refresh { lv: LvName },
    /// Activate without links, zero everything, then finish.
    ZeroAll { lv: LvName },
    /// Show a device to udev that was hidden while it was zeroed.
    Expose { lv: LvName },
}

impl Step {
    /// A sentence for `--dry-run`.
    pub(super) fn describe(&self, vg: &str) -> String {
        let device = |lv: &LvName| dm_name(vg, lv.as_str(), None);
        match self {
            Self::Wipe { lv, ranges } => format!(
                "zero {} of {vg}/{lv} through its PVs, flush",
                ranges
                    .iter()
                    .map(|range| Range(*range).to_string())
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
            Self::Deactivate { lv } => format!("DM_DEV_REMOVE {}, if active", device(lv)),
            Self::Load { lv } => format!("DM_TABLE_LOAD {}, if active", device(lv)),
            Self::Activate { lv } => {
                format!("DM_DEV_CREATE, DM_TABLE_LOAD, resume {}", device(lv))
            }
            Self::Refresh { lv } => {
                format!(
                    "make name and table of {} agree with the metadata, if active",
                    device(lv)
                )
            }
            Self::ZeroAll { lv } => format!(
                "DM_DEV_CREATE, DM_TABLE_LOAD, resume {} (hidden); zero all of it, flush",
                device(lv)
            ),
            Self::Expose { lv } => format!("suspend, resume {} (visible)", device(lv)),
        }
    }
}

struct Range((u64, u64));

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (offset, length) = self.0;
        write!(f, "bytes {offset}..{}", offset.saturating_add(length))
    }
}
