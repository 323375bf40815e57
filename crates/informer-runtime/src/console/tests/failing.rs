//! Tests of the number of failing keys.

use tokio::sync::{Mutex, mpsc};

use super::*;
use crate::console::ControllerSnapshot;

#[tokio::test]
async fn key_is_failing_from_an_error_until_a_reconcile_without_one() {
    let (results, given) = mpsc::unbounded_channel::<Result<Outcome, ReconcileError>>();
    let given = Arc::new(Mutex::new(given));
    let controller = Controller::new::<Secret>("rotate").reconcile(move |_, _| {
        let given = Arc::clone(&given);
        async move { given.lock().await.recv().await.expect("a result") }
    });
    let trigger = controller.handle();
    let server = ApiServer::builder().build();
    let client = Client::from_service(server.service(), "default");
    let console = Console::from(here());
    let mut bound = console.server.bound();
    let manager = Manager::new(client).console(console).controller(controller);
    let data = manager.console_data();
    let task = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    bound.wait_for(Option::is_some).await.expect("it listens");

    let mut expected = 0;
    let mut reconcile = async |key: &str, result: Result<Outcome, ReconcileError>| -> ControllerSnapshot {
        results.send(result).expect("the reconciler runs");
        trigger.enqueue(key.parse().expect("a key"));
        expected += 1;
        loop {
            let controller = data.snapshot().controllers.remove(0);
            let of = &controller.results;
            if of.success + of.error + of.requeue + of.requeue_after == expected {
                return controller;
            }
            tokio::task::yield_now().await;
        }
    };
    let none = reconcile("default/other", Ok(Outcome::Done)).await;
    assert_eq!((none.failing, none.failing_seconds), (Some(0), None));
    let failed = reconcile("default/s", Err(ReconcileError::terminal("the vault is sealed"))).await;
    assert_eq!(failed.failing, Some(1), "although the key is not retried");
    assert!(failed.failing_seconds.is_some());
    let both = reconcile("default/other", Err(ReconcileError::terminal("sealed"))).await;
    assert_eq!(both.failing, Some(2));
    let other = reconcile("default/other", Ok(Outcome::Done)).await;
    assert_eq!(other.failing, Some(1));
    assert!(other.failing_seconds >= failed.failing_seconds, "the first failure counts");
    let requeued = reconcile("default/s", Ok(Outcome::requeue())).await;
    assert_eq!((requeued.failing, requeued.failing_seconds), (Some(0), None), "a requeue is no failure");
    task.abort();
}
