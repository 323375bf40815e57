//! `informer serve`: runs the embedded API server for other programs.
//!
//! # Shutdown
//!
//! At Ctrl-C or SIGTERM the listener closes, every watch response ends without an error, and other requests
//! in flight are completed. Requests that take longer than [`GOODBYE`] are aborted.

mod faults;
pub(crate) mod load;
mod log;

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgGroup, Args};
use informer_apiserver::{ClientCa, FaultFile, Listening, ParseTokensError, Tls, TlsError, Tokens};
use serde_json::json;

use self::load::{Loaded, ServerAccess};
use self::log::RequestLog;
use crate::certificates::{self, Files};
use crate::failure::{Failure, chain};
use crate::signals::Signals;

/// The timeout of the graceful shutdown. Without a timeout, an injected fault could delay a response, and
/// thereby the shutdown, forever.
const GOODBYE: Duration = Duration::from_secs(5);

/// Serve a Kubernetes API from memory, for tests and experiments.
///
/// Objects of every built-in kind can be created, changed, listed and watched, with kubectl, curl or any
/// client library. The state is lost when the server ends, unless --snapshot keeps it. Without TLS, and
/// without --token-file or --client-ca, it listens on loopback addresses only.
#[derive(Debug, Clone, Args)]
#[command(group(ArgGroup::new("users").multiple(true)), after_long_help = "\
Examples:
  informer serve
      An empty server on port 8001, for
      informer watch pods -A --server http://127.0.0.1:8001
  informer serve --listen 127.0.0.1:0 --load manifests/ --kubeconfig test.conf
      A free port, with the objects of manifests/ and a kubeconfig, for
      KUBECONFIG=test.conf informer watch deploy
  informer serve --faults faults.yaml
      Injects the faults of the file.
  informer serve --log
      Shows each request, for example of a kubectl command.
  informer serve --web-ui
      Shows requests and watches in a browser, which can also inject faults.
  informer serve --snapshot state.json
      Restores the previous state, and saves it at the end.
  informer serve --cert-dir certs --token-file tokens.csv --rbac
      Over TLS with a generated certificate, with users and RBAC.

A faults file that cuts the first watch of pods after two events, and responds
to the second one with 410 Gone:
  faults:
  - match: {verb: watch, resource: pods}
    when: {nth: 1}
    action: {cut: {afterEvents: 2}}
  - match: {verb: watch, resource: pods}
    when: {nth: 2}
    action: {expire: {}}

  match    verb, resource, group, namespace, name, subresource, path and query (a
           part of them), client (a part of the User-Agent), apply, write,
           initialList (true or false); an absent field matches everything
  when     nth, from, to, every, times, probability and seed; counted from 1
  action   of any request: status, delay, neverAnswer, cut, stall, trickle, rewind,
           falseStatus, lostAnswer, lateAnswer, goAway
           of lists: expire, tooLarge, shortPage, ignoreLimit, remainingItems
           of watches: expire, tooLarge, errorEvent, event, garbage, halfFrame,
           unknownEvent, skipEvent, repeatEvent, swapEvents, lag, lifetime,
           dropBookmarks, repeatBookmarks, oldBookmarks, noInitialEnd,
           shuffleInitial, rejectInitialEvents, ignoreInitialEvents

Exit codes:
  0  ended by Ctrl-C or SIGTERM
  1  the address, a manifest, the snapshot or the faults file cannot be used
  2  wrong usage")]
pub(crate) struct ServeArguments {
    /// The address to listen on. Port 0 selects a free port; an address that other hosts reach, such as
    /// `0.0.0.0:6443`, needs TLS and users.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8001")]
    listen: String,
    /// Load a manifest in YAML or JSON, or all manifests of a directory. Custom kinds need no CRD; without
    /// one, plural and scope are guessed.
    #[arg(long, value_name = "FILE|DIR")]
    load: Option<PathBuf>,
    /// Restore the state from this file if it exists, instead of --load; save the state to it on shutdown.
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Require one of these bearer tokens: a file with lines of `token,user,uid,"group,group"`, as
    /// kube-apiserver reads it.
    #[arg(long, value_name = "FILE", group = "users")]
    token_file: Option<PathBuf>,
    /// Serve over TLS, and request client certificates that a CA in this file has issued. The common name of
    /// a certificate is the user, its organizations are the groups.
    #[arg(long, value_name = "FILE", group = "users")]
    client_ca: Option<PathBuf>,
    /// Serve over TLS with the files apiserver.crt and apiserver.key in this directory; they are generated if
    /// missing.
    #[arg(long, value_name = "DIR")]
    cert_dir: Option<PathBuf>,
    /// Serve over TLS with the certificate in this file, which may also contain the certificate chain.
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with = "cert_dir")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate of --tls-cert.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Authorize requests with RBAC; a request without token and certificate is anonymous. Requires
    /// --token-file or --client-ca.
    #[arg(long, requires = "users")]
    rbac: bool,
    /// Create the objects of a new cluster: priority classes, flow schemas, APIServices and the service
    /// `kubernetes`; with --rbac all default roles; and in each namespace the ServiceAccount `default` and
    /// the ConfigMap `kube-root-ca.crt`.
    #[arg(long)]
    bootstrap: bool,
    /// Inject the faults of this file, in YAML or JSON; the format is below.
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// Write a kubeconfig for this server. An existing file is replaced only if this command wrote it.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Print a line for each request to stderr: the seconds since the start, the client, the request and the
    /// status of the response.
    #[arg(long)]
    log: bool,
    /// Serve a web UI at /debug/apiserver/ on the same address. It shows requests, watches, faults and
    /// versions, and can inject faults and rewind the server.
    #[arg(long)]
    web_ui: bool,
    /// Print the URL of the server and the number of loaded objects as one line of JSON.
    #[arg(long)]
    json: bool,
}

/// Serves the API until Ctrl-C or SIGTERM. Then shuts down gracefully, and saves the state if `--snapshot`
/// names a file.
pub(crate) async fn run(arguments: ServeArguments) -> Result<(), Failure> {
    let address = address(&arguments).await?;
    let tls = arguments.tls(address)?;
    let faults = arguments.faults.as_deref().map(read_faults).transpose()?.unwrap_or_default();
    let rules = faults.faults.len();
    let access = ServerAccess {
        tokens: arguments.token_file.as_deref().map(read_tokens).transpose()?.unwrap_or_default(),
        client_ca: arguments.client_ca.as_deref().map(read_authorities).transpose()?,
        rbac: arguments.rbac,
        bootstrap: arguments.bootstrap.then(|| tls.as_ref().map_or("", Tls::authorities).to_owned()),
        web_ui: arguments.web_ui,
    };
    arguments.snapshot.as_deref().map_or(Ok(()), check_folder)?;
    let Loaded { server, objects, kinds } = load::server(arguments.load.as_deref(), &access)?;
    if let Some(path) = arguments.snapshot.as_deref().filter(|path| path.exists()) {
        server
            .restore_from(path)
            .map_err(|error| Failure::caused("cannot restore the state at startup", error))?;
    }
    server.faults().add_all(faults);
    if arguments.log {
        let log = Arc::new(RequestLog::start());
        server.faults().set_hook(log).map_err(|_| Failure::new("the server has a hook already"))?;
    }
    let listening = match tls {
        None => server.listen(address).await.map_err(|error| cannot_listen(address, error))?,
        Some(tls) => server.listen_tls(address, tls).await.map_err(|error| match error {
            TlsError::Listen(error) => cannot_listen(address, error),
            error => Failure::caused("cannot serve over TLS", error),
        })?,
    };
    if let Some(path) = &arguments.kubeconfig {
        write_kubeconfig(path, &listening.kubeconfig())?;
    }
    let mut signals = Signals::listen()?;
    let report = ServeReport { listening: &listening, arguments: &arguments, objects, kinds, rules };
    // Writing fails if stdout is closed. The error is ignored, because the server must continue to run.
    let _ = report.write(&mut io::stdout().lock());
    signals.told_to_end().await?;
    // Waits for requests in flight until [`GOODBYE`] has passed. Requests that take longer are aborted when
    // the runtime is dropped.
    let _ = tokio::time::timeout(GOODBYE, listening.shutdown()).await;
    match &arguments.snapshot {
        Some(path) => {
            server.save(path).map_err(|error| Failure::caused("cannot save the state at shutdown", error))
        }
        None => Ok(()),
    }
}

/// Returns an error if the folder of the file of `--snapshot` does not exist. The server checks this at
/// startup, because otherwise saving the state would fail at shutdown and the state would be lost.
fn check_folder(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let kept = format!("cannot save the state to {}", path.display());
    match fs::metadata(folder) {
        Ok(found) if found.is_dir() && !path.is_dir() => Ok(()),
        Ok(_) => Err(Failure::new(format!("{kept}: name a file in a directory"))),
        Err(error) => Err(Failure::caused(kept, error)),
    }
}

fn read_tokens(path: &Path) -> Result<Tokens, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::caused(format!("cannot read the tokens in {}", path.display()), error))?;
    text.parse().map_err(|error: ParseTokensError| {
        Failure::caused(format!("cannot parse the tokens in {}", path.display()), error)
    })
}

fn read_authorities(path: &Path) -> Result<ClientCa, Failure> {
    let authorities = certificates::read(path)?.parse();
    authorities.map_err(|error| Failure::caused(format!("cannot parse the CAs in {}", path.display()), error))
}

impl ServeArguments {
    fn tls(&self, address: SocketAddr) -> Result<Option<Tls>, Failure> {
        let files = match (&self.tls_cert, &self.tls_key, &self.cert_dir) {
            (Some(chain), Some(key), _) => Files::Named(chain, key),
            (_, _, Some(directory)) => Files::In(directory),
            _ if self.client_ca.is_some() => {
                return Err(Failure::new(
                    "--client-ca needs TLS: add --cert-dir DIR, or --tls-cert FILE and --tls-key FILE",
                ));
            }
            _ => return Ok(None),
        };
        certificates::tls(&files, address.ip()).map(Some)
    }

    /// Returns the reason why the server must listen only on loopback addresses, for an error message.
    /// Returns `None` if it may listen on any address.
    fn danger(&self) -> Option<&'static str> {
        if self.token_file.is_none() && self.client_ca.is_none() {
            return Some(
                "without --token-file or --client-ca there is no authentication, so every client \
                 that reaches the address can read and change everything",
            );
        }
        (self.cert_dir.is_none() && self.tls_cert.is_none()).then_some(
            "without TLS (--cert-dir, or --tls-cert and --tls-key) tokens and objects can be read in transit",
        )
    }
}

struct ServeReport<'a> {
    listening: &'a Listening,
    arguments: &'a ServeArguments,
    objects: usize,
    kinds: Vec<String>,
    rules: usize,
}

impl ServeReport<'_> {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let ServeArguments { load, faults, kubeconfig, web_ui, json, .. } = self.arguments;
        let web_ui = web_ui.then(|| self.listening.web_ui_url());
        if *json {
            let line = json!({
                "url": self.listening.url(),
                "webUi": web_ui,
                "objects": self.objects,
                "kinds": self.kinds,
                "faults": self.rules,
                "kubeconfig": kubeconfig,
            });
            return writeln!(out, "{line}");
        }
        writeln!(out, "listening on {}", self.listening.url())?;
        if let Some(url) = web_ui {
            writeln!(out, "web UI at {url}")?;
        }
        if let Some(path) = load {
            writeln!(out, "loaded {} from {}", counted(self.objects, "object"), path.display())?;
        }
        if !self.kinds.is_empty() {
            writeln!(out, "also serving {}", self.kinds.join(", "))?;
        }
        if let Some(path) = faults {
            writeln!(out, "{} from {}", counted(self.rules, "fault rule"), path.display())?;
        }
        if let Some(path) = kubeconfig {
            writeln!(out, "kubeconfig written to {}", path.display())?;
        }
        out.flush()
    }
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// Returns the listen address of `--listen`. Returns an error if other machines could reach the address,
/// unless the server has both authentication and TLS.
async fn address(arguments: &ServeArguments) -> Result<SocketAddr, Failure> {
    let text = &arguments.listen;
    let unclear = |error| {
        Failure::caused(format!("cannot listen on {text:?}; write an address as 127.0.0.1:8001"), error)
    };
    let addresses: Vec<SocketAddr> =
        tokio::net::lookup_host(text).await.map_err(|error: io::Error| unclear(error))?.collect();
    let open = addresses.iter().find(|address| !address.ip().is_loopback());
    if let Some((open, danger)) = open.zip(arguments.danger()) {
        return Err(Failure::new(format!(
            "refusing to listen on {open}: {danger}; listen on 127.0.0.1 and forward the port to where it is needed"
        )));
    }
    addresses.first().copied().ok_or_else(|| Failure::new(format!("{text:?} has no address")))
}

fn cannot_listen(address: SocketAddr, error: io::Error) -> Failure {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => "; choose another port, or 0 for a free one",
        _ => "",
    };
    Failure::caused(format!("cannot listen on {address}{advice}"), error)
}

fn read_faults(path: &Path) -> Result<FaultFile, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::io(&format!("read the fault rules in {}", path.display()), error))?;
    FaultFile::parse(&text).map_err(|error| match faults::explain(&text, &chain(&error)) {
        Some(problem) => Failure::new(format!("read the fault rules in {}: {problem}", path.display())),
        None => Failure::caused(format!("{}", path.display()), error),
    })
}

/// Writes the kubeconfig file, but never replaces a file that this command did not write: `--kubeconfig
/// ~/.kube/config` must not overwrite the user's clusters.
fn write_kubeconfig(path: &Path, text: &str) -> Result<(), Failure> {
    const OURS: &str = "apiVersion: v1\nkind: Config\ncurrent-context: informer\n";
    let shown = path.display();
    match fs::read_to_string(path) {
        Ok(present) if present.is_empty() || present.starts_with(OURS) => {}
        Ok(_) => {
            return Err(Failure::new(format!(
                "refusing to overwrite {shown}: it was not written by `informer serve`; name another file"
            )));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Failure::io(&format!("read {shown}"), error)),
    }
    fs::write(path, text).map_err(|error| Failure::io(&format!("write the kubeconfig {shown}"), error))
}
