//! An interceptor of the wrong type.

use informer::runtime::CachedClient;
use informer_diagnostics::Unrelated;

fn client(client: &CachedClient) {
    let _ = client.intercept(Unrelated);
}

fn main() {
    let _ = client;
}
