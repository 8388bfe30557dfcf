//! The protection of claims.

use super::super::api::Server;
use super::*;

const UID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";
pub(super) const NAME: &str = "pvc-0f8fad5b-d9cb-469f-a165-70867728950e";
const OURS: &str = "local.csi.openebs.io/csi-leak-protection";
const ANNOTATION: &str = "local.csi.openebs.io/csi-volume-name";

/// A node, and the claim `web`.
pub(super) fn one() -> Rig {
    let rig = Rig::new(&[("n1", &[("data", 20)])]);
    rig.claim("web", UID);
    rig
}

fn finalizers(claim: &Value) -> Vec<&str> {
    let all = claim["metadata"]["finalizers"].as_array().unwrap();
    all.iter().filter_map(Value::as_str).collect()
}

async fn released(rig: &Rig) {
    let found = |api: &FakeApi| {
        let claim = api.get(CLAIMS, "web")?;
        (finalizers(&claim) == ["kubernetes.io/pvc-protection"]).then_some(claim)
    };
    let claim = rig.api.until("the claim is released", found).await;
    assert!(claim["metadata"]["annotations"][ANNOTATION].is_null());
    assert_eq!(
        claim["spec"]["somethingNewer"], 1,
        "nothing else was touched"
    );
}

/// Makes the claim's volume while its agent takes its time.
async fn make_slowly(rig: &Rig, controller: &Replica) {
    rig.agents.pause("n1", true);
    let protected = async {
        let found = |api: &FakeApi| {
            let claim = api.get(CLAIMS, "web")?;
            finalizers(&claim).contains(&OURS).then_some(claim)
        };
        let claim = rig.api.until("the claim is protected", found).await;
        rig.agents.pause("n1", false);
        claim
    };
    let making = controller.create(for_claim(ask(NAME, 1), "web"));
    let (made, claim) = tokio::join!(making, protected);
    made.unwrap();
    assert_eq!(finalizers(&claim), ["kubernetes.io/pvc-protection", OURS]);
    assert_eq!(claim["metadata"]["annotations"][ANNOTATION], NAME);
}

/// Gives the claim the volume made for it.
pub(super) fn bind(rig: &Rig) {
    let bound = json!({ "spec": { "volumeName": NAME }, "status": { "phase": "Bound" } });
    rig.api.change(CLAIMS, "web", &bound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_not_touched_where_its_volume_is_made_at_once() {
    let rig = one();
    let mut settings = Rig::settings("a");
    settings.times.protect = PATIENT;
    let controller = rig.start_with(settings);
    let before = rig.api.get(CLAIMS, "web");
    controller
        .create(for_claim(ask(NAME, 1), "web"))
        .await
        .unwrap();
    assert_eq!(rig.api.get(CLAIMS, "web"), before);
    let object = rig.volume(NAME).unwrap();
    let purpose = &object["metadata"]["annotations"]["local.csi.openebs.io/claim"];
    assert_eq!(*purpose, format!("shop/web/{UID}"));
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_protected_until_it_is_bound() {
    // With our roles, and with the peer's, which allow no patch.
    for patch in [true, false] {
        let rig = one();
        if !patch {
            rig.api.forbid("PATCH", "persistentvolumeclaims");
        }
        let controller = rig.start("a");
        make_slowly(&rig, &controller).await;
        bind(&rig);
        released(&rig).await;
        assert!(rig.volume(NAME).is_some());
        controller.end().await;
    }
}

/// A leader that died holds its Lease for minutes.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_is_released_where_the_leader_does_nothing() {
    let rig = one();
    let name = "lvcsi-local-csi-openebs-io";
    let lease = json!({
        "metadata": { "name": name },
        "spec": { "holderIdentity": "gone", "leaseDurationSeconds": 600 },
    });
    rig.api.put(LEASES, lease);
    let mut settings = Rig::settings("a");
    settings.terms.expire = Duration::from_secs(600);
    let controller = rig.start_with(settings);
    make_slowly(&rig, &controller).await;
    bind(&rig);
    released(&rig).await;
    let lease = rig.api.get(LEASES, name).unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "gone");
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_of_a_claim_that_goes_away_goes_with_it() {
    let rig = one();
    rig.agents.pause("n1", true);
    let controller = rig.start("a");
    let soon = Duration::from_millis(500);
    code(
        controller
            .create_within(for_claim(ask(NAME, 1), "web"), soon)
            .await,
    );
    // The controller is away while the agent makes the volume and the user
    // gives the claim up.
    controller.end().await;
    rig.agents.pause("n1", false);
    rig.api.put(PODS, pod("n1", "True"));
    let made = |api: &FakeApi| {
        api.get(VOLUMES, NAME)
            .filter(|v| v["status"]["state"] == "Ready")
    };
    rig.api.until("the volume is made", made).await;
    rig.api.delete(CLAIMS, "web");
    assert!(
        rig.api.get(CLAIMS, "web").is_some(),
        "the finalizer holds it"
    );
    let controller = rig.start("b");
    released(&rig).await;
    assert!(rig.volume(NAME).is_none());
    assert_eq!(rig.agents.lvs("n1", "data"), 0);
    let note = rig.event("VolumeRemoved").await;
    assert!(note.contains(NAME), "{note}");
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_made_for_a_claim_that_is_gone_or_going() {
    let rig = one();
    let controller = rig.start("a");
    let (first, message) = code(controller.create(for_claim(ask(NAME, 1), "none")).await);
    assert_eq!(first, Code::FailedPrecondition);
    assert!(message.contains("shop/none does not exist"), "{message}");
    rig.api.delete(CLAIMS, "web");
    // Made if the watch is late, and asked to come again if the claim changed
    // under its protection.
    let refused = async {
        loop {
            let result = controller.create(for_claim(ask(NAME, 1), "web")).await;
            match result {
                Err(status) if status.code() == Code::Aborted => {}
                Err(_) => return code(result),
                Ok(_) => {}
            }
        }
    };
    let (second, message) = refused.await;
    assert_eq!(second, Code::FailedPrecondition);
    assert!(message.contains("is being deleted"), "{message}");
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotation_deletes_no_other_claim_s_volume() {
    let rig = one();
    let controller = rig.start("a");
    let other = "pvc-11111111-d9cb-469f-a165-70867728950e";
    controller.create(ask(other, 1)).await.unwrap();
    let forged = json!({ "metadata": {
        "annotations": { ANNOTATION: other },
        "finalizers": ["kubernetes.io/pvc-protection", OURS],
    } });
    rig.api.change(CLAIMS, "web", &forged);
    rig.api.delete(CLAIMS, "web");
    released(&rig).await;
    let note = rig.event("VolumeNotOwned").await;
    assert!(note.contains(other), "{note}");
    assert!(rig.volume(other).is_some());
    controller.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_claim_of_the_name_is_left_alone() {
    // With our roles, and with the peer's, which allow no patch.
    for patch in [true, false] {
        let rig = one();
        if !patch {
            rig.api.forbid("PATCH", "persistentvolumeclaims");
        }
        let before = rig.api.get(CLAIMS, "web");
        let server = Server::new(rig.api.client(), "openebs");
        let key = ("shop".to_owned(), "web".to_owned());
        let former = "11111111-d9cb-469f-a165-70867728950e";
        assert!(!server.protect(&key, former, NAME).await.unwrap());
        assert!(!server.release(&key, former).await.unwrap());
        assert_eq!(rig.api.get(CLAIMS, "web"), before);
        // What else is invalid is an error.
        if patch {
            rig.api.fail("PATCH", "persistentvolumeclaims", 422);
            assert!(server.protect(&key, UID, NAME).await.is_err());
        }
    }
}
