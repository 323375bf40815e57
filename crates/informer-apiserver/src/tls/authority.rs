use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

use super::{Certificate, TlsError};
use crate::model::user::User;

/// The OID of an organization name. It is used as a custom type, because rcgen keeps only one value of its
/// own type for organizations, and a user may have two groups.
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];

/// A certificate authority that issues server and client certificates for tests.
///
/// All certificates are valid from 2000 to 2100, so that they are valid for every clock in a test. The CA key
/// exists only in the memory of this process.
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
    /// Generates a certificate authority. `name` is the common name of the CA certificate.
    ///
    /// # Errors
    ///
    /// Returns an error if the key cannot be generated.
    pub fn new(name: &str) -> Result<Self, TlsError> {
        let key = KeyPair::generate().map_err(generation_error)?;
        let mut params = with_validity(DistinguishedName::new());
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let pem = params.self_signed(&key).map_err(generation_error)?.pem();
        Ok(Self { pem, issuer: Issuer::new(params, key) })
    }

    /// Returns the CA certificate as PEM. It verifies all certificates that this authority issues.
    pub fn certificate(&self) -> &str {
        &self.pem
    }

    /// Issues a server certificate for these host names and IP addresses.
    ///
    /// # Errors
    ///
    /// Returns an error if a host name is invalid.
    pub fn issue_for(
        &self,
        hosts: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Certificate, TlsError> {
        let hosts: Vec<String> = hosts.into_iter().map(Into::into).collect();
        let name = hosts.first().cloned().unwrap_or_default();
        let mut params = CertificateParams::new(hosts).map_err(generation_error)?;
        let CertificateParams { not_before, not_after, .. } = with_validity(DistinguishedName::new());
        (params.not_before, params.not_after) = (not_before, not_after);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// Issues a client certificate for a user. Its common name is the user name, and its organizations are
    /// the groups.
    ///
    /// # Errors
    ///
    /// Returns an error if the user has more than two groups, which the certificate generator does not
    /// support.
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
        let mut params = with_validity(name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Certificate, TlsError> {
        let key = KeyPair::generate().map_err(generation_error)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        let certificate = params.signed_by(&key, &self.issuer).map_err(generation_error)?;
        Ok(Certificate::from_pem(certificate.pem(), key.serialize_pem()))
    }
}

impl std::fmt::Debug for CertificateAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CertificateAuthority(..)")
    }
}

fn with_validity(name: DistinguishedName) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name;
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(2100, 1, 1);
    params
}

fn generation_error(error: rcgen::Error) -> TlsError {
    TlsError::Make(Box::new(error))
}
