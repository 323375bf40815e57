//! All scripts, their runs, and the verdict.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::compare::{Compared, Streams, compare};
use crate::differences::{Difference, DifferencesError, read_differences};
use crate::election::{ElectionScript, run_our_election};
use crate::operations::{OperationError, OperationScript, Verb};
use crate::peer::{OurPeer, Peer};
use crate::queue::{QueueScript, run_ours};
use crate::run::run;
use crate::script::{Script, ScriptError};

/// How often each script runs on client-go: what differs among these runs is no property of it.
const THEIR_RUNS: usize = 3;

/// Scripts that run at the same time. They mostly wait; more of them would make each other late.
const AT_ONCE_MAX: usize = 48;

/// The same for scripts that run again.
const AGAIN_AT_ONCE_MAX: usize = 12;

/// A period above this is none within a script.
const RESYNC_SEEN_MAX: Duration = Duration::from_secs(60);

/// The scripts, and the differences that are meant.
#[derive(Debug)]
pub struct Suite {
    scripts: Vec<Arc<Script>>,
    queues: Vec<QueueScript>,
    elections: Vec<ElectionScript>,
    differences: Vec<Difference>,
}

/// Why there is no suite, or no outcome.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// A script is bad.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// A script of the queue or of the election is bad.
    #[error(transparent)]
    Operations(#[from] OperationError),
    /// The list of differences is bad.
    #[error(transparent)]
    Differences(#[from] DifferencesError),
    /// There is no such script.
    #[error("there is no script {0}")]
    Unknown(String),
}

/// What came of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The peers do the same.
    Equal,
    /// They differ as listed.
    Listed,
    /// They differ otherwise than listed.
    Unlisted,
    /// They are listed as differing, and do the same.
    Stale,
    /// It could not be run.
    Failed,
}

/// One script with its outcome.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The script; that of a queue is `queue/NAME`, that of an election `election/NAME`.
    pub script: String,
    /// What came of it.
    pub verdict: Verdict,
    /// The lines in which the peers differ.
    pub lines: Vec<String>,
    /// The places at which client-go differs from itself.
    pub masked: Vec<String>,
    /// Why it could not be run.
    pub failure: Option<String>,
    /// How often it ran.
    pub tries: u32,
    /// The traces of the last time.
    pub traces: Option<Traces>,
}

/// The traces of one script.
#[derive(Debug, Serialize)]
pub struct Traces {
    /// Those of client-go.
    pub theirs: Vec<Streams>,
    /// That of ours.
    pub ours: Streams,
}

/// All outcomes.
#[derive(Debug, Serialize)]
pub struct Report {
    /// In the order of their names.
    pub outcomes: Vec<Outcome>,
    /// How long it took.
    pub seconds: f64,
}

/// What is run.
#[derive(Debug, Clone)]
enum Job {
    Informer(Arc<Script>),
    Queue(QueueScript),
    Election(ElectionScript),
}

impl Suite {
    /// The folder of this package, which holds the scripts.
    pub fn folder() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR"))
    }

    /// Reads `scripts/`, `queues/`, `elections/` and `differences.yaml` of a folder.
    ///
    /// # Errors
    ///
    /// When one of them cannot be read or is bad.
    pub fn read(folder: &Path) -> Result<Self, SuiteError> {
        let scripts = Script::read_all(&folder.join("scripts"))?.into_iter().map(Arc::new).collect();
        let queues = QueueScript::read_all(&folder.join("queues"))?;
        let differences = read_differences(&folder.join("differences.yaml"))?;
        let elections = ElectionScript::read_all(&folder.join("elections"))?;
        Ok(Self { scripts, queues, elections, differences })
    }

    /// The names of all scripts.
    pub fn names(&self) -> BTreeSet<String> {
        self.jobs().map(|(name, _)| name).collect()
    }

    /// The differences that are meant.
    pub fn differences(&self) -> &[Difference] {
        &self.differences
    }

    /// Leaves one script.
    ///
    /// # Errors
    ///
    /// When there is none of that name.
    pub fn only(mut self, name: &str) -> Result<Self, SuiteError> {
        self.scripts.retain(|script| script.name == name);
        self.queues.retain(|script| script.full_name() == name);
        self.elections.retain(|script| script.full_name() == name);
        self.differences.retain(|difference| difference.script == name);
        if self.jobs().next().is_none() {
            return Err(SuiteError::Unknown(name.to_owned()));
        }
        Ok(self)
    }

    fn jobs(&self) -> impl Iterator<Item = (String, Job)> + '_ {
        let scripts =
            self.scripts.iter().map(|script| (script.name.clone(), Job::Informer(Arc::clone(script))));
        let queues = self.queues.iter().map(|script| (script.full_name(), Job::Queue(script.clone())));
        let elections =
            self.elections.iter().map(|script| (script.full_name(), Job::Election(script.clone())));
        scripts.chain(queues).chain(elections)
    }

    /// Runs everything on both peers: first all at once, then again what came out otherwise than expected, or where
    /// client-go differed from itself, up to `tries` times in all.
    pub async fn run(&self, theirs: Peer, tries: u32) -> Report {
        let begin = Instant::now();
        let peers = Peers {
            theirs: Arc::new(theirs),
            ours: Arc::new(Peer::Ours(OurPeer::default())),
            runs: Arc::default(),
        };
        let mut outcomes: BTreeMap<String, Outcome> = BTreeMap::new();
        for (tried, at_once) in
            (1..=tries).zip(std::iter::once(AT_ONCE_MAX).chain(std::iter::repeat(AGAIN_AT_ONCE_MAX)))
        {
            let left = self.jobs().filter(|(name, _)| outcomes.get(name).is_none_or(Outcome::is_doubtful));
            for (name, traces) in peers.run_all(left, at_once).await {
                let outcome = self.judge(&name, traces, tried);
                outcomes.insert(name, outcome);
            }
        }
        Report { outcomes: outcomes.into_values().collect(), seconds: begin.elapsed().as_secs_f64() }
    }

    fn judge(&self, name: &str, traces: Result<Traces, String>, tries: u32) -> Outcome {
        let listed = self.differences.iter().find(|difference| difference.script == name);
        let (traces, failure) = match traces {
            Ok(traces) => (Some(traces), None),
            Err(failure) => (None, Some(failure)),
        };
        let compared = traces.as_ref().map(|traces| compare(&traces.theirs, &traces.ours));
        let Compared { lines, masked } = compared.unwrap_or_default();
        let verdict = match (&failure, listed) {
            (Some(_), _) => Verdict::Failed,
            (None, None) if lines.is_empty() => Verdict::Equal,
            (None, Some(_)) if lines.is_empty() => Verdict::Stale,
            (None, Some(listed)) if listed.lines == lines => Verdict::Listed,
            (None, _) => Verdict::Unlisted,
        };
        Outcome { script: name.to_owned(), verdict, lines, masked, failure, tries, traces }
    }
}

impl Outcome {
    /// True where a busy machine may have had a hand in it.
    fn is_doubtful(&self) -> bool {
        self.is_problem() || !self.masked.is_empty()
    }

    /// True where it is neither equal nor as listed.
    pub fn is_problem(&self) -> bool {
        !matches!(self.verdict, Verdict::Equal | Verdict::Listed)
    }
}

#[derive(Clone)]
struct Peers {
    theirs: Arc<Peer>,
    ours: Arc<Peer>,
    /// How many runs there were.
    runs: Arc<AtomicU64>,
}

impl Peers {
    /// Runs scripts, this many of them at a time.
    async fn run_all(
        &self,
        jobs: impl Iterator<Item = (String, Job)>,
        at_once: usize,
    ) -> Vec<(String, Result<Traces, String>)> {
        let permits = Arc::new(Semaphore::new(at_once));
        let mut running = JoinSet::new();
        for (name, job) in jobs {
            let (peers, permits) = (self.clone(), Arc::clone(&permits));
            running.spawn(async move {
                let traces = peers.run(&name, &job, &permits).await;
                (name, traces)
            });
        }
        running.join_all().await
    }

    async fn run(&self, name: &str, job: &Job, permits: &Semaphore) -> Result<Traces, String> {
        // A job that hung must not be taken for the one that runs again.
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        // The runs of one script go side by side: they wait for the same things.
        let _permit = permits.acquire().await.map_err(|error| error.to_string())?;
        let runs =
            (0..THEIR_RUNS).map(|number| self.streams(&self.theirs, job, format!("{name} {run}.{number}")));
        let theirs = futures_util::future::try_join_all(runs);
        let (theirs, ours) = tokio::join!(theirs, self.streams(&self.ours, job, format!("{name} {run}")));
        Ok(Traces { theirs: theirs?, ours: ours? })
    }

    async fn streams(&self, peer: &Arc<Peer>, job: &Job, id: String) -> Result<Streams, String> {
        match job {
            Job::Informer(script) => {
                let trace = run(script, peer, &id).await.map_err(|error| error.to_string())?;
                Ok(trace.streams(script.resync < RESYNC_SEEN_MAX, script.transforms))
            }
            Job::Queue(script) => carry_out(script, peer, &id, run_ours).await,
            Job::Election(script) => carry_out(script, peer, &id, run_our_election).await,
        }
    }
}

/// Has a peer carry out the operations of a script; `ours` is how that is done by us.
async fn carry_out<V: Verb>(
    script: &OperationScript<V>,
    peer: &Peer,
    id: &str,
    ours: fn(&OperationScript<V>) -> std::io::Result<Vec<String>>,
) -> Result<Streams, String> {
    let lines = match peer {
        Peer::Go(peer) => peer.send(id, script.command(id)).await.map_err(|error| error.to_string())?.lines,
        Peer::Ours(_) => {
            let script = script.clone();
            let ran = tokio::task::spawn_blocking(move || ours(&script)).await;
            ran.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?
        }
    };
    Ok(Streams::from([(V::OF.to_owned(), lines)]))
}

impl Report {
    /// How many scripts have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.verdict == verdict).count()
    }

    /// The list of differences as this run would have it, with the words of `known`.
    pub fn differences(&self, known: &[Difference]) -> Vec<Difference> {
        let known: HashMap<&str, &Difference> =
            known.iter().map(|each| (each.script.as_str(), each)).collect();
        let differ = self.outcomes.iter().filter(|outcome| !outcome.lines.is_empty());
        let list = differ.map(|outcome| {
            let words = known.get(outcome.script.as_str());
            Difference {
                script: outcome.script.clone(),
                theirs: words.map_or_else(String::new, |words| words.theirs.clone()),
                ours: words.map_or_else(String::new, |words| words.ours.clone()),
                lines: outcome.lines.clone(),
            }
        });
        list.collect()
    }
}
