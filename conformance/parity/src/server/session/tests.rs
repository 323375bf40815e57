use super::*;
use crate::script::RequestKind;

/// Classifies consecutive waits of these milliseconds.
fn waits(milliseconds: &[u64], prepare: impl FnOnce(&mut State)) -> Vec<String> {
    let begin = Instant::now();
    let mut state = State::begin(begin);
    let text = RequestKind::List.to_string();
    state.requests.push(Record { wait: Wait::First, text, skipped: Vec::new(), unscripted: false });
    prepare(&mut state);
    milliseconds.iter().map(|wait| state.wait(begin + Duration::from_millis(*wait)).to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_the_next_step_of_the_backoff_where_it_lies_in_its_range() {
    // 1.7 s could be the first step on a busy machine, and is the second step after the first.
    assert_eq!(
        waits(&[0, 900, 1700, 300, 5000], |_| {}),
        ["at once", "backoff 0", "backoff 1", "at once", "backoff 2"]
    );
    assert_eq!(waits(&[780, 3300], |_| {}), ["backoff 0", "backoff 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_another_step_is_out_of_order_and_one_of_none_is_odd() {
    assert_eq!(waits(&[3900], |_| {}), ["backoff 2 out of order"]);
    assert_eq!(waits(&[900, 900], |_| {}), ["backoff 0", "backoff 0 out of order"]);
    assert_eq!(
        waits(&[700, 90_000], |_| {}),
        ["after 700 ms, which is no step", "after 90000 ms, which is no step"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_time_that_the_server_asked_for_is_no_step() {
    let asked = |state: &mut State| state.retry_after = Some(Duration::from_secs(3));
    assert_eq!(waits(&[3050], asked), ["retry after"]);
    let asked = |state: &mut State| state.retry_after = Some(Duration::from_secs(3));
    assert_eq!(waits(&[900], asked), ["backoff 0"], "too early");
}

#[tokio::test(start_paused = true)]
async fn after_a_closed_port_no_step_is_known() {
    let refused = |state: &mut State| state.refused = true;
    assert_eq!(waits(&[2000], refused), ["after refusal"]);
    let unknown = |state: &mut State| state.backoff = u32::MAX;
    assert_eq!(waits(&[3900], unknown), ["backoff 2"]);
}
