//! Builds and tests the projects that `informer new` and `informer add` write.

use std::fs;
use std::path::Path;
use std::process::Command;

use clap::Args;

use crate::cargo::{build_informer, command, program};
use crate::go::target;
use crate::report::Report;
use crate::tree;

/// Options of `cargo xtask scaffold`.
#[derive(Debug, Args)]
pub(crate) struct ScaffoldArguments {
    /// Check only this project: `minimal`, `complete` or `extended` [default: all three].
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
}

/// The projects in `examples/scaffold`, which `informer new` has written and which are committed.
const COMMITTED: [&str; 2] = ["minimal", "complete"];

/// The project that this check creates with `informer new` and extends with `informer add`.
const EXTENDED: &str = "extended";

/// The runs of `informer` that create and extend the project [`EXTENDED`]: for each run, the working
/// directory below `target/scaffold`, and the arguments.
const STEPS: [(&str, &[&str]); 8] = [
    ("", &["new", EXTENDED, "--path", "../.."]),
    (EXTENDED, &["add", "kind", "HTTPRoute", "--cluster"]),
    (EXTENDED, &["add", "controller", "audit", "--for", "ConfigMap"]),
    (EXTENDED, &["add", "controller", "mark-routes", "--for", "HTTPRoute"]),
    (EXTENDED, &["add", "version", "v2", "--kind", "Website"]),
    (EXTENDED, &["add", "version", "v3alpha1", "--kind", "Website"]),
    (EXTENDED, &["add", "version", "v2", "--kind", "HTTPRoute"]),
    (EXTENDED, &["add", "webhook", "Website"]),
];

/// A role in the project [`EXTENDED`]: its file, the verbs of one of its rules, and the same verbs with
/// `delete`, which the project never uses. The check adds `delete` for a moment, to test that `informer
/// manifests --check` reports it.
const ROLE: (&str, &str, &str) =
    ("config/rbac/website_role.yaml", "verbs: [list, watch]\n", "verbs: [list, watch, delete]\n");

/// Lines that `informer manifests --check` must print while `delete` is added to the role in [`ROLE`]: the
/// Helm template no longer equals the role, and the project never uses `delete`.
const UNUSED: [&str; 2] = [
    "stale charts/extended/templates/website_role.yaml\n",
    "config/rbac/website_role.yaml:7: granted and never used: delete websites in API group \"example.com\"\n",
];

pub(crate) fn run(root: &Path, arguments: &ScaffoldArguments) -> Report {
    let mut report = Report::new("scaffold");
    let folder = root.join("target/scaffold");
    if let Err(problem) = prepare(root, &folder) {
        report.problems.push(problem);
        return report;
    }
    let (mut built, mut compared, mut manifests, mut skipped) = (0, 0, 0, 0);
    let wanted = |name: &&str| arguments.only.as_deref().is_none_or(|only| only == *name);
    for name in COMMITTED.into_iter().chain([EXTENDED]).filter(wanted) {
        let project = folder.join(name);
        let checked = match name {
            EXTENDED => extend(root, &folder),
            _ => tree::update(&root.join("examples/scaffold").join(name), &project).map(drop),
        };
        match checked.and_then(|()| check_code(root, &project)) {
            Ok(()) => built += 1,
            Err(problem) => report.problems.push(format!("{name}: {problem}")),
        }
        match check_manifests(root, &project, name) {
            Ok(()) => compared += 1,
            Err(problem) => report.problems.push(format!("{name}: {problem}")),
        }
        for check in manifest_checks(root, &project, name) {
            match run_tool(check) {
                Ok(Some(())) => manifests += 1,
                Ok(None) => skipped += 1,
                Err(problem) => report.problems.push(format!("{name}: {problem}")),
            }
        }
    }
    report.figure("projects that build and pass their tests", f64::from(built));
    report.figure("projects whose manifests and roles are up to date", f64::from(compared));
    report.figure("checks of manifests by kubectl and helm", f64::from(manifests));
    report.figure("checks that were skipped because kubectl or helm is missing", f64::from(skipped));
    report
}

/// Builds the command `informer`, and creates the folder of the projects with empty configuration files of
/// rustfmt and clippy. Both tools search the parent directories, and would otherwise use the configuration of
/// this workspace.
fn prepare(root: &Path, folder: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("prepare {}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    for name in ["clippy.toml", "rustfmt.toml"] {
        fs::write(folder.join(name), "").map_err(failed)?;
    }
    build_informer(root).map(drop)
}

/// Creates the project [`EXTENDED`] with `informer new`, extends it with `informer add`, and writes its
/// manifests with `informer manifests`.
fn extend(root: &Path, folder: &Path) -> Result<(), String> {
    let project = folder.join(EXTENDED);
    if project.exists() {
        fs::remove_dir_all(&project).map_err(|error| format!("remove {}: {error}", project.display()))?;
    }
    for (subfolder, arguments) in STEPS {
        complete(informer(root, &folder.join(subfolder), arguments))?;
    }
    lock(root, &project)?;
    complete(informer(root, &project, &["manifests"]))
}

/// Returns a command that runs `informer` in a folder. `informer manifests` builds and runs the tests of the
/// project. The environment of the command selects the same target folder and clippy settings as
/// [`check_code`], so that the tests are built only once.
fn informer(root: &Path, folder: &Path, arguments: &[&str]) -> Command {
    let name = format!("informer{}", std::env::consts::EXE_SUFFIX);
    let mut informer = program(target(root).join("debug").join(name));
    informer.args(arguments).current_dir(folder).env("CARGO_TARGET_DIR", target(root));
    with_clippy(informer)
}

/// Runs `informer manifests --check` in a project, which checks the generated manifests and the roles. In the
/// project [`EXTENDED`], also checks that this command detects a permission that is granted and never used.
fn check_manifests(root: &Path, project: &Path, name: &str) -> Result<(), String> {
    complete(informer(root, project, &["manifests", "--check"]))?;
    if name != EXTENDED {
        return Ok(());
    }
    let (path, before, after) = ROLE;
    let path = project.join(path);
    let failed = |error: std::io::Error| format!("edit {}: {error}", path.display());
    let role = fs::read_to_string(&path).map_err(failed)?;
    fs::write(&path, role.replace(before, after)).map_err(failed)?;
    let mut check = informer(root, project, &["manifests", "--check"]);
    let output = check.output().map_err(|error| format!("run {check:?}: {error}"))?;
    fs::write(&path, role).map_err(failed)?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() && UNUSED.iter().all(|line| printed.contains(line)) {
        Ok(())
    } else {
        Err(format!("manifests --check did not report an unused permission:\n{printed}"))
    }
}

/// Copies the lock file of this workspace to a project, so that the project is built with the same versions
/// of its dependencies.
fn lock(root: &Path, project: &Path) -> Result<(), String> {
    let lock = project.join("Cargo.lock");
    let copied = fs::copy(root.join("Cargo.lock"), &lock).map(drop);
    copied.map_err(|error| format!("write {}: {error}", lock.display()))
}

/// Checks the format of a project, and builds, lints and tests it.
///
/// The lock file of this workspace selects the versions of the dependencies, and the build uses the target
/// folder of this workspace, so that dependencies with the same features are built once. `cargo test` runs
/// clippy as the compiler of the project, because a separate `cargo clippy` would analyze all dependencies
/// again.
fn check_code(root: &Path, project: &Path) -> Result<(), String> {
    lock(root, project)?;
    let cargo = |arguments: &[&str]| {
        let mut cargo = command();
        cargo.args(arguments).current_dir(project);
        cargo.env("CARGO_TARGET_DIR", target(root));
        cargo
    };
    complete(cargo(&["fmt", "--check"]))?;
    complete(with_clippy(cargo(&["test"])))
}

fn with_clippy(mut cargo: Command) -> Command {
    cargo.env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    cargo.env("CLIPPY_ARGS", "-Dwarnings__CLIPPY_HACKERY__");
    cargo
}

/// Returns commands that check a project's manifests with kubectl and helm. Each program is taken from the
/// folder `go` of the target folder if it was built there, otherwise from `PATH`, where it may be missing.
fn manifest_checks(root: &Path, project: &Path, name: &str) -> Vec<Command> {
    let chart = format!("charts/{name}");
    let tool = |program: &str, arguments: &[&str]| {
        let built = target(root).join("go").join(program);
        let mut tool = Command::new(if built.is_file() { built } else { program.into() });
        tool.args(arguments).current_dir(project);
        tool
    };
    vec![
        tool("kubectl", &["kustomize", "config/default"]),
        tool("helm", &["lint", "--strict", &chart]),
        tool("helm", &["template", name, &chart]),
    ]
}

/// Runs a program that may not be installed. Returns `None` if it is not, and an error if it fails.
fn run_tool(mut tool: Command) -> Result<Option<()>, String> {
    let output = match tool.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("run {tool:?}: {error}")),
    };
    if output.status.success() {
        Ok(Some(()))
    } else {
        Err(format!("{tool:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

fn complete(mut command: Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("run {command:?}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{command:?} failed; the output above has the errors"))
    }
}
