//! Every example runs to its end on the embedded server, and prints what it promises.
//!
//! Each runs in a process of its own, this very one started again: so `KUBECONFIG` can be kept from it, and its output
//! can be read.

use std::process::Command;

/// Names the example that a child process is to run.
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
            fn $name() {
                run(stringify!($name), programs::$name::main, &[$($part),+]);
            }
        )+

        const NAMES: &[&str] = &[$(stringify!($name)),+];
    };
}

fn run(name: &str, main: fn() -> informer_examples::Result, parts: &[&str]) {
    if std::env::var_os(CHILD).is_some_and(|child| child == name) {
        return main().unwrap();
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, name)
        .env_remove("KUBECONFIG")
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(child.status.success(), "{name} failed:\n{out}\n{err}");
    for part in parts {
        assert!(out.contains(part), "{name} does not say {part:?}:\n{out}\n{err}");
    }
}

examples! {
    custom_controller: "default/web wants 4 pods and has 4", "given up";
    delta_fifo: "default/c";
    dynamic: "2 objects of kind";
    embedded_server: "refused 1, cut 1, expired 1";
    factory: "12 pods, 3 deployments, 3 config maps";
    fifo: "done:";
    generic_informer: "8 objects of web and api in default";
    handlers: "events came by the stream";
    in_order_queue: "in the end: the queue is closed";
    indexer: "worker-1 runs";
    list_watch: "set aside:";
    lister: "web in default: web-0, web-1, web-2, web-3";
    metadata: "12 pods in";
    reflector: "objects in lists";
    representations: "lazy";
    shared_informer: "0 since";
    snapshot: "are shared by both snapshots";
    store: "after replace: [room-2/c, room-2/d] at version 5", "refused: no key for room-9/x";
    thread_safe_store: "each of them whole";
    transform: "set aside: shop/db-3";
    wait_for_cache_sync: "pods are synced";
    workqueue: "deduplicated:";
}

#[test]
fn every_example_is_run_and_listed() {
    let root = env!("CARGO_MANIFEST_DIR");
    let table = std::fs::read_to_string(format!("{root}/../docs/examples.md")).unwrap();
    for entry in std::fs::read_dir(format!("{root}/examples")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(NAMES.contains(&name), "no test runs {name}");
        assert!(table.contains(&format!("`{name}`")), "docs/examples.md does not list {name}");
    }
}
