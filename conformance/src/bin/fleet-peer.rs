//! Runs an informer of this library on config maps and prints its view (the content of its cache) on request.
//! Each line of standard input is a request. The response is one JSON line per object, then a line with the
//! number of objects and the footprint of the process. A third argument sets the number of informers, each
//! with its own connections; only the view of the first one is printed.

use std::io::Write;

use informer::Object;
use informer::cache::{InformerRun, SharedInformer};
use informer::client::{Client, KubeListWatch, Lazy};
use informer_conformance::fleet::{Entry, Footprint, hash};
use informer_conformance::{Failure, Watched};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Config;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use tokio::io::{AsyncBufReadExt, BufReader};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let kubeconfig =
        Kubeconfig::read_from(arguments.next().ok_or("the argument with the kubeconfig is missing")?)?;
    let namespace = arguments.next().ok_or("the argument with the namespace is missing")?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let informers: usize = arguments.next().map_or(Ok(1), |count| count.parse())?;
    let informer = || -> Result<SharedInformer<Lazy<ConfigMap>>, Failure> {
        let client = Client::new(config.clone())?;
        Ok(SharedInformer::new(KubeListWatch::all(client).namespace(namespace.as_str())))
    };
    let watched = Watched::start(informer()?)?;
    let others = (1..informers).map(|_| Ok(informer()?.start()));
    let _others: Vec<InformerRun> = others.collect::<Result<_, Failure>>()?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while lines.next_line().await?.is_some() {
        respond(&watched)?;
    }
    Ok(())
}

fn respond(watched: &Watched<Lazy<ConfigMap>>) -> Result<(), Failure> {
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    let held = watched.informer.snapshot();
    for map in held.list() {
        let data = map.get()?.data.clone().unwrap_or_default();
        let entry = Entry {
            key: map.key().to_string(),
            uid: map.uid().to_owned(),
            version: map.resource_version().to_string(),
            hash: hash(data.iter().map(|(name, value)| (name.as_str(), value.as_str()))),
        };
        writeln!(output, "{}", serde_json::to_string(&entry)?)?;
    }
    // The handler calls must form a legal history, whatever faults the connection has.
    watched.replayed()?;
    let synced = watched.informer.has_synced();
    let end = serde_json::json!({"end": held.len(), "synced": synced, "footprint": footprint()});
    writeln!(output, "{end}")?;
    Ok(output.flush()?)
}

/// Returns the resources of this process from the files in `/proc`; `None` on other systems than Linux.
fn footprint() -> Option<Footprint> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(Footprint {
        descriptors: std::fs::read_dir("/proc/self/fd").ok()?.count() as u64,
        tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks() as u64,
        resident: resident.trim().strip_suffix("kB")?.trim().parse().ok()?,
    })
}
