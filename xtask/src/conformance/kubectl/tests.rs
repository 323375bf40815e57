use super::{Sort, missing, read};

#[test]
fn a_script_is_read_step_by_step() {
    let steps = read("# a comment\n\n$ get pods\n> one\n> two\n! get x\n& get -w\n").unwrap();
    let sorts: Vec<_> = steps.iter().map(|step| (step.line, step.sort, step.shows.len())).collect();
    assert_eq!(sorts, [(3, Sort::Succeeds, 2), (6, Sort::Fails, 0), (7, Sort::GoesOn, 0)]);
    assert_eq!(steps[0].arguments, "get pods");
    assert!(read("> nothing yet").is_err());
    assert!(read("get pods").is_err());
}

#[test]
fn texts_must_be_there_in_their_order() {
    let texts = ["a".to_owned(), "b".to_owned()];
    assert_eq!(missing("a and b", &texts), None);
    assert_eq!(missing("b and a", &texts), Some("b"));
}
