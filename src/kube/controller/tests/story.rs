//! The whole way: the controller, and agents with LVs on simulated disks.

use std::collections::BTreeSet;

use lvm2::name::VgName;
use lvm2::units::{ExtentSize, Extents, Sectors};

use super::*;
use crate::csi::FormatDefaults;
use crate::engine::{Engine, EngineConfig};
use crate::host::sim::SimHost;
use crate::kube::agent::{Parts, Settings as AgentSettings, reconcile};

const MIB: u64 = 1 << 20;

/// A node with the VG `data` on one disk, and its agent.
struct Node {
    sim: SimHost,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Node {
    fn start(rig: &Rig, name: &str, mib: u64) -> Self {
        let sim = SimHost::new();
        sim.add_disk("/dev/sda", mib * MIB, 512);
        let extent = ExtentSize::new(Sectors(8192)).unwrap();
        sim.add_vg("data", &["/dev/sda"], extent).unwrap();
        rig.add_node(name);
        Self::on(rig, name, sim)
    }

    fn on(rig: &Rig, name: &str, sim: SimHost) -> Self {
        let engine = Engine::start(sim.host(), EngineConfig::default()).unwrap();
        let settings = AgentSettings {
            namespace: "openebs".to_owned(),
            node: name.to_owned(),
            driver: DRIVER.to_owned(),
            topology_keys: Vec::new(),
            any_vg: false,
            format_defaults: FormatDefaults::default(),
            interval: Duration::from_secs(60),
            quiet: Duration::from_millis(300),
        };
        let stop = CancellationToken::new();
        let metrics = Arc::new(Metrics::new().unwrap());
        let parts = Parts::new(&engine, rig.api.client(), metrics, settings, &stop);
        let task = tokio::spawn(reconcile(parts.agent, parts.loops, stop.clone()));
        Self { sim, stop, task }
    }

    /// The process is gone, and a new one starts.
    async fn restart(self, rig: &Rig, name: &str) -> Self {
        self.task.abort();
        let _ = self.task.await;
        self.stop.cancel();
        Self::on(rig, name, self.sim)
    }

    /// LVs with their extents, as another process reads them.
    fn lvs(&self) -> Vec<(String, Extents)> {
        let engine = Engine::start(self.sim.host(), EngineConfig::default()).unwrap();
        let outline = engine.outline(&VgName::new("data").unwrap()).unwrap();
        let lvs = outline.vg.lvs().iter();
        lvs.map(|lv| (lv.name.to_string(), lv.extents())).collect()
    }
}

fn small(name: &str, mib: u64) -> CreateVolumeRequest {
    let mut request = ask(name, 0);
    request.capacity_range = Some(CapacityRange {
        required_bytes: i64::try_from(mib * MIB).unwrap(),
        limit_bytes: 0,
    });
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_volumes_live_and_go_on_two_nodes() {
    let rig = Rig::new(&[]);
    let first = Node::start(&rig, "n1", 256);
    let second = Node::start(&rig, "n2", 1024);
    let controller = Arc::new(rig.start("a"));
    controller.usable(&["n1", "n2"]).await;
    let create = |n: usize| {
        let controller = Arc::clone(&controller);
        let request = small(&format!("pvc-{n}"), 16);
        tokio::spawn(async move { controller.create(request).await })
    };
    let tasks: Vec<_> = (0..60).map(create).collect();
    // One agent dies in the middle of it.
    let some = |api: &FakeApi| {
        let ready = api
            .all(VOLUMES)
            .into_iter()
            .filter(|v| v["status"]["state"] == "Ready");
        (ready.count() > 10).then_some(())
    };
    rig.api.until("some are made", some).await;
    let second = second.restart(&rig, "n2").await;
    let mut asked = BTreeSet::new();
    for task in tasks {
        let volume = task.await.unwrap().unwrap();
        assert_eq!(volume.volume_context["openebs.io/volgroup"], "data");
        asked.insert((volume.volume_id.clone(), node_of(&volume).to_owned()));
    }
    let on = |node: &Node, name: &str| -> BTreeSet<_> {
        let lvs = node.lvs().into_iter();
        lvs.map(|(lv, extents)| {
            assert_eq!(extents, Extents(4), "{lv}");
            (lv, name.to_owned())
        })
        .collect()
    };
    let made: BTreeSet<_> = on(&first, "n1")
        .union(&on(&second, "n2"))
        .cloned()
        .collect();
    assert_eq!(made, asked, "each where it was promised, and no other");
    assert_eq!(
        rig.api.count("POST", "lvmvolumes"),
        60,
        "none was sent to a full node"
    );
    assert_eq!(
        controller.expand("pvc-7", 24 * MIB).await.unwrap(),
        24 << 20
    );
    let grown = |_: &FakeApi| {
        let mut lvs = first.lvs().into_iter().chain(second.lvs());
        lvs.any(|lv| lv == ("pvc-7".to_owned(), Extents(6)))
            .then_some(())
    };
    rig.api.until("the LV has grown", grown).await;
    let delete = |n: usize| {
        let controller = Arc::clone(&controller);
        tokio::spawn(async move { controller.delete(&format!("pvc-{n}")).await })
    };
    let tasks: Vec<_> = (0..60).map(delete).collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert!(first.lvs().is_empty() && second.lvs().is_empty());
    assert!(rig.api.all(VOLUMES).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_agents_refuse_is_answered_in_their_words() {
    let rig = Rig::new(&[]);
    let node = Node::start(&rig, "n1", 256);
    let controller = rig.start("a");
    controller.usable(&["n1"]).await;
    // A stranger's LV has the volume's name.
    let engine = Engine::start(node.sim.host(), EngineConfig::default()).unwrap();
    let request = crate::engine::Request::Create(crate::engine::CreateLv {
        name: lvm2::name::LvName::new("pvc-1").unwrap(),
        size: crate::engine::Size::Bytes(lvm2::units::Bytes(8 * MIB)),
        tags: Vec::new(),
        layout: lvm2::edit::Layout::default(),
        wipe: crate::engine::Wipe::Signatures,
        activate: true,
    });
    let made = engine.submit(&VgName::new("data").unwrap(), request);
    tokio::task::block_in_place(|| made.wait()).unwrap();
    let before = node.lvs();
    let (code, message) = code(controller.create(small("pvc-1", 16)).await);
    assert_eq!(code, Code::AlreadyExists, "{message}");
    assert!(message.contains("left alone"), "{message}");
    assert_eq!(node.lvs(), before);
    assert!(rig.volume("pvc-1").is_none());
    controller.end().await;
}
