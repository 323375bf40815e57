//! Tests that a client uses new certificates, from files or an exec plugin, after the server has rejected its
//! old one. The embedded server changes the certificate authority (CA) that it accepts for users.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use informer_apiserver::{ApiServer, Certificate, CertificateAuthority, Listening, Tls, User};
use informer_client::Client;
use kube_client::Config;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The timeout for a response, so that the test fails instead of hanging.
const HANGS: Duration = Duration::from_secs(120);

/// An API server at a constant address. A test can restart it with another certificate authority for the
/// client certificates of users.
struct Cluster {
    tls: Tls,
    listening: Listening,
    forward: Arc<watch::Sender<std::net::SocketAddr>>,
    address: std::net::SocketAddr,
}

impl Cluster {
    async fn start(users: &CertificateAuthority) -> Self {
        let tls = Tls::self_signed().expect("a certificate");
        let listening = Self::listen(&tls, users).await;
        let forward = Arc::new(watch::Sender::new(listening.addr()));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound listener");
        let target = Arc::clone(&forward);
        tokio::spawn(async move {
            while let Ok((mut inbound, _)) = listener.accept().await {
                let target = *target.borrow();
                tokio::spawn(async move {
                    let mut outbound = TcpStream::connect(target).await.expect("the server listens");
                    let _ = tokio::io::copy_bidirectional(&mut inbound, &mut outbound).await;
                });
            }
        });
        Self { tls, listening, forward, address }
    }

    async fn listen(tls: &Tls, users: &CertificateAuthority) -> Listening {
        let authority = users.certificate().parse().expect("an authority");
        let server = ApiServer::builder().client_ca(authority).build();
        server.listen_tls("127.0.0.1:0", tls.clone()).await.expect("a free port")
    }

    /// Restarts the server with another authority for the certificates of users, and cuts all open
    /// connections.
    async fn rotate(&mut self, users: &CertificateAuthority) {
        let listening = Self::listen(&self.tls, users).await;
        self.forward.send_replace(listening.addr());
        let old = std::mem::replace(&mut self.listening, listening);
        old.cut_connections();
    }

    async fn config(&self) -> Config {
        let kubeconfig = Kubeconfig::from_yaml(&self.listening.kubeconfig()).expect("it is YAML");
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let mut config = config.expect("a valid configuration");
        config.cluster_url = format!("https://{}", self.address).parse().expect("a URL");
        config
    }
}

fn authority(name: &str) -> CertificateAuthority {
    CertificateAuthority::new(name).expect("a key can be generated")
}

fn user_of(authority: &CertificateAuthority) -> Certificate {
    authority.issue_to(&User::new("operator")).expect("a valid name")
}

async fn status(client: &Client) -> StatusCode {
    let request = Request::get("/api/v1/namespaces").body(Bytes::new()).expect("a valid path");
    let response = tokio::time::timeout(HANGS, client.request(request)).await.expect("a response");
    response.expect("a response").status()
}

/// Returns the status of a request after the server has cut its connections. A request on a connection that
/// is being cut fails, so it is sent again.
async fn status_after_cut(client: &Client) -> StatusCode {
    let request = || Request::get("/api/v1/namespaces").body(Bytes::new()).expect("a valid path");
    let status = async {
        loop {
            if let Ok(response) = client.request(request()).await {
                return response.status();
            }
        }
    };
    tokio::time::timeout(HANGS, status).await.expect("a response")
}

/// Returns a cluster that accepts client certificates of `authority`, and a client that reads its certificate
/// from files in a folder. The files are laid out like a mounted Secret.
async fn cluster_and_mounted_client(
    authority: &CertificateAuthority,
) -> (Cluster, tempfile::TempDir, Client) {
    let cluster = Cluster::start(authority).await;
    let folder = tempfile::tempdir().expect("a folder");
    mount(folder.path(), 1, &user_of(authority));
    let mut config = cluster.config().await;
    config.auth_info.client_certificate = Some(folder.path().join("tls.crt").display().to_string());
    config.auth_info.client_key = Some(folder.path().join("tls.key").display().to_string());
    let client = Client::new(config).expect("a valid configuration");
    assert_eq!(status(&client).await, StatusCode::OK);
    (cluster, folder, client)
}

/// Writes a certificate to a folder like kubelet updates a mounted Secret: writes the files to a new
/// subfolder, and then atomically replaces the symbolic link `..data` with a link to that subfolder.
fn mount(folder: &Path, version: u32, certificate: &Certificate) {
    let data = folder.join(format!("..{version}"));
    fs::create_dir(&data).expect("a writable folder");
    fs::write(data.join("tls.crt"), certificate.chain()).expect("a writable folder");
    fs::write(data.join("tls.key"), certificate.key()).expect("a writable folder");
    symlink(format!("..{version}"), folder.join("..data_tmp")).expect("a writable folder");
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).expect("a writable folder");
    for name in ["tls.crt", "tls.key"] {
        let _ = symlink(format!("..data/{name}"), folder.join(name));
    }
    let _ = fs::remove_dir_all(folder.join(format!("..{}", version - 1)));
}

#[tokio::test]
async fn client_certificate_of_a_mounted_secret_is_reloaded_when_the_server_rotates_its_authority() {
    let (before, after) = (authority("before"), authority("after"));
    let (mut cluster, folder, client) = cluster_and_mounted_client(&before).await;

    cluster.rotate(&after).await;
    mount(folder.path(), 2, &user_of(&after));
    assert_eq!(status_after_cut(&client).await, StatusCode::OK);
}

#[tokio::test]
async fn old_client_certificate_is_rejected_by_server_with_another_authority() {
    let (before, after) = (authority("before"), authority("after"));
    let (mut cluster, _folder, client) = cluster_and_mounted_client(&before).await;
    cluster.rotate(&after).await;
    assert_eq!(status_after_cut(&client).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn exec_plugin_with_certificates_runs_again_when_the_server_rotates_its_authority() {
    let (before, after) = (authority("before"), authority("after"));
    let mut cluster = Cluster::start(&before).await;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("credential");
    let write = |certificate: &Certificate| {
        let status =
            json!({"clientCertificateData": certificate.chain(), "clientKeyData": certificate.key()});
        fs::write(&file, json!({"kind": "ExecCredential", "status": status}).to_string())
            .expect("a writable folder");
    };
    write(&user_of(&before));
    let exec = json!({"command": "cat", "args": [file.display().to_string()], "interactiveMode": "Never"});
    let mut config = cluster.config().await;
    config.auth_info.exec = Some(serde_json::from_value(exec).expect("a valid plugin"));
    let client = Client::new(config).expect("a valid configuration");
    assert_eq!(status(&client).await, StatusCode::OK);

    cluster.rotate(&after).await;
    write(&user_of(&after));
    assert_eq!(status_after_cut(&client).await, StatusCode::OK);
}
