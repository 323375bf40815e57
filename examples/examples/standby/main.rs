//! One controller in several processes, only one of which is active: leader election.
//! See `README.md` in this folder.

use std::ffi::OsStr;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use informer::cache::Event;
use informer::client::Lazy;
use informer::k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use informer::runtime::{
    Cache, CachedClient, Context, Controller, LeaderElection, Leadership, Manager, ManagerHandle, Outcome,
    Patch, ReconcileError, Request,
};
use informer_examples::replicas::{Replica, ask, map_names, parent_gone, set_up, until};
use informer_examples::{PATIENCE, Result, connect};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::sleep;

const NAMESPACE: &str = "example-standby";
/// The config map to which each leader writes its fencing token without a precondition. It stands for a
/// storage without conditional writes, to which a former leader can still write.
const LEDGER: &str = "ledger";
const MAPS: usize = 20;
/// The simulated duration of the work between reading an object and writing it. If the example pauses a
/// replica, the replica is usually doing this work, and sends its write after the pause.
const WORK: Duration = Duration::from_millis(20);

/// The environment variable with which the parent tells a child process the name of its replica.
const REPLICA: &str = "STANDBY_REPLICA";
const LEASE: &str = "STANDBY_LEASE";

/// Starts replicas as child processes, kills, stops and pauses one leader after the other, and checks the
/// writes of the replicas. In a child process, runs one replica.
#[tokio::main]
pub async fn main() -> Result {
    match std::env::var(REPLICA) {
        Ok(name) => replica(name).await,
        Err(_) => show().await,
    }
}

/// Runs one replica: an ordinary controller to which leader election is added with one line.
async fn replica(name: String) -> Result {
    let (client, _cluster) = connect().await?;
    let lease = lease();
    let election = LeaderElection::new("standby").namespace(NAMESPACE).identity(&*name);
    let election = election.lease_duration(lease).renew_deadline(lease * 2 / 3).retry_period(lease * 2 / 15);
    let cache = Cache::builder(client).namespaces([NAMESPACE]).build();
    let manager = Manager::of(CachedClient::new(&cache)).leader_election(election);
    let state = State { name, manager: manager.handle() };
    let controller = Controller::new::<ConfigMap>("answers").reconcile_with(state, answer);
    Ok(manager.controller(controller).run_until(parent_gone()).await?)
}

fn lease() -> Duration {
    let seconds = std::env::var(LEASE).ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(15))
}

/// The values that all reconciles of this replica share.
struct State {
    name: String,
    manager: ManagerHandle,
}

/// Reconciles a config map in which a client has requested a round: writes the round, the name of this
/// replica and its fencing token into the config map (the answer), and before that into [`LEDGER`].
async fn answer(request: Request, ctx: Context, state: Arc<State>) -> Result<Outcome, ReconcileError> {
    let Some(map) = ctx.get::<ConfigMap>(&request.key).await? else { return Ok(Outcome::Done) };
    let mut edited = map.edit();
    let data = edited.data.get_or_insert_default();
    let Some(round) = data.get("round").filter(|round| data.get("answered") != Some(*round)) else {
        return Ok(Outcome::Done);
    };
    let Leadership::Leading(fence) = state.manager.leadership().borrow().clone() else {
        return Ok(Outcome::Done);
    };
    let (fence, by) = (fence.version.to_string(), &state.name);
    let answer = [("answered", round.clone()), ("by", by.clone()), ("fence", fence.clone())];
    data.extend(answer.map(|(name, value)| (name.to_owned(), value)));
    sleep(WORK).await;
    // The patch of the ConfigMap `LEDGER` has no precondition, so it succeeds even if another replica has
    // become the leader.
    let ledger = Patch::merge(json!({"data": {"fence": fence, "by": by}}));
    ctx.client.patch::<ConfigMap>(&format!("{NAMESPACE}/{LEDGER}"), &ledger).await?;
    // The update has the uid and the resourceVersion that were read as preconditions. If the object was
    // written in the meantime, the server rejects the update with a conflict.
    ctx.client.update(&edited).await?;
    Ok(Outcome::Done)
}

/// The writes of the replicas that the parent process has observed.
#[derive(Default)]
struct ObservedWrites {
    /// The replica that has written the last answer.
    leader: String,
    answers: usize,
    /// The highest fencing token that replicas have written to the config maps with answers, and the highest
    /// one that they have written to the config map [`LEDGER`].
    fences: [u64; 2],
    /// The number of answers with an older fencing token than an earlier answer, and the number of writes to
    /// [`LEDGER`] with an older token than an earlier write to it.
    late: [usize; 2],
}

impl ObservedWrites {
    fn hear(&mut self, event: &Event<Lazy<ConfigMap>>) {
        let Event::Updated { old, new, .. } = event else { return };
        let (Ok(old), Ok(new)) = (old.get(), new.get()) else { return };
        let text = |map: &ConfigMap, name: &str| map.data.as_ref().and_then(|data| data.get(name).cloned());
        let ledger = usize::from(event.key().name() == LEDGER);
        if text(&old, "answered") == text(&new, "answered") && text(&old, "fence") == text(&new, "fence") {
            return;
        }
        let fence: u64 = text(&new, "fence").and_then(|fence| fence.parse().ok()).unwrap_or_default();
        self.late[ledger] += usize::from(fence < self.fences[ledger]);
        self.fences[ledger] = fence.max(self.fences[ledger]);
        if ledger == 0 {
            self.answers += 1;
            self.leader = text(&new, "by").unwrap_or_default();
        }
    }
}

async fn show() -> Result {
    let (client, cluster) = connect().await?;
    let listening = match cluster.server() {
        Some(server) => Some(server.listen("127.0.0.1:0").await?),
        None => None,
    };
    let file = tempfile::NamedTempFile::new()?;
    let (mut kubeconfig, mut seconds) = (std::env::var_os("OPERATOR_KUBECONFIG"), "15".to_owned());
    if let Some(listening) = &listening {
        std::fs::write(file.path(), listening.kubeconfig())?;
        (kubeconfig, seconds) = (Some(file.path().as_os_str().to_owned()), "3".to_owned());
    }
    let seconds = std::env::var(LEASE).unwrap_or(seconds);
    let cache = Cache::builder(client).namespaces([NAMESPACE]).build();
    cache.start();
    let user = CachedClient::new(&cache);
    set_up(&user, NAMESPACE, map_names(MAPS).chain([LEDGER.to_owned()])).await?;
    let seen: Arc<Mutex<ObservedWrites>> = Arc::default();
    let heard = Arc::clone(&seen);
    cache.informer::<ConfigMap>().on_event(move |event| heard.lock().hear(&event))?;
    let asking = tokio::spawn(ask(user.clone(), NAMESPACE, MAPS, WORK));
    let start = |name| start(name, kubeconfig.as_deref(), &seconds);
    let running = ["a", "b", "c"].into_iter().map(start).collect::<Result<_>>()?;
    let shown = watch(Replicas { running, start, restarts: 0 }, &seen).await;
    asking.abort();
    user.delete::<Namespace>(NAMESPACE).await?;
    shown
}

/// Running replicas. A replica that exits because it lost its lease is started again, as a Deployment would
/// do. On a busy machine a replica can lose its lease at any time.
struct Replicas<S> {
    running: Vec<Replica>,
    start: S,
    restarts: usize,
}

impl<S: Fn(&'static str) -> Result<Replica>> Replicas<S> {
    /// Removes a replica, which is no longer started again.
    fn take(&mut self, name: &str) -> Result<Replica> {
        let index = self.running.iter().position(|replica| replica.name() == name);
        Ok(self.running.swap_remove(index.ok_or("no replica has this name")?))
    }

    /// Waits until a condition is true, and meanwhile restarts replicas that have exited.
    async fn until(&mut self, what: &str, holds: impl Fn() -> bool) -> Result<Duration> {
        let mut failure = None;
        let took = until(what, || {
            failure = failure.take().or_else(|| self.restart_ended().err());
            failure.is_some() || holds()
        })
        .await?;
        failure.map_or(Ok(took), Err)
    }

    fn restart_ended(&mut self) -> Result {
        for replica in &mut self.running {
            if replica.has_ended() {
                *replica = (self.start)(replica.name())?;
                self.restarts += 1;
            }
        }
        Ok(())
    }
}

async fn watch<S: Fn(&'static str) -> Result<Replica>>(
    mut replicas: Replicas<S>,
    seen: &Mutex<ObservedWrites>,
) -> Result {
    let leader = || seen.lock().leader.clone();
    replicas.until("a replica leads", || !leader().is_empty()).await?;
    println!("3 replicas, and {} leads", leader());

    let mut killed = replicas.take(&leader())?;
    killed.kill()?;
    let took = replicas.until("another replica leads", || leader() != killed.name()).await?;
    println!("{} was killed: {} leads after {:.1} s", killed.name(), leader(), took.as_secs_f32());

    let added = (replicas.start)("d")?;
    replicas.running.push(added);
    let mut stopped = replicas.take(&leader())?;
    stopped.stop();
    let took = replicas.until("another replica leads", || leader() != stopped.name()).await?;
    println!("{} was stopped: {} leads after {:.1} s", stopped.name(), leader(), took.as_secs_f32());
    let late = seen.lock().late;
    println!("{} answers so far, {} late, and {} in the ledger", seen.lock().answers, late[0], late[1]);
    check(late, replicas.restarts)?;

    let mut held = replicas.take(&leader())?;
    held.hold()?;
    replicas.until("another replica leads", || leader() != held.name()).await?;
    held.go_on()?;
    until("the replica exits because it lost its lease", || held.has_ended()).await?;
    sleep(PATIENCE / 10).await;
    let late = seen.lock().late;
    println!("{} was paused past its lease: {} late, and {} in the ledger", held.name(), late[0], late[1]);
    check(late, replicas.restarts + 1)
}

/// Fails if former leaders wrote more than they may. A former leader may complete one write: the write that
/// its single worker was about to send when it lost its lease. Only the write to the ledger can succeed,
/// because it has no precondition.
fn check(late: [usize; 2], former_leaders: usize) -> Result {
    if late[0] > 0 || late[1] > former_leaders {
        return Err("two leaders were active at the same time".into());
    }
    Ok(())
}

fn start(name: &'static str, kubeconfig: Option<&OsStr>, lease: &str) -> Result<Replica> {
    Replica::start(name, |command| {
        command.env(REPLICA, name).env(LEASE, lease).stderr(Stdio::null());
        command.envs(kubeconfig.map(|path| ("KUBECONFIG", path)));
    })
}
