//! A condition to wait for that is a string and not a function.

use std::time::Duration;

use informer::k8s_openapi::api::core::v1::Pod;
use informer::runtime::CachedClient;

async fn wait(client: CachedClient) {
    let timeout = Duration::from_secs(10);
    let _ = client.live().wait_until::<Pod>("default/web-0", "Ready", timeout).await;
}

fn main() {
    let _ = wait;
}
