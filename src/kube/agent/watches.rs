//! The agent's watches: one list each when they start, and no question to the
//! API server after that.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, ListParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource, ResourceExt};
use tokio::sync::watch;
use tokio_stream::{Stream, StreamExt};

use crate::kube::crd::{LvmNode, LvmVolume};
use crate::kube::partial::Node;

/// First wait before the API server is asked again; it doubles.
const FIRST: Duration = Duration::from_millis(500);
/// Longest wait.
const SLOWEST: Duration = Duration::from_secs(30);

/// How to watch the volumes of `node` only. Servers with our definitions
/// select them by field; with the peer's definitions, which cannot, all
/// volumes come and those of other nodes are passed over.
pub(super) async fn volumes_of(api: &Api<LvmVolume>, node: &str) -> watcher::Config {
    let field = format!("spec.ownerNodeID={node}");
    let mut wait = FIRST;
    loop {
        let ask = ListParams::default().fields(&field).limit(1);
        match api.list_metadata(&ask).await {
            Ok(_) => return watcher::Config::default().fields(&field),
            Err(kube::Error::Api(status)) if status.code == 400 => {
                tracing::info!("the LVMVolume definition has no selectable fields: watching all");
                return watcher::Config::default();
            }
            Err(error) => {
                tracing::warn!(%error, ?wait, "volumes cannot be watched yet");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(SLOWEST);
            }
        }
    }
}

/// Events of volumes, without what nobody needs in memory.
pub(super) fn volumes(
    api: Api<LvmVolume>,
    config: watcher::Config,
) -> impl Stream<Item = Result<watcher::Event<LvmVolume>, watcher::Error>> + Send {
    watcher(api, config).default_backoff().modify(|object| {
        object.managed_fields_mut().clear();
    })
}

/// Keeps `owner` and the labels of this node's Node up to date. Without a Node
/// there is no owner: what belongs to a deleted one is collected as garbage.
pub(super) async fn node(
    client: Client,
    name: String,
    owner: watch::Sender<Option<OwnerReference>>,
    mut labels: impl FnMut(Vec<(String, String)>),
) {
    let api: Api<Node> = Api::all(client);
    let mut stream = std::pin::pin!(one(api, &name));
    let mut single = Single::new(
        "list and watch of nodes: changes of the node's labels are not noticed; without a list its \
         topology is unknown and no LVMNode is written",
    );
    while let Some(event) = stream.next().await {
        let Some(node) = single.after(event) else {
            continue;
        };
        if let Some(node) = &node {
            labels(node.labels().clone().into_iter().collect());
        }
        let reference = node.and_then(|node| node.controller_owner_ref(&()));
        owner.send_if_modified(|old| {
            let differs = *old != reference;
            *old = reference;
            differs
        });
    }
}

/// Keeps `present` at what the LVMNode of this node is.
pub(super) async fn lvm_node(
    api: Api<LvmNode>,
    name: String,
    present: watch::Sender<Option<Option<Arc<LvmNode>>>>,
) {
    let mut stream = std::pin::pin!(one(api, &name));
    let mut single = Single::new("list and watch of lvmnodes: no LVMNode is written");
    while let Some(event) = stream.next().await {
        if let Some(node) = single.after(event) {
            present.send_replace(Some(node.map(Arc::new)));
        }
    }
}

/// Follows the one object of a watch.
struct Single<K> {
    listed: Option<K>,
    /// What is missing, and what follows from it, where no role allows the watch.
    right: &'static str,
    complained: bool,
}

impl<K> Single<K> {
    fn new(right: &'static str) -> Self {
        Self {
            listed: None,
            right,
            complained: false,
        }
    }

    /// The object, or that there is none, as far as the event tells.
    fn after(&mut self, event: Result<watcher::Event<K>, watcher::Error>) -> Option<Option<K>> {
        let now = match event {
            Ok(watcher::Event::Init) => {
                self.listed = None;
                return None;
            }
            Ok(watcher::Event::InitApply(object)) => {
                self.listed = Some(object);
                return None;
            }
            Ok(watcher::Event::InitDone) => self.listed.take(),
            Ok(watcher::Event::Apply(object)) => Some(object),
            Ok(watcher::Event::Delete(_)) => None,
            Err(error) => {
                self.complain(&error);
                return None;
            }
        };
        Some(now)
    }

    /// That nobody answers passes. That no role allows it does not, and is said
    /// aloud, once.
    fn complain(&mut self, error: &watcher::Error) {
        if is_forbidden(error) && !std::mem::replace(&mut self.complained, true) {
            tracing::warn!(%error, "no role allows {}", self.right);
        } else {
            tracing::debug!(%error, "watch");
        }
    }
}

fn is_forbidden(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => status.code == 403,
        watcher::Error::WatchError(status) => status.code == 403,
        _ => false,
    }
}

fn one<K>(
    api: Api<K>,
    name: &str,
) -> impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send
where
    K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send,
    K: 'static,
{
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    watcher(api, config)
        .default_backoff()
        .modify(|object| object.managed_fields_mut().clear())
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Mutex;

    use super::*;
    use crate::kube::tests::fake::FakeApi;

    /// Keeps what is logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_watch_that_no_role_allows_is_complained_of_once() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::WARN)
            .with_writer(move || writer.clone())
            .finish();
        let _here = tracing::subscriber::set_default(subscriber);
        let api = FakeApi::default();
        api.forbid("LIST", "nodes");
        let (owner, _seen) = watch::channel(None);
        let watching = node(api.client(), "n1".to_owned(), owner, |_| {});
        let refused = api.until("three lists", |api| {
            (api.count("LIST", "nodes") > 2).then_some(())
        });
        tokio::select! {
            () = watching => {}
            () = refused => {}
        }
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let said = "no role allows list and watch of nodes";
        assert_eq!(text.matches(said).count(), 1, "{text}");
    }
}
