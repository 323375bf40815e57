use std::time::Duration;

use super::*;

#[test]
fn events_stay_as_long_as_the_flag_says() {
    let events = Gvr::new("", "v1", "events");
    for (flag, seconds) in [("--event-ttl=20s", 20), ("--event-ttl=1h0m0s", 3600), ("--watch-cache", 3600)] {
        let given = Given::parse([flag.to_owned()], FLAGS).unwrap();
        let server = server(&given).unwrap();
        server.create(&events, "default", json!({"metadata": {"name": "e"}})).unwrap();
        server.advance(Duration::from_secs(seconds / 2));
        assert_eq!(server.list(&events, "default").unwrap().len(), 1, "{flag}");
        server.advance(Duration::from_secs(seconds / 2 + 1));
        assert_eq!(server.list(&events, "default").unwrap().len(), 0, "{flag}");
    }
}

#[test]
fn invalid_duration_is_rejected_and_names_its_flag() {
    for text in ["soon", "0s", ""] {
        let given = Given::parse([format!("--event-ttl={text}")], FLAGS).unwrap();
        let error = server(&given).unwrap_err().to_string();
        assert!(error.contains(&format!("invalid value {text:?} for flag --event-ttl")), "{error}");
    }
}
