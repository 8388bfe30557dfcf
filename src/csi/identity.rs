//! The Identity service.

use std::sync::Arc;
use std::time::Duration;

use tonic::{Request, Response, Status};

use super::driver::Driver;
use super::proto::identity_server::Identity;
use super::proto::plugin_capability::{Service, Type, VolumeExpansion, service, volume_expansion};
use super::proto::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, PluginCapability, ProbeRequest, ProbeResponse,
};

/// How long the engine may take to show that it works.
const PROBE: Duration = Duration::from_secs(5);

/// The Identity service of a driver.
#[derive(Clone)]
pub struct IdentityService(pub Arc<Driver>);

fn service(kind: service::Type) -> PluginCapability {
    PluginCapability {
        r#type: Some(Type::Service(Service {
            r#type: kind.into(),
        })),
    }
}

/// Who the driver called `name` is.
pub(crate) fn info(name: &str) -> GetPluginInfoResponse {
    GetPluginInfoResponse {
        name: name.to_owned(),
        vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
        manifest: std::collections::HashMap::default(),
    }
}

/// What every part of the driver can do.
pub(crate) fn capabilities() -> GetPluginCapabilitiesResponse {
    let online = VolumeExpansion {
        r#type: volume_expansion::Type::Online.into(),
    };
    GetPluginCapabilitiesResponse {
        capabilities: vec![
            service(service::Type::ControllerService),
            service(service::Type::VolumeAccessibilityConstraints),
            PluginCapability {
                r#type: Some(Type::VolumeExpansion(online)),
            },
        ],
    }
}

#[tonic::async_trait]
impl Identity for IdentityService {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(info(&self.0.name)))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        Ok(Response::new(capabilities()))
    }

    /// Ready means that the engine can see the VGs now.
    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        let engine = self.0.engine.clone();
        let seen = tokio::task::spawn_blocking(move || engine.vg_names());
        let ready = match tokio::time::timeout(PROBE, seen).await {
            Ok(Ok(Ok(_))) => true,
            Ok(Ok(Err(error))) => {
                tracing::error!(%error, "not ready");
                false
            }
            Ok(Err(stopped)) => {
                tracing::error!(%stopped, "not ready: looking for VGs ended early");
                false
            }
            // A device that hangs is no reason to restart the driver, which
            // could do nothing about it: the VGs that are known are served.
            Err(_) => {
                let ready = self.0.engine.has_looked();
                tracing::warn!(ready, "looking for VGs takes longer than {PROBE:?}");
                ready
            }
        };
        Ok(Response::new(ProbeResponse { ready: Some(ready) }))
    }
}
