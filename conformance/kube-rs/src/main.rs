//! A reflector of kube-rs on config maps that prints its view (the content of its store) on request. Each
//! line of standard input is a request. The response is one JSON line per object, then a line with their
//! number.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, Config, ResourceExt};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (kubeconfig, namespace) = (
        arguments.next().ok_or("the argument with the kubeconfig is missing")?,
        arguments.next().ok_or("the argument with the namespace is missing")?,
    );
    let config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(kubeconfig)?, &KubeConfigOptions::default()).await?;
    let api: Api<ConfigMap> = Api::namespaced(Client::try_from(config)?, &namespace);
    let (store, writer) = reflector::store();
    let events = watcher(api, watcher::Config::default()).default_backoff().reflect(writer);
    tokio::spawn(events.for_each(|_| std::future::ready(())));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while lines.next_line().await?.is_some() {
        respond(&store.state())?;
    }
    Ok(())
}

fn respond(held: &[std::sync::Arc<ConfigMap>]) -> Result<(), Box<dyn Error>> {
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    for map in held {
        let key = format!("{}/{}", map.namespace().unwrap_or_default(), map.name_any());
        let line = json!({
            "key": key, "uid": map.uid(), "version": map.resource_version(), "hash": hash(map.data.as_ref()),
        });
        writeln!(output, "{line}")?;
    }
    writeln!(output, "{}", json!({"end": held.len(), "synced": true}))?;
    Ok(output.flush()?)
}

/// Returns the FNV-1a hash of the sorted entries of a config map's data.
fn hash(data: Option<&BTreeMap<String, String>>) -> String {
    let mut sum: u64 = 0xcbf2_9ce4_8422_2325;
    for (name, value) in data.into_iter().flatten() {
        for byte in format!("{name}={value}\n").bytes() {
            sum = (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    format!("{sum:016x}")
}
