//! The formats, compared with their expected text.

use informer::runtime::console::ConsoleSnapshot;
use serde_json::{Value, json};

use super::diagram::Diagram;
use super::model::Graph;
use super::{dot, mermaid, text};

fn graph(programs: &[(&str, Value)]) -> Graph {
    let parsed = |(name, controllers): &(&str, Value)| {
        let snapshot: ConsoleSnapshot =
            serde_json::from_value(json!({"controllers": controllers})).expect("a snapshot");
        ((*name).to_owned(), snapshot)
    };
    Graph::of(&programs.iter().map(parsed).collect::<Vec<_>>())
}

fn watch(role: &str, resource: &str, informers: &[&str]) -> Value {
    json!({"role": role, "source": format!("kind {resource}"), "resource": resource, "informers": informers})
}

fn write(verb: &str, resource: &str, subresource: &str, count: u64, failed: u64) -> Value {
    json!({"verb": verb, "resource": resource, "subresource": subresource, "count": count, "failed": failed})
}

/// A controller of Websites, and one that copies ConfigMaps, with a hint, a channel and a long list of verbs.
fn operator() -> Value {
    json!([
        {
            "name": "website",
            "watches": [
                watch("for", "websites.example.com/v1", &["websites.v1.example.com"]),
                watch("owns", "deployments.apps/v1", &["deployments.v1.apps namespace=a form=Metadata"]),
                watch("owns", "services/v1", &["services.v1 namespace=a", "services.v1 namespace=b"]),
                {"role": "source", "source": "channel callbacks"},
            ],
            "writes": [
                write("apply", "deployments.apps/v1", "", 224, 11),
                write("patch", "websites.example.com/v1", "status", 190, 0),
                write("patch", "websites.example.com/v1", "", 3, 0),
                write("other", "", "", 7, 1),
            ],
        },
        {
            "name": "copy",
            "watches": [
                watch("for", "services/v1", &["services.v1"]),
                watch("watches", "configmaps/v1", &["configmaps.v1"]),
            ],
            "writes": [
                write("create", "configmaps/v1", "", 900, 90),
                write("patch", "configmaps/v1", "", 900, 90),
                write("delete", "configmaps/v1", "", 900, 90),
                write("update", "configmaps/v1", "", 900, 90),
            ],
        },
    ])
}

#[test]
fn text_is_a_tree_for_each_controller_within_80_columns() {
    let drawn = text::draw(&graph(&[("127.0.0.1:8082", operator())]));
    let expected = "\
website
├─ for      websites.example.com/v1
├─ owns     deployments.apps/v1             namespace=a form=Metadata
├─ owns     services/v1                     2 informers
├─ source   channel callbacks
├─ writes   deployments.apps/v1             apply 224 (11 failed)
├─ writes   other kinds                     other 7 (1 failed)
├─ writes   websites.example.com/v1         patch 3
└─ writes   websites.example.com/v1 status  patch 190

copy
├─ for      services/v1
├─ watches  configmaps/v1
└─ writes   configmaps/v1  create 900 (90 failed), delete 900 (90 failed),
                           patch 900 (90 failed), update 900 (90 failed)
   hint: copy writes configmaps/v1, which it watches and does not own, so it
   may enqueue itself again
";
    assert_eq!(drawn, expected, "{drawn}");
    assert!(drawn.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn mermaid_has_shared_nodes_of_kinds_and_marks_hints() {
    let drawn = mermaid::draw(&Diagram::of(&graph(&[("127.0.0.1:8082", operator())])));
    let expected = r##"flowchart LR
  c0(["website"])
  k0["websites.example.com/v1"]
  k1["deployments.apps/v1"]
  k2["services/v1"]
  s0[/"channel callbacks"/]
  k3["other kinds"]
  c1(["copy"])
  k4["configmaps/v1"]
  k0 -->|"for"| c0
  k1 -->|"owns"| c0
  k2 -->|"owns"| c0
  s0 -->|"source"| c0
  c0 -.->|"apply 224 (11 failed)"| k1
  c0 -.->|"other 7 (1 failed)"| k3
  c0 -.->|"patch 3"| k0
  c0 -.->|"status: patch 190"| k0
  k2 -->|"for"| c1
  k4 -->|"watches"| c1
  c1 -.->|"create 900 (90 failed), delete 900 (90 failed), patch 900 (90 failed), update 900 (90 failed)"| k4
  linkStyle 10 stroke:#c00
"##;
    assert_eq!(drawn, expected, "{drawn}");
}

#[test]
fn dot_has_shared_nodes_of_kinds_and_marks_hints() {
    let mut controllers = operator();
    controllers[1]["writes"] = json!([write("create", "configmaps/v1", "", 2, 0)]);
    let drawn = dot::draw(&Diagram::of(&graph(&[("127.0.0.1:8082", controllers)])));
    let expected = r#"digraph informer {
  rankdir=LR;
  node [fontname="sans-serif"];
  edge [fontname="sans-serif", fontsize=10];
  c0 [label="website", shape=box, style="rounded,bold"];
  k0 [label="websites.example.com/v1", shape=box];
  k1 [label="deployments.apps/v1", shape=box];
  k2 [label="services/v1", shape=box];
  s0 [label="channel callbacks", shape=parallelogram];
  k3 [label="other kinds", shape=box];
  c1 [label="copy", shape=box, style="rounded,bold"];
  k4 [label="configmaps/v1", shape=box];
  k0 -> c0 [label="for"];
  k1 -> c0 [label="owns"];
  k2 -> c0 [label="owns"];
  s0 -> c0 [label="source"];
  c0 -> k1 [label="apply 224 (11 failed)", style=dashed];
  c0 -> k3 [label="other 7 (1 failed)", style=dashed];
  c0 -> k0 [label="patch 3", style=dashed];
  c0 -> k0 [label="status: patch 190", style=dashed];
  k2 -> c1 [label="for"];
  k4 -> c1 [label="watches"];
  c1 -> k4 [label="create 2", style=dashed, color=red];
}
"#;
    assert_eq!(drawn, expected, "{drawn}");
}

#[test]
fn replicas_are_merged_and_other_controllers_of_the_name_are_not() {
    let one = |resource: &str, count: u64| {
        let writes = [write("apply", "deployments.apps/v1", "", count, 1)];
        json!([{"name": "web", "watches": [watch("for", resource, &[])], "writes": writes}])
    };
    let (sites, shops) = ("websites.example.com/v1", "shops.example.com/v1");
    let drawn = text::draw(&graph(&[("a:1", one(sites, 2)), ("b:1", one(shops, 3)), ("c:1", one(sites, 4))]));
    let expected = "\
web (a:1, c:1)
├─ for      websites.example.com/v1
└─ writes   deployments.apps/v1      apply 6 (2 failed)

web (b:1)
├─ for      shops.example.com/v1
└─ writes   deployments.apps/v1   apply 3 (1 failed)
";
    assert_eq!(drawn, expected, "{drawn}");
}

#[test]
fn program_with_an_earlier_version_has_the_names_of_its_sources() {
    let drawn = text::draw(&graph(&[("a:1", json!([{"name": "web", "sources": ["kind Pod"]}]))]));
    assert_eq!(drawn, "web\n└─ source   kind Pod\n");
    assert_eq!(text::draw(&graph(&[("a:1", json!([]))])), "no controllers\n");
}

#[test]
fn hints_omit_the_reconciled_and_the_owned_kinds_in_each_version() {
    let hints = |watches: Value, resource: &str| -> usize {
        let writes = [write("apply", resource, "", 1, 0)];
        let controller = json!([{"name": "web", "watches": watches, "writes": writes}]);
        graph(&[("a:1", controller)]).hints().count()
    };
    let things = |role: &str| watch(role, "things.example.com/v1", &[]);
    assert_eq!(hints(json!([things("for")]), "things.example.com/v1"), 0);
    assert_eq!(hints(json!([things("watches")]), "things.example.com/v1"), 1);
    assert_eq!(hints(json!([things("watches")]), "things.example.com/v2"), 1);
    assert_eq!(hints(json!([things("watches")]), "things.example.org/v1"), 0);
    assert_eq!(hints(json!([things("watches"), things("owns")]), "things.example.com/v1"), 0);
}

#[test]
fn hostile_names_are_escaped_in_each_format() {
    let name = "1. x\"]\u{1b}[2J\n```;&lt;<b>\\N#";
    let graph = graph(&[("a:1", json!([{"name": name, "sources": ["\"; evil -> c0 [label=\"a"]}]))]);
    let text = text::draw(&graph);
    assert!(!text.contains('\u{1b}') && text.lines().count() == 2, "{text}");
    let mermaid = mermaid::draw(&Diagram::of(&graph));
    let node = r##"  c0(["#49;. x#34;#93;#92;u#123;1b#125;#91;2J#92;n#96;#96;#96;#59;#38;lt#59;#60;b#62;#92;N#35;"])"##;
    assert_eq!(mermaid.lines().nth(1), Some(node), "{mermaid}");
    let dot = dot::draw(&Diagram::of(&graph));
    let node = r##"c0 [label="1. x\"]\\u{1b}[2J\\n```;&amp;lt;<b>\\N#", shape"##;
    assert!(dot.contains(node), "{dot}");
    assert!(dot.contains(r#"s0 [label="\"; evil -> c0 [label=\"a", shape"#), "{dot}");
}

#[test]
fn long_names_are_truncated_and_leave_their_details_to_the_next_line() {
    let long = "x".repeat(400);
    let writes = [write("apply", &long, "", 1, 0)];
    let drawn = text::draw(&graph(&[("a:1", json!([{"name": "web", "writes": writes}]))]));
    let lines: Vec<&str> = drawn.lines().collect();
    assert_eq!(lines.len(), 3, "{drawn}");
    assert!(lines[1].ends_with("x…") && lines[1].chars().count() == 333, "{drawn}");
    assert_eq!(lines[2].trim(), "apply 1");
}
