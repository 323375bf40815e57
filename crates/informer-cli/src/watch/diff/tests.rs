use serde_json::{Value, json};

use super::{Rendering, differences};
use crate::watch::printer::Styles;

/// Returns the printed lines for the differences between two objects, without colors.
fn lines(old: &Value, new: &Value) -> Vec<String> {
    render(old, new, false)
}

fn render(old: &Value, new: &Value, masked: bool) -> Vec<String> {
    let text = Rendering { masked, styles: &Styles::default() }
        .lines(&differences(old, new).iter().collect::<Vec<_>>());
    text.lines().map(|line| line.strip_prefix("    ").unwrap_or(line).to_owned()).collect()
}

#[test]
fn what_changed_came_and_went_is_named_by_its_path() {
    let old = json!({"spec": {"replicas": 3, "paused": true}, "status": {}});
    let new = json!({"spec": {"replicas": 4}, "status": {"phase": "Ready"}});
    assert_eq!(
        lines(&old, &new),
        ["- spec.paused: true", "~ spec.replicas: 3 -> 4", r#"+ status.phase: "Ready""#]
    );
}

#[test]
fn version_and_managed_fields_are_no_difference() {
    let old = json!({"metadata": {"resourceVersion": "1", "managedFields": [1]}});
    let new = json!({"metadata": {"resourceVersion": "2"}});
    assert!(lines(&old, &new).is_empty());
    let elsewhere = (json!({"spec": {"resourceVersion": "1"}}), json!({"spec": {"resourceVersion": "2"}}));
    assert_eq!(lines(&elsewhere.0, &elsewhere.1), [r#"~ spec.resourceVersion: "1" -> "2""#]);
}

#[test]
fn an_item_that_comes_in_front_leaves_the_others_alone() {
    let old = json!({"c": [{"name": "web", "image": "web:1"}]});
    let new = json!({"c": [{"name": "proxy", "image": "p:1"}, {"name": "web", "image": "web:2"}]});
    assert_eq!(
        lines(&old, &new),
        [r#"~ c[name=web].image: "web:1" -> "web:2""#, r#"+ c[name=proxy]: {"image":"p:1","name":"proxy"}"#]
    );
}

#[test]
fn reordered_items_are_reported_as_one_difference() {
    let old = json!({"c": [{"name": "a"}, {"name": "b"}]});
    let new = json!({"c": [{"name": "b"}, {"name": "a"}]});
    assert_eq!(lines(&old, &new), [r#"~ c: [{"name":"a"},{"name":"b"}] -> [{"name":"b"},{"name":"a"}]"#]);
}

#[test]
fn items_without_names_are_compared_by_position() {
    assert_eq!(
        lines(&json!({"args": ["a", "b", "c"]}), &json!({"args": ["a", "x", "y", "c"]})),
        [r#"~ args[1]: "b" -> "x""#, r#"+ args[2]: "y""#]
    );
}

#[test]
fn a_key_with_dots_stands_in_brackets() {
    let (old, new) = (json!({"labels": {}}), json!({"labels": {"app.kubernetes.io/name": "x"}}));
    assert_eq!(lines(&old, &new), [r#"+ labels[app.kubernetes.io/name]: "x""#]);
}

#[test]
fn a_text_of_several_lines_is_compared_by_lines() {
    let old = json!({"data": {"conf": "one\ntwo\nthree\n"}});
    let new = json!({"data": {"conf": "one\n2\nthree\n"}});
    let lines = lines(&old, &new);
    assert_eq!(lines[0], "~ data.conf:");
    let told: Vec<&str> = lines[1..].iter().map(|line| line.trim_start()).collect();
    assert!(told.contains(&"-two") && told.contains(&"+2"), "{lines:?}");
}

#[test]
fn what_a_server_sends_cannot_reach_the_terminal_as_control_characters() {
    let (old, new) = (json!({}), json!({"a\u{1b}[2J": "\u{9b}31m", "t": "x\n\u{1b}]0;\u{7}\n"}));
    let changed = json!({"a\u{1b}[2J": "\u{9b}32m", "t": "x\n\u{1b}]1;\u{7}\n"});
    for text in [lines(&old, &new).concat(), lines(&new, &changed).concat()] {
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
}

#[test]
fn a_long_value_is_cut() {
    let line = lines(&json!({}), &json!({"a": "ä".repeat(100_000)})).concat();
    assert!(line.ends_with("... (200002 bytes)") && line.len() < 1000, "{} bytes", line.len());
}

#[test]
fn no_value_of_a_secret_is_shown() {
    let secret = |value: &str, more: Value| {
        let applied = format!(r#"{{"data":{{"password":"{value}"}}}}"#);
        let annotations =
            json!({"kubectl.kubernetes.io/last-applied-configuration": applied, "a": value.len()});
        json!({"metadata": {"annotations": annotations}, "data": {"password": value}, "stringData": more})
    };
    let bare = json!({});
    let states = [
        bare,
        secret("hunter2-old", json!({"token": "hunter2\nin\nlines"})),
        secret("hunter2-newer", json!({"token": {"deep": "hunter2"}})),
        secret("hunter2", json!("hunter2")),
        json!({"data": ["hunter2"]}),
    ];
    for old in &states {
        for new in &states {
            let lines = render(old, new, true);
            assert!(!lines.concat().contains("hunter2"), "{lines:?}");
        }
    }
    assert_eq!(
        render(&states[1], &states[2], true)[..2],
        ["~ data.password: *** -> ***", "~ metadata.annotations.a: 11 -> 13"]
    );
}
