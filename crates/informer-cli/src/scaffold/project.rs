//! `informer new`: creates a new project.

use std::fs;
use std::path::{Component, Path, PathBuf};

use clap::Args;
use minijinja::{Value, context};

use super::files::{self, Formatter};
use super::names::{Kind, check_project};
use super::templates::{self, File};
use crate::failure::Failure;

/// Create the project of an operator.
#[derive(Debug, Args)]
#[command(after_help = "\
The project has a custom kind, its controller, tests without a cluster, and manifests.

Example:
  informer new website-operator --kind Website --group example.com --webhook
  cd website-operator && cargo test

Add more kinds, controllers, versions and webhooks with `informer add`.")]
pub(crate) struct NewArguments {
    /// The name of the project, its crate and its new folder, for example `website-operator`.
    name: String,
    /// The custom kind, in upper camel case.
    #[arg(long, default_value = "Website")]
    kind: String,
    /// The API group of the kind: a domain that you own.
    #[arg(long, default_value = "example.com")]
    group: String,
    /// The version of the kind, such as `v1` or `v1beta1`.
    #[arg(long, default_value = "v1")]
    version: String,
    /// The plural of the kind, in lower case; by default the regular English plural, such as `websites`.
    #[arg(long)]
    plural: Option<String>,
    /// Objects of the kind belong to a namespace (the default).
    #[arg(long, conflicts_with = "cluster")]
    namespaced: bool,
    /// Objects of the kind belong to no namespace.
    #[arg(long)]
    cluster: bool,
    /// Also write admission webhooks that default and validate the objects.
    #[arg(long)]
    webhook: bool,
    /// Also write leader election, so that several replicas can run.
    #[arg(long)]
    leader_election: bool,
    /// Also write a NetworkPolicy, which restricts connections to the pods.
    #[arg(long)]
    network_policy: bool,
    /// Also write a PodDisruptionBudget, which lets one replica at a time be evicted.
    #[arg(long)]
    pdb: bool,
    /// Also write a ServiceMonitor, with which the Prometheus Operator finds the metrics.
    #[arg(long)]
    service_monitor: bool,
    /// Depend on the crates of this checkout of the informer repository, for example `../informer`, not on
    /// the published ones.
    #[arg(long, value_name = "CHECKOUT")]
    path: Option<PathBuf>,
}

pub(super) fn run(arguments: &NewArguments) -> Result<(), Failure> {
    let NewArguments { name, .. } = arguments;
    check_project(name)?;
    let scope = !arguments.cluster;
    let (group, version, plural) = (&arguments.group, &arguments.version, arguments.plural.as_deref());
    let kind = Kind::new(&arguments.kind, group, version, plural, scope)?;
    let folder = Path::new(name);
    check_folder(folder)?;
    let source = arguments.path.as_deref().map(|path| Checkout::new(name, path)).transpose()?;

    let rendered = render(arguments, &kind, source.as_ref())?;
    let formatter = Formatter::new(Path::new("."));
    let rendered: Vec<File> = rendered.into_iter().map(|file| formatter.format(file)).collect();
    files::create(folder, &rendered)?;
    println!("created {name}: {} files", rendered.len());
    println!("next: cd {name} && cargo test");
    Ok(())
}

fn render(arguments: &NewArguments, kind: &Kind, source: Option<&Checkout>) -> Result<Vec<File>, Failure> {
    let NewArguments { webhook, leader_election, network_policy, pdb, service_monitor, .. } = *arguments;
    let own = context! {
            webhook,
            admission => webhook,
            leader_election,
            network_policy,
            pdb,
            service_monitor,
            informer => match source {
                Some(checkout) => format!("path = \"{}/crates/informer\"", checkout.path),
                None => format!("version = \"{}\"", env!("CARGO_PKG_VERSION")),
            },
            features => if webhook {
    r#""prometheus", "schema", "webhook""#
    } else {
    r#""prometheus", "schema""#
    },
            docker => source.is_some(),
            inside_checkout => source.is_some_and(|checkout| checkout.is_above),
            checkout => source.map_or("", |checkout| &checkout.path),
            workdir => source.map_or("/src", |checkout| &checkout.workdir),
            docker_root => source.map_or("", |checkout| &checkout.docker_root),
        };
    let values = context! { ..values(&arguments.name, kind), ..own };
    let mut rendered = templates::render(templates::PROJECT, &values)?;
    rendered.extend(templates::MONITORING.iter().map(|(path, content)| (path.into(), (*content).to_owned())));
    rendered.extend(templates::render(templates::KIND, &values)?);
    for (is_wanted, optional) in [
        (leader_election, templates::LEADER_ELECTION),
        (webhook, templates::WEBHOOK_SERVER),
        (webhook, templates::WEBHOOK),
        (network_policy || pdb || service_monitor, templates::OPERATIONS),
        (network_policy, templates::NETWORK_POLICY),
        (pdb, templates::POD_DISRUPTION_BUDGET),
        (service_monitor, templates::SERVICE_MONITOR),
    ] {
        if is_wanted {
            rendered.extend(templates::render(optional, &values)?);
        }
    }
    Ok(templates::with_chart(&arguments.name, rendered))
}

/// Returns the values with which the templates of a kind are rendered: the names of the project and of the
/// kind.
pub(super) fn values(project: &str, kind: &Kind) -> Value {
    let Kind { kind, module, singular, plural, group, group_dashed, version, namespaced } = kind;
    let project_crate = project.replace('-', "_");
    context! {
        name => project, crate => project_crate, kind, module, singular, plural, group, group_dashed, version,
        namespaced,
    }
}

/// Returns an error if the folder of the new project exists and is not empty.
fn check_folder(folder: &Path) -> Result<(), Failure> {
    let name = folder.display();
    let remedy = "choose another name, or remove it";
    match fs::read_dir(folder) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(Failure::new(format!("create project {name}: the folder is not empty; {remedy}"))),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            Err(Failure::new(format!("create project {name}: a file has this name; {remedy}")))
        }
        Err(error) => Err(Failure::io(&format!("read the folder {name}"), error)),
    }
}

/// A local checkout of the informer repository, on whose crates a new project depends, as seen from the
/// project's folder.
struct Checkout {
    /// The path from the new project to the checkout, with slashes as in `Cargo.toml`.
    path: String,
    /// The folder of the new project in its container image build.
    workdir: String,
    /// The folder of the checkout in the container image build. It is chosen so that `path` leads from
    /// `workdir` to it.
    docker_root: String,
    /// True if the new project is in a subfolder of the checkout.
    is_above: bool,
}

impl Checkout {
    fn new(project: &str, given: &Path) -> Result<Self, Failure> {
        if !given.join("crates/informer/Cargo.toml").is_file() {
            return Err(Failure::new(format!(
                "create project {project}: {} is not a checkout of informer; give the folder that contains \
                 crates/informer",
                given.display()
            )));
        }
        let path = if given.is_absolute() { given.to_owned() } else { normal(&Path::new("..").join(given)) };
        let up = path.components().filter(|part| *part == Component::ParentDir).count();
        let workdir = format!("/src{}/{project}", "/_".repeat(up.saturating_sub(1)));
        let docker_root = normal(&Path::new(&workdir).join(&path));
        let is_above = path.components().all(|part| part == Component::ParentDir);
        let slashes = |path: &Path| path.to_string_lossy().replace('\\', "/");
        Ok(Self { path: slashes(&path), docker_root: slashes(&docker_root), workdir, is_above })
    }
}

/// Simplifies a path without reading the file system: removes `.`, and each `..` with the name before it.
/// Symbolic links are not resolved. Paths of the image build contain none, and a path that the user has given
/// only gets a `..` in front.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(normal.components().next_back(), Some(Component::Normal(_))) => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}
