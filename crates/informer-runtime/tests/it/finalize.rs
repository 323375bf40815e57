//! Tests of `Context::finalize`: the finalizer is added before the reconciler acts, and removed after the
//! cleanup has succeeded.

use std::sync::Arc;

use informer_apiserver::Verb;
use informer_runtime::testing::TestContext;
use informer_runtime::{
    CleanupError, Context, Fetched, Finalization, ReconcileError, WriteError, contains_finalizer,
};
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::client::color;
use crate::fixture::{SOON, Server, gvr};

const KEY: &str = "default/m";
const NAME: &str = "example.com/bucket";
const OTHER: &str = "example.com/other";

/// The states of the object with which the cleanup was called.
type Calls = Arc<Mutex<Vec<Fetched<ConfigMap>>>>;

async fn context(server: &Server) -> Context {
    TestContext::builder(&server.client()).watches::<ConfigMap>().build().await.expect("it syncs").context()
}

async fn get(ctx: &Context) -> Fetched<ConfigMap> {
    ctx.get::<ConfigMap>(KEY).await.expect("it is watched").expect("it exists")
}

fn finalizers(server: &Server) -> Value {
    server.get("configmaps", KEY)["metadata"]["finalizers"].clone()
}

fn delete(server: &Server) {
    server.api.delete(&gvr("configmaps"), "default", "m").expect("it exists");
}

fn exists(server: &Server) -> bool {
    server.api.get(&gvr("configmaps"), "default", "m").is_ok()
}

/// Changes the object as another program.
fn change(server: &Server, change: impl FnOnce(&mut Value)) {
    let mut map = server.get("configmaps", KEY);
    change(&mut map);
    server.api.update(&gvr("configmaps"), "default", map).expect("a valid change");
}

fn writes(server: &Server) -> usize {
    server.api.count_requests(Verb::Patch, "configmaps")
}

/// Finalizes an object with a cleanup that notes its calls and returns this result.
async fn finalize(
    ctx: &Context,
    map: &Fetched<ConfigMap>,
    calls: &Calls,
    result: Result<(), ReconcileError>,
) -> Result<Finalization<ConfigMap>, ReconcileError> {
    let calls = Arc::clone(calls);
    let cleanup = |map| async move {
        calls.lock().push(map);
        result
    };
    ctx.finalize(map, NAME, cleanup).await
}

/// Returns the context of a controller and its cached object, which has this finalizer and is being deleted.
async fn deleted_object(server: &Server, finalizers: &[&str]) -> (Context, Fetched<ConfigMap>) {
    server.create("configmaps", KEY, json!({"metadata": {"finalizers": finalizers}}));
    delete(server);
    let ctx = context(server).await;
    let map = get(&ctx).await;
    assert!(map.metadata.deletion_timestamp.is_some());
    (ctx, map)
}

#[tokio::test(start_paused = true)]
async fn finalizer_is_added_with_one_write_and_the_cleanup_is_not_called() {
    let (server, calls) = (Server::start(), Calls::default());
    server.create("configmaps", KEY, json!({"metadata": {"finalizers": [OTHER]}, "data": {"color": "red"}}));
    let ctx = context(&server).await;
    let Finalization::Active(active) = finalize(&ctx, &get(&ctx).await, &calls, Ok(())).await.unwrap() else {
        panic!("it is not being deleted");
    };
    assert!(contains_finalizer(&*active, NAME) && contains_finalizer(&*active, OTHER));
    assert_eq!(color(&active), "red");
    assert_eq!((finalizers(&server), writes(&server)), (json!([OTHER, NAME]), 1));

    // Later reconciles write nothing.
    for map in [&active, &get(&ctx).await] {
        let Finalization::Active(same) = finalize(&ctx, map, &calls, Ok(())).await.unwrap() else {
            panic!("it is not being deleted");
        };
        assert_eq!(same.metadata.resource_version, active.metadata.resource_version);
    }
    assert_eq!((writes(&server), calls.lock().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn finalizer_is_removed_after_the_cleanup() {
    let server = Server::start();
    let (ctx, map) = deleted_object(&server, &[NAME]).await;
    let seen = Mutex::new(Vec::new());
    let cleanup = async |map: Fetched<ConfigMap>| {
        seen.lock().push((map.key().unwrap().to_string(), finalizers(&server), writes(&server)));
        Ok(())
    };
    let finalized = ctx.finalize(&map, NAME, cleanup).await.unwrap();
    assert!(matches!(finalized, Finalization::Deleting), "{finalized:?}");
    assert_eq!(*seen.lock(), [(KEY.to_owned(), json!([NAME]), 0)]);
    assert_eq!((exists(&server), writes(&server)), (false, 1));
    assert!(ctx.get::<ConfigMap>(KEY).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn failed_cleanup_keeps_the_finalizer() {
    let (server, calls) = (Server::start(), Calls::default());
    let (ctx, map) = deleted_object(&server, &[NAME]).await;
    let error = finalize(&ctx, &map, &calls, Err("the bucket is locked".into())).await.unwrap_err();
    assert!(error.cause().is::<CleanupError>(), "{error:?}");
    let text = "finalize ConfigMap default/m: the cleanup of example.com/bucket failed; the object keeps the \
        finalizer: the bucket is locked";
    assert_eq!((error.to_string().as_str(), error.is_terminal(), error.priority()), (text, false, None));
    assert_eq!((finalizers(&server), writes(&server)), (json!([NAME]), 0));

    let terminal = ReconcileError::terminal("it is not ours").with_priority(-5);
    let error = finalize(&ctx, &map, &calls, Err(terminal)).await.unwrap_err();
    assert_eq!((error.is_terminal(), error.priority()), (true, Some(-5)));
    assert_eq!((finalizers(&server), writes(&server)), (json!([NAME]), 0));

    let finalized = finalize(&ctx, &map, &calls, Ok(())).await.unwrap();
    assert!(matches!(finalized, Finalization::Deleting), "{finalized:?}");
    assert_eq!((exists(&server), calls.lock().len()), (false, 3));
}

#[tokio::test(start_paused = true)]
async fn cleanup_is_called_once_while_other_finalizers_remain() {
    let (server, calls) = (Server::start(), Calls::default());
    let (ctx, map) = deleted_object(&server, &[OTHER, NAME]).await;
    drop(finalize(&ctx, &map, &calls, Ok(())).await.unwrap());
    assert_eq!(finalizers(&server), json!([OTHER]));
    let finalized = finalize(&ctx, &get(&ctx).await, &calls, Ok(())).await.unwrap();
    assert!(matches!(finalized, Finalization::Deleting), "{finalized:?}");
    assert_eq!((finalizers(&server), calls.lock().len(), writes(&server)), (json!([OTHER]), 1, 1));
}

#[tokio::test(start_paused = true)]
async fn finalizer_is_not_removed_from_a_state_that_was_not_cleaned_up() {
    let (server, calls) = (Server::start(), Calls::default());
    let (ctx, map) = deleted_object(&server, &[NAME]).await;
    // Another program writes the object while the cleanup runs.
    let cleanup = async |_: Fetched<ConfigMap>| {
        change(&server, |map| map["data"] = json!({"color": "blue"}));
        Ok(())
    };
    let error = ctx.finalize(&map, NAME, cleanup).await.unwrap_err();
    assert!(error.cause().downcast_ref::<WriteError>().is_some_and(WriteError::is_conflict), "{error}");
    assert_eq!(finalizers(&server), json!([NAME]));
    let changed = ctx.client.live().get::<ConfigMap>(KEY).await.unwrap().expect("it exists");
    ctx.client.wait_until_cached(&changed, SOON).await.unwrap();
    drop(finalize(&ctx, &get(&ctx).await, &calls, Ok(())).await.unwrap());
    assert_eq!((color(&calls.lock()[0]), exists(&server)), ("blue", false));
}

#[tokio::test(start_paused = true)]
async fn object_that_is_removed_during_the_cleanup_is_finalized() {
    let server = Server::start();
    let (ctx, map) = deleted_object(&server, &[NAME]).await;
    let cleanup = async |_: Fetched<ConfigMap>| {
        change(&server, |map| map["metadata"]["finalizers"] = json!([]));
        assert!(!exists(&server));
        Ok(())
    };
    let finalized = ctx.finalize(&map, NAME, cleanup).await.unwrap();
    assert!(matches!(finalized, Finalization::Deleting), "{finalized:?}");
    assert_eq!(writes(&server), 1);
}

#[tokio::test(start_paused = true)]
async fn finalizer_is_not_added_to_an_object_that_was_deleted_or_changed_since_it_was_read() {
    let (server, calls) = (Server::start(), Calls::default());
    server.create("configmaps", KEY, json!({"metadata": {"finalizers": [OTHER]}}));
    let ctx = context(&server).await;
    let map = get(&ctx).await;
    delete(&server);
    let error = finalize(&ctx, &map, &calls, Ok(())).await.unwrap_err();
    assert!(error.cause().downcast_ref::<WriteError>().is_some_and(WriteError::is_conflict), "{error}");
    assert_eq!(finalizers(&server), json!([OTHER]));

    change(&server, |map| map["metadata"]["finalizers"] = json!([]));
    let finalized = finalize(&ctx, &map, &calls, Ok(())).await.unwrap();
    assert!(matches!(finalized, Finalization::Deleting), "{finalized:?}");
    // A new object of the same name does not get the finalizer of the old state either.
    server.create("configmaps", KEY, json!({}));
    assert!(finalize(&ctx, &map, &calls, Ok(())).await.is_err());
    assert_eq!((finalizers(&server), calls.lock().len()), (Value::Null, 0));
}
