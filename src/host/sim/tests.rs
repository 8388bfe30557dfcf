//! The simulated machine behaves like a machine.

mod devices;
mod faults;
mod files;
mod journal;

use std::sync::Arc;

use lvm2::tables::{DevNo, Target};
use lvm2::units::Sectors;

use super::SimHost;
use crate::host::{BlockDevice, Exposure, Host};

const MIB: u64 = 1 << 20;
const DISK: DevNo = DevNo { major: 8, minor: 0 };

pub(super) fn machine() -> (SimHost, Host) {
    let sim = SimHost::new();
    sim.add_disk("/dev/sda", 64 * MIB, 512);
    sim.add_disk("/dev/sdb", 64 * MIB, 512);
    let host = sim.host();
    (sim, host)
}

fn target(start: u64, len: u64, kind: &str, params: &str) -> Target {
    Target {
        start: Sectors(start),
        len: Sectors(len),
        kind: kind.to_owned(),
        params: params.to_owned(),
    }
}

fn mapped(host: &Host, name: &str, table: &[Target]) -> DevNo {
    let dev = host.dm.create(name, &format!("LVM-{name}")).unwrap();
    host.dm.load(dev, table, false).unwrap();
    host.dm
        .resume(dev, name, Some(("vg", name)), Exposure::Visible)
        .unwrap();
    dev
}

fn open(host: &Host, dev: DevNo, write: bool) -> Arc<dyn BlockDevice> {
    let (found, _) = host.block.discover().unwrap();
    let disk = found.into_iter().find(|info| info.devno == dev);
    let info = disk.unwrap_or_else(|| {
        let path = host.dm.node(dev).unwrap();
        host.block.open_path(&path).unwrap().info().clone()
    });
    host.block.open(&info, write).unwrap()
}

fn read(device: &dyn BlockDevice, offset: u64, len: usize) -> Vec<u8> {
    let mut buf = vec![0xaa; len];
    device.read_at(offset, &mut buf).unwrap();
    buf
}
