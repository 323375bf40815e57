//! What the examples with several replicas have in common: processes that end with the one that started them,
//! and a user who keeps asking them for something.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use informer::k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use informer::runtime::{CachedClient, Patch};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{PATIENCE, Result};

/// How often [`until`] looks: its time is exact to that.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// This program in another process: it ends with its standard input, and with this.
#[derive(Debug)]
pub struct Replica {
    name: &'static str,
    child: Child,
}

impl Replica {
    /// Starts it, with the arguments of this process.
    ///
    /// # Errors
    ///
    /// When the system starts no process.
    pub fn start(name: &'static str, set_up: impl FnOnce(&mut Command)) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).stdin(Stdio::piped()).stdout(Stdio::null());
        set_up(&mut command);
        Ok(Self { name, child: command.spawn()? })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Kills it.
    ///
    /// # Errors
    ///
    /// When the system does not.
    pub fn kill(&mut self) -> Result {
        Ok(self.child.kill()?)
    }

    /// Asks it to end, by the end of its standard input.
    pub fn stop(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Holds it (SIGSTOP): it does nothing until it is let [`go_on`](Self::go_on).
    ///
    /// # Errors
    ///
    /// When it takes no signal.
    pub fn hold(&self) -> Result {
        self.signal("-STOP")
    }

    /// Lets it go on.
    ///
    /// # Errors
    ///
    /// When it takes no signal.
    pub fn go_on(&self) -> Result {
        self.signal("-CONT")
    }

    /// True once it has ended.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    fn signal(&self, signal: &str) -> Result {
        match Command::new("kill").arg(signal).arg(self.child.id().to_string()).status()?.success() {
            true => Ok(()),
            false => Err("the process takes no signal".into()),
        }
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Resolves when the standard input ends. It is read by a thread of its own: the runtime would wait for a
/// blocking task of its own before the process ends, and so would a replica that fails.
pub async fn parent_gone() {
    let (gone, end) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        // It ends, whether it can be read or not.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = gone.send(());
    });
    // A thread that could not tell is gone, too.
    let _ = end.await;
}

/// Waits until a condition holds, and returns how long it took.
///
/// # Errors
///
/// When it does not hold within a minute.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) -> Result<Duration> {
    let begin = Instant::now();
    while !holds() {
        if begin.elapsed() > PATIENCE * 6 {
            return Err(format!("{what}: not in time").into());
        }
        sleep(LOOK_EVERY).await;
    }
    Ok(begin.elapsed())
}

/// The names of the config maps that [`ask`] asks for rounds.
pub fn map_names(maps: usize) -> impl Iterator<Item = String> {
    (0..maps).map(|number| format!("map-{number}"))
}

/// Makes a namespace, if there is none, and config maps in it.
///
/// # Errors
///
/// When the server refuses one of them.
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

/// Asks these config maps for one round after the other, in turn and for ever, with a pause after each.
///
/// # Errors
///
/// When the server refuses a change.
pub async fn ask(user: CachedClient, namespace: &str, maps: usize, pause: Duration) -> Result {
    let names: Vec<String> = map_names(maps).collect();
    for (name, round) in names.iter().cycle().zip(1_u64..) {
        let asked = Patch::merge(json!({"data": {"round": round.to_string()}}));
        user.patch::<ConfigMap>(&format!("{namespace}/{name}"), &asked).await?;
        sleep(pause).await;
    }
    Ok(())
}
