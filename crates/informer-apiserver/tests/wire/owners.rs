//! Garbage collection: the dependents of a deleted owner.

use informer_apiserver::{ApiServer, Controllers};
use informer_core::Gvr;
use serde_json::{Value, json};

use crate::support::{call, json as ask};

const MAPS: &str = "/api/v1/namespaces/n/configmaps";

/// Creates an owner, two dependents of it, and a dependent of one of these dependents.
async fn family(server: &ApiServer) {
    for (name, owner) in [("root", ""), ("left", "root"), ("right", "root"), ("leaf", "left")] {
        let references = match owner {
            "" => json!([]),
            owner => {
                let (_, owner) = ask(server, "GET", &format!("{MAPS}/{owner}"), "").await;
                let (name, uid) = (&owner["metadata"]["name"], &owner["metadata"]["uid"]);
                json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": true}])
            }
        };
        let object = json!({"metadata": {"name": name, "ownerReferences": references}});
        assert_eq!(call(server, "POST", MAPS, &object.to_string()).await.0, 201);
    }
}

/// Returns the names of the config maps that remain after the controllers have finished.
async fn left(server: &ApiServer) -> Vec<String> {
    server.controllers_idle().await;
    left_now(server)
}

fn left_now(server: &ApiServer) -> Vec<String> {
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    server.list(&Gvr::new("", "v1", "configmaps"), "n").unwrap().iter().map(name).collect()
}

#[tokio::test]
async fn background_deletion_deletes_all_dependents_of_an_owner() {
    let server = ApiServer::builder().build();
    family(&server).await;
    call(&server, "DELETE", &format!("{MAPS}/left"), "").await;
    assert_eq!(left(&server).await, ["right", "root"]);
    call(&server, "DELETE", &format!("{MAPS}/root"), "").await;
    assert!(left(&server).await.is_empty());
}

#[tokio::test]
async fn orphans_remain_without_owner_reference() {
    let server = ApiServer::builder().build();
    family(&server).await;
    call(&server, "DELETE", &format!("{MAPS}/root?propagationPolicy=Orphan"), "").await;
    assert_eq!(left(&server).await, ["leaf", "left", "right"]);
    let (_, orphan) = ask(&server, "GET", &format!("{MAPS}/left"), "").await;
    assert!(orphan["metadata"]["ownerReferences"].is_null(), "{orphan}");
}

#[tokio::test]
async fn an_owner_in_the_foreground_waits_for_a_dependent_with_a_finalizer() {
    let server = ApiServer::builder().build();
    family(&server).await;
    let hold = json!({"metadata": {"finalizers": ["x.io/hold"]}}).to_string();
    let merge = [("content-type", "application/merge-patch+json")];
    let patch = crate::support::send_with(&server, "PATCH", &format!("{MAPS}/leaf"), &merge, &hold).await;
    assert_eq!(patch.status(), 200);
    call(&server, "DELETE", &format!("{MAPS}/root?propagationPolicy=Foreground"), "").await;
    assert_eq!(left(&server).await, ["leaf", "left", "root"]);
    let free = json!({"metadata": {"finalizers": null}}).to_string();
    crate::support::send_with(&server, "PATCH", &format!("{MAPS}/leaf"), &merge, &free).await;
    assert_eq!(left(&server).await, Vec::<String>::new());
}

#[tokio::test]
async fn without_the_garbage_collector_dependents_and_finalizers_remain() {
    let server = ApiServer::builder().controllers(Controllers::NONE).build();
    family(&server).await;
    call(&server, "DELETE", &format!("{MAPS}/left"), "").await;
    call(&server, "DELETE", &format!("{MAPS}/root?propagationPolicy=Foreground"), "").await;
    assert_eq!(left(&server).await, ["leaf", "right", "root"]);
}

/// Creates a chain of config maps, in which each is the owner of the next.
fn chain(server: &ApiServer, length: usize) {
    let uid = |index: usize| format!("{index:08}-0000-4000-8000-000000000000");
    let name = |index: usize| format!("link-{index:08}");
    let link = |index: usize| {
        let mut object = json!({"metadata": {"name": name(index), "namespace": "n", "uid": uid(index)}});
        if let Some(owner) = index.checked_sub(1) {
            let owner = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "name": name(owner), "uid": uid(owner), "blockOwnerDeletion": true,
            });
            object["metadata"]["ownerReferences"] = json!([owner]);
        }
        object
    };
    let maps = Gvr::new("", "v1", "configmaps");
    assert_eq!(server.load(&maps, (0..length).map(link)).unwrap(), length);
}

/// Runs a function in a thread with a small stack, which a few hundred nested deletions would overflow.
fn on_a_small_stack(run: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn chain_of_a_hundred_thousand_owners_is_collected_without_recursion() {
    on_a_small_stack(|| {
        let server = ApiServer::builder().build();
        chain(&server, 100_000);
        server.delete(&Gvr::new("", "v1", "configmaps"), "n", "link-00000000").unwrap();
        assert!(left_now(&server).is_empty());
    });
}

#[test]
fn foreground_deletion_of_a_long_chain_is_completed_without_recursion() {
    on_a_small_stack(|| {
        let server = ApiServer::builder().build();
        chain(&server, 10_000);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let url = format!("{MAPS}/link-00000000?propagationPolicy=Foreground");
        runtime.block_on(async {
            assert_eq!(call(&server, "DELETE", &url, "").await.0, 200);
            assert!(left(&server).await.is_empty());
        });
    });
}

#[test]
fn chain_through_namespaces_is_collected_without_recursion() {
    on_a_small_stack(|| {
        let server = ApiServer::builder().build();
        let (namespaces, maps) = (Gvr::new("", "v1", "namespaces"), Gvr::new("", "v1", "configmaps"));
        let mut owner: Option<Value> = None;
        for index in 0..500 {
            let name = format!("n{index}");
            let mut namespace = json!({"metadata": {"name": name}});
            if let Some(owner) = owner.take() {
                namespace["metadata"]["ownerReferences"] = json!([owner]);
            }
            server.create(&namespaces, "", namespace).unwrap();
            let map = server.create(&maps, &name, json!({"metadata": {"name": "map"}})).unwrap();
            let uid = &map["metadata"]["uid"];
            owner = Some(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "map", "uid": uid}));
        }
        server.delete(&namespaces, "", "n0").unwrap();
        let left = server.list(&namespaces, "").unwrap();
        assert_eq!(left.len(), 4, "the namespaces of every cluster remain");
    });
}

#[tokio::test]
async fn server_responds_while_a_large_namespace_is_deleted() {
    const OBJECTS: usize = 20_000;
    let server = ApiServer::builder().build();
    let (namespaces, maps) = (Gvr::new("", "v1", "namespaces"), Gvr::new("", "v1", "configmaps"));
    server.create(&namespaces, "", json!({"metadata": {"name": "n"}})).unwrap();
    let map = |index: usize| json!({"metadata": {"name": format!("map-{index}"), "namespace": "n"}});
    server.load(&maps, (0..OBJECTS).map(map)).unwrap();
    let (status, terminating) = ask(&server, "DELETE", "/api/v1/namespaces/n", "").await;
    assert_eq!((status, &terminating["status"]["phase"]), (200, &json!("Terminating")));
    let mut counts = Vec::new();
    loop {
        let (status, namespace) = ask(&server, "GET", "/api/v1/namespaces/n", "").await;
        if status == 404 {
            break;
        }
        assert_eq!(namespace["status"]["phase"], "Terminating");
        counts.push(server.list(&maps, "n").unwrap().len());
        tokio::task::yield_now().await;
    }
    assert!(counts.iter().any(|count| (1..OBJECTS).contains(count)), "never partly deleted: {counts:?}");
    assert!(counts.is_sorted_by(|before, after| before >= after), "{counts:?}");
    assert!(left_now(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn object_created_after_its_owner_was_deleted_is_collected() {
    let server = ApiServer::builder().build();
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "0-1"});
    let object = json!({"metadata": {"name": "late", "ownerReferences": [owner]}});
    assert_eq!(call(&server, "POST", MAPS, &object.to_string()).await.0, 201);
    assert_eq!(left_now(&server), ["late"]);
    assert_eq!(left(&server).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn objects_of_the_embedding_program_may_have_missing_owners() {
    let server = ApiServer::builder().build();
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "0-1"});
    let object = json!({"metadata": {"name": "fixture", "ownerReferences": [owner]}});
    server.create(&Gvr::new("", "v1", "configmaps"), "n", object).unwrap();
    assert_eq!(left(&server).await, ["fixture"]);
}

#[tokio::test(start_paused = true)]
async fn dropped_server_leaves_no_task_behind() {
    let server = ApiServer::builder().build();
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "0-1"});
    let object = json!({"metadata": {"name": "late", "ownerReferences": [owner]}});
    assert_eq!(call(&server, "POST", MAPS, &object.to_string()).await.0, 201);
    tokio::task::yield_now().await;
    let runtime = tokio::runtime::Handle::current().metrics();
    assert_eq!(runtime.num_alive_tasks(), 1, "the collector waits for its delay");
    drop(server);
    tokio::task::yield_now().await;
    assert_eq!(runtime.num_alive_tasks(), 0);
}
