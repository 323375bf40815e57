//! TLS certificates of a server, which are read from files and reloaded when the files change.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use tokio::sync::watch;

use super::{Cause, PemError, TlsConfig, TlsOptions, authorities, certified_key};

/// The interval between two reads of a server's certificate files, as in controller-runtime. Certificates are
/// usually replaced hours before they expire, so the delay does not matter.
const RELOAD_INTERVAL: Duration = Duration::from_secs(10);

/// A certificate chain and its key in PEM files. The files are reloaded every 10 s, so a certificate that
/// cert-manager or a mounted Secret replaces is used for the next connection. While the files cannot be read
/// or do not match, the previous pair stays in use, and a warning states the reason.
#[derive(Clone)]
#[must_use = "pass it to a server"]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    authorities: Option<PathBuf>,
    provider: Arc<CryptoProvider>,
    options: TlsOptions,
}

impl Tls {
    /// Creates the TLS configuration of a server from two PEM files and a crypto provider. The
    /// provider that is installed for the process is not used.
    pub fn files(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        provider: impl Into<Arc<CryptoProvider>>,
    ) -> Self {
        Self {
            certificate: certificate.into(),
            key: key.into(),
            authorities: None,
            provider: provider.into(),
            options: TlsOptions::default(),
        }
    }

    /// Creates the TLS configuration of a server from two PEM files. It uses the crypto provider that is
    /// installed for the process, or else that of the feature `ring` or `aws-lc-rs`.
    #[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
    pub fn pem_files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let provider = super::default_provider().expect("the feature `ring` or `aws-lc-rs` has a provider");
        Self::files(certificate, key, provider)
    }

    /// Accepts only clients whose certificate was issued by one of the certificate authorities in this PEM
    /// file, for webhooks that only the API server may call. The file is reloaded together with the
    /// certificate and the key. The API server needs a client certificate for such webhooks
    /// (`--admission-control-config-file`).
    pub fn client_authority(mut self, authorities: impl Into<PathBuf>) -> Self {
        self.authorities = Some(authorities.into());
        self
    }

    /// Sets the versions of TLS and the cipher suites that the server accepts.
    pub fn options(mut self, options: TlsOptions) -> Self {
        self.options = options;
        self
    }

    async fn read(&self) -> Result<Files, TlsError> {
        let (certificate, key, authorities) =
            (self.certificate.clone(), self.key.clone(), self.authorities.clone());
        let read = move || -> Result<Files, (PathBuf, std::io::Error)> {
            let authorities = authorities.map(read_file).transpose()?;
            Ok(Files { certificate: read_file(certificate)?, key: read_file(key)?, authorities })
        };
        let read = tokio::task::spawn_blocking(read).await;
        read.map_err(|error| self.error("the files cannot be read", error))?
            .map_err(|(path, error)| self.error(format!("the file {} cannot be read", path.display()), error))
    }

    fn configure(&self, files: &Files) -> Result<ServerConfig, TlsError> {
        let clients = match self.authorities.as_deref().zip(files.authorities.as_deref()) {
            Some((path, authorities)) => Some(self.verifier(path, authorities)?),
            None => None,
        };
        let pair = certified_key(&files.certificate, &files.key, &self.provider);
        let pair = pair.map_err(|error| match error {
            PemError::Rejected(cause) => self.error("the key does not match the certificate", cause),
            error => self.error(error.to_string(), error.into_cause()),
        })?;
        self.options
            .server_config(Arc::clone(&self.provider), pair, clients, &[b"http/1.1"])
            .map_err(|error| self.error(error.to_string(), error))
    }

    /// Creates the verifier of client certificates from the certificate authorities that were read from the
    /// file at `path`.
    fn verifier(&self, path: &Path, text: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
        let problem = |problem: &str| format!("{problem} in {}", path.display());
        let roots = authorities(text).map_err(|error| match error {
            PemError::Certificate(pem::Error::NoItemsFound) => {
                self.error(problem("there is no client CA"), error.into_cause())
            }
            error => self.error(problem("there is an invalid client CA"), error.into_cause()),
        })?;
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&self.provider));
        verifier.build().map_err(|error| self.error(problem("there is no usable client CA"), error))
    }

    fn error(&self, problem: impl Into<String>, cause: impl Into<Cause>) -> TlsError {
        TlsError {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            problem: problem.into(),
            cause: cause.into(),
        }
    }
}

fn read_file(path: PathBuf) -> Result<Vec<u8>, (PathBuf, std::io::Error)> {
    std::fs::read(&path).map_err(|error| (path, error))
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (certificate, key): (&Path, &Path) = (&self.certificate, &self.key);
        f.debug_struct("Tls").field("certificate", &certificate).field("key", &key).finish_non_exhaustive()
    }
}

/// The error for a certificate that a server cannot use, or for invalid client CAs.
#[derive(Debug, thiserror::Error)]
#[error("serve {} with {}: {problem}", .certificate.display(), .key.display())]
pub struct TlsError {
    certificate: PathBuf,
    key: PathBuf,
    problem: String,
    #[source]
    cause: Cause,
}

#[derive(PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
    authorities: Option<Vec<u8>>,
}

/// Called with the result of each read of the files.
type OnRead = Box<dyn Fn(Result<(), &TlsError>) + Send + Sync>;

/// Reloads the certificate files of a [`Tls`] periodically, and replaces the [`TlsConfig`] of the listener.
pub struct CertificateReloader {
    tls: Tls,
    files: Files,
    config: watch::Sender<Arc<ServerConfig>>,
    on_read: OnRead,
}

impl CertificateReloader {
    /// Reads the files for the first time. Calls `on_read` with the result of this read and of each later
    /// one.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read, if the certificate, the key or a client CA is invalid, or
    /// if the key does not belong to the certificate.
    pub async fn load(
        tls: Tls,
        on_read: impl Fn(Result<(), &TlsError>) + Send + Sync + 'static,
    ) -> Result<Self, TlsError> {
        let read = tls.read().await.and_then(|files| Ok((tls.configure(&files)?, files)));
        on_read(read.as_ref().map(|_| ()));
        let (config, files) = read?;
        let config = watch::Sender::new(Arc::new(config));
        Ok(Self { tls, files, config, on_read: Box::new(on_read) })
    }

    /// Returns the configuration of the listener. It stays valid without the reloader.
    pub fn config(&self) -> TlsConfig {
        TlsConfig(self.config.subscribe())
    }

    /// Reloads the files periodically. Never returns. Cancel safe.
    pub async fn run(&mut self) {
        loop {
            tokio::time::sleep(RELOAD_INTERVAL).await;
            match self.reload().await {
                Ok(false) => {}
                Ok(true) => {
                    tracing::info!(certificate = %self.tls.certificate.display(), "loaded a new certificate")
                }
                Err(error) => {
                    let certificate = self.tls.certificate.display();
                    tracing::warn!(%certificate, error = &error as &dyn Error, "cannot load the new certificate; the old one stays in use");
                }
            }
        }
    }

    /// Reads the files. Returns true if they have changed.
    pub(super) async fn reload(&mut self) -> Result<bool, TlsError> {
        let read = self.tls.read().await.and_then(|files| self.changed(files));
        (self.on_read)(read.as_ref().map(|_| ()));
        let Some((config, files)) = read? else { return Ok(false) };
        self.config.send_replace(Arc::new(config));
        self.files = files;
        Ok(true)
    }

    fn changed(&self, files: Files) -> Result<Option<(ServerConfig, Files)>, TlsError> {
        if self.files == files {
            return Ok(None);
        }
        Ok(Some((self.tls.configure(&files)?, files)))
    }
}

impl fmt::Debug for CertificateReloader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CertificateReloader").field("tls", &self.tls).finish_non_exhaustive()
    }
}
