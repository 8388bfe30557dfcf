//! The agent: what Kubernetes wants of this node's disks.
//!
//! It serves the CSI Node service, brings LVMVolumes and LVs together, and
//! keeps the node's LVMNode up to date. The CSI service answers from the disks
//! and from memory, so the node's volumes go on while the API server is away;
//! everything else starts again where it was when the server is back.

mod args;
mod attempts;
mod authority;
mod changes;
mod devices;
mod facts;
mod knowledge;
mod node;
mod orphans;
mod pages;
mod place;
mod register;
mod removal;
mod serve;
mod untold;
mod volume;
mod watches;
mod work;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::api::Api;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{Config, WatchStreamExt, applier, controller, watcher};
use kube::{Client, ResourceExt};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;

pub use args::{AgentArgs, Register};
pub use serve::run;

use super::crd::{LvmNode, LvmVolume};
use super::events::Events;
use crate::csi::{Cluster, Driver, FormatDefaults};
use crate::engine::{Engine, LvState, Observer};
use crate::metrics::Metrics;
use attempts::Attempts;
use changes::Changes;
use knowledge::Knowledge;
use untold::Untold;
use work::Work;

/// Volumes that are worked on at a time. The engine commits those of a VG
/// together, so more of them make fewer writes.
const AT_ONCE: u16 = 64;

/// What all parts of the agent share.
pub(crate) struct Agent {
    client: Client,
    namespace: String,
    node: String,
    engine: Engine,
    driver: Arc<Driver>,
    any_vg: bool,
    events: Events,
    metrics: Arc<Metrics>,
    volumes: Store<LvmVolume>,
    /// The store holds everything that the API server has.
    listed: AtomicBool,
    attempts: Attempts,
    untold: Untold,
    /// Takes new LVs that have no device yet.
    devices: UnboundedSender<LvState>,
}

impl Agent {
    /// Runs `job` on a thread where it may block.
    async fn work<T, F>(self: &Arc<Self>, job: F) -> Result<T, tokio::task::JoinError>
    where
        T: Send + 'static,
        F: FnOnce(Work<'_>) -> T + Send + 'static,
    {
        let agent = Arc::clone(self);
        tokio::task::spawn_blocking(move || {
            job(Work {
                driver: &agent.driver,
                engine: &agent.engine,
                any_vg: agent.any_vg,
            })
        })
        .await
    }

    /// Whether every LVMVolume of this node is known.
    fn knows_volumes(&self) -> bool {
        self.listed.load(Ordering::Acquire)
    }
}

/// What an agent is started with.
pub(crate) struct Settings {
    /// Namespace of the objects.
    pub(crate) namespace: String,
    /// Name of this node.
    pub(crate) node: String,
    /// Name of the driver.
    pub(crate) driver: String,
    /// Label keys that volumes may be placed by.
    pub(crate) topology_keys: Vec<String>,
    /// Arguments for mkfs where a volume has none.
    pub(crate) format_defaults: FormatDefaults,
    /// An empty pattern allows all VGs.
    pub(crate) any_vg: bool,
    /// Time between looks where no change was noticed.
    pub(crate) interval: Duration,
    /// How long no volume has been made before devices are.
    pub(crate) quiet: Duration,
}

/// An agent that does not run yet.
pub(crate) struct Parts {
    /// What its parts share.
    pub(crate) agent: Arc<Agent>,
    /// The CSI services' driver.
    pub(crate) driver: Arc<Driver>,
    /// What [`reconcile`] needs beside the agent.
    pub(crate) loops: Loops,
}

impl Parts {
    /// Puts an agent together and listens to the devices until `stop`.
    pub(crate) fn new(
        engine: &Engine,
        client: Client,
        metrics: Arc<Metrics>,
        settings: Settings,
        stop: &CancellationToken,
    ) -> Self {
        let changes = Arc::new(Changes::new(Arc::clone(&metrics)));
        let observer: Arc<dyn Observer> = Arc::<Changes>::clone(&changes);
        engine.observe(observer);
        let (volumes, writer) = reflector::store();
        let Settings {
            namespace,
            node,
            driver: name,
            topology_keys,
            format_defaults,
            any_vg,
            interval,
            quiet,
        } = settings;
        let knowledge = Knowledge::new(&namespace, &node, topology_keys, volumes.clone());
        let cluster: Arc<dyn Cluster> = Arc::<Knowledge>::clone(&knowledge);
        let driver = Driver::in_cluster(engine.clone(), name, &node, cluster, format_defaults);
        let called = Arc::clone(&metrics);
        driver.observe(Box::new(move |rpc, code, took| {
            called.called(rpc, code, took);
        }));
        let (devices, without_device) = mpsc::unbounded_channel();
        Changes::listen(&changes, engine, stop.clone(), interval);
        let agent = Arc::new(Agent {
            events: Events::new(client.clone(), &node),
            client,
            namespace,
            node,
            engine: engine.clone(),
            driver: Arc::clone(&driver),
            any_vg,
            metrics,
            volumes,
            listed: AtomicBool::new(false),
            attempts: Attempts::default(),
            untold: Untold::default(),
            devices,
        });
        let loops = Loops {
            writer,
            without_device,
            knowledge,
            topology: Arc::default(),
            changes: changes.subscribe(),
            interval,
            quiet,
        };
        Self {
            agent,
            driver,
            loops,
        }
    }
}

/// The reconcilers' own settings.
pub(crate) struct Loops {
    /// Where volumes are put as they are seen.
    pub(crate) writer: reflector::store::Writer<LvmVolume>,
    /// New LVs that have no device yet.
    without_device: UnboundedReceiver<LvState>,
    /// For the CSI services.
    knowledge: Arc<Knowledge>,
    /// The node's topology changed.
    pub(crate) topology: Arc<tokio::sync::Notify>,
    /// Counts changes of VGs.
    pub(crate) changes: watch::Receiver<u64>,
    /// Seconds between looks where no change was noticed.
    pub(crate) interval: Duration,
    /// How long no volume has been made before devices are.
    quiet: Duration,
}

/// Runs the reconcilers until `stop`, which lets work under way end.
pub(crate) async fn reconcile(agent: Arc<Agent>, loops: Loops, stop: CancellationToken) {
    let Loops {
        writer,
        without_device,
        knowledge,
        topology,
        changes,
        interval,
        quiet,
    } = loops;
    let (owner, owner_seen) = watch::channel(None);
    let (present, present_seen) = watch::channel(None);
    let nodes = watches::node(
        agent.client.clone(),
        agent.node.clone(),
        owner,
        move |labels| {
            if knowledge.learn(labels) {
                topology.notify_one();
            }
        },
    );
    let api: Api<LvmNode> = Api::namespaced(agent.client.clone(), &agent.namespace);
    let lvm_nodes = watches::lvm_node(api, agent.node.clone(), present);
    let inputs = node::Inputs {
        owner: owner_seen,
        present: present_seen,
        changes,
    };
    let publisher = node::publish(Arc::clone(&agent), inputs, interval);
    let others = async {
        tokio::select! {
            ((), (), ()) = async { tokio::join!(nodes, lvm_nodes, publisher) } => {}
            () = stop.cancelled() => {}
        }
    };
    let devices = devices::activate(Arc::clone(&agent), without_device, quiet, stop.clone());
    let volumes = volumes(Arc::clone(&agent), writer, stop.clone());
    tokio::join!(volumes, devices, others);
}

async fn volumes(
    agent: Arc<Agent>,
    writer: reflector::store::Writer<LvmVolume>,
    stop: CancellationToken,
) {
    let api: Api<LvmVolume> = Api::namespaced(agent.client.clone(), &agent.namespace);
    let config = tokio::select! {
        config = watches::volumes_of(&api, &agent.node) => config,
        () = stop.cancelled() => return,
    };
    let seen = Arc::clone(&agent);
    let stream = watches::volumes(api, config)
        .map(move |event| {
            match &event {
                Ok(watcher::Event::InitDone) => seen.listed.store(true, Ordering::Release),
                Ok(watcher::Event::Delete(object)) => seen.attempts.forget(&object.name_any()),
                Err(error) => tracing::warn!(%error, "watch of the volumes"),
                Ok(_) => {}
            }
            event
        })
        .reflect(writer)
        .touched_objects();
    // The queue ends with `stop`, and the reconcilers when they have done what
    // they are about.
    let (enqueue, queue) = mpsc::unbounded_channel();
    let feed = async move {
        let mut stream = std::pin::pin!(stream);
        loop {
            let object = tokio::select! {
                object = stream.next() => object,
                () = stop.cancelled() => return,
            };
            match object {
                Some(Ok(object)) => {
                    let sent = enqueue.send(Ok::<_, Infallible>(ObjectRef::from_obj(&object)));
                    if sent.is_err() {
                        return;
                    }
                }
                Some(Err(_)) => {}
                None => return,
            }
        }
    };
    let results = applier(
        |object, agent| Box::pin(volume::reconcile(object, agent)),
        volume::again,
        Arc::clone(&agent),
        agent.volumes.clone(),
        UnboundedReceiverStream::new(queue),
        Config::default().concurrency(AT_ONCE),
    );
    let mut results = std::pin::pin!(results);
    let working = async {
        while let Some(result) = results.next().await {
            if let Err(controller::Error::ObjectNotFound(object)) = result {
                tokio::spawn(volume::vanished(Arc::clone(&agent), object.name));
            }
        }
    };
    tokio::join!(feed, working);
}
