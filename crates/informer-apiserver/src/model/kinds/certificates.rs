//! The kinds of the group `certificates.k8s.io`.

use crate::model::kinds::Traits;
use crate::model::kinds::descriptor::KindDescriptor;

pub(crate) static CERTIFICATE_SIGNING_REQUEST: KindDescriptor = KindDescriptor::new(
    "certificates.k8s.io",
    "v1",
    "CertificateSigningRequest",
    Traits::STATUS.with(Traits::OWN_FIELDS),
)
.selectable(&["spec.signerName"])
.bookmark(r#","spec":{"request":null,"signerName":""},"status":{}"#);
