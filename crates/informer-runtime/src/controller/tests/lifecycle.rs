//! Tests of the start, warm-up and stop of a controller.

use super::*;

fn done() -> impl super::super::Reconciler {
    |_: Request, _: Context| async { Ok(Outcome::Done) }
}

fn slow(starts: &Arc<Mutex<u32>>, takes: Duration) -> impl source::Source<Request> {
    let starts = Arc::clone(starts);
    source::function("slow", move |enqueuer| {
        *starts.lock() += 1;
        async move {
            tokio::time::sleep(takes).await;
            enqueuer.enqueue(0).add(key("a"));
            Ok(())
        }
    })
}

#[tokio::test(start_paused = true)]
async fn no_reconcile_before_all_sources_have_synced() {
    let calls = Calls::new();
    let mut controller = scripted(&[("early", 0)], &calls, |_, _| Ok(Outcome::Done));
    let starts = Arc::default();
    controller.builder = controller.builder.source(slow(&starts, 5 * SECOND));
    let running = Running::start(controller);
    tokio::time::sleep(4 * SECOND).await;
    assert_eq!(calls.keys(), [""; 0]);
    assert_eq!(running.state().phase, ControllerPhase::Starting);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(calls.keys(), ["early", "a"]);
    assert_eq!(running.state().phase, ControllerPhase::Running);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn error_names_source_that_does_not_sync_in_time() {
    let forever = source::function("forever", |_| std::future::pending());
    let options = ControllerOptions::new().sync_timeout(10 * SECOND);
    let controller = Controller::builder().named("test").with_options(options).source(forever);
    let begin = Instant::now();
    let error = Running::start(controller.reconciler(done())).ended().await.unwrap_err();
    assert_eq!(
        error,
        "controller test: the source function forever did not deliver its initial objects within 10s and returned no error"
    );
    assert_eq!(begin.elapsed(), 11 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn timeouts_may_be_unlimited() {
    let calls = Calls::new();
    let noted = calls.clone();
    let options = ControllerOptions::new().sync_timeout(Duration::MAX).drain_within(Duration::MAX);
    let controller = Controller::builder().named("test").with_options(options).source(of(&[("a", 0)]));
    let running = Running::start(controller.reconciler(move |request: Request, _: Context| {
        noted.note(&request);
        async {
            tokio::time::sleep(300 * SECOND).await;
            Ok(Outcome::Done)
        }
    }));
    tokio::time::sleep(SECOND).await;
    running.stop().await.unwrap();
    assert_eq!((calls.keys(), calls.begin.elapsed()), (vec!["a".to_owned()], 300 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn default_sync_timeout_is_two_minutes() {
    let starts = Arc::default();
    let controller = Controller::builder().named("test").source(slow(&starts, 119 * SECOND));
    let running = Running::start(controller.reconciler(done()));
    tokio::time::sleep(120 * SECOND).await;
    assert_eq!(running.state().reconciles.success, 1);
    running.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn stop_while_sources_start_is_not_an_error() {
    let starts = Arc::default();
    let controller = Controller::builder().named("test").source(slow(&starts, 100 * SECOND));
    let running = Running::start(controller.reconciler(done()));
    tokio::time::sleep(SECOND).await;
    let begin = Instant::now();
    running.stop().await.unwrap();
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn failing_or_panicking_source_stops_the_controller_and_is_named() {
    let fails = source::function("broken", |_| async { Err("no such thing".into()) });
    let controller = Controller::builder().named("test").source(fails);
    let error = Running::start(controller.reconciler(done())).task.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "controller test: the source function broken failed to start");
    assert_eq!(error.source().unwrap().to_string(), "no such thing");
    let panics = source::function("broken", |_| async { panic!("oh no") });
    let controller = Controller::builder().named("test").source(panics);
    let error = Running::start(controller.reconciler(done())).task.await.unwrap().unwrap_err();
    assert_eq!(error.source().unwrap().to_string(), "it panicked: oh no");
}

#[tokio::test(start_paused = true)]
async fn sources_start_once_and_second_caller_waits() {
    let starts: Arc<Mutex<u32>> = Arc::default();
    let options = ControllerOptions::new().warm_up(true);
    let controller =
        Controller::builder().named("test").with_options(options).source(slow(&starts, 5 * SECOND));
    let controller = controller.reconciler(done());
    let handle = controller.handle();
    let mut runnable = controller.assemble(environment()).unwrap();
    let warm_up = runnable.warm_up().unwrap();
    let stop = CancellationToken::new();
    let warming = tokio::spawn(warm_up.run(stop.clone()));
    tokio::time::sleep(SECOND).await;
    let running = tokio::spawn(Box::new(runnable).run(stop.clone()));
    tokio::time::sleep(3 * SECOND).await;
    assert_eq!(handle.state().unwrap().phase, ControllerPhase::Starting);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(handle.state().unwrap().reconciles.success, 1);
    assert_eq!(*starts.lock(), 1);
    stop.cancel();
    running.await.unwrap().unwrap();
    warming.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn warm_up_fills_the_queue_without_reconciling() {
    let starts: Arc<Mutex<u32>> = Arc::default();
    let options = ControllerOptions::new().warm_up(true);
    let controller = Controller::builder().named("test").with_options(options).source(slow(&starts, SECOND));
    let controller = controller.reconciler(done());
    let handle = controller.handle();
    let mut runnable = controller.assemble(environment()).unwrap();
    let stop = CancellationToken::new();
    let warming = tokio::spawn(runnable.warm_up().unwrap().run(stop.clone()));
    tokio::time::sleep(60 * SECOND).await;
    let state = handle.state().unwrap();
    assert_eq!((state.phase, state.queue.ready, state.reconciles.success), (ControllerPhase::Created, 1, 0));
    handle.watch(of(&[("added", 0)])).await.unwrap();
    assert_eq!(handle.state().unwrap().queue.ready, 2, "a source added after the warm-up starts immediately");
    stop.cancel();
    warming.await.unwrap().unwrap();
    assert_eq!(handle.state().unwrap().sources, [""; 0], "a standby that stops drops its sources");
}

#[tokio::test(start_paused = true)]
async fn sources_do_not_start_early_without_warm_up() {
    let starts: Arc<Mutex<u32>> = Arc::default();
    let controller = Controller::builder().named("test").source(slow(&starts, SECOND));
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let environment = environment();
    let before = alive();
    let mut runnable = controller.reconciler(done()).assemble(environment).unwrap();
    assert!(runnable.warm_up().is_none());
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(*starts.lock(), 0, "a controller that does not run starts no source");
    assert_eq!(alive(), before);
}

#[tokio::test(start_paused = true)]
async fn second_start_is_rejected() {
    let controller = Controller::builder().named("test").source(of(&[("a", 0)])).reconciler(done());
    let runnable = controller.assemble(environment()).unwrap();
    let (engine, stop) = (Arc::clone(&runnable.engine), CancellationToken::new());
    let first = tokio::spawn(Arc::clone(&engine).run(stop.clone()));
    tokio::time::sleep(SECOND).await;
    let error = Arc::clone(&engine).run(stop.clone()).await.unwrap_err();
    assert!(matches!(error, ControllerError::StartedTwice { .. }), "{error}");
    stop.cancel();
    first.await.unwrap().unwrap();
    let error = engine.run(stop).await.unwrap_err();
    assert!(matches!(error, ControllerError::StartedTwice { .. }), "{error}");
}

/// Returns a controller whose reconciles take the time `takes`. If `tidy` is true, the reconciles end
/// immediately when the controller cancels them.
fn long(takes: Duration, tidy: bool) -> Controller {
    let options = ControllerOptions::new().drain_within(20 * SECOND);
    let controller = Controller::builder().named("test").with_options(options);
    controller.source(of(&[("a", 0), ("b", 0)])).reconcile(move |_, ctx| async move {
        tokio::select! {
            () = tokio::time::sleep(takes) => Ok(Outcome::Done),
            () = ctx.stopping().cancelled(), if tidy => Err("stopped".into()),
        }
    })
}

#[tokio::test(start_paused = true)]
async fn stop_lets_reconciles_finish_and_drops_queued_requests() {
    let running = Running::start(long(10 * SECOND, false));
    let handle = running.handle.clone();
    tokio::time::sleep(SECOND).await;
    let begin = Instant::now();
    running.stop().await.unwrap();
    assert_eq!(begin.elapsed(), 9 * SECOND);
    let state = handle.state().unwrap();
    assert_eq!((state.phase, state.reconciles.success), (ControllerPhase::Stopped, 1));
    handle.enqueue(key("late"));
    assert_eq!(handle.state().unwrap().queue.ready, 0);
}

#[tokio::test(start_paused = true)]
async fn reconciles_that_exceed_the_drain_time_are_cancelled() {
    let running = Running::start(long(1000 * SECOND, true));
    tokio::time::sleep(SECOND).await;
    let begin = Instant::now();
    running.stop().await.unwrap();
    assert_eq!(begin.elapsed(), 20 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn hanging_reconcile_is_dropped_and_named() {
    let running = Running::start(long(1000 * SECOND, false));
    let handle = running.handle.clone();
    tokio::time::sleep(SECOND).await;
    let begin = Instant::now();
    let error = running.stop().await.unwrap_err();
    assert_eq!(begin.elapsed(), 25 * SECOND);
    assert_eq!(error, "controller test: 1 reconciles did not end within 25s and were dropped, among them a");
    assert_eq!(handle.state().unwrap().reconciles.active, 0);
}

#[tokio::test(start_paused = true)]
async fn stopped_controller_leaves_no_task_and_no_source() {
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let (sender, receiver) = tokio::sync::mpsc::channel::<Arc<informer_core::Header>>(1);
    let channel = source::channel("c", receiver, crate::handler::enqueue_object());
    let controller = Controller::builder().named("test").source(channel);
    let running = Running::start(controller.reconciler(done()));
    tokio::time::sleep(SECOND).await;
    running.stop().await.unwrap();
    assert!(sender.is_closed());
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), before);
}
