use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use informer_apiserver::{
    ApiServer, ApiServerBuilder, Certificate, CertificateAuthority, ClientCa, ExtraField, Listening, Tls,
    TlsError, Tokens, User,
};
use parking_lot::Mutex;
use tempfile::TempDir;

use super::ServerError;

/// Number of users without any permission, named `guest-0`, `guest-1` and so on, like those of `cargo xtask
/// real up`.
const GUESTS: usize = 8;
/// The prefix of a valid token; the user name follows it. The server rejects every other token.
const TOKEN: &str = "token-of-";

/// The embedded server, configured like the kube-apiserver of `cargo xtask real up`: TLS with HTTP/2, tokens,
/// client certificates and roles.
#[derive(Debug)]
pub struct Embedded {
    api: ApiServer,
    tls: Tls,
    address: SocketAddr,
    listening: Mutex<Option<Listening>>,
    /// The administrator's kubeconfigs: the first one authenticates with a token, the second one with a
    /// client certificate.
    kubeconfigs: [String; 2],
    backup: AtomicU64,
    newer: bool,
}

/// Fields that a newer server version adds to every object and to elements of lists inside objects, and that
/// the client's compiled schema table does not know.
const NEWER_FIELDS: [ExtraField; 7] = [
    ExtraField::new("meta.v1.ObjectMeta", "region", 200, "*string"),
    ExtraField::new("meta.v1.ObjectMeta", "origin", 201, "*core.v1.SecretReference"),
    ExtraField::new("meta.v1.OwnerReference", "weight", 202, "*int32"),
    ExtraField::new("core.v1.Container", "shells", 203, "[]string"),
    ExtraField::new("core.v1.EnvVar", "masked", 204, "*bool"),
    ExtraField::new("core.v1.ContainerPort", "zone", 205, "*string"),
    ExtraField::new("core.v1.ServicePort", "zone", 206, "*string"),
];

fn administrator() -> Result<(Certificate, ClientCa), TlsError> {
    let users = CertificateAuthority::new("users")?;
    let admin = users.issue_to(&User::new("admin-by-certificate").groups(["system:masters"]))?;
    Ok((admin, users.certificate().parse()?))
}

impl Embedded {
    /// Starts a server.
    ///
    /// # Errors
    ///
    /// When the server cannot listen on any port.
    pub async fn new() -> Result<Self, ServerError> {
        Self::start_with(ApiServer::builder(), false).await
    }

    /// Starts a server that is newer than the client's compiled schema table: its objects have fields that
    /// the table does not know.
    ///
    /// # Errors
    ///
    /// When the server cannot listen on any port.
    pub async fn newer() -> Result<Self, ServerError> {
        let builder = ApiServer::builder().extra_fields(&NEWER_FIELDS)?;
        Self::start_with(builder, true).await
    }

    async fn start_with(builder: ApiServerBuilder, newer: bool) -> Result<Self, ServerError> {
        let (admin, authority) = administrator()?;
        let mut tokens = Tokens::default();
        tokens.add(Self::token_of("admin"), User::new("admin").groups(["system:masters"]));
        for guest in (0..GUESTS).map(|number| format!("guest-{number}")) {
            tokens.add(Self::token_of(&guest), User::new(guest));
        }
        let api = builder.tokens(tokens).client_ca(authority).rbac(true).build();
        let tls = Tls::self_signed()?;
        let listening = api.listen_tls("127.0.0.1:0", tls.clone()).await?;
        Ok(Self {
            api,
            tls,
            address: listening.addr(),
            kubeconfigs: [
                listening.kubeconfig_with(&Self::token_of("admin")),
                listening.kubeconfig_of(&admin),
            ],
            listening: Mutex::new(Some(listening)),
            backup: AtomicU64::new(0),
            newer,
        })
    }

    pub(super) fn is_newer(&self) -> bool {
        self.newer
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn api(&self) -> &ApiServer {
        &self.api
    }

    pub(super) fn kubeconfig(&self, by_certificate: bool) -> &str {
        &self.kubeconfigs[usize::from(by_certificate)]
    }

    pub(super) fn token_of(user: &str) -> String {
        format!("{TOKEN}{user}")
    }

    pub(super) async fn stop(&self) {
        let listening = self.listening.lock().take();
        if let Some(listening) = listening {
            listening.shutdown().await;
        }
    }

    pub(super) async fn start(&self) -> Result<(), ServerError> {
        let listening = self.api.listen_tls(self.address, self.tls.clone()).await?;
        *self.listening.lock() = Some(listening);
        Ok(())
    }

    /// Simulates a restart of the storage backend. The embedded server has no separate backend, so this saves
    /// its whole state to a file and restores it. Clients notice the same effects: watches end and the
    /// history is lost.
    pub(super) fn restart_store(&self) -> Result<(), ServerError> {
        let folder = TempDir::new()?;
        let path = folder.path().join("state.json");
        self.api.save(&path)?;
        Ok(self.api.restore_from(&path)?)
    }

    pub(super) fn backup(&self) {
        self.backup.store(self.api.version(), Ordering::Relaxed);
    }

    pub(super) fn restore(&self) -> Result<(), ServerError> {
        let version = self.backup.load(Ordering::Relaxed);
        self.api.rewind(version).map_err(|_| ServerError::Unknown("a restore to that version"))
    }
}
