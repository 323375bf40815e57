//! Validation of certificate requests (PKCS#10, RFC 2986). Errors have the messages of Go's crypto/x509 and
//! encoding/asn1.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use x509_cert::der::asn1::{Any, AnyRef, ObjectIdentifier, UintRef};
use x509_cert::der::{self, Decode, Length, Reader, SliceReader};
use x509_cert::request::CertReq;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};

const SEQUENCE: u8 = 0x30;

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const ECDSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
/// Identifies keys and signatures.
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
const MD5_WITH_RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.4");

/// The curves P-224, P-256, P-384 and P-521.
const CURVES: [ObjectIdentifier; 4] = [
    ObjectIdentifier::new_unwrap("1.3.132.0.33"),
    ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7"),
    ObjectIdentifier::new_unwrap("1.3.132.0.34"),
    ObjectIdentifier::new_unwrap("1.3.132.0.35"),
];

const RSA_PSS: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.10");

/// RSA signatures with SHA-1 (two identifiers), SHA-256, SHA-384, SHA-512 and PSS.
const RSA_SIGNATURES: [ObjectIdentifier; 6] = [
    ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.5"),
    ObjectIdentifier::new_unwrap("1.3.14.3.2.29"),
    ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11"),
    ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.12"),
    ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.13"),
    RSA_PSS,
];

/// ECDSA signatures with SHA-1, SHA-256, SHA-384 and SHA-512.
const ECDSA_SIGNATURES: [ObjectIdentifier; 4] = [
    ObjectIdentifier::new_unwrap("1.2.840.10045.4.1"),
    ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2"),
    ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3"),
    ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.4"),
];

/// The sizes of RSA keys, in bits, whose signatures a crypto provider verifies.
const VERIFIED_RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;
/// Go rejects smaller RSA keys.
const MIN_RSA_BITS: usize = 1024;

const UNIMPLEMENTED: &str = "x509: cannot verify signature: algorithm unimplemented";

/// Validates a certificate request in DER, including its signature. Returns the reason why it is invalid.
///
/// A signature is accepted without verification if no crypto provider supports its algorithm: ring supports
/// neither the curves P-224 and P-521 nor SHA-1. It supports RSA keys of 2048 to 8192 bits, and RSA-PSS only
/// with its usual parameters.
pub(super) fn check_request(der: &[u8]) -> Result<(), String> {
    let (contents, rest) = sequence(der, "certificateRequest")?;
    sequence(contents, "tbsCertificateRequest")?;
    let malformed = |error: der::Error| malformed(&error);
    let request = &der[..der.len() - rest.len()];
    let signed = signed_bytes(request).map_err(malformed)?;
    let request = CertReq::from_der(request).map_err(malformed)?;
    if !rest.is_empty() {
        return Err("asn1: syntax error: trailing data".to_owned());
    }
    let key = PublicKey::of(&request.info.public_key)?;
    check_algorithm(&request.algorithm, key.as_ref())?;
    match key {
        Some(key) => verify(&request, signed, &key, informer_http::default_provider()),
        None => Err(UNIMPLEMENTED.to_owned()),
    }
}

/// Returns the contents of the sequence at the start of a DER value, and the bytes after it. `go_type` is the
/// name of its type in Go.
fn sequence<'a>(der: &'a [u8], go_type: &str) -> Result<(&'a [u8], &'a [u8]), String> {
    let Some((&tag, value)) = der.split_first() else {
        return Err("asn1: syntax error: sequence truncated".to_owned());
    };
    let mut reader = SliceReader::new(value).map_err(|error| length_problem(&error))?;
    let length = Length::decode(&mut reader).map_err(|error| length_problem(&error))?;
    if tag == SEQUENCE {
        let contents = reader.read_slice(length).map_err(|_| "asn1: syntax error: data truncated")?;
        let rest = reader.read_slice(reader.remaining_len()).unwrap_or_default();
        return Ok((contents, rest));
    }
    let (class, number, is_compound) = (tag >> 6, tag & 0x1f, tag & 0x20 != 0);
    let offset = 1 + u32::from(reader.position());
    Err(format!(
        "asn1: structure error: tags don't match (16 vs {{class:{class} tag:{number} length:{length} \
         isCompound:{is_compound}}}) {{optional:false explicit:false application:false private:false \
         defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false}} {go_type} @{offset}"
    ))
}

/// Returns the error of Go for a length that cannot be decoded.
fn length_problem(error: &der::Error) -> &'static str {
    match error.kind() {
        der::ErrorKind::IndefiniteLength => "asn1: syntax error: indefinite length found (not DER)",
        der::ErrorKind::Incomplete { .. } => "asn1: syntax error: truncated tag or length",
        _ => "asn1: structure error: length too large",
    }
}

/// Describes malformed DER. Go names the type and offset of the part that is malformed.
fn malformed(error: &der::Error) -> String {
    match error.kind() {
        der::ErrorKind::Incomplete { .. } => "asn1: syntax error: sequence truncated".to_owned(),
        _ => "asn1: structure error: malformed certificate request".to_owned(),
    }
}

/// Returns the part of a request that is signed.
fn signed_bytes(request: &[u8]) -> der::Result<&[u8]> {
    SliceReader::new(request)?.sequence(|reader: &mut SliceReader<'_>| {
        let signed = reader.tlv_bytes()?;
        AnyRef::decode(reader)?;
        AnyRef::decode(reader)?;
        Ok(signed)
    })
}

/// A public key of a type that Go verifies.
enum PublicKey {
    /// An RSA key with its size in bits.
    Rsa(usize),
    Ecdsa,
    Ed25519,
}

impl PublicKey {
    /// Returns `None` for an unknown type of key.
    fn of(key: &SubjectPublicKeyInfoOwned) -> Result<Option<Self>, String> {
        let parameters = key.algorithm.parameters.as_ref();
        let bytes = key.subject_public_key.raw_bytes();
        Ok(Some(match key.algorithm.oid {
            RSA if !parameters.is_some_and(Any::is_null) => {
                return Err("x509: RSA key missing NULL parameters".to_owned());
            }
            RSA => Self::Rsa(rsa_bits(bytes).map_err(|_| "x509: invalid RSA public key")?),
            ECDSA => {
                let curve = parameters.and_then(|parameters| parameters.decode_as().ok());
                let curve: ObjectIdentifier = curve.ok_or("x509: invalid ECDSA parameters")?;
                if !CURVES.contains(&curve) {
                    return Err("x509: unsupported elliptic curve".to_owned());
                }
                Self::Ecdsa
            }
            ED25519 if parameters.is_some() => {
                return Err("x509: Ed25519 key encoded with illegal parameters".to_owned());
            }
            ED25519 if bytes.len() != 32 => return Err("x509: wrong Ed25519 public key size".to_owned()),
            ED25519 => Self::Ed25519,
            _ => return Ok(None),
        }))
    }

    fn go_type(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "*rsa.PublicKey",
            Self::Ecdsa => "*ecdsa.PublicKey",
            Self::Ed25519 => "ed25519.PublicKey",
        }
    }

    fn algorithm(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "RSA",
            Self::Ecdsa => "ECDSA",
            Self::Ed25519 => "Ed25519",
        }
    }

    fn verification_error(&self) -> &'static str {
        match self {
            Self::Rsa(_) => "crypto/rsa: verification error",
            Self::Ecdsa => "x509: ECDSA verification failure",
            Self::Ed25519 => "x509: Ed25519 verification failure",
        }
    }
}

/// Returns the size of the modulus of an RSA key in bits.
fn rsa_bits(key: &[u8]) -> der::Result<usize> {
    let modulus = SliceReader::new(key)?.sequence(|reader: &mut SliceReader<'_>| {
        let modulus = UintRef::decode(reader)?;
        UintRef::decode(reader)?;
        Ok::<_, der::Error>(modulus)
    })?;
    let bytes = modulus.as_bytes();
    let unused = bytes.first().map_or(0, |first| first.leading_zeros() as usize);
    Ok(bytes.len() * 8 - unused)
}

/// Validates that the algorithm of the signature is secure, and fits the key.
fn check_algorithm(algorithm: &AlgorithmIdentifierOwned, key: Option<&PublicKey>) -> Result<(), String> {
    let signature = match algorithm.oid {
        MD5_WITH_RSA => {
            return Err("x509: cannot verify signature: insecure algorithm MD5-RSA".to_owned());
        }
        ED25519 if algorithm.parameters.is_none() => "Ed25519",
        oid if RSA_SIGNATURES.contains(&oid) => "RSA",
        oid if ECDSA_SIGNATURES.contains(&oid) => "ECDSA",
        _ => return Err(UNIMPLEMENTED.to_owned()),
    };
    match key {
        None => Err(UNIMPLEMENTED.to_owned()),
        Some(key) if key.algorithm() != signature => {
            let have = key.go_type();
            Err(format!(
                "x509: signature algorithm specifies an {signature} public key, but have public key of type {have}"
            ))
        }
        Some(PublicKey::Rsa(bits)) if *bits < MIN_RSA_BITS => Err(format!(
            "crypto/rsa: {bits}-bit keys are insecure (see https://go.dev/pkg/crypto/rsa#hdr-Minimum_key_size)"
        )),
        Some(_) => Ok(()),
    }
}

/// Verifies the signature of a request, if the crypto provider supports its algorithm.
fn verify(
    request: &CertReq,
    signed: &[u8],
    key: &PublicKey,
    provider: Option<Arc<CryptoProvider>>,
) -> Result<(), String> {
    if matches!(key, PublicKey::Rsa(bits) if !VERIFIED_RSA_BITS.contains(bits)) {
        return Ok(());
    }
    let key_algorithm = contents(&request.info.public_key.algorithm);
    let signature_algorithm = contents(&canonical(&request.algorithm));
    let provider = provider.map(|provider| provider.signature_verification_algorithms.all);
    let mut algorithms = provider.into_iter().flatten().filter(|algorithm| {
        key_algorithm.as_deref() == Some(algorithm.public_key_alg_id().as_ref())
            && signature_algorithm.as_deref() == Some(algorithm.signature_alg_id().as_ref())
    });
    let public_key = request.info.public_key.subject_public_key.raw_bytes();
    let signature = request.signature.raw_bytes();
    match algorithms.next() {
        Some(algorithm) if algorithm.verify_signature(public_key, signed, signature).is_err() => {
            Err(key.verification_error().to_owned())
        }
        _ => Ok(()),
    }
}

/// Returns a signature algorithm with the parameters that rustls expects. Go ignores the parameters of all
/// algorithms except RSA-PSS and Ed25519.
fn canonical(algorithm: &AlgorithmIdentifierOwned) -> AlgorithmIdentifierOwned {
    let parameters = match algorithm.oid {
        RSA_PSS | ED25519 => algorithm.parameters.clone(),
        oid if RSA_SIGNATURES.contains(&oid) => Some(Any::null()),
        _ => None,
    };
    AlgorithmIdentifierOwned { oid: algorithm.oid, parameters }
}

/// Encodes an algorithm without the tag and length of its sequence, as rustls identifies algorithms.
fn contents(algorithm: &AlgorithmIdentifierOwned) -> Option<Vec<u8>> {
    Some(Any::encode_from(algorithm).ok()?.value().to_vec())
}
