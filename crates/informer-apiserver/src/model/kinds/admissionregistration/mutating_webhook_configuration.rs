use crate::model::kinds::Traits;
use crate::model::kinds::admissionregistration::webhooks::{
    CONFIGURATION, WEBHOOK_DEFAULTS, configuration_cells,
};
use crate::model::kinds::descriptor::KindDescriptor;
use crate::model::rules::Rules;
use crate::model::rules::defaults::Default::{self, Fill, In};

pub(crate) static DESCRIPTOR: KindDescriptor = KindDescriptor::new(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    Traits::GENERATION,
)
.with_traits(Traits::REVALIDATES_METADATA.with(Traits::UNQUALIFIED_FINALIZERS))
.rules(Rules::new(DEFAULTS, CONFIGURATION))
.cells(configuration_cells);

const DEFAULTS: &[Default] =
    &[In("webhooks[]", WEBHOOK_DEFAULTS), In("webhooks[]", &[Fill("reinvocationPolicy", "\"Never\"")])];
