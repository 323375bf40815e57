//! `informer add`: more kinds and webhooks for a project.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use minijinja::{Value, context};

use super::edit::{EditError, manifest, rust, yaml};
use super::files::{self, Formatter};
use super::names::{Kind, snake_case};
use super::project::values;
use super::templates::{self, File, Template};
use crate::failure::Failure;

/// Add a kind or webhooks to the project of the current folder.
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
    Kind(KindArguments),
    /// Add admission webhooks that default and validate the objects of a kind of the project.
    Webhook {
        /// The kind, in upper camel case.
        kind: String,
    },
}

#[derive(Debug, Args)]
struct KindArguments {
    /// The kind, in upper camel case.
    kind: String,
    /// The API group. By default that of the other kinds.
    #[arg(long)]
    group: Option<String>,
    /// The version of the kind, such as v1 or v1beta1.
    #[arg(long, default_value = "v1")]
    version: String,
    /// The plural of the kind, in lower case. By default the regular English plural.
    #[arg(long)]
    plural: Option<String>,
    /// Objects of the kind belong to a namespace; the default.
    #[arg(long, conflicts_with = "cluster")]
    namespaced: bool,
    /// Objects of the kind belong to no namespace.
    #[arg(long)]
    cluster: bool,
}

pub(super) fn run(arguments: &AddArguments) -> Result<(), Failure> {
    let mut change = Change::of_current_folder()?;
    match &arguments.part {
        Part::Kind(arguments) => add_kind(&mut change, arguments)?,
        Part::Webhook { kind } => add_webhook(&mut change, kind)?,
    }
    change.apply()
}

fn add_kind(change: &mut Change, arguments: &KindArguments) -> Result<(), Failure> {
    let group = match &arguments.group {
        Some(group) => group.clone(),
        None => change.group_of_a_kind()?,
    };
    let (version, plural) = (&arguments.version, arguments.plural.as_deref());
    let kind = Kind::new(&arguments.kind, &group, version, plural, !arguments.cluster)?;
    let values = values(&change.project, &kind);
    change.create(templates::KIND, &values)?;

    let Kind { kind, module, plural, .. } = &kind;
    change.edit("src/api.rs", |text| {
        let text = rust::add_module(text, module)?;
        rust::add_to_vec(&text, "crds", &format!("{module}::{kind}::crd()"))
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

fn add_webhook(change: &mut Change, kind: &str) -> Result<(), Failure> {
    let kind = change.kind(kind)?;
    let values = values(&change.project, &kind);
    change.create(templates::WEBHOOK, &values)?;

    let Kind { module, .. } = &kind;
    if change.folder.join("src/webhooks.rs").exists() {
        change.edit("src/webhooks.rs", |text| {
            let text = rust::add_module(text, module)?;
            let calls = format!(".default({module}::default).validate({module}::validate)");
            rust::add_to_chain(&text, "register", &calls)
        })?;
        return change.edit("config/webhook/kustomization.yaml", |text| {
            yaml::add_item(text, "resources", &format!("{module}.yaml"))
        });
    }
    change.create(templates::WEBHOOK_SERVER, &values)?;
    let crate_name = change.project.replace('-', "_");
    change.edit("Cargo.toml", |text| manifest::add_feature(text, "informer", "webhook"))?;
    change.edit("src/lib.rs", |text| rust::add_module(text, "webhooks"))?;
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

/// New and edited files of a project, which are written together.
struct Change {
    folder: PathBuf,
    /// The name of the package.
    project: String,
    formatter: Formatter,
    created: Vec<File>,
    edited: Vec<File>,
}

impl Change {
    /// Finds the project: the current folder, or the next one above it with a `Cargo.toml`.
    fn of_current_folder() -> Result<Self, Failure> {
        let current =
            std::env::current_dir().map_err(|error| Failure::io("read the current folder", error))?;
        let outside = || {
            let current = current.display();
            Failure::new(format!(
                "find the project of {current}: there is none made by `informer new`; change to its folder"
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
        let formatter = Formatter::new(folder);
        Ok(Self { folder: folder.to_owned(), project, formatter, created: Vec::new(), edited: Vec::new() })
    }

    /// Renders new files, which must not exist.
    fn create(&mut self, templates: &[Template], values: &Value) -> Result<(), Failure> {
        // The monitoring and the chart do not depend on the kind.
        let values = context! { ..values.clone(), ..context! { webhook => true } };
        for file in templates::render(templates, &values)? {
            let (path, content) = self.formatter.format(file);
            if self.folder.join(&path).exists() {
                let path = path.display();
                let problem =
                    format!("create {path}: the file exists; choose another kind, or remove the file");
                return Err(Failure::new(problem));
            }
            self.created.push((path, content));
        }
        Ok(())
    }

    /// Edits a file. If it is formatted before, it is formatted after the edit, too.
    fn edit(
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

    /// Returns the group of the kinds in the project.
    fn group_of_a_kind(&self) -> Result<String, Failure> {
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

    /// Reads the names of a kind in the project from the attributes of its type.
    fn kind(&self, kind: &str) -> Result<Kind, Failure> {
        let path = PathBuf::from(format!("src/api/{}.rs", snake_case(kind)));
        let full = self.folder.join(&path);
        if !full.is_file() {
            let path = path.display();
            let remedy = format!("add it with `informer add kind {kind}`");
            return Err(Failure::new(format!("add webhooks of {kind}: {path} does not exist; {remedy}")));
        }
        let arguments = rust::kube_arguments(&read(&full)?).map_err(|error| failed(&path, error))?;
        let value =
            |name: &str| arguments.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
        let (Some(group), Some(version)) = (value("group"), value("version")) else {
            return Err(failed(&path, "the attribute kube has no group or no version"));
        };
        Kind::new(kind, group, version, value("plural"), value("namespaced").is_some())
    }

    /// Writes all files, and prints their names.
    fn apply(self) -> Result<(), Failure> {
        let Self { folder, created, edited, .. } = self;
        for (verb, changed) in [("created", created), ("edited", edited)] {
            for (path, content) in changed {
                files::replace(&folder.join(&path), &content)?;
                println!("{verb} {}", path.display());
            }
        }
        println!("next: cargo test");
        Ok(())
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::io(&format!("read {}", path.display()), error))
}

fn failed(path: &Path, problem: impl std::fmt::Display) -> Failure {
    let path = path.display();
    Failure::new(format!(
        "edit {path}: {problem}; edit it by hand as in a new project, or undo your change of it"
    ))
}
