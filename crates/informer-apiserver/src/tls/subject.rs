//! Parses the user (common name) and groups (organizations) from the subject of a DER certificate (X.690, RFC
//! 5280).

use crate::model::user::User;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];

const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// `[0] EXPLICIT`, which contains the version.
const VERSION: u8 = 0xa0;

/// Returns the user of a certificate, or `None` if it has no common name or is malformed.
pub(super) fn user(certificate: &[u8]) -> Option<User> {
    let (mut name, mut groups) = (String::new(), Vec::new());
    let mut subject = Der(subject(certificate)?);
    while let Some(attributes) = subject.next(SET) {
        let mut attributes = Der(attributes);
        while let Some(attribute) = attributes.next(SEQUENCE) {
            let mut attribute = Der(attribute);
            let kind = attribute.next(OBJECT_IDENTIFIER)?;
            let (_, value) = attribute.any()?;
            // The last of several common names wins, as in Go's crypto/x509.
            match kind {
                COMMON_NAME => name = std::str::from_utf8(value).ok()?.to_owned(),
                ORGANIZATION => groups.push(std::str::from_utf8(value).ok()?.to_owned()),
                _ => {}
            }
        }
    }
    (!name.is_empty()).then(|| User::new(name).groups(groups))
}

fn subject(certificate: &[u8]) -> Option<&[u8]> {
    let signed = Der(certificate).next(SEQUENCE)?;
    let mut fields = Der(Der(signed).next(SEQUENCE)?);
    fields.next(VERSION);
    // Skip serial number, signature, issuer and validity.
    for _ in 0..4 {
        fields.any()?;
    }
    fields.next(SEQUENCE)
}

/// A reader of consecutive DER values.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// Returns the content of the next value if it has this tag.
    fn next(&mut self, tag: u8) -> Option<&'a [u8]> {
        match self.0.first() {
            Some(first) if *first == tag => self.any().map(|(_, content)| content),
            _ => None,
        }
    }

    /// Returns the tag and the content of the next value.
    fn any(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, short], rest) = self.0.split_first_chunk::<2>()?;
        let (length, rest) = match short {
            // Certificates are far smaller than the maximum of a four-byte length.
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(short & 0x7f))?;
                (bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
            }
            0..=0x7f => (usize::from(short), rest),
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }
}

#[cfg(test)]
mod tests;
