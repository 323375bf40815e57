//! Reads the user (common name) and groups (organizations) from the subject of a certificate (RFC 5280) or of
//! a certificate request (RFC 2986).

use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::name::Name;
use x509_cert::request::CertReq;

use crate::model::user::User;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");

/// Returns the user of a certificate, or `None` if it has no common name or is malformed.
pub(super) fn user(certificate: &[u8]) -> Option<User> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let subject = certificate.tbs_certificate().subject();
    // If a subject has several common names, the last one is used, as in Go's crypto/x509.
    let name = values(subject, COMMON_NAME)?.pop()?;
    (!name.is_empty()).then_some(User::new(name).groups(values(subject, ORGANIZATION)?))
}

/// Returns the groups (organizations) in the subject of a certificate request, or `None` if the request is
/// malformed.
pub(crate) fn requested_groups(request: &[u8]) -> Option<Vec<String>> {
    values(&CertReq::from_der(request).ok()?.info.subject, ORGANIZATION)
}

/// Returns all values of an attribute of a subject in order, or `None` if one of them is not UTF-8.
fn values(subject: &Name, attribute: ObjectIdentifier) -> Option<Vec<String>> {
    let found = subject.iter().filter(|found| found.oid == attribute);
    found.map(|found| std::str::from_utf8(found.value.value()).ok().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests;
