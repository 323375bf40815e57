use std::fmt;

use informer_cache::source::VersionMatch;
use informer_core::ResourceVersion;
use serde_json::Value;

use super::operation::{Operation, OperationVerb};
use super::pager::{ObjectStream, is_expired, too_many_pages};
use super::write::fetched;
use super::{CachedClient, Fetched, WriteError};
use crate::{KubeObject, ListOptions, ResourceKind};

/// Options of a live read of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GetOptions {
    version: Option<ResourceVersion>,
}

impl GetOptions {
    /// Accepts a state that the server has in its cache, if it is not older than this resourceVersion;
    /// [`ResourceVersion::any`] accepts any state. By default the server returns the newest state.
    pub fn not_older_than(mut self, version: impl Into<ResourceVersion>) -> Self {
        self.version = Some(version.into()).filter(|version| !version.is_empty());
        self
    }
}

impl Operation {
    pub(super) fn reading(self, options: &GetOptions) -> Self {
        match &options.version {
            Some(version) => self.asking("resourceVersion", version.to_string()),
            None => self,
        }
    }
}

/// Reads the current state from the API server instead of the cache. Each read costs a request.
#[derive(Clone)]
pub struct LiveReader {
    client: CachedClient,
}

/// One page of a list that was read from the API server.
#[derive(Debug)]
#[non_exhaustive]
pub struct Page<T> {
    /// The selected objects on this page.
    pub items: Vec<T>,
    /// The resourceVersion of the list to which this page belongs.
    pub resource_version: String,
    /// The continue token of the next page; `None` on the last page.
    pub continue_token: Option<String>,
}

impl CachedClient {
    /// Returns a reader that bypasses the cache and reads from the API server.
    pub fn live(&self) -> LiveReader {
        LiveReader { client: self.clone() }
    }
}

impl LiveReader {
    /// Returns one object from the API server; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns the error of the API server.
    pub async fn get<K: KubeObject>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
    ) -> Result<Option<Fetched<K>>, WriteError> {
        self.get_with(key, &GetOptions::default()).await
    }

    /// Returns one object from the API server, with options; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns the error of the API server.
    pub async fn get_with<K: KubeObject>(
        &self,
        key: &(impl AsRef<str> + ?Sized),
        options: &GetOptions,
    ) -> Result<Option<Fetched<K>>, WriteError> {
        let kind = ResourceKind::of::<K>();
        let operation = Operation::on(OperationVerb::Get, &kind, key.as_ref()).reading(options);
        let attempt = operation.to_string();
        match self.client.get_value(operation).await? {
            Some(value) => fetched(&attempt, value).map(Some),
            None => Ok(None),
        }
    }

    /// Returns all selected objects from the API server. They are requested page by page unless there is a
    /// limit. If the continue token of a page has expired (410), the list is requested again, in one
    /// piece and with the newest state, unless the options require an [exact version](ListOptions::exactly).
    ///
    /// # Errors
    ///
    /// Returns the error of the API server.
    pub async fn list<K: KubeObject>(&self, options: &ListOptions) -> Result<Vec<Fetched<K>>, WriteError> {
        let values = self.client.list_values(&ResourceKind::of::<K>(), options).await?;
        let attempt = format!("list {}", K::plural(&()));
        values.into_iter().map(|value| fetched(&attempt, value)).collect()
    }

    /// Returns one page of the selected objects, with at most `limit` objects, starting at the token of the
    /// previous page.
    ///
    /// # Errors
    ///
    /// Returns the error of the API server, which rejects an expired token with 410.
    pub async fn page<K: KubeObject>(
        &self,
        options: &ListOptions,
        continue_token: Option<&str>,
    ) -> Result<Page<Fetched<K>>, WriteError> {
        let page = self.client.page_values(&ResourceKind::of::<K>(), options, continue_token, false).await?;
        let attempt = format!("list {}", K::plural(&()));
        page.try_map(|value| fetched(&attempt, value))
    }

    /// Returns the selected objects as a stream that requests one page after the other while it is read, so
    /// that one page is in memory. The limit of the options is the size of a page; 500 by default.
    ///
    /// All objects have the state of one version, unless the continue token of a page expires (410) because
    /// the stream is read slowly. The stream then continues after the last returned object, with the newest
    /// state. Each object is returned at most once, in the order of namespace and name. An object that is
    /// created meanwhile before that position is not returned. With an [exact
    /// version](ListOptions::exactly) the stream ends with the error instead.
    ///
    /// After an error the stream ends.
    ///
    /// ```no_run
    /// # async fn example(client: informer_runtime::CachedClient) -> Result<(), informer_runtime::WriteError> {
    /// use futures_util::TryStreamExt;
    /// use informer_runtime::ListOptions;
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let mut pods = client.live().stream::<Pod>(&ListOptions::default().limit(100));
    /// while let Some(pod) = pods.try_next().await? {
    ///     println!("{:?}", pod.metadata.name);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// Upstream: [`pager.ListPager`](https://pkg.go.dev/k8s.io/client-go/tools/pager#ListPager).
    pub fn stream<K: KubeObject>(&self, options: &ListOptions) -> ObjectStream<Fetched<K>> {
        let attempt = format!("list {}", K::plural(&()));
        let values = self.client.stream_values(&ResourceKind::of::<K>(), options, false);
        ObjectStream::new(values, move |value| fetched(&attempt, value))
    }

    pub(super) fn client(&self) -> &CachedClient {
        &self.client
    }
}

impl<T> Page<T> {
    /// Converts the objects of the page.
    pub(super) fn try_map<U, E>(self, convert: impl Fn(T) -> Result<U, E>) -> Result<Page<U>, E> {
        let items = self.items.into_iter().map(convert).collect::<Result<_, _>>()?;
        let Self { resource_version, continue_token, .. } = self;
        Ok(Page { items, resource_version, continue_token })
    }
}

/// The page size with which a whole list is requested, in objects. Other Kubernetes clients use the same page
/// size.
pub(super) const PAGE_SIZE: usize = 500;

/// The maximum number of pages of one list. A list with more pages is considered endless and fails, so that a
/// faulty server cannot make a read run forever.
pub(super) const MAX_PAGES: usize = 20_000;

impl CachedClient {
    pub(super) async fn get_value(&self, operation: Operation) -> Result<Option<Value>, WriteError> {
        match self.execute(operation).await {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn list_values(
        &self,
        kind: &ResourceKind,
        options: &ListOptions,
    ) -> Result<Vec<Value>, WriteError> {
        self.list_values_as(kind, options, false).await
    }

    pub(super) async fn list_values_as(
        &self,
        kind: &ResourceKind,
        options: &ListOptions,
        metadata_only: bool,
    ) -> Result<Vec<Value>, WriteError> {
        if options.limit.is_some() {
            let mut page = self.page_values(kind, options, None, metadata_only).await?;
            page.items.truncate(options.limit.unwrap_or_default());
            return Ok(page.items);
        }
        let paged = options.clone().limit(PAGE_SIZE);
        let (mut all, mut token) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let page = match self.page_values(kind, &paged, token.as_deref(), metadata_only).await {
                Err(error) if token.is_some() && is_expired(&error) && !options.is_exact() => {
                    // The pages of one list must have one version. Without a limit there is no token.
                    let newest = options.clone().newest();
                    return Ok(self.page_values(kind, &newest, None, metadata_only).await?.items);
                }
                page => page?,
            };
            all.extend(page.items);
            token = page.continue_token;
            if token.is_none() {
                return Ok(all);
            }
        }
        Err(too_many_pages(kind))
    }

    pub(super) async fn page_values(
        &self,
        kind: &ResourceKind,
        options: &ListOptions,
        continue_token: Option<&str>,
        metadata_only: bool,
    ) -> Result<Page<Value>, WriteError> {
        let mut operation = Operation::of(OperationVerb::List, kind).selecting(options);
        operation.metadata_only = metadata_only;
        if let Some(timeout) = options.timeout {
            // The server accepts whole seconds, and 0 means its default.
            operation = operation.asking("timeoutSeconds", timeout.as_secs().max(1).to_string());
        }
        if let Some(limit) = options.limit {
            operation = operation.asking("limit", limit.to_string());
        }
        if let Some(token) = continue_token {
            operation = operation.asking("continue", token);
        } else if let Some((version, version_match)) = &options.version {
            // A continue token contains the version; servers reject a request with both.
            operation = operation.asking("resourceVersion", version.to_string());
            operation = match version_match {
                VersionMatch::Unset => operation,
                VersionMatch::NotOlderThan => operation.asking("resourceVersionMatch", "NotOlderThan"),
                VersionMatch::Exact => operation.asking("resourceVersionMatch", "Exact"),
            };
        }
        let mut list = self.execute(operation).await?;
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let page = Page {
            resource_version: text(&list["metadata"]["resourceVersion"]).unwrap_or_default(),
            continue_token: text(&list["metadata"]["continue"]),
            items: match list["items"].take() {
                Value::Array(items) => items
                    .into_iter()
                    .map(|item| if metadata_only { item } else { with_type(item, kind) })
                    .collect(),
                _ => Vec::new(),
            },
        };
        Ok(page)
    }
}

/// Adds `apiVersion` and `kind` to an item of a list, since the server sends items of built-in kinds without
/// them.
fn with_type(mut item: Value, kind: &ResourceKind) -> Value {
    if let Some(members) = item.as_object_mut() {
        members.entry("apiVersion").or_insert_with(|| kind.gvk().api_version().into());
        members.entry("kind").or_insert_with(|| kind.gvk().kind.clone().into());
    }
    item
}

impl fmt::Debug for LiveReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LiveReader").field(&self.client).finish()
    }
}
