//! Starting and ending the controller.

use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use super::args::ControllerArgs;
use super::pages::pages;
use super::service::Service;
use super::{Controller, Settings, run_loops};
use crate::csi::proto::controller_server::ControllerServer;
use crate::csi::proto::identity_server::IdentityServer;
use crate::csi::{self, ServeError, Socket};
use crate::http;
use crate::kube::client::client;
use crate::kube::failure::ServeFailure;
use crate::metrics::Metrics;

/// How long calls and loops may take once the controller was asked to stop.
/// Kubernetes kills after 30 s by default.
const DRAIN: Duration = Duration::from_secs(20);

/// Runs the controller until SIGTERM or SIGINT.
///
/// # Errors
/// When anything needed does not start. That the API server does not answer is
/// no reason: it is waited for.
pub fn run(arguments: &ControllerArgs) -> Result<(), ServeFailure> {
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

async fn serve(listener: StdListener, arguments: &ControllerArgs) -> Result<(), ServeFailure> {
    let signal = csi::signals().map_err(ServeError::from)?;
    let client = client(&arguments.cluster).await?;
    let metrics = Arc::new(Metrics::new()?);
    let settings = Settings::of(arguments);
    let controller = Controller::new(&client, metrics, &settings);
    if let Some(address) = arguments.listen_address.0 {
        let listener = http::listen(address)
            .await
            .map_err(|source| ServeFailure::Listen { address, source })?;
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
    let router = Server::builder()
        .add_service(IdentityServer::new(service.clone()))
        .add_service(ControllerServer::new(service));
    csi::server::answer(router, listener, signal, DRAIN).await
}
