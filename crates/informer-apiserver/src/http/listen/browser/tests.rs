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
fn request_of_a_foreign_page_is_rejected_with_403() {
    let host = ("host", "127.0.0.1:8001");
    assert_eq!(code("GET", "/api", &[host]), 200);
    assert_eq!(code("GET", "/api", &[("host", "apiserver.test:8001")]), 200);
    assert_eq!(code("GET", "/api", &[("host", "evil.example")]), 403);
    assert_eq!(code("GET", "/api", &[host, ("origin", "http://evil.example")]), 403);
    assert_eq!(code("GET", "/api", &[host, ("sec-fetch-site", "same-site")]), 403);
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
