use std::time::Duration;

use bytes::Bytes;

use super::{ExecPlugin, Issued, parse};
use crate::{Client, ClientOptions};

const V1: &str = "client.authentication.k8s.io/v1";

fn credential(status: &str) -> String {
    format!(r#"{{"apiVersion":"{V1}","kind":"ExecCredential","status":{status}}}"#)
}

fn plugin(script: &str) -> ExecPlugin {
    let config = serde_json::json!({
        "apiVersion": V1,
        "command": "sh",
        "args": ["-c", script],
        "interactiveMode": "Never",
        "installHint": "install sh",
        "env": [{"name": "TOKEN", "value": "of-the-environment"}],
    });
    let config = serde_json::from_value(config).unwrap();
    ExecPlugin::new(&config, Duration::from_secs(60), None).unwrap()
}

#[test]
fn exec_credential_is_parsed_from_json_and_yaml() {
    let token = |token: &str| Issued { token: Some(token.to_owned()), ..Issued::default() };
    assert_eq!(parse(credential(r#"{"token":"a"}"#).as_bytes(), Some(V1)), Ok(token("a")));
    let yaml = format!("apiVersion: {V1}\nkind: ExecCredential\nstatus:\n  token: b\n");
    assert_eq!(parse(yaml.as_bytes(), Some(V1)), Ok(token("b")));
    let whole = credential(
        r#"{"token":"","clientCertificateData":"c","clientKeyData":"k","expirationTimestamp":"2026-01-02T03:04:05Z"}"#,
    );
    let expected = Issued {
        token: None,
        certificate: Some(("c".to_owned(), "k".to_owned())),
        expires: Some("2026-01-02T03:04:05Z".parse().unwrap()),
    };
    assert_eq!(parse(whole.as_bytes(), None), Ok(expected));
}

#[test]
fn invalid_exec_credential_error_contains_no_secret() {
    for (output, problem) in [
        ("secret".to_owned(), "its output is not an ExecCredential"),
        (r#"{"kind":"Pod","status":{"token":"secret"}}"#.to_owned(), "its output is not an ExecCredential"),
        (r#"{"kind":"ExecCredential"}"#.to_owned(), "the ExecCredential has no status"),
        (credential("{}"), "it printed neither a token nor a certificate"),
        (
            credential(r#"{"token":"secret","expirationTimestamp":"tomorrow"}"#),
            "its expirationTimestamp is not an RFC 3339 time",
        ),
        (
            credential(r#"{"clientKeyData":"secret"}"#),
            "it printed a certificate without a key, or a key without a certificate",
        ),
    ] {
        assert_eq!(parse(output.as_bytes(), Some(V1)), Err(problem.to_owned()), "{output}");
    }
    let other =
        parse(credential(r#"{"token":"secret"}"#).as_bytes(), Some("client.authentication.k8s.io/v1beta1"));
    assert_eq!(
        other,
        Err("it printed an ExecCredential of client.authentication.k8s.io/v1, not of \
             client.authentication.k8s.io/v1beta1"
            .to_owned())
    );
}

#[tokio::test]
async fn exec_plugin_receives_its_environment_and_kubernetes_exec_info() {
    let script = r#"case "$KUBERNETES_EXEC_INFO" in *'"interactive":false'*) ;; *) exit 7 ;; esac
        echo "{\"kind\":\"ExecCredential\",\"status\":{\"token\":\"$TOKEN\"}}""#;
    let issued = plugin(script).run().await.unwrap();
    assert_eq!(issued.token.as_deref(), Some("of-the-environment"));
}

#[tokio::test]
async fn exec_plugin_does_not_block_the_runtime() {
    let folder = std::env::temp_dir().join(format!("informer-exec-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    let (started, go) = (folder.join("started"), folder.join("go"));
    // The exec plugin ends only after another future has created a file on the single thread of this runtime.
    // The test would hang if waiting for the plugin blocked that thread.
    let script = format!(
        "touch {started}; while [ ! -e {go} ]; do sleep 0.01; done; echo '{output}'",
        started = started.display(),
        go = go.display(),
        output = credential(r#"{"token":"a"}"#),
    );
    let plugin = plugin(&script);
    let let_go = async {
        while !started.exists() {
            tokio::task::yield_now().await;
        }
        std::fs::write(&go, "").unwrap();
    };
    let (issued, ()) = tokio::join!(plugin.run(), let_go);
    assert_eq!(issued.unwrap().token.as_deref(), Some("a"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test(start_paused = true)]
async fn hanging_exec_plugin_is_killed_after_its_timeout() {
    let before = tokio::time::Instant::now();
    let error = plugin("exec sleep 1000").run().await.unwrap_err();
    assert_eq!(before + Duration::from_secs(60), tokio::time::Instant::now());
    assert_eq!(
        error.to_string(),
        "run exec plugin sh: no result within 60s; run it by hand, or raise ClientOptions::exec_timeout"
    );
}

#[tokio::test(start_paused = true)]
async fn exec_plugin_of_a_client_has_the_timeout_of_its_options() {
    for (exec_timeout, expected) in [(None, "60s"), (Some(Duration::from_secs(5)), "5s")] {
        let mut config = kube_client::Config::new("http://127.0.0.1:9".parse().unwrap());
        let exec = serde_json::json!({"apiVersion": V1, "command": "sleep", "args": ["1000"], "interactiveMode": "Never"});
        config.auth_info.exec = Some(serde_json::from_value(exec).unwrap());
        let options = ClientOptions { exec_timeout, ..ClientOptions::default() };
        let client = Client::with_options(config, options).unwrap();
        let request = http::Request::get("/api").body(Bytes::new()).unwrap();
        let error = client.request(request).await.map(drop).unwrap_err();
        let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let text = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        assert!(text.contains(&format!("no result within {expected}")), "{text}");
    }
}

#[tokio::test]
async fn failed_exec_plugin_error_contains_status_and_install_hint() {
    let error = plugin("exit 3").run().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "run exec plugin sh: it ended with exit status: 3; install sh; check the user in the kubeconfig, and run the \
         command by hand"
    );
    let error = plugin("yes").run().await.unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "it printed more than 1048576 bytes");
}
