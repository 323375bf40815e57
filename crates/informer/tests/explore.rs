//! Tests of `Explore`, which runs a program under many fault scripts. Correct programs must pass, and each
//! check must find a program that violates it.
#![cfg(all(feature = "testing", feature = "runtime"))]

#[path = "../examples/explore/mutants.rs"]
mod mutants;
#[path = "../examples/explore/patterns.rs"]
mod patterns;
#[path = "../examples/explore/sample.rs"]
mod sample;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use informer::prelude::*;
use informer::runtime::{LeaderElection, runnable};
use informer::testing::{Explore, ExploreFailure, FaultScript, TestServer, User, Verb, World, absent};
use informer::{CancellationToken, Gvr};
use k8s_openapi::api::core::v1::ConfigMap;
use sample::{Reconciler, Website, WebsiteStatus, website};
use serde_json::json;

fn script(text: &str) -> FaultScript {
    text.parse().expect("a valid script")
}

fn failure_of(explore: &Explore) -> ExploreFailure {
    explore.report().failure.expect("a script fails")
}

async fn one_website(world: World) {
    world.create(&website("shop", 1)).await;
}

/// Returns a manager with one controller of websites, which calls `reconciler` for each request.
fn manager(client: Client, reconciler: Reconciler) -> Manager {
    let controller = Controller::new::<Website>("website");
    Manager::new(client).controller(controller.reconcile(move |request, ctx| reconciler(request, ctx)))
}

/// A reconcile function with two writes: it applies the ConfigMap `charge`, and then sets the website's
/// status, which marks that the ConfigMap was applied. After a crash between the two writes, it applies the
/// ConfigMap again, which the check `once` must find.
fn marks(ctx: Context, request: Request) -> sample::Reconciled {
    Box::pin(async move {
        let Some(site) = ctx.get::<Website>(&request.key).await? else { return Ok(Outcome::Done) };
        if site.status.is_none() {
            let charge = json!({"metadata": {"name": "charge", "namespace": "default"}});
            ctx.client.apply(&serde_json::from_value::<ConfigMap>(charge)?).await?;
            let mut edited = site.edit();
            edited.status = Some(WebsiteStatus { replicas: 1, deployment: None });
            ctx.client.status().update(&edited).await?;
        }
        Ok(Outcome::Done)
    })
}

fn marking() -> Explore {
    Explore::program(|client| manager(client, Arc::new(|request, ctx| marks(ctx, request))))
        .setup(sample::install)
        .scenario(one_website)
}

fn elected(client: Client) -> Manager {
    let manager = manager(client, sample::correct());
    manager.leader_election(LeaderElection::new("websites").namespace("default"))
}

fn electing() -> Explore {
    Explore::program(elected).setup(sample::install).scenario(sample::scenario)
}

#[test]
fn sample_controller_passes() {
    let report = sample::explore(sample::correct).seeds(30).report();
    assert!(report.failure.is_none(), "{report}");
    assert!(report.runs > 60 && report.faults > 60 && report.writes > 5, "{report}");
}

#[test]
fn mutants_of_the_sample_controller_are_found() {
    for (name, mutant) in mutants::MUTANTS {
        let failure = failure_of(&sample::explore(mutant));
        assert_eq!(failure.script.len(), 1, "{name}: {failure}");
    }
}

#[test]
fn bug_patterns_are_found_and_repaired_ones_pass() {
    let found = patterns::PATTERNS.map(|(name, pattern)| {
        let failure = failure_of(&pattern());
        (name, failure.check, failure.script.to_string())
    });
    let stale = "stale websites 5s at write 5; crash after write 9";
    assert_eq!(
        found.each_ref().map(|(_, check, script)| (*check, script.as_str())),
        [
            ("final state", "lag websites 8s at write 0"),
            ("final state", "crash after write 1"),
            ("final state", "crash after write 3"),
            ("final state", stale),
            ("upgrade", ""),
            ("final state", "crash after write 3"),
        ],
        "{found:?}"
    );
    for (name, repaired) in patterns::REPAIRED {
        let report = repaired().seeds(20).report();
        assert!(report.failure.is_none(), "{name}: {report}");
    }
}

#[test]
fn restarted_program_reads_an_older_state_than_before() {
    let explore = sample::explore(sample::correct);
    let (failure, trace) = explore.replay(&script("stale websites 5s at write 1; crash after write 6"));
    assert!(failure.is_none(), "{}", failure.expect("the assertion has failed"));
    let position = |text: &str| {
        let found = trace.iter().position(|line| line.contains(text));
        found.unwrap_or_else(|| panic!("no line has {text:?}: {trace:#?}"))
    };
    let restart = position("process 1.2 starts");
    let rejected = position("1.2 watch websites -> 422 (fault)");
    let stale = position("fault: list websites returns the state at resourceVersion");
    assert!(restart < rejected && rejected < stale, "{trace:#?}");
    // The process writes objects that have newer versions than those that it has read.
    assert!(
        trace[stale..].iter().any(|line| line.contains("1.2 write") && line.contains("-> 409")),
        "{trace:#?}"
    );
}

#[test]
fn live_read_is_not_stale() {
    let scripts = patterns::delete_after_restart(true).seeds(0).report();
    assert!(scripts.failure.is_none(), "{scripts}");
    assert!(scripts.runs > 80, "{scripts}");
}

#[test]
fn scenario_restarts_the_program_with_another_configuration() {
    let explore = patterns::new_default(true).scenario(|world: World| async move {
        world.create(&website("shop", 1)).await;
        world.settled().await;
        let theme = async |name: &str| {
            let map: ConfigMap = world.get(&format!("default/{name}")).await.expect("the settings exist");
            map.data.expect("the settings have data")["theme"].clone()
        };
        let before = theme("shop").await;
        world.restart().await;
        world.create(&website("blog", 1)).await;
        world.settled().await;
        assert_eq!((theme("shop").await, theme("blog").await), ("dark".to_owned(), "dark".to_owned()));
        // The comparison starts the second program at once.
        assert!(["light", "dark"].contains(&before.as_str()), "{before}");
        world.restart().await;
        world.settled().await;
        assert_eq!(theme("shop").await, "dark");
    });
    let (failure, trace) = explore.replay(&script(""));
    assert!(failure.is_none(), "{}", failure.expect("the assertion has failed"));
    let starts = trace.iter().filter(|line| line.contains(" starts")).count();
    let restarts = trace.iter().filter(|line| line.contains("user: restart the program")).count();
    assert_eq!((starts, restarts), (3, 2), "{trace:#?}");
    let report = explore.seeds(0).report();
    assert!(report.failure.is_none(), "{report}");
}

#[test]
fn program_of_a_restart_runs_with_leader_election() {
    let explore = electing().restart_with(elected);
    let (failure, trace) = explore.replay(&script("crash after write 2"));
    assert!(failure.is_none(), "{}", failure.expect("the assertion has failed"));
    for process in ["process 1.2 starts", "process 2.2 starts"] {
        assert!(trace.iter().any(|line| line.contains(process)), "{process}: {trace:#?}");
    }
}

#[test]
fn same_script_gives_the_same_trace() {
    let scripts = [
        "schedule 7; crash after write 3; lag websites 3s at write 4",
        "schedule 9; stale deployments 3s at write 2; crash after write 5",
        "",
    ];
    for text in scripts {
        let explore = sample::explore(sample::correct);
        let (_, first) = explore.replay(&script(text));
        let (_, second) = explore.replay(&script(text));
        assert_eq!(first, second);
        assert!(first.len() > 10, "{first:?}");
    }
    let explore = electing();
    let isolated = script("schedule 3; isolate 40s at write 2; crash after write 5");
    assert_eq!(explore.replay(&isolated).1, explore.replay(&isolated).1);
}

#[test]
fn leader_changes_when_the_leader_is_isolated_or_crashes() {
    let explore = electing();
    for text in ["isolate 40s at write 2", "crash after write 3"] {
        let (failure, trace) = explore.replay(&script(text));
        assert!(failure.is_none(), "{}", failure.expect("the assertion has failed"));
        let leads =
            |process: &str| trace.iter().any(|line| line.contains(&format!("process {process} holds")));
        assert!(leads("1.1") && leads("2.1"), "{trace:#?}");
    }
    let report = explore.seeds(10).report();
    assert!(report.failure.is_none(), "{report}");
}

#[test]
fn write_of_a_former_leader_is_found() {
    // The program has an elector, but its controller also writes without holding the lease. A former leader
    // therefore continues to write, which the check `former leader` must find.
    let program = |client: Client| {
        let election = LeaderElection::new("websites").namespace("default");
        let elector = election.elector(client.clone()).expect("a valid election");
        let elects = runnable("elects", move |stop: CancellationToken| async move {
            drop(elector.run(stop.clone()).await);
            stop.cancelled().await;
            Ok(())
        });
        manager(client, sample::correct()).add(elects)
    };
    let explore = Explore::program(program).setup(sample::install).scenario(|world| async move {
        world.create(&website("shop", 1)).await;
        world.settled().await;
        world.advance_time(Duration::from_secs(60)).await;
        world.create(&website("blog", 1)).await;
    });
    let (failure, trace) = explore.replay(&script("isolate 40s at write 1"));
    let failure = failure.unwrap_or_else(|| panic!("no check fails: {trace:#?}"));
    assert_eq!(failure.check, "former leader", "{failure}");
}

#[test]
fn repeated_write_is_found() {
    let passes = marking().report();
    assert!(passes.failure.is_none(), "the final state is the same: {passes}");
    let once = marking().once(|write| write.verb == Verb::Patch && write.name == "charge");
    let failure = failure_of(&once);
    assert_eq!((failure.check, failure.script.to_string().as_str()), ("once", "crash after write 1"));
}

#[test]
fn denied_request_is_found() {
    let allow = |server: &TestServer| {
        sample::install(server);
        let create = |resource: &str, object| {
            let gvr = Gvr::new("rbac.authorization.k8s.io", "v1", resource);
            server.server().create(&gvr, "", object).expect("a valid object");
        };
        let read =
            json!({"apiGroups": ["example.com"], "resources": ["websites"], "verbs": ["list", "watch"]});
        let apply = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch"]});
        create("clusterroles", json!({"metadata": {"name": "websites"}, "rules": [read, apply]}));
        create(
            "clusterrolebindings",
            json!({
                "metadata": {"name": "websites"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "websites"},
                "subjects": [{"kind": "User", "name": "operator"}],
            }),
        );
    };
    let explore = Explore::program(|client| manager(client, Arc::new(|request, ctx| marks(ctx, request))))
        .server(|builder| builder.rbac(true))
        .setup(allow)
        .user(User::new("operator"))
        .scenario(one_website);
    let failure = failure_of(&explore);
    assert_eq!(failure.check, "forbidden", "{failure}");
    assert!(failure.text.contains("websites/status"), "{failure}");
}

#[test]
fn failing_scenario_and_panicking_program_are_found() {
    let waits = marking().scenario(|world| async move {
        world.create(&website("shop", 1)).await;
        world.eventually("default/shop", absent::<Website>()).await;
    });
    let failure = failure_of(&waits);
    assert_eq!(failure.check, "scenario", "{failure}");
    assert!(failure.text.contains("wait for Website default/shop: not reached within"), "{failure}");

    let panics = Explore::program(|_| panic!("no configuration"));
    assert_eq!(failure_of(&panics).check, "panic");
}

#[test]
fn failure_that_a_second_run_does_not_show_is_reported() {
    let runs = Arc::new(AtomicUsize::new(0));
    let fails_once = marking().threads(1).scenario(move |world| {
        let run = runs.fetch_add(1, Ordering::SeqCst);
        async move {
            world.create(&website("shop", 1)).await;
            assert_ne!(run, 2, "the third run fails");
        }
    });
    let failure = failure_of(&fails_once);
    assert!(!failure.reproduced && failure.script == failure.found, "{failure}");
    assert!(failure.to_string().contains("not deterministic"), "{failure}");
}

#[test]
fn request_loop_is_found() {
    let program = |client: Client| {
        let loops = runnable("loops", {
            let client = client.clone();
            move |_: CancellationToken| async move {
                let client = informer::runtime::CachedClient::new(&informer::runtime::Cache::new(client));
                loop {
                    drop(client.live().get::<Website>("default/shop").await);
                }
            }
        });
        manager(client, sample::correct()).add(loops)
    };
    let failure = failure_of(&Explore::program(program).setup(sample::install).scenario(one_website));
    assert_eq!(failure.check, "hot loop", "{failure}");
}

#[test]
#[should_panic(expected = "faults: crash after write 1")]
fn failure_message_has_the_shrunk_script() {
    patterns::PATTERNS[1].1().run();
}
