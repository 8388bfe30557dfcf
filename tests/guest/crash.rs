//! The driver dies at any moment of CreateVolume.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use lvcsi_kit::{Driver, LoopVg, Rng, lvm, proof, stats};

use crate::common::Native;
use crate::support::{MIB, Tidy, all_well};

#[test]
fn killed_while_creating() {
    let _tidy = Tidy::new();
    let kills = if proof::nightly() { 60 } else { 10 };
    let mut rng = Rng::from_env("killed_while_creating");
    let vg = LoopVg::new(512);
    let native = Native::open(&vg);
    let mut driver = Driver::start(vg.dir());
    let usual = usual_time(&driver, &vg);
    println!("an undisturbed CreateVolume takes {}", stats::human(usual));

    let (mut unanswered, mut found_half) = (0, 0);
    for n in 0..kills {
        let name = format!("victim{n}");
        // Mount volumes and raw ones, whose wiping takes longer.
        let fs = if n % 2 == 0 { "ext4" } else { "" };
        let csi = driver.csi();
        let (sent, receive) = mpsc::channel();
        std::thread::scope(|scope| {
            let call = scope.spawn(|| {
                let answer = csi.create(&vg.name, &name, 32 * MIB, fs);
                let _ = sent.send(());
                answer
            });
            let after = Duration::from_micros(rng.below(usual.as_micros() as u64 * 3 / 2));
            let _ = receive.recv_timeout(after);
            driver.kill();
            unanswered += usize::from(call.join().expect("the caller").is_err());
        });
        found_half += usize::from(!vg.decode().lvs.is_empty());

        driver.spawn();
        let volume = driver.csi().create(&vg.name, &name, 32 * MIB, fs);
        let volume = volume.unwrap_or_else(|e| panic!("{name} after the kill: {e}"));
        assert_eq!(volume.capacity_bytes, 32 * MIB);
        let decoded = vg.decode();
        assert_eq!(decoded.names(), [name.as_str()], "exactly one LV");
        assert!(
            !decoded.lvs[0]
                .tags
                .iter()
                .any(|tag| tag.contains("incomplete")),
            "{decoded:?}"
        );
        // A volume whose answer alone got lost is activated when it is published.
        assert!(
            lvm::dm_devices(&vg.name).len() <= 1,
            "a device that is not its own"
        );
        driver
            .csi()
            .delete(&volume.volume_id)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(vg.decode().lvs.is_empty(), "an LV is left over");
        assert!(
            lvm::dm_devices(&vg.name).is_empty(),
            "a device is left over"
        );
    }
    println!(
        "{kills} kills: {unanswered} unanswered calls, {found_half} left an LV for the restart"
    );
    assert!(unanswered > 0, "no kill came in time");
    all_well(&vg, &native);
}

/// Killed, and nobody asks again: what was not finished goes at the restart.
#[test]
fn killed_and_forgotten() {
    let _tidy = Tidy::new();
    let mut rng = Rng::from_env("killed_and_forgotten");
    let vg = LoopVg::new(512);
    let native = Native::open(&vg);
    let mut driver = Driver::start(vg.dir());
    let usual = usual_time(&driver, &vg);
    for n in 0..10 {
        let name = format!("orphan{n}");
        let csi = driver.csi();
        std::thread::scope(|scope| {
            let (sent, receive) = mpsc::channel();
            let (vg, name) = (&vg, &name);
            scope.spawn(move || {
                let _ = csi.create(&vg.name, name, 32 * MIB, "");
                let _ = sent.send(());
            });
            let after = Duration::from_micros(rng.below(usual.as_micros() as u64));
            let _ = receive.recv_timeout(after);
            driver.kill();
        });
        driver.spawn();
        for lv in vg.decode().lvs {
            // Finished before the kill: a volume whose answer got lost.
            assert!(
                !lv.tags.iter().any(|tag| tag.contains("incomplete")),
                "half-made: {lv:?}"
            );
        }
        driver
            .csi()
            .delete(&name)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(vg.decode().lvs.is_empty());
        assert!(
            lvm::dm_devices(&vg.name).is_empty(),
            "a device is left over"
        );
    }
    all_well(&vg, &native);
}

/// SIGTERM lets calls end.
#[test]
fn sigterm_drains() {
    let _tidy = Tidy::new();
    let vg = LoopVg::new(512);
    let mut driver = Driver::start(vg.dir());
    let csi = driver.csi();
    csi.create(&vg.name, "before", 16 * MIB, "")
        .expect("CreateVolume");
    let status = driver.terminate();
    assert!(status.success(), "{status}\n{}", driver.log());
    assert!(!driver.socket().exists(), "the socket is still there");
    driver.spawn();
    driver.csi().delete("before").expect("DeleteVolume");
    vg.assert_clean();
}

fn usual_time(driver: &Driver, vg: &LoopVg) -> Duration {
    let csi = driver.csi();
    let times: Vec<Duration> = (0..5)
        .map(|n| {
            let name = format!("usual{n}");
            let start = Instant::now();
            csi.create(&vg.name, &name, 32 * MIB, "")
                .expect("CreateVolume");
            let took = start.elapsed();
            csi.delete(&name).expect("DeleteVolume");
            took
        })
        .collect();
    stats::median(&times)
}
