//! Processes that outlive the command that started them, and are stopped by a later one.
//!
//! A process is known by its pid and by its *identity*, which holds when it was started and what it runs: a
//! pid alone may belong to somebody else by now, and nobody else's process is ever sent a signal.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::deadline::Deadline;

/// A server has this long for its orderly end; a kube-apiserver with open watches takes part of it.
const GRACE: Duration = Duration::from_secs(30);

/// What can be said to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// End in order.
    End,
    /// End at once.
    Kill,
    /// Hold.
    Pause,
    /// Go on.
    Resume,
}

/// A process that was started here.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// What tells it from another process that got its pid later.
    identity: String,
}

impl Process {
    /// Starts a program in a process group of its own, so that a Ctrl-C for the command does not reach it.
    pub(crate) fn start(program: &Path, arguments: &[String], log: &Path) -> io::Result<Self> {
        let output = File::options().create(true).append(true).open(log)?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        if let Some(folder) = log.parent() {
            command.current_dir(folder);
        }
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let pid = command.spawn()?.id();
        // Between fork and exec the process still has the name of this one.
        let program = program.to_string_lossy();
        let identity = Deadline::after(Duration::from_secs(5))
            .poll(|| identity(pid).filter(|identity| identity.contains(&*program)))
            .ok_or_else(|| io::Error::other("it ended at once"))?;
        Ok(Self { pid, identity })
    }

    /// The processes of a program, whoever started them.
    pub(crate) fn all_of(program: &Path) -> Vec<Self> {
        let program = program.to_string_lossy();
        let runs =
            |pid: &u32| command_line(*pid).is_some_and(|line| line.split(' ').next() == Some(&*program));
        let all = pids().into_iter().filter(runs);
        all.filter_map(|pid| Some(Self { pid, identity: identity(pid)? })).collect()
    }

    /// Whether it is still there, and still the same program.
    pub(crate) fn runs(&self) -> bool {
        identity(self.pid).is_some_and(|identity| identity == self.identity)
    }

    /// Says something to it. One that is killed is gone when this returns.
    pub(crate) fn send(&self, what: Signal) -> io::Result<()> {
        if !self.runs() {
            return Ok(());
        }
        signal(self.pid, what)?;
        let gone = || (!self.runs()).then_some(());
        match what {
            Signal::Kill if Deadline::after(GRACE).poll(gone).is_none() => {
                Err(io::Error::other(format!("process {} does not end", self.pid)))
            }
            _ => Ok(()),
        }
    }

    /// Asks it to end, and ends it if it does not.
    pub(crate) fn stop(&self) -> io::Result<()> {
        for what in [Signal::End, Signal::Kill] {
            if !self.runs() {
                return Ok(());
            }
            signal(self.pid, what)?;
            if Deadline::after(GRACE).poll(|| (!self.runs()).then_some(())).is_some() {
                return Ok(());
            }
        }
        Err(io::Error::other(format!("process {} does not end", self.pid)))
    }
}

#[cfg(target_os = "linux")]
fn pids() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(target_os = "linux")]
fn command_line(pid: u32) -> Option<String> {
    let line = std::fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline")).ok()?;
    Some(String::from_utf8_lossy(&line).replace('\0', " "))
}

#[cfg(not(target_os = "linux"))]
fn pids() -> Vec<u32> {
    let output = Command::new("ps").args(["-axo", "pid="]).output().ok();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.iter().flat_map(|text| text.split_whitespace()).filter_map(|pid| pid.parse().ok()).collect()
}

#[cfg(not(target_os = "linux"))]
fn command_line(pid: u32) -> Option<String> {
    let output = Command::new("ps").args(["-ww", "-o", "args=", "-p", &pid.to_string()]).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// When a process was started and its command line; `None` when it is gone, or waits to be reaped.
#[cfg(target_os = "linux")]
fn identity(pid: u32) -> Option<String> {
    let folder = Path::new("/proc").join(pid.to_string());
    let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
    // The second field is the name in parentheses, which may hold spaces. The third is the state, the 22nd
    // the start.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?;
    let line = command_line(pid)?;
    (!matches!(state, "Z" | "X")).then(|| format!("{start} {line}"))
}

#[cfg(not(target_os = "linux"))]
fn identity(pid: u32) -> Option<String> {
    let pid = pid.to_string();
    let output = Command::new("ps").args(["-ww", "-o", "lstart=,args=", "-p", &pid]).output().ok()?;
    let line = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !line.is_empty() && !line.contains("<defunct>")).then_some(line)
}

#[cfg(unix)]
fn signal(pid: u32, what: Signal) -> io::Result<()> {
    use rustix::process::{Pid, Signal as Number, kill_process};
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("the system gave this pid");
    let number = match what {
        Signal::End => Number::TERM,
        Signal::Kill => Number::KILL,
        Signal::Pause => Number::STOP,
        Signal::Resume => Number::CONT,
    };
    match kill_process(raw, number) {
        // It has ended in the meantime.
        Err(rustix::io::Errno::SRCH) => Ok(()),
        other => other.map_err(io::Error::from),
    }
}

#[cfg(not(unix))]
fn signal(pid: u32, what: Signal) -> io::Result<()> {
    if matches!(what, Signal::Pause | Signal::Resume) {
        return Err(io::Error::other("processes cannot be held on this system"));
    }
    let status = Command::new("taskkill").args(["/F", "/PID", &pid.to_string()]).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other("taskkill failed")) }
}

/// The last lines of a log, for the one who reads why a server is not there.
pub(crate) fn last_lines(log: &Path, count: usize) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(all(test, unix))]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn sleeper() -> (Process, PathBuf) {
        let log = std::env::temp_dir().join(format!("xtask-{}.log", uuid::Uuid::new_v4()));
        (Process::start(Path::new("sleep"), &["60".to_owned()], &log).expect("sleep is everywhere"), log)
    }

    #[test]
    fn a_process_is_stopped_and_seen_to_be_gone() {
        let (process, log) = sleeper();
        assert!(process.runs());
        process.stop().expect("it is ours");
        assert!(!process.runs());
        std::fs::remove_file(log).expect("it was made");
    }

    #[test]
    fn a_held_process_is_still_there_and_can_be_killed() {
        let (process, log) = sleeper();
        process.send(Signal::Pause).expect("it is ours");
        assert!(process.runs(), "it waits");
        process.send(Signal::Kill).expect("it is ours");
        assert!(!process.runs());
        process.send(Signal::Resume).expect("there is nothing to resume");
        std::fs::remove_file(log).expect("it was made");
    }

    #[test]
    fn a_pid_that_belongs_to_somebody_else_is_left_alone() {
        let (process, log) = sleeper();
        let impostor = Process { pid: process.pid, identity: "another program".to_owned() };
        assert!(!impostor.runs());
        impostor.stop().expect("there is nothing to stop");
        assert!(process.runs(), "the real one was not touched");
        process.stop().expect("it is ours");
        std::fs::remove_file(log).expect("it was made");
    }
}
