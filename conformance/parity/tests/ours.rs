//! Tests the scripted server with the informer of this library: the server must play exactly the script. The
//! tests use real sockets and therefore real time, and they run concurrently.

use std::sync::Arc;

use informer_parity::{OurPeer, Peer, Script, run};

async fn requests(attempts: &str) -> Vec<String> {
    let script = Arc::new(
        Script::parse("test", &format!("about: a test\nattempts:\n{attempts}")).expect("the script is valid"),
    );
    let peer = Arc::new(Peer::Ours(OurPeer::default()));
    let trace = run(&script, &peer, "test").await.expect("the peer of this library does not fail");
    let requests = trace.streams(false, false).remove("requests").unwrap_or_default();
    requests.iter().map(|request| without_delay(request)).collect()
}

/// Removes the class of the wait from a line about a request, unless it is the first one or follows a
/// refusal. The class depends on how busy the machine is, so other tests check the classes in simulated time.
fn without_delay(request: &str) -> String {
    match request.split_once(": ") {
        Some((wait, request)) if !["first", "after refusal"].contains(&wait) => format!("next: {request}"),
        _ => request.to_owned(),
    }
}

const LIST: &str = "  - { expect: list, list: { version: 10, items: [a@5] } }\n";
const FIRST: &str = "first: list limit=500&resourceVersion=0";

fn watch(wait: &str, version: u32) -> String {
    format!("{wait}: watch allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds=300..600")
}

#[tokio::test]
async fn the_server_plays_the_attempts_of_a_script_in_order() {
    let closed = format!(
        "{LIST}  - {{ expect: watch, stream: [{{ added: b@11 }}], end: close }}\n  - {{ expect: watch, end: hold }}"
    );
    let reset = closed.replace("end: close", "end: reset");
    let refused = format!("{LIST}  - {{ refuse: 200ms }}\n  - {{ expect: watch, end: hold }}");
    let failed = format!("  - {{ expect: list, status: 500 }}\n{LIST}  - {{ expect: watch, end: hold }}");
    let skipped = format!("  - {{ expect: page, status: 500 }}\n{LIST}  - {{ expect: page, status: 500 }}");
    let (closed, reset, refused, failed, skipped) = tokio::join!(
        requests(&closed),
        requests(&reset),
        requests(&refused),
        requests(&failed),
        requests(&skipped)
    );
    assert_eq!(closed, [FIRST.to_owned(), watch("next", 10), watch("next", 11)]);
    assert_eq!(reset, closed);
    assert_eq!(refused, [FIRST.to_owned(), watch("after refusal", 10)]);
    assert_eq!(failed, [FIRST.to_owned(), FIRST.replace("first", "next"), watch("next", 10)]);
    assert_eq!(skipped, [format!("{FIRST} (no page)"), watch("next", 10) + " (unscripted)"]);
}

#[tokio::test]
async fn the_trace_contains_the_handler_calls_of_the_informer() {
    let attempts = "  - { expect: list, list: { version: 10, items: [\"a@5 app=web\"] } }\n  - expect: watch\n    \
        stream: [{ do: add late }, { deleted: a@11 app=web }, { do: remove late }, { added: b@12 }]\n    end: hold";
    let script = Arc::new(Script::parse("test", &format!("about: a test\nattempts:\n{attempts}")).unwrap());
    let trace = run(&script, &Arc::new(Peer::Ours(OurPeer::default())), "test").await.unwrap();
    let streams = trace.streams(false, true);
    assert_eq!(
        streams["handler first"],
        ["add default/a @5 initial", "delete default/a @11", "add default/b @12"]
    );
    assert_eq!(streams["handler late"], ["add default/a @5 initial", "delete default/a @11"]);
    assert_eq!(streams["transform"], ["default/a@11", "default/a@5", "default/b@12"]);
    assert_eq!(streams["store"][..2], ["check 1: store: default/b@12", "check 1: version: 12"]);
}
