//! What a client's certificate is worth.
//!
//! As upstream, a certificate that proves nothing does not break the handshake: the request that follows is refused,
//! unless it has a token.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::{ClientCa, TlsError, subject};
use crate::model::user::User;

/// Who a connection's certificate says it is.
#[derive(Debug, Clone)]
pub(crate) enum PeerCertificate {
    /// Signed by an authority that is trusted.
    Proves(User),
    /// Signed by somebody else, expired, or made for something else.
    Fails,
}

/// Judges certificates after the handshake.
#[derive(Debug, Clone)]
pub(crate) struct Witness(Arc<dyn ClientCertVerifier>);

impl Witness {
    pub(super) fn new(clients: &ClientCa, provider: &Arc<CryptoProvider>) -> Result<Self, TlsError> {
        let roots = Arc::clone(&clients.roots);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider)).build();
        Ok(Self(verifier.map_err(|error| TlsError::Key(Box::new(error)))?))
    }

    /// Asks for certificates, and takes any whose key the client has.
    pub(super) fn asking(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::new(Asking(Arc::clone(&self.0)))
    }

    /// What the certificates of a connection prove; `None` where there is none, or it names nobody.
    pub(crate) fn judge(&self, chain: Option<&[CertificateDer<'_>]>) -> Option<PeerCertificate> {
        let (own, rest) = chain?.split_first()?;
        match self.0.verify_client_cert(own, rest, UnixTime::now()) {
            Ok(_) => subject::user(own).map(PeerCertificate::Proves),
            Err(error) => {
                tracing::debug!(%error, "a client's certificate proves nothing");
                Some(PeerCertificate::Fails)
            }
        }
    }
}

/// Asks for certificates without judging them. That the client has the key is proven by the handshake.
#[derive(Debug)]
struct Asking(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Asking {
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
