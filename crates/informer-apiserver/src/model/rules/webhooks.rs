//! Defaults of webhook configurations.

use super::Rules;
use super::defaults::Default::{self, Fill, In};

pub(super) fn rules((group, kind): (&str, &str)) -> Option<Rules> {
    match (group, kind) {
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => {
            Some(Rules::new(&[In("webhooks[]", HOOK)], super::hook_checks::CONFIGURATION))
        }
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => Some(Rules::new(
            &[In("webhooks[]", HOOK), In("webhooks[]", &[Fill("reinvocationPolicy", "\"Never\"")])],
            super::hook_checks::CONFIGURATION,
        )),
        _ => None,
    }
}

const HOOK: &[Default] = &[
    Fill("failurePolicy", "\"Fail\""),
    Fill("matchPolicy", "\"Equivalent\""),
    Fill("namespaceSelector", "{}"),
    Fill("objectSelector", "{}"),
    Fill("timeoutSeconds", "10"),
    In("rules[]", &[Fill("scope", "\"*\"")]),
    In("clientConfig.service", &[Fill("port", "443")]),
];
