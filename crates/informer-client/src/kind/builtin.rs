//! The scope of the built-in kinds: a table of all cluster-scoped kinds. Other built-in kinds are namespaced.

/// The group and the plural name of every cluster-scoped built-in kind, sorted for a binary search. Versions
/// are omitted, because the scope of a kind is the same in all of its versions.
const CLUSTER_SCOPED: &[(&str, &str)] = &[
    ("", "componentstatuses"),
    ("", "namespaces"),
    ("", "nodes"),
    ("", "persistentvolumes"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("internal.apiserver.k8s.io", "storageversions"),
    ("networking.k8s.io", "ingressclasses"),
    ("networking.k8s.io", "ipaddresses"),
    ("networking.k8s.io", "servicecidrs"),
    ("node.k8s.io", "runtimeclasses"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("resource.k8s.io", "deviceclasses"),
    ("resource.k8s.io", "devicetaintrules"),
    ("resource.k8s.io", "resourcepoolstatusrequests"),
    ("resource.k8s.io", "resourceslices"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "storageclasses"),
    ("storage.k8s.io", "volumeattachments"),
    ("storage.k8s.io", "volumeattributesclasses"),
];

/// Returns true if `group` and `plural` name a cluster-scoped built-in kind; false for namespaced kinds and
/// for custom resources.
pub(super) fn is_cluster_scoped(group: &str, plural: &str) -> bool {
    CLUSTER_SCOPED.binary_search(&(group, plural)).is_ok()
}

#[cfg(test)]
mod tests {
    use informer_schema::Schema;

    use super::is_cluster_scoped;

    #[test]
    fn scopes_of_built_in_kinds_match_the_schema() {
        for resource in Schema::builtin().resources() {
            let (group, plural) = (resource.group(), resource.plural());
            assert_eq!(is_cluster_scoped(group, plural), !resource.is_namespaced(), "{plural}.{group}");
        }
    }

    #[test]
    fn every_cluster_scoped_kind_is_in_the_schema() {
        let schema = Schema::builtin();
        for (group, plural) in super::CLUSTER_SCOPED {
            let is_it = schema.resources().any(|it| (it.group(), it.plural()) == (*group, *plural));
            assert!(is_it, "{plural}.{group} is not in the schema");
        }
        assert!(super::CLUSTER_SCOPED.is_sorted(), "binary search needs a sorted list");
    }
}
