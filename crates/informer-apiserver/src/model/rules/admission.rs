//! Defaults of admission policies and their bindings.

use super::Rules;
use super::defaults::Default::{self, Fill, In};

pub(super) fn rules((group, kind): (&str, &str)) -> Option<Rules> {
    match (group, kind) {
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => Some(Rules::new(
            &[Fill("spec.failurePolicy", "\"Fail\""), In("spec.matchConstraints", MATCH)],
            super::admission_checks::POLICY,
        )),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            Some(Rules::new(&[In("spec.matchResources", MATCH)], super::admission_checks::BINDING))
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => Some(Rules::new(
            &[Fill("spec.failurePolicy", "\"Fail\""), In("spec.matchConstraints", MATCH)],
            super::mutation_checks::POLICY,
        )),
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding") => {
            Some(Rules::new(&[In("spec.matchResources", MATCH)], super::mutation_checks::BINDING))
        }
        _ => None,
    }
}

const MATCH: &[Default] = &[
    Fill("matchPolicy", "\"Equivalent\""),
    Fill("namespaceSelector", "{}"),
    Fill("objectSelector", "{}"),
    In("resourceRules[]", SCOPE),
    In("excludeResourceRules[]", SCOPE),
];
const SCOPE: &[Default] = &[Fill("scope", "\"*\"")];
