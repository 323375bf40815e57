//! Reads tokens and certificates from files, such as those of a mounted Secret.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kube_client::Config;
use rustls::client::ResolvesClientCert;

use super::{CredentialsError, Current, Identities, Loaded, bearer};

/// The credential files of a kubeconfig user; `None` for a credential that is inline in the configuration.
pub(super) struct Files {
    token: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    identities: Option<Identities>,
}

pub(super) struct Contents {
    token: Option<Result<Vec<u8>, CredentialsError>>,
    pair: Result<CertificatePair, CredentialsError>,
}

/// The client certificate and its key; `None` for the part that is inline in the configuration.
#[derive(Default, PartialEq, Eq)]
pub(super) struct CertificatePair {
    certificate: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
}

impl Files {
    pub(super) fn of(
        config: &Config,
        token: Option<&String>,
        identities: Option<Identities>,
    ) -> Option<Self> {
        let user = &config.auth_info;
        let inline = (user.client_certificate_data.is_some(), user.client_key_data.is_some());
        let path = |path: &Option<String>, inline: bool| {
            path.as_ref().filter(|_| !inline && identities.is_some()).map(PathBuf::from)
        };
        let certificate = path(&user.client_certificate, inline.0);
        let key = path(&user.client_key, inline.1);
        // kube rejects a client certificate without a key, so the pair is used only if both are configured.
        let pair = (certificate.is_some() || inline.0) && (key.is_some() || inline.1);
        let (certificate, key) = if pair { (certificate, key) } else { (None, None) };
        let files = Self { token: token.map(PathBuf::from), certificate, key, identities };
        (files.token.is_some() || files.has_identity()).then_some(files)
    }

    pub(super) fn has_identity(&self) -> bool {
        self.certificate.is_some() || self.key.is_some()
    }

    pub(super) fn read(&self) -> Contents {
        let pair = || {
            let certificate = self.certificate.as_deref().map(read).transpose()?;
            Ok(CertificatePair { certificate, key: self.key.as_deref().map(read).transpose()? })
        };
        Contents { token: self.token.as_deref().map(read), pair: pair() }
    }

    /// Creates credentials from the contents of the files. `last` is the contents of the certificate and key
    /// files from which the current TLS identity was created.
    ///
    /// If a file is unreadable or invalid, the previous credentials stay in use, if there are any. A failure
    /// of the token file does not affect the certificate, and vice versa. A token file may be removed after
    /// it was read, to limit its exposure (kubernetes/kubernetes#68164).
    pub(super) fn load(
        &self,
        contents: Contents,
        last: &mut CertificatePair,
        before: &Current,
    ) -> Result<Loaded, CredentialsError> {
        let mut loaded = Loaded {
            authorization: before.authorization.clone(),
            identity: before.identity.clone(),
            identity_changed: false,
            expires: None,
        };
        let token =
            contents.token.map(|token| token.and_then(|token| bearer(&String::from_utf8_lossy(&token))));
        match token {
            None => {}
            Some(Ok(header)) => loaded.authorization = Some(header),
            Some(Err(error)) => kept(error, before.authorization.is_some())?,
        }
        match contents.pair.and_then(|pair| Ok((self.identity(&pair, last, before)?, pair))) {
            Ok((None, _)) => {}
            Ok((identity, pair)) => {
                (loaded.identity, loaded.identity_changed) = (identity, true);
                *last = pair;
            }
            Err(error) => kept(error, before.identity.is_some())?,
        }
        Ok(loaded)
    }

    /// Creates a new TLS identity if the certificate and key files differ from those of the current identity.
    fn identity(
        &self,
        pair: &CertificatePair,
        last: &CertificatePair,
        before: &Current,
    ) -> Result<Option<Arc<dyn ResolvesClientCert>>, CredentialsError> {
        let Some(identities) = self.identities.as_ref().filter(|_| self.has_identity()) else {
            return Ok(None);
        };
        if before.identity.is_some() && pair == last {
            return Ok(None);
        }
        let identity = identities.identity(pair.certificate.as_deref(), pair.key.as_deref());
        let unusable = |error| {
            let paths = [&self.certificate, &self.key].into_iter().flatten();
            let paths: Vec<String> = paths.map(|path| path.display().to_string()).collect();
            let problem = format!("no valid client certificate in {}", paths.join(" and "));
            let remedy = "check that certificate and key are PEM and form a pair";
            CredentialsError::new(problem, remedy).because(error)
        };
        identity.map(Some).map_err(unusable)
    }
}

/// Logs a failed load of a credential file if earlier credentials stay in use; returns the error otherwise.
fn kept(error: CredentialsError, earlier: bool) -> Result<(), CredentialsError> {
    if !earlier {
        return Err(error);
    }
    tracing::warn!(
        error = &error as &dyn std::error::Error,
        "a credential file is unreadable or invalid; the previous credentials stay in use"
    );
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, CredentialsError> {
    std::fs::read(path).map_err(|error: io::Error| {
        let remedy = "check that it exists and that this process may read it";
        CredentialsError::new(format!("the file {} cannot be read", path.display()), remedy).because(error)
    })
}
