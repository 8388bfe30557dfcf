//! Telling the kubelet about the driver, by its plugin registration API.
//!
//! The kubelet watches its `plugins_registry` directory: a socket that appears
//! there is asked for the driver's name and endpoint. So a new socket is also
//! how it is told to ask for the node's topology again.
//!
//! A kubelet of 1.35 or older asks a socket once: after a refusal only a new
//! socket makes it ask again.

use std::convert::Infallible;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::{Notify, watch};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

use super::args::Register;
use super::authority::Localhost;
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
/// A kubelet that watches the directory asks within a second or two.
const UNHEARD: Duration = Duration::from_secs(30);

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

/// Registers once `again` is notified, and anew each time that it is, until
/// dropped.
///
/// The first time is when the node's labels are known. Before that the kubelet
/// would be refused them; and while the API server is away it can register no
/// driver anyway.
pub(super) async fn register(plan: Plan, again: Arc<Notify>) {
    again.notified().await;
    loop {
        match serve(&plan, &again).await {
            Ok(End::Changed) => tracing::info!("telling the kubelet about a changed topology"),
            Ok(End::Refused) => tokio::time::sleep(AGAIN).await,
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

/// Why the socket is no longer served.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The kubelet has to ask for the topology again.
    Changed,
    /// It does not take the driver.
    Refused,
}

async fn serve(plan: &Plan, again: &Notify) -> Result<End, Failure> {
    let (_socket, listener) = Socket::bind(&plan.socket)?;
    let incoming = UnixListenerStream::new(UnixListener::from_std(listener)?);
    let (told, mut verdict) = watch::channel(None);
    let service = Service {
        plan: plan.clone(),
        told,
    };
    let server = tonic::transport::Server::builder()
        .add_service(RegistrationServer::new(service))
        .serve_with_incoming(incoming.map(|stream| stream.map(Localhost::new)));
    tracing::info!(socket = %plan.socket.display(), "waiting for the kubelet");
    let mut heard = verdict.clone();
    let unheard = async {
        let answer = heard.wait_for(Option::is_some);
        if tokio::time::timeout(UNHEARD, answer).await.is_err() {
            tracing::warn!(
                socket = %plan.socket.display(),
                "the kubelet has not registered the driver yet: is its root directory another one?"
            );
        }
        std::future::pending::<Infallible>().await
    };
    let refused = async {
        // The sender lives as long as the server.
        let _ = verdict.wait_for(|told| *told == Some(false)).await;
    };
    tokio::select! {
        ended = server => ended.map(|()| End::Changed).map_err(Failure::from),
        () = again.notified() => Ok(End::Changed),
        () = refused => Ok(End::Refused),
        never = unheard => match never {},
    }
}

struct Service {
    plan: Plan,
    /// Whether the kubelet took the driver, once it has said so.
    told: watch::Sender<Option<bool>>,
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
        if status.plugin_registered {
            tracing::info!("registered with the kubelet");
        } else {
            tracing::error!(error = status.error, "the kubelet refuses the driver");
        }
        self.told.send_replace(Some(status.plugin_registered));
        Ok(Response::new(proto::RegistrationStatusResponse {}))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::super::authority::tests::call;
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

    /// Asks as the kubelet does, as soon as there is a socket; returns what
    /// comes back up to these words.
    async fn ask(plan: &Plan, method: &str, message: &[u8], until: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut stream = loop {
            match tokio::net::UnixStream::connect(&plan.socket).await {
                Ok(stream) => break stream,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            tokio::task::yield_now().await;
        };
        let method = format!("/pluginregistration.Registration/{method}");
        stream.write_all(&call(&method, message)).await.unwrap();
        let mut answer = Vec::new();
        while !String::from_utf8_lossy(&answer).contains(until) {
            let read = stream.read_buf(&mut answer);
            let read = tokio::time::timeout(Duration::from_secs(60), read).await;
            let text = String::from_utf8_lossy(&answer);
            assert_ne!(read.expect(&text).unwrap(), 0, "{text}");
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[tokio::test]
    async fn the_kubelet_is_answered_once_the_labels_are_known() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("plugins_registry")).unwrap();
        let endpoint = format!("unix://{}/csi.sock", dir.path().display());
        let plan = plan(Register::Yes, &endpoint, dir.path()).unwrap();
        let again = Arc::new(Notify::new());
        let task = tokio::spawn(register(plan.clone(), Arc::clone(&again)));
        tokio::task::yield_now().await;
        assert!(!plan.socket.exists(), "it has nothing to tell yet");
        again.notify_one();
        let answer = ask(&plan, "GetInfo", &[], "1.0.0").await;
        assert!(
            answer.contains("CSIPlugin") && answer.contains("csi.sock"),
            "{answer}"
        );
        let first = std::fs::metadata(&plan.socket).unwrap();
        // Five bytes of data on the first stream: an empty message.
        let empty = "\x05\0\0\0\0\0\x01";
        ask(&plan, "NotifyRegistrationStatus", &[8, 1], empty).await;
        again.notify_one();
        let deadline = Instant::now() + Duration::from_secs(60);
        let renewed = |metadata: std::fs::Metadata| {
            use std::os::unix::fs::MetadataExt as _;
            (metadata.ino(), metadata.ctime_nsec()) != (first.ino(), first.ctime_nsec())
        };
        while !std::fs::metadata(&plan.socket).is_ok_and(renewed) {
            assert!(Instant::now() < deadline, "no new socket");
            tokio::task::yield_now().await;
        }
        task.abort();
        let _ = task.await;
        assert!(!plan.socket.exists(), "the kubelet sees it go");
    }
}
