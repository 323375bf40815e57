//! An expectation of a test that is not a matcher.

use informer::k8s_openapi::api::core::v1::Pod;
use informer::testing::TestServer;

fn test(server: &TestServer) {
    drop(server.eventually::<Pod, _>("default/web", "Running"));
}

fn main() {
    let _ = test;
}
