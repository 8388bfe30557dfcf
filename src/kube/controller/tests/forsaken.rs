//! Volumes whose claim went away before anybody protected it.

use super::claims::{NAME, bind, one};
use super::*;

const PVS: &str = "/api/v1/persistentvolumes";

/// A replica that protects no claim in the time of a test.
fn start(rig: &Rig, identity: &str) -> Replica {
    let mut settings = Rig::settings(identity);
    settings.times.protect = PATIENT;
    rig.start_with(settings)
}

async fn make(controller: &Replica) {
    let made = controller.create(for_claim(ask(NAME, 1), "web")).await;
    made.unwrap();
}

/// Takes the claim away at once.
fn delete_claim(rig: &Rig) {
    let free = json!({ "metadata": { "finalizers": null } });
    rig.api.change(CLAIMS, "web", &free);
    rig.api.delete(CLAIMS, "web");
}

fn add_pv(rig: &Rig) {
    let pv = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": NAME },
    });
    rig.api.put(PVS, pv);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_of_a_claim_that_was_never_bound_is_removed() {
    let rig = one();
    let controller = start(&rig, "a");
    make(&controller).await;
    delete_claim(&rig);
    let note = rig.event("VolumeRemoved").await;
    assert!(note.contains("shop/web") && note.contains(NAME), "{note}");
    assert!(rig.volume(NAME).is_none());
    assert_eq!(rig.agents.lvs("n1", "data"), 0);
    controller.end().await;
}

/// The watch tells of the volume when the claim is gone already.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_is_seen_after_its_claim_went_away_is_removed() {
    let rig = one();
    rig.agents.pause("n1", true);
    let controller = start(&rig, "a");
    let soon = Duration::from_millis(200);
    let request = for_claim(ask(NAME, 1), "web");
    let (late, ()) = tokio::join!(controller.create_within(request, soon), async {
        controller.ready().await;
        delete_claim(&rig);
    });
    late.unwrap_err();
    rig.agents.pause("n1", false);
    let gone = |api: &FakeApi| api.get(VOLUMES, NAME).is_none().then_some(());
    rig.api.until("the volume is gone", gone).await;
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_has_a_pv_is_left_to_it() {
    let rig = one();
    let controller = start(&rig, "a");
    make(&controller).await;
    add_pv(&rig);
    delete_claim(&rig);
    let asked = |api: &FakeApi| (api.count("GET", "persistentvolumes") > 0).then_some(());
    rig.api.until("the PV is looked for", asked).await;
    // Once, and not again.
    let other = "1f8fad5b-d9cb-469f-a165-70867728950e";
    rig.claim("other", other);
    rig.api.delete(CLAIMS, "other");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.api.count("GET", "persistentvolumes"), 1);
    assert!(rig.volume(NAME).is_some());
    controller.end().await;
}

/// Reclaim policy Retain: claim and PV are gone, the volume is kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_was_bound_is_never_removed() {
    let rig = one();
    let controller = start(&rig, "a");
    make(&controller).await;
    bind(&rig);
    delete_claim(&rig);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.api.count("GET", "persistentvolumes"), 0);
    controller.end().await;
    // Nor by a process that never saw the claim: it tells.
    let controller = start(&rig, "b");
    let note = rig.event("Unclaimed").await;
    assert!(
        note.contains(&format!("kubectl delete lvmvol {NAME}")),
        "{note}"
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(rig.volume(NAME).is_some());
    assert_eq!(rig.agents.lvs("n1", "data"), 1);
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_said_of_a_volume_that_has_a_claim_or_a_pv() {
    let rig = one();
    let controller = start(&rig, "a");
    make(&controller).await;
    controller.end().await;
    let controller = start(&rig, "b");
    controller.ready().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.api.count("GET", "persistentvolumes"), 0);
    controller.end().await;
    add_pv(&rig);
    delete_claim(&rig);
    let controller = start(&rig, "c");
    let asked = |api: &FakeApi| (api.count("GET", "persistentvolumes") == 1).then_some(());
    rig.api.until("the PV is looked for", asked).await;
    controller.end().await;
    let events = rig
        .api
        .all("/apis/events.k8s.io/v1/namespaces/openebs/events");
    assert!(events.iter().all(|event| event["reason"] != "Unclaimed"));
}
