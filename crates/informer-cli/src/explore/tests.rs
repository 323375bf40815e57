use std::collections::BTreeSet;

use informer_apiserver::{ApiServer, FaultMatch, FaultScript, RequestRecord};

use super::plan::{self, Observed};
use super::quoted;
use super::selection::{Selection, parse};

fn observed(writes: u64) -> Observed {
    Observed { writes, watched: BTreeSet::from(["pods".to_owned(), "websites".to_owned()]) }
}

fn plan_of(observed: &Observed, runs: usize) -> Vec<String> {
    plan::scripts(observed.clone()).take(runs).map(|script| script.to_string()).collect()
}

#[test]
fn each_fault_is_tried_at_each_write_before_random_scripts() {
    let scripts = plan_of(&observed(4), 40);
    let single = 4 * 3 + 2 * 3 * 3;
    for part in
        ["lost response at write 4", "409 at write 1", "cut pods at write 0", "lag pods 2s at write 2"]
    {
        assert!(scripts[..single].iter().any(|script| script == part), "{part}: {scripts:?}");
    }
    assert!(scripts[..single].iter().all(|script| !script.contains("schedule")));
    assert!(scripts[single..].iter().all(|script| script.starts_with("schedule ")));
}

#[test]
fn random_scripts_depend_on_the_seed_only_and_can_be_replayed() {
    let scripts = plan_of(&observed(5), 200);
    assert_eq!(scripts, plan_of(&observed(5), 200));
    assert_eq!(scripts.iter().collect::<BTreeSet<_>>().len(), 200);
    for text in scripts {
        let script: FaultScript = text.parse().expect("a valid script");
        assert_eq!(script.to_string(), text);
        for fault in script.faults() {
            let fault = &fault.fault;
            assert!(fault.request_action().is_some() || fault.watch_action().is_some(), "{text}");
        }
    }
}

#[test]
fn program_without_writes_gets_only_faults_of_watches() {
    let scripts = plan_of(&observed(0), 50);
    assert!(scripts.iter().all(|script| !script.contains("409")), "{scripts:?}");
    assert!(scripts.contains(&"expire websites at write 0".to_owned()));
}

#[test]
fn arguments_are_quoted_for_a_shell() {
    for (text, shown) in [
        ("--count=1", "--count=1"),
        ("./...", "./..."),
        ("a b", "'a b'"),
        ("it's", r"'it'\''s'"),
        ("", "''"),
        ("*", "'*'"),
    ] {
        assert_eq!(quoted(text), shown);
    }
}

#[test]
fn invalid_resource_filter_is_rejected() {
    for valid in ["websites", "websites/status", "*", "*/status"] {
        assert!(parse(valid).is_ok(), "{valid}");
    }
    for invalid in ["", "Websites", "websites/", "/status", "websites/*", "a/b/c"] {
        assert!(parse(invalid).is_err(), "{invalid}");
    }
}

/// Sends requests of three clients with different User-Agents to a server, and returns the requests that the
/// server logged. The tests select some of them.
async fn requests() -> Vec<RequestRecord> {
    use bytes::Bytes;
    use http::Request;
    use http_body_util::Full;
    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;

    let server = ApiServer::builder().build();
    let _faults = server.faults().on(FaultMatch::default()).status(503);
    let listening = server.listen("127.0.0.1:0").await.expect("a free port");
    let client = Client::builder(TokioExecutor::new()).build_http();
    let paths = [
        ("POST", "manager/v1 (linux)", "/api/v1/namespaces/a/configmaps"),
        ("PUT", "manager/v1 (linux)", "/apis/apps/v1/namespaces/a/deployments/web/status"),
        ("POST", "manager/v1 (linux)", "/api/v1/namespaces/a/configmaps?dryRun=All"),
        ("POST", "manager/v1 (linux)", "/api/v1/namespaces/a/events"),
        ("POST", "kubectl/v1 (linux)", "/api/v1/namespaces/a/configmaps"),
        ("POST", "suite.test/v1", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
        ("GET", "manager/v1 (linux)", "/api/v1/namespaces/a/configmaps"),
    ];
    for (method, agent, path) in paths {
        let request = Request::builder().method(method).uri(format!("{}{path}", listening.url()));
        let request = request.header("user-agent", agent).body(Full::new(Bytes::new()));
        client.request(request.expect("a valid request")).await.expect("a response");
    }
    server.requests()
}

#[tokio::test]
async fn selection_numbers_only_the_writes_of_selected_clients() {
    let requests = requests().await;
    let selected = |selection: &Selection| -> Vec<usize> {
        let matches = requests.iter().enumerate().filter(|(_, request)| selection.selects_write(request));
        matches.map(|(index, _)| index).collect()
    };
    let filters = |texts: &[&str]| texts.iter().map(|text| parse(text).expect("a filter")).collect();
    assert_eq!(selected(&Selection::new(None, None, Vec::new())), [0, 1]);
    assert_eq!(selected(&Selection::new(Some("kubectl".to_owned()), None, Vec::new())), [4]);
    assert_eq!(selected(&Selection::new(None, Some("nobody".to_owned()), Vec::new())), [0; 0]);
    assert_eq!(selected(&Selection::new(None, None, filters(&["*/status"]))), [1]);
    assert_eq!(selected(&Selection::new(None, None, filters(&["configmaps"]))), [0]);
    assert_eq!(selected(&Selection::new(None, None, filters(&["customresourcedefinitions"]))), [5]);
}
