use std::time::Duration;

use http::{Response, StatusCode, Uri};
use informer_apiserver::ApiServer;
use informer_client::Client;
use tokio::time::sleep;

use super::{HealthChecks, Probe};
use crate::{Manager, RunnableGroup, runnable};

async fn ask(checks: &HealthChecks, probe: Probe, uri: &'static str) -> (StatusCode, String) {
    let response = checks.respond(probe, &Uri::from_static(uri)).await;
    (response.status(), body(&response))
}

fn body(response: &Response<bytes::Bytes>) -> String {
    String::from_utf8_lossy(response.body()).into_owned()
}

fn checks() -> HealthChecks {
    let checks = HealthChecks::default();
    checks.add(Probe::Ready, "well", || async { Ok(()) });
    checks.add(Probe::Ready, "ill", || async { Err("has a cold".into()) });
    checks
}

#[tokio::test]
async fn endpoint_without_checks_is_ok_and_has_ping() {
    let none = HealthChecks::default();
    assert_eq!(ask(&none, Probe::Health, "/healthz").await, (StatusCode::OK, "ok".to_owned()));
    let verbose = ask(&none, Probe::Health, "/healthz?verbose").await.1;
    assert_eq!(verbose, "[+]ping ok\nhealthz check passed\n");
    assert_eq!(ask(&none, Probe::Health, "/healthz/ping").await.0, StatusCode::OK);
}

#[tokio::test]
async fn failed_check_fails_the_endpoint_and_withholds_its_reason() {
    let (status, page) = ask(&checks(), Probe::Ready, "/readyz").await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(page, "[-]ill failed: reason withheld\n[+]well ok\nreadyz check failed\n");
}

#[tokio::test]
async fn excluded_check_is_skipped_and_unknown_exclude_is_reported() {
    let (status, page) = ask(&checks(), Probe::Ready, "/readyz?verbose&exclude=ill&exclude=other").await;
    assert_eq!(status, StatusCode::OK);
    let warning = "warn: some health checks cannot be excluded: no matches for \"other\"";
    assert_eq!(page, format!("[+]ill excluded: ok\n[+]well ok\n{warning}\nreadyz check passed\n"));
}

#[tokio::test]
async fn single_check_returns_its_error() {
    let (status, page) = ask(&checks(), Probe::Ready, "/readyz/ill").await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(page, "internal server error: has a cold\n");
    assert_eq!(ask(&checks(), Probe::Ready, "/readyz/well").await, (StatusCode::OK, "ok".to_owned()));
    assert_eq!(ask(&checks(), Probe::Ready, "/readyz/unknown").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn checks_belong_to_one_endpoint() {
    assert_eq!(ask(&checks(), Probe::Health, "/healthz").await.0, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn hanging_or_panicking_check_fails() {
    let checks = HealthChecks::default();
    checks.add(Probe::Live, "hangs", std::future::pending);
    checks.add(Probe::Live, "panics", || async { panic!("in a check") });
    let begun = tokio::time::Instant::now();
    let (status, page) = ask(&checks, Probe::Live, "/livez").await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(page.contains("[-]hangs failed") && page.contains("[-]panics failed"), "{page}");
    assert_eq!(begun.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn livez_fails_without_heartbeat() {
    let checks = HealthChecks::default();
    let heartbeat = checks.heartbeat("loop", Duration::from_secs(10));
    sleep(Duration::from_secs(9)).await;
    assert_eq!(ask(&checks, Probe::Live, "/livez").await.0, StatusCode::OK);
    heartbeat.beat();
    sleep(Duration::from_secs(11)).await;
    assert_eq!(
        ask(&checks, Probe::Live, "/livez/loop").await.1,
        "internal server error: no heartbeat for 11s\n"
    );
    drop(heartbeat);
    assert_eq!(ask(&checks, Probe::Live, "/livez").await.0, StatusCode::OK, "a loop that has ended");
}

/// Returns a runnable that becomes ready when the token `open` is cancelled. A test uses it to delay the
/// start of later groups.
fn gate(group: RunnableGroup, open: &tokio_util::sync::CancellationToken) -> impl crate::Runnable + use<> {
    Gate { group, open: open.clone() }
}

struct Gate {
    group: RunnableGroup,
    open: tokio_util::sync::CancellationToken,
}

impl crate::Runnable for Gate {
    fn name(&self) -> String {
        "gate".to_owned()
    }

    fn group(&self) -> RunnableGroup {
        self.group
    }

    fn ready(
        &self,
        _: Duration,
    ) -> Option<futures_util::future::BoxFuture<'static, Result<(), crate::BoxError>>> {
        let open = self.open.clone();
        Some(Box::pin(async move {
            open.cancelled().await;
            Ok(())
        }))
    }

    fn run(
        self: Box<Self>,
        stop: tokio_util::sync::CancellationToken,
    ) -> futures_util::future::BoxFuture<'static, Result<(), crate::BoxError>> {
        Box::pin(async move {
            stop.cancelled().await;
            sleep(Duration::from_secs(1)).await;
            Ok(())
        })
    }
}

fn manager() -> Manager {
    Manager::new(Client::from_service(ApiServer::builder().build().service(), "default"))
}

#[tokio::test(start_paused = true)]
async fn manager_is_ready_after_caches_synced_and_not_while_stopping() {
    let open = tokio_util::sync::CancellationToken::new();
    let manager = manager().add(gate(RunnableGroup::Caches, &open));
    let handle = manager.handle();
    let checks = handle.health().clone();
    let running = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    sleep(Duration::from_secs(5)).await;
    assert_eq!(ask(&checks, Probe::Ready, "/readyz").await.0, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(ask(&checks, Probe::Live, "/livez").await.0, StatusCode::OK);
    assert_eq!(ask(&checks, Probe::Health, "/healthz").await.0, StatusCode::OK);
    open.cancel();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(ask(&checks, Probe::Ready, "/readyz").await.0, StatusCode::OK);
    handle.stop();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(ask(&checks, Probe::Ready, "/readyz").await.0, StatusCode::INTERNAL_SERVER_ERROR);
    running.await.expect("no panic").expect("a clean stop");
    assert_eq!(ask(&checks, Probe::Live, "/livez").await.0, StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test(start_paused = true)]
async fn manager_with_webhooks_is_ready_once_they_listen() {
    let open = tokio_util::sync::CancellationToken::new();
    let webhook = runnable("webhook", |stop: tokio_util::sync::CancellationToken| async move {
        stop.cancelled().await;
        Ok(())
    });
    let manager =
        manager().add(gate(RunnableGroup::Caches, &open)).add(webhook.group(RunnableGroup::Webhooks));
    let checks = manager.handle().health().clone();
    let _running = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    sleep(Duration::from_secs(5)).await;
    assert_eq!(ask(&checks, Probe::Ready, "/readyz").await.0, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn stalled_manager_loop_fails_all_endpoints() {
    let pages = [(Probe::Health, "/healthz"), (Probe::Ready, "/readyz"), (Probe::Live, "/livez")];
    let manager = manager();
    let checks = manager.handle().health().clone();
    // The manager's loop runs only while this test polls its future, so the test can stall the loop.
    let mut running = std::pin::pin!(manager.run_until(std::future::pending::<()>()));
    let started = async {
        sleep(Duration::from_secs(5)).await;
        for (probe, page) in pages {
            assert_eq!(ask(&checks, probe, page).await.0, StatusCode::OK, "{page}");
        }
    };
    tokio::select! {
        _ = &mut running => panic!("the manager ended"),
        () = started => {}
    }
    for (probe, page) in pages {
        let (status, text) = ask(&checks, probe, page).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{page}");
        assert!(text.contains("[-]manager failed"), "{text}");
    }
}
