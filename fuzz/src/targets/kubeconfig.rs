use informer_apiserver::Tokens;
use informer_client::Client;
use kube_client::Config;
use kube_client::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig};

use super::Target;
use crate::probe::block_on;

pub(super) const TARGET: Target = Target {
    name: "kubeconfig",
    run,
    words: &[
        "apiVersion: v1\nkind: Config\n",
        "current-context: c\n",
        "clusters:\n- name: k\n  cluster: {server: \"https://localhost:6443\"}\n",
        "contexts:\n- name: c\n  context: {cluster: k, user: u, namespace: n}\n",
        "users:\n- name: u\n  user: {token: SECRETTOKEN}\n",
        "  user: {username: a, password: SECRETTOKEN}\n",
        "certificate-authority-data: ",
        "client-certificate-data: ",
        "client-key-data: ",
        "tls-server-name: ",
        "proxy-url: http://u:p@localhost:3128",
        "insecure-skip-tls-verify: true",
        "disable-compression: true",
        "---\n",
        ",admin,1,\"system:masters,b\"\n",
    ],
};

/// A token in the seeds and in the fuzzer's words. No message may contain it.
const SECRET: &str = "SECRETTOKEN";

/// Parses a kubeconfig or a token file. The result is a client or an error; neither may reveal a secret.
///
/// Commands and files that the kubeconfig refers to are removed first.
fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    run_tokens(text);
    let Ok(mut kubeconfig) = Kubeconfig::from_yaml(text) else { return };
    kubeconfig.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()).for_each(alone);
    kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()).for_each(without_files);
    block_on(async {
        let options = KubeConfigOptions::default();
        let Ok(config) = Config::from_custom_kubeconfig(kubeconfig, &options).await else { return };
        match Client::new(config) {
            Ok(client) => assert!(
                !format!("{client:?}").contains(SECRET),
                "the Debug output of a client contains a secret"
            ),
            Err(error) => check_refusal(&error),
        }
    });
}

fn check_refusal(error: &dyn std::error::Error) {
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        assert!(!text.is_empty(), "an empty error message");
        assert!(!text.contains(SECRET), "an error message contains a secret: {text}");
        next = error.source();
    }
}

fn run_tokens(text: &str) {
    match text.parse::<Tokens>() {
        Ok(tokens) => {
            assert!(!format!("{tokens:?}").contains(SECRET), "the Debug output of tokens contains a secret")
        }
        Err(error) => check_refusal(&error),
    }
}

fn alone(user: &mut AuthInfo) {
    user.exec = None;
    user.auth_provider = None;
    user.token_file = None;
    user.client_certificate = None;
    user.client_key = None;
}

fn without_files(cluster: &mut Cluster) {
    cluster.certificate_authority = None;
}
