use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::Settling;

#[test]
fn what_changes_while_another_thread_settles_it_is_settled_once_more() {
    let (settling, runs) = (Settling::default(), AtomicUsize::new(0));
    let (began, begins) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel();
    std::thread::scope(|scope| {
        let (settling, runs) = (&settling, &runs);
        scope.spawn(move || {
            settling.once("a", || {
                if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                    began.send(()).unwrap();
                    goes_on.recv().unwrap();
                }
            });
        });
        begins.recv().unwrap();
        settling.once("a", || panic!("it runs already"));
        go_on.send(()).unwrap();
    });
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[test]
fn what_leads_back_to_itself_runs_once() {
    let (settling, runs) = (Settling::default(), Cell::new(0));
    let run = || runs.set(runs.get() + 1);
    settling.once("a", || {
        run();
        settling.once("a", run);
        settling.once("b", run);
    });
    assert_eq!(runs.get(), 2);
    settling.once("a", run);
    assert_eq!(runs.get(), 3);
}
