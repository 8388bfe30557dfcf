//! Serving, and ending in order.

use std::future::Future;
use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::transport::server::Router;

use crate::engine::{Engine, EngineConfig, EngineError};
use crate::error::Kind;
use crate::host::Host;

use super::controller::ControllerService;
use super::driver::Driver;
use super::endpoint::Endpoint;
use super::identity::IdentityService;
use super::node::NodeService;
use super::proto::controller_server::ControllerServer;
use super::proto::identity_server::IdentityServer;
use super::proto::node_server::NodeServer;
use super::socket::{Socket, SocketError};

/// How long calls and jobs under way may take once the driver was asked to
/// stop; those that hang in a dead device are not waited for that long.
/// Kubernetes kills after 30 s by default.
const DRAIN: Duration = Duration::from_secs(25);
/// Threads for jobs. One that hangs in a dead device keeps its thread: there
/// must be more than volumes on one disk.
const THREADS: usize = 8192;

/// Why serving failed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The engine did not start.
    #[error("the engine does not start: {0}")]
    Engine(#[from] EngineError),
    /// The runtime or the signal handlers.
    #[error("the server does not start: {0}")]
    Runtime(#[from] io::Error),
    /// gRPC.
    #[error("serving failed: {0}")]
    Transport(#[from] tonic::transport::Error),
}

impl ServeError {
    /// What a caller may conclude.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Socket(SocketError::InUse { .. } | SocketError::NotASocket { .. }) => {
                Kind::FailedPrecondition
            }
            Self::Engine(error) => error.kind(),
            _ => Kind::Internal,
        }
    }
}

/// Which services are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Services {
    /// Identity, Controller and Node: standalone.
    All,
    /// Identity and Node: an agent, whose volumes somebody else asks for.
    Node,
}

/// Serves Identity and the others of `services` on `listener` until `stop` completes;
/// then no new connection is taken, and calls and jobs under way are given
/// time to end.
///
/// # Errors
/// When the listener cannot be used.
pub async fn serve(
    driver: Arc<Driver>,
    services: Services,
    listener: StdListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let controller = (services == Services::All)
        .then(|| ControllerServer::new(ControllerService(Arc::clone(&driver))));
    let router = Server::builder()
        .add_service(IdentityServer::new(IdentityService(Arc::clone(&driver))))
        .add_optional_service(controller)
        .add_service(NodeServer::new(NodeService(Arc::clone(&driver))));
    answer(router, listener, stop, DRAIN).await?;
    // Jobs whose callers have gone are not among the server's calls.
    match tokio::time::timeout(DRAIN, driver.drained()).await {
        Ok(hanging) => {
            for job in hanging {
                tracing::warn!(job, "left behind: it ends when the device answers");
            }
        }
        Err(_) => tracing::warn!(
            "jobs still under way after {DRAIN:?} are left; they are repaired at the next start"
        ),
    }
    Ok(())
}

/// Answers calls until `stop`; those under way are given `drain` to end.
pub(crate) async fn answer(
    router: Router,
    listener: StdListener,
    stop: impl Future<Output = ()> + Send + 'static,
    drain: Duration,
) -> Result<(), ServeError> {
    let incoming = UnixListenerStream::new(UnixListener::from_std(listener)?);
    let stopping = CancellationToken::new();
    let stopped = stopping.clone();
    let server = router.serve_with_incoming_shutdown(incoming, async move {
        stop.await;
        tracing::info!("stopping: no new calls");
        stopped.cancel();
    });
    let late = async {
        stopping.cancelled().await;
        tokio::time::sleep(drain).await;
    };
    tokio::select! {
        ended = server => ended?,
        () = late => tracing::warn!("calls still under way after {drain:?} are cut off"),
    }
    Ok(())
}

/// The threads that calls and their jobs run on.
pub(crate) fn threads() -> tokio::runtime::Builder {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all().max_blocking_threads(THREADS);
    builder
}

/// Standalone mode: all services on one socket until SIGTERM or SIGINT. A
/// second signal ends the process without waiting.
///
/// # Errors
/// When the socket is taken or anything needed does not start.
pub fn standalone(
    host: Host,
    config: EngineConfig,
    endpoint: &Endpoint,
    name: &str,
    node_id: &str,
) -> Result<(), ServeError> {
    let (socket, listener) = Socket::bind(endpoint.path())?;
    let engine = Engine::start(host, config)?;
    let runtime = threads().build()?;
    let ended = runtime.block_on(async {
        let stop = signals()?;
        let driver = Driver::new(engine.clone(), name, node_id);
        recover(engine.clone()).await;
        tracing::info!(%endpoint, node = node_id, driver = name, "serving");
        serve(driver, Services::All, listener, stop).await?;
        close(engine).await;
        Ok(())
    });
    drop(socket);
    // Threads that hang in a dead device must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    tracing::info!("stopped");
    ended
}

/// Clears away what a killed driver left. Trouble with one VG is no reason
/// not to serve the others.
pub(crate) async fn recover(engine: Engine) {
    match tokio::task::spawn_blocking(move || engine.recover()).await {
        Ok(recovery) => {
            for lv in &recovery.removed {
                tracing::info!(lv, "removed an incomplete volume of an earlier run");
            }
            for lv in &recovery.resumed {
                tracing::warn!(lv, "resumed a volume that an earlier run left suspended");
            }
            for vg in &recovery.renewed {
                tracing::info!(vg, "refreshed an older copy of the metadata");
            }
            for problem in &recovery.problems {
                tracing::error!(object = problem.object, detail = problem.detail, "recovery");
            }
        }
        Err(stopped) => tracing::error!(%stopped, "recovery ended early"),
    }
}

/// Ends the engine after its queued jobs.
pub(crate) async fn close(engine: Engine) {
    let closing = tokio::task::spawn_blocking(move || engine.shutdown());
    if tokio::time::timeout(DRAIN, closing).await.is_err() {
        tracing::warn!("the engine still works after {DRAIN:?}");
    }
}

/// Completes at the first SIGTERM or SIGINT; exits at the second.
pub(crate) fn signals() -> Result<impl Future<Output = ()> + Send + 'static, io::Error> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let first = CancellationToken::new();
    let seen = first.clone();
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        };
        next().await;
        seen.cancel();
        next().await;
        tracing::warn!("second signal: ending at once");
        std::process::exit(Kind::Aborted.exit_status().into());
    });
    Ok(async move { first.cancelled().await })
}
