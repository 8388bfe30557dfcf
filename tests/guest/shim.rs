//! Disks of device-mapper devices, whose tables a test changes under the VG.

use std::path::{Path, PathBuf};

use lvcsi_kit::{Disk, LoopVg, VgSpec, host, run};
use tempfile::TempDir;

/// Where a shim begins on its loop device, in sectors: the loop device itself
/// shows no label to anybody.
const OFFSET: u64 = 16384;
/// Sectors of the parts of a PV as lvm2 lays it out: label, the header of the
/// metadata area, its texts.
const HEADER: u64 = 8;
const TEXTS: u64 = 9;
const DATA: u64 = 2048;

/// A dm device over a loop device.
pub(crate) struct Shim {
    pub(crate) path: PathBuf,
    name: String,
    disk: Disk,
    sectors: u64,
    tables: PathBuf,
}

/// What of a shim fails to be written. Everything can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The texts of the metadata area.
    Text,
    /// The header of the metadata area.
    Header,
}

impl Shim {
    /// Of `mib` MiB, with its loop file in `dir`.
    pub(crate) fn new(dir: &Path, name: &str, mib: u64) -> Self {
        let sectors = mib << 11;
        let disk = Disk::new(dir, name, (sectors + OFFSET) << 9, 0);
        let name = format!("shim{}{name}", std::process::id());
        let shim = Self {
            path: format!("/dev/mapper/{name}").into(),
            tables: dir.join(format!("{name}.table")),
            name,
            disk,
            sectors,
        };
        std::fs::write(&shim.tables, shim.linear(0, sectors)).expect("a table");
        shim.dmsetup(&["create", &shim.name, shim.tables()]);
        shim
    }

    /// The VG of these disks.
    pub(crate) fn vg(shims: &[Self], spec: &VgSpec) -> LoopVg {
        let paths: Vec<&Path> = shims.iter().map(|shim| shim.path.as_path()).collect();
        LoopVg::on_whole(&paths, spec)
    }

    fn tables(&self) -> &str {
        self.tables.to_str().expect("a path")
    }

    fn dmsetup(&self, args: &[&str]) {
        let _ = run("dmsetup", args).expect_success();
        host::settle();
    }

    fn linear(&self, start: u64, end: u64) -> String {
        let from = OFFSET + start;
        let loop_device = self.disk.devno();
        format!("{start} {} linear {loop_device} {from}\n", end - start)
    }

    fn failing(&self, start: u64, end: u64) -> String {
        let from = OFFSET + start;
        let loop_device = self.disk.devno();
        let length = end - start;
        format!("{start} {length} flakey {loop_device} {from} 0 3600 1 error_writes\n")
    }

    /// Gives the device another table.
    fn swap(&self, table: &str) {
        std::fs::write(&self.tables, table).expect("a table");
        for args in [
            &["load", &self.name, self.tables()][..],
            &["resume", &self.name],
        ] {
            let _ = run("dmsetup", args).expect_success();
        }
    }

    /// All of it works.
    pub(crate) fn heal(&self) {
        self.swap(&self.linear(0, self.sectors));
    }

    /// Nothing of it can be read or written.
    pub(crate) fn vanish(&self) {
        self.swap(&format!("0 {} error\n", self.sectors));
    }

    /// It ends after `mib` MiB.
    pub(crate) fn shrink(&self, mib: u64) {
        self.swap(&self.linear(0, mib << 11));
    }

    /// Writes of one phase of a commit fail. May be called in the middle of one.
    pub(crate) fn fail(&self, phase: Phase) {
        let parts = match phase {
            Phase::Text => [
                self.linear(0, TEXTS),
                self.failing(TEXTS, DATA),
                String::new(),
            ],
            Phase::Header => [
                self.linear(0, HEADER),
                self.failing(HEADER, TEXTS),
                self.linear(TEXTS, DATA),
            ],
        };
        self.swap(&(parts.concat() + &self.linear(DATA, self.sectors)));
    }

    /// Exchanges what is behind two names.
    pub(crate) fn exchange(&self, other: &Self) {
        self.swap(&other.linear(0, other.sectors));
        other.swap(&self.linear(0, self.sectors));
    }
}

impl Drop for Shim {
    fn drop(&mut self) {
        let _ = run("dmsetup", &["remove", "--retry", &self.name]);
        host::settle();
    }
}

/// A folder for the loop files, that outlives them.
pub(crate) fn folder() -> TempDir {
    tempfile::Builder::new()
        .prefix("lvcsi-shim-")
        .tempdir_in(host::scratch())
        .expect("a folder for loop files")
}
