//! The programs that stand in for those of envtest.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::command::{Running, run, start_program, start_with};

/// An installation, and what its programs are started with.
struct Installed {
    folder: TempDir,
    etcd: u16,
    apiserver: u16,
}

impl Installed {
    async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let [etcd, apiserver] = free_ports();
        let installed = Self { folder, etcd, apiserver };
        let ended = run(["envtest", "install", installed.path("bin").to_str().unwrap()]).await;
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        fs::write(installed.path("tokens.csv"), "secret,admin,admin,system:masters\n").unwrap();
        installed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&self, program: &str, args: &[String]) -> Running {
        start_program(&self.path("bin").join(program), args, None)
    }

    async fn etcd(&self) -> Running {
        let url = format!("http://127.0.0.1:{}", self.etcd);
        let args = [
            format!("--advertise-client-urls={url}"),
            format!("--data-dir={}", self.path("etcd").display()),
            format!("--listen-client-urls={url}"),
            "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
            "--unsafe-no-fsync=true".to_owned(),
        ];
        let mut etcd = self.start("etcd", &args);
        assert!(etcd.line().await.contains(&url));
        etcd
    }

    async fn apiserver(&self) -> Running {
        let at = |name: &str| self.path(name).display().to_string();
        let args = [
            "--allow-privileged=true".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--cert-dir={}", at("certs")),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd),
            "--event-ttl=1h0m0s".to_owned(),
            format!("--secure-port={}", self.apiserver),
            "--service-account-issuer=https://127.0.0.1/".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            format!("--token-auth-file={}", at("tokens.csv")),
        ];
        let mut apiserver = self.start("kube-apiserver", &args);
        assert!(apiserver.line().await.contains(&format!("https://127.0.0.1:{}", self.apiserver)));
        apiserver
    }

    /// The objects of a kind as `informer watch` tells them: key and version.
    async fn seen(&self, kind: &str, count: usize) -> Vec<(String, String)> {
        let config = self.path("kubeconfig");
        let authority = self.path("certs/apiserver.crt");
        fs::write(&config, kubeconfig(self.apiserver, &authority)).unwrap();
        let mut watch = start_with(["watch", kind, "-A", "-o", "json"], Some(&config));
        let mut seen = Vec::new();
        for _ in 0..count {
            let line = watch.json().await;
            seen.push((
                line["key"].as_str().unwrap().to_owned(),
                line["new_rv"].as_str().unwrap().to_owned(),
            ));
        }
        seen.sort();
        seen
    }
}

fn kubeconfig(port: u16, authority: &Path) -> String {
    let authority = authority.display();
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
         clusters: [{{name: a, cluster: {{server: 'https://127.0.0.1:{port}', certificate-authority: '{authority}'}}}}]\n\
         contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\nusers: [{{name: a, user: {{token: secret}}}}]\n"
    )
}

/// Two ports; held until both are found, so that they differ.
fn free_ports() -> [u16; 2] {
    let found = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    found.each_ref().map(|listener| listener.local_addr().unwrap().port())
}

#[tokio::test]
async fn an_apiserver_that_is_started_again_beside_its_etcd_has_what_it_had() {
    let installed = Installed::new().await;
    let _etcd = installed.etcd().await;
    let mut first = installed.apiserver().await;
    let before = installed.seen("namespaces", 4).await;
    assert_eq!(installed.seen("services", 1).await[0].0, "default/kubernetes");
    first.terminate().await;
    assert_eq!(first.status().await.code(), Some(0));
    let _second = installed.apiserver().await;
    assert_eq!(installed.seen("namespaces", 4).await, before, "with the versions that they had");
}

#[tokio::test]
async fn a_flag_for_what_is_not_there_is_named() {
    let installed = Installed::new().await;
    let cases = [
        ("kube-apiserver", "--encryption-provider-config=x", "--encryption-provider-config"),
        ("kube-apiserver", "--authorization-mode=Webhook", "\"Webhook\" for flag --authorization-mode"),
        ("kube-apiserver", "--enable-admission-plugins=PodSecurity", "\"PodSecurity\""),
        ("kube-apiserver", "--bind-address=0.0.0.0", "--bind-address"),
        ("kube-apiserver", "--event-ttl=soon", "\"soon\" for flag --event-ttl"),
        ("etcd", "--auto-tls", "--auto-tls"),
    ];
    for (program, flag, named) in cases {
        let ended = installed.start(program, &[flag.to_owned()]).ended().await;
        assert_eq!(ended.code, Some(1), "{program} {flag}");
        assert!(ended.err.contains(named), "{}", ended.err);
    }
}

#[tokio::test]
async fn help_is_what_envtest_looks_for() {
    let installed = Installed::new().await;
    let lists = |text: &str, flag: &str| text.lines().any(|line| line.trim_start().starts_with(flag));
    let etcd = installed.start("etcd", &["--help".to_owned()]).ended().await;
    assert!(etcd.code == Some(0) && lists(&etcd.out, "--unsafe-no-fsync"), "{}", etcd.out);
    let apiserver = installed.start("kube-apiserver", &["--help".to_owned()]).ended().await;
    assert!(apiserver.code == Some(0) && !lists(&apiserver.out, "--insecure-port"), "{}", apiserver.out);
}

#[tokio::test]
async fn programs_of_somebody_else_are_not_overwritten() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("etcd"), "precious").unwrap();
    let ended = run(["envtest", "install", folder.path().to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("refusing to overwrite"), "{}", ended.err);
    assert_eq!(fs::read(folder.path().join("etcd")).unwrap(), b"precious");
}
