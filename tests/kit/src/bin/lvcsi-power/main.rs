//! What runs in a machine whose power will be cut: looks at what the last cut
//! left, lets the driver recover, has lvm2 judge, reports every volume to the
//! host, and then makes, grows, fills and removes volumes until the power goes.
//! `cargo xtask test power` starts it and keeps the books.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test program: what is unexpected ends it, and the host hears why"
)]

mod host;
mod load;
mod look;

use std::path::Path;

use lvcsi_kit::{Driver, Lvm};

use host::Host;

/// The VG and the disks of the machine.
const VG: &str = "power";
const DISKS: [&str; 2] = ["/dev/vda", "/dev/vdb"];
/// Place of the driver's socket and log.
const RUN: &str = "/run/lvcsi";

fn main() {
    let host = Host::open();
    host.tell_of_panics();
    let lvm = Lvm::default();
    if host.ask("booted") == "fresh" {
        make_vg(&lvm);
    }
    host.ask(&look::after_the_cut());
    std::fs::create_dir_all(RUN).expect("a folder for the driver");
    let driver = Driver::start(Path::new(RUN));
    let volumes = look::after_recovery(&host, &lvm);
    let answer = host.ask("checked");
    let seed = answer
        .strip_prefix("load ")
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| panic!("the host says {answer:?}"));
    load::run(&host, &driver.csi(), volumes, seed);
}

/// Small extents, so that many volumes fit on small disks and use each
/// other's space again and again.
fn make_vg(lvm: &Lvm) {
    for disk in DISKS {
        lvm.clean(&["pvcreate", "-q", "-y", disk]);
    }
    let mut args = vec!["vgcreate", "-q", "-y", "-s", "1m", VG];
    args.extend(DISKS);
    lvm.clean(&args);
    // lvm2 leaves what it wrote in the disks' caches, and a cut would lose it.
    for disk in DISKS {
        let flushed = std::fs::File::open(disk).and_then(|disk| disk.sync_all());
        flushed.unwrap_or_else(|e| panic!("{disk}: {e}"));
    }
}
