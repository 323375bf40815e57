//! Tests of `informer new` and `informer add`. The projects in `examples/scaffold` are committed results of
//! `informer new`, which `cargo xtask scaffold` builds and tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The name of each project in `examples/scaffold`, and the arguments of `informer new` that generate it.
const GOLDEN: [(&str, &[&str]); 2] = [
    ("minimal", &[]),
    (
        "complete",
        &[
            "--kind=Shop",
            "--group=shop.example.com",
            "--version=v1beta1",
            "--plural=shops",
            "--cluster",
            "--webhook",
            "--leader-election",
            "--network-policy",
            "--pdb",
            "--service-monitor",
        ],
    ),
];

/// The environment variable that makes the test replace the projects in `examples/scaffold` with newly
/// generated ones.
const UPDATE: &str = "UPDATE_SCAFFOLD";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn informer(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_informer")).args(arguments).current_dir(folder).output().unwrap()
}

#[track_caller]
fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let output = informer(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn fail(folder: &Path, arguments: &[&str]) -> String {
    let output = informer(folder, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

/// Returns the files of a project by their paths, except `target` and `Cargo.lock`, which builds of the
/// project create.
fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_owned();
            match path.is_dir() {
                _ if [Path::new("target"), Path::new("Cargo.lock")].contains(&name.as_path()) => {}
                true => folders.push(path),
                false => drop(found.insert(name, fs::read_to_string(&path).unwrap().replace("\r\n", "\n"))),
            }
        }
    }
    found
}

/// Creates a folder with the layout of this repository, in which `examples/scaffold` is empty. Projects that
/// are generated there refer to the repository by the same relative path as the committed ones.
fn repository() -> (TempDir, PathBuf) {
    let repository = TempDir::new().unwrap();
    let projects = repository.path().join("examples/scaffold");
    fs::create_dir_all(repository.path().join("crates/informer")).unwrap();
    fs::write(repository.path().join("crates/informer/Cargo.toml"), "").unwrap();
    fs::create_dir_all(&projects).unwrap();
    (repository, projects)
}

#[test]
fn new_projects_equal_the_committed_ones() {
    let (_repository, projects) = repository();
    for (name, arguments) in GOLDEN {
        let arguments = [&["new", name, "--path", "../.."], arguments].concat();
        let printed = succeed(&projects, &arguments);
        assert!(printed.ends_with(&format!("next: cd {name} && cargo test\n")), "{printed}");
        let (created, committed) = (projects.join(name), root().join("examples/scaffold").join(name));
        let created = files(&created);
        if std::env::var_os(UPDATE).is_some() {
            let _ = fs::remove_dir_all(&committed);
            for (path, content) in &created {
                fs::create_dir_all(committed.join(path).parent().unwrap()).unwrap();
                fs::write(committed.join(path), content).unwrap();
            }
        }
        let committed = files(&committed);
        let paths: BTreeSet<_> = created.keys().chain(committed.keys()).collect();
        for path in paths {
            let (new, old) = (created.get(path), committed.get(path));
            let text = |content: Option<&String>| content.cloned().unwrap_or_default();
            let path = path.display();
            assert!(
                new == old,
                "{name}/{path} differs from the committed file; if that is intended, set {UPDATE}=1:\n{}",
                diffy::create_patch(&text(old), &text(new))
            );
        }
    }
}

/// A part of a project in the table of `docs/side-by-side.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Program,
    Tests,
    Manifests,
    Build,
    Monitoring,
    Generated,
}

/// A number of files, and of their lines.
#[derive(Debug, Default)]
struct Count {
    files: usize,
    lines: usize,
}

fn part(path: &Path, content: &str) -> Part {
    let is_generated =
        content.starts_with("# Generated from ") || content.contains("kind: CustomResourceDefinition");
    match path.iter().next().and_then(|folder| folder.to_str()) {
        Some("src") => Part::Program,
        Some("tests") => Part::Tests,
        Some("config" | "charts") if is_generated => Part::Generated,
        Some("config" | "charts") => Part::Manifests,
        Some("dashboards") => Part::Monitoring,
        _ => Part::Build,
    }
}

/// Returns the lines that are neither empty nor only a comment.
fn counted_lines<'a>(path: &Path, content: &'a str) -> Vec<&'a str> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let comment = match extension {
        "rs" => Some("//"),
        "tpl" => Some("{{/*"),
        "md" | "json" => None,
        _ => Some("#"),
    };
    let is_comment = |line: &str| comment.is_some_and(|comment| line.starts_with(comment));
    content.lines().map(str::trim).filter(|line| !line.is_empty() && !is_comment(line)).collect()
}

/// Counts the files and lines of a project. Code after `#[cfg(test)]` counts as lines of tests.
fn counts(project: &BTreeMap<PathBuf, String>) -> BTreeMap<Part, Count> {
    let mut counts: BTreeMap<Part, Count> = BTreeMap::new();
    for (path, content) in project {
        let lines = counted_lines(path, content);
        let program = lines.iter().position(|line| *line == "#[cfg(test)]").unwrap_or(lines.len());
        let part = part(path, content);
        let count = counts.entry(part).or_default();
        (count.files, count.lines) = (count.files + 1, count.lines + program);
        counts.entry(Part::Tests).or_default().lines += lines.len() - program;
    }
    counts
}

/// Returns a number with a comma between thousands.
fn shown(number: usize) -> String {
    if number < 1000 { number.to_string() } else { format!("{},{:03}", number / 1000, number % 1000) }
}

#[test]
fn counts_in_side_by_side_equal_those_of_the_committed_projects() {
    let document = fs::read_to_string(root().join("docs/side-by-side.md")).unwrap();
    let text = document.split_whitespace().collect::<Vec<_>>().join(" ");
    let project = |name: &str| files(&root().join("examples/scaffold").join(name));
    let sum = |counts: &BTreeMap<Part, Count>| {
        let counted = counts.iter().filter(|(part, _)| **part < Part::Monitoring);
        counted.fold(Count::default(), |sum, (_, Count { files, lines })| Count {
            files: sum.files + files,
            lines: sum.lines + lines,
        })
    };
    let minimal = project("minimal");
    let controller = Path::new("src/controllers/website.rs");
    let controller = counts(&BTreeMap::from([(controller.to_owned(), minimal[controller].clone())]));
    let (minimal, complete) = (counts(&minimal), counts(&project("complete")));
    let row =
        |name: &str, Count { files, lines }: &Count| format!("| {name} | {files} | {} |", shown(*lines));
    let with = |Count { files, lines }: &Count| format!("{files} files with {} lines", shown(*lines));
    for expected in [
        row("program", &minimal[&Part::Program]),
        row("of these, the reconcile function and its helpers", &controller[&Part::Program]),
        row("tests on the test server", &minimal[&Part::Tests]),
        row("manifests", &minimal[&Part::Manifests]),
        row("build, CI, documents", &minimal[&Part::Build]),
        row("sum", &sum(&minimal)),
        format!("not counted either: {}.", with(&minimal[&Part::Monitoring])),
        format!("informer writes {} (`examples/scaffold/complete`)", with(&sum(&complete))),
    ] {
        assert!(text.contains(&expected), "docs/side-by-side.md is stale; write: {expected}");
    }
}

#[test]
fn dashboard_and_alerts_equal_those_of_the_documentation() {
    for name in ["alerts.yaml", "dashboard.json"] {
        let documented = fs::read_to_string(root().join("docs/monitoring").join(name)).unwrap();
        let template = fs::read_to_string(root().join("crates/informer-cli/templates/monitoring").join(name));
        assert!(documented == template.unwrap(), "copy docs/monitoring/{name} to the templates");
    }
}

#[test]
fn rejected_project_writes_nothing() {
    let (_repository, projects) = repository();
    fs::create_dir(projects.join("used")).unwrap();
    fs::write(projects.join("used/notes.txt"), "keep").unwrap();
    fs::write(projects.join("file"), "keep").unwrap();
    let before = files(&projects);
    for (arguments, parts) in [
        (&["used"] as &[&str], ["create project used: the folder is not empty", "choose another name"]),
        (&["file"], ["create project file: a file has this name", "choose another name"]),
        (&["Shop"], ["create project Shop: the name is not a DNS-1035 label", "website-operator"]),
        (&["shop", "--kind=shop"], ["define kind shop: ", "such as Website"]),
        (&["shop", "--group=example"], ["the group example is not a domain name", "shop.example.com"]),
        (&["shop", "--version=1"], ["1 is not a version", "such as v1"]),
        (&["shop", "--path=missing"], ["missing is not a checkout", "crates/informer"]),
    ] {
        let error = fail(&projects, &[&["new"], arguments].concat());
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        assert_eq!(files(&projects), before);
    }
    fs::create_dir(projects.join("empty")).unwrap();
    succeed(&projects, &["new", "empty"]);
    let manifest = fs::read_to_string(projects.join("empty/Cargo.toml")).unwrap();
    assert!(manifest.contains(concat!("version = \"", env!("CARGO_PKG_VERSION"), "\"")), "{manifest}");
}

#[test]
fn added_kind_and_webhooks_are_part_of_the_project() {
    let (_repository, projects) = repository();
    succeed(&projects, &["new", "operator", "--path", "../.."]);
    let project = projects.join("operator");
    // Simulate a user who edits `main.rs`. `informer add` must keep the added line.
    let main = project.join("src/main.rs");
    let text = fs::read_to_string(&main).unwrap();
    fs::write(&main, text.replace("    manager.run_until", "    // Last.\n    manager.run_until")).unwrap();

    let printed = succeed(&project.join("src"), &["add", "kind", "HTTPRoute", "--cluster"]);
    assert!(printed.contains("created src/api/http_route.rs\n"), "{printed}");
    assert!(printed.contains("edited src/controllers.rs\n"), "{printed}");
    for kind in ["Website", "HTTPRoute"] {
        succeed(&project, &["add", "webhook", kind]);
    }
    let read = |path: &str| fs::read_to_string(project.join(path)).unwrap();
    for (path, parts) in [
        ("Cargo.toml", &["\"schema\", \"webhook\""] as &[&str]),
        ("src/api.rs", &["pub mod http_route;", "http_route::crd()"]),
        ("src/api/http_route.rs", &["group = \"example.com\"", "pub namespace: String"]),
        ("src/controllers.rs", &[".controller(http_route::controller())"]),
        ("src/lib.rs", &["pub mod webhooks;"]),
        (
            "src/main.rs",
            &["let manager = operator::webhooks::add_to(manager, &settings.webhooks);", "// Last."],
        ),
        ("src/settings.rs", &["pub webhooks: operator::webhooks::WebhookSettings,"]),
        ("src/webhooks.rs", &["pub mod http_route;", ".validate(http_route::validate)"]),
        ("config/crd/kustomization.yaml", &["- websites.yaml\n- httproutes.yaml\n"]),
        ("config/rbac/kustomization.yaml", &["- website_role.yaml\n- http_route_role.yaml\n"]),
        ("config/default/kustomization.yaml", &["- ../webhook\npatches:\n- path: webhook_deployment.yaml\n"]),
        ("config/webhook/kustomization.yaml", &["- websites.yaml\n- httproutes.yaml\n"]),
        ("config/webhook/httproutes.yaml", &["/mutate-example-com-v1-httproute", "operator-system"]),
        ("tests/manifests.rs", &[".webhooks(operator::webhooks::registered())"]),
        ("charts/operator/values.yaml", &["  enabled: true\n"]),
    ] {
        let content = read(path);
        assert!(parts.iter().all(|part| content.contains(part)), "{path}: {content}");
    }
}

#[test]
fn added_controllers_are_registered_and_have_roles() {
    let (_repository, projects) = repository();
    succeed(&projects, &["new", "operator", "--path", "../.."]);
    let project = projects.join("operator");
    succeed(&project, &["add", "controller", "audit", "--for", "CronJob"]);
    let printed = succeed(&project, &["add", "controller", "mark-sites", "--for", "Website"]);
    assert!(printed.contains("created charts/operator/templates/mark_sites_role.yaml\n"), "{printed}");
    let read = |path: &str| fs::read_to_string(project.join(path)).unwrap();
    for (path, parts) in [
        ("src/controllers.rs", &[".controller(audit::controller())", "pub mod mark_sites;"] as &[&str]),
        ("src/controllers/audit.rs", &["use informer::k8s_openapi::api::batch::v1::CronJob;"]),
        ("src/controllers/mark_sites.rs", &["use crate::api::website::Website;", "example.com/mark-sites"]),
        ("config/samples/audit.yaml", &["apiVersion: batch/v1\nkind: CronJob\n", "  jobTemplate:\n"]),
        ("config/rbac/audit_role.yaml", &["- apiGroups: [batch]\n  resources: [cronjobs]\n"]),
        ("config/rbac/kustomization.yaml", &["- audit_role.yaml\n- mark_sites_role.yaml\n"]),
        ("tests/mark_sites.rs", &["cluster::start(&[\"websites\"], &[ROLE])", "samples/website.yaml"]),
    ] {
        let content = read(path);
        assert!(parts.iter().all(|part| content.contains(part)), "{path}: {content}");
    }
}

#[test]
fn added_versions_have_conversions_and_a_webhook_server() {
    let (_repository, projects) = repository();
    succeed(&projects, &["new", "operator", "--path", "../.."]);
    let project = projects.join("operator");
    let printed = succeed(&project, &["add", "version", "v2", "--kind", "Website"]);
    assert!(printed.ends_with("next: informer manifests && cargo test\n"), "{printed}");
    succeed(&project, &["add", "version", "v3alpha1", "--kind", "Website"]);
    succeed(&project, &["add", "webhook", "Website"]);
    let read = |path: &str| fs::read_to_string(project.join(path)).unwrap();
    for (path, parts) in [
        ("src/api.rs", &["vec![website_versions::crd()]", "pub mod website_v3alpha1;"] as &[&str]),
        ("src/api/website_v2.rs", &["of `example.com/v2`", "version = \"v2\"", "pub fn from_hub"]),
        (
            "src/api/website_versions.rs",
            &["const STORED: &str = \"v1\";", "super::website_v3alpha1::crd()", "website_v2::to_hub"],
        ),
        ("src/webhooks.rs", &["pub mod website;", ".convert(crate::api::conversions())", ".validate("]),
        ("config/webhook/kustomization.yaml", &["- service.yaml\n- websites.yaml\n"]),
        ("tests/website_v2.rs", &["load(&server, \"config/crd/websites.yaml\")"]),
    ] {
        let content = read(path);
        assert!(parts.iter().all(|part| content.contains(part)), "{path}: {content}");
    }
}

#[test]
fn failed_addition_writes_nothing() {
    let (_repository, projects) = repository();
    let error = fail(&projects, &["add", "kind", "Shop"]);
    assert!(error.contains("the folder is not in a project of `informer new`"), "{error}");
    succeed(&projects, &["new", "operator", "--path", "../.."]);
    let project = projects.join("operator");
    fs::write(project.join("src/controllers.rs"), "pub fn other() {}\n").unwrap();
    let before = files(&project);
    for (arguments, parts) in [
        (&["kind", "Shop"] as &[&str], ["edit src/controllers.rs: there is no function add_to", "by hand"]),
        (&["kind", "Website"], ["/crds/websites.yaml: the file exists", "choose another name"]),
        (&["kind", "shop"], ["define kind shop: ", "such as Website"]),
        (
            &["webhook", "Shop"],
            ["add webhooks of Shop: src/api/shop.rs does not exist", "informer add kind Shop"],
        ),
        (
            &["controller", "audit", "--for", "Widget"],
            ["add controller audit: Widget is neither a kind of the project", "informer add kind Widget"],
        ),
        (
            &["controller", "Audit", "--for", "Pod"],
            ["add controller Audit: the name is not", "such as audit"],
        ),
        (
            &["version", "v1", "--kind", "Website"],
            ["add version v1 of Website: the kind already has it", "choose another version"],
        ),
        (&["version", "2", "--kind", "Website"], ["2 is not a version", "such as v1"]),
        (&["version", "v2", "--kind", "Shop"], ["add a version of Shop: ", "informer add kind Shop"]),
    ] {
        let error = fail(&project, &[&["add"], arguments].concat());
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        assert_eq!(files(&project), before);
    }
}

#[test]
fn cargo_informer_runs_informer() {
    let program = env!("CARGO_BIN_EXE_cargo-informer");
    for arguments in [&["informer", "--version"] as &[&str], &["--version"]] {
        let output = Command::new(program).args(arguments).output().unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            concat!("informer ", env!("CARGO_PKG_VERSION"), "\n")
        );
    }
    let output = Command::new(program).args(["informer", "frobnicate"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
