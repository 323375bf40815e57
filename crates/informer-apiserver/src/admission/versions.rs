//! The objects of one write, converted to the versions that webhooks and policies match.
//!
//! The objects are converted when the first webhook needs a version. Changes made by a webhook are converted
//! back to the version of the request before the next conversion, and after the last webhook. Conversions are
//! kept to a minimum because each may call a conversion webhook.

use std::sync::Arc;

use super::Object;
use super::write::{Invocation, Pair};
use crate::admission::Admission;
use crate::model::error::ApiError;
use crate::model::kinds::convert_version;
use crate::registry::Resource;

pub(super) struct Versions<'a> {
    /// The new object in the version of the request. It is stale while `dirty` is true.
    object: Option<Object>,
    old: Option<&'a Object>,
    others: Vec<Other>,
    /// A webhook or policy has changed the object in another version, which is `others[0]` and the only
    /// element. `object` is stale until it is converted back.
    dirty: bool,
}

/// The new and the old object of the write, converted to another version.
struct Other {
    resource: Arc<Resource>,
    object: Option<Object>,
    old: Option<Object>,
}

impl<'a> Versions<'a> {
    pub(super) fn new(object: Option<Object>, old: Option<&'a Object>) -> Self {
        Self { object, old, others: Vec::new(), dirty: false }
    }

    /// Returns the new and old object in the version in which the new object was last changed.
    pub(super) fn current(&self) -> Pair<'_> {
        match self.others.first().filter(|_| self.dirty) {
            Some(other) => (other.object.as_ref(), self.old),
            None => (self.object.as_ref(), self.old),
        }
    }

    /// Returns the new object in the version of the request, for modification. Call
    /// [`convert_back`](Admission::convert_back) first, or the object may be stale.
    pub(super) fn object_mut(&mut self) -> Option<&mut Object> {
        self.others.clear();
        self.object.as_mut()
    }

    /// Returns the objects in the version that a webhook or policy receives. Call
    /// [`convert_for`](Admission::convert_for) first.
    pub(super) fn view(&self, invocation: &Invocation) -> Pair<'_> {
        match invocation.converted.as_ref().and_then(|resource| self.other(resource)) {
            Some(other) => (other.object.as_ref(), other.old.as_ref()),
            None => (self.object.as_ref(), self.old),
        }
    }

    /// Replaces the new object with the result of a webhook or policy, which has the version of `invocation`.
    pub(super) fn set_object(&mut self, invocation: &Invocation, object: Object) {
        let Some(resource) = &invocation.converted else {
            self.object = Some(object);
            return self.others.clear();
        };
        self.others.retain(|other| is_same_version(&other.resource, resource));
        if let Some(other) = self.others.first_mut() {
            other.object = Some(object);
            self.dirty = true;
        }
    }

    /// Returns the new object in the version of the request. Call [`convert_back`](Admission::convert_back)
    /// first, or the object may be stale.
    pub(super) fn into_object(self) -> Option<Object> {
        self.object
    }

    fn other(&self, resource: &Resource) -> Option<&Other> {
        self.others.iter().find(|other| is_same_version(&other.resource, resource))
    }
}

impl Admission {
    /// Converts the objects to the version that a webhook or policy receives, unless this was done before.
    pub(super) async fn convert_for(
        &self,
        versions: &mut Versions<'_>,
        requested: &Resource,
        invocation: &Invocation,
    ) -> Result<(), ApiError> {
        // kube-apiserver wraps the conversion error twice, so its message repeats the prefix of an internal
        // error.
        let internal = |error: ApiError| ApiError::internal(ApiError::internal(error.message()).message());
        if let Some(resource) = &invocation.converted
            && versions.other(resource).is_some()
        {
            return Ok(());
        }
        self.convert_back(versions, requested).await.map_err(internal)?;
        let Some(resource) = &invocation.converted else { return Ok(()) };
        let old = self.in_version(resource, versions.old).await.map_err(internal)?;
        let object = self.in_version(resource, versions.object.as_ref()).await.map_err(internal)?;
        versions.others.push(Other { resource: Arc::clone(resource), object, old });
        Ok(())
    }

    /// Converts the new object back to the version of the request if a webhook changed it in another version.
    pub(super) async fn convert_back(
        &self,
        versions: &mut Versions<'_>,
        requested: &Resource,
    ) -> Result<(), ApiError> {
        if versions.dirty {
            let changed = versions.others.first().and_then(|other| other.object.as_ref());
            versions.object = self.in_version(requested, changed).await?;
            versions.others.clear();
            versions.dirty = false;
        }
        Ok(())
    }

    /// Converts an object to the version of a resource. The complete result of a conversion webhook is used,
    /// including changed labels and annotations.
    async fn in_version(
        &self,
        resource: &Resource,
        object: Option<&Object>,
    ) -> Result<Option<Object>, ApiError> {
        let Some(object) = object else { return Ok(None) };
        let is_current =
            object.get("apiVersion").is_some_and(|version| *version == resource.kind.api_version);
        if !is_current && resource.converter.is_some() {
            return self.convert_whole(resource, object).await.map(Some);
        }
        let mut object = object.clone();
        convert_version(&resource.kind, &mut object);
        Ok(Some(object))
    }
}

fn is_same_version(one: &Resource, other: &Resource) -> bool {
    one.kind.gvr == other.kind.gvr
}
