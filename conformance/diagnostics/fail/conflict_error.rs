//! An attempt whose error does not say whether it is a conflict.

use informer::k8s_openapi::api::core::v1::ConfigMap;
use informer::runtime::{CachedClient, retry_on_conflict};

async fn count(client: CachedClient) -> Result<(), Box<dyn std::error::Error>> {
    retry_on_conflict(|| async {
        client.get::<ConfigMap>("default/counter").await?;
        Ok::<_, Box<dyn std::error::Error>>(())
    })
    .await
}

fn main() {
    let _ = count;
}
