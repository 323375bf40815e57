//! Runs the API servers that the explored command starts. Each `kube-apiserver` program that the command
//! starts connects to this process, which runs the server for it. [`explorer`](crate::envtest::explorer)
//! describes the protocol.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::session::{Hook, Session};
use crate::envtest::Instance;
use crate::envtest::explorer::{Hello, MAX_LINE_BYTES, Reply, STOP};
use crate::failure::Failure;

/// The delay before the next `accept`, after an `accept` has failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(5);

/// The listener to which the `kube-apiserver` and `etcd` programs of one run connect. Dropping it ends the
/// servers that run for these programs.
pub(super) struct Control {
    address: String,
    secret: String,
    task: JoinSet<()>,
}

impl Control {
    pub(super) async fn start(session: &Arc<Session>) -> Result<Self, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let bound = listener.and_then(|listener| Ok((listener.local_addr()?.to_string(), listener)));
        let (address, listener) =
            bound.map_err(|error| Failure::io("listen on a free port of 127.0.0.1", error))?;
        let secret = format!("{:032x}", rand::random::<u128>());
        let mut task = JoinSet::new();
        task.spawn(accept(listener, secret.clone(), Arc::clone(session)));
        Ok(Self { address, secret, task })
    }

    /// Returns the value of the environment variable that the command passes to its programs: the address of
    /// this listener and the secret.
    pub(super) fn variable(&self) -> String {
        format!("{}/{}", self.address, self.secret)
    }

    /// Ends all servers of the run, as if their processes were killed.
    pub(super) async fn stop(mut self) {
        self.task.shutdown().await;
    }
}

async fn accept(listener: TcpListener, secret: String, session: Arc<Session>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve(BufReader::new(stream), secret.clone(), Arc::clone(&session)));
                }
                // `accept` fails if the process has no free file descriptor. The delay prevents a busy loop
                // until a connection closes.
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Serves the connection of one `kube-apiserver` or `etcd` program that the explored command has started,
/// until the program ends. For a `kube-apiserver` program, this starts an API server in the current process
/// and sends its URL to the program. A connection without the secret of the run is closed at once.
async fn serve(mut connection: BufReader<TcpStream>, secret: String, session: Arc<Session>) {
    let Some(line) = read(&mut connection).await else { return };
    let Ok(hello) = serde_json::from_str::<Hello>(&line) else { return };
    if hello.secret != secret {
        return;
    }
    let Some(arguments) = hello.arguments else {
        // An `etcd` program needs no server here. Its connection stays open until the run ends, which tells
        // the program to exit, or until the program itself ends.
        read(&mut connection).await;
        return;
    };
    let hook = Arc::new(Hook::new(&session));
    let instance = match Instance::start_in(&hello.directory, arguments, hook).await {
        Ok(instance) => instance,
        Err(failure) => return reply(&mut connection, Err(failure)).await,
    };
    session.add(instance.server());
    reply(&mut connection, Ok(instance.url())).await;
    // The program sends the line [`STOP`] when it receives a signal. If the connection closes without this
    // line, the program was killed, and its server is dropped without a graceful shutdown.
    if read(&mut connection).await.is_some_and(|line| line.trim_end() == STOP) {
        let stopped = instance.stop().await;
        reply(&mut connection, stopped.map(|()| String::new())).await;
    }
}

/// Reads the next line of the protocol. Returns `None` if the connection has ended.
async fn read(connection: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let read = connection.take(MAX_LINE_BYTES).read_line(&mut line).await.ok()?;
    (read > 0).then_some(line)
}

async fn reply(connection: &mut BufReader<TcpStream>, outcome: Result<String, Failure>) {
    let reply = match outcome {
        Ok(url) => Reply { url, error: None },
        Err(failure) => Reply { url: String::new(), error: Some(failure.to_string()) },
    };
    let Ok(line) = serde_json::to_string(&reply) else { return };
    // Writing fails if the program has exited. The error is ignored, because the next read then returns
    // `None`.
    let _ = connection.get_mut().write_all(format!("{line}\n").as_bytes()).await;
}
