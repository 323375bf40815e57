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

/// The callers that wait for a reply of the client-go program: for each job, the sender that passes the reply
/// to the caller. `None` after the program has ended.
#[derive(Debug)]
struct Waiting(Mutex<Option<HashMap<String, oneshot::Sender<Reply>>>>);

impl GoPeer {
    /// Starts the client-go program. One program runs all scripts.
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

    /// Sends a command to the client-go program as one line of JSON, and waits for the program's reply.
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
            // A failed send is ignored: it means that the caller no longer waits for the reply, for example
            // after a timeout.
            let _ = sender.send(reply);
        }
    }
}
