//! The record of the disks, and machines made from copies.

use lvcsi_kit::decode;
use lvm2::units::{ExtentSize, Sectors};

use super::{DISK, MIB, machine, mapped, open, read, target};
use crate::host::sim::{CallKind, CrashPolicy, DiskEvent, Fault, SimHost, VgLayout};

#[test]
fn what_a_mapped_device_is_told_is_recorded_where_it_lands() {
    let (sim, host) = machine();
    let dev = mapped(&host, "lv", &[target(0, 65536, "linear", "8:0 8")]);
    let device = open(&host, dev, true);
    device.write_at(0, b"unrecorded").unwrap();
    sim.record();
    device.write_at(512, b"data").unwrap();
    device.zero(8192, 4096).unwrap();
    sim.mark("note");
    device.flush().unwrap();
    let disk = || "/dev/sda".to_owned();
    let events = [
        DiskEvent::Write {
            disk: disk(),
            offset: 4096 + 512,
            data: b"data".to_vec(),
        },
        DiskEvent::Zero {
            disk: disk(),
            offset: 4096 + 8192,
            len: 4096,
        },
        DiskEvent::Mark("note".to_owned()),
        DiskEvent::Flush { disk: disk() },
    ];
    assert_eq!(sim.recorded(), events);
    assert_eq!(sim.recorded(), [], "the record has ended");
}

#[test]
fn failed_writes_are_recorded_with_what_reached_the_disk() {
    let faults = [
        (Fault::Eio, 0),
        (Fault::ShortWrite, 512),
        (Fault::LostAnswer, 1024),
    ];
    for (fault, reached) in faults {
        let (sim, host) = machine();
        let device = open(&host, DISK, true);
        sim.record();
        sim.on(CallKind::Write, 0, fault);
        device.write_at(0, &[7; 1024]).unwrap_err();
        let mut left = [0; 1024];
        left[..reached].fill(7);
        assert_eq!(read(device.as_ref(), 0, 1024), left, "{fault:?}");
        let events = sim.recorded();
        let failed = DiskEvent::Failed {
            disk: "/dev/sda".to_owned(),
            offset: 0,
            data: vec![7; 1024],
        };
        assert_eq!(events.last(), Some(&failed), "{fault:?}");
    }
}

#[test]
fn a_kind_of_call_fails_until_it_is_mended() {
    let (sim, host) = machine();
    let device = open(&host, DISK, true);
    sim.clear_calls();
    sim.fail_from(1, CallKind::Write, Some("/dev/sda"), Fault::Eio);
    device.write_at(0, &[1; 512]).unwrap();
    device.write_at(0, &[1; 512]).unwrap_err();
    device.flush().unwrap();
    device.write_at(0, &[1; 512]).unwrap_err();
    sim.clear_faults();
    device.write_at(0, &[1; 512]).unwrap();
}

#[test]
fn a_copy_of_a_disk_is_durable_on_its_new_machine_and_leaves_the_old_one_alone() {
    let (sim, host) = machine();
    open(&host, DISK, true).write_at(MIB, b"cached").unwrap();
    let image = sim.disk("/dev/sda").image().unwrap();
    assert!(image.is_zero(0, MIB) && !image.is_zero(0, MIB + 1));
    assert!(image.is_zero(MIB + 6, MIB));
    let other = SimHost::new();
    let dev = other.add_image(&image);
    other.crash(CrashPolicy::Drop);
    let device = open(&other.host(), dev, true);
    assert_eq!(read(device.as_ref(), MIB, 6), b"cached");
    device.write_at(MIB, b"theirs").unwrap();
    assert_eq!(sim.disk("/dev/sda").read(MIB, 6), b"cached");
}

#[test]
fn every_area_of_a_laid_out_vg_holds_the_text() {
    let sim = SimHost::new();
    sim.add_disk("/dev/sda", 64 * MIB, 512);
    let layout = VgLayout {
        data_start: 64 << 10,
        second_area: true,
        autoactivation: false,
        ..VgLayout::new(ExtentSize::new(Sectors(2048)).unwrap())
    };
    sim.add_vg_with("vg", &["/dev/sda"], layout).unwrap();
    let image = sim.disk("/dev/sda").image().unwrap();
    let pv = decode::pv_with(&|offset, length| image.read(offset, length)).unwrap();
    let areas: Vec<_> = pv.mdas.iter().map(|mda| (mda.start, mda.size)).collect();
    assert_eq!(areas, [(4096, 60 << 10), (63 * MIB, 60 << 10)]);
    assert_eq!(pv.mdas[0].text, pv.mdas[1].text);
    let text = pv.mdas[0].text.as_deref().unwrap();
    assert!(text.contains("flags = [\"NOAUTOACTIVATE\"]"), "{text}");
    let vg = decode::Vg::from_text(text);
    assert_eq!(vg.pe_count, [("pv0".to_owned(), 62)]);
}
