//! The engine on the simulated host.

mod backup;
mod basics;
mod crash;
mod disks;
mod disks_crash;
mod disks_refused;
mod faults;
mod foreign;
mod group;
mod hang;
mod matrix;
mod pitfalls;
mod refusals;
mod repair;
mod silence;
mod stale;
mod stories;
mod texts;

use lvm2::check;
use lvm2::edit::Layout;
use lvm2::name::{LvName, Tag, VgName};
use lvm2::units::{Bytes, ExtentSize, Sectors};

use super::{CreateLv, Engine, EngineConfig, EngineError, LvState, Request, Size, Wipe, tags};
use crate::host::Host;
use crate::host::sim::SimHost;

const MIB: u64 = 1024 * 1024;
const MIB_LEN: usize = 1024 * 1024;
const DISKS: [&str; 2] = ["/dev/sda", "/dev/sdb"];

/// A machine with the VG `data` on two disks of 256 MiB.
fn machine() -> SimHost {
    machine_with(&DISKS)
}

fn machine_with(disks: &[&str]) -> SimHost {
    let sim = SimHost::new();
    for disk in disks {
        sim.add_disk(disk, 256 * MIB, 512);
    }
    let extent = ExtentSize::new(Sectors(8192)).unwrap();
    sim.add_vg("data", disks, extent).unwrap();
    sim
}

fn engine(host: Host) -> Engine {
    Engine::start(host, EngineConfig::default()).unwrap()
}

fn vg() -> VgName {
    VgName::new("data").unwrap()
}

fn lv(name: &str) -> LvName {
    LvName::new(name).unwrap()
}

fn tag(text: &str) -> Tag {
    Tag::new(text).unwrap()
}

fn create(name: &str, mib: u64) -> CreateLv {
    CreateLv {
        name: lv(name),
        size: Size::Bytes(Bytes(mib * MIB)),
        tags: vec![tag(tags::OWNED)],
        layout: Layout::default(),
        wipe: Wipe::Signatures,
        activate: true,
    }
}

fn create_block(name: &str, mib: u64) -> CreateLv {
    let mut create = create(name, mib);
    create.wipe = Wipe::Zero;
    create.tags.push(tag("lvcsi.access=block"));
    create
}

fn extend(name: &str, mib: u64) -> Request {
    Request::Extend {
        name: lv(name),
        size: Size::Bytes(Bytes(mib * MIB)),
        add: false,
        layout: Layout::default(),
    }
}

fn remove(name: &str) -> Request {
    Request::Remove {
        name: lv(name),
        must_exist: false,
        require_tag: None,
    }
}

fn run(engine: &Engine, request: Request) -> Result<LvState, EngineError> {
    engine.submit(&vg(), request).wait()
}

/// Names of the LVs on the disks, as a new process finds them; the metadata
/// is sound, and no device is there that no LV explains.
fn sound_lvs(sim: &SimHost) -> Vec<String> {
    let engine = engine(sim.host());
    let report = engine.vg(&vg()).unwrap();
    assert_eq!(check::check(&report.vg), []);
    let devices = engine.host().dm.list().unwrap();
    for device in devices {
        let known = report
            .vg
            .lvs()
            .iter()
            .any(|lv| lvm2::name::dm_uuid(&report.vg.id(), &lv.id, None) == device.uuid);
        assert!(known, "device {} belongs to no LV", device.name);
    }
    report
        .vg
        .lvs()
        .iter()
        .map(|lv| lv.name.to_string())
        .collect()
}
