//! The events of several programs as one stream of server-sent events.
//!
//! A browser opens at most six connections to a server, so a stream for each program would leave none for
//! other requests.
//!
//! # Invariants
//!
//! A program that is unreachable or that sends invalid data affects only its own events.
//!
//! # Shutdown
//!
//! Dropping the body of the response ends its tasks, which close the connections to the programs.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use informer::runtime::console::ConsoleEvent;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::live::{ConsoleClient, LiveSource, LiveUpdate};

/// The maximum number of merged events that wait for a slow page. While they wait, the streams of the targets
/// are not read.
const MAX_PENDING: usize = 4;

/// The time between two comments, which show the page that the connection works while no program responds.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// An event of a target: a snapshot, or the error of the last request.
#[derive(Serialize)]
struct TargetEvent<'a> {
    target: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<&'a ConsoleEvent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

impl TargetEvent<'_> {
    fn to_frame(&self) -> Bytes {
        let json = serde_json::to_string(self).unwrap_or_else(|error| {
            let error = format!("serialize an event: {error}; attach to the program alone");
            serde_json::json!({"target": self.target, "error": error}).to_string()
        });
        Bytes::from(format!("event: target\ndata: {json}\n\n"))
    }
}

/// The body of the stream.
pub(super) struct MergedEvents {
    frames: mpsc::Receiver<Bytes>,
    /// Dropping the set ends the tasks.
    _tasks: JoinSet<()>,
}

impl MergedEvents {
    /// Connects to the targets. Without `allows_actions`, the snapshots have no token for actions.
    pub(super) fn open(targets: &[ConsoleClient], allows_actions: bool) -> Self {
        let (sender, frames) = mpsc::channel(MAX_PENDING);
        let mut tasks = JoinSet::new();
        for (target, client) in targets.iter().enumerate() {
            let source = LiveSource::attach(client.clone());
            tasks.spawn(send_events(target, source, sender.clone(), allows_actions));
        }
        tasks.spawn(keep_alive(sender));
        Self { frames, _tasks: tasks }
    }
}

impl Body for MergedEvents {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.frames.poll_recv(cx).map(|frame| frame.map(|bytes| Ok(Frame::data(bytes))))
    }
}

async fn send_events(
    target: usize,
    mut source: LiveSource,
    frames: mpsc::Sender<Bytes>,
    allows_actions: bool,
) {
    while let Some(update) = source.updates.recv().await {
        let frame = match update {
            LiveUpdate::Event(mut event) => {
                if !allows_actions {
                    event.snapshot.actions = None;
                }
                TargetEvent { target, snapshot: Some(&event), error: None }.to_frame()
            }
            LiveUpdate::Disconnected(error) => {
                TargetEvent { target, snapshot: None, error: Some(&error) }.to_frame()
            }
        };
        if frames.send(frame).await.is_err() {
            return;
        }
    }
}

async fn keep_alive(frames: mpsc::Sender<Bytes>) {
    while frames.send(Bytes::from_static(b": keep-alive\n\n")).await.is_ok() {
        sleep(KEEP_ALIVE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use http::{Request, Response};
    use http_body_util::{BodyExt, Full};
    use informer::client::Client;
    use tower::service_fn;

    use super::*;

    /// Returns the events of a stream as JSON, until there is one of each target.
    async fn first_events(mut events: MergedEvents, targets: usize) -> Vec<serde_json::Value> {
        let mut found = vec![serde_json::Value::Null; targets];
        while found.iter().any(serde_json::Value::is_null) {
            let frame = events.frame().await.expect("an event").expect("no error");
            let text = String::from_utf8(frame.into_data().expect("data").to_vec()).expect("UTF-8");
            let Some((_, data)) = text.split_once("data: ") else { continue };
            let event: serde_json::Value = serde_json::from_str(data).expect("JSON");
            let target = event["target"].as_u64().and_then(|target| usize::try_from(target).ok());
            found[target.expect("a number")] = event;
        }
        found
    }

    #[tokio::test(start_paused = true)]
    async fn silent_target_is_reported_and_does_not_stop_the_others() {
        let silent =
            service_fn(|_: Request<Full<Bytes>>| pending::<Result<Response<Full<Bytes>>, Infallible>>());
        let event = "event: snapshot\ndata: {\"manager\": \"Running\"}\n\n";
        let live = service_fn(move |_: Request<Full<Bytes>>| {
            ready(Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(event.as_bytes())))))
        });
        let targets = [
            ConsoleClient::simulated(Client::from_service(silent, "default"), "silent"),
            ConsoleClient::simulated(Client::from_service(live, "default"), "live"),
        ];
        let events = first_events(MergedEvents::open(&targets, false), 2).await;
        assert_eq!(events[0]["error"], "no response in 15 s");
        assert_eq!(events[1]["snapshot"]["manager"], "Running");
    }

    #[test]
    fn event_is_one_line_of_json_for_any_error() {
        let frame = TargetEvent { target: 1, snapshot: None, error: Some("a\n\ndata: <b>") }.to_frame();
        assert_eq!(frame, "event: target\ndata: {\"target\":1,\"error\":\"a\\n\\ndata: <b>\"}\n\n");
    }
}
