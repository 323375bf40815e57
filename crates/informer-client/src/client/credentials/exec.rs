//! Exec plugins: programs that write an `ExecCredential` to standard output.
//!
//! Reference:
//! <https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins>

use std::io::{self, IsTerminal as _, Read as _};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use http::HeaderValue;
use jiff::Timestamp;
use kube_client::config::{ExecConfig, ExecInteractiveMode};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::oneshot;

use super::{CredentialsError, Current, Identities, Loaded, bearer};
use crate::client::ClientError;

/// Maximum size of the output of an exec plugin. A token has a few KB, a certificate with its chain some tens
/// of KB.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// How often the client checks whether an exec plugin that has closed its output has exited.
const EXIT_CHECK_PERIOD: Duration = Duration::from_millis(10);

pub(super) struct ExecPlugin {
    config: ExecConfig,
    command: String,
    timeout: Duration,
    /// Creates TLS identities from the certificates of the plugin. `None` if the server is accessed without
    /// TLS, because client certificates are not used then.
    identities: Option<Identities>,
    /// The certificate and the key, as PEM, from which the current TLS identity was created. A new identity
    /// is created only if the plugin prints others.
    last: parking_lot::Mutex<Option<(String, String)>>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Issued {
    token: Option<String>,
    certificate: Option<(String, String)>,
    expires: Option<Timestamp>,
}

impl ExecPlugin {
    pub(super) fn new(
        config: &ExecConfig,
        timeout: Duration,
        identities: Option<Identities>,
    ) -> Result<Self, ClientError> {
        let remedy = "check the user in the kubeconfig";
        let Some(command) = config.command.clone() else {
            return Err(ClientError::new("the exec plugin has no command", remedy));
        };
        if config.provide_cluster_info && config.cluster.is_none() {
            return Err(ClientError::new(
                "the exec plugin sets provideClusterInfo, but the configuration has no cluster",
                remedy,
            ));
        }
        Ok(Self { config: config.clone(), command, timeout, identities, last: parking_lot::Mutex::default() })
    }

    pub(super) async fn load(&self, before: &Current) -> Result<Loaded, CredentialsError> {
        let issued = self.run().await?;
        let authorization: Option<HeaderValue> = issued.token.as_deref().map(bearer).transpose()?;
        let mut loaded = Loaded { authorization, expires: issued.expires, ..Loaded::default() };
        let mut last = self.last.lock();
        if *last == issued.certificate {
            loaded.identity = before.identity.clone();
            return Ok(loaded);
        }
        loaded.identity_changed = true;
        if let (Some((certificate, key)), Some(identities)) = (&issued.certificate, &self.identities) {
            let identity = identities.identity(Some(certificate.as_bytes()), Some(key.as_bytes()));
            let unusable = |error| self.error("its certificate and key are invalid").because(error);
            loaded.identity = Some(identity.map_err(unusable)?);
        }
        *last = issued.certificate;
        Ok(loaded)
    }

    async fn run(&self) -> Result<Issued, CredentialsError> {
        let command = self.prepare()?;
        match tokio::time::timeout(self.timeout, output(command)).await {
            Err(_) => {
                let problem =
                    format!("run exec plugin {}: no result within {:?}", self.command, self.timeout);
                let remedy = "run it by hand, or raise ClientOptions::exec_timeout";
                Err(CredentialsError::new(problem, remedy))
            }
            Ok(Err(error)) => Err(self.error("it cannot be run").because(error)),
            Ok(Ok((status, _))) if !status.success() => Err(self.error(&format!("it ended with {status}"))),
            Ok(Ok((_, output))) => {
                let issued = parse(&output, self.config.api_version.as_deref());
                issued.map_err(|problem| self.error(&problem))
            }
        }
    }

    fn prepare(&self) -> Result<Command, CredentialsError> {
        let terminal = io::stdin().is_terminal();
        let interactive = match self.config.interactive_mode {
            Some(ExecInteractiveMode::Never) => false,
            Some(ExecInteractiveMode::Always) if !terminal => {
                return Err(self.error("it needs a terminal, but standard input is not a terminal"));
            }
            _ => terminal,
        };
        let mut command = Command::new(&self.command);
        command.args(self.config.args.iter().flatten());
        for variable in self.config.env.iter().flatten() {
            if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
                command.env(name, value);
            }
        }
        self.config.drop_env.iter().flatten().for_each(|name| {
            command.env_remove(name);
        });
        let mut spec = json!({"interactive": interactive});
        if self.config.provide_cluster_info {
            let cluster = serde_json::to_value(&self.config.cluster);
            spec["cluster"] = cluster
                .map_err(|error| self.error("the cluster information cannot be serialized").because(error))?;
        }
        let api_version = &self.config.api_version;
        let info = json!({"kind": "ExecCredential", "apiVersion": api_version, "spec": spec});
        command.env("KUBERNETES_EXEC_INFO", info.to_string());
        command.stdin(if interactive { Stdio::inherit() } else { Stdio::null() });
        command.stdout(Stdio::piped());
        Ok(command)
    }

    fn error(&self, problem: &str) -> CredentialsError {
        let hint = self.config.install_hint.as_deref().unwrap_or_default().trim();
        let separator = if hint.is_empty() { "" } else { "; " };
        let problem = format!("run exec plugin {}: {problem}{separator}{hint}", self.command);
        CredentialsError::new(problem, "check the user in the kubeconfig, and run the command by hand")
    }
}

/// A running exec plugin: a child process that is killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // `kill` fails if the child process has already ended. After a successful `kill`, `wait` returns
        // almost immediately, so it may block.
        if self.0.kill().is_ok() {
            let _ = self.0.wait();
        }
    }
}

/// Runs a command without blocking the runtime. Returns the exit status and the output of the command.
///
/// # Cancel safety
///
/// Dropping the future kills the process. The thread that reads the output ends once no process has the
/// output open.
async fn output(mut command: Command) -> io::Result<(ExitStatus, Vec<u8>)> {
    let spawned = tokio::task::spawn_blocking(move || command.spawn().map(Running)).await;
    let mut running = spawned.map_err(io::Error::other)??;
    let stdout = running.0.stdout.take().ok_or_else(|| io::Error::other("it has no output"))?;
    let (sender, receiver) = oneshot::channel();
    let read = move || drop(sender.send(read_all(stdout)));
    std::thread::Builder::new().name("exec-plugin".to_owned()).spawn(read)?;
    let output = receiver.await.map_err(io::Error::other)??;
    loop {
        if let Some(status) = running.0.try_wait()? {
            return Ok((status, output));
        }
        tokio::time::sleep(EXIT_CHECK_PERIOD).await;
    }
}

fn read_all(stdout: ChildStdout) -> io::Result<Vec<u8>> {
    let mut output = Vec::new();
    stdout.take(MAX_OUTPUT_BYTES + 1).read_to_end(&mut output)?;
    if output.len() as u64 > MAX_OUTPUT_BYTES {
        Err(io::Error::other(format!("it printed more than {MAX_OUTPUT_BYTES} bytes")))
    } else {
        Ok(output)
    }
}

/// Parses the `ExecCredential` that an exec plugin has printed. The error contains no part of the output,
/// because the output contains secrets.
fn parse(output: &[u8], api_version: Option<&str>) -> Result<Issued, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ExecCredential {
        kind: Option<String>,
        api_version: Option<String>,
        status: Option<Status>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Status {
        expiration_timestamp: Option<String>,
        token: Option<String>,
        client_certificate_data: Option<String>,
        client_key_data: Option<String>,
    }

    // Most exec plugins print JSON. Some print YAML, which client-go also accepts.
    let parsed = serde_json::from_slice(output).ok().or_else(|| serde_saphyr::from_slice(output).ok());
    let credential: ExecCredential = parsed.ok_or("its output is not an ExecCredential")?;
    if credential.kind.is_some_and(|kind| kind != "ExecCredential") {
        return Err("its output is not an ExecCredential".to_owned());
    }
    if let (Some(expected), Some(printed)) = (api_version, &credential.api_version)
        && expected != printed
    {
        return Err(format!("it printed an ExecCredential of {printed}, not of {expected}"));
    }
    let status = credential.status.ok_or("the ExecCredential has no status")?;
    let expires = status.expiration_timestamp.as_deref().map(str::parse).transpose();
    let expires = expires.map_err(|_| "its expirationTimestamp is not an RFC 3339 time")?;
    let certificate = match (status.client_certificate_data, status.client_key_data) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err("it printed a certificate without a key, or a key without a certificate".to_owned()),
    };
    let token = status.token.filter(|token| !token.is_empty());
    if token.is_none() && certificate.is_none() {
        Err("it printed neither a token nor a certificate".to_owned())
    } else {
        Ok(Issued { token, certificate, expires })
    }
}

#[cfg(test)]
mod tests;
