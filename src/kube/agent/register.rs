//! Telling the kubelet about the driver, by its plugin registration API.
//!
//! The kubelet watches its `plugins_registry` directory: a socket that appears
//! there is asked for the driver's name and endpoint. So a new socket is also
//! how it is told to ask for the node's topology again.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::{Notify, watch};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

use super::args::Register;
use crate::csi::{Endpoint, Socket, SocketError};

/// The messages and the service, generated.
#[allow(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    reason = "generated from proto/"
)]
mod proto {
    tonic::include_proto!("pluginregistration");
}

use proto::registration_server::{Registration, RegistrationServer};

/// Version of CSI that is served.
const CSI_VERSION: &str = "1.0.0";
/// Wait after the registration failed.
const AGAIN: Duration = Duration::from_secs(10);

/// What is registered where.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The registration socket.
    socket: PathBuf,
    name: String,
    endpoint: String,
}

impl Plan {
    /// Whether and how to register. A sidecar of the peer's manifest serves
    /// the endpoint at a path that the kubelet does not know by that name, and
    /// it answers at the registration socket: either tells that it does it.
    pub(super) fn of(
        register: Register,
        name: &str,
        endpoint: &Endpoint,
        kubelet_dir: &Path,
    ) -> Option<Self> {
        let socket = kubelet_dir
            .join("plugins_registry")
            .join(format!("{name}-reg.sock"));
        let wanted = match register {
            Register::Yes => true,
            Register::No => false,
            Register::Auto => {
                endpoint.path().starts_with(kubelet_dir)
                    && socket.parent().is_some_and(Path::is_dir)
                    && UnixStream::connect(&socket).is_err()
            }
        };
        wanted.then(|| Self {
            socket,
            name: name.to_owned(),
            endpoint: endpoint.path().display().to_string(),
        })
    }
}

/// Registers, and again whenever `again` is notified, until dropped.
/// `registered` tells how it stands: nothing before the kubelet has answered.
pub(super) async fn register(
    plan: Plan,
    again: Arc<Notify>,
    registered: watch::Sender<Option<Result<(), String>>>,
) {
    let registered = Arc::new(registered);
    loop {
        match serve(&plan, &again, Arc::clone(&registered)).await {
            Ok(()) => tracing::info!("telling the kubelet about a changed topology"),
            Err(Failure::Socket(SocketError::InUse { path })) => {
                tracing::info!(
                    path = %path.display(),
                    "a registrar answers there: it tells the kubelet"
                );
                again.notified().await;
            }
            Err(error) => {
                tracing::error!(%error, "the kubelet is not told about the driver; again later");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Transport(#[from] tonic::transport::Error),
}

async fn serve(
    plan: &Plan,
    again: &Notify,
    registered: Arc<watch::Sender<Option<Result<(), String>>>>,
) -> Result<(), Failure> {
    let (socket, listener) = Socket::bind(&plan.socket)?;
    let incoming = UnixListenerStream::new(UnixListener::from_std(listener)?);
    let service = Service {
        plan: plan.clone(),
        registered,
    };
    let server = tonic::transport::Server::builder()
        .add_service(RegistrationServer::new(service))
        .serve_with_incoming(incoming);
    tracing::info!(socket = %plan.socket.display(), "waiting for the kubelet");
    tokio::select! {
        ended = server => ended?,
        () = again.notified() => {}
    }
    drop(socket);
    Ok(())
}

struct Service {
    plan: Plan,
    registered: Arc<watch::Sender<Option<Result<(), String>>>>,
}

#[tonic::async_trait]
impl Registration for Service {
    async fn get_info(
        &self,
        _: Request<proto::InfoRequest>,
    ) -> Result<Response<proto::PluginInfo>, Status> {
        Ok(Response::new(proto::PluginInfo {
            r#type: "CSIPlugin".to_owned(),
            name: self.plan.name.clone(),
            endpoint: self.plan.endpoint.clone(),
            supported_versions: vec![CSI_VERSION.to_owned()],
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<proto::RegistrationStatus>,
    ) -> Result<Response<proto::RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        let result = if status.plugin_registered {
            tracing::info!("registered with the kubelet");
            Ok(())
        } else {
            tracing::error!(error = status.error, "the kubelet refuses the driver");
            Err(status.error)
        };
        self.registered.send_replace(Some(result));
        Ok(Response::new(proto::RegistrationStatusResponse {}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(register: Register, endpoint: &str, kubelet: &Path) -> Option<Plan> {
        Plan::of(register, "d", &endpoint.parse().unwrap(), kubelet)
    }

    #[test]
    fn a_registrar_is_left_to_its_work() {
        let dir = tempfile::tempdir().unwrap();
        let kubelet = dir.path();
        let below = format!("unix://{}/plugins/lvm-localpv/csi.sock", kubelet.display());
        assert!(
            plan(Register::Auto, &below, kubelet).is_none(),
            "no kubelet here"
        );
        std::fs::create_dir(kubelet.join("plugins_registry")).unwrap();
        let ours = plan(Register::Auto, &below, kubelet).unwrap();
        assert!(ours.socket.ends_with("plugins_registry/d-reg.sock"));
        assert!(below.ends_with(&ours.endpoint));
        // The peer's manifest: the kubelet knows the socket by another path.
        assert!(plan(Register::Auto, "unix:///plugin/csi.sock", kubelet).is_none());
        assert!(plan(Register::Yes, "unix:///plugin/csi.sock", kubelet).is_some());
        let (_socket, _listener) = Socket::bind(&ours.socket).unwrap();
        assert!(
            plan(Register::Auto, &below, kubelet).is_none(),
            "somebody answers"
        );
        assert!(plan(Register::No, &below, kubelet).is_none());
    }
}
