//! The controller: which node a volume is made on, and what becomes of it.
//!
//! A call of the provisioner becomes an LVMVolume; the agent of the chosen node
//! makes the LV and says so in the object's status; the watch wakes the call,
//! which answers. Everything is decided from what the watches have seen, so no
//! call lists or polls anything.
//!
//! Every replica serves calls. What keeps two of them from making a volume
//! twice is the object's name, which can exist only once, and that an object is
//! deleted only in the version that was judged. What nobody asks for is done by
//! the replica that holds the Lease.

mod api;
mod args;
mod background;
mod capacity;
mod claims;
mod cluster;
mod create;
mod decide;
mod delete;
mod error;
mod expand;
mod facts;
mod forsaken;
mod gone;
mod lease;
mod ledger;
mod pages;
mod patience;
mod schedule;
mod serve;
mod service;
mod state;
mod topology;
mod validate;
mod wanted;
mod watches;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub use args::ControllerArgs;
pub use serve::run;

use super::events::Events;
use crate::csi::inflight::{Guard, InFlight, Job};
use crate::metrics::Metrics;
use api::Server;
use claims::Times;
use cluster::Cluster;
use error::ControllerError;
use lease::{Election, Terms};
use watches::Scope;

/// What all parts of the controller share.
struct Controller {
    /// Name of the driver.
    name: String,
    namespace: String,
    /// A class that names no VG may use all of them.
    any_vg: bool,
    server: Server,
    cluster: Arc<Cluster>,
    events: Events,
    metrics: Arc<Metrics>,
    in_flight: InFlight,
    times: Times,
}

impl Controller {
    /// Keeps other calls off the volume while the guard lives.
    fn enter(&self, rpc: &'static str, volume: &str) -> Result<Guard, ControllerError> {
        let job = Job::new(rpc, volume);
        let entered = self.in_flight.enter(&job, Some(volume));
        entered.map_err(|other| ControllerError::InFlight {
            volume: volume.to_owned(),
            job: other.to_string(),
        })
    }
}

/// What a controller is started with.
#[derive(Clone, Debug)]
struct Settings {
    /// Name of the driver.
    name: String,
    /// Namespace of the objects.
    namespace: String,
    /// Name of this replica.
    identity: String,
    /// Labels of the agents' pods.
    agent_selector: String,
    /// A class that names no VG may use all of them.
    any_vg: bool,
    /// For how long a Node must be gone before its volumes are.
    grace: Duration,
    /// Times of the Lease.
    terms: Terms,
    /// Times of the protection of claims.
    times: Times,
}

impl Settings {
    fn of(arguments: &ControllerArgs) -> Self {
        Self {
            name: arguments.name.0.clone(),
            namespace: arguments.cluster.namespace(),
            identity: arguments.identity(),
            agent_selector: arguments.agent_selector.clone(),
            any_vg: arguments.cluster.allow_any_vg,
            grace: arguments.grace(),
            terms: Terms::default(),
            times: Times::default(),
        }
    }
}

impl Controller {
    /// One that knows nothing yet.
    fn new(client: &Client, metrics: Arc<Metrics>, settings: &Settings) -> Arc<Self> {
        Arc::new(Self {
            name: settings.name.clone(),
            namespace: settings.namespace.clone(),
            any_vg: settings.any_vg,
            server: Server::new(client.clone(), &settings.namespace),
            cluster: Arc::default(),
            events: Events::new(client.clone(), &settings.identity),
            metrics,
            in_flight: InFlight::default(),
            times: settings.times,
        })
    }
}

/// Watches, and does the leader's work while this replica leads, until `stop`.
async fn run_loops(
    controller: Arc<Controller>,
    client: Client,
    settings: Settings,
    stop: CancellationToken,
) {
    let own = client.default_namespace().to_owned();
    let scope = Scope {
        namespace: settings.namespace.clone(),
        agents: own.clone(),
        selector: settings.agent_selector.clone(),
        driver: settings.name.clone(),
    };
    let feed = watches::feed(client.clone(), scope, Arc::clone(&controller.cluster));
    let (leads, leading) = watch::channel(false);
    let election = Election::new(
        client,
        &own,
        &settings.name,
        &settings.identity,
        settings.terms,
    );
    let election = election.run(leads, stop.clone());
    let led = lead(controller, leading, settings.grace, settings.terms.follow);
    // The election ends last: it hands the Lease over.
    tokio::select! {
        () = election => {}
        ((), ()) = async { tokio::join!(feed, led) } => {}
    }
}

/// Does the leader's work: at once while this replica leads, else late.
async fn lead(
    controller: Arc<Controller>,
    mut leading: watch::Receiver<bool>,
    grace: Duration,
    follow: Duration,
) {
    controller.cluster.complete().await;
    loop {
        let late = match *leading.borrow_and_update() {
            true => Duration::ZERO,
            false => follow,
        };
        tokio::select! {
            () = claims::keep(Arc::clone(&controller), late) => {}
            () = forsaken::keep(Arc::clone(&controller), late) => {}
            () = gone::end_deletions(Arc::clone(&controller), grace + late) => {}
            changed = leading.changed() => if changed.is_err() {
                return std::future::pending().await;
            },
        }
    }
}
