//! What is done without where a role does not allow it.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_seen_is_done_without() {
    let rig = Rig::new(&[("n1", &[("data", 20)])]);
    for kind in ["csinodes", "pods", "persistentvolumeclaims"] {
        rig.api.forbid("LIST", kind);
        rig.api.forbid("WATCH", kind);
    }
    let controller = rig.start("a");
    controller.create(ask("pvc-1", 1)).await.unwrap();
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_start_is_waited_for() {
    let rig = Rig::new(&[("n1", &[("data", 20)])]);
    rig.api.forbid("LIST", "nodes");
    let controller = rig.start("a");
    let soon = Duration::from_millis(500);
    let (code, message) = code(controller.create_within(ask("pvc-1", 1), soon).await);
    assert_eq!(code, Code::Aborted);
    assert!(message.contains("nodes"), "{message}");
    controller.end().await;
}
