//! List requests: select the resourceVersion and the page, and encode the items.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use informer_schema::{ENVELOPE_TAIL, Envelope, envelope_head};
use serde::{Deserialize, Serialize};

use crate::faults::PagePlan;
use crate::http::table::TableForm;
use crate::http::{Batch, Frontend, ListOptions};
use crate::model::error::ApiError;
use crate::model::kinds::KindDefinition;
use crate::model::metadata::parse_version;
use crate::registry::Resource;
use crate::registry::select::Filter;
use crate::registry::storage::{EventType, ObjectForm, OrderedMap, Stored, Wiring};

/// Size of the chunks of a list body in bytes: large enough for few system calls, small compared with the
/// socket buffers.
pub(crate) const CHUNK_BYTES: usize = 128 << 10;

/// Number of objects that a thread encodes as protobuf before the task yields, which takes a few
/// milliseconds.
const ITEMS_BEFORE_YIELD: usize = 128;

/// Maximum number of threads that encode the objects of one list. More threads would starve other requests.
const MAX_ENCODER_THREADS: usize = 8;

#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) version: u64,
    pub(crate) items: Vec<Arc<Stored>>,
    continue_token: Option<String>,
    remaining: Option<usize>,
}

/// The JSON content of a continue token, in the format of kube-apiserver.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct ContinueToken {
    v: String,
    rv: i64,
    start: String,
}

enum ListVersion {
    Newest,
    AtLeast(u64),
    Exactly(u64),
}

/// The range of one list page: items from the key `start` on, at most `limit` (0 means all).
#[derive(Clone, Copy)]
struct PageRange<'a> {
    start: &'a str,
    limit: usize,
}

/// Runs a list request, after the storage has reached the requested resourceVersion.
pub(crate) async fn list(
    shared: &Frontend,
    resource: &Resource,
    filter: &Filter,
    options: &ListOptions,
    rewind: u64,
) -> Result<Page, ApiError> {
    options.check_list()?;
    let requested = parse_version(&options.version)
        .map_err(|text| ApiError::bad_request(format!("invalid resource version: {text}")))?;
    // As in kube-apiserver's watch cache, a list with resourceVersion 0 ignores the limit.
    let limit = if requested == Some(0) && resource.kind.is_cached() {
        0
    } else {
        usize::try_from(options.limit).unwrap_or(usize::MAX)
    };
    if !options.continue_token.is_empty() {
        decode_token(&options.continue_token)?;
        if requested.is_some_and(|version| version > 0) {
            let why = "specifying resource version is not allowed when using continue";
            return Err(ApiError::bad_request(why));
        }
        return next_page(shared, resource, filter, &options.continue_token, limit).await;
    }
    let target = match (requested, options.matching.as_str()) {
        (Some(version), "Exact") => ListVersion::Exactly(version),
        (Some(version), "") if version > 0 && limit > 0 => ListVersion::Exactly(version),
        (Some(version), _) => ListVersion::AtLeast(version),
        (None, _) => ListVersion::Newest,
    };
    let (version, map) = state(shared, resource, target, rewind).await?.ok_or_else(ApiError::list_too_old)?;
    page(shared, resource, filter, (version, map), PageRange { start: "", limit }).await
}

/// Returns the objects at the requested resourceVersion, or `None` if that is older than the stored history.
async fn state(
    shared: &Frontend,
    resource: &Resource,
    target: ListVersion,
    rewind: u64,
) -> Result<Option<(u64, OrderedMap)>, ApiError> {
    if let ListVersion::AtLeast(version) | ListVersion::Exactly(version) = target {
        if resource.kind.is_cached() {
            shared.reach(version).await?
        } else {
            // A future resourceVersion of a resource without a watch cache is an error at once, because
            // kube-apiserver then reads from etcd, which does not wait.
            shared.has_reached(version)?
        }
    }
    let storage = shared.storage.read();
    let version = match target {
        ListVersion::Exactly(version) => version,
        _ if rewind > 0 => storage.version().saturating_sub(rewind).max(storage.floor(resource.table)),
        _ => return Ok(Some((storage.version(), storage.live(resource.table)))),
    };
    Ok(storage.at(resource.table, version).ok().map(|map| (version, map)))
}

async fn next_page(
    shared: &Frontend,
    resource: &Resource,
    filter: &Filter,
    token: &str,
    limit: usize,
) -> Result<Page, ApiError> {
    let (version, start) = decode_token(token)?;
    let target = version.map_or(ListVersion::Newest, ListVersion::Exactly);
    match state(shared, resource, target, 0).await? {
        Some(state) => page(shared, resource, filter, state, PageRange { start: &start, limit }).await,
        None => Err(ApiError::continue_too_old(encode_token(-1, start))),
    }
}

async fn page(
    shared: &Frontend,
    resource: &Resource,
    filter: &Filter,
    (version, map): (u64, OrderedMap),
    PageRange { start, limit }: PageRange<'_>,
) -> Result<Page, ApiError> {
    let prefix = filter.prefix();
    let shown = shared.presentable(resource, &map, &prefix).await?;
    let first = format!("{prefix}{start}");
    let mut found = shown
        .from(&first)
        .take_while(|stored| stored.key.as_str().starts_with(&prefix))
        .filter_map(|stored| filter.pick(resource, stored, EventType::Modified));
    if limit == 0 {
        let items = found.collect();
        return Ok(Page { version, items, continue_token: None, remaining: None });
    }
    let items: Vec<_> = found.by_ref().take(limit).collect();
    let more = found.next().is_some();
    let last = items.last().filter(|_| more).map(|stored| stored.key.as_str());
    let continue_token = last.map(|last| {
        // The key in a continue token begins with a slash if kube-apiserver lists the resource from its watch
        // cache, and without one if it lists it from etcd.
        let slash = if resource.kind.is_cached() { "/" } else { "" };
        encode_token(token_version(version), format!("{slash}{}\0", &last[prefix.len()..]))
    });
    let remaining = last.filter(|_| !filter.selects()).map(|last| map.count_between(last, &prefix));
    drop(found);
    if continue_token.is_some() {
        shared.storage.write().keep_page(resource.table, version, map);
    }
    Ok(Page { version, items, continue_token, remaining })
}

/// Lists all current items that match the filter, in one page.
pub(crate) async fn list_all(
    shared: &Frontend,
    resource: &Resource,
    filter: &Filter,
) -> Result<Page, ApiError> {
    let state = {
        let storage = shared.storage.read();
        (storage.version(), storage.live(resource.table))
    };
    page(shared, resource, filter, state, PageRange { start: "", limit: 0 }).await
}

/// Returns the error for a continue token whose resourceVersion has expired, or `Err` if the token is
/// invalid.
pub(crate) fn expired_token(token: &str) -> Result<ApiError, ApiError> {
    let (_, start) = decode_token(token)?;
    Ok(ApiError::continue_too_old(encode_token(-1, start)))
}

fn token_version(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(i64::MAX)
}

fn encode_token(rv: i64, start: String) -> String {
    let token = ContinueToken { v: "meta.k8s.io/v1".to_owned(), rv, start };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).expect("a continue token can be serialized"))
}

/// Parses a continue token into the resourceVersion (`None` for the current one) and the first key, without
/// the prefix of the resource.
fn decode_token(text: &str) -> Result<(Option<u64>, String), ApiError> {
    let error = |why: String| {
        ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
    };
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|cause| match cause {
        base64::DecodeError::InvalidByte(at, _)
        | base64::DecodeError::InvalidLastSymbol { offset: at, .. } => {
            error(format!("illegal base64 data at input byte {at}"))
        }
        // For a truncated continue token, Go's error names the position of the last byte.
        _ => error(format!("illegal base64 data at input byte {}", text.len().saturating_sub(1))),
    })?;
    let token = match crate::model::json::read_json(&bytes).map_err(error)? {
        // As in Go, `null` decodes to a token with default values.
        serde_json::Value::Null => ContinueToken::default(),
        value @ serde_json::Value::Object(_) => {
            serde_json::from_value(value).map_err(|cause| error(cause.to_string()))?
        }
        other => {
            let found = crate::model::json::json_type(&other);
            return Err(error(format!(
                "json: cannot unmarshal {found} into Go value of type storage.continueToken"
            )));
        }
    };
    if token.v != "meta.k8s.io/v1" {
        return Err(error(format!("server does not recognize this encoded version {}", token.v)));
    }
    let version = match token.rv {
        0 => return Err(error("incorrect encoded start resourceVersion (version meta.k8s.io/v1)".into())),
        rv => u64::try_from(rv).ok(),
    };
    if token.start.is_empty() {
        return Err(error("encoded start key empty (version meta.k8s.io/v1)".into()));
    }
    let start = token.start.strip_prefix('/').unwrap_or(&token.start);
    if start.split('/').any(|segment| segment == "..") {
        return Err(error(token.start));
    }
    Ok((version, start.to_owned()))
}

fn batches(
    head: Vec<u8>,
    items: Vec<Arc<Stored>>,
    tail: Vec<u8>,
    mut put: impl FnMut(&mut Batch, Arc<Stored>) + Send,
) -> impl Iterator<Item = Batch> + Send {
    let mut items = items.into_iter();
    let mut pending = Some((head, tail));
    std::iter::from_fn(move || {
        let (head, tail) = pending.take()?;
        let mut batch = Batch::default();
        batch.put(head);
        while batch.len() < CHUNK_BYTES {
            let Some(item) = items.next() else {
                batch.put(tail);
                return Some(batch);
            };
            put(&mut batch, item);
        }
        pending = Some((Vec::new(), tail));
        Some(batch)
    })
}

impl PagePlan {
    pub(crate) fn apply_to(&self, options: &mut ListOptions) {
        options.limit = match (self.items, options.limit) {
            _ if self.ignore_limit => 0,
            (Some(items), limit) if limit > 0 && items > 0 => limit.min(items),
            (_, limit) => limit,
        };
    }
}

impl Page {
    pub(crate) fn with_faults(mut self, plan: &PagePlan, options: &ListOptions) -> Self {
        if plan.items == Some(0) && options.limit > 0 {
            self.items.clear();
            // A fault has emptied this page, so the next page starts at the same key.
            self.continue_token = Some(match options.continue_token.as_str() {
                "" => encode_token(token_version(self.version), "/".to_owned()),
                same => same.to_owned(),
            });
        }
        if let Some(remaining) = plan.remaining {
            self.remaining = remaining.and_then(|count| usize::try_from(count).ok());
        }
        self
    }

    pub(crate) fn into_batches(
        self,
        kind: &KindDefinition,
        form: ObjectForm,
    ) -> impl Iterator<Item = Batch> + Send + use<> {
        let (head, tail) = self.frame(kind, form);
        let form = if form == ObjectForm::Object && !kind.is_custom() { ObjectForm::Bare } else { form };
        let mut first = true;
        batches(head, self.items, tail, move |batch, item| {
            if !std::mem::take(&mut first) {
                batch.put_fixed(b",");
            }
            batch.put_object(item, form);
        })
    }

    /// Returns the protobuf body of the list in batches, or the page itself if an item has no protobuf
    /// encoding.
    ///
    /// The body begins with its length. Therefore all items are encoded first, unless their encoding is
    /// cached.
    pub(crate) async fn into_wire_batches(
        self,
        kind: &KindDefinition,
        wiring: Wiring<'_>,
    ) -> Result<impl Iterator<Item = Batch> + Send + use<>, Self> {
        match self.wire_head(kind, wiring).await {
            None => Err(self),
            Some(head) => Ok(batches(head, self.items, ENVELOPE_TAIL.to_vec(), Batch::put_item)),
        }
    }

    /// Encodes all items and returns the bytes before the first item. Returns `None` if an item has no
    /// protobuf encoding.
    async fn wire_head(&self, kind: &KindDefinition, wiring: Wiring<'_>) -> Option<Vec<u8>> {
        let (mut json, tail) = self.frame(kind, ObjectForm::Object);
        json.extend_from_slice(&tail);
        let empty = wiring.schema.to_protobuf(&json).ok()?;
        let envelope = Envelope::parse(&empty).ok()?;
        self.encode_items(wiring).await;
        let mut length = envelope.raw.len();
        for item in &self.items {
            length += item.wire(wiring)?.item().len();
        }
        let mut head = envelope_head(envelope.api_version, envelope.kind, length);
        head.extend_from_slice(envelope.raw);
        Some(head)
    }

    /// Encodes the list items whose protobuf encoding is not cached, with several threads if there are many.
    ///
    /// All threads have ended before this task yields. Otherwise a runtime with paused time would see an idle
    /// task and fire its timers.
    async fn encode_items(&self, wiring: Wiring<'_>) {
        let unencoded: Vec<&Stored> =
            self.items.iter().map(|item| &**item).filter(|item| item.wired().is_none()).collect();
        let threads = if unencoded.len() > ITEMS_BEFORE_YIELD {
            std::thread::available_parallelism().map_or(1, usize::from).min(MAX_ENCODER_THREADS)
        } else {
            1
        };
        let write = |part: &[&Stored]| {
            for item in part {
                item.wire(wiring);
            }
        };
        for chunk in unencoded.chunks(ITEMS_BEFORE_YIELD * threads) {
            std::thread::scope(|scope| {
                let mut parts = chunk.chunks(chunk.len().div_ceil(threads));
                let first_part = parts.next().unwrap_or_default();
                for part in parts {
                    // If no thread can be started for some items, they are encoded on first use.
                    let started = std::thread::Builder::new().spawn_scoped(scope, move || write(part));
                    if let Err(error) = started {
                        tracing::debug!(%error, "cannot start a thread; fewer threads encode the list");
                    }
                }
                write(first_part);
            });
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn table(
        &self,
        kind: &KindDefinition,
        form: TableForm,
        now: jiff::Timestamp,
    ) -> serde_json::Value {
        let mut metadata = serde_json::json!({"resourceVersion": self.version.to_string()});
        if let Some(token) = &self.continue_token {
            metadata["continue"] = token.clone().into();
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        form.of(kind, metadata, self.items.iter().map(|stored| &**stored), now)
    }

    /// Returns the bytes of the list before and after its items.
    fn frame(&self, kind: &KindDefinition, form: ObjectForm) -> (Vec<u8>, Vec<u8>) {
        let token = serde_json::Value::from(self.continue_token.as_deref().unwrap_or_default());
        let remaining =
            self.remaining.map_or(String::new(), |count| format!(",\"remainingItemCount\":{count}"));
        let version = self.version;
        if form == ObjectForm::Object && kind.is_custom() {
            let head = format!(r#"{{"apiVersion":"{}","items":["#, kind.api_version);
            let tail = format!(
                r#"],"kind":"{}","metadata":{{"continue":{token}{remaining},"resourceVersion":"{version}"}}}}"#,
                kind.list_kind
            );
            return (head.into(), (tail + "\n").into());
        }
        let (list_kind, api_version) = match form {
            ObjectForm::Metadata => ("PartialObjectMetadataList", "meta.k8s.io/v1"),
            _ => (kind.list_kind.as_str(), kind.api_version.as_str()),
        };
        let token =
            if self.continue_token.is_some() { format!(",\"continue\":{token}") } else { String::new() };
        let empty = form == ObjectForm::Metadata && self.items.is_empty();
        let (open, close) = if empty { ("null", "") } else { ("[", "]") };
        let head = format!(
            r#"{{"kind":"{list_kind}","apiVersion":"{api_version}","metadata":{{"resourceVersion":"{version}"{token}{remaining}}},"items":{open}"#
        );
        (head.into(), format!("{close}}}\n").into())
    }
}
