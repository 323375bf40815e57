use http::Request;

use super::{ForeignRequest, OriginPolicy};

fn check(
    policy: OriginPolicy<'_>,
    method: &str,
    uri: &str,
    headers: &[(&str, &str)],
) -> Result<(), ForeignRequest> {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (head, ()) = request.body(()).unwrap().into_parts();
    policy.check(&head.method, &head.uri, &head.headers)
}

#[test]
fn host_header_that_dns_rebinding_can_use_is_rejected() {
    let names = ["apiserver.test".to_owned()];
    let policy = OriginPolicy { hosts: Some(&names), links: false };
    let is_own = |uri: &str, headers: &[(&str, &str)]| check(policy, "GET", uri, headers).is_ok();
    for host in [
        "127.0.0.1",
        "127.0.0.1:8001",
        "[::1]:8001",
        "10.1.2.3:80",
        "localhost",
        "LOCALHOST:1",
        "localhost.:1",
        "a.localhost:1",
        "apiserver.test:8001",
        "APISERVER.TEST",
    ] {
        assert!(is_own("/api", &[("host", host)]), "{host}");
        assert!(is_own(&format!("http://{host}/api"), &[]), "{host} over HTTP/2");
    }
    for host in [
        "evil.example",
        "evil.example:8001",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evillocalhost",
        "x.apiserver.test",
        "user@evil.example",
        "",
    ] {
        assert!(!is_own("/api", &[("host", host)]), "{host}");
        let any = OriginPolicy { hosts: None, links: false };
        assert_eq!(check(any, "GET", "/api", &[("host", host)]), Ok(()), "each host is accepted: {host}");
    }
    let both = [("host", "127.0.0.1")];
    assert!(!is_own("http://evil.example/api", &both), "both Host and the authority of the URI are checked");
    assert!(!is_own("/api", &[("host", "127.0.0.1"), ("host", "evil.example")]));
    assert!(is_own("/api", &[]), "HTTP/1.0 has no Host, and no browser uses it");
}

#[test]
fn cross_origin_request_is_rejected() {
    let host = ("host", "127.0.0.1:8001");
    for policy in [OriginPolicy::default(), OriginPolicy { hosts: None, links: true }] {
        for origin in ["http://evil.example", "null", "http://127.0.0.1:3000", "http://localhost:8001", ""] {
            let checked = check(policy, "POST", "/api", &[host, ("origin", origin)]);
            assert_eq!(checked, Err(ForeignRequest::Origin(origin.to_owned())));
        }
        assert_eq!(check(policy, "POST", "/api", &[host, ("origin", "http://127.0.0.1:8001")]), Ok(()));
        for site in ["cross-site", "same-site"] {
            let checked = check(policy, "GET", "/api", &[host, ("sec-fetch-site", site)]);
            assert_eq!(checked, Err(ForeignRequest::Site), "{site}");
        }
        for site in ["none", "same-origin"] {
            assert_eq!(check(policy, "GET", "/api", &[host, ("sec-fetch-site", site)]), Ok(()), "{site}");
        }
    }
}

#[test]
fn link_of_another_site_is_accepted_only_if_it_opens_a_document() {
    let link =
        [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
    let frame =
        [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
    let links = OriginPolicy { links: true, ..OriginPolicy::default() };
    assert_eq!(check(links, "GET", "/", &link), Ok(()));
    assert_eq!(check(links, "GET", "/", &frame), Err(ForeignRequest::Site));
    assert_eq!(check(links, "POST", "/", &link), Err(ForeignRequest::Site), "a form of another site");
    assert_eq!(check(OriginPolicy::default(), "GET", "/", &link), Err(ForeignRequest::Site));
}
