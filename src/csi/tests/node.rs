use super::*;
use crate::host::sim::{CallKind, Fault};

const RW: Mode = Mode::SingleNodeWriter;

#[tokio::test(flavor = "multi_thread")]
async fn a_mounted_volume_from_format_to_removal() {
    let rig = Rig::new();
    rig.create(volume("a", 400 * MIB)).await.unwrap();
    for _ in 0..3 {
        rig.publish("a", "/pods/1/mount", mount("xfs", RW))
            .await
            .unwrap();
    }
    let usage = rig.stats("a", "/pods/1/mount").await.unwrap();
    assert_eq!(usage.usage.len(), 2);
    assert!(!usage.volume_condition.unwrap().abnormal);
    assert_eq!(
        code(rig.stats("a", "/pods/2").await, "/pods/2"),
        Code::NotFound
    );
    assert_eq!(
        code(rig.stats("b", "/pods/1/mount").await, "b"),
        Code::NotFound
    );
    assert_eq!(
        code(rig.delete("a").await, "/pods/1/mount"),
        Code::FailedPrecondition
    );

    let grow = NodeExpandVolumeRequest {
        volume_id: "a".into(),
        volume_path: "/pods/1/mount".into(),
        capacity_range: Some(CapacityRange {
            required_bytes: 500 * MIB,
            limit_bytes: 0,
        }),
        ..Default::default()
    };
    let grown = rig
        .node
        .node_expand_volume(Request::new(grow.clone()))
        .await
        .unwrap();
    assert_eq!(grown.get_ref().capacity_bytes, 500 * MIB);
    let elsewhere = NodeExpandVolumeRequest {
        volume_path: "/other".into(),
        ..grow
    };
    let refused = rig.node.node_expand_volume(Request::new(elsewhere)).await;
    assert_eq!(code(refused, "/other"), Code::NotFound);

    for _ in 0..3 {
        rig.unpublish("a", "/pods/1/mount").await.unwrap();
    }
    let host = rig.driver.engine.host();
    assert_eq!(host.fs.kind_of("/pods/1/mount".as_ref()).unwrap(), None);
    assert!(host.fs.mounts().unwrap().is_empty());
    // Mounted again, not formatted again; and never as another type.
    let formats = || {
        rig.sim
            .calls()
            .iter()
            .filter(|call| call.kind == CallKind::Make)
            .count()
    };
    assert_eq!(formats(), 1);
    assert_eq!(
        code(rig.publish("a", "/m", mount("ext4", RW)).await, "xfs"),
        Code::FailedPrecondition
    );
    rig.publish("a", "/m", mount("", RW)).await.unwrap();
    assert_eq!(formats(), 1);
    rig.unpublish("a", "/m").await.unwrap();
    rig.delete("a").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_grow_is_not_said_to_be_in_use() {
    let rig = Rig::new();
    rig.create(volume("a", 8 * MIB)).await.unwrap();
    rig.publish("a", "/m", mount("ext4", RW)).await.unwrap();
    let grow = |volume_path: &str| {
        Request::new(NodeExpandVolumeRequest {
            volume_id: "a".into(),
            volume_path: volume_path.into(),
            capacity_range: Some(CapacityRange {
                required_bytes: 16 * MIB,
                limit_bytes: 0,
            }),
            ..Default::default()
        })
    };
    let elsewhere = rig.node.node_expand_volume(grow("/other")).await;
    assert_eq!(code(elsewhere, "/other"), Code::NotFound);
    let disown = crate::engine::Request::Tags {
        name: "a".parse().unwrap(),
        add: vec![],
        remove: vec![lvm2::name::Tag::new("lvcsi").unwrap()],
    };
    let ticket = rig.driver.engine.submit(&"data".parse().unwrap(), disown);
    let waited = tokio::task::spawn_blocking(|| ticket.wait()).await;
    waited.unwrap().unwrap();
    // To the kubelet FAILED_PRECONDITION means: only while it is not mounted.
    let refused = rig.node.node_expand_volume(grow("/m")).await;
    assert_eq!(code(refused, "not made by"), Code::Internal);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_volume() {
    let rig = Rig::new();
    let mut request = volume("a", 8 * MIB);
    request.volume_capabilities = vec![block()];
    rig.create(request).await.unwrap();
    for _ in 0..3 {
        rig.publish("a", "/dev-a", block()).await.unwrap();
    }
    let usage = rig.stats("a", "/dev-a").await.unwrap().usage;
    assert_eq!((usage.len(), usage[0].total), (1, 8 * MIB));
    assert_eq!(
        code(rig.publish("a", "/m", mount("", RW)).await, "block"),
        Code::FailedPrecondition
    );
    assert_eq!(
        code(rig.publish("a", "/b", block()).await, "/dev-a"),
        Code::FailedPrecondition
    );
    assert_eq!(
        code(rig.delete("a").await, "/dev-a"),
        Code::FailedPrecondition
    );
    for _ in 0..2 {
        rig.unpublish("a", "/dev-a").await.unwrap();
    }
    assert_eq!(
        rig.driver
            .engine
            .host()
            .fs
            .kind_of("/dev-a".as_ref())
            .unwrap(),
        None
    );
    rig.delete("a").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_target_needs_permission() {
    let rig = Rig::new();
    rig.create(volume("one", 8 * MIB)).await.unwrap();
    let mut shared = volume("many", 8 * MIB);
    shared.parameters.insert("Shared".into(), "yes".into());
    rig.create(shared).await.unwrap();
    for id in ["one", "many"] {
        rig.publish(id, &format!("/{id}/1"), mount("", RW))
            .await
            .unwrap();
    }
    assert_eq!(
        code(rig.publish("one", "/one/2", mount("", RW)).await, "/one/1"),
        Code::FailedPrecondition
    );
    rig.publish("many", "/many/2", mount("", RW)).await.unwrap();
    rig.publish("one", "/one/2", mount("", Mode::SingleNodeMultiWriter))
        .await
        .unwrap();
    let single = rig
        .publish("many", "/many/3", mount("", Mode::SingleNodeSingleWriter))
        .await;
    assert_eq!(code(single, "/many/"), Code::FailedPrecondition);
    // The same place in another way, or under another volume.
    let read_only = rig
        .publish_with("one", "/one/1", mount("", RW), |request| {
            request.readonly = true
        })
        .await;
    assert_eq!(code(read_only, "readonly"), Code::AlreadyExists);
    let taken = rig
        .publish("many", "/one/1", mount("", Mode::SingleNodeMultiWriter))
        .await;
    assert_eq!(code(taken, "/one/1"), Code::AlreadyExists);
    assert_eq!(
        code(rig.unpublish("many", "/one/1").await, "/one/1"),
        Code::FailedPrecondition
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_is_not_proven_blank_is_never_formatted() {
    let rig = Rig::new();
    rig.create(volume("a", 8 * MIB)).await.unwrap();
    let host = rig.driver.engine.host();
    let found = rig
        .driver
        .engine
        .find(&"a".parse().unwrap())
        .unwrap()
        .remove(0);
    let info = host
        .block
        .open_path(&found.node.unwrap())
        .unwrap()
        .info()
        .clone();
    // Opened for each step: an open device is in use.
    let device = || host.block.open(&info, true).unwrap();
    device().write_at(8 * 1024 * 1024 - 5, b"data").unwrap();
    let refused = rig.publish("a", "/m", mount("", RW)).await;
    assert_eq!(code(refused, "zero its first"), Code::FailedPrecondition);
    assert_eq!(host.fs.kind_of("/m".as_ref()).unwrap(), None);
    device().zero(0, 8 << 20).unwrap();
    let blank = rig
        .publish_with("a", "/m", mount("", RW), |request| request.readonly = true)
        .await;
    assert_eq!(code(blank, "read-only"), Code::FailedPrecondition);
    rig.publish("a", "/m", mount("", RW)).await.unwrap();
    rig.unpublish("a", "/m").await.unwrap();
    // A lost superblock is damage, not a new volume.
    device().zero(0, 8 << 20).unwrap();
    assert_eq!(
        code(rig.publish("a", "/m", mount("", RW)).await, "NOT"),
        Code::FailedPrecondition
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_mkfs_that_failed_is_done_again() {
    let rig = Rig::new();
    rig.create(volume("a", 8 * MIB)).await.unwrap();
    rig.sim.on(CallKind::Make, 0, Fault::Eio);
    assert_eq!(
        code(rig.publish("a", "/m", mount("", RW)).await, "mkfs"),
        Code::Internal
    );
    rig.publish("a", "/m", mount("", RW)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_what_they_need() {
    let rig = Rig::new();
    rig.create(volume("a", 8 * MIB)).await.unwrap();
    assert_eq!(
        code(rig.publish("", "/m", mount("", RW)).await, "volume_id"),
        Code::InvalidArgument
    );
    assert_eq!(
        code(rig.publish("a", "", mount("", RW)).await, "target_path"),
        Code::InvalidArgument
    );
    assert_eq!(
        code(rig.publish("a", "/a/../b", mount("", RW)).await, "absolute"),
        Code::InvalidArgument
    );
    assert_eq!(
        code(rig.publish("b", "/m", mount("", RW)).await, "b"),
        Code::NotFound
    );
    let without = rig
        .publish_with("a", "/m", block(), |r| r.volume_capability = None)
        .await;
    assert_eq!(code(without, "capability"), Code::InvalidArgument);
    assert_eq!(
        code(rig.unpublish("a", "").await, "target_path"),
        Code::InvalidArgument
    );
    rig.unpublish("gone", "/never").await.unwrap();
    assert_eq!(
        code(rig.stats("a", "").await, "volume_path"),
        Code::InvalidArgument
    );
    assert_eq!(code(rig.stats("x", "some/path").await, "x"), Code::NotFound);
}
