use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use informer_cache::handler::on_event_async;
use informer_cache::{Event, HandlerOptions, HandlerRegistration, InformerRun, SharedInformer};
use informer_client::{Client, Encodings, KubeListWatch, Lazy, StreamingLists};
use informer_core::Object;
use informer_store::Indexers;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Command, Reply};
use crate::trace::{Check, Entry};

/// Before and after a command, the peer waits until the trace had no new entry for this time. It has then
/// handled everything that the server has sent. The first command (`Start`) does not wait, and `Stop` does
/// not wait after it.
const QUIET: Duration = Duration::from_millis(150);

type Config = Lazy<ConfigMap>;

/// The informers of this library, one for each job.
#[derive(Debug, Default)]
pub struct OurPeer {
    sessions: Mutex<HashMap<String, Arc<Session>>>,
}

#[derive(Debug)]
struct Session {
    log: Arc<Log>,
    informer: SharedInformer<Config>,
    run: Mutex<Option<InformerRun>>,
    handlers: Mutex<BTreeMap<String, HandlerRegistration<Config>>>,
    gates: Mutex<HashMap<String, watch::Sender<bool>>>,
}

/// The entries of the trace that are not in a reply yet, and the time of the last entry.
#[derive(Debug)]
struct Log(Mutex<(Vec<Entry>, Instant)>);

impl OurPeer {
    pub(super) async fn command(&self, job: &str, command: &Command) -> Reply {
        let result = self.carry_out(job, command).await;
        let session = self.sessions.lock().get(job).cloned();
        let entries = session.map(|session| session.log.take()).unwrap_or_default();
        if *command == Command::Stop {
            self.sessions.lock().remove(job);
        }
        let error = result.err().map(|error| error.to_string()).unwrap_or_default();
        Reply { job: job.to_owned(), entries, lines: Vec::new(), error }
    }

    async fn carry_out(&self, job: &str, command: &Command) -> Result<(), Box<dyn Error + Send + Sync>> {
        if let Command::Start { url, streaming, resync } = command {
            let session = Session::start(url, *streaming, *resync)?;
            self.sessions.lock().insert(job.to_owned(), Arc::new(session));
            return Ok(());
        }
        let session = self.sessions.lock().get(job).cloned();
        session.ok_or("the job is not running")?.carry_out(command).await
    }
}

impl Log {
    fn see(&self, entry: Entry) {
        let mut log = self.0.lock();
        log.0.push(entry);
        log.1 = Instant::now();
    }

    fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut self.0.lock().0)
    }

    async fn settle(&self) {
        let since = Instant::now();
        loop {
            let quiet_at = self.0.lock().1.max(since) + QUIET;
            if quiet_at <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(quiet_at).await;
        }
    }
}

impl Session {
    fn start(url: &str, streaming: bool, resync: Duration) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let client = Client::new(kube_client::Config::new(url.parse()?))?;
        let streaming = if streaming { StreamingLists::Auto } else { StreamingLists::Off };
        let source = KubeListWatch::<Config>::all(client).streaming_lists(streaming);
        // The informer requests JSON, as client-go does for ConfigMaps. The lists and events in scripts are
        // JSON, and a scripted status 406 must not cause a fallback to another encoding.
        let source = source.encodings(Encodings::Json);
        let log = Arc::new(Log(Mutex::new((Vec::new(), Instant::now()))));
        let seen = Arc::clone(&log);
        let informer = SharedInformer::builder(source)
            .resync(resync)
            .index("app", by_app)
            .transform(move |object| transform(&seen, &object))
            .build();
        let (handlers, gates) = (Mutex::default(), Mutex::default());
        let session = Self { log, informer, run: Mutex::default(), handlers, gates };
        for (name, period) in [("first", Duration::ZERO), ("removed", Duration::ZERO), ("resync", resync)] {
            session.add(name, period)?;
        }
        *session.run.lock() = Some(session.informer.start());
        Ok(session)
    }

    async fn carry_out(&self, command: &Command) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.log.settle().await;
        match command {
            Command::Start { .. } => return Err("the job is already running".into()),
            Command::Check => self.check(),
            Command::Add(name) => self.add(name, Duration::ZERO)?,
            Command::Remove(name) => {
                let handler = self.handlers.lock().remove(name);
                handler.ok_or_else(|| format!("unknown handler {name}"))?.remove();
            }
            Command::Block(name) => drop(self.gate(name).send_replace(true)),
            Command::Unblock(name) => drop(self.gate(name).send_replace(false)),
            Command::Index => {
                let by_version = |object: &Config| vec![object.resource_version().to_string()];
                self.informer.add_indexers(Indexers::new().index("version", by_version))?;
            }
            Command::Stop => {
                let run = self.run.lock().take();
                if let Some(run) = run {
                    run.stop().await;
                }
                return Ok(());
            }
        }
        self.log.settle().await;
        Ok(())
    }

    fn gate(&self, name: &str) -> watch::Sender<bool> {
        self.gates.lock().entry(name.to_owned()).or_default().clone()
    }

    fn add(&self, name: &str, period: Duration) -> Result<(), Box<dyn Error + Send + Sync>> {
        let (log, handler, gate) = (Arc::clone(&self.log), name.to_owned(), self.gate(name));
        let handle = on_event_async(move |event: Event<Config>| {
            let (log, handler, mut blocked) = (Arc::clone(&log), handler.clone(), gate.subscribe());
            async move {
                // The result of this wait is ignored. It is an error only if the session, which holds the
                // sender, was dropped. No command then waits for this call of the handler.
                let _ = blocked.wait_for(|blocked| !blocked).await;
                log.see(seen(handler, &event));
            }
        });
        let options = HandlerOptions::new().name(name).resync(period);
        let registration = self.informer.add_handler_with(options, handle)?;
        self.handlers.lock().insert(name.to_owned(), registration);
        Ok(())
    }

    fn check(&self) {
        let indexer = self.informer.indexer();
        let mut store: Vec<String> = indexer.list().iter().map(|object| display(object)).collect();
        store.sort();
        let indexers = indexer.indexers();
        let indexes = indexers.names().map(|name| {
            let keys = indexer.index_values(name).into_iter().map(|value| {
                let keys = indexer.index_keys(name, &value).unwrap_or_default();
                let mut keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
                keys.sort();
                (value.to_string(), keys)
            });
            (name.to_owned(), keys.collect())
        });
        let handlers = self.handlers.lock();
        let synced = handlers.iter().map(|(name, handler)| (name.clone(), handler.has_synced()));
        let synced = synced.chain([("informer".to_owned(), self.informer.has_synced())]);
        let check = Check {
            store,
            indexes: indexes.collect(),
            version: self.informer.last_sync_resource_version().to_string(),
            synced: synced.collect(),
        };
        self.log.see(Entry { check: Some(check), ..Entry::default() });
    }
}

fn display(object: &Config) -> String {
    format!("{}@{}", object.key(), object.resource_version())
}

/// The transform of the informer under test. It records the object, sets the label `seen` on it, and removes
/// its data. The store and the index can thus show whether they contain transformed objects.
fn transform(log: &Log, object: &Config) -> Result<Arc<Config>, Box<dyn Error + Send + Sync>> {
    log.see(Entry { transform: display(object), ..Entry::default() });
    let mut value: Value = serde_json::from_str(&object.json()?)?;
    value["metadata"]["labels"]["seen"] = "yes".into();
    if let Some(members) = value.as_object_mut() {
        members.remove("data");
    }
    Ok(Arc::new(Config::from_json(&value.to_string())?))
}

fn by_app(object: &Config) -> Vec<String> {
    let labels = object.labels();
    let transformed =
        labels.get("seen") == Some("yes") && !object.json().is_ok_and(|text| text.contains("\"data\""));
    labels.get("app").filter(|_| transformed).map(str::to_owned).into_iter().collect()
}

fn seen(handler: String, event: &Event<Config>) -> Entry {
    let entry = Entry { handler, key: event.key().to_string(), ..Entry::default() };
    match event {
        Event::Added { object, initial } => Entry {
            call: "add".to_owned(),
            new: object.resource_version().to_string(),
            initial: *initial,
            ..entry
        },
        Event::Updated { old, new, .. } => Entry {
            call: "update".to_owned(),
            old: old.resource_version().to_string(),
            new: new.resource_version().to_string(),
            other_uid: old.uid() != new.uid(),
            ..entry
        },
        Event::Deleted { last, stale } => Entry {
            call: "delete".to_owned(),
            old: last.resource_version().to_string(),
            last_known: *stale,
            ..entry
        },
    }
}
