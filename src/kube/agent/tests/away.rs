//! While the API server is away.

use super::*;
use crate::csi::node::NodeService;
use crate::csi::proto::node_server::Node;
use crate::csi::proto::volume_capability::BlockVolume;
use crate::csi::proto::{
    CapacityRange, NodeExpandVolumeRequest, NodeGetCapabilitiesRequest, NodeGetInfoRequest,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_node_s_volumes_go_on() {
    let rig = Rig::new();
    let first = rig.start();
    rig.ask("pvc-1", 8, "large");
    rig.state("pvc-1", "Ready").await;
    first.end().await;
    rig.api.down(true);
    // A start with nobody there.
    let agent = rig.start();
    let node = NodeService(Arc::clone(&agent.driver));
    let block = AccessType::Block(BlockVolume {});
    node.node_publish_volume(publish("pvc-1", block))
        .await
        .unwrap();
    let expand = NodeExpandVolumeRequest {
        volume_id: "pvc-1".to_owned(),
        volume_path: "/pods/pvc-1".to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: 16 << 20,
            limit_bytes: 0,
        }),
        ..Default::default()
    };
    let expand = tonic::Request::new(expand);
    let grown = node.node_expand_volume(expand).await.unwrap();
    assert_eq!(grown.into_inner().capacity_bytes, 16 << 20);
    let unpublished = node.node_unpublish_volume(unpublish("pvc-1")).await;
    unpublished.unwrap();
    let info = || tonic::Request::new(NodeGetInfoRequest {});
    let unknown = node.node_get_info(info()).await.unwrap_err();
    assert_eq!(unknown.code(), tonic::Code::Unavailable);
    rig.api.down(false);
    rig.ask("pvc-2", 8, "large");
    rig.state("pvc-2", "Ready").await;
    rig.api
        .until("the labels are known", |_| agent.driver.topology())
        .await;
    let known = node.node_get_info(info()).await.unwrap().into_inner();
    let place = known.accessible_topology.unwrap();
    assert_eq!(place.segments["zone"], "a");
    assert_eq!(place.segments["openebs.io/nodename"], "n1");
    agent.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn capabilities_are_the_contract_s() {
    let rig = Rig::new();
    let agent = rig.start();
    let node = NodeService(Arc::clone(&agent.driver));
    let request = tonic::Request::new(NodeGetCapabilitiesRequest {});
    let answer = node.node_get_capabilities(request).await.unwrap();
    assert_eq!(answer.into_inner().capabilities.len(), 2);
    agent.end().await;
}
