//! The Secret in which replicas share their certificates: what it contains, and how changes are written.
//!
//! | field | content |
//! |---|---|
//! | `tls.crt`, `tls.key` | the certificate that replicas serve, and its key |
//! | `ca.crt` | the trusted authorities, the newest first |
//! | `ca.key` | the key of the newest authority |
//! | annotation `informer/certificates` | since when targets trust the newest authority, and the replicas |

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::state::{Authority, Certificate, CertificateId, Change, Replica, SecretContent, Validity, prune};
use super::x509::{GenerateError, KeyedPem, Parsed, generate_authority, issue, split_bundle};

const ANNOTATION: &str = "informer/certificates";

/// The content of the annotation, as JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Progress {
    /// The newest authority, to which `trusted_since` belongs.
    authority: CertificateId,
    #[serde(skip_serializing_if = "Option::is_none")]
    trusted_since: Option<String>,
    replicas: BTreeMap<String, Report>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Report {
    serves: CertificateId,
    reported: String,
}

/// A Secret with certificates, as it was read.
#[derive(Clone)]
pub(super) struct Content {
    pub(super) secret: Value,
    pub(super) shared: SecretContent,
    /// The trusted authorities as PEM, in the order of `shared.authorities`.
    authorities: Vec<String>,
    authority_key: String,
    pub(super) served: KeyedPem,
}

impl Content {
    /// Returns the content of a Secret that does not exist yet.
    pub(super) fn missing(namespace: &str, name: &str) -> Self {
        let metadata = json!({"name": name, "namespace": namespace});
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata,
        });
        Self::read(secret, &[])
    }

    /// Reads a Secret. Invalid fields count as missing, because any client may have written them. A
    /// certificate is usable if it contains all `names`.
    pub(super) fn read(secret: Value, names: &[String]) -> Self {
        let field = |name: &str| {
            let encoded = secret["data"][name].as_str().unwrap_or_default();
            STANDARD.decode(encoded).ok().and_then(|text| String::from_utf8(text).ok()).unwrap_or_default()
        };
        let progress = secret["metadata"]["annotations"][ANNOTATION].as_str().unwrap_or_default();
        let progress: Progress = serde_json::from_str(progress).unwrap_or_default();
        let parsed: Vec<(String, Parsed)> = split_bundle(&field("ca.crt"))
            .filter_map(|pem| Parsed::from_pem(&pem).map(|parsed| (pem, parsed)))
            .collect();
        let (served, authority_key) =
            (KeyedPem { certificate: field("tls.crt"), key: field("tls.key") }, field("ca.key"));
        let newest = parsed.first().map(|(_, newest)| newest);
        let certificate = Parsed::from_pem(&served.certificate).map(|own| Certificate {
            issuer: parsed.iter().find(|(_, by)| by.subject == own.issuer).map(|(_, by)| by.id.clone()),
            usable: own.has_key(&served.key) && own.covers(names),
            id: own.id,
            period: own.period,
        });
        let same = newest.is_some_and(|newest| newest.id == progress.authority);
        let replicas = progress.replicas.into_iter().filter_map(|(name, Report { serves, reported })| {
            Some((name, Replica { serves, reported: reported.parse().ok()? }))
        });
        let shared = SecretContent {
            issues: newest.is_some_and(|newest| newest.has_key(&authority_key)),
            certificate,
            trusted_since: progress.trusted_since.filter(|_| same).and_then(|since| since.parse().ok()),
            replicas: replicas.collect(),
            authorities: parsed
                .iter()
                .map(|(_, one)| Authority { id: one.id.clone(), period: one.period.clone() })
                .collect(),
        };
        let authorities = parsed.into_iter().map(|(pem, _)| pem).collect();
        Self { secret, shared, authorities, authority_key, served }
    }

    /// Returns true if the Secret has been read from the API server.
    pub(super) fn exists(&self) -> bool {
        self.secret["metadata"]["resourceVersion"].is_string()
    }

    /// Returns the trusted authorities as PEM.
    pub(super) fn bundle(&self) -> String {
        self.authorities.concat()
    }

    /// Returns this Secret with one change, for a write that replaces it.
    ///
    /// # Errors
    ///
    /// Returns an error if a certificate cannot be generated, for example because a name is invalid.
    pub(super) fn with(
        &self,
        change: &Change,
        context: &ChangeContext<'_>,
        now: Timestamp,
    ) -> Result<Value, GenerateError> {
        let mut next = self.clone();
        match change {
            Change::AddAuthority => {
                let added = generate_authority(context.name, now, context.validity)?;
                next.authorities.insert(0, added.certificate);
                next.authority_key = added.key;
                next.shared.trusted_since = None;
            }
            Change::MarkTrusted => next.shared.trusted_since = Some(now),
            Change::Issue => {
                let newest = next.authorities.first().cloned().unwrap_or_default();
                let authority = KeyedPem { certificate: newest, key: next.authority_key.clone() };
                next.served = issue(&authority, context.names, now, context.validity)?;
            }
            Change::Retire => next.authorities.truncate(1),
            Change::Report(serves) => {
                let report = Replica { serves: serves.clone(), reported: now };
                next.shared.replicas.insert(context.identity.to_owned(), report);
            }
        }
        Ok(next.written(now))
    }

    /// Returns this Secret without the report of a replica that ends; `None` if it has none.
    pub(super) fn without(&self, identity: &str, now: Timestamp) -> Option<Value> {
        let mut next = self.clone();
        next.shared.replicas.remove(identity)?;
        Some(next.written(now))
    }

    /// Returns this Secret as a new one, for its restoration after a deletion.
    pub(super) fn recreated(&self) -> Value {
        let mut secret = self.secret.clone();
        if let Some(metadata) = secret["metadata"].as_object_mut() {
            metadata.retain(|name, _| {
                matches!(name.as_str(), "name" | "namespace" | "labels" | "annotations" | "ownerReferences")
            });
        }
        secret
    }

    fn written(mut self, now: Timestamp) -> Value {
        prune(&mut self.shared, now);
        let valid: Vec<String> = self
            .authorities
            .iter()
            .filter_map(|pem| Parsed::from_pem(pem).filter(|one| one.period.until > now).map(|_| pem.clone()))
            .collect();
        let newest = valid.first().and_then(|pem| Parsed::from_pem(pem));
        let report =
            |replica: Replica| Report { serves: replica.serves, reported: replica.reported.to_string() };
        let progress = Progress {
            authority: newest.map(|newest| newest.id).unwrap_or_default(),
            trusted_since: self.shared.trusted_since.map(|since| since.to_string()),
            replicas: self.shared.replicas.into_iter().map(|(name, one)| (name, report(one))).collect(),
        };
        let mut secret = self.secret;
        let data = [
            ("ca.crt", valid.concat()),
            ("ca.key", self.authority_key),
            ("tls.crt", self.served.certificate),
            ("tls.key", self.served.key),
        ];
        for (name, text) in data {
            secret["data"][name] = json!(STANDARD.encode(text));
        }
        let progress = serde_json::to_string(&progress).expect("strings and timestamps are JSON");
        secret["metadata"]["annotations"][ANNOTATION] = json!(progress);
        secret
    }
}

/// The settings of a replica that a change of the Secret needs.
pub(super) struct ChangeContext<'a> {
    pub(super) name: &'a str,
    pub(super) identity: &'a str,
    pub(super) names: &'a [String],
    pub(super) validity: Validity,
}
