//! The layers of a crate: a module may use only modules of lower layers.
//!
//! In every crate below `crates/` the top-level modules must be free of cycles, and so must the modules in
//! each layer of `informer-apiserver`, which also has a fixed order of layers. Its lowest layer, `model`,
//! uses neither the runtime nor locks.

use std::collections::{BTreeMap, BTreeSet};
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

/// Modules of the API server outside the layers. Modules with a layer may not use them.
const FREE: [&str; 1] = ["port"];

/// The crates with a fixed order of layers: the source folder, and the layers from the lowest to the highest.
const CRATES: [(&str, &[&str]); 1] = [("crates/informer-apiserver/src/", &APISERVER)];

/// The layer of the API server without tasks and locks.
const PURE: &str = "model";
/// Crates that the pure layer must not use.
const IMPURE_CRATES: [&str; 2] = ["tokio", "parking_lot"];
/// Items of `std::sync` that the pure layer must not use.
const LOCKS: [&str; 2] = ["Mutex", "RwLock"];

pub(super) fn check(root: &Path, sources: &[Source], report: &mut Report) {
    check_cycles(root, sources, report);
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

/// Reports modules of one folder that use each other directly or indirectly: the top-level modules of each
/// crate, and the modules of each layer of the API server.
fn check_cycles(root: &Path, sources: &[Source], report: &mut Report) {
    let mut folders: BTreeMap<String, Vec<(String, &str)>> = BTreeMap::new();
    let mut add = |folder: String, path: &str, text| {
        folders.entry(folder).or_default().push((path.to_owned(), text));
    };
    for source in sources {
        let name = source.name(root);
        if let Some((folder, path)) = name.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/")) {
            add(format!("crates/{folder}/src/"), path, source.text.as_str());
        }
        let (crate_folder, _) = CRATES[0];
        let inner = name.strip_prefix(crate_folder).and_then(|path| path.split_once('/'));
        if let Some((layer, path)) = inner.filter(|(layer, _)| APISERVER.contains(layer)) {
            add(format!("{crate_folder}{layer}/"), path, source.text.as_str());
        }
    }
    for (folder, files) in &folders {
        let graph = module_graph(inner_module(folder), files);
        for module in graph.keys().filter(|module| reaches(&graph, module, module)) {
            report.problems.push(format!("{folder}: module {module} uses itself through other modules"));
        }
    }
}

/// Returns the module whose files a folder contains, such as `http` for
/// `crates/informer-apiserver/src/http/`. Returns `None` for a folder `src/`.
fn inner_module(folder: &str) -> Option<&str> {
    let (_, module) = folder.trim_end_matches('/').rsplit_once("/src/")?;
    Some(module)
}

/// Returns the modules that each module of a folder uses. `files` has the path of each file in the folder and
/// its text. `inside` is the module whose files the folder contains, and `None` for the top-level modules of
/// a crate. An item that the crate root exports counts for the module that declares it.
fn module_graph(inside: Option<&str>, files: &[(String, &str)]) -> BTreeMap<String, BTreeSet<String>> {
    let top = |path: &str| path.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
    let is_root = |module: &str| inside.is_none() && matches!(module, "lib" | "main");
    let modules: BTreeSet<String> =
        files.iter().map(|(path, _)| top(path)).filter(|module| !is_root(module)).collect();
    let exports: BTreeMap<&str, &str> = files
        .iter()
        .filter(|(path, _)| is_root(&top(path)))
        .flat_map(|(_, text)| root_exports(text))
        .collect();
    let absolute = inside.map_or_else(|| "crate::".to_owned(), |inside| format!("crate::{inside}::"));
    let mut graph = BTreeMap::new();
    for (path, text) in files {
        let module = top(path);
        if is_root(&module) || path.ends_with("/tests.rs") || path.contains("/tests/") {
            continue;
        }
        let relative = "super::".repeat(path.split('/').count());
        let prefixes = if inside.is_some() { vec![&*absolute, &*relative] } else { vec![&*absolute] };
        let used: &mut BTreeSet<String> = graph.entry(module.clone()).or_default();
        for name in prefixes.into_iter().flat_map(|prefix| used_modules(text, prefix)) {
            let declared_in = exports.get(name).copied().filter(|_| !modules.contains(name)).unwrap_or(name);
            if modules.contains(declared_in) && declared_in != module {
                used.insert(declared_in.to_owned());
            }
        }
    }
    graph
}

/// Returns the items that the `use` declarations of a crate root re-export, each with its top-level module.
fn root_exports(text: &str) -> Vec<(&str, &str)> {
    let mut exports = Vec::new();
    for statement in text.split(';') {
        let Some((_, path)) = statement.rsplit_once("use ") else { continue };
        let Some((module, items)) = path.split_once("::") else { continue };
        let names = items.split(|sign: char| !sign.is_alphanumeric() && sign != '_');
        exports.extend(names.filter(|name| !name.is_empty()).map(|name| (name, module.trim())));
    }
    exports
}

fn reaches(graph: &BTreeMap<String, BTreeSet<String>>, from: &str, to: &str) -> bool {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        for used in graph.get(module).into_iter().flatten() {
            if used == to {
                return true;
            }
            if seen.insert(used) {
                open.push(used);
            }
        }
    }
    false
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
    if module == PURE {
        check_pure(name, text, report);
    }
    let Some(height) = height(layers, module) else {
        if !FREE.contains(&module) {
            report.problems.push(format!("{name}: module {module} has no layer; add it to {}", file!()));
        }
        return;
    };
    for used in used_modules(text, "crate::").into_iter().filter(|used| *used != module) {
        match self::height(layers, used) {
            Some(below) if below < height => drop(edges.insert((module.to_owned(), used.to_owned()))),
            Some(_) => report.problems.push(format!("{name}: layer {module} must not use {used} above it")),
            None if FREE.contains(&used) => {
                report.problems.push(format!("{name}: layer {module} must not use {used}"));
            }
            // The name after `crate::` is not a module but an item that lib.rs exports, which has no layer.
            None => {}
        }
    }
}

/// Reports uses of the runtime and of locks in a file of the pure layer.
fn check_pure(name: &str, text: &str, report: &mut Report) {
    let crates = IMPURE_CRATES.into_iter().filter(|name| uses_crate(text, name)).map(str::to_owned);
    let locks = used_modules(text, "std::sync::").into_iter().filter(|item| LOCKS.contains(item));
    for used in crates.chain(locks.map(|lock| format!("std::sync::{lock}"))) {
        report.problems.push(format!("{name}: layer {PURE} must not use {used}"));
    }
}

fn uses_crate(text: &str, name: &str) -> bool {
    let code = code_of(text);
    let mut uses = code.match_indices(name).filter(|(at, _)| !is_in_comment(code, *at));
    uses.any(|(at, _)| {
        let is_part_of_name = |sign: char| sign.is_alphanumeric() || sign == '_';
        let rest = &code[at + name.len()..];
        !code[..at].ends_with(is_part_of_name) && (rest.starts_with("::") || rest.starts_with(';'))
    })
}

fn height(layers: &[&str], module: &str) -> Option<usize> {
    layers.iter().position(|layer| *layer == module)
}

/// Returns the names that follow `prefix`, such as `crate::`, in the text of a source file, including those
/// in braces, which may span lines. Comments and the unit tests at the end are skipped.
fn used_modules<'t>(text: &'t str, prefix: &str) -> Vec<&'t str> {
    let code = code_of(text);
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix).filter(|(at, _)| !is_in_comment(code, *at)) {
        let rest = &code[at + prefix.len()..];
        let paths = rest.strip_prefix('{').map_or_else(|| vec![rest], group_paths);
        names.extend(paths.into_iter().map(first_name).filter(|name| !name.is_empty()));
    }
    names
}

/// Returns the text of a source file without the unit tests at its end.
fn code_of(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// Returns true if the line of this position is a comment.
fn is_in_comment(code: &str, at: usize) -> bool {
    let line = code[..at].rfind('\n').map_or(0, |end| end + 1);
    code[line..].trim_start().starts_with("//")
}

/// Returns the paths of a `use` group. `group` is the text after its opening brace. Nested groups belong to
/// the path before them.
fn group_paths(group: &str) -> Vec<&str> {
    let (mut paths, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, sign) in group.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' if depth == 0 => {
                paths.push(&group[start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                paths.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    paths
}

fn first_name(path: &str) -> &str {
    let path = path.trim_start();
    let end = path.find(|sign: char| !sign.is_alphanumeric() && sign != '_').unwrap_or(path.len());
    &path[..end]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{check_file, inner_module, module_graph, reaches, used_modules};
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
    fn use_groups_may_span_lines_and_nest() {
        let text =
            "use crate::{\n    low::{A, B},\n    high::{\n        C,\n    },\n    middle,\n};\nuse std::fmt;";
        assert_eq!(used_modules(text, "crate::"), ["low", "high", "middle"]);
        assert_eq!(problems("low.rs", text).len(), 2);
    }

    #[test]
    fn pure_layer_uses_neither_the_runtime_nor_locks() {
        let check = |text: &str| {
            let mut report = Report::new("layers");
            check_file("model/a.rs", "model/a.rs", text, &["model"], &mut BTreeSet::new(), &mut report);
            report.problems
        };
        let pure = "// tokio::spawn\nuse std::sync::{Arc, LazyLock};\nstruct Mutex;\nuse my_tokio::A;";
        assert_eq!(check(pure), [""; 0]);
        let impure =
            "use std::sync::{\n    Arc,\n    Mutex,\n};\nfn a(_: parking_lot::RwLock<()>) {}\nuse tokio;";
        assert_eq!(
            check(impure),
            [
                "model/a.rs: layer model must not use tokio",
                "model/a.rs: layer model must not use parking_lot",
                "model/a.rs: layer model must not use std::sync::Mutex",
            ]
        );
        assert_eq!(check("static A: std::sync::RwLock<()> = todo!();").len(), 1);
    }

    #[test]
    fn cycle_through_an_item_of_the_crate_root_is_found() {
        let files = [
            ("lib.rs".to_owned(), "mod low;\nmod high;\npub use low::{Low, Other};\npub use high::High;"),
            ("low.rs".to_owned(), "use crate::High;"),
            ("high/part.rs".to_owned(), "use crate::Low;"),
            ("high/tests.rs".to_owned(), "use crate::free::Item;"),
            ("free.rs".to_owned(), "use crate::high::part;"),
        ];
        let graph = module_graph(None, &files);
        assert!(reaches(&graph, "low", "low") && reaches(&graph, "high", "high"));
        assert!(reaches(&graph, "free", "low") && !reaches(&graph, "free", "free"));
    }

    #[test]
    fn cycle_within_a_layer_is_found() {
        let files = [
            ("one.rs".to_owned(), "use super::two::part;\nuse crate::two::Item;"),
            ("two/part.rs".to_owned(), "use super::super::three;\nuse super::one;"),
            ("three.rs".to_owned(), "use crate::http::{Item, one};"),
            ("four.rs".to_owned(), "use crate::http::one;"),
        ];
        let graph = module_graph(inner_module("crates/server/src/http/"), &files);
        assert!(["one", "two", "three"].iter().all(|module| reaches(&graph, module, module)));
        assert!(!reaches(&graph, "four", "four"));
        assert_eq!(inner_module("crates/server/src/"), None);
    }

    #[test]
    fn module_without_a_layer_is_reported() {
        assert_eq!(problems("other.rs", "").len(), 1);
    }

    #[test]
    fn comments_and_unit_tests_are_not_checked() {
        let text = "// crate::high\nuse crate::low::A;\n#[cfg(test)]\nmod tests {\n use crate::high::B;\n}";
        assert_eq!(used_modules(text, "crate::"), ["low"]);
    }
}
