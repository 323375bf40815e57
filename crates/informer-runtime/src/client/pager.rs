//! Reads a collection page by page, and continues after an expired continue token.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::{self, BoxStream, Stream, StreamExt as _, TryStreamExt as _};
use serde_json::Value;

use super::live::{MAX_PAGES, PAGE_SIZE, Page};
use super::{CachedClient, WriteError};
use crate::{ListOptions, ResourceKind};

/// The maximum number of times that a stream begins a list again because its continue token has expired.
/// API servers keep tokens for about five minutes.
const MAX_RESTARTS: u32 = 10;

/// The position of a stream of objects in a collection: a pure state machine.
///
/// A collection is sorted by namespace and name. If a continue token expires (410), the list begins again
/// with the newest state, and objects up to the last returned one are skipped. Each object is thus returned
/// at most once.
#[derive(Debug, Default)]
struct Pager {
    token: Option<String>,
    /// The key of the last object that was returned.
    last: Option<String>,
    /// True since the list began again.
    skips: bool,
    restarts: u32,
    pages: u32,
    ended: bool,
}

impl Pager {
    /// Takes a page, and returns its objects that were not returned before.
    fn page(&mut self, page: Page<Value>) -> Vec<Value> {
        self.pages += 1;
        (self.ended, self.token) = (page.continue_token.is_none(), page.continue_token);
        let mut items = page.items;
        if self.skips
            && let Some(last) = &self.last
        {
            items.retain(|item| key(item) > *last);
        }
        self.last = items.last().map(key).or(self.last.take());
        items
    }

    /// Returns true if the list begins again after this error.
    fn restarts(&mut self, error: &WriteError) -> bool {
        let restarts = self.token.is_some() && is_expired(error) && self.restarts < MAX_RESTARTS;
        if restarts {
            (self.token, self.skips, self.restarts) = (None, true, self.restarts + 1);
        }
        restarts
    }
}

/// Returns true if the server does not have the version of a continue token any more.
pub(super) fn is_expired(error: &WriteError) -> bool {
    error.call().and_then(informer_client::CallError::status).is_some_and(|status| status.code == 410)
}

/// Returns the key by which a collection is sorted.
fn key(item: &Value) -> String {
    let text = |name: &str| item["metadata"][name].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

impl CachedClient {
    /// Returns the selected objects as a stream that requests one page after the other.
    pub(super) fn stream_values(
        &self,
        kind: &ResourceKind,
        options: &ListOptions,
        metadata_only: bool,
    ) -> BoxStream<'static, Result<Value, WriteError>> {
        let options = options.clone().limit(options.limit.unwrap_or(PAGE_SIZE));
        let (client, kind) = (self.clone(), kind.clone());
        let pages = stream::try_unfold(Pager::default(), move |mut pager| {
            let (client, kind, mut options) = (client.clone(), kind.clone(), options.clone());
            async move {
                loop {
                    if pager.ended {
                        return Ok(None);
                    }
                    if pager.pages as usize == MAX_PAGES {
                        return Err(too_many_pages(&kind));
                    }
                    if pager.skips {
                        options = options.newest();
                    }
                    let page = client.page_values(&kind, &options, pager.token.as_deref(), metadata_only);
                    match page.await {
                        Ok(page) => return Ok(Some((pager.page(page), pager))),
                        Err(error) if !options.is_exact() && pager.restarts(&error) => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        });
        pages.map_ok(|items| stream::iter(items.into_iter().map(Ok))).try_flatten().boxed()
    }
}

/// Returns the error for a list that has more than [`MAX_PAGES`] pages, and is considered endless.
pub(super) fn too_many_pages(kind: &ResourceKind) -> WriteError {
    WriteError::Response {
        attempt: format!("list {}", kind.resource()),
        expected: format!("list of at most {MAX_PAGES} pages"),
        cause: None,
    }
}

/// The objects of a list, requested page by page while they are read; see
/// [`LiveReader::stream`](super::LiveReader::stream).
#[must_use = "a stream does nothing unless it is polled"]
pub struct ObjectStream<T>(BoxStream<'static, Result<T, WriteError>>);

impl<T: 'static> ObjectStream<T> {
    pub(super) fn new(
        values: BoxStream<'static, Result<Value, WriteError>>,
        decode: impl Fn(Value) -> Result<T, WriteError> + Send + 'static,
    ) -> Self {
        Self(values.map(move |value| decode(value?)).boxed())
    }
}

impl<T> Stream for ObjectStream<T> {
    type Item = Result<T, WriteError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(context)
    }
}

impl<T> fmt::Debug for ObjectStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectStream").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use informer_cache::source::ServerStatus;
    use informer_client::CallError;
    use serde_json::json;

    use super::*;

    fn page(keys: &[&str], token: Option<&str>) -> Page<Value> {
        let items = keys.iter().map(|key| {
            let (namespace, name) = key.split_once('/').unwrap();
            json!({"metadata": {"namespace": namespace, "name": name}})
        });
        let continue_token = token.map(str::to_owned);
        Page { items: items.collect(), resource_version: "7".to_owned(), continue_token }
    }

    fn rejected(code: u16) -> WriteError {
        CallError::refused("list", ServerStatus { code, ..ServerStatus::default() }).into()
    }

    fn keys(items: Vec<Value>) -> Vec<String> {
        items.iter().map(key).collect()
    }

    #[test]
    fn list_that_begins_again_returns_only_later_objects() {
        let mut pager = Pager::default();
        assert_eq!(keys(pager.page(page(&["a/x", "a-b/x", "b/y"], Some("1")))).len(), 3);
        assert!(pager.restarts(&rejected(410)) && pager.token.is_none() && !pager.ended);
        // The object a/z was created meanwhile, and c/n follows the last returned object.
        assert_eq!(keys(pager.page(page(&["a/x", "a/z", "b/y"], Some("2")))), Vec::<String>::new());
        assert_eq!(keys(pager.page(page(&["c/n"], None))), ["c/n"]);
        assert!(pager.ended);
    }

    #[test]
    fn only_expired_continue_tokens_begin_the_list_again() {
        let mut pager = Pager::default();
        assert!(!pager.restarts(&rejected(410)), "the first page has no token");
        for _ in 0..MAX_RESTARTS {
            pager.page(page(&[], Some("1")));
            assert!(!pager.restarts(&rejected(500)));
            assert!(pager.restarts(&rejected(410)));
        }
        pager.page(page(&[], Some("1")));
        assert!(!pager.restarts(&rejected(410)), "the number of restarts is bounded");
    }
}
