//! GetCapacity.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn the_best_vg_of_the_nodes_that_can_serve() {
    let rig = Rig::new(&[
        ("n1", &[("data", 10), ("fast", 3)]),
        ("n2", &[("data", 30)]),
        ("n3", &[("data", 90)]),
    ]);
    rig.api
        .put(NODES, node_object("n3", &json!({ "unschedulable": true })));
    let controller = rig.start("a");
    let ask = async |parameters: &[(&str, &str)], segments: &[(&str, &str)]| {
        let request = GetCapacityRequest {
            parameters: ask_with("x", 1, parameters).parameters,
            accessible_topology: (!segments.is_empty()).then(|| place(segments)),
            ..Default::default()
        };
        let answer = controller
            .service
            .get_capacity(within(request, PATIENT))
            .await;
        let answer = answer.unwrap().into_inner();
        (
            answer.available_capacity >> 30,
            answer.maximum_volume_size.map(|size| size >> 30),
        )
    };
    let data = [("volgroup", "data")];
    assert_eq!(ask(&data, &[]).await, (30, Some(30)));
    assert_eq!(ask(&data, &[(NODE_TOPOLOGY, "n1")]).await, (10, Some(10)));
    assert_eq!(ask(&data, &[("zone", "z-n2")]).await, (30, Some(30)));
    assert_eq!(ask(&data, &[(NODE_TOPOLOGY, "n3")]).await, (0, None));
    assert_eq!(ask(&[("vgpattern", "^f")], &[]).await, (3, Some(3)));
    assert_eq!(ask(&[("volgroup", "none")], &[]).await, (0, None));
    // A class that names no VG gets no volume, so it has no capacity.
    assert_eq!(ask(&[], &[]).await, (0, None));
    // What is promised is not free, and what is rounded up must fit.
    rig.agents.set_free("n1", "fast", 3 * GIB - 1);
    let shown = async {
        while ask(&[("volgroup", "fast")], &[]).await != (2, Some(2)) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENT, shown).await.unwrap();
    rig.agents.pause("n2", true);
    let soon = Duration::from_millis(300);
    code(
        controller
            .create_within(super::ask("pvc-1", 12), soon)
            .await,
    );
    assert_eq!(ask(&data, &[]).await, (18, Some(18)));
    let bad = GetCapacityRequest {
        parameters: ask_with("x", 1, &[("vgpattern", "(")]).parameters,
        ..Default::default()
    };
    let refused = controller.service.get_capacity(within(bad, PATIENT)).await;
    assert_eq!(code(refused).0, Code::InvalidArgument);
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_passes_is_not_answered_with_nothing() {
    let rig = Rig::new(&[
        ("starts", &[("data", 10)]),
        ("new", &[("data", 20)]),
        ("down", &[("data", 40)]),
        ("cordoned", &[("data", 80)]),
    ]);
    // Its agent starts again, and the kubelet does not know it meanwhile.
    rig.api.put(PODS, pod("starts", "False"));
    let none = json!({ "metadata": { "name": "starts" }, "spec": { "drivers": [] } });
    rig.api.put(KUBELETS, none);
    // Its agent is ready and has not written its LVMNode.
    let report = rig.api.get(LVM_NODES, "new").unwrap();
    rig.api.delete(LVM_NODES, "new");
    let mut down = node_object("down", &json!({}));
    down["status"]["conditions"][0]["status"] = json!("Unknown");
    rig.api.put(NODES, down);
    let cordoned = node_object("cordoned", &json!({ "unschedulable": true }));
    rig.api.put(NODES, cordoned);
    let controller = rig.start("a");
    let ask = async |vg: &str, node: Option<&str>| {
        let request = GetCapacityRequest {
            parameters: ask_with("x", 1, &[("volgroup", vg)]).parameters,
            accessible_topology: node.map(|node| place(&[(NODE_TOPOLOGY, node)])),
            ..Default::default()
        };
        let asked = controller.service.get_capacity(within(request, PATIENT));
        let gib = |answer: Response<GetCapacityResponse>| answer.get_ref().available_capacity >> 30;
        asked.await.map(gib)
    };
    assert_eq!(ask("data", Some("starts")).await.unwrap(), 10);
    for (node, why) in [("new", "not reported"), ("down", "not ready")] {
        let (code, message) = code(ask("data", Some(node)).await);
        assert_eq!(code, Code::Aborted);
        assert!(message.contains(node) && message.contains(why), "{message}");
    }
    assert_eq!(ask("data", Some("cordoned")).await.unwrap(), 0);
    assert_eq!(ask("data", Some("elsewhere")).await.unwrap(), 0);
    // One that knows answers for all; nobody knows of a VG that one of the
    // silent nodes may have.
    assert_eq!(ask("data", None).await.unwrap(), 10);
    assert_eq!(code(ask("fast", None).await).0, Code::Aborted);
    rig.api.put(LVM_NODES, report);
    let known = async {
        while ask("data", Some("new")).await.ok() != Some(20) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENT, known).await.unwrap();
    controller.end().await;
}
