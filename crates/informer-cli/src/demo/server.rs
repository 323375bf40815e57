//! The demo's API server: a child process of the same executable, so that its memory and CPU time are
//! measured separately from those of the informers.
//!
//! The server and its parent process exchange lines over stdin and stdout:
//!
//! 1. The server creates its objects, and then reports its address as JSON.
//! 2. The parent sends a line, and the server starts to change objects.
//! 3. The server reports the number of changes.
//! 4. The parent closes the server's stdin, and the server exits.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use informer::Gvr;
use informer_apiserver::{ApiServer, FaultAction, FaultMatch};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::objects::Objects;
use crate::failure::Failure;

/// The number of bursts of changes per second. Changes are made in bursts, because a timer cannot tick
/// thousands of times per second.
const TICKS_PER_SECOND: u64 = 100;
/// One pod in this number changes frequently. At least four of five changes go to these pods, as in a
/// rollout.
const HOT_SHARE: usize = 20;

#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArguments {
    #[arg(long)]
    pub(crate) objects: usize,
    #[arg(long)]
    pub(crate) config_maps: usize,
    #[arg(long)]
    pub(crate) rate: u64,
    #[arg(long)]
    pub(crate) seconds: u64,
    #[arg(long)]
    pub(crate) seed: u64,
}

/// A message that the demo server sends to its parent process: one line of JSON on stdout.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ServerMessage {
    /// The server has created this number of objects so far.
    Filled(usize),
    /// The server has created all objects and listens at this URL.
    Listening(String),
    /// The server has made all changes.
    Changed { changes: u64, seconds: f64 },
}

fn say(said: &ServerMessage) {
    // Only the parent process reads stdout. If the parent has exited, `println!` panics and thereby ends this
    // process, which is no longer needed.
    println!("{}", serde_json::to_string(said).expect("strings and numbers are JSON"));
}

pub(crate) async fn run(arguments: ServerArguments) -> Result<(), Failure> {
    let server = ApiServer::builder().build();
    let mut objects = Objects::new(arguments.seed, arguments.objects);
    fill(&server, &mut objects, &arguments)?;
    let listening =
        server.listen("127.0.0.1:0").await.map_err(|error| Failure::io("listen on 127.0.0.1", error))?;
    say(&ServerMessage::Listening(listening.url()));

    let mut lines = BufReader::new(stdin()).lines();
    while let Ok(Some(_)) = lines.next_line().await {
        add_faults(&server, &arguments);
        let begin = Instant::now();
        let changes = change(&server, &mut objects, &arguments).await?;
        say(&ServerMessage::Changed { changes, seconds: begin.elapsed().as_secs_f64() });
    }
    listening.shutdown().await;
    Ok(())
}

fn fill(server: &ApiServer, objects: &mut Objects, arguments: &ServerArguments) -> Result<(), Failure> {
    const CHUNK: usize = 1000;
    let failed = |error| Failure::new(format!("the demo server cannot create its objects: {error}"));
    for begin in (0..arguments.objects).step_by(CHUNK) {
        let end = (begin + CHUNK).min(arguments.objects);
        let pods: Vec<_> = (begin..end).map(|number| objects.pod(number)).collect();
        server.load(&pods_gvr(), pods).map_err(failed)?;
        say(&ServerMessage::Filled(end));
    }
    let maps: Vec<_> = (0..arguments.config_maps).map(|number| objects.config_map(number)).collect();
    server.load(&maps_gvr(), maps).map_err(failed)?;
    Ok(())
}

/// Adds two faults, so that the demo shows recoveries. The first watch of pods is closed abruptly after as
/// many events as a third of the planned changes. The second watch expires with 410 after the same number of
/// events.
fn add_faults(server: &ApiServer, arguments: &ServerArguments) {
    let third = arguments.rate * arguments.seconds / 3;
    let cut = FaultAction::Cut { after_events: Some(third), after_bytes: None, abrupt: true };
    server.faults().on(FaultMatch::watch("pods")).nth(1).then(cut);
    server.faults().on(FaultMatch::watch("pods")).nth(2).then(FaultAction::Expire { after_events: third });
}

/// Changes pods at the rate in `arguments` and returns the number of changes. Most changes are updates;
/// sometimes a pod is deleted and another one is created.
async fn change(
    server: &ApiServer,
    objects: &mut Objects,
    arguments: &ServerArguments,
) -> Result<u64, Failure> {
    let mut random = StdRng::seed_from_u64(arguments.seed ^ 1);
    let mut keys: Vec<_> =
        server.versions(&pods_gvr()).map_err(Failure::server)?.into_iter().map(|(key, _)| key).collect();
    let (mut made, total) = (0, arguments.rate * arguments.seconds);
    let (mut next_new, begin) = (arguments.objects, Instant::now());
    let mut ticks = interval(Duration::from_micros(1_000_000 / TICKS_PER_SECOND));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while made < total && !keys.is_empty() {
        ticks.tick().await;
        let due = (begin.elapsed().as_secs_f64() * arguments.rate as f64) as u64;
        while made < due.min(total) {
            let index = pick(&mut random, keys.len());
            let key = keys[index].clone();
            let namespace = key.namespace().unwrap_or_default();
            if random.random_range(0..100) == 0 {
                server.delete(&pods_gvr(), namespace, key.name()).map_err(Failure::server)?;
                let mut pod = objects.pod(next_new);
                next_new += 1;
                objects.touch(&mut pod, now_nanos());
                let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
                let created = server.create(&pods_gvr(), &namespace, pod).map_err(Failure::server)?;
                let name = created["metadata"]["name"].as_str().unwrap_or_default();
                keys[index] = informer::ObjectKey::new(&namespace, name)
                    .map_err(|error| Failure::new(error.to_string()))?;
                made += 2;
            } else {
                let mut pod = server.get(&pods_gvr(), namespace, key.name()).map_err(Failure::server)?;
                objects.touch(&mut pod, now_nanos());
                server.update(&pods_gvr(), namespace, pod).map_err(Failure::server)?;
                made += 1;
            }
        }
    }
    Ok(made)
}

fn pick(random: &mut StdRng, keys: usize) -> usize {
    let hot = (keys / HOT_SHARE).max(1);
    match random.random_range(0..5) {
        0 => random.random_range(0..keys),
        _ => random.random_range(0..hot),
    }
}

/// Returns the time of the wall clock in nanoseconds. The demo server and its parent process share this
/// clock, so the parent can compute how long ago the server changed a pod.
pub(crate) fn now_nanos() -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "a latency between two processes is measured on the clock they share"
    )]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

pub(crate) fn pods_gvr() -> Gvr {
    Gvr::new("", "v1", "pods")
}

fn maps_gvr() -> Gvr {
    Gvr::new("", "v1", "configmaps")
}
