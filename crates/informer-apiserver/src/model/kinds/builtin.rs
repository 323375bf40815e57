//! The built-in kinds: the schema table, and the properties that it does not contain.

use informer_core::Gvr;
use informer_schema::{Resource, Schema, Words};

use crate::model::kinds::{Kind, Subresource, Traits};

/// The properties of a kind that the schema table does not contain.
struct Row {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    traits: Traits,
    fields: &'static [&'static str],
    /// The JSON of every bookmark of the kind after its metadata.
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

const fn row((group, version): (&'static str, &'static str), kind: &'static str, traits: Traits) -> Row {
    Row { group, version, kind, traits, fields: &[], bookmark: "" }
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
const RESOURCE: (&str, &str) = ("resource.k8s.io", "v1");
const FLOWCONTROL: (&str, &str) = ("flowcontrol.apiserver.k8s.io", "v1");
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
const DEPLOYMENT_BOOKMARK: &str = r#","spec":{"replicas":0,"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}"#;
const EVENT_BOOKMARK: &str = r#","involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":"""#;

const AUTOSCALER_V2_BOOKMARK: &str = r#","spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},"status":{"desiredReplicas":0,"currentMetrics":null}"#;
const AUTOSCALER_V1_BOOKMARK: &str = r#","spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},"status":{"currentReplicas":0,"desiredReplicas":0}"#;

const EVENTS_V1_FIELDS: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];
const EVENTS_V1_BOOKMARK: &str = r#","eventTime":null,"regarding":{},"deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null"#;

const ROWS: &[Row] = &[
    row(CORE, "Binding", REVIEW),
    row(CORE, "ConfigMap", NONE),
    row(CORE, "Endpoints", UPSERT),
    row(CORE, "Event", UPSERT.with(OWN)).fields(EVENT_FIELDS).bookmark(EVENT_BOOKMARK),
    row(CORE, "LimitRange", UPSERT).bookmark(r#","spec":{"limits":null}"#),
    row(CORE, "Namespace", STATUS.with(RETURNS).with(OWN))
        .fields(&["status.phase"])
        .bookmark(r#","spec":{},"status":{}"#),
    row(CORE, "Node", STATUS_META.with(OWN)).fields(&["spec.unschedulable"]),
    row(CORE, "PersistentVolume", STATUS).bookmark(r#","spec":{},"status":{}"#),
    row(CORE, "PersistentVolumeClaim", STATUS).bookmark(r#","spec":{"resources":{}},"status":{}"#),
    row(CORE, "Pod", SPEC_STATUS_META.with(RETURNS).with(OWN))
        .fields(POD_FIELDS)
        .bookmark(r#","spec":{"containers":null},"status":{}"#),
    row(CORE, "PodTemplate", GEN.with(RETURNS))
        .bookmark(r#","template":{"metadata":{},"spec":{"containers":null}}"#),
    row(CORE, "ReplicationController", SPEC_STATUS.with(OWN))
        .fields(&["status.replicas"])
        .bookmark(r#","spec":{},"status":{"replicas":0}"#),
    row(CORE, "ResourceQuota", STATUS_META.with(RETURNS)).bookmark(r#","spec":{},"status":{}"#),
    row(CORE, "Secret", OWN).fields(&["type"]),
    row(CORE, "ServiceAccount", RETURNS),
    row(CORE, "Service", STATUS_META.with(RETURNS).with(UPSERT).with(OWN))
        .fields(&["spec.clusterIP", "spec.type"])
        .bookmark(r#","spec":{},"status":{"loadBalancer":{}}"#),
    row(("apiregistration.k8s.io", "v1"), "APIService", STATUS)
        .bookmark(r#","spec":{"groupPriorityMinimum":0,"versionPriority":0},"status":{}"#),
    row(APPS, "ControllerRevision", NONE).bookmark(r#","data":null,"revision":0"#),
    row(APPS, "DaemonSet", SPEC_STATUS_META),
    row(APPS, "Deployment", SPEC_STATUS_META).bookmark(DEPLOYMENT_BOOKMARK),
    row(APPS, "ReplicaSet", SPEC_STATUS_META),
    row(APPS, "StatefulSet", SPEC_STATUS_META),
    row(AUTHN, "SelfSubjectReview", REVIEW),
    row(AUTHN, "TokenReview", REVIEW),
    row(AUTHZ, "LocalSubjectAccessReview", REVIEW),
    row(AUTHZ, "SelfSubjectAccessReview", REVIEW),
    row(AUTHZ, "SelfSubjectRulesReview", REVIEW),
    row(AUTHZ, "SubjectAccessReview", REVIEW),
    row(("autoscaling", "v2"), "HorizontalPodAutoscaler", STATUS).bookmark(AUTOSCALER_V2_BOOKMARK),
    row(("autoscaling", "v1"), "HorizontalPodAutoscaler", STATUS).bookmark(AUTOSCALER_V1_BOOKMARK),
    row(BATCH, "CronJob", SPEC_STATUS),
    row(BATCH, "Job", SPEC_STATUS_META.with(OWN)).fields(&["status.successful"]),
    row(NETWORKING, "IngressClass", GEN).bookmark(r#","spec":{}"#),
    row(NETWORKING, "Ingress", SPEC_STATUS).bookmark(r#","spec":{},"status":{"loadBalancer":{}}"#),
    row(NETWORKING, "NetworkPolicy", GEN),
    row(("policy", "v1"), "PodDisruptionBudget", SPEC_STATUS_META),
    row(RBAC, "ClusterRoleBinding", UPSERT),
    row(RBAC, "ClusterRole", UPSERT).bookmark(r#","rules":null"#),
    row(RBAC, "RoleBinding", UPSERT),
    row(RBAC, "Role", UPSERT).bookmark(r#","rules":null"#),
    row(STORAGE, "CSIDriver", NONE).bookmark(r#","spec":{}"#),
    row(STORAGE, "CSINode", NONE).bookmark(r#","spec":{"drivers":null}"#),
    row(STORAGE, "StorageClass", RETURNS).bookmark(r#","provisioner":"""#),
    row(STORAGE, "VolumeAttachment", STATUS),
    row(ADMISSION, "MutatingWebhookConfiguration", GEN),
    row(ADMISSION, "ValidatingWebhookConfiguration", GEN),
    row(("apiextensions.k8s.io", "v1"), "CustomResourceDefinition", SPEC_STATUS),
    row(("scheduling.k8s.io", "v1"), "PriorityClass", GEN).bookmark(r#","value":0"#),
    row(("coordination.k8s.io", "v1"), "Lease", UPSERT.with(Traits::NEEDS_VERSION)).bookmark(r#","spec":{}"#),
    row(("node.k8s.io", "v1"), "RuntimeClass", NONE).bookmark(r#","handler":"""#),
    row(("events.k8s.io", "v1"), "Event", UPSERT.with(OWN))
        .fields(EVENTS_V1_FIELDS)
        .bookmark(EVENTS_V1_BOOKMARK),
    row(("certificates.k8s.io", "v1"), "CertificateSigningRequest", STATUS.with(OWN))
        .fields(&["spec.signerName"])
        .bookmark(r#","spec":{"request":null,"signerName":""},"status":{}"#),
    row(ADMISSION, "MutatingAdmissionPolicy", GEN),
    row(ADMISSION, "MutatingAdmissionPolicyBinding", GEN),
    row(ADMISSION, "ValidatingAdmissionPolicy", SPEC_STATUS),
    row(ADMISSION, "ValidatingAdmissionPolicyBinding", GEN),
    row(RESOURCE, "DeviceClass", GEN),
    row(RESOURCE, "ResourceSlice", GEN.with(OWN)).fields(&["spec.nodeName", "spec.driver"]),
    row(FLOWCONTROL, "FlowSchema", SPEC_STATUS),
    row(FLOWCONTROL, "PriorityLevelConfiguration", SPEC_STATUS),
    row(("discovery.k8s.io", "v1"), "EndpointSlice", GEN)
        .bookmark(r#","addressType":"","endpoints":null,"ports":null"#),
];

/// Returns the built-in kinds in discovery order: those that kube-apiserver serves by default.
pub(crate) fn built_in(schema: &Schema) -> impl Iterator<Item = Kind> + '_ {
    schema.resources().filter(|resource| resource.is_served_by_default()).map(kind)
}

fn kind(resource: Resource<'_>) -> Kind {
    let gvr = Gvr::new(resource.group(), resource.version(), resource.plural());
    let name = resource.response_kind().kind;
    let subresources: Vec<Subresource> = resource.subresources().map(Subresource::of).collect();
    let row =
        ROWS.iter().find(|row| (row.group, row.version, row.kind) == (&*gvr.group, &*gvr.version, name));
    let traits = row.map_or_else(|| traits(resource, &subresources), |row| row.traits);
    let own = |names: Words| names.map(str::to_owned).collect();
    Kind {
        api_version: gvr.api_version(),
        gvr,
        kind: name.to_owned(),
        list_kind: format!("{name}List"),
        singular: resource.singular().to_owned(),
        short_names: own(resource.short_names()),
        categories: own(resource.categories()),
        namespaced: resource.is_namespaced(),
        selectable: row.map_or(&[][..], |row| row.fields).iter().map(|&field| field.to_owned()).collect(),
        traits,
        bookmark: row.map_or("", |row| row.bookmark),
        verbs: resource.verbs().collect(),
        storage_hash: resource.storage_version_hash(),
        subresources,
        scale: None,
        columns: Vec::new(),
        schema: None,
        deprecated: None,
    }
}

/// Derives the traits of kinds without a row.
fn traits(resource: Resource<'_>, subresources: &[Subresource]) -> Traits {
    if resource.verbs().eq(["create"]) {
        return REVIEW;
    }
    match subresources.iter().any(|sub| sub.name == "status") {
        true => STATUS,
        false => NONE,
    }
}
