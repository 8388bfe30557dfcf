//! The connection to the API server.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{HeaderValue, USER_AGENT};
use hyper::{Request, Response};
use kube::client::Body;
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tokio::sync::Semaphore;

use super::args::ClusterArgs;

/// How long the API server may take to answer.
const ANSWER: Duration = Duration::from_secs(30);

/// Requests at a time, without watches. Each has a connection of its own, and what
/// is many at once is kept waiting by handshakes more than by other requests.
const AT_ONCE: usize = 8;

/// It took longer.
#[derive(Debug, thiserror::Error)]
#[error("no answer within {0:?}")]
struct Silence(Duration);

/// Why there is no connection. That the server does not answer is no reason:
/// a client is made without asking it.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The kubeconfig file.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<KubeconfigError>,
    },
    /// Neither a service account nor a kubeconfig.
    #[error("no cluster: {0}; run in a pod with a service account, or name a file by --kubeconfig")]
    Infer(#[from] Box<InferConfigError>),
    /// TLS, for instance.
    #[error("no client for the API server: {0}")]
    Client(#[from] Box<kube::Error>),
}

/// A client for the cluster of `arguments`.
///
/// # Errors
/// When the settings cannot be read.
pub async fn client(arguments: &ClusterArgs) -> Result<Client, ClientError> {
    client_within(arguments, ANSWER).await
}

async fn client_within(arguments: &ClusterArgs, limit: Duration) -> Result<Client, ClientError> {
    let mut config = match &arguments.kubeconfig {
        None => Config::infer().await.map_err(Box::new)?,
        Some(path) => {
            let failed = |source| ClientError::File {
                path: path.clone(),
                source: Box::new(source),
            };
            let file = Kubeconfig::read_from(path).map_err(failed)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .map_err(failed)?
        }
    };
    // Whose requests these are, for whoever reads an audit log: sidecars have
    // the same account.
    let agent = HeaderValue::from_static(concat!("lvcsi/", env!("CARGO_PKG_VERSION")));
    config.headers.push((USER_AGENT, agent));
    let client = Client::try_from(config).map_err(Box::new)?;
    Ok(bounded(client, limit))
}

/// A client that asks a few things at a time, and none of whose requests waits
/// longer than `limit`. Where the other
/// end of a connection is gone, the kernel notices after a quarter of an hour,
/// and a volume would be held all that time. A watch has to begin in time; its
/// events come when they come, and the watcher sees to it that it ends.
pub(super) fn bounded(client: Client, limit: Duration) -> Client {
    let namespace = client.default_namespace().to_owned();
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, turns) = (client.clone(), Arc::clone(&turns));
        async move {
            let parameters = request.uri().query().unwrap_or_default().split('&');
            let watches = parameters.into_iter().any(|p| p.starts_with("watch="));
            let answer = async {
                if watches {
                    return client.send(request).await;
                }
                // Nobody closes it.
                let _turn = turns.acquire().await;
                let answer = client.send(request).await?;
                let (head, body) = answer.into_parts();
                let body = Body::from(body.collect_bytes().await?);
                Ok(Response::from_parts(head, body))
            };
            match tokio::time::timeout(limit, answer).await {
                Ok(answer) => answer,
                Err(_) => Err(kube::Error::Service(Silence(limit).into())),
            }
        }
    });
    Client::new(service, namespace)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use k8s_openapi::api::core::v1::Node;
    use kube::api::{Api, WatchParams};
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_stream::StreamExt;

    use super::*;
    use crate::kube::tests::fake::FakeApi;

    const SHORT: Duration = Duration::from_millis(300);

    /// A client of a server that answers everybody with `words`, and no more.
    async fn client_of(words: &'static str) -> Client {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.read(&mut [0; 64]).await;
                stream.write_all(words.as_bytes()).await.unwrap();
                open.push(stream);
            }
        });
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = dir.path().join("config");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{
                "name": "c", "cluster": { "server": format!("http://127.0.0.1:{port}") },
            }],
            "users": [{ "name": "u", "user": {} }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        });
        std::fs::write(&kubeconfig, config.to_string()).unwrap();
        let arguments = ClusterArgs {
            kubeconfig: Some(kubeconfig),
            ..ClusterArgs::default()
        };
        client_within(&arguments, SHORT).await.unwrap()
    }

    #[tokio::test]
    async fn nobody_waits_for_a_server_that_says_nothing_or_stops_in_the_middle() {
        for words in [
            "",
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{",
        ] {
            let nodes: Api<Node> = Api::all(client_of(words).await);
            let begun = Instant::now();
            let asked = tokio::time::timeout(Duration::from_secs(60), nodes.get("n"));
            let error = asked.await.unwrap().unwrap_err().to_string();
            assert!(error.contains("no answer within"), "{error}");
            assert!(begun.elapsed() >= SHORT);
        }
        let nodes: Api<Node> = Api::all(client_of("").await);
        let parameters = WatchParams::default();
        let watch = nodes.watch(&parameters, "0");
        let begun = tokio::time::timeout(Duration::from_secs(60), watch);
        assert!(begun.await.unwrap().is_err(), "a watch begins in time");
    }

    #[tokio::test]
    async fn a_watch_waits_for_its_events_as_long_as_it_takes() {
        let api = FakeApi::default();
        let nodes: Api<Node> = Api::all(bounded(api.client(), SHORT));
        let watch = nodes.watch(&WatchParams::default(), "0").await.unwrap();
        let mut watch = std::pin::pin!(watch);
        tokio::time::sleep(SHORT * 2).await;
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" } });
        api.put("/api/v1/nodes", node);
        assert!(watch.next().await.unwrap().is_ok());
    }
}
