use super::*;

fn problem(text: &str) -> String {
    Script::parse("bad", text).unwrap_err().to_string()
}

#[test]
fn a_script_is_parsed_with_its_responses_in_order() {
    let text = r#"
about: everything once
streaming: true
attempts:
  - refuse: 2s
  - { expect: list, delay: 100ms, status: { code: 503, retry-after: 3 } }
  - { expect: list, drop: reset }
  - { expect: list, list: { version: 10, items: ["a@5 app=web", "kube/b@6#2"], continue: more } }
  - { expect: page, list: { version: 10, broken: cut } }
  - expect: watch-list
    stream:
      - { added: c@11 }
      - { end-bookmark: 12 }
      - { error: 410 }
      - { half: d@13 }
      - { do: check }
      - { wait: 5ms }
    end: cut-chunk
"#;
    let script = Script::parse("all", text).unwrap();
    assert_eq!((script.name.as_str(), script.streaming, script.attempts.len()), ("all", true, 6));
    assert!(matches!(script.attempts[0].response, Response::Refuse(time) if time == Duration::from_secs(2)));
    assert!(
        matches!(&script.attempts[1].response, Response::Status(status) if status.retry_after == Some(3))
    );
    let Response::List(list) = &script.attempts[3].response else { panic!("{:?}", script.attempts[3]) };
    let list: serde_json::Value = serde_json::from_str(&list.body).unwrap();
    assert_eq!(list["items"][0]["metadata"]["labels"]["app"], "web");
    assert_eq!(list["items"][1]["metadata"]["uid"], "uid-2");
    assert_eq!(list["metadata"]["continue"], "more");
    let Response::Stream(steps, End::CutChunk) = &script.attempts[5].response else {
        panic!("{:?}", script.attempts[5])
    };
    assert_eq!(steps.len(), 6);
    let Step::Send(mark) = &steps[1] else { panic!("{steps:?}") };
    assert!(mark.contains("initial-events-end") && mark.ends_with('\n'), "{mark}");
}

#[test]
fn an_invalid_script_is_rejected_with_the_position_and_the_problem() {
    for (text, expected) in [
        ("about: x\nattempts: []", "the script has no attempts"),
        ("about: x\nattempts: [{ expect: list }]", "attempt 1: the attempt has 0 responses"),
        (
            "about: x\nattempts: [{ expect: list, status: 500, drop: cut }]",
            "attempt 1: the attempt has 2 responses",
        ),
        ("about: x\nattempts: [{ expect: list, status: 299 }]", "set `reason`"),
        (
            "about: x\nattempts: [{ expect: list, stream: [], end: hold }]",
            "a list request cannot have a stream as response",
        ),
        (
            "about: x\nattempts: [{ expect: watch, stream: [{ added: a@1, wait: 1s }], end: hold }]",
            "step 1: the step has 2 actions",
        ),
        ("about: x\nattempts: [{ expect: watch, stream: [{ added: a }], end: hold }]", "is not an object"),
        ("about: x\nattempts: [{ expect: watch, stream: [] }]", "a stream needs an `end`"),
        ("about: x\nattempts: [{ refuse: 90s }]", "is not a duration"),
        ("about: x\nattempts: [{ status: 500 }]", "`expect` is missing"),
        ("about: x\nattempts: [{ expect: poll, status: 500 }]", "unknown variant"),
        ("about: x\nattempt: []", "unknown field"),
        ("attempts: [", "script bad"),
    ] {
        let problem = problem(text);
        assert!(problem.contains(expected), "{text}: {problem}");
    }
}
