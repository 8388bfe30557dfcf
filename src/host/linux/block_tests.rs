use std::path::PathBuf;

use lvcsi_sys::loopdev::{LoopDevice, LoopOptions};

use super::*;

const SIZE: u64 = 8 << 20;

/// A loop device of `SIZE` bytes, or nothing (with a reason) where the tests
/// may not make one.
pub(in crate::host::linux) fn loop_device(
    block_size: u32,
    size: u64,
) -> Option<(LoopDevice, tempfile::TempPath)> {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: loop devices need root");
        return None;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(size).unwrap();
    let options = LoopOptions {
        block_size,
        ..LoopOptions::default()
    };
    let device = LoopDevice::attach(file.as_file(), options).unwrap();
    Some((device, file.into_temp_path()))
}

fn info(device: &LoopDevice, block_size: u32) -> DeviceInfo {
    DeviceInfo {
        devno: DevNo {
            major: device.devno().major,
            minor: device.devno().minor,
        },
        path: device.path().to_owned(),
        size: SIZE,
        block_size,
    }
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|i| u8::try_from(i % 251).unwrap() ^ seed)
        .collect()
}

#[test]
fn any_range_reads_and_writes_on_both_block_sizes() {
    for block in [512, 4096] {
        let Some((device, _file)) = loop_device(block, SIZE) else {
            return;
        };
        let handle = LinuxBlockDevice::open(&info(&device, block), true).unwrap();
        let size = usize::try_from(SIZE).unwrap();
        let mut model = pattern(size, 1);
        handle.write_at(0, &model).unwrap();
        let ranges = [
            (0, 512),
            (512, 512),
            (100, 1),
            (4095, 2),
            (4096, 4096),
            (511, 4098),
            (7, 9000),
            (1 << 20, 1 << 20),
            ((1 << 20) - 3, (1 << 20) + 7),
            (size - 1, 1),
            (size - 513, 513),
            (1000, (3 << 20) + 1),
            (4096, 0),
            (4100, 8),
            (4096 + 300, 4096 - 300),
        ];
        for (seed, (offset, len)) in (2u8..).zip(ranges) {
            let data = pattern(len, seed);
            handle.write_at(offset as u64, &data).unwrap();
            model[offset..offset + len].copy_from_slice(&data);
            let mut back = vec![0; len];
            handle.read_at(offset as u64, &mut back).unwrap();
            assert_eq!(back, data, "{block}: {offset}+{len}");
        }
        handle.flush().unwrap();
        let mut whole = vec![0; size];
        handle.read_at(0, &mut whole).unwrap();
        assert!(whole == model, "{block}: a write touched its surroundings");

        for (offset, len) in [(300, 5000), (4096, 4096), (777, (2 << 20) + 1), (8, 3)] {
            handle.zero(offset as u64, len as u64).unwrap();
            model[offset..offset + len].fill(0);
        }
        handle.read_at(0, &mut whole).unwrap();
        assert!(whole == model, "{block}: zeroing is not exact");
        assert!(handle.zero(SIZE - 512, 1024).is_err(), "beyond the end");
        handle.discard(1 << 20, 1 << 20).unwrap();
    }
}

#[test]
fn refuses_writes_on_a_reading_handle_and_nodes_of_other_devices() {
    let Some((device, _file)) = loop_device(512, SIZE) else {
        return;
    };
    let handle = LinuxBlockDevice::open(&info(&device, 512), false).unwrap();
    let error = handle.write_at(0, &[0; 512]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EBADF));
    handle.flush().unwrap();

    let mut other = info(&device, 512);
    other.devno.minor += 1;
    let error = LinuxBlockDevice::open(&other, true).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENXIO));

    let by_path = LinuxBlockDevice::open_path(device.path()).unwrap();
    assert_eq!(by_path.info(), &info(&device, 512));
    let error = LinuxBlockDevice::open_path(&PathBuf::from("/dev/null")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOTBLK));
    assert!(
        handle.read_at(SIZE, &mut [0; 512]).is_err(),
        "reads end at the end"
    );
}
