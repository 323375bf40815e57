use serde_json::json;

use super::{ConditionState, UsedNames, decide, set_condition};

fn state<'a>(status: &'a str, reason: &'a str, message: &'a str) -> ConditionState<'a> {
    ConditionState { status, reason, message }
}

fn used() -> UsedNames {
    let mut used = UsedNames::default();
    used.add(&json!({"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList", "shortNames": ["ga"]}));
    used
}

#[test]
fn free_names_are_accepted_despite_a_conflict() {
    let wanted = json!({"plural": "kinds", "singular": "kinde", "kind": "Gadget", "listKind": "KindList", "categories": ["all"]});
    let decision = decide(&wanted, &json!({"plural": "", "kind": ""}), &used());
    let given = json!({"plural": "kinds", "singular": "kinde", "kind": "", "listKind": "KindList", "categories": ["all"]});
    assert_eq!(decision.accepted, given);
    assert_eq!(decision.conflict, Some(("KindConflict", "\"Gadget\" is already in use".to_owned())));
}

#[test]
fn resource_and_kind_names_do_not_conflict() {
    let wanted = json!({"plural": "Gadget", "singular": "one", "kind": "gadgets", "listKind": "ga"});
    assert_eq!(decide(&wanted, &json!({}), &used()).conflict, None);
}

#[test]
fn crd_does_not_conflict_with_its_own_names() {
    let names = json!({"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList", "shortNames": ["ga"]});
    let mut wanted = names.clone();
    wanted["shortNames"] = json!(["ga", "gd"]);
    let decision = decide(&wanted, &names, &used());
    assert_eq!((decision.accepted, decision.conflict), (wanted, None));
}

#[test]
fn short_names_are_accepted_all_or_none() {
    let own = json!({"plural": "a", "kind": "A", "shortNames": ["x"]});
    let wanted = json!({"plural": "a", "kind": "A", "shortNames": ["y", "ga", "gadget"]});
    let decision = decide(&wanted, &own, &used());
    assert_eq!(decision.accepted, own);
    let told = "[\"ga\" is already in use, \"gadget\" is already in use]";
    assert_eq!(decision.conflict, Some(("ShortNamesConflict", told.to_owned())));
}

#[test]
fn condition_transition_time_changes_only_with_status() {
    let mut definition = json!({"status": {"conditions": null}});
    set_condition(&mut definition, "NamesAccepted", state("False", "KindConflict", "a"), "then");
    set_condition(&mut definition, "NamesAccepted", state("False", "PluralConflict", "b"), "later");
    let condition = &definition["status"]["conditions"][0];
    assert_eq!(
        (&condition["reason"], &condition["lastTransitionTime"]),
        (&json!("PluralConflict"), &json!("then"))
    );
    set_condition(&mut definition, "NamesAccepted", state("True", "NoConflicts", ""), "now");
    assert_eq!(definition["status"]["conditions"].as_array().unwrap().len(), 1);
    assert_eq!(definition["status"]["conditions"][0]["lastTransitionTime"], "now");
}
