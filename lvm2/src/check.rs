//! What must hold for a VG, and when a VG must not be written.
//!
//! [`check`] runs every rule; each rule is a function of its own. A violation
//! means that metadata is damaged or beyond us: it is shown, never repaired.

mod layout;
mod refuse;
mod structure;

use std::fmt;

use crate::model::Vg;

pub use refuse::{Identity, Refusal, refusal};

/// A rule that a VG breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule's short name.
    pub rule: &'static str,
    /// What breaks it: `VG vg0`, `LV vg0/data`, `PV …`.
    pub object: String,
    /// How.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.object, self.detail, self.rule)
    }
}

/// A rule: its short name, and the function that reports where it is broken.
type Rule = (&'static str, fn(&Vg, &mut Report<'_>));

/// Every rule, cheap and basic ones first.
const RULES: &[Rule] = &[
    ("text-layout", layout::text),
    ("seqno", structure::seqno),
    ("status-words", structure::status_words),
    ("pv-unique", structure::pv_unique),
    ("pv-size", structure::pv_size),
    ("lv-unique", structure::lv_unique),
    ("name-length", structure::name_length),
    ("creation", structure::creation),
    ("segment-count", structure::segment_count),
    ("segment-order", structure::segment_order),
    ("stripes", structure::stripes),
    ("areas-exist", layout::areas_exist),
    ("extents-in-pv", layout::extents_in_pv),
    ("extents-once", layout::extents_once),
];

/// Collects what one rule finds.
struct Report<'a> {
    rule: &'static str,
    found: &'a mut Vec<Violation>,
}

impl Report<'_> {
    fn add(&mut self, object: String, detail: String) {
        self.found.push(Violation {
            rule: self.rule,
            object,
            detail,
        });
    }
}

/// Every violation of every rule; empty for a sound VG.
#[must_use]
pub fn check(vg: &Vg) -> Vec<Violation> {
    let mut found = Vec::new();
    for (rule, run) in RULES {
        run(
            vg,
            &mut Report {
                rule,
                found: &mut found,
            },
        );
    }
    found
}

fn vg_object(vg: &Vg) -> String {
    format!("VG {}", vg.name())
}

fn lv_object(vg: &Vg, lv: &crate::model::Lv) -> String {
    format!("LV {}/{}", vg.name(), lv.name)
}

fn pv_object(vg: &Vg, pv: &crate::model::Pv) -> String {
    format!("PV {} ({}) of VG {}", pv.id, pv.key, vg.name())
}
