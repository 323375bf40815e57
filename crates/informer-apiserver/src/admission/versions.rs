//! The objects of one write in the versions that webhooks want to see.
//!
//! A version is converted to when the first webhook wants it. What a webhook changes there is carried over to the version of the
//! request before another one is converted to, and at the end: as upstream, since a conversion may cost a question to somebody else.

use std::sync::Arc;

use super::Object;
use super::matching::Seen;
use crate::admission::Admission;
use crate::model::error::ApiError;
use crate::model::kinds::reform;
use crate::registry::Resource;

/// An object and the one before it, where there are such.
pub(super) type Pair<'a> = (Option<&'a Object>, Option<&'a Object>);

/// The objects of one write.
pub(super) struct Versions<'a> {
    /// In the version of the request.
    object: Option<Object>,
    old: Option<&'a Object>,
    others: Vec<Other>,
    /// A webhook has changed the object in the other version, which is the only one then.
    ahead: bool,
}

/// The objects in another version.
struct Other {
    resource: Arc<Resource>,
    object: Option<Object>,
    old: Option<Object>,
}

impl<'a> Versions<'a> {
    pub(super) fn new(object: Option<Object>, old: Option<&'a Object>) -> Self {
        Self { object, old, others: Vec::new(), ahead: false }
    }

    /// The objects as they are now, in whichever version.
    pub(super) fn now(&self) -> Pair<'_> {
        match self.others.first().filter(|_| self.ahead) {
            Some(other) => (other.object.as_ref(), self.old),
            None => (self.object.as_ref(), self.old),
        }
    }

    /// The object in the version of the request, to be changed, after [`turn_back`](Admission::turn_back).
    pub(super) fn object_mut(&mut self) -> Option<&mut Object> {
        self.others.clear();
        self.object.as_mut()
    }

    /// The objects as a webhook sees them, once they [are there](Admission::turn_to).
    pub(super) fn seen(&self, seen: &Seen) -> Pair<'_> {
        match seen.converted.as_ref().and_then(|resource| self.other(resource)) {
            Some(other) => (other.object.as_ref(), other.old.as_ref()),
            None => (self.object.as_ref(), self.old),
        }
    }

    /// What a webhook has made of the object that it was shown.
    pub(super) fn change(&mut self, seen: &Seen, object: Object) {
        let Some(resource) = &seen.converted else {
            self.object = Some(object);
            return self.others.clear();
        };
        self.others.retain(|other| is_one(&other.resource, resource));
        if let Some(other) = self.others.first_mut() {
            other.object = Some(object);
            self.ahead = true;
        }
    }

    /// The object in the version of the request, after [`turn_back`](Admission::turn_back).
    pub(super) fn into_object(self) -> Option<Object> {
        self.object
    }

    fn other(&self, resource: &Resource) -> Option<&Other> {
        self.others.iter().find(|other| is_one(&other.resource, resource))
    }
}

impl Admission {
    /// Makes the objects those that a webhook is to see.
    pub(super) async fn turn_to(
        &self,
        versions: &mut Versions<'_>,
        own: &Resource,
        seen: &Seen,
    ) -> Result<(), ApiError> {
        // Upstream says it twice.
        let internal = |error: ApiError| ApiError::internal(ApiError::internal(error.message()).message());
        if let Some(resource) = &seen.converted
            && versions.other(resource).is_some()
        {
            return Ok(());
        }
        self.turn_back(versions, own).await.map_err(internal)?;
        let Some(resource) = &seen.converted else { return Ok(()) };
        let old = self.in_version(resource, versions.old).await.map_err(internal)?;
        let object = self.in_version(resource, versions.object.as_ref()).await.map_err(internal)?;
        versions.others.push(Other { resource: Arc::clone(resource), object, old });
        Ok(())
    }

    /// Carries over to the version of the request what webhooks have changed in another one.
    pub(super) async fn turn_back(
        &self,
        versions: &mut Versions<'_>,
        own: &Resource,
    ) -> Result<(), ApiError> {
        if versions.ahead {
            let changed = versions.others.first().and_then(|other| other.object.as_ref());
            versions.object = self.in_version(own, changed).await?;
            versions.others.clear();
            versions.ahead = false;
        }
        Ok(())
    }

    /// An object in the version of a resource, with all that the conversion makes of it.
    async fn in_version(
        &self,
        resource: &Resource,
        object: Option<&Object>,
    ) -> Result<Option<Object>, ApiError> {
        let Some(object) = object else { return Ok(None) };
        let is_there = object.get("apiVersion").is_some_and(|version| *version == resource.kind.api_version);
        if !is_there && resource.converter.is_some() {
            return self.convert_whole(resource, object).await.map(Some);
        }
        let mut object = object.clone();
        reform(&resource.kind, &mut object);
        Ok(Some(object))
    }
}

fn is_one(one: &Resource, other: &Resource) -> bool {
    one.kind.gvr == other.kind.gvr
}
