use http::Request;

use super::check;

fn code(method: &str, uri: &str, headers: &[(&str, &str)]) -> u16 {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (head, ()) = request.body(()).unwrap().into_parts();
    check(&head, &["apiserver.test".to_owned()]).map_or_else(|error| error.code(), |()| 200)
}

#[test]
fn host_header_that_dns_rebinding_can_use_is_rejected() {
    let own = [
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
    ];
    for host in own {
        assert_eq!(code("GET", "/api", &[("host", host)]), 200, "{host}");
        assert_eq!(code("GET", &format!("http://{host}/api"), &[]), 200, "{host} over HTTP/2");
    }
    let foreign = [
        "evil.example",
        "evil.example:8001",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evillocalhost",
        "x.apiserver.test",
        "user@evil.example",
        "",
    ];
    for host in foreign {
        assert_eq!(code("GET", "/api", &[("host", host)]), 403, "{host}");
    }
    assert_eq!(
        code("GET", "http://evil.example/api", &[("host", "127.0.0.1")]),
        403,
        "both Host and the authority of the URI are checked"
    );
    assert_eq!(code("GET", "/api", &[("host", "127.0.0.1"), ("host", "evil.example")]), 403);
    assert_eq!(code("GET", "/api", &[]), 200, "HTTP/1.0 has no Host, and no browser uses it");
}

#[test]
fn cross_origin_request_is_rejected() {
    let host = ("host", "127.0.0.1:8001");
    for origin in ["http://evil.example", "null", "http://127.0.0.1:3000", "http://localhost:8001", ""] {
        assert_eq!(code("POST", "/api", &[host, ("origin", origin)]), 403, "{origin}");
    }
    let typed = ("content-type", "application/json");
    assert_eq!(code("POST", "/api", &[host, ("origin", "http://127.0.0.1:8001"), typed]), 200);
    for site in ["cross-site", "same-site"] {
        assert_eq!(code("GET", "/api", &[host, ("sec-fetch-site", site)]), 403, "{site}");
    }
    for site in ["none", "same-origin"] {
        assert_eq!(code("GET", "/api", &[host, ("sec-fetch-site", site)]), 200, "{site}");
    }
}

#[test]
fn browser_request_with_body_requires_content_type() {
    let host = ("host", "127.0.0.1:8001");
    let browsers = [("origin", "http://127.0.0.1:8001"), ("sec-fetch-site", "same-origin")];
    for method in ["POST", "PUT", "PATCH"] {
        for browser in browsers {
            assert_eq!(code(method, "/api", &[host, browser]), 415, "{method} {browser:?}");
            assert_eq!(
                code(method, "/api", &[host, browser, ("content-type", "")]),
                415,
                "{method} {browser:?}"
            );
        }
        assert_eq!(code(method, "/api", &[host]), 200, "curl and client-go may omit Content-Type");
    }
}
