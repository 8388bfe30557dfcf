//! Starting and ending the agent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::args::AgentArgs;
use super::devices::QUIET;
use super::pages::pages;
use super::register::{self, Plan};
use super::{Parts, Settings, reconcile};
use crate::csi::{self, ServeError, Services, Socket};
use crate::engine::{Engine, EngineConfig};
use crate::host::Host;
use crate::http;
use crate::kube::client::client;
use crate::kube::failure::ServeFailure;
use crate::metrics::Metrics;

/// How long reconcilers may take once the agent was asked to stop.
const DRAIN: Duration = Duration::from_secs(30);

/// Runs the agent until SIGTERM or SIGINT.
///
/// # Errors
/// When anything needed does not start. The API server is not needed.
pub fn run(host: Host, config: EngineConfig, arguments: &AgentArgs) -> Result<(), ServeFailure> {
    arguments.peer.warn();
    if let Some(error) = host.locks.refusal() {
        tracing::error!(%error, "volumes are published, and neither made nor changed");
    }
    let (socket, listener) = Socket::bind(arguments.endpoint.path()).map_err(ServeError::from)?;
    let engine = Engine::start(host, config).map_err(ServeError::from)?;
    let runtime = runtime()?;
    let ended = runtime.block_on(serve(engine, listener, arguments));
    drop(socket);
    // Threads that hang in a dead device must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    tracing::info!("stopped");
    ended
}

fn runtime() -> Result<tokio::runtime::Runtime, ServeError> {
    Ok(csi::threads().worker_threads(2).build()?)
}

async fn serve(
    engine: Engine,
    listener: std::os::unix::net::UnixListener,
    arguments: &AgentArgs,
) -> Result<(), ServeFailure> {
    let signal = csi::signals().map_err(ServeError::from)?;
    let client = client(&arguments.cluster).await?;
    let metrics = Arc::new(Metrics::new()?);
    let ready = Arc::new(AtomicBool::new(false));
    if let Some(address) = arguments.listen_address.0 {
        let listener = http::listen(address)
            .await
            .map_err(|source| ServeFailure::Listen { address, source })?;
        let pages = pages(&engine, &metrics, &ready, &arguments.metrics_path);
        tokio::spawn(http::serve(listener, pages));
    }
    csi::recover(engine.clone()).await;
    let stop = CancellationToken::new();
    let settings = Settings {
        namespace: arguments.cluster.namespace(),
        node: arguments.nodeid.0.clone(),
        driver: arguments.name.0.clone(),
        topology_keys: arguments.topology_keys(),
        format_defaults: arguments.default_format_options.iter().cloned().collect(),
        any_vg: arguments.cluster.allow_any_vg,
        interval: Duration::from_secs(arguments.node_polling_interval.get()),
        quiet: QUIET,
    };
    let Parts {
        agent,
        driver,
        loops,
    } = Parts::new(&engine, client, metrics, settings, &stop);
    let topology = Arc::clone(&loops.topology);
    let reconciler = tokio::spawn(reconcile(agent, loops, stop.clone()));
    let plan = Plan::of(
        arguments.register,
        &arguments.name.0,
        &arguments.endpoint,
        &arguments.kubelet_dir,
    );
    let registrar = plan.map(|plan| tokio::spawn(register::register(plan, topology)));
    tracing::info!(
        endpoint = %arguments.endpoint,
        node = arguments.nodeid.0,
        driver = arguments.name.0,
        "serving"
    );
    ready.store(true, Ordering::Release);
    let stopping = stop.clone();
    let stopped = async move {
        signal.await;
        stopping.cancel();
        if let Some(registrar) = registrar {
            // Ends with its socket, so that the kubelet sees it go before the
            // calls under way have ended.
            registrar.abort();
            let _ = registrar.await;
        }
    };
    let ended = csi::serve(driver, Services::Node, listener, stopped).await;
    stop.cancel();
    if tokio::time::timeout(DRAIN, reconciler).await.is_err() {
        tracing::warn!("reconcilers still work; what they do is found again at the next start");
    }
    csi::close(engine).await;
    Ok(ended?)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use super::runtime;

    /// As many as volumes on one dead disk, say.
    const HANGING: usize = 600;

    #[test]
    fn jobs_that_hang_leave_threads_for_others() {
        let runtime = runtime().unwrap();
        let barrier = Arc::new(Barrier::new(HANGING + 1));
        for _ in 0..HANGING {
            let barrier = Arc::clone(&barrier);
            runtime.spawn_blocking(move || barrier.wait());
        }
        let other = runtime.spawn_blocking(move || barrier.wait());
        let patience = std::time::Duration::from_secs(60);
        let ended = runtime.block_on(async { tokio::time::timeout(patience, other).await });
        runtime.shutdown_background();
        assert!(ended.is_ok(), "the other job never began");
    }
}
