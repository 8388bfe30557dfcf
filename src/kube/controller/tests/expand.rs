//! ControllerExpandVolume and ValidateVolumeCapabilities.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn only_what_fits_is_promised() {
    let rig = Rig::new(&[("n1", &[("data", 10)])]);
    let controller = rig.start("a");
    controller.create(ask("pvc-1", 2)).await.unwrap();
    controller.create(ask("pvc-2", 2)).await.unwrap();
    assert_eq!(controller.expand("pvc-1", 4 * GIB).await.unwrap(), 4 << 30);
    assert_eq!(
        rig.volume("pvc-1").unwrap()["spec"]["capacity"],
        (4 * GIB).to_string()
    );
    // A repeated call, and one for less.
    assert_eq!(controller.expand("pvc-1", 4 * GIB).await.unwrap(), 4 << 30);
    assert_eq!(controller.expand("pvc-1", GIB).await.unwrap(), 4 << 30);
    let free = |api: &FakeApi| {
        let node = api.get(LVM_NODES, "n1")?;
        let free: u64 = node["volumeGroups"][0]["free"].as_str()?.parse().ok()?;
        (free == 4 * GIB).then_some(())
    };
    rig.api.until("the LV has grown", free).await;
    let (code, message) = code(controller.expand("pvc-2", 9 * GIB).await);
    // The resizer lets the user ask for less.
    assert_eq!(code, Code::OutOfRange);
    assert!(message.contains("data of node n1 has"), "{message}");
    assert_eq!(
        rig.volume("pvc-2").unwrap()["spec"]["capacity"],
        (2 * GIB).to_string()
    );
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_growths_at_once_share_what_is_free() {
    let rig = Rig::new(&[("n1", &[("data", 10)])]);
    let controller = Arc::new(rig.start("a"));
    for name in ["pvc-1", "pvc-2"] {
        controller.create(ask(name, 1)).await.unwrap();
    }
    let free = |api: &FakeApi| {
        let node = api.get(LVM_NODES, "n1")?;
        let free: u64 = node["volumeGroups"][0]["free"].as_str()?.parse().ok()?;
        (free == 8 * GIB).then_some(())
    };
    rig.api.until("both are made", free).await;
    rig.agents.pause("n1", true);
    let grow = |name: &'static str| {
        let controller = Arc::clone(&controller);
        tokio::spawn(async move { controller.expand(name, 6 * GIB).await })
    };
    let (a, b) = (grow("pvc-1"), grow("pvc-2"));
    let results = [a.await.unwrap(), b.await.unwrap()];
    let fits = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(fits, 1, "{results:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_grow_now_says_why() {
    let rig = Rig::new(&[("n1", &[("data", 10)])]);
    let controller = rig.start("a");
    assert_eq!(
        code(controller.expand("never", GIB).await).0,
        Code::NotFound
    );
    assert_eq!(
        code(controller.expand("", GIB).await).0,
        Code::InvalidArgument
    );
    assert_eq!(
        code(controller.expand("never", 0).await).0,
        Code::InvalidArgument
    );
    rig.agents.pause("n1", true);
    let soon = Duration::from_millis(300);
    code(controller.create_within(ask("pvc-1", 1), soon).await);
    let (not_made, message) = code(controller.expand("pvc-1", 2 * GIB).await);
    // Never FailedPrecondition, which means "in use" to the resizer.
    assert_eq!(not_made, Code::Internal);
    assert!(message.contains("not made yet"), "{message}");
    rig.agents.pause("n1", false);
    rig.api.put(PODS, pod("n1", "True"));
    controller.create(ask("pvc-1", 1)).await.unwrap();
    rig.agents.mute("n1");
    rig.api.delete(LVM_NODES, "n1");
    let noticed = async {
        let mut changes = controller.shared.cluster.changes();
        while controller.shared.cluster.obstacle("n1").is_none() {
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(PATIENT, noticed).await.unwrap();
    let (silent, message) = code(controller.expand("pvc-1", 2 * GIB).await);
    assert_eq!(silent, Code::Aborted);
    assert!(message.contains("node n1 reports no"), "{message}");
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thin_volume_of_the_peer_s_is_refused_before_anything_is_written() {
    let rig = Rig::new(&[("n1", &[("data", 10)])]);
    let controller = rig.start("a");
    controller.create(ask("pvc-1", 1)).await.unwrap();
    let thin = json!({ "spec": { "thinProvision": "yes" } });
    rig.api.change(VOLUMES, "pvc-1", &thin);
    let seen = controller.shared.cluster.until("pvc-1", |object| {
        object.filter(|object| object.spec.is_thin()).map(drop)
    });
    tokio::time::timeout(PATIENT, seen).await.unwrap();
    let (code, message) = code(controller.expand("pvc-1", 2 * GIB).await);
    assert_eq!(code, Code::InvalidArgument);
    assert!(message.contains("is thin"), "{message}");
    let object = rig.volume("pvc-1").unwrap();
    assert_eq!(object["spec"]["capacity"], GIB.to_string());
    assert_eq!(rig.api.count("PATCH", "lvmvolumes"), 0);
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_else_s_change_is_kept() {
    let rig = Rig::new(&[("n1", &[("data", 10)])]);
    let controller = rig.start("a");
    controller.create(ask("pvc-1", 1)).await.unwrap();
    let newer = json!({ "spec": { "somethingNewer": { "kept": true } } });
    rig.api.change(VOLUMES, "pvc-1", &newer);
    controller.expand("pvc-1", 2 * GIB).await.unwrap();
    let object = rig.volume("pvc-1").unwrap();
    assert_eq!(object["spec"]["somethingNewer"]["kept"], true);
    assert_eq!(object["status"]["state"], "Ready");
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn capabilities_are_confirmed_or_refused() {
    let rig = Rig::new(&[("n1", &[("data", 10)])]);
    let controller = rig.start("a");
    controller.create(ask("pvc-1", 1)).await.unwrap();
    let validate = async |volume: &str, capabilities: Vec<VolumeCapability>| {
        let request = ValidateVolumeCapabilitiesRequest {
            volume_id: volume.to_owned(),
            volume_capabilities: capabilities,
            ..Default::default()
        };
        let answer = controller
            .service
            .validate_volume_capabilities(within(request, PATIENT))
            .await;
        answer.map(|answer| answer.into_inner())
    };
    let yes = validate("pvc-1", vec![capability()]).await.unwrap();
    assert!(yes.confirmed.is_some());
    let no = validate("pvc-1", vec![block()]).await.unwrap();
    assert!(
        no.confirmed.is_none() && no.message.contains("mount"),
        "{no:?}"
    );
    let mut many = capability();
    many.access_mode = Some(AccessMode {
        mode: Mode::MultiNodeMultiWriter.into(),
    });
    assert!(
        validate("pvc-1", vec![many])
            .await
            .unwrap()
            .confirmed
            .is_none()
    );
    assert_eq!(
        code(validate("pvc-1", vec![]).await).0,
        Code::InvalidArgument
    );
    assert_eq!(
        code(validate("never", vec![capability()]).await).0,
        Code::NotFound
    );
    controller.end().await;
}
