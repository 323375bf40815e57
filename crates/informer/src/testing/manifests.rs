//! The generated manifests of a project: CRDs from Rust types, the registration of webhooks from the webhooks
//! of the program, and Helm templates from kustomize manifests.

mod chart;
mod error;
#[cfg(test)]
mod tests;
#[cfg(feature = "webhook")]
mod webhook;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::serde::Serialize;
use serde_json::Value;

pub use error::ManifestsError;

use super::files::{read_text, write_text};

/// The folders of a project whose manifests are converted to templates of its Helm chart. Each entry has the
/// folder, a prefix for the names of its templates, and the condition under which Helm renders a template.
const SOURCES: [(&str, &str, ChartCondition); 3] = [
    ("config/rbac", "", ChartCondition::Always),
    (WEBHOOKS, "webhook_", ChartCondition::Value("webhooks")),
    ("config/operations", "", ChartCondition::FileName),
];

/// The folder of the manifests of webhooks. Those of admission webhooks are generated.
const WEBHOOKS: &str = "config/webhook";

/// The annotation that makes Helm keep a CRD when the chart is uninstalled. If the CRD were deleted, the API
/// server would delete all its custom resources.
const KEEP: (&str, &str) = ("helm.sh/resource-policy", "keep");

#[derive(Debug, Clone, Copy)]
enum ChartCondition {
    Always,
    /// Helm renders the template only if `NAME.enabled` is true in the chart's values. The variant contains
    /// `NAME`.
    Value(&'static str),
    /// Helm renders the template only if `NAME.enabled` is true in the chart's values. `NAME` is the name of
    /// the manifest's file in lower camel case.
    FileName,
}

/// The generated manifests of a project that `informer new` has created. A test fails if they do not match
/// their sources:
///
/// ```no_run
/// use informer::testing::Manifests;
/// # fn crds() -> Vec<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition> {
/// #     Vec::new()
/// # }
///
/// let manifests = Manifests::of_project("shop-operator").crds(crds());
/// let report = manifests.check()?;
/// assert!(!report.is_stale(), "{report}");
/// # Ok::<(), informer::testing::ManifestsError>(())
/// ```
///
/// | generated | from |
/// |---|---|
/// | `config/crd/PLURAL.yaml`, `charts/PROJECT/crds/PLURAL.yaml` | the CRDs |
/// | `config/webhook/PLURAL.yaml` | the admission webhooks of a resource |
/// | `charts/PROJECT/templates/crd_PLURAL.yaml`, in place of that in `crds` | a CRD with a conversion webhook |
/// | `charts/PROJECT/templates/NAME.yaml` | `config/rbac/NAME.yaml` |
/// | `charts/PROJECT/templates/webhook_NAME.yaml` | `config/webhook/NAME.yaml` |
/// | `charts/PROJECT/templates/NAME.yaml` | `config/operations/NAME.yaml` |
///
/// The templates have the name and the namespace of the release in place of `PROJECT` and `PROJECT-system`.
#[derive(Debug, Clone)]
#[must_use = "call `check` or `write`"]
pub struct Manifests {
    project: String,
    folder: PathBuf,
    crds: Vec<CustomResourceDefinition>,
    /// The objects of the generated manifests in [`WEBHOOKS`], by the name of the file.
    webhooks: BTreeMap<String, Vec<Value>>,
}

impl Manifests {
    /// Returns the manifests of the project with this name, in the current folder. In tests, that is the
    /// folder of the package.
    pub fn of_project(name: impl Into<String>) -> Self {
        Self { project: name.into(), folder: PathBuf::new(), crds: Vec::new(), webhooks: BTreeMap::new() }
    }

    /// Sets the folder of the project, which contains `config` and `charts`. The default is the current
    /// folder.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = folder.into();
        self
    }

    /// Adds the CRDs of the project's kinds, from which CRD manifests are generated.
    pub fn crds(mut self, crds: impl IntoIterator<Item = CustomResourceDefinition>) -> Self {
        self.crds.extend(crds);
        self
    }

    /// Compares the manifests in the project's folder with the generated ones, without writing any file.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read, or an object cannot be encoded.
    pub fn check(&self) -> Result<ManifestsReport, ManifestsError> {
        self.apply(|_, _| Ok(ManifestState::Stale))
    }

    /// Writes the manifests that differ from the generated ones, and removes Helm templates that are no
    /// longer generated, because their source is missing.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read or written, or an object cannot be encoded.
    pub fn write(&self) -> Result<ManifestsReport, ManifestsError> {
        self.apply(|path, content| match content {
            Some(content) => {
                write_text(path, content).map_err(|error| ManifestsError::io("write", path, error))?;
                Ok(ManifestState::Written)
            }
            None => {
                fs::remove_file(path).map_err(|error| ManifestsError::io("remove", path, error))?;
                Ok(ManifestState::Removed)
            }
        })
    }

    fn apply(
        &self,
        change: impl Fn(&Path, Option<&str>) -> Result<ManifestState, ManifestsError>,
    ) -> Result<ManifestsReport, ManifestsError> {
        let mut files = Vec::new();
        for (path, expected) in self.expected()? {
            let full = self.folder.join(&path);
            let present = read_text(&full).map_err(|error| ManifestsError::io("read", &full, error))?;
            match (present == expected, &expected) {
                (true, Some(_)) => files.push((path, ManifestState::Unchanged)),
                (true, None) => {}
                (false, expected) => files.push((path, change(&full, expected.as_deref())?)),
            }
        }
        Ok(ManifestsReport { files })
    }

    /// Returns the content that each generated manifest must have, by path. `None` as content means that the
    /// file must not exist, because it is no longer generated.
    fn expected(&self) -> Result<BTreeMap<String, Option<String>>, ManifestsError> {
        let chart = format!("charts/{}", self.project);
        let mut expected = self.orphans(&chart)?;
        for crd in &self.crds {
            let plural = &crd.spec.names.plural;
            let (source, own) = (format!("config/crd/{plural}.yaml"), format!("{chart}/crds/{plural}.yaml"));
            let text = encode(crd)?;
            if crd.spec.conversion.as_ref().is_some_and(|conversion| conversion.webhook.is_some()) {
                let mut kept = crd.clone();
                let annotations = kept.metadata.annotations.get_or_insert_default();
                annotations.insert(KEEP.0.to_owned(), KEEP.1.to_owned());
                let template = chart::template("src/api", &encode(&kept)?, &self.project, None);
                expected.insert(format!("{chart}/templates/crd_{plural}.yaml"), Some(template));
                expected.insert(own, None);
            } else {
                expected.insert(own, Some(text.clone()));
            }
            expected.insert(source, Some(text));
        }
        for (folder, _, _) in SOURCES {
            for (name, text) in self.sources(folder, &mut expected)? {
                let template = self.chart_template(&format!("{folder}/{name}"), &text);
                expected.extend(template.map(|(path, text)| (path, Some(text))));
            }
        }
        Ok(expected)
    }

    /// Returns the handwritten and generated manifests of a folder of `config`, by name. Adds to `expected`
    /// the generated manifests, and marks manifests that are no longer generated as removed.
    fn sources(
        &self,
        folder: &str,
        expected: &mut BTreeMap<String, Option<String>>,
    ) -> Result<BTreeMap<String, String>, ManifestsError> {
        let mut sources = BTreeMap::new();
        for name in yaml_files(&self.folder.join(folder))? {
            let path = format!("{folder}/{name}");
            let full = self.folder.join(&path);
            let text = fs::read_to_string(&full).map_err(|error| ManifestsError::io("read", &full, error))?;
            if folder == WEBHOOKS && chart::is_generated(&text) {
                expected.insert(path, None);
            } else {
                sources.insert(name, text);
            }
        }
        for (name, objects) in self.webhooks.iter().filter(|_| folder == WEBHOOKS) {
            let objects: Result<Vec<String>, _> = objects.iter().map(encode).collect();
            let text = chart::header("src/webhooks") + "\n" + &objects?.join("---\n");
            expected.insert(format!("{folder}/{name}"), Some(text.clone()));
            sources.insert(name.clone(), text);
        }
        Ok(sources)
    }

    /// Returns the path and the content of the Helm template that is generated from a manifest. `path` and
    /// `text` are the path of the manifest in the project and its content. Returns `None` if the chart has no
    /// template for the manifest.
    ///
    /// ```
    /// use informer::testing::Manifests;
    ///
    /// let manifests = Manifests::of_project("shop");
    /// let text = "kind: ServiceAccount\nmetadata:\n  name: shop\n";
    /// let (path, template) = manifests.chart_template("config/rbac/account.yaml", text).expect("a template");
    /// assert_eq!(path, "charts/shop/templates/account.yaml");
    /// assert!(template.contains(r#"  name: {{ include "shop.fullname" . }}"#), "{template}");
    /// ```
    pub fn chart_template(&self, path: &str, text: &str) -> Option<(String, String)> {
        let (folder, name) = path.rsplit_once('/')?;
        let (_, prefix, condition) = SOURCES.iter().find(|(source, _, _)| *source == folder)?;
        let stem = name.strip_suffix(".yaml").filter(|stem| *stem != "kustomization")?;
        let value = match condition {
            ChartCondition::Always => None,
            ChartCondition::Value(value) => Some((*value).to_owned()),
            ChartCondition::FileName => Some(chart::lower_camel_case(stem)),
        };
        let template = chart::template(path, text, &self.project, value.as_deref());
        Some((format!("charts/{}/templates/{prefix}{name}", self.project), template))
    }

    /// Returns the paths of all existing templates in the chart that an earlier run has generated, with
    /// `None` as content. The caller replaces the entry of each template whose source still exists; the
    /// others must be removed.
    fn orphans(&self, chart: &str) -> Result<BTreeMap<String, Option<String>>, ManifestsError> {
        let mut orphans = BTreeMap::new();
        let folder = format!("{chart}/templates");
        for name in yaml_files(&self.folder.join(&folder))? {
            let full = self.folder.join(&folder).join(&name);
            let text = fs::read_to_string(&full).map_err(|error| ManifestsError::io("read", &full, error))?;
            if chart::is_generated(&text) {
                orphans.insert(format!("{folder}/{name}"), None);
            }
        }
        Ok(orphans)
    }
}

fn encode(object: &impl Serialize) -> Result<String, ManifestsError> {
    serde_norway::to_string(object).map_err(ManifestsError::Encode)
}

/// Returns the sorted names of the YAML files in a folder of manifests, without `kustomization.yaml`. Returns
/// no names if the folder does not exist.
fn yaml_files(folder: &Path) -> Result<Vec<String>, ManifestsError> {
    let failed = |error| ManifestsError::io("read", folder, error);
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".yaml") && name != "kustomization.yaml" {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The state of a generated manifest, as found by a check or left by a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ManifestState {
    /// The manifest in the project's folder is the same as the generated one.
    Unchanged,
    /// The manifest in the project's folder was missing or different, and was written.
    Written,
    /// The manifest was removed from the project's folder, because it is no longer generated.
    Removed,
    /// The manifest in the project's folder is missing, differs from the generated one, or is no longer
    /// generated. Only [`Manifests::check`] reports this state, because it changes no file.
    Stale,
}

impl fmt::Display for ManifestState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unchanged => "unchanged",
            Self::Written => "written",
            Self::Removed => "removed",
            Self::Stale => "stale",
        })
    }
}

/// The result of checking or writing generated manifests: the paths and their states. `Display` prints a line
/// `STATE PATH` for each.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "assert that no manifest is stale"]
pub struct ManifestsReport {
    files: Vec<(String, ManifestState)>,
}

impl ManifestsReport {
    /// Returns true if a manifest in the project's folder is missing or out of date, so that
    /// [`Manifests::write`] must be called.
    pub fn is_stale(&self) -> bool {
        self.files.iter().any(|(_, state)| *state == ManifestState::Stale)
    }

    /// Returns the paths of the manifests, relative to the folder of the project, and their states.
    pub fn files(&self) -> impl Iterator<Item = (&str, ManifestState)> {
        self.files.iter().map(|(path, state)| (&**path, *state))
    }
}

impl fmt::Display for ManifestsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.files.iter().try_for_each(|(path, state)| writeln!(f, "{state} {path}"))
    }
}
