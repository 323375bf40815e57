//! TLS connections to webhooks. Errors have the messages of Go's crypto/tls.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::time_provider::TimeProvider;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Returns the TLS configuration of a client that trusts the certificates of a `caBundle`. Without a
/// `caBundle` it trusts no certificate. Certificates must be valid at `now`, the time of the server.
pub(super) fn client_config(ca_bundle: Option<&str>, now: Timestamp) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let pem = STANDARD.decode(ca_bundle.unwrap_or_default()).unwrap_or_default();
    let bundle: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem).flatten().collect();
    for certificate in &bundle {
        roots.add(certificate.clone()).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() && !pem.is_empty() {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
    }
    let provider = crate::tls::default_provider().ok_or("no crypto provider of rustls is installed")?;
    let time = Arc::new(ServerTime(UnixTime::since_unix_epoch(
        Duration::try_from(now.duration_since(Timestamp::UNIX_EPOCH)).unwrap_or_default(),
    )));
    let builder = ClientConfig::builder_with_details(Arc::clone(&provider), time);
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    if bundle.is_empty() {
        return Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()));
    }
    let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    let authorities = authorities.build().map_err(|error| error.to_string())?;
    let verifier = Arc::new(BundleVerifier { authorities, bundle });
    Ok(Arc::new(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()))
}

/// The time of the server, which may be simulated.
#[derive(Debug)]
struct ServerTime(UnixTime);

impl TimeProvider for ServerTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.0)
    }
}

/// Accepts webhook certificates that a certificate in the `caBundle` has signed, and the certificates in the
/// `caBundle` themselves.
///
/// A `caBundle` may contain the webhook's own certificate without its issuer, which Go's crypto/x509 accepts,
/// too.
#[derive(Debug)]
struct BundleVerifier {
    authorities: Arc<WebPkiServerVerifier>,
    bundle: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for BundleVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let result =
            self.authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match result {
            // The verifier checks the validity period before the issuer, so a certificate with an unknown
            // issuer has not expired.
            Err(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer))
                if self.bundle.iter().any(|certificate| certificate == end_entity) =>
            {
                rustls::client::verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.authorities.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

pub(super) fn handshake_error(error: &std::io::Error, host: &str) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let Some(rustls::Error::InvalidCertificate(why)) = inner else {
        return match error.kind() {
            std::io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
            _ => error.to_string(),
        };
    };
    let why = match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("certificate is not valid for {host}")
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        other => other.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CertificateAuthority;

    fn verify(
        bundle: &[u8],
        presented: &CertificateDer<'_>,
        name: &str,
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let bundle: Vec<_> = CertificateDer::pem_slice_iter(bundle).flatten().collect();
        let mut roots = RootCertStore::empty();
        bundle.iter().for_each(|certificate| roots.add(certificate.clone()).expect("it is a certificate"));
        let provider = crate::tls::default_provider().expect("the tests enable a crypto provider");
        let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier =
            BundleVerifier { authorities: authorities.build().expect("the bundle contains a root"), bundle };
        let name = ServerName::try_from(name.to_owned()).expect("the name is valid");
        verifier.verify_server_cert(presented, &[], &name, &[], now).map(drop)
    }

    #[test]
    fn ca_bundle_may_contain_the_webhook_certificate_itself() {
        let authority = CertificateAuthority::new("test").expect("keys can be generated");
        let own = authority.issue_for(["localhost"]).expect("the name is valid");
        let other = authority.issue_for(["localhost"]).expect("the name is valid");
        let der =
            |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).expect("the generated PEM is valid");
        let (bundle, now) = (own.chain().as_bytes(), UnixTime::now());
        verify(bundle, &der(own.chain()), "localhost", now).expect("the bundle contains the certificate");
        let stranger = verify(bundle, &der(other.chain()), "localhost", now);
        assert!(matches!(stranger, Err(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer))));
        verify(bundle, &der(own.chain()), "elsewhere", now).expect_err("of another name");
        let late = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1 << 34));
        verify(bundle, &der(own.chain()), "localhost", late).expect_err("it has expired");
    }
}
