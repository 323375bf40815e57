//! The layers of a crate: a module may use only modules of lower layers.

use std::collections::BTreeSet;
use std::path::Path;

use super::Source;
use crate::report::Report;

/// The top-level modules of the API server, from the lowest layer to the highest.
const APISERVER: [&str; 13] = [
    "model",
    "clock",
    "tls",
    "webhook",
    "registry",
    "auth",
    "admission",
    "pipeline",
    "controllers",
    "requests",
    "faults",
    "http",
    "server",
];

/// Modules outside the layers. Other modules may not use them.
const FREE: [&str; 1] = ["port"];

/// The crates with layers, by their source folder.
const CRATES: [(&str, &[&str]); 1] = [("crates/informer-apiserver/src/", &APISERVER)];

pub(super) fn check(root: &Path, sources: &[Source], report: &mut Report) {
    for (folder, layers) in CRATES {
        let mut edges = BTreeSet::new();
        for source in sources {
            let name = source.name(root);
            let Some(path) = name.strip_prefix(folder) else { continue };
            check_file(&name, path, &source.text, layers, &mut edges, report);
        }
        report.figure(format!("edges between layers below {folder}"), edges.len() as f64);
    }
}

fn check_file(
    name: &str,
    path: &str,
    text: &str,
    layers: &[&str],
    edges: &mut BTreeSet<(String, String)>,
    report: &mut Report,
) {
    let module = path.split('/').next().unwrap_or_default().trim_end_matches(".rs");
    if module == "lib" {
        return;
    }
    let Some(height) = height(layers, module) else {
        if !FREE.contains(&module) {
            report.problems.push(format!("{name}: module {module} has no layer; add it to {}", file!()));
        }
        return;
    };
    for used in used_modules(text).filter(|used| *used != module) {
        match self::height(layers, used) {
            Some(below) if below < height => drop(edges.insert((module.to_owned(), used.to_owned()))),
            Some(_) => report.problems.push(format!("{name}: layer {module} must not use {used} above it")),
            None if FREE.contains(&used) => {
                report.problems.push(format!("{name}: layer {module} must not use {used}"));
            }
            // Not a module: an item that lib.rs exports.
            None => {}
        }
    }
}

fn height(layers: &[&str], module: &str) -> Option<usize> {
    layers.iter().position(|layer| *layer == module)
}

/// Returns the names that follow `crate::`, including those in braces. Comments and the unit tests at the end
/// are skipped.
fn used_modules(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| line.split("crate::").skip(1)).flat_map(|rest| {
        let group = rest.strip_prefix('{').and_then(|rest| rest.split('}').next());
        let paths = group.map_or_else(|| vec![rest], |group| group.split(',').collect());
        paths.into_iter().map(|path| {
            let path = path.trim_start();
            let end = path.find(|sign: char| !sign.is_alphanumeric() && sign != '_').unwrap_or(path.len());
            &path[..end]
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{check_file, used_modules};
    use crate::report::Report;

    fn problems(path: &str, text: &str) -> Vec<String> {
        let mut report = Report::new("layers");
        check_file(path, path, text, &["low", "middle", "high"], &mut BTreeSet::new(), &mut report);
        report.problems
    }

    #[test]
    fn use_of_a_higher_layer_is_reported() {
        assert_eq!(problems("middle/part.rs", "use crate::low::Thing;"), [""; 0]);
        let upward = problems("low.rs", "use crate::{low::a, high::Thing};");
        assert_eq!(upward, ["low.rs: layer low must not use high above it"]);
        assert_eq!(
            problems("middle.rs", "    crate::high::run()"),
            ["middle.rs: layer middle must not use high above it"]
        );
    }

    #[test]
    fn module_without_a_layer_is_reported() {
        assert_eq!(problems("other.rs", "").len(), 1);
    }

    #[test]
    fn comments_and_unit_tests_are_not_checked() {
        let text = "// crate::high\nuse crate::low::A;\n#[cfg(test)]\nmod tests {\n use crate::high::B;\n}";
        assert_eq!(used_modules(text).collect::<Vec<_>>(), ["low"]);
    }
}
