//! The spec of a custom resource instead of its kind.

use informer::prelude::*;
use informer_diagnostics::WebsiteSpec;

fn main() {
    let _ = Controller::new::<WebsiteSpec>("websites");
}
