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
