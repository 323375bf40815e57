use std::path::Path;

use crate::report::Report;

/// The crates of this workspace on which each crate may depend, and the external crates on which it must not
/// depend; see ARCHITECTURE.md.
const RULES: [(&str, &[&str], &[&str]); 13] = [
    ("informer-core", &[], &["tokio", "hyper", "http", "kube-core", "kube-client", "k8s-openapi", "serde"]),
    ("informer-workqueue", &[], &["hyper", "http", "kube-core", "kube-client", "k8s-openapi"]),
    ("informer-http", &[], &["kube-core", "kube-client", "kube-runtime", "k8s-openapi", "serde"]),
    ("informer-report", &[], &["tokio", "hyper", "http", "kube-core", "kube-client", "k8s-openapi"]),
    (
        "informer-schema",
        &["informer-core"],
        &["tokio", "hyper", "http", "kube-core", "kube-client", "kube-runtime"],
    ),
    (
        "informer-store",
        &["informer-core"],
        &["tokio", "hyper", "http", "kube-core", "kube-client", "k8s-openapi"],
    ),
    (
        "informer-cache",
        &["informer-core", "informer-store"],
        &["hyper", "http", "kube-core", "kube-client", "k8s-openapi"],
    ),
    (
        "informer-control",
        &["informer-core", "informer-cache", "informer-workqueue"],
        &["tokio", "hyper", "http", "kube-core", "kube-client", "k8s-openapi"],
    ),
    (
        "informer-client",
        &["informer-core", "informer-schema", "informer-store", "informer-cache"],
        &["kube-runtime"],
    ),
    (
        "informer-apiserver",
        &["informer-core", "informer-schema", "informer-workqueue", "informer-http"],
        &["kube-core", "kube-client", "k8s-openapi"],
    ),
    (
        "informer-runtime",
        &[
            "informer-core",
            "informer-store",
            "informer-cache",
            "informer-client",
            "informer-control",
            "informer-workqueue",
            "informer-http",
        ],
        &["kube-runtime"],
    ),
    (
        "informer",
        &[
            "informer-core",
            "informer-store",
            "informer-cache",
            "informer-client",
            "informer-workqueue",
            "informer-runtime",
            "informer-apiserver",
        ],
        &["kube-runtime"],
    ),
    (
        "informer-cli",
        &["informer", "informer-apiserver", "informer-http", "informer-report"],
        &["kube-runtime"],
    ),
];

pub(super) fn check(root: &Path, report: &mut Report) {
    for (name, ours, absent) in RULES {
        let path = root.join("crates").join(name).join("Cargo.toml");
        match std::fs::read_to_string(&path) {
            Ok(manifest) => check_crate(name, &manifest, (ours, absent), report),
            Err(error) => report.problems.push(format!("cannot read {}: {error}", path.display())),
        }
    }
}

fn check_crate(name: &str, manifest: &str, (ours, absent): (&[&str], &[&str]), report: &mut Report) {
    for dependency in dependencies(manifest) {
        if dependency.starts_with("informer") && !ours.contains(&dependency) {
            report.problems.push(format!("{name} must not depend on {dependency}"));
        }
        if absent.contains(&dependency) {
            report.problems.push(format!("{name} must not depend on {dependency}"));
        }
    }
}

/// Returns the names of the dependencies in a crate's manifest. Recognizes `NAME = ..` and `NAME.KEY = ..` at
/// the start of a line, and the table `[dependencies.NAME]`. Omits `[dev-dependencies]`, which are not
/// restricted, and `[build-dependencies]`.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let mut listed = false;
    manifest.lines().filter_map(move |line| {
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            listed =
                table == "dependencies" || table.starts_with("target.") && table.ends_with(".dependencies");
            return table.strip_prefix("dependencies.");
        }
        let name = line.split(['.', '=', ' ']).next()?.trim();
        (listed && !name.is_empty() && !name.starts_with('#')).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::dependencies;

    #[test]
    fn dependencies_are_found_in_any_notation() {
        let manifest = "[package]\nname = \"x\"\n\n[dependencies]\na.workspace = true\n# b = 1\nc = \"1\"\n\n[dependencies.d]\nversion = \"1\"\n\n\
            [target.'cfg(unix)'.dependencies]\ne = \"1\"\n\n[dev-dependencies]\nf = \"1\"\n";
        assert_eq!(dependencies(manifest).collect::<Vec<_>>(), ["a", "c", "d", "e"]);
    }
}
