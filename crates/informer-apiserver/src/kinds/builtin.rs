//! The built-in kinds, as a table.

use super::{Kind, Traits};
use informer_core::Gvr;

struct Row {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static [&'static str],
    namespaced: bool,
    traits: Traits,
    fields: &'static [&'static str],
    /// What every bookmark of the kind carries after its metadata.
    bookmark: &'static str,
}

const NONE: Traits = Traits(0);
const STATUS: Traits = Traits::STATUS;
const GEN: Traits = Traits::GENERATION;
const SPEC_STATUS: Traits = STATUS.with(GEN);
const RETURNS: Traits = Traits::RETURNS_DELETED;
const UPSERT: Traits = Traits::UPSERT;
const OWN: Traits = Traits::OWN_FIELDS;
const REVIEW: Traits = Traits::REVIEW;
const STATUS_META: Traits = STATUS.with(Traits::STATUS_METADATA);
const SPEC_STATUS_META: Traits = SPEC_STATUS.with(Traits::STATUS_METADATA);
const N: bool = true;
const C: bool = false;

const fn row(
    (group, version): (&'static str, &'static str),
    (kind, plural): (&'static str, &'static str),
    short: &'static [&'static str],
    namespaced: bool,
    traits: Traits,
) -> Row {
    Row { group, version, kind, plural, short, namespaced, traits, fields: &[], bookmark: "" }
}

impl Row {
    const fn fields(mut self, fields: &'static [&'static str]) -> Self {
        self.fields = fields;
        self
    }

    const fn bookmark(mut self, bookmark: &'static str) -> Self {
        self.bookmark = bookmark;
        self
    }
}

const CORE: (&str, &str) = ("", "v1");
const APPS: (&str, &str) = ("apps", "v1");
const AUTHN: (&str, &str) = ("authentication.k8s.io", "v1");
const AUTHZ: (&str, &str) = ("authorization.k8s.io", "v1");
const BATCH: (&str, &str) = ("batch", "v1");
const NETWORKING: (&str, &str) = ("networking.k8s.io", "v1");
const RBAC: (&str, &str) = ("rbac.authorization.k8s.io", "v1");
const STORAGE: (&str, &str) = ("storage.k8s.io", "v1");
const ADMISSION: (&str, &str) = ("admissionregistration.k8s.io", "v1");

const POD_FIELDS: &[&str] = &[
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
];
const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];
const DEPLOYMENT_MARK: &str = r#","spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}"#;
const EVENT_MARK: &str = r#","involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":"""#;

const ROWS: &[Row] = &[
    row(CORE, ("Binding", "bindings"), &[], N, REVIEW),
    row(CORE, ("ConfigMap", "configmaps"), &["cm"], N, NONE),
    row(CORE, ("Endpoints", "endpoints"), &["ep"], N, UPSERT),
    row(CORE, ("Event", "events"), &["ev"], N, UPSERT.with(OWN)).fields(EVENT_FIELDS).bookmark(EVENT_MARK),
    row(CORE, ("LimitRange", "limitranges"), &["limits"], N, UPSERT).bookmark(r#","spec":{"limits":null}"#),
    row(
        CORE,
        ("Namespace", "namespaces"),
        &["ns"],
        C,
        STATUS.with(RETURNS).with(OWN).with(Traits::NO_DELETE_COLLECTION),
    )
    .fields(&["status.phase"])
    .bookmark(r#","spec":{},"status":{}"#),
    row(CORE, ("Node", "nodes"), &["no"], C, STATUS_META.with(OWN)).fields(&["spec.unschedulable"]),
    row(CORE, ("PersistentVolume", "persistentvolumes"), &["pv"], C, STATUS)
        .bookmark(r#","spec":{},"status":{}"#),
    row(CORE, ("PersistentVolumeClaim", "persistentvolumeclaims"), &["pvc"], N, STATUS)
        .bookmark(r#","spec":{"resources":{}},"status":{}"#),
    row(CORE, ("Pod", "pods"), &["po"], N, SPEC_STATUS_META.with(RETURNS).with(OWN))
        .fields(POD_FIELDS)
        .bookmark(r#","spec":{"containers":null},"status":{}"#),
    row(CORE, ("PodTemplate", "podtemplates"), &[], N, GEN.with(RETURNS))
        .bookmark(r#","template":{"metadata":{},"spec":{"containers":null}}"#),
    row(CORE, ("ReplicationController", "replicationcontrollers"), &["rc"], N, SPEC_STATUS.with(OWN))
        .fields(&["status.replicas"])
        .bookmark(r#","spec":{},"status":{"replicas":0}"#),
    row(CORE, ("ResourceQuota", "resourcequotas"), &["quota"], N, STATUS_META.with(RETURNS))
        .bookmark(r#","spec":{},"status":{}"#),
    row(CORE, ("Secret", "secrets"), &[], N, OWN).fields(&["type"]),
    row(CORE, ("ServiceAccount", "serviceaccounts"), &["sa"], N, RETURNS),
    row(CORE, ("Service", "services"), &["svc"], N, STATUS_META.with(RETURNS).with(UPSERT).with(OWN))
        .fields(&["spec.clusterIP", "spec.type"])
        .bookmark(r#","spec":{},"status":{"loadBalancer":{}}"#),
    row(("apiregistration.k8s.io", "v1"), ("APIService", "apiservices"), &[], C, STATUS)
        .bookmark(r#","spec":{"groupPriorityMinimum":0,"versionPriority":0},"status":{}"#),
    row(APPS, ("ControllerRevision", "controllerrevisions"), &[], N, NONE)
        .bookmark(r#","data":null,"revision":0"#),
    row(APPS, ("DaemonSet", "daemonsets"), &["ds"], N, SPEC_STATUS_META),
    row(APPS, ("Deployment", "deployments"), &["deploy"], N, SPEC_STATUS_META).bookmark(DEPLOYMENT_MARK),
    row(APPS, ("ReplicaSet", "replicasets"), &["rs"], N, SPEC_STATUS_META),
    row(APPS, ("StatefulSet", "statefulsets"), &["sts"], N, SPEC_STATUS_META),
    row(AUTHN, ("SelfSubjectReview", "selfsubjectreviews"), &[], C, REVIEW),
    row(AUTHN, ("TokenReview", "tokenreviews"), &[], C, REVIEW),
    row(AUTHZ, ("LocalSubjectAccessReview", "localsubjectaccessreviews"), &[], N, REVIEW),
    row(AUTHZ, ("SelfSubjectAccessReview", "selfsubjectaccessreviews"), &[], C, REVIEW),
    row(AUTHZ, ("SelfSubjectRulesReview", "selfsubjectrulesreviews"), &[], C, REVIEW),
    row(AUTHZ, ("SubjectAccessReview", "subjectaccessreviews"), &[], C, REVIEW),
    row(("autoscaling", "v2"), ("HorizontalPodAutoscaler", "horizontalpodautoscalers"), &["hpa"], N, STATUS),
    row(BATCH, ("CronJob", "cronjobs"), &["cj"], N, SPEC_STATUS),
    row(BATCH, ("Job", "jobs"), &[], N, SPEC_STATUS_META.with(OWN)).fields(&["status.successful"]),
    row(NETWORKING, ("IngressClass", "ingressclasses"), &[], C, GEN).bookmark(r#","spec":{}"#),
    row(NETWORKING, ("Ingress", "ingresses"), &["ing"], N, SPEC_STATUS)
        .bookmark(r#","spec":{},"status":{"loadBalancer":{}}"#),
    row(NETWORKING, ("NetworkPolicy", "networkpolicies"), &["netpol"], N, GEN),
    row(("policy", "v1"), ("PodDisruptionBudget", "poddisruptionbudgets"), &["pdb"], N, SPEC_STATUS_META),
    row(RBAC, ("ClusterRoleBinding", "clusterrolebindings"), &[], C, UPSERT),
    row(RBAC, ("ClusterRole", "clusterroles"), &[], C, UPSERT).bookmark(r#","rules":null"#),
    row(RBAC, ("RoleBinding", "rolebindings"), &[], N, UPSERT),
    row(RBAC, ("Role", "roles"), &[], N, UPSERT).bookmark(r#","rules":null"#),
    row(STORAGE, ("CSIDriver", "csidrivers"), &[], C, NONE).bookmark(r#","spec":{}"#),
    row(STORAGE, ("CSINode", "csinodes"), &[], C, NONE).bookmark(r#","spec":{"drivers":null}"#),
    row(STORAGE, ("StorageClass", "storageclasses"), &["sc"], C, RETURNS).bookmark(r#","provisioner":"""#),
    row(STORAGE, ("VolumeAttachment", "volumeattachments"), &[], C, STATUS),
    row(ADMISSION, ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations"), &[], C, GEN),
    row(ADMISSION, ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations"), &[], C, GEN),
    row(
        ("apiextensions.k8s.io", "v1"),
        ("CustomResourceDefinition", "customresourcedefinitions"),
        &["crd", "crds"],
        C,
        SPEC_STATUS,
    ),
    row(("scheduling.k8s.io", "v1"), ("PriorityClass", "priorityclasses"), &["pc"], C, GEN)
        .bookmark(r#","value":0"#),
    row(("coordination.k8s.io", "v1"), ("Lease", "leases"), &[], N, UPSERT.with(Traits::NEEDS_VERSION))
        .bookmark(r#","spec":{}"#),
    row(("node.k8s.io", "v1"), ("RuntimeClass", "runtimeclasses"), &[], C, NONE).bookmark(r#","handler":"""#),
    row(("discovery.k8s.io", "v1"), ("EndpointSlice", "endpointslices"), &[], N, GEN)
        .bookmark(r#","addressType":"","endpoints":null,"ports":null"#),
];

/// The built-in kinds, in the order of discovery.
pub(crate) fn built_in() -> impl Iterator<Item = Kind> {
    ROWS.iter().map(|row| Kind {
        gvr: Gvr::new(row.group, row.version, row.plural),
        api_version: Gvr::new(row.group, row.version, row.plural).api_version(),
        kind: row.kind.to_owned(),
        list_kind: if row.kind == "Endpoints" {
            "EndpointsList".to_owned()
        } else {
            format!("{}List", row.kind)
        },
        singular: row.kind.to_lowercase(),
        short_names: row.short.iter().map(|&name| name.to_owned()).collect(),
        categories: if matches!(
            row.plural,
            "pods"
                | "services"
                | "replicationcontrollers"
                | "daemonsets"
                | "deployments"
                | "replicasets"
                | "statefulsets"
                | "horizontalpodautoscalers"
                | "cronjobs"
                | "jobs"
        ) {
            vec!["all".to_owned()]
        } else {
            Vec::new()
        },
        namespaced: row.namespaced,
        selectable: row.fields.iter().map(|&field| field.to_owned()).collect(),
        traits: row.traits,
        bookmark: row.bookmark,
        scale: None,
        columns: Vec::new(),
        schema: None,
    })
}
