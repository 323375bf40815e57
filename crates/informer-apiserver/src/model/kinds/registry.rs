//! The list of the built-in kinds: the schema table, completed by the descriptors.

use informer_core::Gvr;
use informer_schema::{Resource, Schema, Words};

use crate::model::kinds::descriptor::{KindDescriptor, PLAIN};
use crate::model::kinds::{Kind, Subresource, Traits};
use crate::model::kinds::{
    admissionregistration, apiextensions, apiregistration, apps, authentication, authorization, autoscaling,
    batch, certificates, coordination, core, discovery, events, flowcontrol, networking, node, policy, rbac,
    resource, scheduling, storage,
};

/// The descriptors of the built-in kinds.
static DESCRIPTORS: &[&KindDescriptor] = &[
    &core::config_map::DESCRIPTOR,
    &core::endpoints::DESCRIPTOR,
    &core::event::DESCRIPTOR,
    &core::limit_range::DESCRIPTOR,
    &core::namespace::DESCRIPTOR,
    &core::node::DESCRIPTOR,
    &core::persistent_volume::DESCRIPTOR,
    &core::persistent_volume_claim::DESCRIPTOR,
    &core::pod::DESCRIPTOR,
    &core::pod_template::DESCRIPTOR,
    &core::replication_controller::DESCRIPTOR,
    &core::secret::DESCRIPTOR,
    &core::service::DESCRIPTOR,
    &core::service_account::DESCRIPTOR,
    &core::BINDING,
    &core::RESOURCE_QUOTA,
    &events::event::DESCRIPTOR,
    &discovery::endpoint_slice::DESCRIPTOR,
    &networking::ingress::DESCRIPTOR,
    &networking::ingress_class::DESCRIPTOR,
    &networking::network_policy::DESCRIPTOR,
    &apps::controller_revision::DESCRIPTOR,
    &apps::daemon_set::DESCRIPTOR,
    &apps::deployment::DESCRIPTOR,
    &apps::replica_set::DESCRIPTOR,
    &apps::stateful_set::DESCRIPTOR,
    &batch::cron_job::DESCRIPTOR,
    &batch::job::DESCRIPTOR,
    &policy::pod_disruption_budget::DESCRIPTOR,
    &scheduling::priority_class::DESCRIPTOR,
    &coordination::lease::DESCRIPTOR,
    &node::runtime_class::DESCRIPTOR,
    &storage::csi_driver::DESCRIPTOR,
    &storage::storage_class::DESCRIPTOR,
    &storage::CSI_NODE,
    &storage::VOLUME_ATTACHMENT,
    &rbac::cluster_role::DESCRIPTOR,
    &rbac::cluster_role_binding::DESCRIPTOR,
    &rbac::role::DESCRIPTOR,
    &rbac::role_binding::DESCRIPTOR,
    &autoscaling::horizontal_pod_autoscaler::DESCRIPTOR,
    &autoscaling::horizontal_pod_autoscaler::DESCRIPTOR_V1,
    &admissionregistration::mutating_admission_policy::DESCRIPTOR,
    &admissionregistration::mutating_admission_policy_binding::DESCRIPTOR,
    &admissionregistration::mutating_webhook_configuration::DESCRIPTOR,
    &admissionregistration::validating_admission_policy::DESCRIPTOR,
    &admissionregistration::validating_admission_policy_binding::DESCRIPTOR,
    &admissionregistration::validating_webhook_configuration::DESCRIPTOR,
    &apiregistration::API_SERVICE,
    &authentication::SELF_SUBJECT_REVIEW,
    &authentication::TOKEN_REVIEW,
    &authorization::LOCAL_SUBJECT_ACCESS_REVIEW,
    &authorization::SELF_SUBJECT_ACCESS_REVIEW,
    &authorization::SELF_SUBJECT_RULES_REVIEW,
    &authorization::SUBJECT_ACCESS_REVIEW,
    &apiextensions::CUSTOM_RESOURCE_DEFINITION,
    &certificates::CERTIFICATE_SIGNING_REQUEST,
    &resource::DEVICE_CLASS,
    &resource::RESOURCE_SLICE,
    &flowcontrol::FLOW_SCHEMA,
    &flowcontrol::PRIORITY_LEVEL_CONFIGURATION,
];

/// Returns the built-in kinds in discovery order: those that kube-apiserver serves by default.
pub(crate) fn built_in(schema: &Schema) -> impl Iterator<Item = Kind> + '_ {
    schema.resources().filter(|resource| resource.is_served_by_default()).map(kind)
}

fn kind(resource: Resource<'_>) -> Kind {
    let gvr = Gvr::new(resource.group(), resource.version(), resource.plural());
    let name = resource.response_kind().kind;
    let subresources: Vec<Subresource> = resource.subresources().map(Subresource::of).collect();
    let own = |descriptor: &&&'static KindDescriptor| {
        (descriptor.group, descriptor.version, descriptor.kind) == (&*gvr.group, &*gvr.version, name)
    };
    let described = DESCRIPTORS.iter().find(own).copied();
    let traits = described.map_or_else(|| traits(resource, &subresources), |described| described.traits);
    let descriptor = described.unwrap_or(&PLAIN);
    let owned = |names: Words| names.map(str::to_owned).collect();
    Kind {
        api_version: gvr.api_version(),
        gvr,
        kind: name.to_owned(),
        list_kind: format!("{name}List"),
        singular: resource.singular().to_owned(),
        short_names: owned(resource.short_names()),
        categories: owned(resource.categories()),
        namespaced: resource.is_namespaced(),
        selectable: descriptor.selectable.iter().map(|&field| field.to_owned()).collect(),
        traits,
        bookmark: descriptor.bookmark,
        verbs: resource.verbs().collect(),
        storage_hash: resource.storage_version_hash(),
        subresources,
        scale: None,
        columns: Vec::new(),
        schema: None,
        deprecated: descriptor.deprecated.map(str::to_owned),
        descriptor,
    }
}

/// Derives the traits of kinds without a row.
fn traits(resource: Resource<'_>, subresources: &[Subresource]) -> Traits {
    if resource.verbs().eq(["create"]) {
        return Traits::REVIEW;
    }
    match subresources.iter().any(|sub| sub.name == "status") {
        true => Traits::STATUS,
        false => Traits::NONE,
    }
}

#[cfg(test)]
mod tests;
