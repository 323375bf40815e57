//! Starts a server for a suite as production clients expect it: with TLS, a token for the administrator, and
//! RBAC. The server is either `informer serve`, or a real one with kube-controller-manager.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde::Deserialize;
use serde_json::json;

use super::{Conformance, Kind, with_servers};
use crate::cargo::build_informer;
use crate::go::target;
use crate::real::{DataFolder, Up, kubeconfig_file};
use crate::report::Report;

/// A child process. Dropping a `Running` kills the process.
pub(super) struct Running(pub(super) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The error of `kill` is ignored: it only means that the process has already exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first line that `informer serve --json` prints, when the server accepts connections. It contains the
/// server's URL.
#[derive(Debug, Deserialize)]
struct Listening {
    url: String,
}

pub(super) struct For<'a> {
    /// Name of the folder in cargo's target folder for the server's certificates, token and kubeconfig. The
    /// folder of a real server has the suffix `-real`.
    pub(super) name: &'a str,
    /// Additional flags of kube-apiserver, used only if this command starts a real server.
    pub(super) flags: &'a [String],
}

/// Calls `work` with the path of an administrator's kubeconfig for the server that the options select. A
/// server that was started for this purpose is stopped afterwards.
pub(super) fn with_administrator(
    root: &Path,
    options: &Conformance,
    For { name, flags }: For<'_>,
    report: &mut Report,
    work: impl FnOnce(&Path, &mut Report) -> Result<(), String>,
) -> Result<(), String> {
    match (options.server, &options.dir) {
        (Kind::Embedded, _) => {
            let (_serve, config) = embedded(root, &target(root).join(name))?;
            work(&config, report)
        }
        (Kind::Real, Some(folder)) => work(&folder.join("admin.conf"), report),
        (Kind::Real, None) => {
            let place = DataFolder { dir: Some(target(root).join(format!("{name}-real"))) };
            let up = Up { place, controllers: true, apiserver_flag: flags.to_vec() };
            with_servers(root, &up, report, |folder, report| work(&folder.join("admin.conf"), report))
        }
    }
}

fn embedded(root: &Path, folder: &Path) -> Result<(Running, PathBuf), String> {
    let informer = build_informer(root)?;
    let failed = |error: std::io::Error| format!("cannot write to {}: {error}", folder.display());
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(failed)?;
    let token = uuid::Uuid::new_v4().simple().to_string();
    let tokens = folder.join("tokens.csv");
    fs::write(&tokens, format!("{token},admin,admin,system:masters\n")).map_err(failed)?;
    let mut serve = Command::new(informer);
    serve.args(["serve", "--listen", "127.0.0.1:0", "--json", "--rbac", "--cert-dir"]).arg(folder);
    serve.arg("--token-file").arg(&tokens).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut serve = Running(serve.spawn().map_err(|error| format!("cannot start informer serve: {error}"))?);
    let mut line = String::new();
    let stdout = serve.0.stdout.take().ok_or("the server has no output")?;
    BufReader::new(stdout)
        .read_line(&mut line)
        .map_err(|error| format!("cannot read the server's output: {error}"))?;
    let listening: Listening = serde_json::from_str(&line).map_err(|error| {
        format!("the server exited before it was ready, or its first line is invalid: {error}")
    })?;
    // apiserver.crt contains the server's certificate chain, which ends with the generated CA certificate.
    // Clients can therefore use the whole file as their CA bundle.
    let authority = fs::read_to_string(folder.join("apiserver.crt")).map_err(failed)?;
    let config = folder.join("admin.conf");
    let user = json!({"token": token});
    fs::write(&config, kubeconfig_file(&listening.url, &authority, &user)).map_err(failed)?;
    Ok((serve, config))
}
