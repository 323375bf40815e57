use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command as Process};
use tokio::sync::{Mutex as AsyncMutex, oneshot};

use super::{PeerError, Reply};

/// The client-go program in a separate process, which ends when this value is dropped.
#[derive(Debug)]
pub struct GoPeer {
    input: AsyncMutex<ChildStdin>,
    waiting: Arc<Waiting>,
    _process: Child,
}

/// The senders that pass replies to the callers that wait for them, by job; `None` after the program has
/// ended.
#[derive(Debug)]
struct Waiting(Mutex<Option<HashMap<String, oneshot::Sender<Reply>>>>);

impl GoPeer {
    /// Starts the program.
    ///
    /// # Errors
    ///
    /// When the program cannot be started.
    pub fn start(program: &Path) -> Result<Self, PeerError> {
        let failed = |source| PeerError::Start { program: program.display().to_string(), source };
        let mut process = Process::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let input = process.stdin.take().expect("stdin is piped");
        let output = process.stdout.take().expect("stdout is piped");
        let waiting = Arc::new(Waiting(Mutex::new(Some(HashMap::new()))));
        let replies = Arc::clone(&waiting);
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                match serde_json::from_str::<Reply>(&line) {
                    Ok(reply) => replies.deliver(reply),
                    Err(error) => {
                        eprintln!("client-go's program wrote an invalid reply: {error}");
                        break;
                    }
                }
            }
            replies.0.lock().take();
        });
        Ok(Self { input: AsyncMutex::new(input), waiting, _process: process })
    }

    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    ///
    /// When the program has ended.
    pub async fn send(&self, job: &str, command: serde_json::Value) -> Result<Reply, PeerError> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.0.lock().as_mut().ok_or(PeerError::Ended)?.insert(job.to_owned(), sender);
        let line = command.to_string() + "\n";
        self.input.lock().await.write_all(line.as_bytes()).await.map_err(|_| PeerError::Ended)?;
        receiver.await.map_err(|_| PeerError::Ended)
    }
}

impl Waiting {
    fn deliver(&self, reply: Reply) {
        let sender = self.0.lock().as_mut().and_then(|waiting| waiting.remove(&reply.job));
        if let Some(sender) = sender {
            // Errors are ignored: the caller may have stopped waiting for the reply.
            let _ = sender.send(reply);
        }
    }
}
