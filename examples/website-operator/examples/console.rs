//! Runs the operator on an embedded API server with an injected fault, and serves the console.
//!
//! Usage: `cargo run -p website-operator --example console [ADDRESS]...`. With several addresses, it runs a
//! replica with a console for each, and the replicas share the Websites. The program changes Websites until
//! its standard input ends. The tests of the console in the browser use it.

use std::time::Duration;

use informer::prelude::*;
use informer::runtime::ShardGroup;
use informer::runtime::console::Console;
use informer::testing::{FaultMatch, TestServer, Verb};
use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use tokio::task::JoinSet;
use website_operator::{Website, WebsiteSpec, controller, sharded_controller};

/// The number of Websites.
const SITES: usize = 200;

/// The share of rejected applies and status updates.
const FAULTS: f64 = 0.05;

/// The time between two changes.
const PERIOD: Duration = Duration::from_millis(50);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut addresses: Vec<String> = std::env::args().skip(1).collect();
    if addresses.is_empty() {
        addresses.push("127.0.0.1:8082".to_owned());
    }
    let server = TestServer::start().await;
    server.load_yaml(concat!(env!("CARGO_MANIFEST_DIR"), "/website.crd.yaml"))?;
    for number in 0..SITES {
        let spec = WebsiteSpec { image: "registry.example.com/shop:1".to_owned(), replicas: 1 };
        let mut site = Website::new(&format!("shop-{number}"), spec);
        site.metadata.namespace = Some("default".to_owned());
        server.create(&site).await?;
    }
    let _fault = server.faults().on(FaultMatch::verb(Verb::Patch)).probability(FAULTS, 1).status(409);
    let (stop, stopped) = watch::channel(());
    let mut replicas = JoinSet::new();
    for (number, address) in addresses.iter().enumerate() {
        let controller = match addresses.len() {
            1 => controller(),
            _ => sharded_controller(group(number)),
        };
        let console = Console::at(address).show_objects(true);
        let manager = Manager::new(server.client()).console(console).controller(controller);
        let mut stopped = stopped.clone();
        replicas.spawn(manager.run_until(async move {
            // The wait ends when the sender is dropped.
            let _ = stopped.changed().await;
        }));
        println!("http://{address}/debug/informer/");
    }
    let changes = tokio::spawn(change(server.clone()));
    end_of_input().await;
    drop(stop);
    for ended in replicas.join_all().await {
        ended?;
    }
    changes.abort();
    Ok(())
}

fn group(replica: usize) -> ShardGroup {
    ShardGroup::new("website").namespace("default").identity(format!("website-operator-{replica}"))
}

/// Changes one Website after the other.
async fn change(server: TestServer) {
    let mut timer = tokio::time::interval(PERIOD);
    for number in 0_usize.. {
        timer.tick().await;
        let key = format!("default/shop-{}", number % SITES);
        let Ok(mut site) = server.get::<Website>(&key).await else { continue };
        site.spec.replicas = site.spec.replicas % 9 + 1;
        // A conflict with the status update of the operator does not matter: the next change succeeds.
        let _ = server.update(&site).await;
    }
}

async fn end_of_input() {
    let mut input = tokio::io::stdin();
    while input.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {}
}
