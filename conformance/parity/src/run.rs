use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::peer::{Command, Peer, PeerError};
use crate::script::Script;
use crate::server::{ScriptedServer, Session};
use crate::trace::Trace;

const MAX_RUN: Duration = Duration::from_secs(60);

const LOOK: Duration = Duration::from_millis(25);

/// The error of a script that could not be run to its end on one of the libraries.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scripted server of a run could not listen on a loopback port.
    #[error("cannot listen on the loopback device")]
    Listen(#[from] io::Error),
    /// The library under test has ended, or one of its commands failed.
    #[error(transparent)]
    Peer(#[from] PeerError),
}

/// Plays an informer script to the informer of a peer, and returns the trace of this run. Each run has its
/// own server and informer, so runs do not affect each other.
pub async fn run(script: &Arc<Script>, peer: &Arc<Peer>, job: &str) -> Result<Trace, RunError> {
    let session = Arc::new(Session::new(Arc::clone(script), Arc::clone(peer), job.to_owned()));
    let refusing = session.close_port_if_next().await;
    let server = ScriptedServer::start(&session)?;
    if !refusing {
        session.open_port().await;
    }
    let begin = Instant::now();
    let (url, streaming, resync) = (server.url(), script.streaming, script.resync);
    session.command(&Command::Start { url, streaming, resync }).await;
    while !session.is_over() && begin.elapsed() < MAX_RUN {
        tokio::time::sleep(LOOK).await;
    }
    let unfinished = !session.is_over();
    session.command(&Command::Check).await;
    session.command(&Command::Stop).await;
    Ok(session.finish(unfinished)?)
}
