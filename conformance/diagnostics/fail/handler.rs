//! Handlers of a controller that do not map events to requests.

use informer::k8s_openapi::api::core::v1::{ConfigMap, Pod};
use informer::prelude::*;
use informer::runtime::handler::map;
use informer_diagnostics::Unrelated;

fn main() {
    let _ = Controller::new::<Pod>("type").watches::<ConfigMap>(Unrelated);
    let kind =
        map(|map: &ConfigMap| map.metadata.name.as_ref().and_then(|name| name.parse::<Request>().ok()));
    let _ = Controller::new::<Pod>("kind").watches::<ConfigMap>(kind);
    let _ = Controller::new::<Pod>("mapped").watches_mapped::<ConfigMap>("default/all");
}
