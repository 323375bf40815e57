//! Generates and parses X.509 certificates.

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use informer_core::fnv::fnv1a;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData,
};
use x509_cert::Certificate;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use super::state::{CertificateId, Period, Validity};
use crate::random::uuid;

/// How much earlier than now certificates are valid, for clocks that are behind.
const BACKDATED: std::time::Duration = std::time::Duration::from_secs(3600);

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// The number of characters of a common name, as limited by RFC 5280.
const MAX_COMMON_NAME: usize = 64;

/// A certificate and its private key in PEM.
#[derive(Clone)]
pub(super) struct KeyedPem {
    pub(super) certificate: String,
    pub(super) key: String,
}

#[derive(Debug, thiserror::Error)]
#[error("generate a certificate: {problem}")]
pub(super) struct GenerateError {
    problem: &'static str,
    #[source]
    cause: Box<dyn std::error::Error + Send + Sync>,
}

impl GenerateError {
    fn new(problem: &'static str, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { problem, cause: cause.into() }
    }
}

impl From<rcgen::Error> for GenerateError {
    fn from(cause: rcgen::Error) -> Self {
        Self::new("the names of the certificate or the key of its authority are invalid", cause)
    }
}

/// The parsed content of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) id: CertificateId,
    pub(super) period: Period,
    /// The subject and the issuer, encoded as DER.
    pub(super) subject: Vec<u8>,
    pub(super) issuer: Vec<u8>,
    common_name: Option<String>,
    public_key: Vec<u8>,
    /// The host names and IP addresses for which the certificate is valid.
    names: Vec<String>,
}

impl Parsed {
    /// Parses a certificate from PEM. Returns `None` if it is invalid.
    pub(super) fn from_pem(pem: &str) -> Option<Self> {
        let encoded = pem.split_once(BEGIN)?.1.split_once(END)?.0;
        let encoded: String = encoded.split_whitespace().collect();
        let certificate = Certificate::from_der(&STANDARD.decode(encoded).ok()?).ok()?;
        let content = certificate.tbs_certificate();
        let validity = content.validity();
        let at = |seconds: u64| Timestamp::from_second(i64::try_from(seconds).ok()?).ok();
        let common_name = content.subject().iter().find(|attribute| attribute.oid == COMMON_NAME);
        let common_name = common_name.and_then(|name| std::str::from_utf8(name.value.value()).ok());
        Some(Self {
            id: format!("{:016x}", fnv1a(pem.trim())),
            period: Period {
                from: at(validity.not_before.to_unix_duration().as_secs())?,
                until: at(validity.not_after.to_unix_duration().as_secs())?,
            },
            subject: content.subject().to_der().ok()?,
            issuer: content.issuer().to_der().ok()?,
            common_name: common_name.map(str::to_owned),
            public_key: content.subject_public_key_info().to_der().ok()?,
            names: names(&certificate),
        })
    }

    /// Returns true if the certificate is valid for all host names and IP addresses.
    pub(super) fn covers(&self, names: &[String]) -> bool {
        names.iter().all(|name| self.names.contains(name))
    }

    /// Returns true if `key` is the private key of this certificate, as PEM.
    pub(super) fn has_key(&self, key: &str) -> bool {
        KeyPair::from_pem(key).is_ok_and(|key| key.subject_public_key_info() == self.public_key)
    }
}

fn names(certificate: &Certificate) -> Vec<String> {
    let found = certificate.tbs_certificate().get_extension::<SubjectAltName>();
    let Ok(Some((_, SubjectAltName(names)))) = found else { return Vec::new() };
    let name = |name: &GeneralName| match name {
        GeneralName::DnsName(name) => Some(name.as_str().to_owned()),
        GeneralName::IpAddress(bytes) => {
            let bytes = bytes.as_bytes();
            let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
            four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok().map(|ip| ip.to_string())
        }
        _ => None,
    };
    names.iter().filter_map(name).collect()
}

/// Splits a bundle into the PEM texts of its certificates. Text between them is left out.
pub(super) fn split_bundle(bundle: &str) -> impl Iterator<Item = String> + '_ {
    bundle.split_inclusive(END).filter_map(|part| {
        let begin = part.find(BEGIN)?;
        part.ends_with(END).then(|| format!("{}\n", &part[begin..]))
    })
}

/// Generates a certificate authority. Each has a name of its own, because the name connects it with the
/// certificates that it issues.
pub(super) fn generate_authority(
    name: &str,
    now: Timestamp,
    validity: Validity,
) -> Result<KeyedPem, GenerateError> {
    let key = KeyPair::generate()?;
    let suffix = format!("-ca-{}", uuid().simple());
    let prefix: String = name.chars().take(MAX_COMMON_NAME - suffix.len()).collect();
    let mut params = authority_params(format!("{prefix}{suffix}"));
    set_period(&mut params, now, validity.authority.unsigned_abs(), None)?;
    Ok(KeyedPem { certificate: params.self_signed(&key)?.pem(), key: key.serialize_pem() })
}

/// Issues a server certificate for host names and IP addresses. It does not outlive its authority.
pub(super) fn issue(
    authority: &KeyedPem,
    names: &[String],
    now: Timestamp,
    validity: Validity,
) -> Result<KeyedPem, GenerateError> {
    let parsed = Parsed::from_pem(&authority.certificate);
    let invalid = || GenerateError::new("the authority is invalid", "its certificate cannot be parsed");
    let parsed = parsed.ok_or_else(invalid)?;
    let issuer = authority_params(parsed.common_name.ok_or_else(invalid)?);
    let issuer = Issuer::new(issuer, KeyPair::from_pem(&authority.key)?);
    let mut params = server_params(names)?;
    params.use_authority_key_identifier_extension = true;
    set_period(&mut params, now, validity.certificate.unsigned_abs(), Some(parsed.period.until))?;
    let key = KeyPair::generate()?;
    Ok(KeyedPem { certificate: params.signed_by(&key, &issuer)?.pem(), key: key.serialize_pem() })
}

/// Generates a server certificate that is its own issuer.
pub(super) fn generate_self_signed(
    names: &[String],
    now: Timestamp,
    validity: Validity,
) -> Result<KeyedPem, GenerateError> {
    let mut params = server_params(names)?;
    set_period(&mut params, now, validity.certificate.unsigned_abs(), None)?;
    let key = KeyPair::generate()?;
    Ok(KeyedPem { certificate: params.self_signed(&key)?.pem(), key: key.serialize_pem() })
}

fn server_params(names: &[String]) -> Result<CertificateParams, GenerateError> {
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name = common_name(names.first().map(String::as_str).unwrap_or_default());
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    Ok(params)
}

fn authority_params(name: String) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(&name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name.chars().take(MAX_COMMON_NAME).collect::<String>());
    distinguished
}

fn set_period(
    params: &mut CertificateParams,
    now: Timestamp,
    validity: std::time::Duration,
    latest: Option<Timestamp>,
) -> Result<(), GenerateError> {
    let since_epoch = |at: Timestamp| {
        std::time::Duration::try_from(at.duration_since(Timestamp::UNIX_EPOCH))
            .map_err(|cause| GenerateError::new("the clock shows a time before 1970", cause))
    };
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let now = since_epoch(now)?;
    // The part of the period that has passed is small, so that a short-lived certificate is not due at once.
    params.not_before = epoch + (now - BACKDATED.min(validity / 20).min(now));
    let until = now + validity;
    params.not_after = epoch + latest.map(since_epoch).transpose()?.map_or(until, |latest| until.min(latest));
    Ok(())
}
