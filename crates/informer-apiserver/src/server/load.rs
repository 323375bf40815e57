use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::model::error::ApiError;
use crate::model::write_options::WriteMode;
use crate::server::ApiServer;

/// The error of [`ApiServer::load_yaml`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A manifest file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A manifest file is neither YAML nor JSON.
    #[error("document {document} of {} is neither YAML nor JSON", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The number of the YAML document in the file, starting at 1.
        document: usize,
        /// The parse error.
        source: serde_norway::Error,
    },
    /// A manifest file contains an object of a kind that the server does not have.
    #[error("document {document} of {} is of kind {kind:?} in {api_version:?}, which is not served; register it", path.display())]
    UnknownKind {
        /// The file.
        path: PathBuf,
        /// The number of the YAML document in the file, starting at 1.
        document: usize,
        /// The `kind` of the document.
        kind: String,
        /// The `apiVersion` of the document.
        api_version: String,
    },
    /// The server rejected the object.
    #[error("document {document} of {} was rejected", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The number of the YAML document in the file, starting at 1.
        document: usize,
        /// The error of the server.
        source: ApiError,
    },
}

impl ApiServer {
    /// Loads a manifest file, or all `.yaml`, `.yml` and `.json` files of a directory in the order of their
    /// names. Returns the number of objects.
    ///
    /// A file may contain several documents, and a document may be a list. Namespaced objects without a
    /// namespace are created in `default`. Existing objects are replaced. Objects are defaulted and validated
    /// like the objects in requests.
    ///
    /// # Errors
    ///
    /// Returns the error of the first invalid file or document. Documents before the invalid one stay loaded.
    pub fn load_yaml(&self, path: impl AsRef<Path>) -> Result<usize, LoadError> {
        let path = path.as_ref();
        let read = |source| LoadError::Read { path: path.to_owned(), source };
        if !fs::metadata(path).map_err(read)?.is_dir() {
            return self.load_file(path);
        }
        let entries = fs::read_dir(path).map_err(read)?;
        let mut files: Vec<PathBuf> =
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>().map_err(read)?;
        let manifest = |file: &PathBuf| {
            file.extension()
                .and_then(|ext| ext.to_str())
                .is_some_and(|ext| matches!(ext, "yaml" | "yml" | "json"))
        };
        files.retain(manifest);
        files.sort_unstable();
        files.iter().map(|file| self.load_file(file)).sum()
    }

    fn load_file(&self, path: &Path) -> Result<usize, LoadError> {
        let text =
            fs::read_to_string(path).map_err(|source| LoadError::Read { path: path.to_owned(), source })?;
        let mut count = 0;
        for (index, document) in serde_norway::Deserializer::from_str(&text).enumerate() {
            let document_number = index + 1;
            let value = Value::deserialize(document).map_err(|source| LoadError::Parse {
                path: path.to_owned(),
                document: document_number,
                source,
            })?;
            count += self.load_document(path, document_number, value)?;
        }
        Ok(count)
    }

    fn load_document(&self, path: &Path, document: usize, value: Value) -> Result<usize, LoadError> {
        if value.is_null() {
            return Ok(0);
        }
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        let (kind, api_version) = (text("kind"), text("apiVersion"));
        if kind.ends_with("List") && value["items"].is_array() {
            let item_kind = kind.strip_suffix("List").unwrap_or_default().to_owned();
            let Value::Object(mut list) = value else { return Ok(0) };
            let items = list.remove("items").and_then(|items| match items {
                Value::Array(items) => Some(items),
                _ => None,
            });
            // The items of a typed list such as `PodList` may omit `kind` and `apiVersion`.
            let typed = items.unwrap_or_default().into_iter().map(|mut item| {
                if item["kind"].is_null() && item.is_object() && !item_kind.is_empty() {
                    item["kind"] = item_kind.clone().into();
                    item["apiVersion"] = api_version.clone().into();
                }
                item
            });
            return typed.map(|item| self.load_document(path, document, item)).sum();
        }
        let resource = self.shared.registry.read().by_kind(&api_version, &kind);
        let Some(resource) = resource else {
            return Err(LoadError::UnknownKind { path: path.to_owned(), document, kind, api_version });
        };
        let loaded = self.shared.load(&resource, vec![value], WriteMode::Whole);
        self.shared.finish_controllers();
        loaded.map_err(|source| LoadError::Refused { path: path.to_owned(), document, source })
    }
}
