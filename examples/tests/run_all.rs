//! Runs every example on the embedded server and compares its output with the block "Expected output" in its
//! README.
//!
//! In a block `[..]` stands for any characters of a line, and a line `...` for any number of lines. Each
//! example runs in a child process of this test binary, so that `KUBECONFIG` can be removed from its
//! environment and its output can be captured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use informer::Gvr;
use informer_apiserver::{ApiServer, RequestRecord, Verb};
use informer_examples::Result;
use serde_json::json;
use snapbox::{Assert, IntoData};

/// The environment variable that tells a child process which example it runs.
const CHILD: &str = "INFORMER_EXAMPLE";

/// The lines that a child process prints before and after the output of an example, because the test harness
/// prints other text around the output.
const BEGIN: &str = "---- begin of the output ----\n";
const END: &str = "---- end of the output ----\n";

/// Declares a test for each `name: "program";`, where `program` is the path of the example relative to the
/// workspace.
macro_rules! examples {
    ($($name:ident: $program:tt;)+) => {
        #[expect(unreachable_pub, reason = "examples are programs, whose `main` is only called here")]
        #[path = "../.."]
        mod programs {
            $(
                #[path = $program]
                pub(super) mod $name;
            )+
        }

        $(
            #[test]
            fn $name() -> Result {
                run(stringify!($name), $program, programs::$name::main)
            }
        )+

        const PROGRAMS: &[&str] = &[$($program),+];
    };
}

examples! {
    custom_controller: "examples/examples/custom_controller/main.rs";
    dynamic: "examples/examples/dynamic/main.rs";
    embedded_server: "examples/examples/embedded_server/main.rs";
    factory: "examples/examples/factory/main.rs";
    indexer: "examples/examples/indexer/main.rs";
    janitor: "examples/examples/janitor/main.rs";
    list_watch: "examples/examples/list_watch/main.rs";
    lister: "examples/examples/lister/main.rs";
    metadata: "examples/examples/metadata/main.rs";
    metrics: "examples/examples/metrics/main.rs";
    multi_namespace: "examples/examples/multi_namespace/main.rs";
    new_informer: "examples/examples/new_informer/main.rs";
    reflector: "examples/examples/reflector/main.rs";
    representations: "examples/examples/representations/main.rs";
    sample_controller: "examples/examples/sample_controller/main.rs";
    sharded: "examples/examples/sharded/main.rs";
    shared_informer: "examples/examples/shared_informer/main.rs";
    snapshot: "examples/examples/snapshot/main.rs";
    standby: "examples/examples/standby/main.rs";
    test_server: "examples/examples/test_server/main.rs";
    transform: "examples/examples/transform/main.rs";
    wait_for_cache_sync: "examples/examples/wait_for_cache_sync/main.rs";
    webhook_server: "examples/examples/webhook_server/main.rs";
    explore: "crates/informer/examples/explore/main.rs";
    delta_fifo: "crates/informer-cache/examples/delta_fifo/main.rs";
    fifo: "crates/informer-cache/examples/fifo/main.rs";
    in_order_queue: "crates/informer-cache/examples/in_order_queue/main.rs";
    store: "crates/informer-store/examples/store/main.rs";
    thread_safe_store: "crates/informer-store/examples/thread_safe_store/main.rs";
    workqueue: "crates/informer-workqueue/examples/workqueue/main.rs";
}

/// Tests one example: starts a child process that runs the example, and compares its output with the README.
/// In the child process, runs the example.
fn run(name: &str, program: &str, main: fn() -> Result) -> Result {
    if std::env::var_os(CHILD).is_some_and(|child| child == name) {
        print!("{BEGIN}");
        main()?;
        print!("{END}");
        return Ok(());
    }
    let printed = output_of(name, &child(name)?.env_remove("KUBECONFIG").output()?);
    let readme = root().join(program).with_file_name("README.md");
    let documented = documented_output(&fs::read_to_string(&readme)?)?.to_owned();
    let readme = readme.display().to_string();
    // By default, snapbox replaces backslashes as path separators. In the output of an example they are not
    // path separators.
    let compared = Assert::new().normalize_paths(false).try_eq(
        Some(&readme),
        printed.into_data(),
        documented.into_data(),
    );
    compared.map_err(|difference| panic!("{difference}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn child(name: &str) -> Result<Command> {
    let mut child = Command::new(std::env::current_exe()?);
    // Run a single test thread. With several threads, the test harness prints messages about slow tests in
    // the middle of the output.
    child.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, name);
    Ok(child)
}

/// Returns the output that an example printed in its child process, without the text of the test harness.
fn output_of(name: &str, child: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(child.status.success(), "{name} failed:\n{out}\n{err}");
    let printed = out.split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END));
    printed.unwrap_or_else(|| panic!("{name} did not run:\n{out}\n{err}")).0.to_owned()
}

/// Returns the code block in the section "Expected output" of a README.
fn documented_output(readme: &str) -> Result<&str> {
    let section = readme.split_once("## Expected output\n").ok_or("no section \"Expected output\"")?.1;
    let block = section.split_once("```text\n").ok_or("no block of text")?.1;
    Ok(block.split_once("```\n").ok_or("the block does not end")?.0)
}

#[test]
fn every_example_is_tested_and_documented() {
    let mut folders = vec![root().join("examples/examples")];
    let crates = fs::read_dir(root().join("crates")).unwrap();
    folders.extend(crates.map(|entry| entry.unwrap().path().join("examples")).filter(|path| path.is_dir()));
    let mut programs: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        programs.extend(entries.filter(|path| path.is_dir()).map(|path| path.join("main.rs")));
    }
    let table = fs::read_to_string(root().join("docs/examples.md")).unwrap();
    for program in &programs {
        let name = program.strip_prefix(root()).unwrap().display().to_string().replace('\\', "/");
        let folder = name.trim_end_matches("/main.rs");
        assert!(PROGRAMS.contains(&&*name), "no test runs {name}");
        assert!(table.contains(&format!("](../{folder})")), "docs/examples.md has no link to {folder}");
        let readme = fs::read_to_string(program.with_file_name("README.md")).unwrap();
        let title = readme.lines().next().unwrap();
        assert!(title.starts_with("# ") && title.ends_with('?'), "the title of {folder} is not a question");
        assert!(readme.contains("\n## Notes\n"), "{folder}/README.md has no \"Notes\"");
    }
    assert_eq!(programs.len(), PROGRAMS.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn examples_run_on_the_cluster_of_a_kubeconfig() -> Result {
    let server = ApiServer::builder().build();
    let spec = json!({"containers": [{"name": "main", "image": "registry.example.com/web:1"}]});
    let object = json!({"metadata": {"name": "only-here", "labels": {"app": "web"}}, "spec": spec});
    server.create(&Gvr::new("", "v1", "pods"), "default", object)?;
    let listening = server.listen("127.0.0.1:0").await?;
    let kubeconfig = tempfile::NamedTempFile::new()?;
    fs::write(kubeconfig.path(), listening.kubeconfig())?;
    for (name, part) in [
        ("lister", "web in default: only-here"),
        ("metadata", "web: [default/only-here]"),
        ("factory", "1 pods, 0 deployments, 0 config maps"),
        ("dynamic", "0 objects of kind ReplicaSet.v1.apps"),
    ] {
        let mut child = child(name)?;
        child.env("KUBECONFIG", kubeconfig.path());
        let printed = output_of(name, &tokio::task::spawn_blocking(move || child.output()).await??);
        assert!(printed.contains(part), "{name} does not print {part:?}:\n{printed}");
    }
    let writes =
        |request: &RequestRecord| !matches!(request.verb, Verb::Get | Verb::List | Verb::Watch | Verb::Other);
    assert!(!server.requests().iter().any(writes), "an example writes to a cluster");
    drop(listening);
    Ok(())
}
