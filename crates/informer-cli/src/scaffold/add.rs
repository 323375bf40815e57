//! `informer add`: adds kinds, controllers, versions and webhooks to a project.

mod controller;
mod version;

use clap::{Args, Subcommand};
use minijinja::{Value, context};

use super::change::ProjectChange;
use super::edit::{manifest, rust, yaml};
use super::names::Kind;
use super::project::values;
use super::templates;
use crate::failure::Failure;

/// Add a kind, a controller, a version or webhooks to the project in the current folder.
#[derive(Debug, Args)]
#[command(
    after_help = "Existing files keep their comments and formatting. Nothing is written if an edit fails."
)]
pub(crate) struct AddArguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Add a custom kind, its controller, tests, and manifests.
    #[command(after_help = "Example: informer add kind Customer")]
    Kind(KindArguments),
    /// Add a controller for a kind of the project, or for a built-in kind.
    #[command(after_help = "Example: informer add controller audit --for ConfigMap")]
    Controller {
        /// The name of the controller, for example `audit`.
        name: String,
        /// The kind whose objects it reconciles, in upper camel case, for example `ConfigMap`.
        #[arg(long = "for", value_name = "KIND")]
        kind: String,
    },
    /// Add a version of a kind of the project, and conversions between the versions.
    #[command(after_help = "\
Example:
  informer add version v2 --kind Website
  informer manifests    writes the CRD with both versions")]
    Version {
        /// The new version, such as `v2` or `v1beta1`.
        version: String,
        /// The kind of the project, in upper camel case.
        #[arg(long)]
        kind: String,
    },
    /// Add admission webhooks that default and validate the objects of a kind of the project.
    #[command(after_help = "Example: informer add webhook Website")]
    Webhook {
        /// The kind of the project, in upper camel case.
        kind: String,
    },
}

#[derive(Debug, Args)]
struct KindArguments {
    /// The custom kind, in upper camel case, for example `Customer`.
    kind: String,
    /// The API group; by default that of the other kinds.
    #[arg(long)]
    group: Option<String>,
    /// The version of the kind, such as `v1` or `v1beta1`.
    #[arg(long, default_value = "v1")]
    version: String,
    /// The plural of the kind, in lower case; by default the regular English plural, such as `customers`.
    #[arg(long)]
    plural: Option<String>,
    /// Objects of the kind belong to a namespace (the default).
    #[arg(long, conflicts_with = "cluster")]
    namespaced: bool,
    /// Objects of the kind belong to no namespace.
    #[arg(long)]
    cluster: bool,
}

pub(super) fn run(arguments: &AddArguments) -> Result<(), Failure> {
    let mut change = ProjectChange::of_current_folder()?;
    match &arguments.part {
        Part::Kind(arguments) => add_kind(&mut change, arguments)?,
        Part::Controller { name, kind } => controller::add(&mut change, name, kind)?,
        Part::Version { version, kind } => {
            version::add(&mut change, version, kind)?;
            return change.apply("informer manifests && cargo test");
        }
        Part::Webhook { kind } => add_webhook(&mut change, kind)?,
    }
    change.apply("cargo test")
}

fn add_kind(change: &mut ProjectChange, arguments: &KindArguments) -> Result<(), Failure> {
    let group = match &arguments.group {
        Some(group) => group.clone(),
        None => change.group_of_a_kind()?,
    };
    let (version, plural) = (&arguments.version, arguments.plural.as_deref());
    let kind = Kind::new(&arguments.kind, &group, version, plural, !arguments.cluster)?;
    let values = values(&change.project, &kind);
    change.create(templates::KIND, &values)?;

    let Kind { module, plural, .. } = &kind;
    change.edit("src/api.rs", |text| {
        let text = rust::add_module(text, module)?;
        rust::add_to_vec(&text, "crds", &format!("{module}::crd()"))
    })?;
    change.edit("src/controllers.rs", |text| {
        let text = rust::add_module(text, module)?;
        rust::add_to_chain(&text, "add_to", &format!(".controller({module}::controller())"))
    })?;
    change.edit("config/crd/kustomization.yaml", |text| {
        yaml::add_item(text, "resources", &format!("{plural}.yaml"))
    })?;
    change.edit("config/rbac/kustomization.yaml", |text| {
        yaml::add_item(text, "resources", &format!("{module}_role.yaml"))
    })
}

fn add_webhook(change: &mut ProjectChange, kind: &str) -> Result<(), Failure> {
    let kind = change.kind("add webhooks of", kind)?;
    let values = values(&change.project, &kind);
    change.create(templates::WEBHOOK, &values)?;

    let Kind { module, plural, .. } = &kind;
    if change.folder.join("src/webhooks.rs").exists() {
        change.edit("src/webhooks.rs", |text| {
            let text = rust::add_module(text, module)?;
            let calls = format!(".default({module}::default).validate({module}::validate)");
            rust::add_to_chain(&text, "register", &calls)
        })?;
        return change.edit("config/webhook/kustomization.yaml", |text| {
            yaml::add_item(text, "resources", &format!("{plural}.yaml"))
        });
    }
    let values = context! { admission => true, ..values };
    add_webhook_server(change, &values)
}

/// Adds the webhook server to the project: its files, its settings and its manifests. If the value
/// `admission` is true, the server is registered for admission; otherwise it serves conversions.
fn add_webhook_server(change: &mut ProjectChange, values: &Value) -> Result<(), Failure> {
    change.create(templates::WEBHOOK_SERVER, values)?;
    let crate_name = change.project.replace('-', "_");
    change.edit("Cargo.toml", |text| manifest::add_feature(text, "informer", "webhook"))?;
    change.edit("src/lib.rs", |text| rust::add_module(text, "webhooks"))?;
    change.edit("tests/manifests.rs", |text| {
        let call = format!(".webhooks({crate_name}::webhooks::registered())");
        rust::add_to_chain(text, "manifests", &call)
    })?;
    change.edit("src/settings.rs", |text| {
        let field = format!("#[command(flatten)]\npub webhooks: {crate_name}::webhooks::WebhookSettings,");
        rust::add_field(text, "Settings", &field)
    })?;
    change.edit("src/main.rs", |text| {
        rust::add_before_call(text, "run_until", |manager| {
            format!("let {manager} = {crate_name}::webhooks::add_to({manager}, &settings.webhooks);")
        })
    })?;
    change.edit("config/default/kustomization.yaml", |text| {
        let text = yaml::add_item(text, "resources", "../webhook")?;
        yaml::add_path(&text, "patches", "webhook_deployment.yaml")
    })?;
    let chart = format!("charts/{}/values.yaml", change.project);
    change.edit(&chart, |text| yaml::set_bool(text, "webhooks", "enabled", true))
}
