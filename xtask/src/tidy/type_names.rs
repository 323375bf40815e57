//! Checks the names of types, also of private ones. A type may not have a name from the list of vague names,
//! and within one crate below `crates/` no two types have the same name.

use std::collections::BTreeMap;
use std::path::Path;

use syn::{Ident, Item};

use super::Source;
use super::names::is_cfg_test;
use crate::report::Report;

/// The list of vague names, one per line; lines that begin with `#` are comments.
const VAGUE: &str = include_str!("type_names.txt");

/// Types, each with its crate, that are declared several times: once for each configuration of the crate,
/// which is a feature or an operating system.
const CONFIGURED: [(&str, &str); 4] = [
    ("informer-apiserver", "Declared"),
    ("informer-apiserver", "Expression"),
    ("informer-apiserver", "Run"),
    ("informer-runtime", "Signals"),
];

pub(super) fn check(root: &Path, sources: &[Source], report: &mut Report) {
    let vague: Vec<&str> = VAGUE.lines().filter(|line| !line.starts_with('#')).collect();
    let mut declared: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for source in sources {
        let file = source.name(root);
        // Files that cannot be parsed are skipped, because the check `real_time` reports them.
        let Ok(parsed) = syn::parse_file(&source.text) else { continue };
        let mut types = Vec::new();
        collect(&parsed.items, &mut types);
        for Type { name, is_alias } in types {
            if vague.contains(&&*name) {
                report.problems.push(format!("{file}: {name} says nothing about the type"));
            }
            if let Some(krate) = crate_of(&file)
                && !is_alias
                && !CONFIGURED.contains(&(krate, &*name))
            {
                declared.entry((krate.to_owned(), name)).or_default().push(file.clone());
            }
        }
    }
    for ((krate, name), files) in declared.iter().filter(|(_, files)| files.len() > 1) {
        report.problems.push(format!("{krate} has several types {name}: {}", files.join(", ")));
    }
}

/// Returns the crate below `crates/` to which a source file belongs; `None` for its tests.
fn crate_of(file: &str) -> Option<&str> {
    let (krate, path) = file.strip_prefix("crates/")?.split_once("/src/")?;
    let is_test = path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "fixture.rs"));
    (!is_test).then_some(krate)
}

struct Type {
    name: String,
    /// True for a type alias. An alias may be declared in several modules, because it introduces no type.
    is_alias: bool,
}

/// Collects the types and traits of a file, without those of its unit tests and of function bodies.
fn collect(items: &[Item], types: &mut Vec<Type>) {
    let mut add = |name: &Ident, is_alias| types.push(Type { name: name.to_string(), is_alias });
    for item in items {
        match item {
            Item::Struct(item) => add(&item.ident, false),
            Item::Enum(item) => add(&item.ident, false),
            Item::Trait(item) => add(&item.ident, false),
            Item::Type(item) => add(&item.ident, true),
            _ => {}
        }
    }
    for item in items {
        if let Item::Mod(module) = item
            && !module.attrs.iter().any(is_cfg_test)
            && let Some((_, items)) = &module.content
        {
            collect(items, types);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let root = Path::new("/root");
        let source = |&(path, text): &(&str, &str)| Source { path: root.join(path), text: text.to_owned() };
        let mut report = Report::new("tidy");
        check(root, &files.iter().map(source).collect::<Vec<_>>(), &mut report);
        report.problems
    }

    #[test]
    fn vague_name_of_a_private_type_is_a_problem() {
        let found = problems(&[("examples/a.rs", "mod inner { enum Found { Seen } }\nstruct Seeing;")]);
        assert_eq!(found, ["examples/a.rs: Found says nothing about the type"]);
    }

    #[test]
    fn types_of_one_name_in_one_crate_are_a_problem() {
        let files = [
            (
                "crates/a/src/one.rs",
                "struct Part;\ntype Object = u8;\n#[cfg(test)] mod tests { struct Other; }",
            ),
            ("crates/a/src/two.rs", "trait Part {}\ntype Object = u8;\nstruct Other;"),
            ("crates/a/src/two/tests.rs", "struct Part;"),
            ("crates/b/src/lib.rs", "struct Part;"),
        ];
        let found = problems(&files);
        assert_eq!(found, ["a has several types Part: crates/a/src/one.rs, crates/a/src/two.rs"]);
    }
}
