//! The HTTP responses of the health endpoints `/healthz`, `/readyz` and `/livez`, with kube-apiserver's
//! messages.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::panic::AssertUnwindSafe;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::join_all;
use http::{Response, StatusCode, Uri};

use super::{CHECK_TIMEOUT, Check, HealthChecks, Probe};
use crate::BoxError;
use crate::http_server::text;

impl HealthChecks {
    /// Responds to a request for a health endpoint, or for a single check in a path such as `/readyz/NAME`.
    pub(crate) async fn respond(&self, probe: Probe, uri: &Uri) -> Response<Bytes> {
        let below = uri.path().trim_start_matches('/').strip_prefix(probe.page()).unwrap_or_default();
        match below.trim_matches('/') {
            "" => self.all(probe, uri.query().unwrap_or_default()).await,
            name => self.one(probe, name).await,
        }
    }

    async fn one(&self, probe: Probe, name: &str) -> Response<Bytes> {
        let check = self.of(probe).into_iter().find(|(other, _)| other == name);
        let Some((_, check)) = check else {
            return match (probe, name) {
                (_, "ping") => text(StatusCode::OK, "ok"),
                _ => text(StatusCode::NOT_FOUND, "404 page not found\n"),
            };
        };
        match run(check).await {
            Ok(()) => text(StatusCode::OK, "ok"),
            Err(error) => {
                text(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {error}\n"))
            }
        }
    }

    async fn all(&self, probe: Probe, query: &str) -> Response<Bytes> {
        let mut excluded = parameters(query, "exclude");
        let verbose = query.split('&').any(|part| part == "verbose" || part.starts_with("verbose="));
        let checks = self.of(probe);
        let selected = checks.iter().filter(|(name, _)| !excluded.contains(name));
        let selected: Vec<(&String, _)> = selected.map(|(name, check)| (name, run(check.clone()))).collect();
        let (names, runs): (Vec<&String>, Vec<_>) = selected.into_iter().unzip();
        let results: Vec<(&String, bool)> = names
            .into_iter()
            .zip(join_all(runs).await)
            .map(|(name, result)| (name, result.is_ok()))
            .collect();
        let mut page = String::new();
        for (name, _) in &checks {
            let line = match results.iter().find(|(selected, _)| *selected == name) {
                Some((_, true)) => writeln!(page, "[+]{name} ok"),
                Some((_, false)) => writeln!(page, "[-]{name} failed: reason withheld"),
                None => writeln!(page, "[+]{name} excluded: ok"),
            };
            line.expect("writing to a String does not fail");
            excluded.remove(name);
        }
        if checks.is_empty() {
            page.push_str("[+]ping ok\n");
        }
        if !excluded.is_empty() {
            let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
            let names = names.join(", ");
            writeln!(page, "warn: some health checks cannot be excluded: no matches for {names}")
                .expect("writing to a String does not fail");
        }
        let failed = results.iter().any(|(_, ok)| !ok);
        let verdict = if failed { "failed" } else { "passed" };
        writeln!(page, "{} check {verdict}", probe.page()).expect("writing to a String does not fail");
        match (failed, verbose) {
            (true, _) => text(StatusCode::INTERNAL_SERVER_ERROR, page),
            (false, true) => text(StatusCode::OK, page),
            (false, false) => text(StatusCode::OK, "ok"),
        }
    }
}

/// Returns the decoded values of all query parameters with this name, such as the names of excluded health
/// checks in `?exclude=NAME`.
fn parameters(query: &str, parameter: &str) -> BTreeSet<String> {
    let pairs = form_urlencoded::parse(query.as_bytes());
    pairs.filter(|(name, _)| name == parameter).map(|(_, value)| value.into_owned()).collect()
}

async fn run(check: Check) -> Result<(), BoxError> {
    let checked = AssertUnwindSafe(async move { check().await }).catch_unwind();
    match tokio::time::timeout(CHECK_TIMEOUT, checked).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err("the check panicked".into()),
        Err(_) => Err(format!("no response within {CHECK_TIMEOUT:?}").into()),
    }
}
