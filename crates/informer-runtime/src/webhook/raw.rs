//! Admission of objects as JSON: of several kinds, or of kinds without a type.

use std::marker::PhantomData;

use informer_client::ListKeys;
use kube_core::Resource;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::admission::{
    AdmissionOperation, AdmissionRequest, Allowed, Denied, RequestWire, UndecodableObject, read_request,
};
use super::{admission, patch};

impl AdmissionRequest<Value> {
    /// Returns this request with its objects decoded as `K`; `None` if they are of another kind. This lets
    /// one handler review several kinds by their types.
    ///
    /// # Errors
    ///
    /// Returns an error if the new object cannot be decoded. A handler can return it with `?`.
    pub fn typed<K>(&self) -> Result<Option<AdmissionRequest<K>>, UndecodableObject>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        if (&*self.kind.group, &*self.kind.kind) != (&*K::group(&()), &*K::kind(&())) {
            return Ok(None);
        }
        let object = self.object.as_ref().map(|object| admission::decoded(object, "object"));
        Ok(Some(AdmissionRequest {
            uid: self.uid.clone(),
            operation: self.operation,
            kind: self.kind.clone(),
            resource: self.resource.clone(),
            subresource: self.subresource.clone(),
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            user: self.user.clone(),
            dry_run: self.dry_run,
            object: object.transpose()?.flatten(),
            options: self.options.clone(),
            old: self.old.clone(),
            typed: PhantomData,
        }))
    }
}

impl RequestWire {
    /// Returns the request with its objects as JSON.
    fn into_raw(self) -> AdmissionRequest<Value> {
        let (object, options) = (self.object.clone(), self.options.clone());
        self.request(Some(object).filter(|object| !object.is_null()), options)
    }
}

pub(super) async fn validate<F, Fut>(review: Value, validator: &F) -> Value
where
    F: Fn(AdmissionRequest<Value>) -> Fut,
    Fut: Future<Output = Result<Allowed, Denied>>,
{
    let decided = match read_request(review) {
        Ok(wire) => validator(wire.into_raw()).await,
        Err(denied) => Err(denied),
    };
    decided.map_or_else(Denied::response, Allowed::response)
}

pub(super) async fn default<F, Fut>(review: Value, defaulter: &F) -> Value
where
    F: Fn(AdmissionRequest<Value>, Value) -> Fut,
    Fut: Future<Output = Result<Value, Denied>>,
{
    let request = match read_request(review) {
        Ok(wire) => wire.into_raw(),
        Err(denied) => return denied.response(),
    };
    let (Some(before), false) = (request.object.clone(), request.operation == AdmissionOperation::Delete)
    else {
        return json!({"allowed": true});
    };
    let keys = ListKeys::of_builtin(&request.kind);
    match defaulter(request, before.clone()).await {
        Ok(after) => admission::patched(patch::between(&before, &before, &after, &keys)),
        Err(denied) => denied.response(),
    }
}
