//! A typed informer of a spec, and an event subject without a kind.

use informer::prelude::*;
use informer::runtime::EventSubject;
use informer_diagnostics::WebsiteSpec;

fn typed(factory: &SharedInformerFactory, object: &Dynamic) {
    factory.typed::<WebsiteSpec>();
    EventSubject::of(object);
}

fn main() {
    let _ = typed;
}
