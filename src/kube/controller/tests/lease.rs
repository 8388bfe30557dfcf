//! Who leads.

use super::*;

async fn holder(rig: &Rig, expected: &str) {
    let found = |api: &FakeApi| {
        let lease = api.get(LEASES, "lvcsi-local-csi-openebs-io")?;
        (lease["spec"]["holderIdentity"] == expected).then_some(())
    };
    rig.api.until(&format!("{expected:?} leads"), found).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_leads_and_hands_over_at_its_end() {
    let rig = Rig::new(&[]);
    let first = rig.start("a");
    holder(&rig, "a").await;
    let second = rig.start("b");
    second.ready().await;
    first.end().await;
    holder(&rig, "b").await;
    let lease = rig.api.get(LEASES, "lvcsi-local-csi-openebs-io").unwrap();
    assert_eq!(lease["spec"]["leaseTransitions"], 1);
    second.end().await;
    holder(&rig, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_died_is_followed_when_its_time_is_over() {
    let rig = Rig::new(&[]);
    let first = rig.start("a");
    holder(&rig, "a").await;
    let second = rig.start("b");
    second.ready().await;
    first.die().await;
    holder(&rig, "b").await;
    second.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_write_is_tried_again() {
    let rig = Rig::new(&[]);
    rig.api.fail("POST", "leases", 409);
    rig.api.fail("POST", "leases", 500);
    let only = rig.start("a");
    holder(&rig, "a").await;
    rig.api.fail("PUT", "leases", 409);
    let writes = rig.api.count("PUT", "leases");
    let renewed = |api: &FakeApi| (api.count("PUT", "leases") > writes + 2).then_some(());
    rig.api.until("it is renewed", renewed).await;
    holder(&rig, "a").await;
    only.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_was_deleted_while_nobody_watched_is_made_again() {
    let rig = Rig::new(&[]);
    let only = rig.start("a");
    holder(&rig, "a").await;
    rig.api.down(true);
    rig.api.delete(LEASES, "lvcsi-local-csi-openebs-io");
    rig.api.forget_history();
    rig.api.down(false);
    holder(&rig, "a").await;
    only.end().await;
}
