//! Calls that hang in a device or a file system: their callers are told, those
//! of other volumes are served, and everything goes on when the device does.

use std::time::{Duration, Instant};

use super::*;
use crate::host::sim::{CallKind, Fault};

const RW: Mode = Mode::SingleNodeWriter;
const TARGET: &str = "/pods/a/mount";

/// A rig that soon loses patience, with the VGs `data` and `more`.
fn impatient() -> Rig {
    let sim = SimHost::new();
    let extent = ExtentSize::new(Sectors(8192)).unwrap();
    for (disk, vg, size) in [("/dev/sda", "data", 1 << 30), ("/dev/sdb", "more", 1 << 29)] {
        sim.add_disk(disk, size, 512);
        sim.add_vg(vg, &[disk], extent).unwrap();
    }
    Rig::with(sim, config())
}

fn config() -> EngineConfig {
    let short = Duration::from_millis(100);
    EngineConfig {
        lock_deadline: short,
        probe_timeout: short,
        io_timeout: short,
        ..EngineConfig::default()
    }
}

/// A volume that may lie in the VG `more` only.
fn elsewhere(name: &str) -> CreateVolumeRequest {
    CreateVolumeRequest {
        parameters: [("volgroup".to_owned(), "more".to_owned())].into(),
        ..volume(name, 8 * MIB)
    }
}

/// Repeats a call as an orchestrator does.
async fn repeat<T, F: Future<Output = Result<T, Status>>>(mut call: impl FnMut() -> F) -> T {
    let start = Instant::now();
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(status) => {
                let again = matches!(status.code(), Code::DeadlineExceeded | Code::Aborted);
                let patience = Duration::from_secs(120);
                assert!(again && start.elapsed() < patience, "{status}");
            }
        }
    }
}

async fn others_are_served(rig: &Rig) {
    repeat(|| rig.create(elsewhere("other"))).await;
    repeat(|| rig.publish("other", "/pods/o", mount("ext4", RW))).await;
    repeat(|| rig.stats("other", "/pods/o")).await;
    repeat(|| rig.unpublish("other", "/pods/o")).await;
    assert!(
        rig.list().await.contains(&"a".to_owned()),
        "the hung one is listed"
    );
    let capacity = GetCapacityRequest::default();
    repeat(|| rig.controller.get_capacity(Request::new(capacity.clone()))).await;
    repeat(|| rig.delete("other")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_that_hangs_is_told_and_ends_when_the_device_answers() {
    let rig = impatient();
    rig.create(volume("a", 8 * MIB)).await.unwrap();
    rig.sim.on(CallKind::Mount, 0, Fault::Hang);
    let first = rig.publish("a", TARGET, mount("ext4", RW)).await;
    assert_eq!(code(first, "mount of /dev/dm-0"), Code::DeadlineExceeded);
    for _ in 0..20 {
        let again = rig.publish("a", TARGET, mount("ext4", RW)).await;
        assert_eq!(code(again, "NodePublishVolume"), Code::Aborted);
    }
    others_are_served(&rig).await;
    rig.sim.unhang();
    repeat(|| rig.publish("a", TARGET, mount("ext4", RW))).await;
    let mounts = rig.driver.engine.host().fs.mounts().unwrap();
    assert_eq!(mounts.len(), 1, "mounted once");
}

#[tokio::test(flavor = "multi_thread")]
async fn file_systems_that_hang_hold_up_their_own_volume_only() {
    for kind in [CallKind::Unmount, CallKind::Usage, CallKind::Probe] {
        let rig = impatient();
        rig.create(volume("a", 8 * MIB)).await.unwrap();
        let publish = || rig.publish("a", TARGET, mount("ext4", RW));
        if kind != CallKind::Probe {
            publish().await.unwrap();
        }
        rig.sim.on(kind, 0, Fault::Hang);
        let hung = match kind {
            CallKind::Unmount => rig.unpublish("a", TARGET).await,
            CallKind::Usage => rig.stats("a", TARGET).await.map(drop),
            _ => publish().await,
        };
        assert_eq!(code(hung, "has been waiting"), Code::DeadlineExceeded);
        others_are_served(&rig).await;
        rig.sim.unhang();
        match kind {
            CallKind::Unmount => repeat(|| rig.unpublish("a", TARGET)).await,
            CallKind::Usage => drop(repeat(|| rig.stats("a", TARGET)).await),
            _ => repeat(publish).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unpublishing_asks_no_pv() {
    let rig = impatient();
    rig.create(volume("a", 8 * MIB)).await.unwrap();
    rig.publish("a", TARGET, mount("ext4", RW)).await.unwrap();
    rig.sim.clear_calls();
    rig.unpublish("a", TARGET).await.unwrap();
    let disks = ["/dev/sda", "/dev/sdb"];
    let calls = rig.sim.calls();
    let asked = calls
        .iter()
        .find(|call| disks.contains(&call.object.as_str()));
    assert_eq!(asked, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_hangs_is_finished_once() {
    let rig = impatient();
    rig.create(volume("a", 8 * MIB)).await.unwrap();
    rig.sim.on(CallKind::Write, 1, Fault::Hang);
    let request = CreateVolumeRequest {
        // Both VGs would do.
        parameters: [("vgpattern".to_owned(), ".*".to_owned())].into(),
        ..volume("b", 8 * MIB)
    };
    let first = rig.create(request.clone()).await;
    assert_eq!(code(first, "lock V_"), Code::DeadlineExceeded);
    let again = rig.create(request.clone()).await;
    assert_eq!(code(again, "has been waiting"), Code::DeadlineExceeded);
    others_are_served(&rig).await;
    let gone = rig.delete("b").await;
    assert_eq!(code(gone, "has been waiting"), Code::DeadlineExceeded);
    rig.sim.unhang();
    repeat(|| rig.create(request.clone())).await;
    assert_eq!(rig.list().await, ["a", "b"], "one volume, not two");
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_names_what_it_leaves() {
    let rig = impatient();
    rig.create(volume("a", 8 * MIB)).await.unwrap();
    rig.sim.on(CallKind::Mount, 0, Fault::Hang);
    let _ = rig
        .publish("a", TARGET, mount("ext4", RW))
        .await
        .unwrap_err();
    let left = rig.driver.drained().await;
    assert_eq!(left.len(), 1);
    assert!(
        left[0].contains("NodePublishVolume") && left[0].contains("mount of"),
        "{left:?}"
    );
    rig.sim.unhang();
    assert!(rig.driver.drained().await.is_empty());
}

/// What is on a device that does not answer cannot be called deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_cannot_be_seen_is_not_called_deleted() {
    let rig = impatient();
    rig.create(volume("a", 8 * MIB)).await.unwrap();
    rig.sim
        .always(Some(CallKind::Read), "/dev/sda", Fault::Hang);
    let fresh = Rig::with(rig.sim.clone(), config());
    assert_eq!(
        code(fresh.delete("a").await, "/dev/sda"),
        Code::DeadlineExceeded
    );
    rig.sim.clear_faults();
    rig.sim.unhang();
    repeat(|| fresh.delete("a")).await;
    // On a busy machine the impatient one may show it as it was for a while.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !rig.list().await.is_empty() {
        assert!(Instant::now() < deadline, "it is still listed");
        tokio::task::yield_now().await;
    }
}
