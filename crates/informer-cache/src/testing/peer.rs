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

type Answer<T> = oneshot::Sender<Result<T, SourceError>>;
/// `None` ends the stream.
type Feed<T> = mpsc::UnboundedSender<Option<Result<T, SourceError>>>;

/// A list that was asked for and not answered yet. Dropped unanswered, it is refused.
#[must_use = "a list that is not answered is refused"]
#[derive(Debug)]
pub struct ExpectedList<O: Object> {
    request: ListRequest<O>,
    answer: Answer<ListStream<O>>,
}

/// A watch that was asked for and not answered yet. Dropped unanswered, it is refused.
#[must_use = "a watch that is not answered is refused"]
#[derive(Debug)]
pub struct ExpectedWatch<O: Object> {
    request: WatchRequest<O>,
    answer: Answer<WatchStream<O>>,
}

/// The server's end of an accepted list. Dropped before [`end`](Self::end), the list breaks off without an
/// end.
#[must_use = "a list whose peer is dropped breaks off"]
#[derive(Debug)]
pub struct ListPeer<O: Object> {
    feed: Feed<ListPart<O>>,
}

/// The server's end of an accepted watch. Dropped, it closes the watch.
#[must_use = "a watch whose peer is dropped is closed"]
#[derive(Debug)]
pub struct WatchPeer<O: Object> {
    feed: Feed<WatchEvent<O>>,
}

// === impl ExpectedList ===

impl<O: Object> ExpectedList<O> {
    pub(super) fn new(request: ListRequest<O>, answer: Answer<ListStream<O>>) -> Self {
        Self { request, answer }
    }

    /// What was asked.
    pub fn request(&self) -> &ListRequest<O> {
        &self.request
    }

    /// The version asked for; `""` for none.
    #[track_caller]
    pub fn assert_version(self, version: impl Into<ResourceVersion>) -> Self {
        assert_same("the version of the list", &self.request.version, &version.into());
        self
    }

    /// The limit asked for.
    #[track_caller]
    pub fn assert_limit(self, limit: Option<u32>) -> Self {
        assert_same("the limit of the list", &self.request.limit, &limit);
        self
    }

    /// The token of the page before; `None` for a first page.
    #[track_caller]
    pub fn assert_continues(self, token: Option<&str>) -> Self {
        assert_same("the continue token", &self.request.continue_token.as_deref(), &token);
        self
    }

    /// Answers with a whole list, or with its last page.
    pub fn reply_page(self, objects: impl IntoIterator<Item = O>, version: impl Into<ResourceVersion>) {
        self.accept().items(objects).end(version);
    }

    /// Answers with a page that another one follows.
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

    /// Accepts the list, whose parts follow one by one.
    pub fn accept(self) -> ListPeer<O> {
        let (feed, stream) = feed();
        // The client may have dropped the request meanwhile.
        let _ = self.answer.send(Ok(ListStream::new(stream)));
        ListPeer { feed }
    }

    /// Refuses the list.
    pub fn fail(self, error: SourceError) {
        let _ = self.answer.send(Err(error));
    }

    /// Refuses the list with a failure of this kind.
    pub fn fail_with(self, kind: SourceErrorKind) {
        self.fail(failure(kind));
    }

    /// Refuses the list: its version or its token is no longer in the history (410).
    pub fn gone(self) {
        self.fail_with(SourceErrorKind::Expired);
    }

    /// Waits until the client gives the request up.
    pub async fn given_up(mut self) {
        self.answer.closed().await;
    }
}

// === impl ListPeer ===

impl<O: Object> ListPeer<O> {
    /// Sends objects.
    pub fn items(&self, objects: impl IntoIterator<Item = O>) -> &Self {
        let items = objects.into_iter().map(|object| Listed::Fresh(object.into())).collect();
        self.part(ListPart::Items(items))
    }

    /// Sends an object that cannot be read.
    pub fn undecodable(&self, undecodable: Undecodable) -> &Self {
        self.part(ListPart::Undecodable(undecodable))
    }

    /// Sends any part.
    pub fn part(&self, part: ListPart<O>) -> &Self {
        let _ = self.feed.send(Some(Ok(part)));
        self
    }

    /// Ends the list, as a whole list or a last page.
    pub fn end(&self, version: impl Into<ResourceVersion>) {
        self.part(ListPart::End(ListEnd { version: version.into(), ..ListEnd::default() }));
    }

    /// Closes the stream without an end of the list.
    pub fn break_off(&self) {
        let _ = self.feed.send(None);
    }

    /// Breaks the stream with a failure.
    pub fn fail_with(&self, kind: SourceErrorKind) {
        let _ = self.feed.send(Some(Err(failure(kind))));
    }

    /// Waits until the client drops the list.
    pub async fn dropped(&self) {
        self.feed.closed().await;
    }
}

// === impl ExpectedWatch ===

impl<O: Object> ExpectedWatch<O> {
    pub(super) fn new(request: WatchRequest<O>, answer: Answer<WatchStream<O>>) -> Self {
        Self { request, answer }
    }

    /// What was asked.
    pub fn request(&self) -> &WatchRequest<O> {
        &self.request
    }

    /// The version asked for; `""` for none.
    #[track_caller]
    pub fn assert_version(self, version: impl Into<ResourceVersion>) -> Self {
        assert_same("the version of the watch", &self.request.version, &version.into());
        self
    }

    /// It asks for a streaming list, and for the bookmarks without which that has no end.
    #[track_caller]
    pub fn assert_streaming_list(self) -> Self {
        let asked = (self.request.send_initial_events, self.request.bookmarks);
        assert_same("(initial events, bookmarks) of the watch", &asked, &(true, true));
        self
    }

    /// It asks for changes alone, with bookmarks.
    #[track_caller]
    pub fn assert_plain(self) -> Self {
        let asked = (self.request.send_initial_events, self.request.bookmarks);
        assert_same("(initial events, bookmarks) of the watch", &asked, &(false, true));
        self
    }

    /// Accepts the watch.
    pub fn accept(self) -> WatchPeer<O> {
        let (feed, stream) = feed();
        // The client may have dropped the request meanwhile.
        let _ = self.answer.send(Ok(WatchStream::new(stream)));
        WatchPeer { feed }
    }

    /// Accepts the watch and sends a first event.
    pub fn send(self, event: WatchEvent<O>) -> WatchPeer<O> {
        let peer = self.accept();
        peer.send(event);
        peer
    }

    /// Refuses the watch.
    pub fn fail(self, error: SourceError) {
        let _ = self.answer.send(Err(error));
    }

    /// Refuses the watch with a failure of this kind.
    pub fn fail_with(self, kind: SourceErrorKind) {
        self.fail(failure(kind));
    }

    /// Refuses the watch as one that asks too often (429).
    pub fn too_many_requests(self, retry_after: Option<Duration>) {
        self.fail(failure(SourceErrorKind::TooManyRequests).with_retry_after(retry_after));
    }

    /// Refuses the watch: its version is no longer in the history (410 as status).
    pub fn gone(self) {
        self.fail_with(SourceErrorKind::Expired);
    }

    /// Waits until the client gives the request up.
    pub async fn given_up(mut self) {
        self.answer.closed().await;
    }
}

// === impl WatchPeer ===

impl<O: Object> WatchPeer<O> {
    /// Sends an event.
    pub fn send(&self, event: WatchEvent<O>) -> &Self {
        let _ = self.feed.send(Some(Ok(event)));
        self
    }

    /// Closes the watch as a server does at the end of its time.
    pub fn close(&self) {
        let _ = self.feed.send(None);
    }

    /// Breaks the watch with a failure.
    pub fn fail_with(&self, kind: SourceErrorKind) {
        let _ = self.feed.send(Some(Err(failure(kind))));
    }

    /// Ends the watch: its version is no longer in the history (410 as event).
    pub fn gone(&self) {
        self.send(error_event(410, "Expired")).close();
    }

    /// Waits until the client drops the watch.
    pub async fn dropped(&self) {
        self.feed.closed().await;
    }

    /// True if the client has dropped the watch.
    pub fn is_dropped(&self) -> bool {
        self.feed.is_closed()
    }
}

/// A stream and what feeds it.
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
