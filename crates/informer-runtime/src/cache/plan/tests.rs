use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};

use super::*;

fn labels(text: &str) -> InformerOptions {
    InformerOptions::default().labels(text.parse().unwrap())
}

fn fields(text: &str) -> InformerOptions {
    InformerOptions::default().fields(text.parse().unwrap())
}

fn named(namespaces: &[(&str, InformerOptions)]) -> BTreeMap<String, InformerOptions> {
    namespaces.iter().map(|(name, options)| ((*name).to_owned(), options.clone())).collect()
}

fn pods(
    options: InformerOptions,
    namespaces: Option<BTreeMap<String, InformerOptions>>,
) -> HashMap<Gvk, KindOptions> {
    HashMap::from([(ResourceKind::of::<Pod>().gvk().clone(), KindOptions { options, namespaces })])
}

#[track_caller]
fn check(levels: OptionLevels, kind: &ResourceKind, expected: &[&str]) {
    let plan = levels.plan(kind);
    let shown: Vec<String> = plan
        .iter()
        .map(|part| {
            let options = &part.options;
            format!(
                "{}: {}; {}",
                part.scope,
                options.labels.clone().unwrap_or_default(),
                options.fields.clone().unwrap_or_default()
            )
        })
        .collect();
    assert_eq!(shown, expected);
}

fn pod() -> ResourceKind {
    ResourceKind::of::<Pod>()
}

#[test]
fn without_options_one_informer_holds_all_objects() {
    check(OptionLevels::default(), &pod(), &["all namespaces: ; "]);
    check(OptionLevels::default(), &ResourceKind::of::<Node>(), &["all namespaces: ; "]);
}

#[test]
fn most_specific_level_takes_precedence() {
    let levels = |of_namespace: InformerOptions,
                  of_kind: InformerOptions,
                  of_cache_namespace: InformerOptions| OptionLevels {
        all: labels("level=all"),
        namespaces: named(&[("a", of_cache_namespace)]),
        kinds: pods(of_kind, Some(named(&[("a", of_namespace)]))),
    };
    let none = InformerOptions::default;
    let own = levels(labels("level=own"), labels("level=kind"), labels("level=namespace"));
    check(own, &pod(), &["namespace a: level=own; "]);
    let of_kind = levels(none(), labels("level=kind"), labels("level=namespace"));
    check(of_kind, &pod(), &["namespace a: level=kind; "]);
    let of_namespace = levels(none(), none(), labels("level=namespace"));
    check(of_namespace, &pod(), &["namespace a: level=namespace; "]);
    check(levels(none(), none(), none()), &pod(), &["namespace a: level=all; "]);
}

#[test]
fn each_option_is_inherited_individually() {
    let levels = OptionLevels {
        all: fields("status.phase=Running").resync(Duration::from_secs(60)),
        namespaces: named(&[("a", labels("app=web"))]),
        kinds: pods(InformerOptions::default().resync(Duration::from_secs(5)), None),
    };
    let plan = levels.plan(&pod());
    assert_eq!(plan[0].options.resync, Some(Duration::from_secs(5)));
    check(levels, &pod(), &["namespace a: app=web; status.phase=Running"]);
}

#[test]
fn selector_of_everything_overrides_outer_levels() {
    let levels = OptionLevels {
        all: labels("app=web"),
        namespaces: named(&[("a", InformerOptions::default().labels(Default::default()))]),
        ..OptionLevels::default()
    };
    check(levels, &pod(), &["namespace a: ; "]);
}

#[test]
fn kind_options_take_precedence_in_namespaces_of_the_cache() {
    let levels = OptionLevels {
        all: labels("level=all"),
        namespaces: named(&[("a", InformerOptions::default()), ("b", InformerOptions::default())]),
        kinds: pods(labels("level=kind"), None),
    };
    check(levels, &pod(), &["namespace a: level=kind; ", "namespace b: level=kind; "]);
}

#[test]
fn kind_with_own_namespaces_ignores_those_of_the_cache() {
    let levels = OptionLevels {
        namespaces: named(&[("a", InformerOptions::default())]),
        kinds: pods(InformerOptions::default(), Some(named(&[("b", InformerOptions::default())]))),
        ..OptionLevels::default()
    };
    check(levels, &pod(), &["namespace b: ; "]);
}

#[test]
fn kind_everywhere_ignores_namespaces_of_the_cache() {
    let levels = OptionLevels {
        all: labels("level=all"),
        namespaces: named(&[("a", labels("level=namespace"))]),
        kinds: pods(InformerOptions::default(), Some(BTreeMap::new())),
    };
    check(levels, &pod(), &["all namespaces: level=all; "]);
}

#[test]
fn empty_namespace_stands_for_all_unlisted_ones() {
    let levels = OptionLevels {
        namespaces: named(&[
            ("", fields("status.phase=Running")),
            ("b", labels("app=web")),
            ("a", InformerOptions::default()),
        ]),
        ..OptionLevels::default()
    };
    let others = "all other namespaces: ; metadata.namespace!=a,metadata.namespace!=b,status.phase=Running";
    check(levels, &pod(), &[others, "namespace a: ; ", "namespace b: app=web; "]);
}

#[test]
fn empty_namespace_alone_means_all_namespaces() {
    let levels = OptionLevels { namespaces: named(&[("", labels("app=web"))]), ..OptionLevels::default() };
    check(levels, &pod(), &["all other namespaces: app=web; "]);
}

#[test]
fn cluster_scoped_kinds_use_options_of_kind_and_cache() {
    let levels = OptionLevels {
        all: labels("level=all"),
        namespaces: named(&[("a", labels("level=namespace"))]),
        ..OptionLevels::default()
    };
    check(levels, &ResourceKind::of::<Node>(), &["all namespaces: level=all; "]);
}

#[test]
fn field_selector_of_namespace_creates_namespaced_informer() {
    let levels = OptionLevels { all: fields("metadata.namespace=a"), ..OptionLevels::default() };
    let plan = levels.plan(&pod());
    assert_eq!(plan[0].namespace.as_deref(), Some("a"));
    assert_eq!(plan[0].scope, InformerScope::All, "reads of other namespaces return nothing and do not fail");
    assert_eq!(plan[0].name(&pod(), ""), "pods.v1 namespace=a fields=metadata.namespace=a");
}

#[test]
fn transforms_are_inherited_per_representation() {
    use informer_client::{Lazy, Metadata};
    let levels = OptionLevels {
        all: InformerOptions::default().transform::<Metadata<Pod>>(Ok),
        kinds: pods(InformerOptions::default().transform::<Lazy<Pod>>(Ok), None),
        ..OptionLevels::default()
    };
    let plan = levels.plan(&pod());
    assert!(plan[0].options.transform_of::<Lazy<Pod>>().is_some());
    assert!(plan[0].options.transform_of::<Metadata<Pod>>().is_some());
    assert!(levels.plan(&ResourceKind::of::<Node>())[0].options.transform_of::<Lazy<Pod>>().is_none());
}
