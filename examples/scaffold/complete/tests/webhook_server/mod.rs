//! The webhook server of the operator for a test. The API server connects to it through a socket,
//! so time is not paused.

use std::path::PathBuf;

use complete::webhooks;
use informer::k8s_openapi::ByteString;
use informer::prelude::*;
use informer::runtime::{Cache, CachedClient, ManagerStatus, Tls};
use informer::testing::{CertificateAuthority, TestServer, User};
use informer::webhook::WebhookServer;
use serde::Deserialize;
use serde_json::Value;
use tokio::net::TcpListener;

use crate::cluster;

const NAMESPACE: &str = "complete-system";
const SERVICE: &str = "complete-webhook";

/// A running webhook server.
pub struct Webhooks {
    /// Tests run at the same time, so each has a folder of its own.
    folder: PathBuf,
    authority: CertificateAuthority,
}

impl Webhooks {
    /// Starts the webhook server. `test` is a name that no other test has.
    pub async fn start(server: &TestServer, test: &str) -> Self {
        let name = format!("{}_{test}", env!("CARGO_PKG_NAME"));
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).expect("the folder can be created");
        let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
        let authority = CertificateAuthority::new("test").expect("a key");
        let issued = authority.issue_for([format!("{SERVICE}.{NAMESPACE}.svc").as_str()]);
        let issued = issued.expect("a valid host name");
        std::fs::write(&certificate, issued.chain()).expect("the certificate can be written");
        std::fs::write(&key, issued.key()).expect("the key can be written");

        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("the listener is bound");
        let webhooks = webhooks::register(WebhookServer::on(
            listener,
            Tls::pem_files(certificate, key),
        ));
        let manager = Manager::new(cluster::client(server)).add(webhooks);
        let mut status = manager.handle().status();
        tokio::spawn(manager.run_until(std::future::pending::<()>()));
        let running = status.wait_for(|status| *status == ManagerStatus::Running);
        running.await.expect("the manager runs");
        let routes = server.server().webhooks();
        routes.route_service(NAMESPACE, SERVICE, address.to_string());
        Self { folder, authority }
    }

    /// Loads a manifest of webhooks with the CA of this test, as cert-manager adds its CA.
    pub fn load(&self, server: &TestServer, manifest: &str) {
        let text = std::fs::read_to_string(manifest).expect("the manifest exists");
        let authority = ByteString(self.authority.certificate().as_bytes().to_vec());
        let authority = serde_json::to_value(authority).expect("a string");
        for (index, document) in serde_norway::Deserializer::from_str(&text).enumerate() {
            let mut object = Value::deserialize(document).expect("the manifest is YAML");
            if let Some(conversion) = object.pointer_mut("/spec/conversion/webhook/clientConfig") {
                conversion["caBundle"] = authority.clone();
            }
            for webhook in object["webhooks"].as_array_mut().into_iter().flatten() {
                webhook["clientConfig"]["caBundle"] = authority.clone();
            }
            let path = self.folder.join(format!("{index}.yaml"));
            std::fs::write(&path, object.to_string()).expect("the file can be written");
            server
                .server()
                .load_yaml(path)
                .expect("the manifest is valid");
        }
    }
}

/// Returns the client of an administrator.
pub fn client(server: &TestServer) -> CachedClient {
    let user = server.client_as(User::new("jane").groups(["system:masters"]));
    CachedClient::new(&Cache::new(user))
}
