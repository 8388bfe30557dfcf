//! Starting and ending the controller.

use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use super::args::ControllerArgs;
use super::pages::pages;
use super::service::Service;
use super::{Controller, Settings, run_loops};
use crate::csi::proto::controller_server::ControllerServer;
use crate::csi::proto::identity_server::IdentityServer;
use crate::csi::{self, ServeError, Socket};
use crate::error::Kind;
use crate::http;
use crate::kube::client::{ClientError, client};
use crate::metrics::{Metrics, MetricsError};

/// How long calls and loops may take once the controller was asked to stop.
/// Kubernetes kills after 30 s by default.
const DRAIN: Duration = Duration::from_secs(20);

/// Why the controller ended.
#[derive(Debug, thiserror::Error)]
pub enum ControllerServeError {
    /// The CSI service.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The cluster.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Metrics.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The address of metrics and health.
    #[error("listen at {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        source: io::Error,
    },
}

impl ControllerServeError {
    /// What a caller may conclude.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Serve(error) => error.kind(),
            Self::Client(_) => Kind::InvalidArgument,
            Self::Listen { .. } => Kind::FailedPrecondition,
            Self::Metrics(_) => Kind::Internal,
        }
    }
}

/// Runs the controller until SIGTERM or SIGINT.
///
/// # Errors
/// When anything needed does not start. That the API server does not answer is
/// no reason: it is waited for.
pub fn run(arguments: &ControllerArgs) -> Result<(), ControllerServeError> {
    arguments.peer.warn();
    let (socket, listener) = Socket::bind(arguments.endpoint.path()).map_err(ServeError::from)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(ServeError::from)?;
    let ended = runtime.block_on(serve(listener, arguments));
    drop(socket);
    runtime.shutdown_timeout(Duration::from_secs(1));
    tracing::info!("stopped");
    ended
}

async fn serve(
    listener: StdListener,
    arguments: &ControllerArgs,
) -> Result<(), ControllerServeError> {
    let signal = csi::signals().map_err(ServeError::from)?;
    let client = client(&arguments.cluster).await?;
    let metrics = Arc::new(Metrics::new()?);
    let settings = Settings::of(arguments);
    let controller = Controller::new(&client, metrics, &settings);
    if let Some(address) = arguments.listen_address.0 {
        let listener = http::listen(address)
            .await
            .map_err(|source| ControllerServeError::Listen { address, source })?;
        let pages = pages(&controller, &arguments.metrics_path);
        tokio::spawn(http::serve(listener, pages));
    }
    let stop = CancellationToken::new();
    let loops = run_loops(
        Arc::clone(&controller),
        client,
        settings.clone(),
        stop.clone(),
    );
    let loops = tokio::spawn(loops);
    tracing::info!(
        endpoint = %arguments.endpoint,
        driver = settings.name,
        identity = settings.identity,
        namespace = settings.namespace,
        "serving"
    );
    let ended = answer(Service(controller), listener, signal).await;
    stop.cancel();
    if tokio::time::timeout(DRAIN, loops).await.is_err() {
        tracing::warn!("the loops still work; what they do is found again at the next start");
    }
    Ok(ended?)
}

/// Answers calls until `signal`; those under way are given time to end.
pub(super) async fn answer(
    service: Service,
    listener: StdListener,
    signal: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ServeError> {
    let incoming = UnixListenerStream::new(UnixListener::from_std(listener)?);
    let stopping = CancellationToken::new();
    let stopped = stopping.clone();
    let server = Server::builder()
        .add_service(IdentityServer::new(service.clone()))
        .add_service(ControllerServer::new(service))
        .serve_with_incoming_shutdown(incoming, async move {
            signal.await;
            tracing::info!("stopping: no new calls");
            stopped.cancel();
        });
    let late = async {
        stopping.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        ended = server => ended?,
        () = late => tracing::warn!("calls still under way after {DRAIN:?} are cut off"),
    }
    Ok(())
}
