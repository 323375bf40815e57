//! The parity suite: reads all scripts, runs them on client-go and on this library, and reports the result of
//! each.

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

/// The number of runs of each script on client-go. If these runs differ in a place, that place is not
/// compared.
const THEIR_RUNS: usize = 3;

/// The maximum number of scripts that run concurrently. The runs mostly wait, so many of them can run at
/// once. With even more, they would delay each other.
const MAX_AT_ONCE: usize = 48;

/// The maximum number of scripts that run concurrently when scripts are repeated. It is small, because a busy
/// machine may be the reason for the repetition.
const MAX_AGAIN_AT_ONCE: usize = 12;

/// Scripts with a resync period below this limit can have resyncs. Several consecutive rounds of a resync
/// then count as one in the comparison, because their number depends on the time.
const MAX_RESYNC_SEEN: Duration = Duration::from_secs(60);

/// The scripts of the suite, and the list of intended differences.
#[derive(Debug)]
pub struct Suite {
    scripts: Vec<Arc<Script>>,
    queues: Vec<QueueScript>,
    elections: Vec<ElectionScript>,
    differences: Vec<Difference>,
}

/// The error of a suite that cannot be read or run.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// A script of informers is invalid.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// A script of the queue or of the election is invalid.
    #[error(transparent)]
    Operations(#[from] OperationError),
    /// The list of intended differences is invalid.
    #[error(transparent)]
    Differences(#[from] DifferencesError),
    /// The suite contains no script with this name.
    #[error("unknown script {0}")]
    Unknown(String),
}

/// The result of comparing client-go and this library with one script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The peers (client-go and this library) behave equally.
    Equal,
    /// The peers (client-go and this library) differ, and every difference is listed.
    Listed,
    /// The peers have a difference that is not listed.
    Unlisted,
    /// The peers behave equally although a difference is listed.
    Stale,
    /// The script could not be run to its end on one of the peers.
    Failed,
}

/// One script with its result and its traces.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The name of the script; `queue/NAME` for a script of the work queue, `election/NAME` for one of the
    /// election.
    pub script: String,
    /// The result of comparing the peers.
    pub verdict: Verdict,
    /// The lines in which the traces of client-go and of this library differ.
    pub lines: Vec<String>,
    /// The places at which the runs on client-go differ from each other. The run of this library is not
    /// compared with them there.
    pub masked: Vec<String>,
    /// The error message if the script could not be run.
    pub failure: Option<String>,
    /// The number of times that the script was run on both peers.
    pub tries: u32,
    /// The traces of the last run of the script; `None` if it could not be run.
    pub traces: Option<Traces>,
}

/// The traces of one script, from client-go and from this library.
#[derive(Debug, Serialize)]
pub struct Traces {
    /// The traces of client-go, one for each of its runs.
    pub theirs: Vec<Streams>,
    /// The trace of this library.
    pub ours: Streams,
}

/// The outcomes of all scripts of a run of the suite.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The outcomes of the scripts, sorted by script name.
    pub outcomes: Vec<Outcome>,
    /// The duration of the run, in seconds.
    pub seconds: f64,
}

#[derive(Debug, Clone)]
enum Job {
    Informer(Arc<Script>),
    Queue(QueueScript),
    Election(ElectionScript),
}

impl Suite {
    /// Returns the folder of this package. It contains the scripts.
    pub fn folder() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR"))
    }

    /// Reads the suite from `scripts/`, `queues/`, `elections/` and `differences.yaml` in a folder.
    ///
    /// # Errors
    ///
    /// When one of these files cannot be read or is invalid.
    pub fn read(folder: &Path) -> Result<Self, SuiteError> {
        let scripts = Script::read_all(&folder.join("scripts"))?.into_iter().map(Arc::new).collect();
        let queues = QueueScript::read_all(&folder.join("queues"))?;
        let differences = read_differences(&folder.join("differences.yaml"))?;
        let elections = ElectionScript::read_all(&folder.join("elections"))?;
        Ok(Self { scripts, queues, elections, differences })
    }

    /// Returns the names of all scripts of the suite.
    pub fn names(&self) -> BTreeSet<String> {
        self.jobs().map(|(name, _)| name).collect()
    }

    /// Returns the list of intended differences.
    pub fn differences(&self) -> &[Difference] {
        &self.differences
    }

    /// Removes all scripts except one from the suite.
    ///
    /// # Errors
    ///
    /// When no script has that name.
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

    /// Runs all scripts on both peers. Scripts whose result is unexpected, or whose runs on client-go differ
    /// from each other, are then repeated with less concurrency, up to `tries` runs of each script in total.
    pub async fn run(&self, theirs: Peer, tries: u32) -> Report {
        let begin = Instant::now();
        let peers = Peers {
            theirs: Arc::new(theirs),
            ours: Arc::new(Peer::Ours(OurPeer::default())),
            runs: Arc::default(),
        };
        let mut outcomes: BTreeMap<String, Outcome> = BTreeMap::new();
        for (tried, at_once) in
            (1..=tries).zip(std::iter::once(MAX_AT_ONCE).chain(std::iter::repeat(MAX_AGAIN_AT_ONCE)))
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
    /// Returns true if the script should be repeated, because a busy machine may have caused its result: the
    /// result is unexpected, or runs on client-go differ from each other.
    fn is_doubtful(&self) -> bool {
        self.is_problem() || !self.masked.is_empty()
    }

    /// Returns true if the script failed, or if its differences are not exactly the listed ones.
    pub fn is_problem(&self) -> bool {
        !matches!(self.verdict, Verdict::Equal | Verdict::Listed)
    }
}

#[derive(Clone)]
struct Peers {
    theirs: Arc<Peer>,
    ours: Arc<Peer>,
    runs: Arc<AtomicU64>,
}

impl Peers {
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
        // Each run of a script has its own job name. If a peer replies late to a run that was given up, the
        // reply is therefore not mistaken for a reply to the next run of the script.
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        // The runs of one script on client-go and on this library start concurrently, because they mostly
        // wait.
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
                Ok(trace.streams(script.resync < MAX_RESYNC_SEEN, script.transforms))
            }
            Job::Queue(script) => carry_out(script, peer, &id, run_ours).await,
            Job::Election(script) => carry_out(script, peer, &id, run_our_election).await,
        }
    }
}

/// Runs a script of a queue or an election on a peer (client-go or this library). `ours` is the function that
/// runs it on this library.
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
    /// Returns the number of scripts with this result.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.verdict == verdict).count()
    }

    /// Returns the differences that this run has found, as a new list of intended differences. The
    /// descriptions are taken from `known`, by the name of the script; those of new differences are empty.
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
