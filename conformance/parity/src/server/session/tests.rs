use super::*;
use crate::script::RequestKind;

/// Classifies requests that arrive one after the other. Each number is the time in milliseconds from the last
/// response to the request.
fn waits(milliseconds: &[u64], prepare: impl FnOnce(&mut State)) -> Vec<String> {
    let begin = Instant::now();
    let mut state = State::begin(begin);
    let text = RequestKind::List.to_string();
    state.requests.push(Record { wait: Wait::First, text, skipped: Vec::new(), unscripted: false });
    prepare(&mut state);
    milliseconds.iter().map(|wait| state.wait(begin + Duration::from_millis(*wait)).to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_wait_within_the_range_of_the_next_backoff_step_counts_as_that_step() {
    // A wait of 1.7 s fits the first backoff step on a busy machine, and the second one. It counts as the
    // second step, because it follows a first one.
    assert_eq!(
        waits(&[0, 900, 1700, 300, 5000], |_| {}),
        ["at once", "backoff 0", "backoff 1", "at once", "backoff 2"]
    );
    assert_eq!(waits(&[780, 3300], |_| {}), ["backoff 0", "backoff 1"]);
}

#[tokio::test(start_paused = true)]
async fn waits_of_other_steps_and_of_no_step_are_reported() {
    assert_eq!(waits(&[3900], |_| {}), ["backoff 2 out of order"]);
    assert_eq!(waits(&[900, 900], |_| {}), ["backoff 0", "backoff 0 out of order"]);
    assert_eq!(
        waits(&[700, 90_000], |_| {}),
        ["after 700 ms, outside all backoff steps", "after 90000 ms, outside all backoff steps"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_wait_does_not_count_as_a_backoff_step() {
    let asked = |state: &mut State| state.retry_after = Some(Duration::from_secs(3));
    assert_eq!(waits(&[3050], asked), ["retry after"]);
    let asked = |state: &mut State| state.retry_after = Some(Duration::from_secs(3));
    assert_eq!(waits(&[900], asked), ["backoff 0"], "too early");
}

#[tokio::test(start_paused = true)]
async fn the_backoff_step_is_unknown_after_refused_connections() {
    let refused = |state: &mut State| state.refused = true;
    assert_eq!(waits(&[2000], refused), ["after refusal"]);
    let unknown = |state: &mut State| state.backoff = u32::MAX;
    assert_eq!(waits(&[3900], unknown), ["backoff 2"]);
}
