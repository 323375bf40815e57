//! The circumstances of a run that the page of a report states: date, command line, revision and machine.
//!
//! A page may be published. It therefore contains no host name. Of an absolute path in the command line it
//! contains only the last component. The root of the repository and the home directory are removed from
//! problems. Relative paths in the command line, titles and cells of tables are not filtered.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct RunFacts {
    /// The command line, in the syntax of a shell.
    pub(crate) command_line: String,
    /// The date and time of the end of the run, in UTC.
    pub(crate) date: String,
    /// Names and values: revision, processor, memory, kernel.
    pub(crate) facts: Vec<(&'static str, String)>,
    /// Prefixes of paths that are removed from problems.
    #[serde(skip)]
    pub(crate) private_folders: Vec<String>,
}

impl RunFacts {
    /// Returns the circumstances of this process, which works on the repository `root`.
    pub(crate) fn of_this_run(root: &Path) -> Self {
        let arguments: Vec<_> = std::env::args().skip(1).collect();
        let cores = std::thread::available_parallelism().ok().map(|cores| cores.to_string());
        let facts = [
            ("Revision", revision(root)),
            ("Processor", read("/proc/cpuinfo").and_then(|text| field(&text, "model name"))),
            ("Cores", cores),
            ("Memory", read("/proc/meminfo").and_then(|text| memory(&text))),
            ("Kernel", kernel()),
            ("Architecture", Some(std::env::consts::ARCH.to_owned())),
        ];
        let home = std::env::home_dir().map(|home| home.display().to_string());
        Self {
            command_line: command_line(&arguments),
            date: jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string(),
            facts: facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
            private_folders: [Some(root.display().to_string()), home].into_iter().flatten().collect(),
        }
    }

    /// Removes private folders from the paths in a text.
    pub(crate) fn without_private_folders(&self, text: &str) -> String {
        let folders = self.private_folders.iter().filter(|folder| folder.len() > 1);
        folders.fold(text.to_owned(), |text, folder| text.replace(&format!("{folder}/"), ""))
    }
}

/// Returns the command line of `cargo xtask` with these arguments. Of an absolute path it contains only the
/// last component.
fn command_line(arguments: &[String]) -> String {
    let words = arguments.iter().map(|argument| match argument.split_once('=') {
        Some((option, value)) if option.starts_with("--") => quoted(&format!("{option}={}", shared(value))),
        _ => quoted(&shared(argument)),
    });
    ["cargo xtask".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

fn shared(argument: &str) -> String {
    let path = Path::new(argument);
    match path.file_name() {
        Some(name) if path.is_absolute() => name.to_string_lossy().into_owned(),
        _ => argument.to_owned(),
    }
}

fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_=./,:+@%".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns the short hash of the commit, with `-dirty` if the tree has other changes.
fn revision(root: &Path) -> Option<String> {
    let output = Command::new("git")
        .args(["describe", "--always", "--dirty", "--exclude", "*"])
        .current_dir(root)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}

fn kernel() -> Option<String> {
    let release = read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned());
    Some(format!("{} {}", std::env::consts::OS, release?))
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// Returns the value of the first line `NAME : VALUE`.
fn field(text: &str, name: &str) -> Option<String> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

/// Returns the total memory in `/proc/meminfo`, in GiB.
fn memory(text: &str) -> Option<String> {
    let kibibytes: f64 = field(text, "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(format!("{:.1} GiB", kibibytes / f64::from(1 << 20)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(arguments: &[&str]) -> String {
        command_line(&arguments.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn command_line_names_no_folders_of_the_machine() {
        assert_eq!(
            line(&["bench", "workqueue", "--report", "/home/alice/out", "--json=/home/alice/a.json"]),
            "cargo xtask bench workqueue --report out --json=a.json"
        );
        assert_eq!(line(&["bench", "--report", "target/out"]), "cargo xtask bench --report target/out");
    }

    #[test]
    fn command_line_is_quoted_for_a_shell() {
        assert_eq!(line(&["simulate", "--only", "a b", ""]), "cargo xtask simulate --only 'a b' ''");
        assert_eq!(line(&["--only", "it's <b>"]), r"cargo xtask --only 'it'\''s <b>'");
    }

    #[test]
    fn private_folders_are_removed_from_problems() {
        let private_folders = vec!["/home/alice/informer".to_owned(), "/home/alice".to_owned()];
        let facts = RunFacts { private_folders, ..RunFacts::default() };
        let text = "cannot read /home/alice/informer/target/a.json: see /home/alice/b and /api/v1";
        let expected = "cannot read target/a.json: see b and /api/v1";
        assert_eq!(facts.without_private_folders(text), expected);
    }

    #[test]
    fn machine_facts_are_read_from_proc_files() {
        let text = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Other\n";
        assert_eq!(field(text, "model name").as_deref(), Some("Some CPU @ 2 GHz"));
        assert_eq!(field("", "model name"), None);
        assert_eq!(memory("MemTotal:        8388608 kB\n").as_deref(), Some("8.0 GiB"));
        assert_eq!(memory("MemTotal: many\n"), None);
    }
}
