//! Our engine on a loop-backed VG, for the tests and benchmarks that call it
//! in their own process.

#![allow(
    dead_code,
    reason = "each program that includes this file uses a part of it"
)]

mod no_dm;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lvcsi::engine::{
    BackupConfig, CreateLv, Engine, EngineConfig, EngineError, LvState, Request, Size, Wipe,
};
use lvcsi::host::Host;
use lvcsi::host::linux::{LinuxConfig, LinuxHost};
use lvcsi_kit::{LoopVg, host};
use lvm2::edit::Layout;
use lvm2::name::{LvName, Tag, VgName};
use lvm2::units::{Bytes, Extents};

/// The engine and the VG that it works on.
pub(crate) struct Native {
    pub(crate) engine: Engine,
    pub(crate) vg: VgName,
}

impl Native {
    /// An engine of its own for `vg`.
    pub(crate) fn open(vg: &LoopVg) -> Self {
        Self::open_with(vg, EngineConfig::default())
    }

    /// The same with other settings.
    pub(crate) fn open_with(vg: &LoopVg, config: EngineConfig) -> Self {
        Self::on_with(machine(vg), &vg.name, config)
    }

    /// As [`open`](Self::open), with more in lvm.conf.
    pub(crate) fn open_as(vg: &LoopVg, conf: &str) -> Self {
        Self::on(machine_with(vg.dir(), &vg.paths(), conf), &vg.name)
    }

    /// An engine of its own for a VG that any disk of this machine may hold.
    pub(crate) fn named(vg: &str) -> Self {
        Self::on(real_machine(), vg)
    }

    /// The engine on a machine that the caller has made.
    pub(crate) fn on(machine: Host, vg: &str) -> Self {
        Self::on_with(machine, vg, EngineConfig::default())
    }

    fn on_with(machine: Host, vg: &str, config: EngineConfig) -> Self {
        let engine = Engine::start(machine, config).expect("the engine");
        Self {
            engine,
            vg: VgName::new(vg).expect("name of a VG"),
        }
    }

    /// Asks and waits.
    pub(crate) fn run(&self, request: Request) -> Result<LvState, EngineError> {
        self.engine.submit(&self.vg, request).wait()
    }

    /// Asks, waits, and accepts no error.
    pub(crate) fn ok(&self, request: Request) -> LvState {
        let what = format!("{request:?}");
        self.run(request)
            .unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    /// A plain active LV of `mib` MiB.
    pub(crate) fn create(&self, name: &str, mib: u64) -> LvState {
        self.ok(create(name, Size::Bytes(Bytes(mib << 20))))
    }

    pub(crate) fn remove(&self, name: &str) -> LvState {
        self.ok(Request::Remove {
            name: lv(name),
            must_exist: true,
            require_tag: None,
        })
    }

    pub(crate) fn rename(&self, name: &str, to: &str) -> LvState {
        self.ok(Request::Rename {
            name: lv(name),
            to: lv(to),
        })
    }

    /// Grows to `mib` MiB.
    pub(crate) fn extend(&self, name: &str, mib: u64) -> LvState {
        self.ok(extend(name, Size::Bytes(Bytes(mib << 20)), false))
    }

    pub(crate) fn activate(&self, name: &str) -> LvState {
        self.ok(Request::Activate { name: lv(name) })
    }

    pub(crate) fn deactivate(&self, name: &str) -> LvState {
        self.ok(Request::Deactivate { name: lv(name) })
    }
}

/// The engine's files of the disks are closed before the disks go.
impl Drop for Native {
    fn drop(&mut self) {
        self.engine.shutdown();
    }
}

/// This machine. Without device-mapper it has none, and sees only the disks of
/// `vg`, so that tests on one machine do not disturb each other.
pub(crate) fn machine(vg: &LoopVg) -> Host {
    machine_on(vg.dir(), &vg.paths())
}

/// The same for these disks; `dir` is a folder that goes away with them.
pub(crate) fn machine_on(dir: &Path, disks: &[&Path]) -> Host {
    machine_with(dir, disks, "")
}

fn machine_with(dir: &Path, disks: &[&Path], conf: &str) -> Host {
    if host::has_dm() && conf.is_empty() {
        return real_machine();
    }
    let dir = dir.join("etc-lvm");
    std::fs::create_dir_all(&dir).expect("a folder for lvm.conf");
    let accept: String = disks
        .iter()
        .map(|path| format!("\"a|^{}$|\", ", path.display()))
        .collect();
    let conf = format!("devices {{\n\tfilter = [ {accept}\"r|.*|\" ]\n}}\n{conf}");
    std::fs::write(dir.join("lvm.conf"), conf).expect("lvm.conf");
    let config = LinuxConfig {
        lvm_conf_dir: dir,
        ..LinuxConfig::default()
    };
    let mut machine = LinuxHost::open(&config).expect("the host");
    if !host::has_dm() {
        machine.dm = Arc::new(no_dm::NoDm);
    }
    machine
}

fn real_machine() -> Host {
    LinuxHost::open(&LinuxConfig::default()).expect("the host")
}

pub(crate) fn lv(name: &str) -> LvName {
    LvName::new(name).expect("name of an LV")
}

pub(crate) fn tag(text: &str) -> Tag {
    Tag::new(text).expect("a tag")
}

/// Settings that keep copies of the metadata in `dir`.
pub(crate) fn keeping(dir: impl Into<PathBuf>, wait: bool) -> EngineConfig {
    let backup = BackupConfig {
        dir: dir.into(),
        wait,
        ..BackupConfig::default()
    };
    EngineConfig {
        backup: Some(backup),
        ..EngineConfig::default()
    }
}

/// A request for a plain active LV.
pub(crate) fn create(name: &str, size: Size) -> Request {
    Request::Create(CreateLv {
        name: lv(name),
        size,
        tags: Vec::new(),
        layout: Layout::default(),
        wipe: Wipe::Signatures,
        activate: true,
    })
}

pub(crate) fn extend(name: &str, size: Size, add: bool) -> Request {
    Request::Extend {
        name: lv(name),
        size,
        add,
        layout: Layout::default(),
    }
}

/// `count` extents.
pub(crate) fn extents(count: u64) -> Size {
    Size::Extents(Extents(count))
}

/// Paths of the VG's disks, owned.
pub(crate) fn disk_paths(vg: &LoopVg) -> Vec<PathBuf> {
    vg.paths().into_iter().map(Into::into).collect()
}
