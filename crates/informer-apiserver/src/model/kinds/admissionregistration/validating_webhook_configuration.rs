use crate::model::kinds::Traits;
use crate::model::kinds::admissionregistration::webhooks::{
    CONFIGURATION, WEBHOOK_DEFAULTS, configuration_cells,
};
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::defaults::Default::In;

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    Traits::GENERATION,
)
.with_traits(Traits::REVALIDATES_METADATA.with(Traits::UNQUALIFIED_FINALIZERS))
.rules(Rules::new(&[In("webhooks[]", WEBHOOK_DEFAULTS)], CONFIGURATION))
.cells(configuration_cells);
