//! lvm2's own commands.

use std::time::Duration;

use lvcsi_kit::LoopVg;

use crate::{GROWTH, SIZE};

pub(crate) fn create(vg: &LoopVg, name: &str) -> Duration {
    vg.lvm
        .clean(&["lvcreate", "-y", "-L", SIZE.1, "-n", name, &vg.name])
        .took
}

pub(crate) fn extend(vg: &LoopVg, name: &str) -> Duration {
    vg.lvm
        .clean(&["lvextend", "-L", GROWTH.1, &vg.lv(name)])
        .took
}

pub(crate) fn remove(vg: &LoopVg, name: &str) -> Duration {
    vg.lvm.clean(&["lvremove", "-y", &vg.lv(name)]).took
}
