//! Measures a process with many informers of small kinds, as a platform of operators has them: the memory of
//! an informer, and what the process does while nothing changes.
//!
//! The server is the embedded one in a separate process, over TLS, so that all watches share HTTP/2
//! connections as they do on a real server.

use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use informer::cache::{SharedInformer, SharedInformerFactory};
use informer::client::{Client, Dynamic};
use informer::kube_client::config::Kubeconfig;
use informer_apiserver::{ApiServer, KindDefinition, Tls};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::sleep;

use super::arguments::Kind;
use super::{Failure, config_from, gauge, objects, resource};

const MAX_SYNC: Duration = Duration::from_secs(600);
/// The time after the sync until the measurement, in which the last responses and bookmarks arrive.
const SETTLE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Idle {
    /// Number of kinds, each with one informer.
    #[arg(long, default_value_t = 1_000)]
    kinds: usize,
    /// Number of objects of each kind: names and labels only.
    #[arg(long, default_value_t = 10)]
    objects: usize,
    /// Duration of the measurement after the sync.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// Serves the kinds until this process is killed. Prints a kubeconfig as JSON.
pub(super) async fn serve(options: Idle) -> Result<(), Failure> {
    let kinds: Vec<_> = (1..=options.kinds).map(|at| resource(Kind::Crd, at)).collect();
    let custom = kinds.iter().map(|kind| KindDefinition::custom(objects::GROUP, "v1", kind.kind()));
    let api = custom.fold(ApiServer::builder(), |builder, kind| builder.kind(kind)).build();
    for kind in &kinds {
        let object = |n| {
            let mut object = objects::bare(Kind::Crd, 1, n);
            object["apiVersion"] = kind.gvr().api_version().into();
            object["kind"] = kind.kind().into();
            object
        };
        api.raw().load(&kind.gvr(), (0..options.objects).map(object))?;
    }
    let listening = api.listen_tls("127.0.0.1:0", Tls::self_signed()?).await?;
    println!("{}", json!({"kubeconfig": listening.kubeconfig()}));
    std::future::pending().await
}

pub(super) async fn idle(options: Idle) -> Result<(), Failure> {
    if options.kinds < 2 || options.seconds == 0 {
        return Err("--kinds must be at least 2, and --seconds at least 1".into());
    }
    let mut server = Command::new(std::env::current_exe()?)
        .arg("idle-serve")
        .args(["--kinds", &options.kinds.to_string(), "--objects", &options.objects.to_string()])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let output = server.stdout.take().ok_or("the server has no standard output")?;
    let line = BufReader::new(output).lines().next_line().await?.ok_or("the server printed nothing")?;
    let served: Value = serde_json::from_str(&line)?;
    let kubeconfig = served["kubeconfig"].as_str().ok_or("the server printed no kubeconfig")?;
    let client = Client::new(config_from(Kubeconfig::from_yaml(kubeconfig)?).await?)?;

    let factory = SharedInformerFactory::new(client);
    let informer = |at| factory.dynamic(resource(Kind::Crd, at));
    // The first informer is started before the measurement, because it opens the connection.
    let first = informer(1);
    factory.start();
    first.wait_for_sync(MAX_SYNC).await?;
    let (before, _) = gauge::resident();
    let informers: Vec<SharedInformer<Dynamic>> = (2..=options.kinds).map(informer).collect();
    factory.start();
    factory.wait_for_cache_sync(MAX_SYNC).await?;
    let held: usize = informers.iter().map(|informer| informer.indexer().len()).sum();
    if held != informers.len() * options.objects {
        return Err(format!("{held} objects in the caches of {} informers", informers.len()).into());
    }
    sleep(SETTLE).await;
    let (after, _) = gauge::resident();
    let (busy, woken) = (gauge::cpu(), gauge::wake_ups());
    sleep(Duration::from_secs(options.seconds)).await;
    let (busy, woken) = (gauge::cpu() - busy, gauge::wake_ups() - woken);
    let seconds = options.seconds as f64;
    println!(
        "{}",
        json!({
            "memory of an informer, KB": (after - before) / informers.len() as f64,
            "idle, CPU ms a minute": busy.as_secs_f64() * 60e3 / seconds,
            "idle, wake-ups a second": woken / seconds,
        })
    );
    factory.shutdown().await;
    Ok(())
}
