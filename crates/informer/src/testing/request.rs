//! Matchers of requests, for [fault rules](super::TestServer::faults) and for
//! [`TestServer::requests`](super::TestServer::requests).
//!
//! A function of this module matches requests for one kind by their verb, in all namespaces. The resulting
//! [`FaultMatch`] can be restricted: [`named`](FaultMatch::named) to an object,
//! [`in_namespace`](FaultMatch::in_namespace) to a namespace, and its fields to a client or a query.
//!
//! ```
//! use informer::testing::{TestServer, pod, request};
//! use k8s_openapi::api::core::v1::Pod;
//! use kube_client::Api;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = TestServer::start().await;
//! server.create(&pod("default/web-0")).await?;
//! server.faults().on(request::delete::<Pod>().named("default/web-0")).nth(1).status(503);
//!
//! let pods: Api<Pod> = Api::default_namespaced(server.kube_client());
//! assert!(pods.delete("web-0", &Default::default()).await.is_err());
//! assert!(pods.delete("web-0", &Default::default()).await.is_ok());
//! assert_eq!(server.requests(request::delete::<Pod>()).count(), 2);
//! assert_eq!(server.requests(request::write::<Pod>()).count(), 2);
//! # Ok(()) }
//! ```
//!
//! The requests of the methods of `CachedClient` in a controller:
//!
//! | method | request |
//! |---|---|
//! | `create` | [`create`] |
//! | `update`, `patch` | [`patch`] |
//! | `status().update`, `status().patch` | [`patch_status`] |
//! | `apply`, `status().apply` | [`apply`], [`apply_status`] |
//! | `replace` | [`update`] |
//! | `delete` | [`delete`] |
//! | `live().get` | [`get`] |
//! | the cache of a kind | [`initial_list`], [`watch`] |
//!
//! The client of kube sends [`update`] for `Api::replace` and [`update_status`] for `Api::replace_status`.

use informer_apiserver::{FaultMatch, Verb};
use kube_core::Resource;

/// Matches get requests of the kind `K`, without subresources.
pub fn get<K: Resource<DynamicType = ()>>() -> FaultMatch {
    object::<K>(Verb::Get)
}

/// Matches list requests of the kind `K`: one request for each page. A streaming list is a
/// [watch](watch()); [`initial_list`] matches both.
pub fn list<K: Resource<DynamicType = ()>>() -> FaultMatch {
    FaultMatch { verb: Some(Verb::List), ..kind::<K>() }
}

/// Matches watch requests of the kind `K`, also those of streaming lists.
pub fn watch<K: Resource<DynamicType = ()>>() -> FaultMatch {
    FaultMatch { verb: Some(Verb::Watch), ..kind::<K>() }
}

/// Matches the request that begins a list of the kind `K`: a list request for the first page, or the watch
/// of a streaming list. The number of these requests is the same for clients with and without streaming
/// lists: 1, and another one for each relist.
///
/// ```
/// use informer::client::StreamingLists;
/// use informer::prelude::*;
/// use informer::testing::{TestServer, list, request};
/// use k8s_openapi::api::core::v1::Pod;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// for (streaming, lists) in [(StreamingLists::Off, 1), (StreamingLists::Auto, 0)] {
///     let server = TestServer::start().await;
///     let factory = SharedInformerFactory::new(server.client()).streaming_lists(streaming);
///     let pods = factory.informer::<Pod>();
///     factory.start();
///     pods.wait_for_sync(std::time::Duration::from_secs(60)).await?;
///     assert_eq!(server.requests(list::<Pod>()).count(), lists);
///     assert_eq!(server.requests(request::initial_list::<Pod>()).count(), 1);
/// }
/// # Ok(()) }
/// ```
pub fn initial_list<K: Resource<DynamicType = ()>>() -> FaultMatch {
    FaultMatch { initial_list: Some(true), ..kind::<K>() }
}

/// Matches create requests of the kind `K`, without subresources. They have no name in their path.
pub fn create<K: Resource<DynamicType = ()>>() -> FaultMatch {
    object::<K>(Verb::Create)
}

/// Matches update requests (PUT) of objects of the kind `K`, without subresources. An update by
/// `CachedClient::update` is a [patch](patch()).
pub fn update<K: Resource<DynamicType = ()>>() -> FaultMatch {
    object::<K>(Verb::Update)
}

/// Matches update requests (PUT) of the subresource `status` of objects of the kind `K`. An update by
/// `CachedClient::status` is a [patch of the status](patch_status).
pub fn update_status<K: Resource<DynamicType = ()>>() -> FaultMatch {
    of_status(object::<K>(Verb::Update))
}

/// Matches patch requests of objects of the kind `K`, without subresources. Server-side apply is
/// [another matcher](apply).
pub fn patch<K: Resource<DynamicType = ()>>() -> FaultMatch {
    FaultMatch { apply: Some(false), ..object::<K>(Verb::Patch) }
}

/// Matches patch requests of the subresource `status` of objects of the kind `K`. Server-side apply is
/// [another matcher](apply_status).
pub fn patch_status<K: Resource<DynamicType = ()>>() -> FaultMatch {
    of_status(patch::<K>())
}

/// Matches requests of server-side apply of objects of the kind `K`, without subresources.
pub fn apply<K: Resource<DynamicType = ()>>() -> FaultMatch {
    FaultMatch { apply: Some(true), ..object::<K>(Verb::Patch) }
}

/// Matches requests of server-side apply of the subresource `status` of objects of the kind `K`.
pub fn apply_status<K: Resource<DynamicType = ()>>() -> FaultMatch {
    of_status(apply::<K>())
}

/// Matches delete requests of objects of the kind `K`. A deletion of a whole collection does not match.
pub fn delete<K: Resource<DynamicType = ()>>() -> FaultMatch {
    object::<K>(Verb::Delete)
}

/// Matches all requests that write objects of the kind `K`, without subresources: creations, updates,
/// patches, applies, deletions, and deletions of a whole collection.
pub fn write<K: Resource<DynamicType = ()>>() -> FaultMatch {
    FaultMatch { write: Some(true), subresource: Some(String::new()), ..kind::<K>() }
}

/// Matches all requests that write the subresource `status` of objects of the kind `K`: updates, patches and
/// applies.
pub fn write_status<K: Resource<DynamicType = ()>>() -> FaultMatch {
    of_status(write::<K>())
}

fn kind<K: Resource<DynamicType = ()>>() -> FaultMatch {
    let (resource, group) = (K::plural(&()).into_owned(), K::group(&()).into_owned());
    FaultMatch { resource: Some(resource), group: Some(group), ..FaultMatch::default() }
}

/// Matches requests for the objects of a kind, and not for their subresources.
fn object<K: Resource<DynamicType = ()>>(verb: Verb) -> FaultMatch {
    FaultMatch { verb: Some(verb), subresource: Some(String::new()), ..kind::<K>() }
}

fn of_status(matching: FaultMatch) -> FaultMatch {
    FaultMatch { subresource: Some("status".to_owned()), ..matching }
}
