//! Conversion reviews: converts custom resources of a kind between versions by way of a hub version.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use informer_core::Gvk;
use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{BoxError, StaticResource};

/// A conversion of an object, as JSON, in one direction: from a version to the hub version, or from the hub
/// version to a version.
type Convert = Arc<dyn Fn(Value) -> Result<Value, BoxError> + Send + Sync>;

struct SpokeConversion {
    to_hub: Convert,
    from_hub: Convert,
}

/// The conversions of one custom kind. Each version converts to and from the hub version, so every version
/// except the hub needs one pair of functions.
///
/// A round trip through the hub must be lossless: store fields that a version lacks in an annotation. Of the
/// metadata, only labels and annotations may change; otherwise the API server rejects the response.
///
/// Upstream: [`conversion`](https://pkg.go.dev/sigs.k8s.io/controller-runtime/pkg/conversion).
#[must_use = "pass it to a webhook server"]
pub struct Conversion {
    group: String,
    kind: String,
    hub: String,
    spokes: BTreeMap<String, SpokeConversion>,
}

impl Conversion {
    /// Creates the conversions of a custom kind with `H` as the hub version, to and from which all other
    /// versions convert.
    pub fn hub<H: StaticResource>() -> Self {
        Self {
            group: H::group(&()).into_owned(),
            kind: H::kind(&()).into_owned(),
            hub: H::version(&()).into_owned(),
            spokes: BTreeMap::new(),
        }
    }

    /// Adds another version `S` of the kind, with a function that converts it to the hub version and one that
    /// converts the hub version to it.
    ///
    /// # Panics
    ///
    /// Panics if `H` is not the hub version, or if `S` is of another kind.
    #[track_caller]
    pub fn spoke<S, H, E, T, F>(mut self, to_hub: T, from_hub: F) -> Self
    where
        S: StaticResource + Serialize + DeserializeOwned + 'static,
        H: StaticResource + Serialize + DeserializeOwned + 'static,
        E: Into<BoxError>,
        T: Fn(S) -> Result<H, E> + Send + Sync + 'static,
        F: Fn(H) -> Result<S, E> + Send + Sync + 'static,
    {
        assert_eq!(H::version(&()), self.hub, "the functions must convert to and from the hub");
        assert_eq!(
            (&*S::group(&()), &*S::kind(&())),
            (&*self.group, &*self.kind),
            "versions must be of one kind"
        );
        let spoke = SpokeConversion { to_hub: between(to_hub), from_hub: between(from_hub) };
        self.spokes.insert(S::version(&()).into_owned(), spoke);
        self
    }

    /// Returns the kind in its hub version.
    pub(super) fn kind(&self) -> Gvk {
        Gvk::new(&*self.group, &*self.hub, &*self.kind)
    }

    fn convert(&self, object: Value, desired: &str) -> Result<Value, BoxError> {
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let version = version.rsplit('/').next().unwrap_or_default().to_owned();
        if version == desired {
            return Ok(object);
        }
        let spoke = |version: &str| {
            let unknown = || format!("there is no conversion of {} to or from {version}", self.kind);
            self.spokes.get(version).ok_or_else(unknown)
        };
        let hub = if version == self.hub { object } else { (spoke(&version)?.to_hub)(object)? };
        if desired == self.hub { Ok(hub) } else { (spoke(desired)?.from_hub)(hub) }
    }
}

impl fmt::Debug for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversion")
            .field("group", &self.group)
            .field("kind", &self.kind)
            .field("hub", &self.hub)
            .field("spokes", &self.spokes.keys())
            .finish()
    }
}

fn between<A, B, E, F>(function: F) -> Convert
where
    A: DeserializeOwned,
    B: Resource<DynamicType = ()> + Serialize,
    E: Into<BoxError>,
    F: Fn(A) -> Result<B, E> + Send + Sync + 'static,
{
    Arc::new(move |object| {
        let read: Result<A, _> = serde_path_to_error::deserialize(&object);
        let read = read.map_err(|error| format!("the field {} does not match its version", error.path()))?;
        let mut written = serde_json::to_value(function(read).map_err(Into::into)?)?;
        written["apiVersion"] = json!(B::api_version(&()));
        written["kind"] = json!(B::kind(&()));
        Ok(written)
    })
}

pub(super) fn convert(review: &Value, conversions: &[Conversion]) -> Value {
    match converted(review, conversions) {
        Ok(objects) => json!({"convertedObjects": objects, "result": {"status": "Success"}}),
        Err(problem) => json!({"convertedObjects": [], "result": {"status": "Failure", "message": problem}}),
    }
}

fn converted(review: &Value, conversions: &[Conversion]) -> Result<Vec<Value>, String> {
    if review["kind"] != "ConversionReview" {
        return Err("this webhook handles ConversionReview".to_owned());
    }
    let desired =
        review["request"]["desiredAPIVersion"].as_str().ok_or("the request has no desiredAPIVersion")?;
    let (group, version) = desired.rsplit_once('/').ok_or("the desired version has no group")?;
    let objects = review["request"]["objects"].as_array().ok_or("the request has no objects")?;
    let convert = |object: &Value| {
        let kind = object["kind"].as_str().unwrap_or_default();
        let ours =
            conversions.iter().find(|conversion| (&*conversion.group, &*conversion.kind) == (group, kind));
        let ours = ours.ok_or_else(|| format!("there is no conversion of {kind} in {group}"))?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        ours.convert(object.clone(), version)
            .map_err(|error| format!("convert {kind} {name} to {version}: {error}"))
    };
    objects.iter().map(convert).collect()
}
