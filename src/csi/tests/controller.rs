use super::*;

async fn capacity(rig: &Rig, parameters: &[(&str, &str)]) -> GetCapacityResponse {
    let request = GetCapacityRequest {
        parameters: parameters
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect(),
        ..Default::default()
    };
    rig.controller
        .get_capacity(Request::new(request))
        .await
        .unwrap()
        .into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_comes_grows_and_goes() {
    let rig = Rig::new();
    let made = rig.create(volume("Pvc-1", 10 * MIB)).await.unwrap();
    assert_eq!(made.volume_id, "pvc-1");
    assert_eq!(made.capacity_bytes, 12 * MIB);
    assert_eq!(made.volume_context["openebs.io/volgroup"], "data");
    assert_eq!(made.volume_context["openebs.io/cas-type"], "localpv-lvm");
    assert_eq!(
        made.accessible_topology[0].segments["openebs.io/nodename"],
        "n1"
    );
    assert_eq!(rig.create(volume("Pvc-1", 10 * MIB)).await.unwrap(), made);
    assert_eq!(rig.list().await, ["pvc-1"]);

    let grow = |bytes: i64| ControllerExpandVolumeRequest {
        volume_id: "pvc-1".to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: bytes,
            limit_bytes: 0,
        }),
        ..Default::default()
    };
    for bytes in [20 * MIB, 20 * MIB, 1] {
        let grown = rig
            .controller
            .controller_expand_volume(Request::new(grow(bytes)))
            .await
            .unwrap();
        assert_eq!(grown.get_ref().capacity_bytes, 20 * MIB);
        assert!(grown.get_ref().node_expansion_required);
    }
    let unbounded = ControllerExpandVolumeRequest {
        volume_id: "pvc-1".into(),
        ..Default::default()
    };
    let refused = rig
        .controller
        .controller_expand_volume(Request::new(unbounded))
        .await;
    assert_eq!(code(refused, "capacity_range"), Code::InvalidArgument);
    let unknown = ControllerExpandVolumeRequest {
        volume_id: "x".into(),
        ..grow(1)
    };
    let refused = rig
        .controller
        .controller_expand_volume(Request::new(unknown))
        .await;
    assert_eq!(code(refused, "x"), Code::NotFound);

    rig.delete("pvc-1").await.unwrap();
    rig.delete("pvc-1").await.unwrap();
    rig.delete("never / there").await.unwrap();
    assert_eq!(
        code(rig.delete("").await, "volume_id"),
        Code::InvalidArgument
    );
    assert!(rig.list().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_names_must_mean_the_same_volume() {
    let rig = Rig::new();
    rig.create(volume("a", 8 * MIB)).await.unwrap();
    assert_eq!(
        code(rig.create(volume("a", 16 * MIB)).await, "8388608"),
        Code::AlreadyExists
    );
    assert_eq!(
        code(rig.create(volume("A", 8 * MIB)).await, "capital"),
        Code::AlreadyExists
    );
    let mut as_block = volume("a", 8 * MIB);
    as_block.volume_capabilities = vec![block()];
    assert_eq!(
        code(rig.create(as_block).await, "mount"),
        Code::AlreadyExists
    );
    let mut shared = volume("a", 8 * MIB);
    shared.parameters.insert("shared".into(), "yes".into());
    assert_eq!(
        code(rig.create(shared).await, "shared"),
        Code::AlreadyExists
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_requests_change_nothing() {
    let rig = Rig::new();
    let change = |change: fn(&mut CreateVolumeRequest)| {
        let mut request = volume("a", MIB);
        change(&mut request);
        request
    };
    for (request, expected, part) in [
        (change(|r| r.name.clear()), Code::InvalidArgument, "name"),
        (
            change(|r| r.name = "x".repeat(129)),
            Code::InvalidArgument,
            "128",
        ),
        (
            change(|r| r.volume_capabilities.clear()),
            Code::InvalidArgument,
            "capability",
        ),
        (
            change(|r| r.parameters.clear()),
            Code::InvalidArgument,
            "volgroup",
        ),
        (
            change(|r| drop(r.parameters.insert("scheduler".into(), "x".into()))),
            Code::InvalidArgument,
            "SpaceWeighted",
        ),
        (
            change(|r| drop(r.parameters.insert("volgroup".into(), "other".into()))),
            Code::ResourceExhausted,
            "data",
        ),
        (
            change(|r| {
                r.capacity_range = Some(CapacityRange {
                    required_bytes: -1,
                    limit_bytes: 0,
                })
            }),
            Code::InvalidArgument,
            "negative",
        ),
        (
            change(|r| {
                r.capacity_range = Some(CapacityRange {
                    required_bytes: 1,
                    limit_bytes: MIB,
                })
            }),
            Code::OutOfRange,
            "extent",
        ),
        (
            change(|r| {
                r.capacity_range = Some(CapacityRange {
                    required_bytes: 1 << 40,
                    limit_bytes: 0,
                })
            }),
            Code::ResourceExhausted,
            "data has",
        ),
        (
            change(|r| {
                r.capacity_range = Some(CapacityRange {
                    required_bytes: i64::MAX,
                    limit_bytes: 0,
                })
            }),
            Code::ResourceExhausted,
            "data has",
        ),
        (
            change(|r| r.volume_content_source = Some(VolumeContentSource::default())),
            Code::InvalidArgument,
            "content",
        ),
        (
            change(|r| drop(r.mutable_parameters.insert("a".into(), "b".into()))),
            Code::InvalidArgument,
            "MODIFY",
        ),
        (
            change(|r| {
                r.accessibility_requirements = Some(TopologyRequirement {
                    requisite: vec![Topology {
                        segments: [("openebs.io/nodename".into(), "n2".into())].into(),
                    }],
                    preferred: vec![],
                });
            }),
            Code::ResourceExhausted,
            "n1",
        ),
    ] {
        assert_eq!(code(rig.create(request).await, part), expected, "{part}");
    }
    assert!(rig.list().await.is_empty());
    assert_eq!(
        capacity(&rig, &[]).await.available_capacity,
        1023 / 4 * 4 * MIB
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_any_kind_and_sizes_left_open() {
    let rig = Rig::new();
    let mut open = volume(&"n".repeat(128), 0);
    open.capacity_range = Some(CapacityRange {
        required_bytes: 0,
        limit_bytes: 100 * MIB,
    });
    let made = rig.create(open.clone()).await.unwrap();
    assert_eq!(made.capacity_bytes, 100 * MIB);
    assert!(made.volume_id.starts_with("v-"));
    assert_eq!(rig.create(open).await.unwrap(), made);
    let odd = rig.create(volume("snapshot of ü", MIB)).await.unwrap();
    assert_ne!(odd.volume_id, made.volume_id);
    rig.delete(&odd.volume_id).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_emptiest_vg_first_and_the_next_when_it_is_full() {
    let rig = Rig::new();
    rig.sim.add_disk("/dev/sdb", 64 << 20, 512);
    rig.sim
        .add_vg(
            "more",
            &["/dev/sdb"],
            ExtentSize::new(Sectors(8192)).unwrap(),
        )
        .unwrap();
    let of = |name: &str, size: i64| {
        let mut request = volume(name, size);
        request.parameters = [("vgpattern".to_owned(), "data|more".to_owned())].into();
        request
    };
    let vg = |volume: &Volume| volume.volume_context["openebs.io/volgroup"].clone();
    assert_eq!(vg(&rig.create(of("a", 1000 * MIB)).await.unwrap()), "data");
    assert_eq!(vg(&rig.create(of("b", 30 * MIB)).await.unwrap()), "more");
    let full = rig.create(of("c", 500 * MIB)).await;
    let status = full.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("data has") && status.message().contains("more has"));
    let both = capacity(&rig, &[("vgpattern", ".")]).await;
    assert_eq!(both.available_capacity, 28 * MIB);
    assert_eq!(
        (both.maximum_volume_size, both.minimum_volume_size),
        (Some(28 * MIB), Some(4 * MIB))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_at_once_share_commits_and_no_extent() {
    let rig = Arc::new(Rig::new());
    let before = rig
        .driver
        .engine
        .vg(&"data".parse().unwrap())
        .unwrap()
        .vg
        .seqno();
    let calls = (0..64).map(|n| {
        let rig = Arc::clone(&rig);
        tokio::spawn(async move { rig.create(volume(&format!("v{n}"), 4 * MIB)).await })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
    let report = rig.driver.engine.vg(&"data".parse().unwrap()).unwrap();
    assert_eq!(rig.list().await.len(), 64);
    assert!(
        report.vg.seqno() - before < 128,
        "{} commits",
        report.vg.seqno() - before
    );
    assert_eq!(lvm2::check::check(&report.vg), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn lvs_of_others_are_left_alone() {
    let rig = Rig::new();
    rig.create(volume("a", 4 * MIB)).await.unwrap();
    let name: lvm2::name::LvName = "a".parse().unwrap();
    let disown = crate::engine::Request::Tags {
        name,
        add: vec![],
        remove: vec![lvm2::name::Tag::new("lvcsi").unwrap()],
    };
    let ticket = rig.driver.engine.submit(&"data".parse().unwrap(), disown);
    let waited = tokio::task::spawn_blocking(|| ticket.wait()).await;
    waited.unwrap().unwrap();
    assert!(rig.list().await.is_empty());
    assert_eq!(
        code(rig.delete("a").await, "addtag"),
        Code::FailedPrecondition
    );
    assert_eq!(
        code(rig.create(volume("a", 4 * MIB)).await, "not made by"),
        Code::AlreadyExists
    );
    let published = rig
        .publish("a", "/t", mount("", Mode::SingleNodeWriter))
        .await;
    assert_eq!(code(published, "not made by"), Code::FailedPrecondition);
}

#[tokio::test(flavor = "multi_thread")]
async fn validation_confirms_or_explains() {
    let rig = Rig::new();
    rig.create(volume("a", 4 * MIB)).await.unwrap();
    let ask = |id: &str, capabilities: Vec<VolumeCapability>| {
        rig.controller.validate_volume_capabilities(Request::new(
            ValidateVolumeCapabilitiesRequest {
                volume_id: id.to_owned(),
                volume_capabilities: capabilities,
                ..Default::default()
            },
        ))
    };
    let good = ask("a", vec![mount("ext4", Mode::SingleNodeWriter)])
        .await
        .unwrap()
        .into_inner();
    assert_eq!(good.confirmed.unwrap().volume_capabilities.len(), 1);
    let bad = ask("a", vec![mount("", Mode::MultiNodeMultiWriter)])
        .await
        .unwrap()
        .into_inner();
    assert!(bad.confirmed.is_none() && bad.message.contains("MULTI_NODE_MULTI_WRITER"));
    assert_eq!(
        code(ask("a", vec![]).await, "capability"),
        Code::InvalidArgument
    );
    assert_eq!(
        code(ask("", vec![block()]).await, "volume_id"),
        Code::InvalidArgument
    );
    assert_eq!(code(ask("b", vec![block()]).await, "b"), Code::NotFound);
}
