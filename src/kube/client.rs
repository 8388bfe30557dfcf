//! The connection to the API server.

use std::path::PathBuf;

use hyper::header::{HeaderValue, USER_AGENT};
use kube::config::{InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use super::args::ClusterArgs;

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
    Ok(Client::try_from(config).map_err(Box::new)?)
}
