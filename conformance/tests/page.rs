//! Checks that the document about the suite lists the scenarios of the suite.

use informer_conformance::all;

const PAGE: &str = include_str!("../../docs/conformance.md");

#[test]
fn docs_list_every_scenario() {
    let rows: Vec<String> =
        all().iter().map(|scenario| format!("| {} | `{}` |", scenario.topic, scenario.name)).collect();
    let missing: Vec<&String> = rows.iter().filter(|row| !PAGE.contains(&***row)).collect();
    assert!(
        missing.is_empty(),
        "`informer-conformance --list` prints the table; these rows are missing from the page: {missing:#?}"
    );
    let (_, table) = PAGE.split_once("| topic | scenario |").expect("the page has the table");
    let listed = table.lines().filter(|line| line.contains(" | `")).count();
    assert_eq!(listed, rows.len(), "the page lists scenarios that do not exist");
}

#[test]
fn scenario_names_are_unique() {
    let mut names: Vec<&str> = all().iter().map(|scenario| scenario.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
