//! What is on a device, by libblkid.

use std::path::Path;

use libblkid_rs::{BlkidErr, BlkidProbe, BlkidSafeprobeRet, BlkidSublks, BlkidSublksFlags};
use nix::errno::Errno;

use super::block::{devno_of, path_error};
use crate::host::{DeviceInfo, HostResult, Probe, Signature};

/// Every signature on `device`, with its place.
pub(super) fn signatures(device: &DeviceInfo) -> HostResult<Vec<Signature>> {
    let failed = |error| path_error("probe", &device.path, error);
    let file = std::fs::File::open(&device.path).map_err(failed)?;
    // The node may lead elsewhere by now.
    if devno_of(&file).map_err(failed)? != device.devno {
        return Err(failed(Errno::ENXIO.into()));
    }
    let found = lvcsi_sys::blkid::signatures(&file).map_err(failed)?;
    Ok(found
        .into_iter()
        .map(|found| Signature {
            kind: found.kind,
            label: found.label,
            uuid: found.uuid,
            magic: found.magic,
        })
        .collect())
}

/// Looks for signatures of every kind.
pub(super) fn probe(path: &Path) -> HostResult<Probe> {
    // libblkid reports an empty device (size 0) as "nothing found", which would
    // read as blank.
    let file = std::fs::File::open(path).map_err(|error| path_error("open", path, error))?;
    let size =
        lvcsi_sys::block::size_bytes(&file).map_err(|error| path_error("probe", path, error))?;
    if size == 0 {
        return Err(path_error("probe", path, Errno::ENOMEDIUM.into()));
    }
    run(path).map_err(|error| {
        // The library keeps no error number for a failed read.
        let source = match error {
            BlkidErr::IO(error) => error,
            error => std::io::Error::other(error.to_string()),
        };
        path_error("probe", path, source)
    })
}

fn run(path: &Path) -> Result<Probe, BlkidErr> {
    let mut probe = BlkidProbe::new_from_filename(path)?;
    probe.enable_superblocks(true)?;
    // A signature with a bad checksum is no signature to libblkid by default.
    // It is still somebody's data, so it counts here: a damaged file system
    // must not look like a blank device.
    probe.set_superblock_flags(BlkidSublksFlags::new(vec![
        BlkidSublks::Type,
        BlkidSublks::Usage,
        BlkidSublks::Magic,
        BlkidSublks::Badcsum,
    ]))?;
    probe.enable_partitions(true)?;
    Ok(match probe.do_safeprobe()? {
        BlkidSafeprobeRet::None => Probe::NoSignature,
        BlkidSafeprobeRet::Ambiguous => Probe::Ambivalent,
        BlkidSafeprobeRet::Success => ["TYPE", "PTTYPE", "USAGE"]
            .iter()
            .find_map(|tag| probe.lookup_value(tag).ok())
            .map_or_else(|| Probe::Signature("unknown".to_owned()), Probe::Signature),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::super::block::tests::loop_device;
    use super::*;

    #[test]
    fn sees_blank_signed_and_absent_devices() {
        let Some((device, backing)) = loop_device(512, 64 << 20) else {
            return;
        };
        assert_eq!(probe(device.path()).unwrap(), Probe::NoSignature);
        // A swap signature, at the end of the first page.
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(device.path())
            .unwrap();
        file.write_all_at(b"SWAPSPACE2", 4086).unwrap();
        file.write_all_at(&[1, 0, 0, 0, 0, 16, 0, 0], 1024).unwrap();
        file.sync_all().unwrap();
        assert_eq!(
            probe(device.path()).unwrap(),
            Probe::Signature("swap".to_owned())
        );
        drop((device, backing));
        assert!(probe(Path::new("/dev/no-such-device")).is_err());
        assert!(probe(Path::new("/dev/null")).is_err(), "not a block device");
    }
}
