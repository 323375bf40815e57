//! Runs the operator on the cluster of the kubeconfig, or inside a pod on the cluster of the
//! pod.

mod settings;

use std::error::Error;
use std::process::ExitCode;

use complete::{api, controllers, webhooks};
use informer::prelude::*;
use informer::runtime::LeaderElection;
use settings::{Command, Settings};

#[tokio::main]
async fn main() -> ExitCode {
    match execute().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  caused by: {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

async fn execute() -> Result<(), Box<dyn Error>> {
    let settings = Settings::read()?;
    match settings.command {
        Some(Command::Crds) => print_crds(),
        None => run(&settings).await,
    }
}

/// Runs until SIGINT, SIGTERM or an error. The manager waits for running reconciles before it
/// ends.
async fn run(settings: &Settings) -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt()
        .with_env_filter(settings.log.as_str())
        .init();
    tracing::info!(config = ?settings.config, "starting");
    let manager = Manager::new(Client::try_default().await?)
        .health(settings.health_address.as_str())
        .metrics(settings.metrics_address.as_str());
    let manager = controllers::add_to(manager);
    let manager = match settings.leader_election {
        true => manager.leader_election(LeaderElection::new("complete")),
        false => manager,
    };
    let manager = webhooks::add_to(manager, &settings.webhooks);
    manager.run_until(ctrl_c()).await?;
    Ok(())
}

fn print_crds() -> Result<(), Box<dyn Error>> {
    for crd in api::crds() {
        print!("---\n{}", serde_norway::to_string(&crd)?);
    }
    Ok(())
}
