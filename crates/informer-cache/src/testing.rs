//! Test support (feature `testing`): a scripted source, and a small object type.
//!
//! [`ScriptedSource`] replaces a client. Its [`ScriptedServer`] expects a request, checks it, and sends the
//! response. Both use only tokio's clock, so with paused time a test of a long backoff runs in microseconds.
//!
//! ```
//! use informer_cache::source::{ListRequest, ListSource, SourceContext, VersionMatch};
//! use informer_cache::testing::{ScriptedSource, TestObject, object};
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
//! # runtime.block_on(async {
//! let (source, mut server) = ScriptedSource::<TestObject>::new();
//! let client = tokio::spawn(async move {
//!     let request = ListRequest {
//!         version: "0".into(),
//!         version_match: VersionMatch::Unset,
//!         limit: Some(500),
//!         continue_token: None,
//!         context: SourceContext::default(),
//!     };
//!     source.list(request).await.is_ok()
//! });
//! server.expect_list().await.assert_version("0").reply_page([object("default/web", "7")], "10");
//! assert!(client.await.is_ok_and(|listed| listed));
//! # });
//! # Ok::<(), std::io::Error>(())
//! ```

mod events;
mod object;
mod peer;
mod scripted;
mod static_source;

pub use events::{added, bookmark, deleted, error_event, failure, initial_events_end, modified};
pub use object::{TestObject, object};
pub use peer::{ExpectedList, ExpectedWatch, ListPeer, WatchPeer};
pub use scripted::{RecordedRequest, ScriptedServer, ScriptedSource};
pub use static_source::StaticSource;
