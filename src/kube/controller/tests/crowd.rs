//! Many at once, and replicas that take over from each other.

use super::*;

/// Creates `count` volumes of `gib` at once.
async fn create_all(
    controller: &Arc<Replica>,
    count: usize,
    gib: u64,
) -> Vec<Result<Volume, Status>> {
    let tasks: Vec<_> = (0..count)
        .map(|n| {
            let controller = Arc::clone(controller);
            tokio::spawn(async move { controller.create(ask(&format!("pvc-{n}"), gib)).await })
        })
        .collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_at_once_fill_two_nodes_to_the_last_byte() {
    let rig = Rig::new(&[("n1", &[("data", 30)]), ("n2", &[("data", 30)])]);
    let controller = Arc::new(rig.start("a"));
    controller.ready().await;
    let results = create_all(&controller, 60, 1).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(
        (rig.agents.lvs("n1", "data"), rig.agents.lvs("n2", "data")),
        (30, 30)
    );
    // None was sent to a node that was full already.
    assert_eq!(rig.api.count("POST", "lvmvolumes"), 60);
    assert_eq!(rig.api.count("DELETE", "lvmvolumes"), 0);
    let (code, _) = code(controller.create(ask("pvc-60", 1)).await);
    assert_eq!(code, Code::ResourceExhausted);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused_while_the_reports_lag() {
    let rig = Rig::new(&[("n1", &[("data", 10)]), ("n2", &[("data", 5)])]);
    for node in ["n1", "n2"] {
        rig.agents.mute(node);
    }
    let controller = Arc::new(rig.start("a"));
    controller.ready().await;
    let results = create_all(&controller, 20, 1).await;
    let made = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(made, 15);
    assert_eq!(rig.api.count("POST", "lvmvolumes"), 15);
    for refused in results.into_iter().filter(Result::is_err) {
        assert_eq!(code(refused).0, Code::ResourceExhausted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_goes_on_where_another_died() {
    let rig = Rig::new(&[("n1", &[("data", 20)]), ("n2", &[("data", 30)])]);
    rig.agents.pause("n2", true);
    let first = rig.start("a");
    let soon = Duration::from_millis(500);
    let late = code(first.create_within(ask("pvc-1", 1), soon).await);
    assert_eq!(late.0, Code::DeadlineExceeded, "{}", late.1);
    first.die().await;
    let second = rig.start("b");
    second.ready().await;
    // The space that the other promised counts here too.
    let full = code(second.create(ask("pvc-2", 30)).await);
    assert_eq!(full.0, Code::ResourceExhausted, "{}", full.1);
    rig.agents.pause("n2", false);
    rig.api.put(PODS, pod("n2", "True"));
    let volume = second.create(ask("pvc-1", 1)).await.unwrap();
    assert_eq!(node_of(&volume), "n2");
    assert_eq!(rig.api.count("POST", "lvmvolumes"), 1);
    assert_eq!(rig.agents.made(), [("pvc-1".to_owned(), "n2".to_owned())]);
    second.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_asked_at_once_make_one_volume() {
    let rig = Rig::new(&[("n1", &[("data", 50)]), ("n2", &[("data", 50)])]);
    let replicas = [Arc::new(rig.start("a")), Arc::new(rig.start("b"))];
    for replica in &replicas {
        replica.ready().await;
    }
    let mut tasks = Vec::new();
    for n in 0..20 {
        for replica in &replicas {
            let replica = Arc::clone(replica);
            let ask = ask(&format!("pvc-{n}"), 1);
            tasks.push(tokio::spawn(async move { replica.create(ask).await }));
        }
    }
    let mut places: HashMap<String, String> = HashMap::new();
    for task in tasks {
        let volume = task.await.unwrap().unwrap();
        let node = node_of(&volume).to_owned();
        let known = places
            .entry(volume.volume_id)
            .or_insert_with(|| node.clone());
        assert_eq!(*known, node, "both answer the same");
    }
    assert_eq!(rig.agents.made().len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_of_the_api_server_makes_no_second_volume() {
    let rig = Rig::new(&[("n1", &[("data", 20)])]);
    let controller = rig.start("a");
    controller.ready().await;
    rig.api.fail("POST", "lvmvolumes", 500);
    let (code, message) = code(controller.create(ask("pvc-1", 1)).await);
    assert_eq!(code, Code::Aborted, "{message}");
    assert!(message.contains("pvc-1"), "{message}");
    controller.create(ask("pvc-1", 1)).await.unwrap();
    rig.api.cut_watches();
    controller.create(ask("pvc-2", 1)).await.unwrap();
    rig.api.forget_history();
    controller.create(ask("pvc-3", 1)).await.unwrap();
    assert_eq!(rig.agents.made().len(), 3);
    controller.end().await;
}
