//! Kinds that lack `Clone`, or whose type is known only at run time.

use std::borrow::Cow;

use informer::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use informer::kube_core::{DynamicObject, NamespaceResourceScope, Resource};
use informer::runtime::CachedClient;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Website {
    metadata: ObjectMeta,
}

impl Resource for Website {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        "Website".into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        "example.com".into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        "websites".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

fn read(client: &CachedClient) {
    drop(client.get::<Website>("default/shop"));
    drop(client.get::<DynamicObject>("default/shop"));
}

fn main() {
    let _ = read;
}
