//! `informer serve`: the embedded API server for other programs.
//!
//! # Shutdown
//!
//! At Ctrl-C or SIGTERM the listener closes, every watch ends properly, and answers under way are finished; what is not
//! out after [`GOODBYE`] is cut off.

mod load;

use std::fs;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use informer_apiserver::{FaultFile, Listening, ParseTokensError, Tokens};
use serde_json::json;

use self::load::{Access, Loaded};
use crate::failure::Failure;

/// How long answers may take to finish at the end: a fault can hold one back for ever.
const GOODBYE: Duration = Duration::from_secs(5);

/// Serves a Kubernetes API from memory, for tests and for trying things out.
///
/// Objects of every built-in kind can be created, changed, listed and watched, with kubectl, curl or
/// any client library. Nothing is stored: what is written is gone when the server ends. Without --token-file there is
/// no authentication, so it listens on loopback addresses only.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = "\
Examples:
  informer serve
      An empty server on port 8001, for
      informer watch pods -A --server http://127.0.0.1:8001
  informer serve --listen 127.0.0.1:0 --load manifests/ --kubeconfig test.conf
      Some free port, filled, with a kubeconfig, for
      KUBECONFIG=test.conf informer watch deploy
  informer serve --faults faults.yaml
      Misbehaves as the file says.

A faults file that cuts the first watch of pods after two events, and answers the
second one with 410 Gone:
  faults:
  - match: {verb: watch, resource: pods}
    when: {nth: 1}
    action: {cut: {afterEvents: 2}}
  - match: {verb: watch, resource: pods}
    when: {nth: 2}
    action: {expire: {}}

  match    verb, resource, group, namespace, name, client (part of the User-Agent),
           query (part of it); what is not named matches everything
  when     nth, from, to, every, times, probability and seed; counted from 1
  action   status, expire, cut, stall, delay, dropBookmarks, noInitialEnd, rewind,
           garbage, halfFrame, unknownEvent, rejectInitialEvents,
           ignoreInitialEvents, neverAnswer, tooLarge

Exit codes:
  0  ended by Ctrl-C or SIGTERM
  1  the address, a manifest or the faults file cannot be used
  2  wrong usage")]
pub(crate) struct ServeArguments {
    /// Where to listen, on a loopback address; port 0 is a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8001")]
    listen: String,
    /// Fill the server with a manifest in YAML or JSON, or with all manifests of a directory. Kinds that are not
    /// built in are taken from their CustomResourceDefinitions, or guessed.
    #[arg(long, value_name = "FILE|DIR")]
    load: Option<PathBuf>,
    /// Ask for one of these bearer tokens: a file with lines of `token,user,uid,"group,group"`, as kube-apiserver
    /// reads it.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Let roles and bindings decide who may do what; who brings no token is anonymous.
    #[arg(long, requires = "token_file")]
    rbac: bool,
    /// Let requests go wrong as this file says, in YAML or JSON.
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// Write a kubeconfig that leads here. A file that is there is replaced only if this command wrote it.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Print what is served as one line of JSON.
    #[arg(long)]
    json: bool,
}

/// Serves until Ctrl-C.
pub(crate) async fn run(arguments: ServeArguments) -> Result<(), Failure> {
    let address = address(&arguments.listen, arguments.token_file.is_some()).await?;
    let faults = arguments.faults.as_deref().map(read_faults).transpose()?.unwrap_or_default();
    let rules = faults.faults.len();
    let access = Access {
        tokens: arguments.token_file.as_deref().map(read_tokens).transpose()?.unwrap_or_default(),
        rbac: arguments.rbac,
    };
    let Loaded { server, objects, kinds } = load::server(arguments.load.as_deref(), &access)?;
    server.faults().add_all(faults);
    let listening = server.listen(address).await.map_err(|error| cannot_listen(address, error))?;
    if let Some(path) = &arguments.kubeconfig {
        write_kubeconfig(path, &listening.kubeconfig())?;
    }
    let report = Report { listening: &listening, arguments: &arguments, objects, kinds, rules };
    // Nobody has to read this: the server serves all the same.
    let _ = report.write(&mut io::stdout().lock());
    told_to_end().await?;
    // What is not out by then is cut off when the runtime goes.
    let _ = tokio::time::timeout(GOODBYE, listening.shutdown()).await;
    Ok(())
}

fn read_tokens(path: &Path) -> Result<Tokens, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::caused(format!("cannot read the tokens in {}", path.display()), error))?;
    text.parse().map_err(|error: ParseTokensError| {
        Failure::caused(format!("cannot use the tokens in {}", path.display()), error)
    })
}

/// What is said once the server listens.
struct Report<'a> {
    listening: &'a Listening,
    arguments: &'a ServeArguments,
    objects: usize,
    kinds: Vec<String>,
    rules: usize,
}

impl Report<'_> {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let ServeArguments { load, faults, kubeconfig, json, .. } = self.arguments;
        if *json {
            let line = json!({
                "url": self.listening.url(),
                "objects": self.objects,
                "kinds": self.kinds,
                "faults": self.rules,
                "kubeconfig": kubeconfig,
            });
            return writeln!(out, "{line}");
        }
        writeln!(out, "listening on {}", self.listening.url())?;
        if let Some(path) = load {
            writeln!(out, "loaded {} from {}", counted(self.objects, "object"), path.display())?;
        }
        if !self.kinds.is_empty() {
            writeln!(out, "serving also {}", self.kinds.join(", "))?;
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

/// The address, if everything that it stands for is on this machine alone, or tokens are asked for.
async fn address(text: &str, authenticated: bool) -> Result<SocketAddr, Failure> {
    let unclear = |error| {
        Failure::caused(format!("cannot listen on {text:?}; write an address as 127.0.0.1:8001"), error)
    };
    let addresses: Vec<SocketAddr> =
        tokio::net::lookup_host(text).await.map_err(|error: io::Error| unclear(error))?.collect();
    let open = addresses.iter().find(|address| !address.ip().is_loopback() && !authenticated);
    if let Some(open) = open {
        return Err(Failure::new(format!(
            "refusing to listen on {open}: without --token-file there is no authentication, so whoever reaches it may read \
             and change everything; listen on 127.0.0.1 and forward the port to where it is needed"
        )));
    }
    addresses.first().copied().ok_or_else(|| Failure::new(format!("{text:?} stands for no address")))
}

fn cannot_listen(address: SocketAddr, error: io::Error) -> Failure {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => "; something else does; choose another port, or 0 for a free one",
        _ => "",
    };
    Failure::caused(format!("cannot listen on {address}{advice}"), error)
}

fn read_faults(path: &Path) -> Result<FaultFile, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::io(&format!("read the fault rules in {}", path.display()), error))?;
    FaultFile::parse(&text).map_err(|error| Failure::caused(format!("{}", path.display()), error))
}

/// Writes the file, but over nobody else's: `--kubeconfig ~/.kube/config` must not cost someone their clusters.
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

async fn told_to_end() -> Result<(), Failure> {
    let failed = |error| Failure::io("wait for signals", error);
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        tokio::select! {
            result = tokio::signal::ctrl_c() => result.map_err(failed),
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await.map_err(failed)
}
