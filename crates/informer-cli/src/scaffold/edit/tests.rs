use super::{manifest, rust, yaml};

const RUST: &str = r#"//! Kinds: "ä" and others.

pub mod website; // the first one

use informer::prelude::*;

/// Returns all.
pub fn crds() -> Vec<Crd> {
    // In the order of the documentation.
    vec![website::Website::crd()]
}

pub fn add_to(manager: Manager) -> Manager {
    manager.controller(website::controller()) // keep
}

struct Settings {
    log: String, // a level
}

async fn run() -> Result<()> {
    let manager = Manager::new(client);
    if true {
        manager.run_until(ctrl_c()).await?;
    }
    Ok(())
}
"#;

#[test]
fn insertions_into_rust_keep_everything_else() {
    let edited = rust::add_module(RUST, "shop").unwrap();
    assert_eq!(edited, RUST.replacen("the first one", "the first one\npub mod shop;", 1));
    assert_eq!(rust::add_module(&edited, "shop").unwrap(), edited);
    assert_eq!(
        rust::add_to_vec(RUST, "crds", "shop::Shop::crd()").unwrap(),
        RUST.replacen("Website::crd()]", "Website::crd(), shop::Shop::crd()]", 1)
    );
    assert_eq!(
        rust::add_to_chain(RUST, "add_to", ".controller(shop::controller())").unwrap(),
        RUST.replacen("(website::controller())", "(website::controller()).controller(shop::controller())", 1)
    );
    assert_eq!(
        rust::add_before_call(RUST, "run_until", |variable| format!("let {variable} = more({variable});"))
            .unwrap(),
        RUST.replacen("manager.run_until", "let manager = more(manager);\n        manager.run_until", 1)
    );
    assert_eq!(
        rust::add_field(RUST, "Settings", "#[flatten]\nwebhooks: Webhooks,").unwrap(),
        RUST.replacen(
            "log: String, // a level",
            "log: String, // a level\n    #[flatten]\n    webhooks: Webhooks,",
            1
        )
    );
}

#[test]
fn files_without_the_place_of_an_insertion_are_rejected() {
    let error = rust::add_to_vec(RUST, "all", "1").unwrap_err().to_string();
    assert_eq!(error, "there is no function all");
    let error = rust::add_to_vec(RUST, "add_to", "1").unwrap_err().to_string();
    assert_eq!(error, "the function add_to has no `vec![..]`");
    let error = rust::add_to_chain(RUST, "run", ".b()").unwrap_err().to_string();
    assert_eq!(error, "the function run does not end with a chain of method calls");
    let error = rust::add_before_call(RUST, "start", str::to_owned).unwrap_err().to_string();
    assert_eq!(error, "no statement calls start on a variable");
    let error = rust::add_field(RUST, "Options", "a: u8,").unwrap_err().to_string();
    assert_eq!(error, "there is no struct Options with named fields");
    let error = rust::add_module("fn f() {\n  let = 1;\n}\n", "shop").unwrap_err().to_string();
    assert!(error.starts_with("line 2: "), "{error}");
}

#[test]
fn vec_with_a_trailing_comma_and_an_empty_one_are_extended() {
    let lines = "fn f() -> Vec<u8> {\n    vec![\n        1,\n    ]\n}\n";
    assert_eq!(rust::add_to_vec(lines, "f", "2").unwrap(), lines.replacen("1,", "1, 2", 1));
    assert_eq!(rust::add_to_vec("fn f() { vec![] }", "f", "2").unwrap(), "fn f() { vec![2] }");
}

#[test]
fn arguments_of_the_kube_attribute_are_read() {
    let text = r##"
        #[derive(CustomResource)]
        #[kube(group = "example.com", kind = "Website", namespaced, printcolumn = r#"{}"#)]
        #[kube(crates(kube_core = "a"))]
        #[kube(version = "v1")]
        struct WebsiteSpec;
    "##;
    let arguments = rust::kube_arguments(text).unwrap();
    let value =
        |name: &str| arguments.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
    assert_eq!(value("group"), Some("example.com"));
    assert_eq!(value("version"), Some("v1"));
    assert_eq!(value("namespaced"), Some(""));
    assert_eq!(value("plural"), None);
}

#[test]
fn value_of_a_kube_argument_and_an_expression_are_replaced() {
    let text = "#[kube(group = \"a.b\", version = \"v1\", printcolumn = r#\"version = \"v1\"\"#)] // v1\nstruct A;\n";
    let edited = rust::set_kube_argument(text, "version", "v2").unwrap();
    assert_eq!(edited, text.replacen("version = \"v1\"", "version = \"v2\"", 1));
    let error = rust::set_kube_argument(text, "plural", "as").unwrap_err().to_string();
    assert_eq!(error, "the attribute kube has no plural");

    let edited = rust::replace_in_function(RUST, "crds", "website::Website::crd()", "a::crd()").unwrap();
    assert_eq!(edited, RUST.replacen("website::Website::crd()", "a::crd()", 1));
    let other = "fn crds() -> Vec<u8> { vec![my_shop::crd(), shop::crd()] }";
    let edited = rust::replace_in_function(other, "crds", "shop::crd()", "a::crd()").unwrap();
    assert_eq!(edited, "fn crds() -> Vec<u8> { vec![my_shop::crd(), a::crd()] }");
    let error = rust::replace_in_function(RUST, "crds", "shop::crd()", "a::crd()").unwrap_err().to_string();
    assert_eq!(error, "the function crds does not contain shop::crd() exactly once");
    assert!(rust::has_function(RUST, "crds") && !rust::has_function(RUST, "conversions"));
}

#[test]
fn items_are_added_to_yaml_lists() {
    let text = "# resources of the CRDs\nresources:\n- a.yaml # first\n\nimages:\n- name: x\n";
    let edited = yaml::add_item(text, "resources", "b.yaml").unwrap();
    assert_eq!(edited, text.replacen("# first\n", "# first\n- b.yaml\n", 1));
    assert_eq!(yaml::add_item(&edited, "resources", "b.yaml").unwrap(), edited);
    assert_eq!(
        yaml::add_path(text, "patches", "p.yaml").unwrap(),
        format!("{text}patches:\n- path: p.yaml\n")
    );
    assert_eq!(
        yaml::add_item("resources:\n  - a.yaml\n", "resources", "b.yaml").unwrap(),
        "resources:\n  - a.yaml\n  - b.yaml\n"
    );
    let error = yaml::add_item("resources: [a.yaml]\n", "resources", "b.yaml").unwrap_err().to_string();
    assert_eq!(error, "the layout of resources is unusual");
}

#[test]
fn boolean_of_yaml_is_set_below_its_key() {
    let text = "image: {}\nother:\n  enabled: false\nwebhooks:\n  # Needs cert-manager.\n  enabled: false\n";
    let edited = yaml::set_bool(text, "webhooks", "enabled", true).unwrap();
    assert_eq!(edited, text.replacen("cert-manager.\n  enabled: false", "cert-manager.\n  enabled: true", 1));
    let error = yaml::set_bool("webhooks: {enabled: false}\n", "webhooks", "enabled", true).unwrap_err();
    assert_eq!(error.to_string(), "the layout of webhooks is unusual");
}

#[test]
fn feature_of_a_dependency_is_added_and_comments_are_kept() {
    let text = concat!(
        "[package]\nname = \"shop\" # the shop\n\n",
        "[dependencies]\ninformer = { version = \"0.1\", features = [\"schema\"] } # one\n",
    );
    let edited = manifest::add_feature(text, "informer", "webhook").unwrap();
    assert_eq!(edited, text.replacen("[\"schema\"]", "[\"schema\", \"webhook\"]", 1));
    assert_eq!(manifest::add_feature(&edited, "informer", "webhook").unwrap(), edited);
    assert_eq!(manifest::package_name(text).unwrap(), "shop");
    assert!(manifest::depends_on(text, "informer") && !manifest::depends_on(text, "tokio"));
    let error = manifest::add_feature(text, "kube", "webhook").unwrap_err().to_string();
    assert_eq!(error, "dependencies.kube is not a table");
}
