//! Conversion of custom resources by the conversion webhook of their CRD.
//!
//! An object is stored in the API version that was the storage version when it was written. For each other
//! version, the webhook converts each state of the object once, and the result is cached.
//!
//! The code for managed fields consists of pure functions, which look up conversions in [`Conversions`]. If a
//! conversion is missing, the webhook is called and the functions run again.
//!
//! # Lock order
//!
//! No other lock is taken while `Converter::cache` is held, and it is never held across an await.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use informer_core::ObjectKey;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::model::crd::{failed, read, review, shown, take};
use crate::model::error::ApiError;
use crate::model::json::parse;
use crate::model::kinds::KindDefinition;
use crate::registry::storage::{EventType, OrderedMap, Stored, draft};
use crate::registry::{Resource, Store};
use crate::webhook::{ClientConfig, Post, decode_response};

const USER_AGENT: &str = "kube-apiserver-admission";
/// Timeout of a call to a conversion webhook, as in kube-apiserver.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of objects in one ConversionReview. With objects of a few KB, its body has some MB.
const MAX_OBJECTS_PER_REVIEW: usize = 500;
/// Maximum number of conversions in each of the two cache generations of an API version.
const MAX_CACHED: usize = 32_768;

type Object = Map<String, Value>;

#[derive(Debug)]
pub(crate) struct Converter {
    client: ClientConfig,
    /// The API version of the ConversionReview; `None` if the webhook and this server have none in common.
    review_version: Option<&'static str>,
    cache: Mutex<ConversionCache>,
}

/// Converted objects by key and resourceVersion, in two generations. If the younger one is full, the older
/// one is dropped and replaced by it.
#[derive(Default)]
struct ConversionCache {
    young: HashMap<(ObjectKey, u64), Arc<Stored>>,
    old: HashMap<(ObjectKey, u64), Arc<Stored>>,
}

impl std::fmt::Debug for ConversionCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ConversionCache({})", self.young.len() + self.old.len())
    }
}

/// An object that the conversion webhook has converted to the storage version.
#[derive(Debug, Clone)]
pub(crate) struct Converted {
    /// The object as it was sent to the webhook.
    pub(crate) object: Object,
    /// The object in the storage version.
    pub(crate) stored: Object,
    /// The object of `stored`, converted back to the API version of the request.
    pub(crate) back: Result<Object, ApiError>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WebhookConversionSpec {
    #[serde(default)]
    client_config: ClientConfig,
    #[serde(default)]
    conversion_review_versions: Vec<String>,
}

impl Converter {
    /// Reads `spec.conversion` of a CRD. Returns `None` for the strategy `None`.
    pub(crate) fn new(conversion: &Value) -> Option<Self> {
        if conversion["strategy"] != "Webhook" {
            return None;
        }
        let spec: WebhookConversionSpec = serde_json::from_value(conversion["webhook"].clone()).ok()?;
        let known = |version: &String| match version.as_str() {
            "v1" => Some("v1"),
            "v1beta1" => Some("v1beta1"),
            _ => None,
        };
        Some(Self {
            client: spec.client_config,
            review_version: spec.conversion_review_versions.iter().find_map(known),
            cache: Mutex::default(),
        })
    }

    pub(crate) fn cached(
        &self,
        kind: &KindDefinition,
        stored: &Arc<Stored>,
        event: EventType,
    ) -> Option<Arc<Stored>> {
        let name = (stored.key.clone(), stored.version);
        let cache = self.cache.lock();
        let found = cache.young.get(&name).or_else(|| cache.old.get(&name)).cloned()?;
        drop(cache);
        if found.is_announced_as(event) {
            return Some(found);
        }
        let Value::Object(object) = parse(found.as_slice()) else { return Some(found) };
        Some(Arc::new(draft(kind, found.key.clone(), &object).seal_unstored(found.version, event)))
    }

    pub(crate) fn clear(&self) {
        *self.cache.lock() = ConversionCache::default();
    }

    pub(crate) fn keep(&self, kind: &KindDefinition, stored: &Stored, object: &Object) -> Arc<Stored> {
        let draft = draft(kind, stored.key.clone(), object);
        let shown = Arc::new(draft.seal_unstored(stored.version, EventType::Modified));
        let mut cache = self.cache.lock();
        if cache.young.len() >= MAX_CACHED {
            cache.old = std::mem::take(&mut cache.young);
        }
        cache.young.insert((stored.key.clone(), stored.version), Arc::clone(&shown));
        shown
    }
}

/// The known conversions for the managed fields of one write. Pure functions look up conversions here, and
/// the last missing one is recorded.
#[derive(Debug, Default)]
pub(crate) struct Conversions {
    known: RefCell<Vec<Conversion>>,
    missing: RefCell<Option<(Arc<Resource>, Object)>>,
}

#[derive(Debug)]
struct Conversion {
    api_version: String,
    object: Object,
    outcome: Result<Object, ApiError>,
}

impl Conversions {
    /// Returns an object in the API version of a resource. If the conversion is missing, it is recorded, and
    /// the result is an error that no client receives, because [`Store::converting`] discards it and runs the
    /// function again.
    pub(crate) fn get(&self, resource: &Arc<Resource>, object: &Object) -> Result<Object, ApiError> {
        let known = self.known.borrow();
        let is_it = |one: &&Conversion| one.api_version == resource.kind.api_version && one.object == *object;
        if let Some(conversion) = known.iter().find(is_it) {
            return conversion.outcome.clone();
        }
        *self.missing.borrow_mut() = Some((Arc::clone(resource), object.clone()));
        Err(ApiError::internal("the conversion webhook has not been called"))
    }

    fn take_missing(&self) -> Option<(Arc<Resource>, Object)> {
        self.missing.borrow_mut().take()
    }
}

impl Store {
    /// Runs a pure function repeatedly until all conversions that it needs are known. Before each further
    /// run, the webhook is called for one missing conversion. The number of runs is at most the number of API
    /// versions times the number of objects in the write.
    pub(crate) async fn converting<T>(&self, run: impl Fn(&Conversions) -> T) -> T {
        let mut known = Vec::new();
        loop {
            let conversions = Conversions { known: RefCell::new(known), missing: RefCell::default() };
            let outcome = run(&conversions);
            let Some((resource, object)) = conversions.take_missing() else { return outcome };
            drop(outcome);
            known = conversions.known.into_inner();
            let outcome = self.convert_whole(&resource, &object).await;
            let api_version = resource.kind.api_version.clone();
            known.push(Conversion { api_version, object, outcome });
        }
    }

    /// Returns objects in the API version of a resource, in the given order.
    pub(crate) async fn presented(
        &self,
        resource: &Resource,
        objects: &[Arc<Stored>],
        event: EventType,
    ) -> Result<Vec<Arc<Stored>>, ApiError> {
        let unknown: Vec<_> =
            objects.iter().filter(|stored| resource.present(stored, event).is_none()).collect();
        let mut converted = HashMap::new();
        for part in unknown.chunks(MAX_OBJECTS_PER_REVIEW) {
            for (stored, shown) in part.iter().zip(self.convert_and_cache(resource, part).await?) {
                converted.insert((stored.key.clone(), stored.version), shown);
            }
        }
        let shown = objects.iter().map(|stored| {
            let known = resource.present(stored, event);
            known.or_else(|| converted.get(&(stored.key.clone(), stored.version)).cloned())
        });
        shown.collect::<Option<_>>().ok_or_else(|| ApiError::internal("a conversion was forgotten at once"))
    }

    /// Returns an object in the API version of a resource. The conversion webhook is called even if the
    /// conversion is cached.
    pub(crate) async fn present_from_webhook(
        &self,
        resource: &Resource,
        stored: &Arc<Stored>,
    ) -> Result<Arc<Stored>, ApiError> {
        if let (Some(_), false) = (&resource.converter, resource.is_shown(stored)) {
            let mut converted = self.convert_and_cache(resource, &[stored]).await?;
            return Ok(converted.remove(0));
        }
        Ok(resource.present(stored, EventType::Modified).unwrap_or_else(|| Arc::clone(stored)))
    }

    /// Returns the objects whose keys have a prefix, in the API version of a resource. Without a conversion
    /// webhook, all objects are returned unconverted.
    pub(crate) async fn presentable(
        &self,
        resource: &Resource,
        map: &OrderedMap,
        prefix: &str,
    ) -> Result<OrderedMap, ApiError> {
        if resource.converter.is_none() {
            return Ok(map.clone());
        }
        let within = map.from(prefix).take_while(|stored| stored.key.as_str().starts_with(prefix));
        let within: Vec<_> = within.cloned().collect();
        let mut shown = OrderedMap::default();
        for stored in self.presented(resource, &within, EventType::Modified).await? {
            shown.insert(stored);
        }
        Ok(shown)
    }

    async fn convert_and_cache(
        &self,
        resource: &Resource,
        objects: &[&Arc<Stored>],
    ) -> Result<Vec<Arc<Stored>>, ApiError> {
        let Some(converter) = &resource.converter else { return Ok(Vec::new()) };
        let sent: Vec<Object> = objects.iter().filter_map(|stored| object(stored)).collect();
        let converted = self.convert(converter, &sent, &resource.kind).await?;
        let pairs = objects.iter().zip(converted);
        Ok(pairs.map(|(stored, object)| converter.keep(&resource.kind, stored, &object)).collect())
    }

    /// Converts an object to the storage version, and the result back to the API version of the request.
    pub(crate) async fn convert_to_store(
        &self,
        resource: &Resource,
        object: Object,
    ) -> Result<Converted, ApiError> {
        let (Some(converter), Some(stored_as)) = (&resource.converter, &resource.stored_as) else {
            return Ok(Converted { stored: object.clone(), back: Ok(object.clone()), object });
        };
        let mut sent = object.clone();
        sent.insert("apiVersion".into(), resource.kind.api_version.clone().into());
        sent.insert("kind".into(), resource.kind.kind.clone().into());
        let mut stored = self.convert(converter, &[sent], stored_as).await?.remove(0);
        if let Some(schema) = &stored_as.schema {
            schema.read(&mut stored);
        }
        let back = self.convert(converter, std::slice::from_ref(&stored), &resource.kind).await;
        Ok(Converted { object, stored, back: back.map(|mut all| all.remove(0)) })
    }

    /// Converts an object to the API version of a resource. Fields that are unknown in this version are kept.
    pub(crate) async fn convert_whole(
        &self,
        resource: &Resource,
        object: &Object,
    ) -> Result<Object, ApiError> {
        let Some(converter) = &resource.converter else { return Ok(object.clone()) };
        let mut all = self.call_webhook(converter, std::slice::from_ref(object), &resource.kind).await?;
        Ok(all.remove(0))
    }

    /// Calls the conversion webhook once, and prunes the results by the schema of the target version.
    async fn convert(
        &self,
        converter: &Converter,
        objects: &[Object],
        to: &KindDefinition,
    ) -> Result<Vec<Object>, ApiError> {
        let mut converted = self.call_webhook(converter, objects, to).await?;
        if let Some(schema) = &to.schema {
            converted.iter_mut().for_each(|object| schema.prune(object));
        }
        Ok(converted)
    }

    async fn call_webhook(
        &self,
        converter: &Converter,
        objects: &[Object],
        to: &KindDefinition,
    ) -> Result<Vec<Object>, ApiError> {
        let Some(first) = objects.first() else { return Ok(Vec::new()) };
        let refused = |object: &Object, what: &str| ApiError::new(500, "", failed(object, what));
        let Some(version) = converter.review_version else {
            return Err(ApiError::new(500, "", "no supported conversion review versions"));
        };
        let uid = uuid::Uuid::new_v4().to_string();
        let sent: Vec<Value> = objects.iter().map(shown).collect();
        let mut body = review(version, &uid, &to.api_version, &sent).to_string().into_bytes();
        body.push(b'\n');
        let post = Post { config: &converter.client, user_agent: USER_AGENT, timeout: TIMEOUT };
        let response = self.webhooks.post(&*self.clock, &post, body).await;
        let response = response.map_err(|error| refused(first, &format!("failed: {error}")))?;
        let review = decode_response(&response).map_err(|why| refused(first, &format!("failed: {why}")))?;
        let converted = read(&review, version, &uid, objects.len()).map_err(|why| refused(first, &why))?;
        let taken = objects.iter().zip(converted).map(|(original, converted)| {
            take(original, converted, &to.api_version).map_err(|why| refused(original, &why))
        });
        taken.collect()
    }
}

fn object(stored: &Stored) -> Option<Object> {
    match parse(stored.as_slice()) {
        Value::Object(object) => Some(object),
        _ => None,
    }
}
