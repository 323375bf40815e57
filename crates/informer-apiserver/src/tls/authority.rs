//! An authority that makes certificates, for tests.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

use super::{Certificate, TlsError};
use crate::model::user::User;

/// The object identifier of an organization: the name under which a second one can be written.
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];

/// An authority that makes certificates for servers and for users, all of them valid from 2000 to 2100: nobody's clock
/// matters. Its key is in this process alone.
///
/// ```
/// use informer_apiserver::CertificateAuthority;
///
/// let authority = CertificateAuthority::new("webhooks")?;
/// let webhook = authority.issue_for(["localhost", "127.0.0.1"])?;
/// assert!(webhook.chain().starts_with("-----BEGIN CERTIFICATE-----"));
/// # Ok::<(), informer_apiserver::TlsError>(())
/// ```
pub struct CertificateAuthority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl CertificateAuthority {
    /// A new one. Its name is for people.
    ///
    /// # Errors
    ///
    /// When no key can be made.
    pub fn new(name: &str) -> Result<Self, TlsError> {
        let key = KeyPair::generate().map_err(make)?;
        let mut params = dated(DistinguishedName::new());
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let pem = params.self_signed(&key).map_err(make)?.pem();
        Ok(Self { pem, issuer: Issuer::new(params, key) })
    }

    /// Its own certificate, as PEM: what trusts everything that it makes.
    pub fn certificate(&self) -> &str {
        &self.pem
    }

    /// A certificate for a server with these host names and addresses.
    ///
    /// # Errors
    ///
    /// When a name is none.
    pub fn issue_for(
        &self,
        hosts: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Certificate, TlsError> {
        let hosts: Vec<String> = hosts.into_iter().map(Into::into).collect();
        let name = hosts.first().cloned().unwrap_or_default();
        let mut params = CertificateParams::new(hosts).map_err(make)?;
        let CertificateParams { not_before, not_after, .. } = dated(DistinguishedName::new());
        (params.not_before, params.not_after) = (not_before, not_after);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// A certificate for a user: the common name is the user's, the organizations are the groups.
    ///
    /// # Errors
    ///
    /// When the user has more than two groups: more do not fit.
    pub fn issue_to(&self, user: &User) -> Result<Certificate, TlsError> {
        let mut name = DistinguishedName::new();
        for (index, group) in user.groups.iter().enumerate() {
            let kind = match index {
                0 => DnType::OrganizationName,
                1 => DnType::CustomDnType(ORGANIZATION.to_vec()),
                _ => {
                    let groups = user.groups.len();
                    return Err(TlsError::Groups { user: user.name.clone(), groups });
                }
            };
            name.push(kind, group.as_str());
        }
        name.push(DnType::CommonName, user.name.as_str());
        let mut params = dated(name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Certificate, TlsError> {
        let key = KeyPair::generate().map_err(make)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        let certificate = params.signed_by(&key, &self.issuer).map_err(make)?;
        Ok(Certificate::from_pem(certificate.pem(), key.serialize_pem()))
    }
}

impl std::fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CertificateAuthority(..)")
    }
}

fn dated(name: DistinguishedName) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name;
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(2100, 1, 1);
    params
}

fn make(error: rcgen::Error) -> TlsError {
    TlsError::Make(Box::new(error))
}
