use super::*;

fn problem(text: &str) -> String {
    ElectionScript::parse("test", text).expect_err("the script is invalid").to_string()
}

#[test]
fn an_invalid_script_is_rejected_with_the_problem() {
    assert!(problem("about: x\ndo: [start]").ends_with("\"start\" needs a name"));
    assert!(problem("about: x\ndo: [advance 5]").ends_with("needs a duration such as 50ms"));
    assert!(problem("about: x\ndo: [sleep 5ms]").contains("is not an operation; use one of start, stop"));
    assert!(problem("about: x\ndo: [start a b]").ends_with("unexpected argument b"));
    assert!(problem("about: x\ndo: [advance 5ms]").ends_with("no candidate is started"));
    assert!(problem("about: x\ndo: [stop a]").ends_with("a is stopped before it is started"));
    assert!(problem("about: x\ndo: [start a, start a]").ends_with("a is started twice"));
}

#[test]
fn all_scripts_parse_and_at_most_one_of_our_candidates_leads() {
    let scripts = ElectionScript::read_all(&crate::Suite::folder().join("elections")).unwrap();
    assert!(scripts.len() >= 12, "{}", scripts.len());
    for script in scripts {
        let lines = run_our_election(&script).unwrap();
        let mut leads = 0_i32;
        for line in lines {
            for word in line.split("; ") {
                leads += i32::from(word.ends_with(" leads"));
            }
            // A candidate may end without having led, so the number of terms that began may be smaller than
            // the number of candidates that ended.
            let ended = line.split("; ").filter(|word| word.ends_with(" ends")).count();
            leads -= i32::try_from(ended).unwrap().min(leads);
            assert!(leads <= 1, "{}: {line}", script.name);
        }
    }
}
