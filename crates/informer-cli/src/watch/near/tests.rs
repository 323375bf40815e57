use super::*;

fn resources() -> Vec<Resource> {
    let text = r#"{"items":[{"metadata":{},"versions":[{"version":"v1","resources":[
        {"resource":"pods","singularResource":"pod","shortNames":["po"]},
        {"resource":"podtemplates","singularResource":"podtemplate"}]}]},
        {"metadata":{"name":"apps"},"versions":[{"version":"v1","resources":[
        {"resource":"deployments","singularResource":"deployment","shortNames":["deploy"]}]}]}]}"#;
    serde_json::from_str::<Document>(text).unwrap().resources().collect()
}

#[test]
fn a_misspelt_kind_brings_up_the_one_that_was_meant() {
    assert_eq!(suggestions("pdos", &resources()), ["pods"]);
    assert_eq!(suggestions("Deploymint", &resources()), ["deployments.apps"]);
}

#[test]
fn a_kind_in_the_wrong_group_brings_up_the_right_one() {
    assert_eq!(suggestions("deployments.extensions", &resources()), ["deployments.apps"]);
}

#[test]
fn a_word_that_is_like_nothing_brings_up_nothing() {
    assert!(suggestions("xyzzy", &resources()).is_empty());
    assert!(suggestions("", &resources()).is_empty());
}
