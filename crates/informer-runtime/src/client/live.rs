use std::fmt;

use serde_json::Value;

use super::operation::{Operation, OperationVerb};
use super::write::fetched;
use super::{CachedClient, Fetched, WriteError};
use crate::{KubeObject, ListOptions, ResourceKind};

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
        let operation = Operation::on(OperationVerb::Get, &ResourceKind::of::<K>(), key.as_ref());
        let attempt = operation.to_string();
        match self.client.get_value(operation).await? {
            Some(value) => fetched(&attempt, value).map(Some),
            None => Ok(None),
        }
    }

    /// Returns all selected objects from the API server. They are requested page by page unless there is a
    /// limit.
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
        let page = self.client.page_values(&ResourceKind::of::<K>(), options, continue_token).await?;
        let attempt = format!("list {}", K::plural(&()));
        let items = page.items.into_iter().map(|value| fetched(&attempt, value));
        Ok(Page {
            items: items.collect::<Result<_, _>>()?,
            resource_version: page.resource_version,
            continue_token: page.continue_token,
        })
    }
}

/// The page size with which a whole list is requested, in objects. Other Kubernetes clients use the same page
/// size.
const PAGE_SIZE: usize = 500;

/// The maximum number of pages of one list. A list with more pages is considered endless and fails, so that a
/// faulty server cannot make a read run forever.
const MAX_PAGES: usize = 20_000;

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
        if options.limit.is_some() {
            let mut page = self.page_values(kind, options, None).await?;
            page.items.truncate(options.limit.unwrap_or_default());
            return Ok(page.items);
        }
        let paged = options.clone().limit(PAGE_SIZE);
        let (mut all, mut token) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let page = self.page_values(kind, &paged, token.as_deref()).await?;
            all.extend(page.items);
            token = page.continue_token;
            if token.is_none() {
                return Ok(all);
            }
        }
        Err(WriteError::Response {
            attempt: format!("list {}", kind.resource()),
            expected: format!("list of at most {MAX_PAGES} pages"),
            cause: None,
        })
    }

    pub(super) async fn page_values(
        &self,
        kind: &ResourceKind,
        options: &ListOptions,
        continue_token: Option<&str>,
    ) -> Result<Page<Value>, WriteError> {
        let mut operation = Operation::of(OperationVerb::List, kind).selecting(options);
        if let Some(limit) = options.limit {
            operation = operation.asking("limit", limit.to_string());
        }
        if let Some(token) = continue_token {
            operation = operation.asking("continue", token);
        }
        let mut list = self.execute(operation).await?;
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let page = Page {
            resource_version: text(&list["metadata"]["resourceVersion"]).unwrap_or_default(),
            continue_token: text(&list["metadata"]["continue"]),
            items: match list["items"].take() {
                Value::Array(items) => items.into_iter().map(|item| with_type(item, kind)).collect(),
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
