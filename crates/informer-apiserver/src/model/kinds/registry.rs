//! The list of the built-in kinds: the kinds of the schema table, each with its descriptor.

use informer_core::Gvr;
use informer_schema::{Column, Names, Resource, Schema};

use crate::model::kinds::descriptor::{KindDescriptor, PLAIN};
use crate::model::kinds::{KindDefinition, Subresource, Traits};
use crate::model::kinds::{
    admissionregistration, apiextensions, apiregistration, apps, authentication, authorization, autoscaling,
    batch, certificates, coordination, core, discovery, events, flowcontrol, networking, node, policy, rbac,
    resource, scheduling, storage,
};
use crate::model::table::PrinterColumn;

static DESCRIPTORS: &[&KindDescriptor] = &[
    &admissionregistration::mutating_admission_policy::DESCRIPTOR,
    &admissionregistration::mutating_admission_policy_binding::DESCRIPTOR,
    &admissionregistration::mutating_webhook_configuration::DESCRIPTOR,
    &admissionregistration::validating_admission_policy::DESCRIPTOR,
    &admissionregistration::validating_admission_policy_binding::DESCRIPTOR,
    &admissionregistration::validating_webhook_configuration::DESCRIPTOR,
    &apiextensions::CUSTOM_RESOURCE_DEFINITION,
    &apiregistration::api_service::DESCRIPTOR,
    &apps::controller_revision::DESCRIPTOR,
    &apps::daemon_set::DESCRIPTOR,
    &apps::deployment::DESCRIPTOR,
    &apps::replica_set::DESCRIPTOR,
    &apps::stateful_set::DESCRIPTOR,
    &authentication::SELF_SUBJECT_REVIEW,
    &authentication::TOKEN_REVIEW,
    &authorization::LOCAL_SUBJECT_ACCESS_REVIEW,
    &authorization::SELF_SUBJECT_ACCESS_REVIEW,
    &authorization::SELF_SUBJECT_RULES_REVIEW,
    &authorization::SUBJECT_ACCESS_REVIEW,
    &autoscaling::horizontal_pod_autoscaler::DESCRIPTOR,
    &autoscaling::horizontal_pod_autoscaler::DESCRIPTOR_V1,
    &batch::cron_job::DESCRIPTOR,
    &batch::job::DESCRIPTOR,
    &certificates::certificate_signing_request::DESCRIPTOR,
    &coordination::lease::DESCRIPTOR,
    &core::BINDING,
    &core::component_status::DESCRIPTOR,
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
    &core::resource_quota::DESCRIPTOR,
    &core::secret::DESCRIPTOR,
    &core::service::DESCRIPTOR,
    &core::service_account::DESCRIPTOR,
    &discovery::endpoint_slice::DESCRIPTOR,
    &events::event::DESCRIPTOR,
    &flowcontrol::flow_schema::DESCRIPTOR,
    &flowcontrol::priority_level_configuration::DESCRIPTOR,
    &networking::ingress::DESCRIPTOR,
    &networking::ingress_class::DESCRIPTOR,
    &networking::ip_address::DESCRIPTOR,
    &networking::network_policy::DESCRIPTOR,
    &networking::service_cidr::DESCRIPTOR,
    &node::runtime_class::DESCRIPTOR,
    &policy::pod_disruption_budget::DESCRIPTOR,
    &rbac::cluster_role::DESCRIPTOR,
    &rbac::cluster_role_binding::DESCRIPTOR,
    &rbac::role::DESCRIPTOR,
    &rbac::role_binding::DESCRIPTOR,
    &resource::device_class::DESCRIPTOR,
    &resource::resource_claim::DESCRIPTOR,
    &resource::resource_claim_template::DESCRIPTOR,
    &resource::resource_slice::DESCRIPTOR,
    &scheduling::priority_class::DESCRIPTOR,
    &storage::csi_driver::DESCRIPTOR,
    &storage::csi_node::DESCRIPTOR,
    &storage::storage_class::DESCRIPTOR,
    &storage::volume_attachment::DESCRIPTOR,
    &storage::volume_attributes_class::DESCRIPTOR,
];

/// Returns the built-in kinds that kube-apiserver serves by default, in discovery order.
pub(crate) fn built_in(schema: &Schema) -> impl Iterator<Item = KindDefinition> + '_ {
    schema.resources().filter(|resource| resource.is_served_by_default()).map(kind)
}

fn kind(resource: Resource<'_>) -> KindDefinition {
    let gvr = Gvr::new(resource.group(), resource.version(), resource.plural());
    let name = resource.response_kind().kind;
    let subresources: Vec<Subresource> = resource.subresources().map(Subresource::of).collect();
    let own = |descriptor: &&&'static KindDescriptor| {
        (descriptor.group, descriptor.version, descriptor.kind) == (&*gvr.group, &*gvr.version, name)
    };
    let described = DESCRIPTORS.iter().find(own).copied();
    let traits = described.map_or_else(|| traits(resource, &subresources), |described| described.traits);
    let descriptor = described.unwrap_or(&PLAIN);
    let owned = |names: Names| names.map(str::to_owned).collect();
    KindDefinition {
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
        columns: resource.columns().map(column).collect(),
        schema: None,
        deprecated: descriptor.deprecated.map(str::to_owned),
        descriptor,
    }
}

fn column(column: Column) -> PrinterColumn {
    PrinterColumn {
        format: column.format.to_owned(),
        priority: column.priority.into(),
        ..PrinterColumn::new(column.name, column.kind)
    }
}

/// Derives the traits of a built-in kind without a descriptor.
fn traits(resource: Resource<'_>, subresources: &[Subresource]) -> Traits {
    if resource.verbs().eq(["create"]) {
        return Traits::REVIEW;
    }
    if subresources.iter().any(|sub| sub.name == "status") { Traits::STATUS } else { Traits::NONE }
}

#[cfg(test)]
mod tests;
