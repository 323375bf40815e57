//! `informer add version`: adds a further version to a kind of the project, and conversions between the
//! versions.

use minijinja::context;

use super::add_webhook_server;
use crate::failure::Failure;
use crate::scaffold::change::{ProjectChange, failed, read};
use crate::scaffold::edit::rust;
use crate::scaffold::names::Kind;
use crate::scaffold::project::values;
use crate::scaffold::templates;

pub(super) fn add(change: &mut ProjectChange, version: &str, kind: &str) -> Result<(), Failure> {
    let hub = change.kind("add a version of", kind)?;
    let Kind { module, group, plural, .. } = &hub;
    // The names are constructed only to validate the new version.
    Kind::new(kind, group, version, Some(plural), hub.namespaced)?;
    if version == hub.version {
        let problem =
            format!("add version {version} of {kind}: the kind already has it; choose another version");
        return Err(Failure::new(problem));
    }
    let path = format!("src/api/{module}.rs");
    let full = change.folder.join(&path);
    let text = read(&full)?;
    let invalid = |error| failed(path.as_ref(), error);
    let has_status =
        rust::kube_arguments(&text).map_err(invalid)?.iter().any(|(argument, _)| argument == "status");
    let values = context! {
        new_version => version,
        status => has_status,
        admission => false,
        ..values(&change.project, &hub)
    };

    // The type of the new version begins as a copy of the type of the present version, which the user then
    // edits.
    let copy = rust::set_kube_argument(&text, "version", version).map_err(invalid)?;
    let copy = copy.replacen(&format!("{group}/{}`", hub.version), &format!("{group}/{version}`"), 1);
    let conversions = templates::render(&[templates::CONVERSIONS], &values)?;
    for (path, functions) in conversions {
        change.add_file((path, format!("{}\n{functions}", copy.trim_end())))?;
    }
    change.create(templates::VERSION, &values)?;
    let new = format!("{module}_{version}");
    let versions = format!("src/api/{module}_versions.rs");
    if change.folder.join(&versions).is_file() {
        change.edit(&versions, |text| {
            let text = rust::add_to_vec(text, "crd", &format!("super::{new}::crd()"))?;
            let call = format!(".spoke(super::{new}::to_hub, super::{new}::from_hub)");
            rust::add_to_chain(&text, "conversion", &call)
        })?;
        return change.edit("src/api.rs", |text| rust::add_module(text, &new));
    }

    change.create(templates::VERSIONS, &values)?;
    let is_first = !rust::has_function(&read(&change.folder.join("src/api.rs"))?, "conversions");
    change.edit("src/api.rs", |text| {
        let text = rust::add_module(text, &new)?;
        let text = rust::add_module(&text, &format!("{module}_versions"))?;
        let (single, all) = (format!("{module}::crd()"), format!("{module}_versions::crd()"));
        let text = rust::replace_in_function(&text, "crds", &single, &all)?;
        if is_first {
            Ok(format!(
                "{text}\n/// Returns the conversions of the kinds with several versions.\n\
                 pub fn conversions() -> Vec<informer::webhook::Conversion> {{\n    \
                 vec![{module}_versions::conversion()]\n}}\n"
            ))
        } else {
            rust::add_to_vec(&text, "conversions", &format!("{module}_versions::conversion()"))
        }
    })?;
    if !change.folder.join("src/webhooks.rs").is_file() {
        return add_webhook_server(change, &values);
    }
    if is_first {
        change.edit("src/webhooks.rs", |text| {
            rust::add_to_chain(text, "register", ".convert(crate::api::conversions())")
        })
    } else {
        Ok(())
    }
}
