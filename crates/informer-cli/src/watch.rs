//! `informer watch`: prints the events that an informer's handler receives.
//!
//! # Threads
//!
//! Each kind has an informer with one blocking handler. If the program that reads stdout pauses, only the
//! threads of these handlers block, and neither the caches nor Ctrl-C are delayed. The handlers share the
//! [`Printer`]; messages on stderr go through the [`Notes`].
//!
//! # Shutdown
//!
//! Ctrl-C and a closed stdout drop the informers, which cancels their requests. A handler that blocks in a
//! write ends with the process.

mod connect;
mod diff;
mod ignore;
mod mask;
mod near;
mod notes;
pub(crate) mod period;
mod printer;
mod states;
mod table;
mod target;
mod ui;

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use informer::cache::{Event, HandlerOptions, InformerRun, SharedInformer, blocking};
use informer::client::{Client, Encodings, KubeListWatch, Lazy, ResourceKind, StreamingLists};
use informer::{FieldSelector, LabelSelector};
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::connect::WatchTarget;
use self::ignore::IgnoredPath;
use self::notes::Notes;
use self::printer::Printer;
use self::table::{Table, TableOptions};
use self::target::Targets;
use crate::connection::ConnectionArguments;
use crate::failure::Failure;
use crate::screen::require_terminal;

/// The representation of objects in the caches of `informer watch`: their JSON, which is parsed only when the
/// content of an object is printed or compared.
type Text = Lazy<Value>;

/// The interval at which the state of the informers is read, to update the progress message and to report
/// recoveries.
const TICK: Duration = Duration::from_millis(200);

/// Print the changes of objects, as the handler of an informer receives them.
///
/// The server is the one of the kubeconfig (KUBECONFIG or ~/.kube/config, or the service account inside a
/// cluster), or that of --server, which needs neither. The initial list is printed first, each object as
/// added (+); then every change, until Ctrl-C. The informer handles lost connections, expired versions and
/// relists: they are reported on stderr, and only real changes are printed.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = "\
Examples:
  informer watch pods
      Pods of the kubeconfig's namespace, updates as a list of the fields that changed.
  informer watch deploy,rs,pods -A -l app=web
      Three kinds together, in all namespaces, with a label.
  informer watch deploy/web pods --context staging --as alice
      One deployment and all pods, with another context of the kubeconfig, as another user.
  informer watch nodes --ignore 'status.conditions[*].lastHeartbeatTime' --timestamps
      Without the updates that change nothing but heartbeats.
  informer watch pods -A --field-selector spec.nodeName=node-1 -o json | jq .key
      One line of JSON for each call of the handler.
  informer watch certificates.cert-manager.io -o table
      A custom resource, named with its group, with the columns of `kubectl get`.
  informer watch pods --server http://127.0.0.1:8001
      A server without a kubeconfig, as `informer serve` or `kubectl proxy`.
  informer watch deploy,rs,pods -A --ui
      Objects, and the changes of the selected one, on the whole terminal.

Lines of -o diff:
  + default/web-0 @17 (initial)     added to the cache, at version 17
  ~ default/web-0 @17 -> @19        updated; the changed fields follow
      ~ status.phase: \"Pending\" -> \"Running\"
      + metadata.labels.tier: \"front\"
      - spec.containers[name=proxy].image: \"proxy:1\"
  = default/web-0 @19 (resync)      delivered again, unchanged, because of --resync
  - default/web-0 @19               deleted; (last known) if the deletion was missed

Lines of -o table and -o wide begin with the same signs. The server computes their columns at the
time of the change.

Members of -o json:
  type                add, update or delete
  key                 namespace/name, or the name alone
  old_rv, new_rv      resource versions; null if absent
  initial             true for the objects of the initial list
  tombstone           true for a deletion that was missed and found by a list
  resync              true for an object that is delivered again, unchanged
  kind, group         with several kinds
  time                when the handler was called, in UTC
  object              the new state; for a deletion the last known state
  changes             of an update: the paths that changed, with their old and new values

Exit codes:
  0  ended by Ctrl-C, or because the output was closed
  1  no server, no such kind, or not synced within --timeout
  2  wrong usage, such as an invalid selector")]
pub(crate) struct WatchArguments {
    /// Kinds to watch, by kind, plural or short name: `pods`, `po`, `Pod`; with the group if the name alone
    /// is ambiguous: `deployments.apps`. `pods,secrets` names two kinds, `pods/web-0` one object.
    #[arg(required = true, value_name = "KIND[.GROUP][/NAME]", value_parser = target::parse)]
    kinds: Vec<Targets>,
    /// Watch the objects of this namespace; by default that of the kubeconfig.
    #[arg(short, long, value_name = "NS")]
    namespace: Option<String>,
    /// Watch the objects of all namespaces.
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Watch only objects whose labels match, for example `app=web` or `app in (web, api), !canary`.
    #[arg(short = 'l', long = "selector", value_name = "LABELS")]
    labels: Option<LabelSelector>,
    /// Watch only objects whose fields match, for example `spec.nodeName=node-1`. Servers support few fields
    /// of each kind.
    #[arg(long = "field-selector", value_name = "FIELDS")]
    fields: Option<FieldSelector>,
    /// The format in which events are printed.
    #[arg(short, long, value_enum, default_value_t)]
    output: WatchOutput,
    #[command(flatten)]
    connection: ConnectionArguments,
    /// Fail if the initial list is not complete after this time, for example `30s`; by default never.
    #[arg(long, value_name = "DURATION", value_parser = period::parse)]
    timeout: Option<Duration>,
    /// Print every cached object again in this interval, for example `10m`, at least `1s`; by default never.
    #[arg(long, value_name = "DURATION", value_parser = period::parse_resync)]
    resync: Option<Duration>,
    /// When to request initial lists as streaming lists (WatchList): `auto` until the server rejects one,
    /// `on` always, `off` never. With -o table, `auto` means `off`.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    streaming_list: Streaming,
    /// Do not show changes of this field and the fields below it, for example
    /// `status.conditions[*].lastHeartbeatTime`. An update that changes nothing else is not printed. Can be
    /// repeated.
    #[arg(long, value_name = "PATH", value_parser = ignore::parse)]
    ignore: Vec<IgnoredPath>,
    /// Print the time in UTC before each event; -o json and -o yaml always contain it.
    #[arg(long)]
    timestamps: bool,
    /// Show the objects and their changes on the whole terminal instead of printing them. `?` lists the keys.
    #[arg(long, conflicts_with_all = ["output", "timestamps", "resync"])]
    ui: bool,
    /// Print the values of Secrets, which are hidden by default.
    #[arg(long)]
    show_secrets: bool,
}

/// The format in which events are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum WatchOutput {
    /// One line for each event. Below an update, the fields that changed.
    #[default]
    Diff,
    /// One line with a JSON object for each event.
    Json,
    /// The object of each event as a YAML document, after a comment with the time and the event.
    Yaml,
    /// One line with `kind/namespace/name` for each event.
    Name,
    /// One line with the columns of `kubectl get` for each event, below a header.
    Table,
    /// Like `table`, with the additional columns of `kubectl get -o wide`.
    Wide,
}

impl WatchOutput {
    fn is_table(self) -> bool {
        matches!(self, Self::Table | Self::Wide)
    }
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum Streaming {
    #[default]
    Auto,
    On,
    Off,
}

impl WatchArguments {
    /// Returns true if the command takes over the terminal.
    pub(crate) fn is_full_screen(&self) -> bool {
        self.ui
    }

    fn table(&self, found: &WatchTarget, several_kinds: bool) -> Table {
        Table::new(TableOptions {
            wide: matches!(self.output, WatchOutput::Wide),
            namespaces: self.all_namespaces,
            prefix: if several_kinds { printer::kind_name(&found.kind) + "/" } else { String::new() },
        })
    }
}

/// Runs `informer watch` until stdout is closed. Dropping the future, as Ctrl-C does, stops the informers.
pub(crate) async fn run(arguments: WatchArguments) -> Result<(), Failure> {
    if arguments.ui {
        require_terminal("informer watch --ui", "omit --ui to print the changes")?;
    }
    let notes = Notes::new();
    let timeout = SyncTimeout::new(arguments.timeout);
    let client = arguments.connection.client().await?;
    let mut found: Vec<WatchTarget> = Vec::new();
    for target in arguments.kinds.iter().flat_map(|Targets(targets)| targets) {
        let kind = connect::find(&client, target, &notes, timeout).await?;
        // Two names, such as `pods` and `po`, can denote the same kind, which is watched only once.
        if !found.contains(&kind) {
            found.push(kind);
        }
    }
    if arguments.ui {
        notes.progress_done();
        return ui::run(&arguments, &client, found, timeout).await;
    }
    let several_kinds = found.iter().any(|other| other.kind != found[0].kind);
    let (printer, closed) = Printer::new(&arguments, several_kinds, notes.bar());
    let printer = Arc::new(printer);
    let mut watched = Vec::with_capacity(found.len());
    for target in found {
        let table = arguments.table(&target, several_kinds);
        let shown = arguments.output.is_table().then(|| table.clone());
        let (printer, kind) = (Arc::clone(&printer), target.kind.clone());
        let handler = move |event| printer.print(&kind, &table, &event);
        watched.push(Watched::start(&client, target, &arguments, shown.as_ref(), handler, &notes)?);
    }
    tokio::select! {
        result = closed.wait() => result,
        failure = follow(&mut watched, &notes, timeout) => Err(failure),
    }
}

#[derive(Debug, Clone, Copy)]
struct SyncTimeout {
    timeout: Option<Duration>,
    deadline: Option<Instant>,
}

impl SyncTimeout {
    fn new(timeout: Option<Duration>) -> Self {
        Self { timeout, deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)) }
    }

    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn failure(&self, missing: &str) -> Failure {
        Failure::new(format!("gave up after {:?}: {missing}", self.timeout.unwrap_or_default()))
    }
}

struct Watched {
    resource: String,
    informer: SharedInformer<Text>,
    synced: bool,
    _run: InformerRun,
}

impl Watched {
    /// Starts an informer of a kind with one handler. `table` has the columns to request, if any.
    fn start(
        client: &Client,
        target: WatchTarget,
        arguments: &WatchArguments,
        table: Option<&Table>,
        handler: impl FnMut(Event<Text>) + Send + 'static,
        notes: &Notes,
    ) -> Result<Self, Failure> {
        let resource = target.name();
        let source = source(client, &target, arguments, table)?;
        let (failed, name) = (notes.clone(), resource.clone());
        let mut informer = SharedInformer::builder(source)
            .name(resource.clone())
            .watch_error_handler(move |error| failed.failed(&name, error));
        if let Some(period) = arguments.resync {
            informer = informer.resync(period);
        }
        let informer = informer.build();
        informer
            .add_handler_with(HandlerOptions::new().name("print"), blocking(handler))
            .map_err(|error| Failure::new(error.to_string()))?;
        let run = informer.start();
        Ok(Self { resource, informer, synced: false, _run: run })
    }
}

fn source(
    client: &Client,
    found: &WatchTarget,
    arguments: &WatchArguments,
    table: Option<&Table>,
) -> Result<KubeListWatch<Text>, Failure> {
    let converted = table.map(|table| table::client(client, &found.kind, table));
    let client = converted.as_ref().unwrap_or(client);
    let mut source = KubeListWatch::<Text>::of(client, ResourceKind::clone(&found.kind))
        .labels(arguments.labels.clone().unwrap_or_default())
        .fields(found.fields(arguments.fields.as_ref())?)
        .streaming_lists(match arguments.streaming_list {
            // The rows of a list are aligned only if they arrive together.
            Streaming::Auto if table.is_some() => StreamingLists::Off,
            Streaming::Auto => StreamingLists::Auto,
            Streaming::On => StreamingLists::On,
            Streaming::Off => StreamingLists::Off,
        });
    if table.is_some() {
        source = source.encodings(Encodings::Json);
    }
    if found.namespaced && !arguments.all_namespaces {
        let namespace = arguments.namespace.as_deref().unwrap_or_else(|| client.default_namespace());
        source = source.namespace(namespace);
    }
    Ok(source)
}

/// Reports the progress, the syncs and the recoveries of the informers on stderr. Returns an error if an
/// informer is not synced within the timeout; otherwise never returns.
async fn follow(watched: &mut [Watched], notes: &Notes, timeout: SyncTimeout) -> Failure {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        let mut waiting = Vec::new();
        for watched in watched.iter_mut() {
            let state = watched.informer.state();
            if state.synced && !watched.synced {
                watched.synced = true;
                notes.synced(&watched.resource, state.objects);
            }
            if !state.reflector.is_failing() {
                notes.recovered(&watched.resource);
            }
            if !watched.synced {
                waiting.push(format!("{} is {}", watched.resource, state.reflector));
                notes.progress(&watched.resource, &state);
            }
        }
        if waiting.is_empty() {
            notes.progress_done();
        } else if timeout.is_over() {
            return timeout.failure(&format!("not synced: {}", waiting.join("; ")));
        }
    }
}
