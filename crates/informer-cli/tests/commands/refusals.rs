//! Tests of errors of the `informer` command: the exit code, and a message that names the operation and the
//! remedy.

use std::fs;

use informer_apiserver::{ApiServer, ReservedPort};

use crate::command::{Ended, run, start_with};

/// The `--timeout` of commands that must end with another error. It is longer than these commands need on a
/// busy machine, so that they do not end with a timeout.
const LONG_TIMEOUT: &str = "4m";

fn check(ended: &Ended, code: i32, parts: &[&str]) {
    assert_eq!(ended.code, Some(code), "{}{}", ended.out, ended.err);
    for part in parts {
        assert!(ended.err.contains(part), "no {part:?} in: {}", ended.err);
    }
    assert_eq!(ended.out, "", "errors go to stderr");
}

#[tokio::test]
async fn wrong_usage_is_exit_code_2_and_names_the_argument() {
    let cases: [(&[&str], &[&str]); 10] = [
        (&["watch"], &["KIND"]),
        (&["watch", "pods", "--frobnicate"], &["--frobnicate"]),
        (&["watch", "pods", "-l", "app in (web"], &["--selector", "app in (web"]),
        (&["watch", "pods", "--field-selector", "spec.nodeName"], &["--field-selector", "spec.nodeName"]),
        (&["watch", "pods", "-o", "xml"], &["xml", "diff", "json", "yaml", "name"]),
        (&["watch", "pods,"], &["KIND", "pods/web-0"]),
        (&["watch", "pods", "-A", "-n", "default"], &["--all-namespaces", "--namespace"]),
        (&["watch", "pods", "--resync", "soon"], &["--resync", "10m"]),
        (&["watch", "pods", "--resync", "1ms"], &["--resync", "at least 1s"]),
        (&["watch", "pods", "--server", "localhost:8001"], &["--server", "http://127.0.0.1:8001"]),
    ];
    for (args, parts) in cases {
        check(&run(args).await, 2, parts);
    }
}

#[tokio::test]
async fn missing_or_invalid_kubeconfig_error_names_the_remedy() {
    check(&run(["watch", "pods"]).await, 1, &["KUBECONFIG", "--server"]);
    let directory = tempfile::tempdir().unwrap();
    let broken = directory.path().join("config");
    fs::write(&broken, "clusters: [\n").unwrap();
    let ended = start_with(["watch", "pods"], Some(&broken)).ended().await;
    check(&ended, 1, &["KUBECONFIG", "--server"]);

    let authority = directory.path().join("ca.crt");
    fs::write(&authority, "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n").unwrap();
    let cluster = "{server: 'https://127.0.0.1:1', certificate-authority: ca.crt}";
    let text = format!(
        "current-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
         clusters: [{{name: a, cluster: {cluster}}}]\nusers: [{{name: a, user: {{}}}}]\n"
    );
    fs::write(&broken, text).unwrap();
    let ended = start_with(["watch", "pods"], Some(&broken)).ended().await;
    let named = format!("no valid CA certificate in {}", authority.display());
    check(&ended, 1, &[&named, "valid PEM", "--server"]);
    let ended = run(["watch", "pods", "--kubeconfig", broken.to_str().unwrap()]).await;
    check(&ended, 1, &["the kubeconfig cannot be used", &named]);
}

#[tokio::test]
async fn unknown_kind_error_suggests_similar_names() {
    let server = ApiServer::builder().build();
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let url = listening.url();
    for (kind, near) in [("pdos", "did you mean pods"), ("deployments.extensions", "deployments.apps")] {
        let ended = run(["watch", kind, "--server", &url, "--timeout", LONG_TIMEOUT]).await;
        check(&ended, 1, &[kind, "the server has no such kind", near]);
    }
    let ended = run(["watch", "xyzzy", "--server", &url, "--timeout", LONG_TIMEOUT]).await;
    check(&ended, 1, &["xyzzy"]);
    assert!(!ended.err.contains("did you mean"), "{}", ended.err);
}

#[tokio::test]
async fn an_unreachable_server_is_given_up_in_time() {
    let port = ReservedPort::new().unwrap();
    let url = format!("http://{}", port.address());
    let ended = run(["watch", "pods", "--server", &url, "--timeout", "4s"]).await;
    check(&ended, 1, &["gave up after 4s", "refused", &url]);
}

#[tokio::test]
async fn what_may_not_be_listed_is_named_when_the_wait_is_over() {
    let server = ApiServer::builder().build();
    let forbidden = informer_apiserver::FaultMatch {
        resource: Some("secrets".to_owned()),
        ..informer_apiserver::FaultMatch::default()
    };
    let _fault = server.faults().on(forbidden).status(403);
    let listening = server.listen("127.0.0.1:0").await.unwrap();
    let ended = run(["watch", "secrets", "--server", &listening.url(), "--timeout", "8s"]).await;
    check(&ended, 1, &["gave up after 8s", "secrets", "403", "grant list and watch"]);
}

#[tokio::test]
async fn serve_listens_on_loopback_only() {
    for open in ["0.0.0.0:0", "[::]:0"] {
        check(&run(["serve", "--listen", open]).await, 1, &["refusing", "no authentication"]);
    }
    // The command must refuse `--token-file` without TLS on a public address, because a token that is sent
    // unencrypted can be intercepted.
    let directory = tempfile::tempdir().unwrap();
    let tokens = directory.path().join("tokens.csv");
    fs::write(&tokens, "secret,admin,admin\n").unwrap();
    let args = ["serve", "--listen", "0.0.0.0:0", "--token-file", tokens.to_str().unwrap()];
    check(&run(args).await, 1, &["refusing", "without TLS", "--cert-dir"]);
    let certificates = directory.path().join("certs");
    let args = ["serve", "--listen", "0.0.0.0:0", "--cert-dir", certificates.to_str().unwrap()];
    check(&run(args).await, 1, &["refusing", "no authentication", "--client-ca"]);
    check(&run(["serve", "--listen", "nonsense"]).await, 1, &["nonsense", "127.0.0.1:8001"]);
}

#[tokio::test]
async fn serve_overwrites_no_foreign_kubeconfig() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config");
    fs::write(&path, "apiVersion: v1\nkind: Config\nclusters: [precious]\n").unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--kubeconfig", path.to_str().unwrap()];
    check(&run(args).await, 1, &["refusing to overwrite", "config"]);
    assert!(fs::read_to_string(&path).unwrap().contains("precious"));
}

#[tokio::test]
async fn serve_names_the_file_that_it_cannot_use() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("faults.yaml"), "- {match: {verb: watch}, action: explode}\n").unwrap();
    fs::write(path("pod.yaml"), "apiVersion: v1\nkind: Pod\nmetadata: {}\n").unwrap();
    fs::write(path("podd.yaml"), "apiVersion: v1\nkind: Podd\nmetadata: {name: a}\n").unwrap();
    let cases = [
        ("--faults", "absent.yaml", "No such file"),
        ("--faults", "faults.yaml", "explode"),
        ("--load", "absent.yaml", "No such file"),
        ("--load", "pod.yaml", "name"),
        ("--load", "podd.yaml", "Podd"),
    ];
    for (flag, file, part) in cases {
        let ended = run(["serve", "--listen", "127.0.0.1:0", flag, &path(file)]).await;
        check(&ended, 1, &[file, part]);
    }
}

#[tokio::test]
async fn fault_file_error_names_the_line_and_the_most_similar_name() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("faults.yaml");
    for (text, problem) in [
        (
            "faults:\n- match: {verb: wach, resource: pods}\n  action: {expire: {}}\n",
            "line 2: unknown variant `wach`; did you mean `watch`?",
        ),
        (
            "# resorce\n- match:\n    verb: list\n    resorces: pods\n  action: {expire: {}}\n",
            "line 4: unknown field `resorces`; did you mean `resource`?",
        ),
        ("- action: {expier: {}}\n", "line 1: unknown variant `expier`; did you mean `expire`?"),
        ("- action: {zzzz: {}}\n", "line 1: unknown variant `zzzz`; write one of status, expire, "),
        ("- action: {expire: {}\n", "did not find expected ',' or '}'"),
    ] {
        fs::write(&file, text).unwrap();
        let ended = run(["serve", "--listen", "127.0.0.1:0", "--faults", file.to_str().unwrap()]).await;
        check(&ended, 1, &[problem, "faults.yaml"]);
    }
}
