//! Reads and edits the `Cargo.toml` of a project.

use toml_edit::{DocumentMut, Item, Value};

use super::EditError;

/// Returns the name of the package in a `Cargo.toml`.
pub(crate) fn package_name(text: &str) -> Result<String, EditError> {
    let document = parse(text)?;
    let name = document.get("package").and_then(|package| package.get("name")).and_then(Item::as_str);
    name.map(str::to_owned).ok_or_else(|| EditError::new("package.name is missing"))
}

/// Returns true if the `Cargo.toml` lists this dependency.
pub(crate) fn depends_on(text: &str, dependency: &str) -> bool {
    parse(text).is_ok_and(|document| {
        document.get("dependencies").is_some_and(|dependencies| dependencies.get(dependency).is_some())
    })
}

/// Enables a feature of a dependency in `Cargo.toml`. Nothing changes if the feature is already enabled.
pub(crate) fn add_feature(text: &str, dependency: &str, feature: &str) -> Result<String, EditError> {
    let mut document = parse(text)?;
    let missing = || EditError::new(format!("dependencies.{dependency} is not a table"));
    let dependencies = document.get_mut("dependencies").ok_or_else(missing)?;
    let table = dependencies.get_mut(dependency).and_then(Item::as_table_like_mut).ok_or_else(missing)?;
    let features = table.entry("features").or_insert_with(|| toml_edit::value(toml_edit::Array::new()));
    let features = features.as_array_mut().ok_or_else(|| EditError::new("features is not a list"))?;
    if !features.iter().any(|present| present.as_str() == Some(feature)) {
        features.push(Value::from(feature));
    }
    Ok(document.to_string())
}

fn parse(text: &str) -> Result<DocumentMut, EditError> {
    text.parse().map_err(|error: toml_edit::TomlError| EditError::new(error.to_string().replace('\n', " ")))
}
