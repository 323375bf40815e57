//! Tests of `informer man`, which writes man pages.

use std::fs;

use crate::command::run;

#[tokio::test]
async fn man_pages_of_all_visible_commands_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("share/man1");
    let ended = run(["man", pages.to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let mut names: Vec<String> =
        fs::read_dir(&pages).unwrap().map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    for name in [
        "informer.1",
        "informer-watch.1",
        "informer-doctor.1",
        "informer-graph.1",
        "informer-envtest-install.1",
    ] {
        assert!(names.iter().any(|found| found == name), "{name} is missing in {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("demo-server")), "{names:?} contains a hidden command");
    let watch = fs::read_to_string(pages.join("informer-watch.1")).unwrap();
    assert!(watch.contains("\n.SH SYNOPSIS\n") && watch.contains("timestamps"), "{watch}");
}

#[tokio::test]
async fn folder_of_man_pages_that_cannot_be_created_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let ended = run(["man", file.path().to_str().unwrap()]).await;
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.err.contains(&format!("cannot write man pages to {}", file.path().display())),
        "{}",
        ended.err
    );
}
