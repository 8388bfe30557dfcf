//! What the controller asks of the API server. Every change is either a patch
//! of our own fields or bound to the version that was judged, so nothing that
//! somebody else wrote meanwhile is lost.

use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::facts::{ClaimFacts, ClaimKey};
use crate::kube::crd::{LvmSnapshot, LvmVolume};
use crate::kube::names::{MANAGER, PVC_ANNOTATION, PVC_FINALIZER};
use crate::kube::partial::Claim;

/// How often a change of a claim is tried again when others change it too.
const CONFLICTS: usize = 10;

/// The API server, as far as the controller writes to it.
#[derive(Clone)]
pub(super) struct Server {
    client: Client,
    namespace: String,
}

/// Whether the answer is this status.
pub(super) fn is(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// Whether the answer is that the object of this name is another one. A patch
/// that names the UID of one that was replaced is no conflict to the API
/// server, but an attempt to change what never changes.
fn is_another(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let details = status.details.as_ref().filter(|_| status.code == 422);
    let mut causes = details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.field == "metadata.uid")
}

impl Server {
    /// With objects in `namespace`.
    pub(super) fn new(client: Client, namespace: &str) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
        }
    }

    fn volumes(&self) -> Api<LvmVolume> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn claims(&self, key: &ClaimKey) -> Api<Claim> {
        Api::namespaced(self.client.clone(), &key.0)
    }

    /// Makes the object; false if there is one of its name.
    pub(super) async fn create(&self, object: &LvmVolume) -> Result<bool, kube::Error> {
        let parameters = PostParams {
            field_manager: Some(MANAGER.to_owned()),
            ..PostParams::default()
        };
        match self.volumes().create(&parameters, object).await {
            Ok(_) => Ok(true),
            Err(error) if is(&error, 409) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The volume as the server has it.
    pub(super) async fn volume(&self, name: &str) -> Result<Option<LvmVolume>, kube::Error> {
        self.volumes().get_opt(name).await
    }

    /// Asks for the deletion of this very object. With `judged`, only of this
    /// version of it: false if it is another meanwhile, or gone.
    pub(super) async fn delete(
        &self,
        object: &LvmVolume,
        judged: bool,
    ) -> Result<bool, kube::Error> {
        let version = object.resource_version().filter(|_| judged);
        let parameters = DeleteParams::default().preconditions(Preconditions {
            resource_version: version,
            uid: object.uid(),
        });
        match self.volumes().delete(&object.name_any(), &parameters).await {
            Ok(_) => Ok(true),
            Err(error) if is(&error, 404) || is(&error, 409) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Changes a volume; false if it is gone, or another than was judged.
    pub(super) async fn patch(&self, name: &str, change: &Value) -> Result<bool, kube::Error> {
        patched(
            self.volumes()
                .patch(name, &parameters(), &Patch::Merge(change))
                .await,
        )
    }

    /// As [`Self::patch`], of a snapshot.
    pub(super) async fn patch_snapshot(
        &self,
        name: &str,
        change: &Value,
    ) -> Result<bool, kube::Error> {
        let api: Api<LvmSnapshot> = Api::namespaced(self.client.clone(), &self.namespace);
        patched(api.patch(name, &parameters(), &Patch::Merge(change)).await)
    }

    /// Whether there is a PersistentVolume of this name.
    pub(super) async fn has_pv(&self, name: &str) -> Result<bool, kube::Error> {
        let path = format!("/api/v1/persistentvolumes/{name}");
        Ok(self.get_raw(&path).await?.is_some())
    }

    /// The claim as the server has it.
    pub(super) async fn claim(&self, key: &ClaimKey) -> Result<Option<ClaimFacts>, kube::Error> {
        let claim = self.claims(key).get_opt(&key.1).await?;
        Ok(claim.as_ref().map(ClaimFacts::from))
    }

    /// Puts our finalizer and the volume's name on a claim; false if that is
    /// gone.
    pub(super) async fn protect(
        &self,
        key: &ClaimKey,
        uid: &str,
        volume: &str,
    ) -> Result<bool, kube::Error> {
        let change = json!({
            "metadata": {
                "uid": uid,
                "finalizers": [PVC_FINALIZER],
                "annotations": { PVC_ANNOTATION: volume },
            },
        });
        self.change_claim(key, uid, &change, |metadata| {
            let finalizers = metadata["finalizers"].as_array().cloned();
            let mut finalizers = finalizers.unwrap_or_default();
            if !finalizers.iter().any(|f| f == PVC_FINALIZER) {
                finalizers.push(json!(PVC_FINALIZER));
            }
            metadata["finalizers"] = Value::Array(finalizers);
            metadata["annotations"][PVC_ANNOTATION] = json!(volume);
        })
        .await
    }

    /// Takes both away again; false if the claim is gone.
    pub(super) async fn release(&self, key: &ClaimKey, uid: &str) -> Result<bool, kube::Error> {
        let change = json!({
            "metadata": {
                "uid": uid,
                "$deleteFromPrimitiveList/finalizers": [PVC_FINALIZER],
                "annotations": { PVC_ANNOTATION: null },
            },
        });
        self.change_claim(key, uid, &change, |metadata| {
            if let Some(finalizers) = metadata["finalizers"].as_array_mut() {
                finalizers.retain(|f| f != PVC_FINALIZER);
            }
            if let Some(annotations) = metadata["annotations"].as_object_mut() {
                annotations.remove(PVC_ANNOTATION);
            }
        })
        .await
    }

    /// Changes a claim's metadata. The list of finalizers is merged by the
    /// server, so others may change it at the same time. Roles of the peer
    /// allow no patch: there the whole object is read and written back, as it
    /// is but for our change.
    async fn change_claim(
        &self,
        key: &ClaimKey,
        uid: &str,
        change: &Value,
        edit: impl Fn(&mut Value),
    ) -> Result<bool, kube::Error> {
        let api = self.claims(key);
        let answer = api
            .patch_metadata(&key.1, &parameters(), &Patch::Strategic(change))
            .await;
        match answer {
            Err(error) if is(&error, 403) => {}
            answer => return patched(answer),
        }
        let path = format!(
            "/api/v1/namespaces/{}/persistentvolumeclaims/{}",
            key.0, key.1
        );
        for _ in 0..CONFLICTS {
            let Some(mut claim) = self.get_raw(&path).await? else {
                return Ok(false);
            };
            if claim["metadata"]["uid"] != uid {
                return Ok(false);
            }
            edit(&mut claim["metadata"]);
            match self.put_raw(&path, &claim).await {
                Err(error) if is(&error, 409) => {}
                answer => return patched(answer),
            }
        }
        Ok(false)
    }

    async fn get_raw(&self, path: &str) -> Result<Option<Value>, kube::Error> {
        let request = hyper::Request::get(path).body(Vec::new());
        let request = request.map_err(kube::Error::HttpError)?;
        match self.client.request(request).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if is(&error, 404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn put_raw(&self, path: &str, object: &Value) -> Result<Value, kube::Error> {
        let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
        let request = hyper::Request::put(path)
            .header(hyper::header::CONTENT_TYPE, "application/json")
            .body(body);
        self.client
            .request(request.map_err(kube::Error::HttpError)?)
            .await
    }
}

fn parameters() -> PatchParams {
    PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// Whether a change was made: not if the object is gone or another.
fn patched<T>(answer: Result<T, kube::Error>) -> Result<bool, kube::Error> {
    match answer {
        Ok(_) => Ok(true),
        Err(error) if is(&error, 404) || is(&error, 409) || is_another(&error) => Ok(false),
        Err(error) => Err(error),
    }
}
