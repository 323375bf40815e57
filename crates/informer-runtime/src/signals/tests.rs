use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// The environment variable `INFORMER_SIGNALS_CHILD`. It is set only in the child process that these tests
/// start.
const CHILD: &str = "INFORMER_SIGNALS_CHILD";

/// The program of the child process to which other tests send signals. Without the environment variable
/// `INFORMER_SIGNALS_CHILD`, as in an ordinary test run, this test does nothing.
#[test]
fn child_process_that_waits_for_signals() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let stop = super::ctrl_c();
        println!("it listens");
        stop.await;
        println!("it stops");
        std::future::pending::<()>().await;
    });
}

/// A child process of a test. It is killed when this value is dropped, also if the test fails.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn first_signal_resolves_and_second_exits_the_process() {
    for signal in ["-TERM", "-INT"] {
        let mut command = Command::new(std::env::current_exe().expect("it is running"));
        command.args(["--exact", "signals::tests::child_process_that_waits_for_signals", "--nocapture"]);
        let child = command.env(CHILD, "1").stdout(Stdio::piped()).spawn().expect("it can be started");
        let mut child = Ended(child);
        let mut lines = BufReader::new(child.0.stdout.take().expect("it is piped")).lines();
        let mut says = |what: &str| lines.by_ref().any(|line| line.is_ok_and(|line| line.contains(what)));
        let send = |pid: u32| Command::new("kill").args([signal, &pid.to_string()]).status();
        assert!(says("it listens"));
        assert!(send(child.0.id()).expect("kill is installed").success());
        assert!(says("it stops"), "after {signal}");
        assert!(send(child.0.id()).expect("kill is installed").success());
        let status = child.0.wait().expect("it ends");
        assert_eq!(status.code(), Some(super::SECOND_SIGNAL), "after the second {signal}");
    }
}
