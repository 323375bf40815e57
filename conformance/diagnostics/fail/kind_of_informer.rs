//! Informers of a type that is not a kind, and of a kind that is known only at run time.

use informer::kube_core::DynamicObject;
use informer::prelude::*;
use informer_diagnostics::WebsiteSpec;

fn informers(factory: &SharedInformerFactory) {
    factory.informer::<WebsiteSpec>();
    factory.informer::<DynamicObject>();
}

fn main() {
    let _ = informers;
}
