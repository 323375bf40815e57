//! The paths of the proxy of consoles.

use http::{Method, Uri};

/// The path of the page, also of each program.
pub(super) const PAGE: &str = "/debug/informer";

/// The files of the page, below [`PAGE`].
const FILES: [&str; 4] = ["", "/", "/console.css", "/console.js"];

/// The data of a single target, below [`PAGE`]. Its page requests `/v1/targets` to find out whether it is
/// served by a proxy of several targets; a program responds with an empty list.
const DATA: [&str; 6] =
    ["/v1/snapshot", "/v1/events", "/v1/history", "/v1/targets", "/v1/objects", "/v1/object"];

/// The data of one of several targets, below its own path. The other data are in the events of all targets.
const DATA_OF_ONE: [&str; 3] = ["/v1/history", "/v1/objects", "/v1/object"];

/// The actions of a program, below [`PAGE`].
const ACTIONS: [&str; 3] = ["/v1/actions/requeue", "/v1/actions/relist", "/v1/actions/drop"];

/// The target and the path of a request to the proxy.
#[derive(Debug, PartialEq)]
pub(super) enum ProxyRoute {
    /// A file of the page for several targets, at this path below [`PAGE`].
    Page(String),
    /// The list of the targets.
    Targets,
    /// The events of all targets.
    Events,
    /// A request for a target, with its path and query below [`PAGE`].
    Forward { target: usize, path: String },
}

impl ProxyRoute {
    /// Returns the route of a request; `None` if it is not a path of the console. Other paths, such as those
    /// with `..`, could reach another part of a program with its token.
    ///
    /// The data and the actions of a single target are at their own paths. Those of the target with the
    /// number N of several targets are below `/v1/targets/N`.
    pub(super) fn new(method: &Method, uri: &Uri, targets: usize) -> Option<Self> {
        let path = uri.path().strip_prefix(PAGE)?;
        let is_action = *method == Method::POST;
        if targets == 1 {
            let is_known = if is_action {
                ACTIONS.contains(&path)
            } else {
                FILES.contains(&path) || DATA.contains(&path)
            };
            return is_known.then(|| Self::Forward { target: 0, path: with_query(path, uri) });
        }
        if !is_action && FILES.contains(&path) {
            return Some(Self::Page(path.to_owned()));
        }
        let rest = path.strip_prefix("/v1/targets")?;
        if !is_action && rest.is_empty() {
            return Some(Self::Targets);
        }
        let rest = rest.strip_prefix('/')?;
        if !is_action && rest == "events" {
            return Some(Self::Events);
        }
        let (number, _) = rest.split_once('/')?;
        let target = number.parse().ok().filter(|target| *target < targets && is_canonical(number))?;
        let path = format!("/v1{}", rest.strip_prefix(number)?);
        let known = if is_action { &ACTIONS[..] } else { &DATA_OF_ONE[..] };
        known.contains(&path.as_str()).then(|| Self::Forward { target, path: with_query(&path, uri) })
    }
}

/// Returns true for a number without a sign and without leading zeros.
fn is_canonical(number: &str) -> bool {
    number.bytes().all(|byte| byte.is_ascii_digit()) && (number == "0" || !number.starts_with('0'))
}

fn with_query(path: &str, uri: &Uri) -> String {
    uri.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(method: Method, uri: &str, targets: usize) -> Option<ProxyRoute> {
        ProxyRoute::new(&method, &uri.parse().unwrap(), targets)
    }

    fn forward(target: usize, path: &str) -> Option<ProxyRoute> {
        Some(ProxyRoute::Forward { target, path: path.to_owned() })
    }

    #[test]
    fn only_paths_of_the_console_are_forwarded() {
        let get = |uri: &str| route(Method::GET, uri, 1);
        assert_eq!(get("/debug/informer/"), forward(0, "/"));
        assert_eq!(get("/debug/informer/v1/targets"), forward(0, "/v1/targets"));
        assert_eq!(get("/debug/informer/v1/history?key=a%2Fb"), forward(0, "/v1/history?key=a%2Fb"));
        assert_eq!(get("/debug/informer/v1/object?key=a"), forward(0, "/v1/object?key=a"));
        let invalid = [
            "/",
            "/metrics",
            "/debug/informer/../../metrics",
            "/debug/informer/%2e%2e/metrics",
            "/debug/informer//v1/events",
            "/debug/informer/v1/targets/0/events",
            "/debug/informer/v1/actions/relist",
        ];
        for path in invalid {
            assert_eq!(get(path), None, "{path}");
        }
        let post = |uri: &str| route(Method::POST, uri, 1);
        assert_eq!(post("/debug/informer/v1/actions/relist"), forward(0, "/v1/actions/relist"));
        assert_eq!(post("/debug/informer/v1/events"), None);
    }

    #[test]
    fn each_of_several_targets_has_its_own_paths() {
        let get = |uri: &str| route(Method::GET, uri, 2);
        assert_eq!(get("/debug/informer/console.js"), Some(ProxyRoute::Page("/console.js".to_owned())));
        assert_eq!(get("/debug/informer/v1/targets"), Some(ProxyRoute::Targets));
        assert_eq!(get("/debug/informer/v1/targets/events"), Some(ProxyRoute::Events));
        assert_eq!(get("/debug/informer/v1/targets/1/history?key=a"), forward(1, "/v1/history?key=a"));
        assert_eq!(get("/debug/informer/v1/targets/0/objects?limit=1"), forward(0, "/v1/objects?limit=1"));
        let invalid = [
            "/debug/informer/v1/snapshot",
            "/debug/informer/v1/targets/",
            "/debug/informer/v1/targets/1",
            "/debug/informer/v1/targets/1/snapshot",
            "/debug/informer/v1/objects",
            "/debug/informer/v1/targets/1/events",
            "/debug/informer/v1/targets/1/targets",
            "/debug/informer/v1/targets/2/history",
            "/debug/informer/v1/targets/01/history",
            "/debug/informer/v1/targets/+1/history",
            "/debug/informer/v1/targets/1/../../metrics",
            "/debug/informer/v1/targets/1/actions/relist",
            "/debug/informer/v1/targets/99999999999999999999/history",
        ];
        for path in invalid {
            assert_eq!(get(path), None, "{path}");
        }
        let post = |uri: &str| route(Method::POST, uri, 2);
        assert_eq!(post("/debug/informer/v1/targets/0/actions/drop"), forward(0, "/v1/actions/drop"));
        for path in ["", "/console.js", "/v1/targets", "/v1/targets/events", "/v1/actions/drop"] {
            assert_eq!(post(&format!("/debug/informer{path}")), None, "{path}");
        }
    }
}
