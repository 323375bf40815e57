//! A duration instead of a policy.

use std::time::Duration;

use informer::Header;
use informer::cache::client_go::ExpirationCache;

fn main() {
    let _: ExpirationCache<Header> = ExpirationCache::new(Duration::from_secs(60));
}
