//! A CSI driver that does nothing, at once: what a benchmark in a cluster sets a
//! driver's latencies against. `lvcsi-null-driver SOCKET NAME`.

use std::error::Error;
use std::path::PathBuf;

use lvcsi_kit::csi::v1;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use v1::controller_server::{Controller, ControllerServer};
use v1::identity_server::{Identity, IdentityServer};

#[derive(Clone)]
struct Null {
    name: String,
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Identity for Null {
    async fn get_plugin_info(
        &self,
        _: Request<v1::GetPluginInfoRequest>,
    ) -> Answer<v1::GetPluginInfoResponse> {
        Ok(Response::new(v1::GetPluginInfoResponse {
            name: self.name.clone(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Default::default()
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<v1::GetPluginCapabilitiesRequest>,
    ) -> Answer<v1::GetPluginCapabilitiesResponse> {
        use v1::plugin_capability::service::Type;
        use v1::plugin_capability::{self, Service};
        let kind = plugin_capability::Type::Service(Service {
            r#type: Type::ControllerService.into(),
        });
        Ok(Response::new(v1::GetPluginCapabilitiesResponse {
            capabilities: vec![v1::PluginCapability { r#type: Some(kind) }],
        }))
    }

    async fn probe(&self, _: Request<v1::ProbeRequest>) -> Answer<v1::ProbeResponse> {
        Ok(Response::new(v1::ProbeResponse { ready: Some(true) }))
    }
}

#[tonic::async_trait]
impl Controller for Null {
    async fn create_volume(
        &self,
        request: Request<v1::CreateVolumeRequest>,
    ) -> Answer<v1::CreateVolumeResponse> {
        let request = request.into_inner();
        let volume = v1::Volume {
            capacity_bytes: request
                .capacity_range
                .map_or(0, |range| range.required_bytes),
            volume_id: request.name,
            ..Default::default()
        };
        Ok(Response::new(v1::CreateVolumeResponse {
            volume: Some(volume),
        }))
    }

    async fn delete_volume(
        &self,
        _: Request<v1::DeleteVolumeRequest>,
    ) -> Answer<v1::DeleteVolumeResponse> {
        Ok(Response::new(v1::DeleteVolumeResponse {}))
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<v1::ControllerGetCapabilitiesRequest>,
    ) -> Answer<v1::ControllerGetCapabilitiesResponse> {
        use v1::controller_service_capability::rpc::Type;
        use v1::controller_service_capability::{self, Rpc};
        let rpc = controller_service_capability::Type::Rpc(Rpc {
            r#type: Type::CreateDeleteVolume.into(),
        });
        Ok(Response::new(v1::ControllerGetCapabilitiesResponse {
            capabilities: vec![v1::ControllerServiceCapability { r#type: Some(rpc) }],
        }))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(socket), Some(name), None) = (args.next(), args.next(), args.next()) else {
        return Err("usage: lvcsi-null-driver SOCKET NAME".into());
    };
    let socket = PathBuf::from(socket);
    if socket.exists() {
        std::fs::remove_file(&socket)?;
    }
    let listener = UnixListener::bind(&socket)?;
    let null = Null { name };
    Server::builder()
        .add_service(IdentityServer::new(null.clone()))
        .add_service(ControllerServer::new(null))
        .serve_with_incoming(UnixListenerStream::new(listener))
        .await?;
    Ok(())
}
