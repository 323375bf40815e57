//! Expectations of tests.

use informer::k8s_openapi::api::core::v1::ConfigMap;
use informer::testing::{Matcher, TestServer, absent, has_field};

async fn test(server: &TestServer) {
    server.eventually("default/a", |map: &ConfigMap| map.data.is_some()).await;
    let both: Matcher<ConfigMap> =
        has_field("data.key", "value").and(|map: &ConfigMap| map.immutable.is_none());
    server.eventually("default/a", both).await;
    server.eventually("default/b", absent::<ConfigMap>()).await;
}

fn main() {
    let _ = test;
}
