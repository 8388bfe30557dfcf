//! CreateVolume: what is asked for, where it goes, and what is refused.

use super::*;

fn two() -> Rig {
    Rig::new(&[("n1", &[("data", 20)]), ("n2", &[("data", 30)])])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_one_object_and_no_question() {
    let rig = two();
    let controller = rig.start("a");
    controller.ready().await;
    let lists = rig.api.count("LIST", "lvmvolumes");
    let volume = controller.create(ask("PVC-1", 1)).await.unwrap();
    assert_eq!(volume.volume_id, "pvc-1");
    assert_eq!(volume.capacity_bytes, 1 << 30);
    assert_eq!(node_of(&volume), "n2", "most free space");
    assert_eq!(volume.accessible_topology[0].segments.len(), 1);
    assert_eq!(volume.volume_context["openebs.io/volgroup"], "data");
    assert_eq!(volume.volume_context["openebs.io/cas-type"], "localpv-lvm");
    let object = rig.volume("pvc-1").unwrap();
    assert_eq!(object["spec"]["vgPattern"], "^data$");
    assert_eq!(object["spec"]["shared"], "no");
    assert_eq!(object["spec"]["thinProvision"], "no");
    assert_eq!(
        object["metadata"]["annotations"]["local.csi.openebs.io/access"],
        "mount"
    );
    // The same again, and nothing was asked beside the one object.
    let again = controller.create(ask("PVC-1", 1)).await.unwrap();
    assert_eq!(again, volume);
    assert_eq!(rig.api.count("POST", "lvmvolumes"), 1);
    assert_eq!(rig.api.count("GET", "lvmvolumes"), 0);
    assert_eq!(rig.api.count("LIST", "lvmvolumes"), lists);
    let mut raw = ask_with("pvc-2", 1, &[("vgpattern", "da"), ("SHARED", "yes")]);
    raw.volume_capabilities = vec![block()];
    controller.create(raw).await.unwrap();
    let object = rig.volume("pvc-2").unwrap();
    assert_eq!(
        object["metadata"]["annotations"]["local.csi.openebs.io/access"],
        "block"
    );
    assert_eq!(
        (&object["spec"]["vgPattern"], &object["spec"]["shared"]),
        (&json!("da"), &json!("yes"))
    );
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_volume_of_the_same_name_is_refused() {
    let rig = two();
    let controller = rig.start("a");
    controller.create(ask("pvc-1", 2)).await.unwrap();
    let mut raw = ask("pvc-1", 2);
    raw.volume_capabilities = vec![block()];
    for (request, words) in [
        (ask("pvc-1", 3), "outside of the capacity range"),
        (
            ask_with("pvc-1", 2, &[("volgroup", "data"), ("shared", "yes")]),
            "shared",
        ),
        (
            ask_with("pvc-1", 2, &[("volgroup", "other")]),
            "volume group data",
        ),
        (raw, "mount access"),
    ] {
        let (code, message) = code(controller.create(request).await);
        assert_eq!(code, Code::AlreadyExists, "{message}");
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(rig.agents.made().len(), 1);
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_cannot_be_make_no_object() {
    let rig = two();
    let controller = rig.start("a");
    let mut nameless = ask("", 1);
    nameless.name = String::new();
    let mut nothing = ask("pvc-1", 1);
    nothing.volume_capabilities.clear();
    let mut clone = ask("pvc-1", 1);
    clone.volume_content_source = Some(VolumeContentSource { r#type: None });
    let with = |key, value| ask_with("pvc-1", 1, &[("volgroup", "data"), (key, value)]);
    for (request, words) in [
        (nameless, "name is required"),
        (nothing, "volume capability is required"),
        (clone, "volume_content_source"),
        (
            ask_with("pvc-1", 1, &[]),
            "volgroup or vgpattern is required",
        ),
        (ask_with("pvc-1", 1, &[("vgpattern", "(")]), "vgpattern"),
        (
            with("scheduler", "Best"),
            "SpaceWeighted, CapacityWeighted, VolumeWeighted",
        ),
        (with("shared", "true"), "allowed: yes, no"),
        (with("fsType", "ntfs"), "ntfs"),
        (with("thinProvision", "yes"), "thinProvision"),
    ] {
        let (code, message) = code(controller.create(request).await);
        assert_eq!(code, Code::InvalidArgument, "{message}");
        assert!(message.contains(words), "{message}");
    }
    assert_eq!(rig.api.count("POST", "lvmvolumes"), 0);
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_vg_only_if_the_peer_s_way_is_asked_for() {
    let rig = two();
    let mut settings = Rig::settings("a");
    settings.any_vg = true;
    let controller = rig.start_with(settings);
    let volume = controller.create(ask_with("pvc-1", 1, &[])).await.unwrap();
    assert_eq!(volume.volume_context["openebs.io/volgroup"], "data");
    assert_eq!(rig.volume("pvc-1").unwrap()["spec"]["vgPattern"], "");
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn volgroups_and_patterns() {
    let rig = Rig::new(&[
        ("n1", &[("lvmvg1", 20), ("lvm.a", 20)]),
        ("n2", &[("lvmvg2", 20), ("lvmXa", 20)]),
    ]);
    let controller = rig.start("a");
    let mut n = 0;
    let mut vg = async |parameters: &[(&str, &str)]| {
        n += 1;
        let made = controller
            .create(ask_with(&format!("pvc-{n}"), 1, parameters))
            .await;
        made.map(|volume| {
            let vg = &volume.volume_context["openebs.io/volgroup"];
            format!("{}/{vg}", node_of(&volume))
        })
    };
    for (parameters, where_to) in [
        ([("volgroup", "lvmvg1")], "n1/lvmvg1"),
        ([("volgroup", "lvm.a")], "n1/lvm.a"),
        ([("volgroup", "lvmvg[2-9]")], "n2/lvmvg2"),
        ([("vgpattern", "vg2")], "n2/lvmvg2"),
        ([("vgpattern", "^lvm.a$")], "n2/lvmXa"),
    ] {
        assert_eq!(vg(&parameters).await.unwrap(), where_to);
    }
    // Nothing matches: at once, and with what each node says.
    for parameters in [[("volgroup", "vg1")], [("vgpattern", "nothing")]] {
        let (code, message) = code(vg(&parameters).await);
        assert_eq!(code, Code::ResourceExhausted);
        assert!(
            message.contains("n1: no VG that the class names"),
            "{message}"
        );
    }
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_scheduler_has_its_order() {
    // One LV of 5 GiB on n1, three of 1 GiB on n2, none on the small n3.
    let rig = Rig::new(&[
        ("n1", &[("data", 40)]),
        ("n2", &[("data", 30)]),
        ("n3", &[("data", 10)]),
    ]);
    let controller = rig.start("a");
    let mut n = 0;
    let mut put = async |gib: u64, scheduler: &str, node: Option<&str>| {
        n += 1;
        let parameters = [("volgroup", "data"), ("scheduler", scheduler)];
        let mut request = ask_with(&format!("pvc-{n}"), gib, &parameters);
        if let Some(node) = node {
            request = at(request, &[&[(NODE_TOPOLOGY, node)]]);
        }
        let volume = controller.create(request).await.unwrap();
        node_of(&volume).to_owned()
    };
    put(5, "SpaceWeighted", Some("n1")).await;
    for _ in 0..3 {
        put(1, "SpaceWeighted", Some("n2")).await;
    }
    // Free: 35, 27, 10. Given away: 5, 3, 0. LVs: 1, 3, 0.
    assert_eq!(put(9, "SpaceWeighted", None).await, "n1");
    // Free: 26, 27, 10.
    assert_eq!(put(1, "SpaceWeighted", None).await, "n2");
    assert_eq!(put(5, "CapacityWeighted", None).await, "n3");
    // Given away: 14, 4, 5. LVs: 2, 4, 1.
    assert_eq!(put(1, "CapacityWeighted", None).await, "n2");
    assert_eq!(put(1, "VolumeWeighted", None).await, "n3");
    // Equal counts: by name.
    assert_eq!(put(1, "VolumeWeighted", None).await, "n1");
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_are_rounded_and_limits_respected() {
    let rig = two();
    let controller = rig.start("a");
    for (name, required, limit, made) in [
        ("pvc-1", GIB + 1, 0, 2 * GIB),
        ("pvc-2", 5_000_000, 0, 5 << 20),
        ("pvc-3", GIB + 1, GIB + GIB / 2, GIB + (4 << 20)),
        ("pvc-4", 0, 0, GIB),
    ] {
        let mut request = ask(name, 0);
        request.capacity_range = Some(CapacityRange {
            required_bytes: i64::try_from(required).unwrap(),
            limit_bytes: i64::try_from(limit).unwrap(),
        });
        let volume = controller.create(request).await.unwrap();
        assert_eq!(
            volume.capacity_bytes,
            i64::try_from(made).unwrap(),
            "{name}"
        );
        assert_eq!(
            rig.volume(name).unwrap()["spec"]["capacity"],
            made.to_string()
        );
    }
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn time_runs_out_before_the_caller_s_does_and_the_next_call_goes_on() {
    let rig = Rig::new(&[("n1", &[("data", 20)])]);
    rig.agents.pause("n1", true);
    let controller = rig.start("a");
    controller.ready().await;
    let soon = Duration::from_secs(1);
    let (code, message) = code(controller.create_within(ask("pvc-1", 1), soon).await);
    assert_eq!(code, Code::DeadlineExceeded);
    assert!(message.contains("agent of node n1"), "{message}");
    // Its space stays promised.
    let full = super::code(controller.create_within(ask("pvc-2", 20), soon).await);
    assert_eq!(full.0, Code::ResourceExhausted, "{}", full.1);
    rig.agents.pause("n1", false);
    rig.api.put(PODS, pod("n1", "True"));
    controller.create(ask("pvc-1", 1)).await.unwrap();
    assert_eq!(rig.api.count("POST", "lvmvolumes"), 1);
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_call_for_the_same_volume_is_told_to_wait() {
    let rig = Rig::new(&[("n1", &[("data", 20)])]);
    rig.agents.pause("n1", true);
    let controller = Arc::new(rig.start("a"));
    controller.ready().await;
    let first = Arc::clone(&controller);
    let first = tokio::spawn(async move { first.create(ask("pvc-1", 1)).await });
    let made = |api: &FakeApi| api.get(VOLUMES, "pvc-1");
    rig.api.until("the object is made", made).await;
    let (code, message) = code(controller.create(ask("pvc-1", 1)).await);
    assert_eq!(code, Code::Aborted, "{message}");
    // The first caller hangs up: the volume is free again.
    first.abort();
    let _ = first.await;
    rig.agents.pause("n1", false);
    rig.api.put(PODS, pod("n1", "True"));
    let again = async {
        loop {
            match controller.create(ask("pvc-1", 1)).await {
                Err(status) if status.code() == Code::Aborted => tokio::task::yield_now().await,
                other => return other,
            }
        }
    };
    tokio::time::timeout(PATIENT, again).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_the_peer_has_begun_is_ended() {
    let rig = Rig::new(&[("n1", &[("lvm.a", 20)])]);
    let begun = |name: &str, pattern: &str| {
        json!({
            "apiVersion": "local.openebs.io/v1alpha1", "kind": "LVMVolume",
            "metadata": { "name": name, "namespace": "openebs" },
            "spec": {
                "ownerNodeID": "n1", "volGroup": "", "vgPattern": pattern,
                "capacity": GIB.to_string(), "shared": "no", "thinProvision": "no",
            },
            "status": { "state": "Pending" },
        })
    };
    rig.agents.pause("n1", true);
    // The peer writes the name as it is.
    rig.api.put(VOLUMES, begun("pvc-1", "^lvm.a$"));
    rig.api.put(VOLUMES, begun("pvc-2", "^lvm.b$"));
    let controller = rig.start("a");
    let of = |name: &str| ask_with(name, 1, &[("volgroup", "lvm.a")]);
    let (other, message) = code(controller.create(of("pvc-2")).await);
    assert_eq!(other, Code::AlreadyExists);
    assert!(message.contains("^lvm.b$"), "{message}");
    rig.agents.pause("n1", false);
    rig.api.put(PODS, pod("n1", "True"));
    controller.create(of("pvc-1")).await.unwrap();
    assert_eq!(rig.api.count("POST", "lvmvolumes"), 0);
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_answer_holds_no_volume() {
    let rig = two();
    let limit = Duration::from_secs(2);
    let client = crate::kube::client::bounded(rig.api.client(), limit);
    let controller = rig.start_by(client, Rig::settings("a"));
    controller.ready().await;
    rig.api.hang("POST", "lvmvolumes");
    let (unanswered, message) = code(controller.create(ask("pvc-1", 1)).await);
    assert_eq!(unanswered, Code::Aborted);
    assert!(message.contains("no answer within"), "{message}");
    controller.create(ask("pvc-1", 1)).await.unwrap();
    assert_eq!(rig.api.count("POST", "lvmvolumes"), 2);
    controller.end().await;
}
