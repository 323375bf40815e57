//! Runs the operator on the cluster of the kubeconfig, or inside a pod on the cluster of the
//! pod.

mod settings;

use std::error::Error;
use std::process::ExitCode;

use informer::prelude::*;
use minimal::{api, controllers};
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
    manager.run_until(ctrl_c()).await?;
    Ok(())
}

fn print_crds() -> Result<(), Box<dyn Error>> {
    for crd in api::crds() {
        print!("---\n{}", serde_norway::to_string(&crd)?);
    }
    Ok(())
}
