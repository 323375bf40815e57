//! Runs kubectl as an administrator.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::go::{Go, Module, target};

#[derive(Debug)]
pub(super) struct Kubectl {
    program: PathBuf,
    config: PathBuf,
    home: PathBuf,
}

impl Kubectl {
    /// Builds kubectl. The returned `Kubectl` runs it with the administrator's kubeconfig `config`.
    pub(super) fn new(root: &Path, config: &Path) -> Result<Self, String> {
        let go = Go::find(root).map_err(|error| error.to_string())?;
        let program = go.build(Module::Servers, "kubectl").map_err(|error| error.to_string())?;
        // kubectl gets a separate home folder, because it must not use discovery data that it cached for
        // another server.
        let home = target(root).join("operators-home");
        let _ = fs::remove_dir_all(&home);
        Ok(Self { program, config: config.to_owned(), home })
    }

    pub(super) fn run(&self, arguments: &[&str]) -> Result<String, String> {
        self.with_input(arguments, "")
    }

    /// Like [`run`](Self::run), with `input` as the standard input of kubectl.
    pub(super) fn with_input(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let shown = arguments.join(" ");
        let failed = |error: std::io::Error| format!("cannot run kubectl {shown}: {error}");
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.config).args(arguments).env("HOME", &self.home);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).map_err(failed)?;
        }
        let output = child.wait_with_output().map_err(failed)?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(format!("kubectl {shown}: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
    }

    pub(super) fn get(&self, kind: &str, name: &str) -> Result<Value, String> {
        let text = self.run(&["get", kind, name, "-o", "json"])?;
        serde_json::from_str(&text).map_err(|error| format!("kubectl get {kind} {name}: {error}"))
    }

    /// Writes a copy of the administrator's kubeconfig with a token of a service account instead of the
    /// administrator's credentials. Returns the path of the copy.
    pub(super) fn config_of(
        &self,
        account: &str,
        namespace: &str,
        administrator: &Path,
    ) -> Result<PathBuf, String> {
        let token = self.run(&["create", "token", account, "-n", namespace])?;
        let cannot =
            |error: &dyn std::fmt::Display| format!("cannot create a kubeconfig for {account}: {error}");
        let text = fs::read_to_string(administrator).map_err(|error| cannot(&error))?;
        let mut config: Value = serde_json::from_str(&text).map_err(|error| cannot(&error))?;
        config["users"][0]["user"] = serde_json::json!({"token": token.trim()});
        let path = administrator.with_file_name(format!("{account}.conf"));
        fs::write(&path, config.to_string()).map_err(|error| cannot(&error))?;
        Ok(path)
    }
}

/// Returns the first of the expected strings `texts` that the output `shown` does not contain after the
/// previous one. Returns `None` if the output contains all of them in order.
pub(super) fn missing<'a>(shown: &str, texts: &[&'a str]) -> Option<&'a str> {
    let mut rest = shown;
    for text in texts {
        let Some(at) = rest.find(text) else { return Some(text) };
        rest = &rest[at + text.len()..];
    }
    None
}
