use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::{FaultAction, FaultFile, FaultMatch, Faults, RequestHook};
use crate::requests::{RequestRecord, Verb};

fn watch() -> Arc<RequestRecord> {
    Arc::new(RequestRecord {
        number: 1,
        at: Duration::ZERO,
        verb: Verb::Watch,
        gvr: None,
        namespace: None,
        name: None,
        subresource: None,
        path: "/api/v1/pods".to_owned(),
        query: "watch=true".to_owned(),
        resource_version: String::new(),
        user_agent: String::new(),
        user: String::new(),
        is_apply: false,
        status: Default::default(),
    })
}

#[test]
fn ended_watches_are_dropped_and_open_watches_receive_later_faults() {
    let faults = Faults::default();
    let open: Vec<_> = (0..10).map(|_| faults.plan(&watch()).open).collect();
    (0..10_000).for_each(|_| drop(faults.plan(&watch())));
    let remembered = faults.open.lock().len();
    assert!((10..100).contains(&remembered), "{remembered} of 10,010, where 10 are open");
    let stalled = faults.on(FaultMatch::default()).stall_after(0);
    assert_eq!(stalled.fired(), open.len() as u64, "the fault applies to the open watches");
}

/// Delays watches, and collects the statuses of responses.
#[derive(Debug, Default)]
struct DelayWatches {
    statuses: Mutex<Vec<u16>>,
}

impl RequestHook for DelayWatches {
    fn request(&self, request: &RequestRecord) -> Vec<FaultAction> {
        let delay = FaultAction::Delay { millis: 30 };
        if request.verb == Verb::Watch { vec![delay] } else { Vec::new() }
    }

    fn response(&self, _: &RequestRecord, status: u16) {
        self.statuses.lock().push(status);
    }
}

#[test]
fn hook_chooses_faults_in_addition_to_the_rules() {
    let faults = Faults::default();
    let _rule = faults.on(FaultMatch::default()).then(FaultAction::Delay { millis: 10 });
    assert!(faults.set_hook(Arc::new(DelayWatches::default())).is_ok());
    assert_eq!(faults.plan(&watch()).delay, Duration::from_millis(40));
    let list = RequestRecord { verb: Verb::List, ..RequestRecord::clone(&watch()) };
    assert_eq!(faults.plan(&Arc::new(list)).delay, Duration::from_millis(10));
    assert!(faults.set_hook(Arc::new(DelayWatches::default())).is_err(), "a server has one hook");
}

#[tokio::test]
async fn hook_receives_the_status_of_each_response() {
    use tower::ServiceExt;

    let server = crate::ApiServer::builder().build();
    let hook = Arc::new(DelayWatches::default());
    assert!(server.faults().set_hook(Arc::clone(&hook) as Arc<dyn RequestHook>).is_ok());
    let _fault = server.faults().on(FaultMatch::path("/version")).status(500);
    for path in ["/api/v1/namespaces/default", "/api/v1/namespaces/absent", "/version"] {
        let request = http::Request::get(path).body(http_body_util::Empty::<bytes::Bytes>::new());
        server.service().oneshot(request.expect("a valid request")).await.expect("a response");
    }
    assert_eq!(*hook.statuses.lock(), [200, 404, 500]);
}

#[test]
fn fault_is_injected_only_into_selected_open_watches() {
    let faults = Faults::default();
    let other = RequestRecord { user: "other".to_owned(), ..RequestRecord::clone(&watch()) };
    let open: Vec<_> =
        [watch(), Arc::new(other)].iter().filter_map(|request| faults.plan(request).open).collect();
    let expire = FaultAction::Expire { after_events: 0 };
    let selected = faults.inject_into_open_watches(|request| request.user == "other", &expire);
    assert_eq!(selected, 1);
    assert!(open[0].take().is_empty());
    assert_eq!(open[1].take(), [expire]);
    let delay = FaultAction::Delay { millis: 1 };
    assert_eq!(faults.inject_into_open_watches(|_| true, &delay), 0, "a delay is no fault of an open watch");
}

/// A request for the Pod `default/web-0`, or for the collection of a list, watch or create.
fn request(verb: Verb, subresource: Option<&str>, query: &str, is_apply: bool) -> RequestRecord {
    let collection = matches!(verb, Verb::List | Verb::Watch | Verb::Create);
    RequestRecord {
        verb,
        namespace: Some("default".to_owned()),
        name: (!collection).then(|| "web-0".to_owned()),
        subresource: subresource.map(str::to_owned),
        query: query.to_owned(),
        is_apply,
        ..RequestRecord::clone(&watch())
    }
}

#[test]
fn match_selects_subresources_applies_and_writes() {
    let requests = [
        request(Verb::Get, None, "", false),
        request(Verb::Create, None, "", false),
        request(Verb::Update, Some("status"), "", false),
        request(Verb::Patch, None, "", false),
        request(Verb::Patch, None, "force=true", true),
        request(Verb::Patch, Some("status"), "", true),
        request(Verb::Delete, None, "", false),
    ];
    let selected = |on: &str| {
        let file = FaultFile::parse(&format!("[{{match: {on}, action: {{status: {{code: 500}}}}}}]"));
        let on = file.expect("the rule is valid").faults.remove(0).on;
        let selected = requests.iter().enumerate().filter(|(_, request)| on.matches(request));
        selected.map(|(index, _)| index).collect::<Vec<_>>()
    };
    assert_eq!(selected("{}"), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(selected("{subresource: ''}"), [0, 1, 3, 4, 6]);
    assert_eq!(selected("{subresource: status}"), [2, 5]);
    assert_eq!(selected("{verb: patch, apply: true}"), [4, 5]);
    assert_eq!(selected("{verb: patch, apply: false}"), [3]);
    assert_eq!(selected("{write: true}"), [1, 2, 3, 4, 5, 6]);
    assert_eq!(selected("{write: true, subresource: status}"), [2, 5]);
    assert_eq!(selected("{write: false}"), [0]);
}

#[test]
fn initial_list_matches_lists_and_streaming_lists_but_no_further_page() {
    let on = FaultMatch { initial_list: Some(true), ..FaultMatch::default() };
    let matches = |verb, query| on.matches(&request(verb, None, query, false));
    assert!(matches(Verb::List, ""));
    assert!(matches(Verb::List, "limit=500&continue="));
    assert!(!matches(Verb::List, "limit=500&continue=abc"), "the second page");
    assert!(matches(Verb::Watch, "watch=true&sendInitialEvents=true&allowWatchBookmarks=true"));
    assert!(!matches(Verb::Watch, "watch=true&sendInitialEvents=false"));
    assert!(!matches(Verb::Watch, "watch=true&resourceVersion=7"));
    assert!(!matches(Verb::Get, ""));
}

#[test]
fn named_matches_the_namespace_and_name_in_the_path() {
    let on = FaultMatch::default().named("default/web-0");
    assert!(on.matches(&request(Verb::Delete, None, "", false)));
    assert!(!on.matches(&request(Verb::List, None, "", false)));
    assert!(!FaultMatch::default().named("other/web-0").matches(&request(Verb::Delete, None, "", false)));
    assert!(FaultMatch::default().in_namespace("default").matches(&request(Verb::List, None, "", false)));
}

#[test]
#[should_panic(expected = "a create request has no name in its path; use in_namespace")]
fn create_requests_cannot_be_matched_by_name() {
    let _ = FaultMatch::verb(Verb::Create).named("default/web-0");
}
