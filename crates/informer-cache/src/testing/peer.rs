use std::fmt::Debug;
use std::time::Duration;

use futures_util::stream;
use informer_core::{Object, ResourceVersion};
use tokio::sync::{mpsc, oneshot};

use super::{error_event, failure};
use crate::Undecodable;
use crate::source::{
    ListEnd, ListPart, ListRequest, ListStream, Listed, SourceError, SourceErrorKind, WatchEvent,
    WatchRequest, WatchStream,
};

type ResponseSender<T> = oneshot::Sender<Result<T, SourceError>>;
/// Sends the items of an open list or watch from the test to the client; `None` closes the stream without an
/// error.
type Feed<T> = mpsc::UnboundedSender<Option<Result<T, SourceError>>>;

/// A list request that has no response yet. Dropping it rejects the request.
#[must_use = "a list without a response is rejected"]
#[derive(Debug)]
pub struct ExpectedList<O: Object> {
    request: ListRequest<O>,
    response: ResponseSender<ListStream<O>>,
}

/// A watch request that has no response yet. Dropping it rejects the request.
#[must_use = "a watch without a response is rejected"]
#[derive(Debug)]
pub struct ExpectedWatch<O: Object> {
    request: WatchRequest<O>,
    response: ResponseSender<WatchStream<O>>,
}

/// The server side of an accepted list. Dropping it before [`end`](Self::end) cuts the list off.
#[must_use = "a list whose peer is dropped is cut off"]
#[derive(Debug)]
pub struct ListPeer<O: Object> {
    feed: Feed<ListPart<O>>,
}

/// The server side of an accepted watch. Dropping it closes the watch.
#[must_use = "a watch whose peer is dropped is closed"]
#[derive(Debug)]
pub struct WatchPeer<O: Object> {
    feed: Feed<WatchEvent<O>>,
}

impl<O: Object> ExpectedList<O> {
    pub(super) fn new(request: ListRequest<O>, response: ResponseSender<ListStream<O>>) -> Self {
        Self { request, response }
    }

    /// Returns the list request that the client has sent.
    pub fn request(&self) -> &ListRequest<O> {
        &self.request
    }

    /// Asserts the requested version of the list; `""` for none.
    #[track_caller]
    pub fn assert_version(self, version: impl Into<ResourceVersion>) -> Self {
        assert_same("the version of the list", &self.request.version, &version.into());
        self
    }

    /// Asserts the maximum page size in the request.
    #[track_caller]
    pub fn assert_limit(self, limit: Option<u32>) -> Self {
        assert_same("the limit of the list", &self.request.limit, &limit);
        self
    }

    /// Asserts the continue token of the list request; `None` for a first page.
    #[track_caller]
    pub fn assert_continues(self, token: Option<&str>) -> Self {
        assert_same("the continue token", &self.request.continue_token.as_deref(), &token);
        self
    }

    /// Responds to the request with a complete list, or with the last page of a list.
    pub fn reply_page(self, objects: impl IntoIterator<Item = O>, version: impl Into<ResourceVersion>) {
        self.accept().items(objects).end(version);
    }

    /// Responds to the request with a page that is not the last one.
    pub fn reply_page_of_many(
        self,
        objects: impl IntoIterator<Item = O>,
        version: impl Into<ResourceVersion>,
        continue_token: &str,
    ) {
        let continue_token = Some(continue_token.to_owned());
        let end = ListEnd { version: version.into(), continue_token, remaining: None };
        self.accept().items(objects).part(ListPart::End(end));
    }

    /// Accepts the list request. The caller then sends the parts of the list one by one.
    pub fn accept(self) -> ListPeer<O> {
        let (feed, stream) = feed();
        // The client may have dropped the request meanwhile, so a failed send is ignored.
        let _ = self.response.send(Ok(ListStream::new(stream)));
        ListPeer { feed }
    }

    /// Rejects the list request with this error.
    pub fn fail(self, error: SourceError) {
        let _ = self.response.send(Err(error));
    }

    /// Rejects the list request with this kind of failure.
    pub fn fail_with(self, kind: SourceErrorKind) {
        self.fail(failure(kind));
    }

    /// Rejects the list request because its version or its continue token expired (410).
    pub fn gone(self) {
        self.fail_with(SourceErrorKind::Expired);
    }

    /// Waits until the client drops the list request.
    pub async fn given_up(mut self) {
        self.response.closed().await;
    }
}

impl<O: Object> ListPeer<O> {
    /// Sends objects as one part of the list.
    pub fn items(&self, objects: impl IntoIterator<Item = O>) -> &Self {
        let items = objects.into_iter().map(|object| Listed::Fresh(object.into())).collect();
        self.part(ListPart::Items(items))
    }

    /// Sends an undecodable object as a part of the list.
    pub fn undecodable(&self, undecodable: Undecodable) -> &Self {
        self.part(ListPart::Undecodable(undecodable))
    }

    /// Sends any part of a list.
    pub fn part(&self, part: ListPart<O>) -> &Self {
        let _ = self.feed.send(Some(Ok(part)));
        self
    }

    /// Ends the response, either as a complete list or as the last page of a list.
    pub fn end(&self, version: impl Into<ResourceVersion>) {
        self.part(ListPart::End(ListEnd { version: version.into(), ..ListEnd::default() }));
    }

    /// Closes the stream of the list before its end.
    pub fn break_off(&self) {
        let _ = self.feed.send(None);
    }

    /// Breaks the stream of the list with a failure.
    pub fn fail_with(&self, kind: SourceErrorKind) {
        let _ = self.feed.send(Some(Err(failure(kind))));
    }

    /// Waits until the client drops the list.
    pub async fn dropped(&self) {
        self.feed.closed().await;
    }
}

impl<O: Object> ExpectedWatch<O> {
    pub(super) fn new(request: WatchRequest<O>, response: ResponseSender<WatchStream<O>>) -> Self {
        Self { request, response }
    }

    /// Returns the watch request that the client has sent.
    pub fn request(&self) -> &WatchRequest<O> {
        &self.request
    }

    /// Asserts the requested version of the watch; `""` for none.
    #[track_caller]
    pub fn assert_version(self, version: impl Into<ResourceVersion>) -> Self {
        assert_same("the version of the watch", &self.request.version, &version.into());
        self
    }

    /// Asserts that the request is a streaming list, with the bookmarks that mark the end of its initial
    /// events.
    #[track_caller]
    pub fn assert_streaming_list(self) -> Self {
        let asked = (self.request.send_initial_events, self.request.bookmarks);
        assert_same("(initial events, bookmarks) of the watch", &asked, &(true, true));
        self
    }

    /// Asserts that the request is a watch with bookmarks and without initial events.
    #[track_caller]
    pub fn assert_plain(self) -> Self {
        let asked = (self.request.send_initial_events, self.request.bookmarks);
        assert_same("(initial events, bookmarks) of the watch", &asked, &(false, true));
        self
    }

    /// Accepts the watch request. The caller then sends events one by one.
    pub fn accept(self) -> WatchPeer<O> {
        let (feed, stream) = feed();
        // The client may have dropped the request meanwhile, so a failed send is ignored.
        let _ = self.response.send(Ok(WatchStream::new(stream)));
        WatchPeer { feed }
    }

    /// Accepts the watch request and sends a first event.
    pub fn send(self, event: WatchEvent<O>) -> WatchPeer<O> {
        let peer = self.accept();
        peer.send(event);
        peer
    }

    /// Rejects the watch request with this error.
    pub fn fail(self, error: SourceError) {
        let _ = self.response.send(Err(error));
    }

    /// Rejects the watch request with this kind of failure.
    pub fn fail_with(self, kind: SourceErrorKind) {
        self.fail(failure(kind));
    }

    /// Rejects the watch request with status 429 and this `Retry-After`.
    pub fn too_many_requests(self, retry_after: Option<Duration>) {
        self.fail(failure(SourceErrorKind::TooManyRequests).with_retry_after(retry_after));
    }

    /// Rejects the watch request because its version expired (410 as the HTTP status).
    pub fn gone(self) {
        self.fail_with(SourceErrorKind::Expired);
    }

    /// Waits until the client drops the watch request.
    pub async fn given_up(mut self) {
        self.response.closed().await;
    }
}

impl<O: Object> WatchPeer<O> {
    /// Sends an event on the open watch.
    pub fn send(&self, event: WatchEvent<O>) -> &Self {
        let _ = self.feed.send(Some(Ok(event)));
        self
    }

    /// Closes the watch without an error, like a server after the timeout of the watch.
    pub fn close(&self) {
        let _ = self.feed.send(None);
    }

    /// Breaks the stream of the watch with a failure.
    pub fn fail_with(&self, kind: SourceErrorKind) {
        let _ = self.feed.send(Some(Err(failure(kind))));
    }

    /// Ends the watch because its version expired (410 in an `ERROR` event).
    pub fn gone(&self) {
        self.send(error_event(410, "Expired")).close();
    }

    /// Waits until the client drops the watch.
    pub async fn dropped(&self) {
        self.feed.closed().await;
    }

    /// Returns true if the client has dropped the watch.
    pub fn is_dropped(&self) -> bool {
        self.feed.is_closed()
    }
}

fn feed<T: Send + 'static>() -> (Feed<T>, impl futures_core::Stream<Item = Result<T, SourceError>> + Send) {
    let (sender, receiver) = mpsc::unbounded_channel::<Option<Result<T, SourceError>>>();
    let stream = stream::unfold(receiver, async |mut receiver| {
        let next = receiver.recv().await.flatten()?;
        Some((next, receiver))
    });
    (sender, stream)
}

#[track_caller]
fn assert_same<T: PartialEq + Debug>(what: &str, actual: &T, expected: &T) {
    assert!(actual == expected, "{what} is {actual:?}, expected {expected:?}");
}
