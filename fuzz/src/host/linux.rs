//! Texts that the real host reads: lvm.conf, the devices file, the mount table.

#[path = "../../../src/host/linux/devicesfile.rs"]
mod devicesfile;
#[path = "../../../src/host/linux/filter.rs"]
mod filter;
#[path = "../../../src/host/linux/lvmconf.rs"]
mod lvmconf;
#[path = "../../../src/host/linux/mountinfo.rs"]
mod mountinfo;
#[path = "../../../src/host/linux/skip.rs"]
mod skip;
#[path = "../../../src/host/linux/sysfs.rs"]
mod sysfs;

/// What sysfs.rs takes from the block layer.
mod block {
    use std::io;
    use std::path::Path;

    use crate::host::HostError;

    pub(super) fn path_error(op: &'static str, path: &Path, source: io::Error) -> HostError {
        let path = path.to_owned();
        HostError::Path { op, path, source }
    }
}

use std::path::{Path, PathBuf};

use lvm2::tables::DevNo;

use devicesfile::{DeviceId, DevicesFile, Listed, with_devices};
use lvmconf::LvmConf;
use sysfs::SysDevice;

/// Reads lvmlocal.conf and lvm.conf, and asks for everything the driver asks.
pub fn lvm_conf(local: &[u8], main: &[u8]) {
    let dir = Path::new("/nonexistent/lvm");
    let texts = vec![
        (dir.join("lvmlocal.conf"), local.to_vec()),
        (dir.join("lvm.conf"), main.to_vec()),
    ];
    let Ok(conf) = LvmConf::parse(dir, texts) else {
        return;
    };
    let paths = || [Path::new("/dev/sda"), Path::new("/dev/disk/by-id/x")];
    for filter in [conf.global_filter(), conf.local_filter()]
        .into_iter()
        .flatten()
    {
        assert!(!filter.is_empty() || filter.accepts(paths()));
    }
    let _ = (conf.scan_lvs(), conf.multipath_detection());
    let _ = (conf.md_detection(), conf.md_checks());
    let _ = (conf.devices_file(), conf.locking_dir());
    let etc = Path::new("/nonexistent/etc");
    if let Ok(identity) = conf.identity("node-1".to_owned(), String::new(), etc) {
        let ids = identity.system_id.iter().chain(&identity.extra_system_ids);
        for id in ids {
            assert!((1..=128).contains(&id.len()) && !id.contains(['"', '\\', '\n']));
        }
    }
}

/// Reads a devices file, looks two devices up in it and adds one.
pub fn devices_file(text: &str) {
    let file = DevicesFile::parse(text);
    let disk = device("sda", None);
    let partition = device("sda1", Some(("sda".to_owned(), 1)));
    let node = Path::new("/dev/sda");
    let _ = file.lists(&disk, &disk, node);
    let _ = file.lists(&partition, &disk, Path::new("/dev/sda1"));
    let listed = Listed {
        id: DeviceId::of(&disk, &disk, node),
        node: node.to_owned(),
        pv: None,
    };
    let written = with_devices(text, &[listed]);
    assert!(DevicesFile::parse(&written).lists(&disk, &disk, node));
}

fn device(name: &str, partition_of: Option<(String, u32)>) -> SysDevice {
    SysDevice {
        name: name.to_owned(),
        devno: DevNo { major: 8, minor: 0 },
        node: name.to_owned(),
        size: 1 << 30,
        block_size: 512,
        partition_of,
        partitioned: false,
        holders: Vec::new(),
        dm: None,
        dir: PathBuf::from("/nonexistent/sys"),
    }
}

/// Reads a mount table; each line gives one entry at most, with the number of its
/// source if that is a device and the number in the line is nobody's.
pub fn mount_table(text: &[u8]) {
    let dev = lvm2::tables::DevNo {
        major: 253,
        minor: 1,
    };
    let mounts = mountinfo::parse(text, |path| path.starts_with("/dev").then_some(dev));
    assert!(mounts.len() <= text.split(|b| *b == b'\n').count());
}
