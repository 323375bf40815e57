use super::error_event;
use crate::source::WatchEvent;

#[test]
fn error_event_has_the_code_and_reason_of_its_status() {
    let WatchEvent::Error(status) = error_event::<()>(429, "TooManyRequests") else {
        panic!("expected an error event");
    };
    assert_eq!((status.code, status.reason.as_str()), (429, "TooManyRequests"));
}
