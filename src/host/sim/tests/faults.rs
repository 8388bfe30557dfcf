//! Failing calls and deaths.

use std::time::Duration;

use lvm2::tables::DevNo;

use super::{DISK, machine, mapped, open, read, target};
use crate::host::LockMode;
use crate::host::sim::{Call, CallKind, CrashPolicy, Fault};

#[test]
fn every_call_is_logged_and_can_fail_by_number() {
    let (sim, host) = machine();
    let device = open(&host, DISK, true);
    sim.clear_calls();
    sim.fail_at(1, Fault::Eio);
    device.write_at(512, &[1; 512]).unwrap();
    assert_eq!(device.flush().unwrap_err().raw_os_error(), Some(5));
    device.flush().unwrap();
    let object = "/dev/sda".to_owned();
    let write = Call {
        kind: CallKind::Write,
        object,
        offset: 512,
        len: 512,
    };
    let calls = sim.calls();
    assert_eq!(calls[0], write);
    assert_eq!(
        calls.iter().map(|call| call.kind).collect::<Vec<_>>()[1..],
        [CallKind::Flush; 2]
    );
}

#[test]
fn faults_by_kind_and_object_and_short_writes() {
    let (sim, host) = machine();
    let device = open(&host, DISK, true);
    sim.on(CallKind::Write, 1, Fault::ShortWrite);
    device.write_at(0, &[1; 2048]).unwrap();
    device.write_at(0, &[2; 2048]).unwrap_err();
    assert_eq!(
        read(device.as_ref(), 0, 2048),
        [[2; 1024], [1; 1024]].concat()
    );
    sim.always(Some(CallKind::DmLoad), "253:0", Fault::Enospc);
    let dev = host.dm.create("lv", "LVM-1").unwrap();
    let table = [target(0, 8, "zero", "")];
    assert_eq!(
        host.dm.load(dev, &table, false).unwrap_err().raw_os_error(),
        Some(28)
    );
    sim.clear_faults();
    host.dm.load(dev, &table, false).unwrap();
}

#[test]
fn a_hanging_read_goes_on_when_released() {
    let (sim, host) = machine();
    let device = open(&host, DISK, false);
    sim.on(CallKind::Read, 0, Fault::Hang);
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| device.read_at(0, &mut [0; 16]));
        while !sim.calls().iter().any(|call| call.kind == CallKind::Read) {
            host.clock.pause(Duration::from_millis(1));
        }
        assert!(!reading.is_finished());
        sim.unhang();
        reading.join().unwrap().unwrap();
    });
}

#[test]
fn a_process_that_died_does_nothing_more() {
    let (sim, host) = machine();
    let lock = host
        .locks
        .lock("V_vg", LockMode::Exclusive, Duration::ZERO)
        .unwrap();
    let device = open(&host, DISK, true);
    device.write_at(0, b"before").unwrap();
    sim.on(CallKind::Write, 0, Fault::Crash);
    device.write_at(0, b"during").unwrap_err();
    device.write_at(0, b"after!").unwrap_err();
    assert!(host.dm.list().is_err());
    assert_eq!(sim.open_count(DISK), 0);
    let other = sim.host();
    other
        .locks
        .lock("V_vg", LockMode::Exclusive, Duration::ZERO)
        .unwrap();
    assert_eq!(read(open(&other, DISK, false).as_ref(), 0, 6), b"before");
    drop(lock);
}

#[test]
fn a_power_cut_clears_the_machine_and_keeps_what_was_flushed() {
    let (sim, host) = machine();
    let dev = mapped(&host, "lv", &[target(0, 65536, "linear", "8:0 0")]);
    let device = open(&host, dev, true);
    device.write_at(0, b"flushed").unwrap();
    device.flush().unwrap();
    device.write_at(0, b"waiting").unwrap();
    assert_eq!(sim.unflushed(), 1);
    sim.crash(CrashPolicy::Drop);
    let host = sim.host();
    assert_eq!(host.dm.list().unwrap(), []);
    assert_eq!(host.fs.mounts().unwrap(), []);
    assert_eq!(read(open(&host, DISK, false).as_ref(), 0, 7), b"flushed");
    assert!(
        device.read_at(0, &mut [0]).is_err(),
        "the old process is dead"
    );
}

#[test]
fn a_prefix_of_writes_survives_over_all_disks() {
    let (sim, host) = machine();
    let (a, b) = (
        open(&host, DISK, true),
        open(
            &host,
            DevNo {
                major: 8,
                minor: 16,
            },
            true,
        ),
    );
    a.write_at(0, &[1; 512]).unwrap();
    b.write_at(0, &[2; 512]).unwrap();
    a.write_at(512, &[3; 1024]).unwrap();
    b.write_at(512, &[4; 512]).unwrap();
    sim.crash(CrashPolicy::Prefix {
        writes: 2,
        blocks: 1,
    });
    let (a, b) = (sim.disk("/dev/sda"), sim.disk("/dev/sdb"));
    assert_eq!(a.read(0, 1536), [[1; 512], [3; 512], [0; 512]].concat());
    assert_eq!(b.read(0, 1024), [[2; 512], [0; 512]].concat());
}

#[test]
fn a_subset_of_blocks_survives_and_the_seed_says_which() {
    let survivors = |seed| {
        let (sim, host) = machine();
        open(&host, DISK, true).write_at(0, &[1; 16384]).unwrap();
        sim.crash(CrashPolicy::Subset { seed });
        let content = sim.disk("/dev/sda").read(0, 16384);
        let blocks = content.chunks(512).map(|block| {
            assert!(
                block.iter().all(|byte| *byte == block[0]),
                "a block is never torn"
            );
            block[0] == 1
        });
        blocks.collect::<Vec<_>>()
    };
    let one = survivors(7);
    assert!(one.contains(&true) && one.contains(&false));
    assert_eq!(one, survivors(7));
    assert_ne!(one, survivors(8));
}
