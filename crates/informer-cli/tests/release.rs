//! Tests of the archives of a release: `cargo binstall` must find the programs at the place where
//! `.ci/package` packs them.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_norway::Value;
use toml_edit::{DocumentMut, Item};

/// The programs that the package `informer-cli` contains.
const PROGRAMS: [&str; 2] = ["informer", "cargo-informer"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn workflow() -> Value {
    serde_norway::from_str(&fs::read_to_string(root().join(".github/workflows/release.yml")).unwrap())
        .unwrap()
}

fn document(path: &str) -> DocumentMut {
    fs::read_to_string(root().join(path)).unwrap().parse().unwrap()
}

/// Returns the compilation targets for which the release workflow builds archives.
fn targets() -> Vec<String> {
    let workflow = workflow();
    let builds = workflow["jobs"]["build"]["strategy"]["matrix"]["include"].as_sequence().unwrap();
    builds.iter().map(|build| build["target"].as_str().unwrap().to_owned()).collect()
}

/// Returns a setting of cargo-binstall in `Cargo.toml`, such as the URL of the archive, for one target and
/// one program. The variables in the setting are replaced by values.
fn binstall(key: &str, target: &str, program: &str) -> String {
    let manifest = document("crates/informer-cli/Cargo.toml");
    let settings = &manifest["package"]["metadata"]["binstall"];
    let special = settings["overrides"].get(target).and_then(|settings| settings.get(key));
    let template = special.or_else(|| settings.get(key)).and_then(Item::as_str).unwrap();
    let expanded = template
        .replace("{ repo }", "https://git.example.com/informer")
        .replace("{ version }", "1.2.3")
        .replace("{ target }", target)
        .replace("{ bin }", program)
        .replace("{ binary-ext }", suffix(target));
    assert!(!expanded.contains('{'), "{key} has a variable that this test does not know: {expanded}");
    expanded
}

fn suffix(target: &str) -> &'static str {
    if target.contains("windows") { ".exe" } else { "" }
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("-v").output().is_ok()
}

/// Packs placeholder files instead of the programs for a target, with `.ci/package` like the release
/// workflow. Returns the folder that contains the archive.
fn pack(target: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (programs, documents) = (folder.path().join("programs"), folder.path().join("documents"));
    fs::create_dir(&programs).unwrap();
    for name in ["completions/informer.bash", "man/informer.1"] {
        let document = documents.join(name);
        fs::create_dir_all(document.parent().unwrap()).unwrap();
        fs::write(document, "").unwrap();
    }
    for program in PROGRAMS {
        fs::write(programs.join(format!("{program}{}", suffix(target))), program).unwrap();
    }
    let packed = Command::new(root().join(".ci/package"))
        .arg(target)
        .args([programs, documents, folder.path().join("archives")])
        .output()
        .unwrap();
    assert!(packed.status.success(), "{target}: {}", String::from_utf8_lossy(&packed.stderr));
    folder
}

/// Unpacks an archive of a release, and returns the folder with its contents.
fn unpack(archive: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let is_zip = archive.extension().is_some_and(|extension| extension == "zip");
    let mut unpack = Command::new(if is_zip { "unzip" } else { "tar" });
    unpack.args(if is_zip { ["-q"] } else { ["-xzf"] }).arg(archive).current_dir(folder.path());
    let unpacked = unpack.output().unwrap();
    assert!(unpacked.status.success(), "{}", String::from_utf8_lossy(&unpacked.stderr));
    folder
}

#[test]
fn binstall_finds_the_programs_in_the_archive_of_each_target() {
    for target in targets() {
        let url = binstall("pkg-url", &target, "");
        let (page, name) = url.rsplit_once('/').unwrap();
        assert_eq!(page, "https://git.example.com/informer/releases/download/v1.2.3");
        let format = if name.ends_with(".zip") { "zip" } else { "tgz" };
        assert_eq!(binstall("pkg-fmt", &target, ""), format, "{target}");
        if format == "zip" && !(is_installed("zip") && is_installed("unzip")) {
            continue;
        }
        let packed = pack(&target);
        let archive = packed.path().join("archives").join(name);
        assert!(archive.is_file(), "{target}: .ci/package writes no {name}");
        let unpacked = unpack(&archive);
        for program in PROGRAMS {
            let path = binstall("bin-dir", &target, program);
            let content = fs::read_to_string(unpacked.path().join(&path)).ok();
            assert_eq!(content.as_deref(), Some(program), "{target}: {name} contains no {path}");
        }
    }
}

#[test]
fn workflow_starts_at_the_tags_of_release_plz() {
    let settings = document("release-plz.toml");
    let packages = settings["package"].as_array_of_tables().unwrap();
    let names: Vec<&str> =
        packages.iter().filter_map(|package| package.get("git_tag_name")?.as_str()).collect();
    assert_eq!(names, ["v{{ version }}"]);
    let workflow = workflow();
    let tags: Vec<&str> =
        workflow["on"]["push"]["tags"].as_sequence().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(tags, ["v*"]);
}

#[test]
fn each_override_of_binstall_is_for_a_built_target() {
    let manifest = document("crates/informer-cli/Cargo.toml");
    let overrides = manifest["package"]["metadata"]["binstall"]["overrides"].as_table().unwrap();
    let targets = targets();
    for (target, _) in overrides.iter() {
        assert!(targets.iter().any(|built| built == target), "no build for {target} among {targets:?}");
    }
}
