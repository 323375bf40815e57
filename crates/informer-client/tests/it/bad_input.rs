use std::time::Duration;

use informer_cache::source::SourceErrorKind::{self, *};
use informer_client::{Client, KubeListWatch, Lazy, Limits, ReadOptions, ResourceKind};
use informer_core::Object as _;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use crate::script::{Reply, first_list, list, script};

async fn failed(reply: Reply) -> (SourceErrorKind, String) {
    let (client, _) = script([reply]);
    let source = KubeListWatch::<Lazy<Pod>>::all(client).encodings(informer_client::Encodings::Json);
    let error = list(&source, first_list()).await.unwrap_err();
    (error.kind(), error.to_string())
}

#[tokio::test(start_paused = true)]
async fn invalid_list_response_is_reported_with_its_problem() {
    let cases = [
        ("hello", Protocol, "list pods: not JSON: expected an object at byte 0, found 'h'"),
        ("[1]", Protocol, "list pods: not JSON: expected an object at byte 0, found '['"),
        ("", Connection, "list pods: the response was cut off after 0 objects; the list is repeated"),
        (
            r#"{"kind":"PodList","items":[{"metadata":{"name":"x"}},{"meta"#,
            Connection,
            "list pods: the response was cut off after 1 objects; the list is repeated",
        ),
        (
            r#"{"kind":"NodeList","items":[{"metadata":{"name":"x"}}]}"#,
            Protocol,
            "list pods: expected a PodList, but it is \"NodeList\"; check group and kind",
        ),
        (
            r#"{"kind":"Status","status":"Success"}"#,
            Protocol,
            "list pods: expected a PodList, but it is \"Status\"; check group and kind",
        ),
        (
            r#"{"kind":"PodList","items":[{"kind":"Node","apiVersion":"v1","metadata":{"name":"x"}}]}"#,
            Protocol,
            "list pods: expected a PodList, but an item is Node of v1; check group and kind",
        ),
        (
            r#"{"kind":"PodList","metadata":{"resourceVersion":7},"items":[]}"#,
            Protocol,
            "list pods: the list's metadata is invalid: it needs resourceVersion and continue as strings, \
             remainingItemCount as a number",
        ),
    ];
    for (body, kind, error) in cases {
        assert_eq!(failed(Reply::ok(body)).await, (kind, error.to_owned()), "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn syntax_error_after_a_full_batch_reports_its_offset_in_the_response() {
    let items: Vec<String> =
        (0..1000).map(|number| format!(r#"{{"metadata":{{"name":"p{number}"}}}}"#)).collect();
    let begin = format!(r#"{{"kind":"PodList","items":[{}"#, items.join(","));
    let at = begin.len();
    let reply = Reply::status(200).header("content-type", "application/json").data(begin).data("x");
    let error = format!("list pods: not JSON: expected ',' or ']' at byte {at}, found 'x'");
    assert_eq!(failed(reply).await, (Protocol, error));
}

#[tokio::test(start_paused = true)]
async fn unexpected_content_type_is_reported() {
    let (kind, error) = failed(Reply::status(200).header("content-type", "text/html").data("<html>")).await;
    assert_eq!(kind, Protocol);
    assert_eq!(
        error,
        "list pods: the server responded with text/html instead of application/json; check that the address is that of an API server"
    );
}

#[tokio::test(start_paused = true)]
async fn undecodable_objects_of_a_list_are_quarantined() {
    let body = r#"{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[
        {"metadata":{"name":"good","resourceVersion":"1"}},
        {"spec":{}}, {"metadata":{}}, null, 7,
        {"metadata":{"name":"number","uid":"u","resourceVersion":2}},
        {"metadata":{"name":"twice"}}, {"metadata":{"name":"twice"}}]}"#;
    let (client, _) = script([Reply::ok(body)]);
    let read = list(&KubeListWatch::<Lazy<Pod>>::all(client), first_list()).await.unwrap();
    assert_eq!(read.keys(), ["good", "twice", "twice"]);
    let errors: Vec<String> = read.undecodable.iter().map(ToString::to_string).collect();
    let nameless = |error: &str| format!("an object without a readable name: {error}");
    assert_eq!(
        errors,
        [
            nameless("metadata: missing"),
            nameless("metadata.name: missing"),
            nameless("is not an object"),
            nameless("is not an object"),
            "number at version : metadata.resourceVersion: is not a string but a number".to_owned(),
        ]
    );
    assert_eq!(read.undecodable[4].uid(), "u");
}

#[tokio::test(start_paused = true)]
async fn limits_bound_object_size_list_size_and_nesting() {
    let limits = Limits { object_bytes: 1000, page_bytes: 5000, depth: 10 };
    let options = ReadOptions { limits, ..ReadOptions::default() };
    let begin = r#"{"kind":"PodList","items":["#;
    let line = format!("{begin}{{\"metadata\":{{\"name\":\"{}", "x".repeat(2000));
    let page = format!("{begin}{}", r#"{"metadata":{"name":"x"}},"#.repeat(1000));
    let deep = format!("{begin}{}", "[".repeat(11));
    let (client, _) = script([Reply::ok(line), Reply::ok(page), Reply::ok(deep)]);
    let source = KubeListWatch::<Lazy<Pod>>::all(client).read_options(options);
    for error in [
        "list pods: an object is over the limit of 1000 bytes (Limits::object_bytes)",
        "list pods: the list is over the limit of 5000 bytes (Limits::page_bytes)",
        "list pods: a value is nested over the limit of 10 brackets (Limits::depth)",
    ] {
        let failed = list(&source, first_list()).await.unwrap_err();
        assert_eq!((failed.kind(), failed.to_string().as_str()), (Protocol, error));
    }
}

#[tokio::test(start_paused = true)]
async fn lists_of_huge_objects_and_of_very_many_objects_are_read() {
    let cases: [Vec<usize>; 3] = [
        vec![1 << 20; 6],
        (0..2000).map(|number| if number == 999 { 5 << 20 } else { 40 }).collect(),
        vec![0; 50_000],
    ];
    for sizes in cases {
        let item = |(number, size): (usize, &usize)| {
            let metadata = format!(r#"{{"name":"o{number}","resourceVersion":"{}"}}"#, number + 1);
            format!(r#"{{"metadata":{metadata},"data":"{}"}}"#, "x".repeat(*size))
        };
        let items: Vec<String> = sizes.iter().enumerate().map(item).collect();
        let body = format!(
            r#"{{"kind":"ThingList","metadata":{{"resourceVersion":"9999999"}},"items":[{}]}}"#,
            items.join(",")
        );
        let frames = body.as_bytes().chunks(16 << 10);
        let reply = frames.fold(Reply::ok(""), |reply, frame| reply.data(frame.to_vec()));
        let kind = ResourceKind::new("example.com", "v1", "Thing", "things");
        let source = KubeListWatch::<Lazy<Value>>::of(script([reply]).0, kind);
        let read = list(&source, first_list()).await.unwrap();
        assert_eq!((read.items.len(), read.undecodable.len()), (sizes.len(), 0));
        for (number, (listed, item)) in read.items.iter().zip(&items).enumerate() {
            let object = listed.object();
            assert_eq!(object.key().as_str(), format!("o{number}"));
            assert_eq!(object.resource_version().as_u64(), Some(number as u64 + 1));
            assert!(object.json().unwrap() == item.as_str(), "object {number} differs");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn http_error_statuses_map_to_error_kinds() {
    let status = |code: u16, reason: &str, extra: &str| {
        let body =
            format!(r#"{{"kind":"Status","message":"the text","reason":"{reason}","code":{code}{extra}}}"#);
        Reply::status(code).header("content-type", "application/json").data(body)
    };
    let advice = "; check that the kind (its CustomResourceDefinition) exists on the server";
    let too_large = r#","details":{"causes":[{"reason":"ResourceVersionTooLarge"}],"retryAfterSeconds":1}"#;
    let cases = [
        (status(401, "Unauthorized", ""), Unauthorized, "; check the credentials"),
        (status(403, "Forbidden", ""), Forbidden, "; grant list and watch on it"),
        (status(404, "NotFound", ""), NotFound, advice),
        (status(406, "NotAcceptable", ""), Rejected, ""),
        (status(415, "UnsupportedMediaType", ""), Rejected, ""),
        (status(410, "Expired", ""), Expired, ""),
        (status(429, "TooManyRequests", ""), TooManyRequests, ""),
        (status(500, "InternalError", ""), Unavailable, ""),
        (status(504, "Timeout", ""), Unavailable, ""),
        (status(504, "Timeout", too_large), VersionTooLarge, ""),
    ];
    for (reply, kind, advice) in cases {
        let (found, error) = failed(reply).await;
        assert_eq!(found, kind, "{error}");
        assert!(error.starts_with("list pods: the server responded with "), "{error}");
        assert!(error.ends_with(&format!(": the text{advice}")), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_date_is_relative_to_the_date_header() {
    let refused = Reply::status(503)
        .header("date", "Wed, 01 Jan 2020 00:00:00 GMT")
        .header("retry-after", "Wed, 01 Jan 2020 00:01:30 GMT");
    let (client, _) = script([refused]);
    let error = list(&KubeListWatch::<Lazy<Pod>>::all(client), first_list()).await.unwrap_err();
    assert_eq!((error.kind(), error.retry_after()), (Unavailable, Some(Duration::from_secs(90))));
}

#[tokio::test(start_paused = true)]
async fn plain_text_error_response_is_read_and_bounded() {
    let overloaded =
        Reply::status(429).header("retry-after", "7").data("Too many requests, please try again later.\n");
    let (client, _) = script([overloaded]);
    let error = list(&KubeListWatch::<Lazy<Pod>>::all(client), first_list()).await.unwrap_err();
    assert_eq!((error.kind(), error.retry_after()), (TooManyRequests, Some(Duration::from_secs(7))));
    assert_eq!(
        error.to_string(),
        "list pods: the server responded with 429 TooManyRequests: Too many requests, please try again later."
    );
    let (_, error) =
        failed((0..100).fold(Reply::status(502), |reply, _| reply.data("x".repeat(1 << 16)))).await;
    assert!(error.len() < 400, "{} bytes", error.len());
    // An error response whose body stalls is reported by its status code, after a timeout for the body.
    assert_eq!(failed(Reply::status(403).stall()).await.0, Forbidden);
}

#[tokio::test(start_paused = true)]
async fn list_without_response_times_out() {
    let (client, _) = script([]);
    let error = list(&KubeListWatch::<Lazy<Pod>>::all(client), first_list()).await.unwrap_err();
    assert_eq!(error.kind(), Timeout);
    assert_eq!(
        error.to_string(),
        "list pods: no response within 75s; check that the address is an API server"
    );
}

#[tokio::test]
async fn refused_connection_has_its_own_error_kind() {
    // A loopback port without a listener. The port cannot be assigned to another process while this socket is
    // bound to it.
    let bound = tokio::net::TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = bound.local_addr().unwrap();
    let config = kube_client::Config::new(format!("http://{address}").parse().unwrap());
    let client = Client::new(config).unwrap();
    let error = list(&KubeListWatch::<Lazy<Pod>>::all(client), first_list()).await.unwrap_err();
    assert_eq!(error.kind(), ConnectionRefused);
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}
