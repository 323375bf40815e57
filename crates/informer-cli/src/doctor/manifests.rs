//! Reads the Roles and CRDs of the options of `informer doctor` from files.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::failure::Failure;

/// The maximum number of manifests that one command-line option of `informer doctor` may name.
const MAX_MANIFESTS: usize = 1_000;

/// Manifests that were read from the files and directories of an option, in the order of their paths.
#[derive(Debug, Default)]
pub(super) struct Manifests(pub(super) Vec<Value>);

impl Manifests {
    /// Reads the manifests of these kinds from files and directories. Objects of other kinds in them are
    /// skipped.
    ///
    /// # Errors
    ///
    /// Returns an error if a path cannot be read, is not YAML, or contains no object of these kinds. Also if
    /// it contains a CRD without a name, a group or a plural name.
    pub(super) fn read(paths: &[PathBuf], kinds: &[&str]) -> Result<Self, Failure> {
        let mut all = Self::default();
        for path in paths {
            let before = all.0.len();
            for file in files(path)? {
                all.read_file(&file, kinds)?;
            }
            if all.0.len() == before {
                let (path, kinds) = (path.display(), kinds.join(" or "));
                return Err(Failure::new(format!("read {path}: it contains no {kinds}; name another file")));
            }
        }
        Ok(all)
    }

    fn read_file(&mut self, path: &Path, kinds: &[&str]) -> Result<(), Failure> {
        let failed = |error| Failure::io(&format!("read {}", path.display()), error);
        let text = fs::read_to_string(path).map_err(failed)?;
        for document in serde_norway::Deserializer::from_str(&text) {
            let value = Value::deserialize(document)
                .map_err(|error| Failure::caused(format!("parse {}", path.display()), error))?;
            let objects = match value["items"].as_array() {
                Some(items) if value["kind"] == "List" => items.clone(),
                _ => vec![value],
            };
            let wanted = |object: &Value| object["kind"].as_str().is_some_and(|kind| kinds.contains(&kind));
            for object in objects.into_iter().filter(wanted) {
                check_names(path, &object)?;
                self.0.push(object);
            }
            if self.0.len() > MAX_MANIFESTS {
                let path = path.display();
                return Err(Failure::new(format!(
                    "read {path}: more than {MAX_MANIFESTS} manifests; name fewer files"
                )));
            }
        }
        Ok(())
    }
}

/// Checks that a CRD has the names with which the other checks find it and its objects.
fn check_names(path: &Path, object: &Value) -> Result<(), Failure> {
    if object["kind"] != "CustomResourceDefinition" {
        return Ok(());
    }
    let text = |pointer: &str| object.pointer(pointer)?.as_str().filter(|text| !text.is_empty());
    let name = text("/metadata/name");
    let problem = match (text("/spec/group"), text("/spec/names/plural"), name) {
        (Some(_), Some(_), Some(_)) => return Ok(()),
        (Some(group), Some(plural), None) => format!("no metadata.name; set it to {plural}.{group}"),
        (None, ..) => "no spec.group; set it to a domain name".to_owned(),
        (_, None, _) => "no spec.names.plural; set it to the plural name in lower case".to_owned(),
    };
    let (path, name) = (path.display(), name.map(|name| format!(" {name}")).unwrap_or_default());
    Err(Failure::new(format!("read {path}: CustomResourceDefinition{name} has {problem}")))
}

/// Returns the path of a file itself, or the paths of all YAML and JSON files in a directory.
fn files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error| Failure::io(&format!("read {}", path.display()), error);
    if !fs::metadata(path).map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let extension = file.extension().and_then(|extension| extension.to_str());
        if extension.is_some_and(|extension| matches!(extension, "yaml" | "yml" | "json")) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}
