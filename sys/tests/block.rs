//! Block device calls on loop devices.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

use lvcsi_sys::loopdev::{LoopDevice, LoopOptions, backing_device};
use lvcsi_sys::{AlignedBuf, DevNo, block};

mod common;

const MIB: u64 = 1 << 20;
/// A mebibyte as a length in memory.
const WHOLE: usize = 1 << 20;

fn os_error<T: std::fmt::Debug>(result: std::io::Result<T>) -> Option<i32> {
    result.unwrap_err().raw_os_error()
}

#[test]
fn sizes_and_modes() {
    if !common::root() {
        return;
    }
    for block_size in [512, 4096] {
        let options = LoopOptions {
            block_size,
            ..LoopOptions::default()
        };
        let (file, device) = common::attach(4 * MIB, options);
        assert_eq!(block::size_bytes(&device).unwrap(), 4 * MIB);
        assert_eq!(block::logical_block_size(&device).unwrap(), block_size);
        assert!(block::physical_block_size(&device).unwrap() >= block_size);
        assert!(!block::read_only(&device).unwrap());
        block::set_read_ahead(&device, 1024).unwrap();
        assert_eq!(block::read_ahead(&device).unwrap(), 1024);
        let node = std::fs::metadata(device.path()).unwrap();
        assert_eq!(DevNo::from_rdev(node.rdev()), device.devno());

        file.set_len(6 * MIB).unwrap();
        device.set_capacity().unwrap();
        assert_eq!(block::size_bytes(&device).unwrap(), 6 * MIB);
        device.detach().unwrap();
    }
}

#[test]
fn a_read_only_attachment_says_so() {
    if !common::root() {
        return;
    }
    let options = LoopOptions {
        read_only: true,
        ..LoopOptions::default()
    };
    let (_file, device) = common::attach(MIB, options);
    assert!(block::read_only(&device).unwrap());
}

#[test]
fn zeroing_and_discarding_hit_exactly_their_range() {
    if !common::root() {
        return;
    }
    let options = LoopOptions {
        block_size: 512,
        ..LoopOptions::default()
    };
    let (_file, device) = common::attach(MIB, options);
    let open = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(nix::fcntl::OFlag::O_DIRECT.bits())
        .open(device.path())
        .unwrap();
    let mut pattern = AlignedBuf::zeroed(WHOLE);
    pattern.fill(0xa5);
    open.write_all_at(&pattern, 0).unwrap();

    block::zero_out(&open, 4096..4096 + 1536).unwrap();
    block::discard(&open, 65536..131_072).unwrap();
    block::zero_out(&open, 512..512).unwrap();
    block::flush(&open).unwrap();
    let mut read = AlignedBuf::zeroed(WHOLE);
    open.read_exact_at(&mut read, 0).unwrap();
    assert!(read[4096..4096 + 1536].iter().all(|byte| *byte == 0));
    // A loop device discards by making a hole, which reads as zeros.
    assert!(read[65536..131_072].iter().all(|byte| *byte == 0));
    for kept in [0..4096, 4096 + 1536..65536, 131_072..WHOLE] {
        assert!(
            read[kept.clone()].iter().all(|byte| *byte == 0xa5),
            "{kept:?}"
        );
    }
}

#[test]
fn wrong_ranges_and_files_are_refused() {
    if !common::root() {
        return;
    }
    let options = LoopOptions {
        block_size: 4096,
        ..LoopOptions::default()
    };
    let (file, device) = common::attach(MIB, options);
    let einval = Some(libc::EINVAL);
    assert_eq!(
        os_error(block::zero_out(&device, 512..1024)),
        einval,
        "not aligned"
    );
    assert_eq!(
        os_error(block::zero_out(&device, MIB..2 * MIB)),
        einval,
        "beyond the end"
    );
    #[allow(clippy::reversed_empty_ranges, reason = "this is what is tested")]
    let reversed = 8192..4096;
    assert_eq!(os_error(block::discard(&device, reversed)), einval);
    let reader = File::open(device.path()).unwrap();
    assert_eq!(
        os_error(block::zero_out(&reader, 0..4096)),
        Some(libc::EBADF)
    );
    assert_eq!(os_error(block::size_bytes(&file)), Some(libc::ENOTTY));
}

#[test]
fn dropping_detaches() {
    if !common::root() {
        return;
    }
    let (_file, device) = common::attach(MIB, LoopOptions::default());
    let backing = format!("/sys/block/loop{}/loop/backing_file", device.devno().minor);
    assert!(std::fs::exists(&backing).unwrap());
    // Another test may take the device at once, but not with this file.
    let before = std::fs::read_to_string(&backing).unwrap();
    drop(device);
    assert_ne!(
        std::fs::read_to_string(&backing).unwrap_or_default(),
        before
    );
}

#[test]
fn the_device_below_is_told_from_a_file() {
    if !common::root() {
        return;
    }
    let (_file, device) = common::attach(MIB, LoopOptions::default());
    assert_eq!(backing_device(device.as_fd()).unwrap(), None, "a file");
    let node = File::open(device.path()).unwrap();
    let options = LoopOptions {
        read_only: true,
        ..LoopOptions::default()
    };
    let above = LoopDevice::attach(&node, options).unwrap();
    let below = backing_device(above.as_fd()).unwrap();
    assert_eq!(below, Some(device.devno()));
    let null = File::open("/dev/null").unwrap();
    assert!(backing_device(null.as_fd()).is_err());
}
