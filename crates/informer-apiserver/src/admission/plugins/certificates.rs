use super::{AdmissionPlugin, PendingWrite, part};
use crate::admission::Admission;
use crate::auth::AuthorizationAttributes;
use crate::model::error::ApiError;
use crate::model::kinds::certificates::certificate_signing_request::request_der;
use crate::model::rules::checks::is_missing;
use crate::model::write_options::WriteMode;
use crate::tls::requested_groups;

const GROUP: &str = "certificates.k8s.io";
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
        if !is_request(write) || write.old.is_some() || spec["signerName"] != CLIENT_SIGNER {
            return Ok(Vec::new());
        }
        let refusal = |why: String| Err(ApiError::forbidden(write.kind(), write.name, &why));
        let Some(request) = request_der(spec["request"].as_str().unwrap_or_default()) else {
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

/// The `CertificateApproval` plugin: a user who approves or denies a CertificateSigningRequest must have the
/// permission to `approve` requests of its signer.
pub(super) struct CertificateApproval;

impl AdmissionPlugin for CertificateApproval {
    fn name(&self) -> &'static str {
        "CertificateApproval"
    }

    fn validates(&self, mode: WriteMode) -> bool {
        mode == WriteMode::Approval
    }

    fn validate(&self, admission: &Admission, write: PendingWrite<'_>) -> Result<Vec<String>, ApiError> {
        admission.check_signer(write, "approve")
    }
}

/// The `CertificateSigning` plugin: a user who changes the certificate or the conditions of a
/// CertificateSigningRequest must have the permission to `sign` requests of its signer.
pub(super) struct CertificateSigning;

impl AdmissionPlugin for CertificateSigning {
    fn name(&self) -> &'static str {
        "CertificateSigning"
    }

    fn validates(&self, mode: WriteMode) -> bool {
        mode == WriteMode::Status
    }

    fn validate(&self, admission: &Admission, write: PendingWrite<'_>) -> Result<Vec<String>, ApiError> {
        let status = part(write.object, "status");
        let before = write.old.map(|old| part(old, "status"));
        let is_changed = |name: &str| {
            let [new, old] = [Some(&status[name]), before.map(|before| &before[name])];
            new != old && !(is_missing(new) && is_missing(old))
        };
        if is_request(write) && (is_changed("certificate") || is_changed("conditions")) {
            return admission.check_signer(write, "sign");
        }
        Ok(Vec::new())
    }
}

impl Admission {
    /// Checks that the user has the permission for the signer of the stored request, or for all signers of
    /// its domain.
    fn check_signer(&self, write: PendingWrite<'_>, verb: &str) -> Result<Vec<String>, ApiError> {
        let (Some(requester), Some(old)) = (write.scope.requester, write.old) else { return Ok(Vec::new()) };
        let signer = part(old, "spec")["signerName"].as_str().unwrap_or_default();
        let domain = signer.split('/').next().unwrap_or_default();
        let may = |name: String| {
            let attributes = AuthorizationAttributes {
                verb: verb.to_owned(),
                group: GROUP.to_owned(),
                resource: "signers".to_owned(),
                name,
                ..AuthorizationAttributes::default()
            };
            self.allows(requester.user, &attributes).is_ok()
        };
        if may(signer.to_owned()) || may(format!("{domain}/*")) {
            return Ok(Vec::new());
        }
        let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
        Err(ApiError::forbidden(write.kind(), write.name, &why))
    }
}

fn is_request(write: PendingWrite<'_>) -> bool {
    write.kind().is(GROUP, "CertificateSigningRequest")
}
