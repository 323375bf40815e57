//! Runs every example on the embedded server and checks its output.
//!
//! Each example runs in a child process of this test binary, so that `KUBECONFIG` can be removed from its
//! environment and its output can be captured.

use std::process::{Command, Output};

use informer::Gvr;
use informer_apiserver::{ApiServer, RequestRecord, Verb};
use informer_examples::Result;
use serde_json::json;

/// The name of the example that a child process runs.
const CHILD: &str = "INFORMER_EXAMPLE";

/// `name: "part of the output", ...;` for each file of `examples/`.
macro_rules! examples {
    ($($name:ident: $($part:literal),+;)+) => {
        #[expect(unreachable_pub, reason = "examples are programs, whose `main` is only called here")]
        #[path = "../examples"]
        mod programs {
            $(pub(super) mod $name;)+
        }

        $(
            #[test]
            fn $name() -> Result {
                run(stringify!($name), programs::$name::main, &[$($part),+])
            }
        )+

        const NAMES: &[&str] = &[$(stringify!($name)),+];
    };
}

fn run(name: &str, main: fn() -> Result, parts: &[&str]) -> Result {
    if std::env::var_os(CHILD).is_some_and(|child| child == name) {
        return main();
    }
    check(name, child(name)?.env_remove("KUBECONFIG").output()?, parts);
    Ok(())
}

fn child(name: &str) -> Result<Command> {
    let mut child = Command::new(std::env::current_exe()?);
    child.args([name, "--exact", "--nocapture"]).env(CHILD, name);
    Ok(child)
}

fn check(name: &str, child: Output, parts: &[&str]) {
    let (out, err) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(child.status.success(), "{name} failed:\n{out}\n{err}");
    for part in parts {
        assert!(out.contains(part), "{name} does not print {part:?}:\n{out}\n{err}");
    }
}

examples! {
    janitor: "100 of 1000 config maps deleted", "objects: only metadata";
    multi_namespace: "example-blue has 2 config maps", "example-green has 1 config maps", "example-red is not watched";
    sample_controller: "created: a deployment of 2", "scaled: a deployment of 3", "reported: in the status, and by an event", "deleted: the finalizer was removed";
    sharded: "3 replicas share 60 config maps", "b was killed", "c was paused past its lease", "c was stopped", "0 of them under an older fence";
    standby: "3 replicas, and", "was killed:", "was stopped:", "0 late, and 0 in the ledger", "was paused past its lease: 0 late";
    webhook_server: "filled in: team blue", "denied: data.password: put it into a Secret", "an update is validated, too";
    controller: "synced at version 24", "4 attempts failed", "the reflector is watching";
    custom_controller: "default/web wants 4 pods and has 4", "shop/db: the database operator cannot be reached (attempt 4, given up)";
    delta_fifo: "default/a: [Added(default/a @1), Updated(default/a @2)]", "default/a: [Deleted(Tombstone { key: default/a, known: true, stale: true })]";
    dynamic: "2 objects of kind Website.v1.example.com", "with 5 replicas: [default/shop]";
    embedded_server: "rejected 1, cut 1, expired 1", "3 lists and 3 watches";
    factory: "12 pods, 3 deployments, 3 config maps", "4 pods of web in default", "shut down: true";
    fifo: "done: [jobs/b, jobs/a], synced: true", "the consumer got [\"jobs/d\", \"jobs/e\"]";
    generic_informer: "pods.v1: 8 objects of web and api in default", "node Some(\"worker-";
    handlers: "web: updated default/web-0", "stream: deleted default/api-3";
    in_order_queue: "keys in order of arrival: [default/a, default/b, default/b]", "finally: the queue is closed";
    indexer: "worker-2 runs default/api-1, default/web-1, shop/db-1", "example.com/db:1.0 is used by 4 pods";
    list_watch: "quarantined: [Undecodable { key: Some(broken.yaml)", "deleted web.yaml", "deployments: [api.yaml, broken.yaml]";
    lister: "web in default: web-0, web-1, web-2, web-3", "pods \"default/nobody\" not found";
    metadata: "web: [default/web-0, default/web-1", "spec.nodeName: None";
    metrics: "informer_objects{name=\"pods.v1\"}", "workqueue_depth{name=\"pods\"} 0", "handler=\"enqueue\"";
    new_informer: "3 deployments, 12 pods", "the handler has handled 12 events", "worker-1: 6 pods";
    reflector: "watching: 2 watches, 0 relists", "\"objects in lists\": 12";
    representations: "lazy          12", "metadata      12", "phase Some(\"Running\")";
    shared_informer: "19 adds, 23 updates, 7 deletes; ", "the late handler received 12 pods", ", 0 since", "stopped: true";
    snapshot: "before: 12 pods at version", "default/web-0:";
    store: "after replace: [room-2/c, room-2/d] at version 5", "rejected: no key for room-9/x";
    test_server: "two lists: one for the 410", "the informer observed the deletion of web-0: true";
    thread_safe_store: "all of them consistent", "finally: [scales/right] at version 1999";
    transform: "slim        11", "quarantined: shop/db-3", "note None";
    wait_for_cache_sync: "pods are synced, and so is their handler", "kind of failure: not_found";
    workqueue: "deduplicated: [\"a\", \"b\", \"a\"]", "by priority: [\"new-0\", \"new-1\", \"old-0\"", "attempt 4 after";
}

#[test]
fn every_example_is_tested_and_documented() {
    let root = env!("CARGO_MANIFEST_DIR");
    let table = std::fs::read_to_string(format!("{root}/../docs/examples.md")).unwrap();
    for entry in std::fs::read_dir(format!("{root}/examples")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(NAMES.contains(&name), "no test runs {name}");
        assert!(table.contains(&format!("`{name}`")), "docs/examples.md does not list {name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn examples_run_on_the_cluster_of_a_kubeconfig() -> Result {
    let server = ApiServer::builder().build();
    let spec = json!({"containers": [{"name": "main", "image": "registry.example.com/web:1"}]});
    let object = json!({"metadata": {"name": "only-here", "labels": {"app": "web"}}, "spec": spec});
    server.create(&Gvr::new("", "v1", "pods"), "default", object)?;
    let listening = server.listen("127.0.0.1:0").await?;
    let kubeconfig = tempfile::NamedTempFile::new()?;
    std::fs::write(kubeconfig.path(), listening.kubeconfig())?;
    for (name, part) in [
        ("lister", "web in default: only-here"),
        ("metadata", "web: [default/only-here]"),
        ("factory", "1 pods, 0 deployments, 0 config maps"),
        ("dynamic", "0 objects of kind Deployment.v1.apps"),
    ] {
        let mut child = child(name)?;
        child.env("KUBECONFIG", kubeconfig.path());
        check(name, tokio::task::spawn_blocking(move || child.output()).await??, &[part]);
    }
    let writes =
        |request: &RequestRecord| !matches!(request.verb, Verb::Get | Verb::List | Verb::Watch | Verb::Other);
    assert!(!server.requests().iter().any(writes), "an example writes to a cluster");
    drop(listening);
    Ok(())
}
