//! Verification of client certificates.
//!
//! Like kube-apiserver, the server accepts the handshake with an invalid client certificate. Requests on such
//! a connection get 401, unless they have a valid token.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::{ClientCa, TlsError, subject};
use crate::model::user::User;

#[derive(Debug, Clone)]
pub(crate) enum PeerCertificate {
    /// The client certificate is valid. Contains the user of its subject.
    Verified(User),
    /// The client certificate is invalid: its issuer is unknown, it has expired, or it is not for client
    /// authentication.
    Invalid,
}

/// Verifies client certificates after the TLS handshake.
#[derive(Debug, Clone)]
pub(crate) struct ClientVerifier(Arc<dyn ClientCertVerifier>);

impl ClientVerifier {
    pub(super) fn new(clients: &ClientCa, provider: &Arc<CryptoProvider>) -> Result<Self, TlsError> {
        let roots = Arc::clone(&clients.roots);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider)).build();
        Ok(Self(verifier.map_err(|error| TlsError::Key(Box::new(error)))?))
    }

    /// Returns a certificate verifier for the TLS handshake, which requests client certificates and accepts
    /// any of them.
    pub(super) fn accept_any(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::new(AcceptAny(Arc::clone(&self.0)))
    }

    /// Verifies the client certificate chain of a TLS connection. Returns `None` if the client sent no
    /// certificate, or if a valid certificate has no user.
    pub(crate) fn verify(&self, chain: Option<&[CertificateDer<'_>]>) -> Option<PeerCertificate> {
        let (leaf, intermediates) = chain?.split_first()?;
        match self.0.verify_client_cert(leaf, intermediates, UnixTime::now()) {
            Ok(_) => subject::user(leaf).map(PeerCertificate::Verified),
            Err(error) => {
                tracing::debug!(%error, "invalid client certificate");
                Some(PeerCertificate::Invalid)
            }
        }
    }
}

/// Requests client certificates in the TLS handshake and accepts any of them. The signature in the handshake
/// still proves that the client has the private key.
#[derive(Debug)]
struct AcceptAny(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AcceptAny {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
