use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use informer_apiserver::{ApiServer, FaultAction, FaultMatch, Tokens, User, Verb};
use rustls::version::{TLS12, TLS13};
use serde_json::json;
use tower::ServiceExt;

use super::limit::{UNKNOWN_BURST, UNKNOWN_PER_SECOND};
use super::*;
use crate::http_server::tests::{run, send, send_over_tls};
use crate::http_server::{HttpServer, TlsOptions, TlsVersion, text};

fn head(method: &str, path: &str, token: Option<&str>) -> Parts {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, token);
    }
    request.body(()).expect("a valid request").into_parts().0
}

/// Returns an API server with RBAC on which the user `scraper` may get `/metrics`, and a client that may
/// create reviews on that server.
fn cluster() -> (ApiServer, Client) {
    let mut tokens = Tokens::default();
    tokens.add("operator", User::new("operator").groups(["system:masters"]));
    tokens.add("scraper", User::new("scraper").groups(["scrapers"]));
    tokens.add("other", User::new("other"));
    let server = ApiServer::builder().tokens(tokens).rbac(true).build();
    let rbac = |resource: &str| Gvr::new("rbac.authorization.k8s.io", "v1", resource);
    let role = json!({
        "metadata": {"name": "metrics-reader"},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    });
    server.create(&rbac("clusterroles"), "", role).expect("a valid object");
    let binding = json!({
        "metadata": {"name": "metrics-reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics-reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "scrapers"}],
    });
    server.create(&rbac("clusterrolebindings"), "", binding).expect("a valid object");
    let client = operator_of(&server);
    (server, client)
}

fn operator_of(server: &ApiServer) -> Client {
    let service = server.service().map_request(|mut request: Request<Full<Bytes>>| {
        let bearer = http::HeaderValue::from_static("Bearer operator");
        request.headers_mut().insert(AUTHORIZATION, bearer);
        request
    });
    Client::from_service(service, "default")
}

fn server() -> (ApiServer, Access) {
    let (server, client) = cluster();
    (server, Access::new(client))
}

#[tokio::test(start_paused = true)]
async fn only_authorized_users_may_get_the_path() {
    let (_server, access) = server();
    let check = async |method, path, token| access.authorize(&head(method, path, token)).await.map(drop);
    assert_eq!(check("GET", "/metrics", Some("Bearer scraper")).await, Ok(()));
    assert_eq!(check("GET", "/metrics?x=y", Some("bearer scraper")).await, Ok(()));
    assert_eq!(check("POST", "/metrics", Some("Bearer scraper")).await, Err(Rejection::Forbidden));
    assert_eq!(check("GET", "/debug/queues", Some("Bearer scraper")).await, Err(Rejection::Forbidden));
    assert_eq!(check("GET", "/metrics", Some("Bearer other")).await, Err(Rejection::Forbidden));
    for token in [None, Some("Bearer nobody"), Some("Basic scraper"), Some("scraper"), Some("Bearer  ")] {
        assert_eq!(check("GET", "/metrics", token).await, Err(Rejection::Unauthorized), "{token:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn reviews_are_cached_and_renewed() {
    let (server, access) = server();
    let reviews = || server.requests().iter().filter(|request| request.verb == Verb::Create).count();
    let ask = async || access.authorize(&head("GET", "/metrics", Some("Bearer scraper"))).await.map(drop);
    let before = reviews();
    for _ in 0..10 {
        assert_eq!(ask().await, Ok(()));
    }
    assert_eq!(reviews() - before, 2);
    tokio::time::sleep(USER_TTL).await;
    assert_eq!(ask().await, Ok(()));
    assert_eq!(reviews() - before, 3, "the token is reviewed again, the permission is not");
    let binding = Gvr::new("rbac.authorization.k8s.io", "v1", "clusterrolebindings");
    server.delete(&binding, "", "metrics-reader").expect("it exists");
    tokio::time::sleep(PERMISSION_TTL).await;
    assert_eq!(ask().await, Err(Rejection::Forbidden));
}

#[tokio::test(start_paused = true)]
async fn requests_are_denied_while_reviews_fail() {
    let (server, access) = server();
    let broken =
        FaultAction::Status { code: 500, reason: None, message: None, retry_after: None, body: None };
    server.faults().on(FaultMatch::verb(Verb::Create)).then(broken);
    let ask = async || access.authorize(&head("GET", "/metrics", Some("Bearer scraper"))).await.map(drop);
    assert_eq!(ask().await, Err(Rejection::ReviewFailed));
    server.faults().clear();
    assert_eq!(ask().await, Ok(()), "a failure is not cached");
}

#[tokio::test]
async fn handlers_are_called_only_for_authorized_requests() {
    let (_cluster, client) = cluster();
    let page = HttpServer::at("127.0.0.1:0").route("/metrics", |_| async { text(StatusCode::OK, "figures") });
    let running = run(page.authorized_by(client).plain_http()).await;
    for (token, status) in [("", 401), ("nobody", 401), ("other", 403), ("scraper", 200)] {
        let token =
            if token.is_empty() { String::new() } else { format!("authorization: Bearer {token}\r\n") };
        let request = format!("GET /metrics HTTP/1.1\r\nhost: here\r\n{token}connection: close\r\n\r\n");
        let response = send(running.address, &request).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
        assert_eq!(response.ends_with("figures"), status == 200, "{response}");
    }
}

#[tokio::test]
async fn server_that_authorizes_requests_uses_tls_by_default() {
    let (_cluster, client) = cluster();
    let page =
        || HttpServer::at("127.0.0.1:0").route("/metrics", |_| async { text(StatusCode::OK, "figures") });
    let running = run(page().authorized_by(&client)).await;
    let request =
        "GET /metrics HTTP/1.1\r\nhost: here\r\nauthorization: Bearer scraper\r\nconnection: close\r\n\r\n";
    assert!(!send(running.address, request).await.contains("figures"), "plain HTTP is refused");
    let response = send_over_tls(running.address, request, &[&TLS12, &TLS13]).await.expect("a handshake");
    assert!(response.ends_with("figures"), "{response}");

    let options = TlsOptions::new().min_version(TlsVersion::Tls13);
    let running = run(page().authorized_by(&client).tls_options(options)).await;
    assert!(send_over_tls(running.address, request, &[&TLS13]).await.is_ok());
    assert!(send_over_tls(running.address, request, &[&TLS12]).await.is_err(), "TLS 1.2 is refused");
}

#[tokio::test(start_paused = true)]
async fn flood_of_unknown_tokens_is_rate_limited_and_known_users_are_still_served() {
    let (server, access) = server();
    let reviews = || server.count_requests(Verb::Create, "tokenreviews");
    let scrape = async || access.authorize(&head("GET", "/metrics", Some("Bearer scraper"))).await.map(drop);
    assert_eq!(scrape().await, Ok(()));
    let before = reviews();
    let mut limited = 0;
    for number in 0..1000 {
        let token = format!("Bearer random-{number}");
        match access.authorize(&head("GET", "/metrics", Some(&token))).await.map(drop) {
            Err(Rejection::Unauthorized) => {}
            Err(Rejection::TooManyRequests) => limited += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((reviews() - before, limited), (UNKNOWN_BURST as usize, 1000 - UNKNOWN_BURST as usize));
    assert_eq!(scrape().await, Ok(()), "remembered");
    tokio::time::sleep(USER_TTL).await;
    for number in 0..UNKNOWN_BURST {
        let _ = access
            .authorize(&head("GET", "/metrics", Some(&format!("Bearer later-{number}"))))
            .await
            .map(drop);
    }
    let one_more = access.authorize(&head("GET", "/metrics", Some("Bearer one-more"))).await.map(drop);
    assert_eq!(one_more, Err(Rejection::TooManyRequests));
    assert_eq!(scrape().await, Ok(()), "a token that was valid is reviewed again without a limit");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = reviews();
    for number in 0..100 {
        let _ = access
            .authorize(&head("GET", "/metrics", Some(&format!("Bearer last-{number}"))))
            .await
            .map(drop);
    }
    assert_eq!(reviews() - before, UNKNOWN_PER_SECOND as usize);
}

#[tokio::test(start_paused = true)]
async fn flood_of_forbidden_requests_is_rate_limited() {
    let (server, access) = server();
    let reviews = || server.count_requests(Verb::Create, "subjectaccessreviews");
    for number in 0..1000 {
        let path = format!("/debug/{number}");
        let refused =
            access.authorize(&head("GET", &path, Some("Bearer other"))).await.map(drop).unwrap_err();
        assert!(matches!(refused, Rejection::Forbidden | Rejection::TooManyRequests), "{refused:?}");
    }
    assert_eq!(reviews(), UNKNOWN_BURST as usize);
    assert_eq!(
        access.authorize(&head("GET", "/metrics", Some("Bearer scraper"))).await.map(drop),
        Err(Rejection::TooManyRequests)
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(access.authorize(&head("GET", "/metrics", Some("Bearer scraper"))).await.map(drop), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn valid_tokens_do_not_use_up_the_limit_for_unknown_ones() {
    let mut tokens = Tokens::default();
    tokens.add("operator", User::new("operator").groups(["system:masters"]));
    for number in 0..200 {
        tokens.add(format!("admin-{number}"), User::new("admin").groups(["system:masters"]));
    }
    let access = Access::new(operator_of(&ApiServer::builder().tokens(tokens).rbac(true).build()));
    for number in 0..200 {
        let token = format!("Bearer admin-{number}");
        assert_eq!(
            access.authorize(&head("GET", "/metrics", Some(&token))).await.map(drop),
            Ok(()),
            "{number}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_are_not_kept_in_memory() {
    let mut tokens = Tokens::default();
    tokens.add("operator", User::new("operator").groups(["system:masters"]));
    tokens.add("s3cret", User::new("jane").groups(["system:masters"]));
    let access = Access::new(operator_of(&ApiServer::builder().tokens(tokens).rbac(true).build()));
    assert_eq!(access.authorize(&head("GET", "/metrics", Some("Bearer s3cret"))).await.map(drop), Ok(()));
    assert_eq!(
        access.authorize(&head("GET", "/metrics", Some("Bearer gue55"))).await.map(drop),
        Err(Rejection::Unauthorized)
    );
    let held = format!("{:?} {:?}", access.users.lock(), access.permissions.lock());
    assert!(held.contains("jane"), "the results are cached: {held}");
    assert!(!held.contains("s3cret") && !held.contains("gue55"), "{held}");
}
