//! One controller in several processes, each of which processes its share of the keys.
//! See `README.md` in this folder.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use informer::cache::Event;
use informer::client::Lazy;
use informer::k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use informer::runtime::{
    Cache, CachedClient, Context, Controller, Manager, Outcome, ReconcileError, Request, ShardGroup, ctrl_c,
};
use informer_examples::replicas::{Replica, ask, map_names, parent_gone, set_up, until};
use informer_examples::{Result, connect};
use parking_lot::Mutex;

const NAMESPACE: &str = "example-sharded";
const MAPS: usize = 60;
/// The pause between two writes of the client that gives the controllers work.
const PAUSE: Duration = Duration::from_millis(5);

/// The environment variable with which the parent tells a child process the name of its replica.
const REPLICA: &str = "SHARDED_REPLICA";
const LEASE: &str = "SHARDED_LEASE";

/// Starts replicas as child processes, kills, pauses and stops some of them, and checks their answers. In a
/// child process, runs one replica.
#[tokio::main]
pub async fn main() -> Result {
    if let Ok(name) = std::env::var(REPLICA) {
        return replica(&name, parent_gone()).await;
    }
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, name] = arguments.as_slice()
        && flag == "--replica"
    {
        return replica(name, ctrl_c()).await;
    }
    show().await
}

/// Runs one replica: an ordinary controller to which sharding is added with one line.
async fn replica(name: &str, stop: impl Future<Output = ()>) -> Result {
    let (client, _cluster) = connect().await?;
    let lease = std::env::var(LEASE).ok().and_then(|text| text.parse().ok()).unwrap_or(15);
    let retry = (Duration::from_secs(lease) / 7).min(Duration::from_secs(2));
    let group = ShardGroup::new("answers").namespace(NAMESPACE).identity(name);
    let group = group.lease_duration(Duration::from_secs(lease)).retry_period(retry);
    let controller =
        Controller::new::<ConfigMap>("answers").sharded(group).reconcile_with(name.to_owned(), answer);
    let cache = Cache::builder(client).namespaces([NAMESPACE]).build();
    Ok(Manager::of(CachedClient::new(&cache)).controller(controller).run_until(stop).await?)
}

async fn answer(request: Request, ctx: Context, by: Arc<String>) -> Result<Outcome, ReconcileError> {
    let Some(map) = ctx.get::<ConfigMap>(&request.key).await? else { return Ok(Outcome::Done) };
    let Some(owned) = ctx.owned_key() else { return Ok(Outcome::Done) };
    let mut edited = map.edit();
    let data = edited.data.get_or_insert_default();
    let Some(round) = data.get("round").filter(|round| data.get("answered") != Some(*round)) else {
        return Ok(Outcome::Done);
    };
    let answer =
        [("answered", round.clone()), ("by", by.to_string()), ("fence", owned.check()?.version.to_string())];
    data.extend(answer.map(|(name, value)| (name.to_owned(), value)));
    // The update has the uid and the resourceVersion that were read as preconditions. If the lease of this
    // replica may have expired, the client rejects the update without sending it.
    ctx.client.update(&edited).await?;
    Ok(Outcome::Done)
}

#[derive(Default)]
struct Answers {
    count: usize,
    /// For each config map, the replica that wrote the last answer, and the fencing token (`fence`) in that
    /// answer. A later owner of a config map has a higher fencing token.
    last: BTreeMap<String, (String, u64)>,
    /// The number of answers with a lower fencing token than the previous answer, which another replica wrote
    /// to the same config map. Such an answer means that two replicas owned the key at the same time.
    late: usize,
}

impl Answers {
    fn hear(&mut self, event: &Event<Lazy<ConfigMap>>) {
        let Event::Updated { old, new, .. } = event else { return };
        let (Ok(old), Ok(new)) = (old.get(), new.get()) else { return };
        let text = |map: &ConfigMap, name: &str| map.data.as_ref().and_then(|data| data.get(name).cloned());
        if text(&old, "answered") == text(&new, "answered") {
            return;
        }
        let fence = text(&new, "fence").and_then(|fence| fence.parse().ok()).unwrap_or_default();
        let by = text(&new, "by").unwrap_or_default();
        self.count += 1;
        let before = self.last.insert(event.key().to_string(), (by.clone(), fence));
        self.late += usize::from(before.is_some_and(|(who, before)| who != by && fence < before));
    }

    fn of(&self, replica: &str) -> usize {
        self.last.values().filter(|(by, _)| by == replica).count()
    }
}

async fn show() -> Result {
    let (client, cluster) = connect().await?;
    let listening = match cluster.server() {
        Some(server) => Some(server.listen("127.0.0.1:0").await?),
        None => None,
    };
    let kubeconfig = tempfile::NamedTempFile::new()?;
    if let Some(listening) = &listening {
        std::fs::write(kubeconfig.path(), listening.kubeconfig())?;
    }
    let embedded = listening.as_ref().map(|_| kubeconfig.path().as_os_str().to_owned());
    let cache = Cache::builder(client).namespaces([NAMESPACE]).build();
    cache.start();
    let user = CachedClient::new(&cache);
    set_up(&user, NAMESPACE, map_names(MAPS)).await?;
    let answers: Arc<Mutex<Answers>> = Arc::default();
    let heard = Arc::clone(&answers);
    let maps = cache.informer::<ConfigMap>();
    maps.on_event(move |event| heard.lock().hear(&event))?;
    let asking = tokio::spawn(ask(user.clone(), NAMESPACE, MAPS, PAUSE));
    let mut replicas = Vec::new();
    for name in ["a", "b", "c"] {
        replicas.push(start(name, embedded.as_deref())?);
    }
    let shown = watch(replicas, &answers).await;
    asking.abort();
    user.delete::<Namespace>(NAMESPACE).await?;
    shown
}

async fn watch(mut replicas: Vec<Replica>, answers: &Mutex<Answers>) -> Result {
    let shares = || ["a", "b", "c"].map(|name| answers.lock().of(name));
    until("each replica owns keys", || {
        shares().iter().all(|share| *share > 0) && shares().iter().sum::<usize>() == MAPS
    })
    .await?;
    // Wait a second, so that the assignment of shards to replicas is stable.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let [a, b, c] = shares();
    println!("3 replicas share {MAPS} config maps: {a}, {b} and {c}");

    replicas[1].kill()?;
    let took = until("others own the keys of b", || answers.lock().of("b") == 0).await?;
    println!("b was killed: others own its {b} after {:.1} s", took.as_secs_f32());

    let [_, _, c] = shares();
    replicas[2].hold()?;
    let took = until("a owns all keys", || answers.lock().of("a") == MAPS).await?;
    replicas[2].go_on()?;
    until("c owns keys again", || answers.lock().of("c") > 0).await?;
    println!("c was paused past its lease: a owned its {c} after {:.1} s", took.as_secs_f32());
    tokio::time::sleep(Duration::from_secs(1)).await;

    let [_, _, c] = shares();
    replicas[2].stop();
    let took = until("a owns all keys", || answers.lock().of("a") == MAPS).await?;
    println!("c was stopped: a owns its {c} after {:.1} s", took.as_secs_f32());

    let answers = answers.lock();
    println!("{} answers, {} of them under an older fence than a previous one", answers.count, answers.late);
    match answers.late {
        0 => Ok(()),
        _ => Err("two replicas processed a key at the same time".into()),
    }
}

fn start(name: &'static str, embedded: Option<&OsStr>) -> Result<Replica> {
    Replica::start(name, |command| {
        command.env(REPLICA, name);
        let operator = std::env::var_os("OPERATOR_KUBECONFIG");
        command.envs(embedded.or(operator.as_deref()).map(|path| ("KUBECONFIG", path)));
        if embedded.is_some() && std::env::var_os(LEASE).is_none() {
            command.env(LEASE, "3");
        }
    })
}
