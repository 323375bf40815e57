//! A change of a project: new files, and edits of existing ones.

use std::fs;
use std::path::{Path, PathBuf};

use minijinja::Value;

use super::edit::{EditError, manifest, rust};
use super::files::{self, Formatter};
use super::names::{Kind, snake_case};
use super::templates::{self, File, Template};
use crate::failure::Failure;

/// The new and the edited files of a project. They are collected in memory and written together, so that an
/// edit that fails leaves the project unchanged.
pub(super) struct ProjectChange {
    pub(super) folder: PathBuf,
    /// The name of the project, which is the name of its package.
    pub(super) project: String,
    formatter: Formatter,
    created: Vec<File>,
    edited: Vec<File>,
}

impl ProjectChange {
    /// Begins a change of the project that contains the current folder. Returns an error if the folder is not
    /// in a project.
    pub(super) fn of_current_folder() -> Result<Self, Failure> {
        let (folder, project) = find_project()?;
        let formatter = Formatter::new(&folder);
        Ok(Self { folder, project, formatter, created: Vec::new(), edited: Vec::new() })
    }

    /// Renders templates and adds the resulting files to the change, with the Helm templates that are
    /// generated from them. Returns an error if a file exists.
    pub(super) fn create(&mut self, templates: &[Template], values: &Value) -> Result<(), Failure> {
        let rendered = templates::render(templates, values)?;
        templates::with_chart(&self.project, rendered).into_iter().try_for_each(|file| self.add_file(file))
    }

    /// Adds a new file to the change. Returns an error if the file exists.
    pub(super) fn add_file(&mut self, file: File) -> Result<(), Failure> {
        let (path, content) = self.formatter.format(file);
        if self.folder.join(&path).exists() {
            let path = path.display();
            let problem = format!("create {path}: the file exists; choose another name, or remove the file");
            return Err(Failure::new(problem));
        }
        self.created.push((path, content));
        Ok(())
    }

    /// Edits a file of the project. A Rust file that is formatted before the edit is also formatted after it;
    /// other files keep the user's layout.
    pub(super) fn edit(
        &mut self,
        path: &str,
        edit: impl FnOnce(&str) -> Result<String, EditError>,
    ) -> Result<(), Failure> {
        let full = self.folder.join(path);
        let text = read(&full)?;
        let mut edited = edit(&text).map_err(|error| failed(Path::new(path), error))?;
        if path.ends_with(".rs") && self.formatter.formatted(&text).as_deref() == Some(&*text) {
            edited = self.formatter.formatted(&edited).unwrap_or(edited);
        }
        self.edited.push((path.into(), edited));
        Ok(())
    }

    /// Returns the API group of the project's kinds: that of the first kind in `src/api`, in the order of
    /// file names.
    pub(super) fn group_of_a_kind(&self) -> Result<String, Failure> {
        let folder = self.folder.join("src/api");
        let entries = fs::read_dir(&folder).map_err(|error| Failure::io("read the folder src/api", error))?;
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
            let arguments = rust::kube_arguments(&read(path)?).map_err(|error| failed(path, error))?;
            if let Some((_, group)) = arguments.into_iter().find(|(name, _)| name == "group") {
                return Ok(group);
            }
        }
        Err(Failure::new("find the API group: src/api has no kind; set --group"))
    }

    /// Reads the group, the version and the other names of a kind in the project from the attribute `kube` of
    /// its Rust type.
    pub(super) fn kind(&self, attempt: &str, kind: &str) -> Result<Kind, Failure> {
        let path = PathBuf::from(format!("src/api/{}.rs", snake_case(kind)));
        let full = self.folder.join(&path);
        if !full.is_file() {
            let path = path.display();
            let remedy = format!("add it with `informer add kind {kind}`");
            return Err(Failure::new(format!("{attempt} {kind}: {path} does not exist; {remedy}")));
        }
        let arguments = rust::kube_arguments(&read(&full)?).map_err(|error| failed(&path, error))?;
        let value =
            |name: &str| arguments.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
        let (Some(group), Some(version)) = (value("group"), value("version")) else {
            return Err(failed(&path, "the attribute kube has no group or no version"));
        };
        Kind::new(kind, group, version, value("plural"), value("namespaced").is_some())
    }

    /// Writes all files of the change, and prints their paths and the next command for the user.
    pub(super) fn apply(self, next: &str) -> Result<(), Failure> {
        let Self { folder, created, edited, .. } = self;
        for (verb, changed) in [("created", created), ("edited", edited)] {
            for (path, content) in changed {
                files::replace(&folder.join(&path), &content)?;
                println!("{verb} {}", path.display());
            }
        }
        println!("next: {next}");
        Ok(())
    }
}

/// Finds the project that contains the current folder, and returns the project's folder and name. Searches
/// the current folder and its parents for a `Cargo.toml`. Returns an error if the first one found is not that
/// of a project which `informer new` has created.
pub(super) fn find_project() -> Result<(PathBuf, String), Failure> {
    let current = std::env::current_dir().map_err(|error| Failure::io("read the current folder", error))?;
    let outside = || {
        let current = current.display();
        Failure::new(format!(
            "find the project of {current}: the folder is not in a project of `informer new`; change to the \
             folder of a project"
        ))
    };
    let folder =
        current.ancestors().find(|folder| folder.join("Cargo.toml").is_file()).ok_or_else(outside)?;
    let path = folder.join("Cargo.toml");
    let text = read(&path)?;
    if !manifest::depends_on(&text, "informer") || !folder.join("src/api.rs").is_file() {
        return Err(outside());
    }
    let project = manifest::package_name(&text).map_err(|error| failed(&path, error))?;
    Ok((folder.to_owned(), project))
}

pub(super) fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::io(&format!("read {}", path.display()), error))
}

pub(super) fn failed(path: &Path, problem: impl std::fmt::Display) -> Failure {
    let path = path.display();
    Failure::new(format!(
        "edit {path}: {problem}; edit it by hand as in a new project, or revert your change of it"
    ))
}
