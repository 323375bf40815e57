use std::io;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::script::RequestKind;

const MAX_HEAD_BYTES: usize = 32 << 10;

/// The maximum time from the acceptance of a connection until the complete request head has arrived.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) kind: RequestKind,
    /// The request in the format of traces: the kind, then the query parameters sorted by name. A random
    /// watch timeout is replaced by its range.
    pub(crate) text: String,
    /// The resourceVersion that a version check of this library checks: a list of one object, after a request
    /// without a response. `None` for every other request.
    pub(crate) version_check: Option<String>,
}

/// Reads the head of a request from the connection. All requests are `GET` requests, which have no body.
pub(crate) async fn read(stream: &mut TcpStream) -> io::Result<Option<Request>> {
    let mut head = Vec::new();
    let reading = async {
        let mut buffer = [0; 4096];
        while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < MAX_HEAD_BYTES {
            match stream.read(&mut buffer).await? {
                0 => break,
                count => head.extend_from_slice(&buffer[..count]),
            }
        }
        Ok::<_, io::Error>(())
    };
    match tokio::time::timeout(HEAD_TIMEOUT, reading).await {
        Ok(read) => read?,
        Err(_) => return Ok(None),
    }
    Ok(parse(&String::from_utf8_lossy(&head)))
}

fn parse(head: &str) -> Option<Request> {
    let (verb, rest) = head.split_once(' ')?;
    let (target, _) = rest.split_once(' ')?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut parameters: Vec<(String, String)> =
        form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    parameters.sort();
    let value = |name: &str| parameters.iter().find(|(each, _)| each == name).map(|(_, value)| value.clone());
    let is = |name: &str| value(name).is_some_and(|value| value == "true" || value == "1");
    let kind = match (is("watch"), is("sendInitialEvents"), value("continue").is_some()) {
        (true, true, _) => RequestKind::WatchList,
        (true, false, _) => RequestKind::Watch,
        (false, _, true) => RequestKind::Page,
        (false, _, false) => RequestKind::List,
    };
    let asks = kind == RequestKind::List
        && value("limit").as_deref() == Some("1")
        && value("resourceVersionMatch").as_deref() == Some("NotOlderThan");
    let version_check = value("resourceVersion").filter(|_| asks);
    let seconds = value("timeoutSeconds").and_then(|text| text.parse::<u64>().ok());
    let shown = parameters.iter().filter_map(|(name, value)| show(name, value, seconds));
    let query = shown.collect::<Vec<_>>().join("&");
    let verb = if verb == "GET" && path == "/api/v1/configmaps" {
        kind.to_string()
    } else {
        format!("{verb} {path}")
    };
    Some(Request { kind, text: format!("{verb} {query}").trim_end().to_owned(), version_check })
}

/// Formats a query parameter for comparison. The watch timeout is drawn at random from a range, so its range
/// is shown instead. client-go also sends that timeout a second time in another format, which no server
/// reads.
fn show(name: &str, value: &str, seconds: Option<u64>) -> Option<String> {
    let as_go_writes = |seconds: u64| match (seconds / 60, seconds % 60) {
        (minutes, seconds) if minutes > 0 => format!("{minutes}m{seconds}s"),
        (_, seconds) => format!("{seconds}s"),
    };
    match name {
        "watch" => None,
        "timeout" if seconds.is_some_and(|seconds| as_go_writes(seconds) == value) => None,
        "timeoutSeconds" if seconds.is_some_and(|seconds| (300..=600).contains(&seconds)) => {
            Some("timeoutSeconds=300..600".to_owned())
        }
        _ => Some(format!("{name}={value}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_recorded_with_its_kind_and_its_sorted_query() {
        for (target, kind, text) in [
            ("?resourceVersion=0&limit=500", RequestKind::List, "list limit=500&resourceVersion=0"),
            ("?limit=500&continue=a%2Bb", RequestKind::Page, "page continue=a+b&limit=500"),
            (
                "?watch=true&timeoutSeconds=420&timeout=7m0s&resourceVersion=7",
                RequestKind::Watch,
                "watch resourceVersion=7&timeoutSeconds=300..600",
            ),
            (
                "?watch=1&sendInitialEvents=true&timeoutSeconds=20",
                RequestKind::WatchList,
                "watch-list sendInitialEvents=true&timeoutSeconds=20",
            ),
            ("", RequestKind::List, "list"),
        ] {
            let head = format!("GET /api/v1/configmaps{target} HTTP/1.1\r\n\r\n");
            let request = Request { kind, text: text.to_owned(), version_check: None };
            assert_eq!(parse(&head), Some(request), "{target}");
        }
        assert_eq!(parse("GET / HTTP/1.1\r\n\r\n").map(|request| request.text), Some("GET /".to_owned()));
        assert_eq!(parse("nothing"), None);
    }

    #[test]
    fn a_list_with_limit_1_and_not_older_than_is_a_version_check() {
        let asked = |query: &str| {
            let head = format!("GET /api/v1/configmaps?{query} HTTP/1.1\r\n\r\n");
            parse(&head).and_then(|request| request.version_check)
        };
        let version_check = "limit=1&resourceVersion=10&resourceVersionMatch=NotOlderThan";
        assert_eq!(asked(version_check).as_deref(), Some("10"));
        assert_eq!(asked("limit=500&resourceVersion=10&resourceVersionMatch=NotOlderThan"), None);
        assert_eq!(asked(&format!("watch=1&{version_check}")), None);
    }
}
