//! Reads the user (common name) and groups (organizations) from the subject of a certificate (RFC 5280).

use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::asn1::ObjectIdentifier;

use crate::model::user::User;

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");

/// Returns the user of a certificate, or `None` if it has no common name or is malformed.
pub(super) fn user(certificate: &[u8]) -> Option<User> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let (mut name, mut groups) = (String::new(), Vec::new());
    for attribute in certificate.tbs_certificate().subject().iter() {
        let text = || std::str::from_utf8(attribute.value.value()).map(str::to_owned);
        match attribute.oid {
            // The last of several common names wins, as in Go's crypto/x509.
            COMMON_NAME => name = text().ok()?,
            ORGANIZATION => groups.push(text().ok()?),
            _ => {}
        }
    }
    (!name.is_empty()).then(|| User::new(name).groups(groups))
}

#[cfg(test)]
mod tests;
