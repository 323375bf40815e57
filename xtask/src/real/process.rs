//! Processes that outlive the `cargo xtask` command that started them, and are stopped by a later one.
//!
//! A process is identified by its pid and its *identity*: its start time and its command line. The system may
//! reuse a pid, and another process with the same pid must never get a signal.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::deadline::Deadline;

/// Time limit for the exit after SIGTERM, and again for the exit after SIGKILL. After SIGTERM, kube-apiserver
/// waits up to 60 seconds for watches that clients keep open. In that case it is killed earlier, which loses
/// no data: etcd has each write that it has acknowledged.
const GRACE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGTERM: the process exits gracefully.
    End,
    /// SIGKILL: the process exits immediately.
    Kill,
    /// SIGSTOP: the process is paused until `Resume`.
    Pause,
    /// SIGCONT: a paused process continues.
    Resume,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// The start time and the command line of the process. They distinguish it from a later process with the
    /// same pid.
    identity: String,
}

impl Process {
    /// Starts a program in a separate process group, and appends its output to the file `log`. Ctrl-C, which
    /// the terminal sends to the process group of `cargo xtask`, thus does not end the program.
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
        // Between fork and exec, the new process still has the command line of `cargo xtask`. Its identity is
        // therefore accepted only when it contains the path of the started program.
        let program = program.to_string_lossy();
        let identity = Deadline::after(Duration::from_secs(5))
            .poll(|| identity(pid).filter(|identity| identity.contains(&*program)))
            .ok_or_else(|| io::Error::other("the program exited immediately"))?;
        Ok(Self { pid, identity })
    }

    /// Returns all running processes of a program, including those that another command started.
    pub(crate) fn all_of(program: &Path) -> Vec<Self> {
        let program = program.to_string_lossy();
        let runs =
            |pid: &u32| command_line(*pid).is_some_and(|line| line.split(' ').next() == Some(&*program));
        let all = pids().into_iter().filter(runs);
        all.filter_map(|pid| Some(Self { pid, identity: identity(pid)? })).collect()
    }

    /// Returns true if the process still runs. Returns false if it has exited, even if another process has
    /// the same pid now.
    pub(crate) fn runs(&self) -> bool {
        identity(self.pid).is_some_and(|identity| identity == self.identity)
    }

    /// Sends a signal. It is not an error if the process has already exited. For `Kill`, the call waits until
    /// the process has exited, and returns an error if it exceeds the time limit [`GRACE`].
    pub(crate) fn send(&self, what: Signal) -> io::Result<()> {
        if !self.runs() {
            return Ok(());
        }
        signal(self.pid, what)?;
        let gone = || (!self.runs()).then_some(());
        match what {
            Signal::Kill if Deadline::after(GRACE).poll(gone).is_none() => {
                Err(io::Error::other(format!("process {} does not exit", self.pid)))
            }
            _ => Ok(()),
        }
    }

    /// Sends SIGTERM, and SIGKILL if the process does not exit within the time limit [`GRACE`].
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
        Err(io::Error::other(format!("process {} does not exit", self.pid)))
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

/// Returns the start time and the command line of a process; `None` if it does not exist or is a zombie.
#[cfg(target_os = "linux")]
fn identity(pid: u32) -> Option<String> {
    let folder = Path::new("/proc").join(pid.to_string());
    let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
    // The second field of `/proc/PID/stat` is the program's name in parentheses, which may contain spaces.
    // The third field is the state of the process, and the 22nd its start time.
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
        // The error `ESRCH` means that the process has exited in the meantime, which is not a failure.
        Err(rustix::io::Errno::SRCH) => Ok(()),
        other => other.map_err(io::Error::from),
    }
}

#[cfg(not(unix))]
fn signal(pid: u32, what: Signal) -> io::Result<()> {
    if matches!(what, Signal::Pause | Signal::Resume) {
        return Err(io::Error::other("processes cannot be paused on this system"));
    }
    let status = Command::new("taskkill").args(["/F", "/PID", &pid.to_string()]).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other("taskkill failed")) }
}

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
        (Process::start(Path::new("sleep"), &["60".to_owned()], &log).expect("sleep is installed"), log)
    }

    #[test]
    fn stopped_process_no_longer_runs() {
        let (process, log) = sleeper();
        assert!(process.runs());
        process.stop().expect("the process gets the signal");
        assert!(!process.runs());
        std::fs::remove_file(log).expect("the log exists");
    }

    #[test]
    fn paused_process_runs_and_can_be_killed() {
        let (process, log) = sleeper();
        process.send(Signal::Pause).expect("the process gets the signal");
        assert!(process.runs(), "it is paused");
        process.send(Signal::Kill).expect("the process gets the signal");
        assert!(!process.runs());
        process.send(Signal::Resume).expect("there is nothing to resume");
        std::fs::remove_file(log).expect("the log exists");
    }

    #[test]
    fn process_with_a_reused_pid_gets_no_signal() {
        let (process, log) = sleeper();
        let impostor = Process { pid: process.pid, identity: "another program".to_owned() };
        assert!(!impostor.runs());
        impostor.stop().expect("there is nothing to stop");
        assert!(process.runs(), "the process got no signal");
        process.stop().expect("the process gets the signal");
        std::fs::remove_file(log).expect("the log exists");
    }
}
