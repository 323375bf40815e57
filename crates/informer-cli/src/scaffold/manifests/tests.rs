use super::{differences, passed, states};

#[test]
fn states_of_manifests_are_read_from_the_output_of_the_test() {
    let output = concat!(
        "\nrunning 1 test\ntest manifests_are_up_to_date ... \nunchanged config/crd/shops.yaml\n",
        "stale charts/shop/templates/shop_role.yaml\nstale charts/shop/templates/shop_role.yaml\n",
        "stale bread\nFAILED\n",
    );
    let expected =
        [("unchanged", "config/crd/shops.yaml"), ("stale", "charts/shop/templates/shop_role.yaml")];
    assert_eq!(states(output), expected);
}

#[test]
fn differences_of_permissions_are_read_from_the_output_of_the_tests() {
    let unused = "config/rbac/a.yaml:7: granted and never used: get pods in API group \"\"";
    let missing = "config/rbac/a.yaml:7: used and not granted: get jobs in API group \"batch\", for a/b";
    let output =
        format!("thread panicked at tests/a.rs:1:2:\n\n{unused}\n{missing}\n{missing}\nnote: RUST_\n");
    assert_eq!(differences(&output), [unused, missing]);
}

#[test]
fn passed_tests_of_all_programs_are_counted() {
    let output = "test result: ok. 2 passed; 0 failed\ntest result: FAILED. 1 passed; 1 failed\n";
    assert_eq!(passed(output), 3);
}
