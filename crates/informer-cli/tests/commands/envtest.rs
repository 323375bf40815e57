//! Tests of the programs that replace `kube-apiserver` and `etcd` in envtest.

use std::fs;
use std::path::{Path, PathBuf};

use informer::kube_client::config::{KubeConfigOptions, Kubeconfig};
use informer::kube_client::{Client, Config};
use informer_apiserver::{CertificateAuthority, ReservedPort, User};
use tempfile::TempDir;

use crate::command::{Running, run, start_program, start_with};

pub(crate) struct Installed {
    /// The directory that contains the programs `kube-apiserver` and `etcd`.
    bin: PathBuf,
    folder: TempDir,
    etcd: ReservedPort,
    apiserver: ReservedPort,
}

impl Installed {
    async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let bin = folder.path().join("bin");
        let ended = run(["envtest", "install", bin.to_str().unwrap()]).await;
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        Self::with_programs(folder, bin)
    }

    pub(crate) fn with_programs(folder: TempDir, bin: PathBuf) -> Self {
        let [etcd, apiserver] = [(); 2].map(|()| ReservedPort::new().unwrap());
        let installed = Self { bin, folder, etcd, apiserver };
        fs::write(installed.path("tokens.csv"), "secret,admin,admin,system:masters\n").unwrap();
        let authority = CertificateAuthority::new("users").unwrap();
        fs::write(installed.path("users.crt"), authority.certificate()).unwrap();
        for (name, groups) in [("chief", &["system:masters"][..]), ("guest", &[])] {
            let user = authority.issue_to(&User::new(name).groups(groups.iter().copied())).unwrap();
            fs::write(installed.path(name), format!("{}{}", user.chain(), user.key())).unwrap();
        }
        installed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start(&self, program: &str, args: &[String]) -> Running {
        start_program(&self.bin.join(program), args, None)
    }

    pub(crate) async fn etcd(&self) -> Running {
        let url = format!("http://127.0.0.1:{}", self.etcd.number());
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

    pub(crate) async fn apiserver(&self) -> Running {
        let at = |name: &str| self.path(name).display().to_string();
        let args = [
            "--allow-privileged=true".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--cert-dir={}", at("certs")),
            format!("--client-ca-file={}", at("users.crt")),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd.number()),
            "--event-ttl=1h0m0s".to_owned(),
            format!("--secure-port={}", self.apiserver.number()),
            "--service-account-issuer=https://127.0.0.1/".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            format!("--token-auth-file={}", at("tokens.csv")),
        ];
        let mut apiserver = self.start("kube-apiserver", &args);
        assert!(apiserver.line().await.contains(&format!("https://127.0.0.1:{}", self.apiserver.number())));
        apiserver
    }

    /// Returns a client of the API server that authenticates with the credentials in `user`, the YAML of a
    /// kubeconfig user.
    async fn client(&self, user: &str) -> Client {
        Client::try_from(self.config(user).await).unwrap()
    }

    pub(crate) async fn config(&self, user: &str) -> Config {
        let config = kubeconfig(self.apiserver.number(), &self.path("certs/apiserver.crt"), user);
        let config = Kubeconfig::from_yaml(&config).unwrap();
        Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap()
    }

    async fn client_of(&self, name: &str) -> Client {
        let path = self.path(name);
        let path = path.display();
        self.client(&format!("client-certificate: '{path}', client-key: '{path}'")).await
    }

    /// Runs `informer watch` until it has printed `count` objects of a kind, and returns the key and the
    /// resourceVersion of each.
    async fn seen(&self, kind: &str, count: usize) -> Vec<(String, String)> {
        let config = self.path("kubeconfig");
        let authority = self.path("certs/apiserver.crt");
        fs::write(&config, kubeconfig(self.apiserver.number(), &authority, "token: secret")).unwrap();
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

fn kubeconfig(port: u16, authority: &Path, user: &str) -> String {
    let authority = authority.display();
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
         clusters: [{{name: a, cluster: {{server: 'https://127.0.0.1:{port}', certificate-authority: '{authority}'}}}}]\n\
         contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\nusers: [{{name: a, user: {{{user}}}}}]\n"
    )
}

#[tokio::test]
async fn restarted_apiserver_restores_its_state_from_etcd() {
    let installed = Installed::new().await;
    let _etcd = installed.etcd().await;
    let mut first = installed.apiserver().await;
    let before = installed.seen("namespaces", 4).await;
    assert_eq!(installed.seen("services", 1).await[0].0, "default/kubernetes");
    first.terminate().await;
    assert_eq!(first.status().await.code(), Some(0));
    let _second = installed.apiserver().await;
    assert_eq!(installed.seen("namespaces", 4).await, before, "the resourceVersions are unchanged");
}

#[tokio::test]
async fn the_data_directory_of_etcd_outlives_both_programs() {
    let installed = Installed::new().await;
    let mut before = Vec::new();
    for _ in 0..2 {
        let (mut etcd, mut apiserver) = (installed.etcd().await, installed.apiserver().await);
        before.push(installed.seen("namespaces", 4).await);
        for program in [&mut apiserver, &mut etcd] {
            program.terminate().await;
            assert_eq!(program.status().await.code(), Some(0));
        }
    }
    assert_eq!(before[0], before[1]);
}

/// Anonymous requests for health must be allowed, because envtest checks the health endpoints without
/// credentials before its `Start` returns.
#[tokio::test]
async fn health_endpoints_allow_anonymous_requests() {
    let installed = Installed::new().await;
    let (_etcd, _apiserver) = (installed.etcd().await, installed.apiserver().await);
    let client = installed.client("").await;
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(asked(&client, path).await.unwrap(), "ok", "{path}");
    }
    let etcd = Config::new(format!("http://127.0.0.1:{}", installed.etcd.number()).parse().unwrap());
    let told = asked(&Client::try_from(etcd).unwrap(), "/health").await.unwrap();
    assert_eq!(told, r#"{"health":"true","reason":""}"#);
}

#[tokio::test]
async fn users_are_who_their_certificates_say_and_may_do_what_roles_allow() {
    let installed = Installed::new().await;
    let (_etcd, _apiserver) = (installed.etcd().await, installed.apiserver().await);
    let namespaces = "/api/v1/namespaces/default";
    let chief = asked(&installed.client_of("chief").await, namespaces).await.unwrap();
    assert!(chief.contains(r#""kind":"Namespace""#), "{chief}");
    let guest = asked(&installed.client_of("guest").await, namespaces).await.unwrap_err();
    assert!(guest.contains(r#"User "guest" cannot get resource "namespaces""#), "{guest}");
}

async fn asked(client: &Client, path: &str) -> Result<String, String> {
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    client.request_text(request).await.map_err(|error| error.to_string())
}

#[cfg(unix)]
#[tokio::test]
async fn a_kubectl_is_linked_to_and_what_was_installed_is_replaced() {
    let folder = TempDir::new().unwrap();
    let (kubectl, bin) = (folder.path().join("any-kubectl"), folder.path().join("bin"));
    fs::write(&kubectl, "").unwrap();
    let args = ["envtest", "install", bin.to_str().unwrap(), "--kubectl", kubectl.to_str().unwrap()];
    for _ in 0..2 {
        let ended = run(args).await;
        assert_eq!(ended.code, Some(0), "{}", ended.err);
    }
    assert_eq!(fs::read_link(bin.join("kubectl")).unwrap(), fs::canonicalize(kubectl).unwrap());
}

#[tokio::test]
async fn a_flag_for_what_is_not_there_is_named() {
    let installed = Installed::new().await;
    let cases = [
        ("kube-apiserver", "--encryption-provider-config=x", "--encryption-provider-config"),
        ("kube-apiserver", "--authorization-mode=Webhook", "\"Webhook\" for flag --authorization-mode"),
        ("kube-apiserver", "--enable-admission-plugins=AlwaysPullImages", "\"AlwaysPullImages\""),
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
async fn install_does_not_overwrite_foreign_programs() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("etcd"), "precious").unwrap();
    let ended = run(["envtest", "install", folder.path().to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("refusing to overwrite"), "{}", ended.err);
    assert_eq!(fs::read(folder.path().join("etcd")).unwrap(), b"precious");
}
