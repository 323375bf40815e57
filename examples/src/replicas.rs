//! Helpers of the examples with several replicas: child processes that end with their parent, and a client
//! that continuously updates config maps, so that the controllers of the replicas have work.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use informer::k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use informer::runtime::{CachedClient, Patch};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{PATIENCE, Result};

/// The interval at which [`until`] checks its condition.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A child process that runs this program as a replica. The process ends when its standard input is closed,
/// and is killed when this value is dropped.
#[derive(Debug)]
pub struct Replica {
    name: &'static str,
    child: Child,
}

impl Replica {
    /// Starts a replica as a child process that runs this program with the arguments of this process.
    ///
    /// # Errors
    ///
    /// If the process cannot be started.
    pub fn start(name: &'static str, set_up: impl FnOnce(&mut Command)) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).stdin(Stdio::piped()).stdout(Stdio::null());
        set_up(&mut command);
        Ok(Self { name, child: command.spawn()? })
    }

    /// Returns the name of the replica.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Kills the replica's process (SIGKILL).
    ///
    /// # Errors
    ///
    /// If the process cannot be killed.
    pub fn kill(&mut self) -> Result {
        Ok(self.child.kill()?)
    }

    /// Asks the replica to stop by closing its standard input.
    pub fn stop(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Pauses the replica's process (SIGSTOP) until [`go_on`](Self::go_on).
    ///
    /// # Errors
    ///
    /// If the signal cannot be sent.
    pub fn hold(&self) -> Result {
        self.signal("-STOP")
    }

    /// Resumes the replica's process (SIGCONT).
    ///
    /// # Errors
    ///
    /// If the signal cannot be sent.
    pub fn go_on(&self) -> Result {
        self.signal("-CONT")
    }

    /// Returns true if the replica's process has ended.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    fn signal(&self, signal: &str) -> Result {
        if Command::new("kill").arg(signal).arg(self.child.id().to_string()).status()?.success() {
            Ok(())
        } else {
            Err("the signal cannot be sent to the process".into())
        }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // The process may already have ended, in which case `kill` fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the standard input of this replica is closed, which means that the parent has ended or asked
/// the replica to stop.
///
/// The input is read in a separate thread. In a blocking task of the runtime, the read would delay the exit
/// of a replica that has failed, because the runtime waits for its blocking tasks.
pub async fn parent_gone() {
    let (gone, end) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        // The end of the input and a read error both mean that the parent has closed the pipe.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = gone.send(());
    });
    // An error means that the sender was dropped because the reading thread has ended, which also ends the
    // wait.
    let _ = end.await;
}

/// Waits until a condition is true, and returns how long it took.
///
/// # Errors
///
/// If the condition does not become true within five minutes, which is long enough for a busy machine.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) -> Result<Duration> {
    let begin = Instant::now();
    while !holds() {
        if begin.elapsed() > PATIENCE * 30 {
            return Err(format!("{what}: timeout").into());
        }
        sleep(LOOK_EVERY).await;
    }
    Ok(begin.elapsed())
}

/// Returns the names of the config maps that [`ask`] writes.
pub fn map_names(maps: usize) -> impl Iterator<Item = String> {
    (0..maps).map(|number| format!("map-{number}"))
}

/// Creates a namespace if it does not exist, and the config maps that the replicas work on.
///
/// # Errors
///
/// If the server rejects a request.
pub async fn set_up(user: &CachedClient, namespace: &str, maps: impl Iterator<Item = String>) -> Result {
    let mut made = Namespace::default();
    made.metadata.name = Some(namespace.to_owned());
    match user.create(&made).await {
        Err(error) if !error.is_already_exists() => return Err(error.into()),
        _ => {}
    }
    for name in maps {
        let mut map = ConfigMap::default();
        map.metadata.namespace = Some(namespace.to_owned());
        map.metadata.name = Some(name);
        user.create(&map).await?;
    }
    Ok(())
}

/// Gives the replicas work endlessly: writes an increasing number to `data.round` of the config maps, one
/// after the other, with a pause after each write.
///
/// # Errors
///
/// If the server rejects a change.
pub async fn ask(user: CachedClient, namespace: &str, maps: usize, pause: Duration) -> Result {
    let names: Vec<String> = map_names(maps).collect();
    for (name, round) in names.iter().cycle().zip(1_u64..) {
        let asked = Patch::merge(json!({"data": {"round": round.to_string()}}));
        user.patch::<ConfigMap>(&format!("{namespace}/{name}"), &asked).await?;
        sleep(pause).await;
    }
    Ok(())
}
