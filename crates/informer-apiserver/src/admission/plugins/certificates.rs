use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject;

use super::{AdmissionPlugin, PendingWrite, part};
use crate::admission::Admission;
use crate::model::error::ApiError;
use crate::tls::requested_groups;

const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// The group whose members have all permissions, without RBAC.
const MASTERS: &str = "system:masters";

/// The `CertificateSubjectRestriction` plugin: rejects a CertificateSigningRequest for a client certificate
/// of the group `system:masters`.
pub(super) struct CertificateSubjectRestriction;

impl AdmissionPlugin for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    fn validate(&self, _: &Admission, write: PendingWrite<'_>) -> Result<Vec<String>, ApiError> {
        let spec = part(write.object, "spec");
        let is_request = write.kind().is("certificates.k8s.io", "CertificateSigningRequest");
        if !is_request || write.old.is_some() || spec["signerName"] != CLIENT_SIGNER {
            return Ok(Vec::new());
        }
        let refusal = |why: String| Err(ApiError::forbidden(write.kind(), write.name, &why));
        let pem = STANDARD.decode(spec["request"].as_str().unwrap_or_default()).unwrap_or_default();
        let Ok(request) = CertificateSigningRequestDer::from_pem_slice(&pem) else {
            return refusal("failed to parse CSR: PEM block type must be CERTIFICATE REQUEST".to_owned());
        };
        match requested_groups(&request) {
            None => refusal("failed to parse CSR: the request is malformed".to_owned()),
            Some(groups) if groups.iter().any(|group| group == MASTERS) => {
                refusal(format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"))
            }
            Some(_) => Ok(Vec::new()),
        }
    }
}
