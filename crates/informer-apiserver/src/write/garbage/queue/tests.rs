use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::TaskQueue;

#[test]
fn tasks_caused_by_a_task_run_after_it_and_not_within_it() {
    let (queue, log) = (TaskQueue::default(), RefCell::new(Vec::new()));
    fn task(queue: &TaskQueue<u32>, log: &RefCell<Vec<String>>, number: u32) {
        log.borrow_mut().push(format!("begin {number}"));
        if number < 2 {
            queue.run(number + 1, |number| task(queue, log, number));
        }
        log.borrow_mut().push(format!("end {number}"));
    }
    queue.run(0, |number| task(&queue, &log, number));
    assert_eq!(log.into_inner(), ["begin 0", "end 0", "begin 1", "end 1", "begin 2", "end 2"]);
}

#[test]
fn thread_runs_tasks_again_after_one_panicked() {
    let queue = TaskQueue::default();
    let failed = catch_unwind(AssertUnwindSafe(|| queue.run(1, |_: u32| panic!("on purpose"))));
    assert!(failed.is_err());
    let ran = RefCell::new(0);
    queue.run(2, |number| *ran.borrow_mut() = number);
    assert_eq!(ran.into_inner(), 2);
}
