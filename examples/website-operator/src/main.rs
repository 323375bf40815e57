//! Runs the operator on the cluster of the kubeconfig.

use informer::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let manager = Manager::new(Client::try_default().await?)
        .health("0.0.0.0:8081")
        .metrics("0.0.0.0:8080")
        .controller(website_operator::controller());
    Ok(manager.run_until(ctrl_c()).await?)
}
