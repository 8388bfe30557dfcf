use super::super::proto::controller_client::ControllerClient;
use super::super::proto::identity_client::IdentityClient;
use super::super::server::{Services, serve};
use super::super::socket::Socket;
use super::*;
use crate::host::sim::{CallKind, Fault};
use std::time::Duration;
use tokio::sync::oneshot;
use tonic::transport::{Channel, Endpoint};

async fn connect(path: &std::path::Path) -> Channel {
    let endpoint = Endpoint::try_from(format!("unix://{}", path.display())).unwrap();
    endpoint.connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_services_on_one_socket_until_it_is_told_to_stop() {
    let rig = Rig::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("csi.sock");
    let (socket, listener) = Socket::bind(&path).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let driver = Arc::clone(&rig.driver);
    let serving = tokio::spawn(serve(driver, Services::All, listener, async {
        drop(stopped.await)
    }));
    let channel = connect(&path).await;
    let mut identity = IdentityClient::new(channel.clone());
    let info = identity
        .get_plugin_info(GetPluginInfoRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(info.name, "local.csi.openebs.io");
    assert_eq!(
        identity
            .probe(ProbeRequest {})
            .await
            .unwrap()
            .into_inner()
            .ready,
        Some(true)
    );
    let mut controller = ControllerClient::new(channel);
    controller
        .create_volume(volume("a", 4 * MIB))
        .await
        .unwrap();
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
    drop(socket);
    assert!(!path.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_outlives_its_caller_and_keeps_the_volume() {
    let rig = Rig::new();
    rig.create(volume("warm", 4 * MIB)).await.unwrap();
    rig.sim.on(CallKind::DmCreate, 0, Fault::Hang);
    let call = rig.create(volume("a", 4 * MIB));
    assert!(
        tokio::time::timeout(Duration::from_millis(300), call)
            .await
            .is_err()
    );
    assert_eq!(
        code(rig.create(volume("a", 4 * MIB)).await, "earlier call"),
        Code::Aborted
    );
    rig.sim.clear_faults();
    rig.sim.unhang();
    rig.driver.drained().await;
    rig.create(volume("a", 4 * MIB)).await.unwrap();
    assert_eq!(rig.list().await, ["a", "warm"]);
}
