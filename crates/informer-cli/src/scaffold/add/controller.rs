//! `informer add controller`: adds a controller for a kind that already exists, in the project or built into
//! Kubernetes.

use minijinja::{Value, context};

use crate::failure::Failure;
use crate::scaffold::builtin::BuiltinKind;
use crate::scaffold::change::ProjectChange;
use crate::scaffold::edit::{rust, yaml};
use crate::scaffold::names::{Kind, check_controller, snake_case};
use crate::scaffold::templates;

pub(super) fn add(change: &mut ProjectChange, name: &str, kind: &str) -> Result<(), Failure> {
    let controller_module = &*check_controller(name)?;
    let is_custom = change.folder.join(format!("src/api/{}.rs", snake_case(kind))).is_file();
    let project = &*change.project;
    let own = context! {
        name => project,
        crate => project.replace('-', "_"),
        controller => name,
        controller_module,
        group => change.group_of_a_kind()?,
        kind,
    };
    if is_custom {
        let of_kind = custom(&change.kind("add a controller of", kind)?);
        change.create(templates::CONTROLLER, &context! { ..own, ..of_kind })?;
    } else if let Some(found) = BuiltinKind::find(kind) {
        let values = context! { ..own, ..builtin(found, controller_module) };
        change.create(templates::CONTROLLER, &values)?;
        change.create(templates::SAMPLE, &values)?;
    } else {
        return Err(Failure::new(format!(
            "add controller {name}: {kind} is neither a kind of the project nor one of {}; add it with \
             `informer add kind {kind}`",
            BuiltinKind::names()
        )));
    }
    register(change, controller_module)
}

/// Returns the template values of a controller for a kind of the project.
fn custom(Kind { module, group, plural, namespaced, .. }: &Kind) -> Value {
    context! {
        custom => true,
        module,
        kind_group => group,
        plural,
        crds => format!("{plural:?}"),
        sample => module,
        key_prefix => if *namespaced { "default/" } else { "" },
    }
}

/// Returns the template values of a controller for a built-in kind. `sample` is the name of the sample's
/// file.
fn builtin(kind: &BuiltinKind, sample: &str) -> Value {
    context! {
        custom => false,
        rust_module => kind.rust_module(),
        kind_group => if kind.group.is_empty() { "\"\"" } else { kind.group },
        plural => kind.plural(),
        crds => "",
        sample,
        key_prefix => if kind.namespaced { "default/" } else { "" },
        api_version => kind.api_version(),
        namespaced => kind.namespaced,
        content => kind.content,
    }
}

fn register(change: &mut ProjectChange, module: &str) -> Result<(), Failure> {
    change.edit("src/controllers.rs", |text| {
        let text = rust::add_module(text, module)?;
        rust::add_to_chain(&text, "add_to", &format!(".controller({module}::controller())"))
    })?;
    change.edit("config/rbac/kustomization.yaml", |text| {
        yaml::add_item(text, "resources", &format!("{module}_role.yaml"))
    })
}
