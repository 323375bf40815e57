use super::FieldPath;

#[test]
fn path_contains_names_indexes_and_keys() {
    let container = FieldPath::ROOT.field("spec");
    let container = container.field("containers").index(2);
    let limits = container.field("resources.limits");
    assert_eq!(container.to_string(), "spec.containers[2]");
    assert_eq!(limits.key("cpu").to_string(), "spec.containers[2].resources.limits[cpu]");
}

#[test]
fn path_of_top_level_field_has_no_leading_dot() {
    assert_eq!(FieldPath::ROOT.to_string(), "");
    assert_eq!(FieldPath::ROOT.field("data").key("a").to_string(), "data[a]");
}

#[test]
fn element_of_an_element_has_both_indexes() {
    let term = FieldPath::ROOT.field("terms").index(0);
    assert_eq!(term.element(1).to_string(), "terms[0][1]");
}
