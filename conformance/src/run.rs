use std::any::Any;
use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use serde::Serialize;
use tokio::time::Instant;

use crate::bench::Bench;
use crate::{Scenario, Server};

/// The options of a run: which scenarios of the suite run, and how many concurrently.
#[derive(Clone, Debug)]
pub struct Options {
    /// If set, run only scenarios whose name contains this string.
    pub only: Option<String>,
    /// True to include the scenarios that take almost a minute or longer.
    pub slow: bool,
    /// Number of scenarios that run concurrently. Scenarios that must run exclusively are not affected.
    pub at_once: usize,
    /// A function that is called after each scenario, for example to print its outcome.
    pub told: fn(&Outcome),
}

impl Default for Options {
    fn default() -> Self {
        // A high concurrency costs little, since most scenarios wait for backoffs most of the time.
        Self { only: None, slow: true, at_once: 16, told: |_| {} }
    }
}

/// The result of one scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The name of the scenario.
    pub name: &'static str,
    /// The topic of the scenario.
    pub topic: &'static str,
    /// The error message if the scenario failed.
    pub failure: Option<String>,
    /// The duration of the scenario.
    pub seconds: f64,
}

/// The result of a run of the suite.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The name of the server on which the suite ran.
    pub server: &'static str,
    /// The outcomes of the scenarios that ran.
    pub outcomes: Vec<Outcome>,
    /// The duration of the run, in seconds.
    pub seconds: f64,
}

impl Verdict {
    /// Returns the outcomes of the scenarios that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|outcome| outcome.failure.is_some())
    }

    /// Returns the number of scenarios that passed.
    pub fn passed(&self) -> usize {
        self.outcomes.len() - self.failed().count()
    }
}

/// Runs scenarios on a server: first those that allow concurrency, then the others one by one.
pub async fn run(server: Arc<Server>, scenarios: Vec<Scenario>, options: Options) -> Verdict {
    let began = Instant::now();
    let wanted = |scenario: &Scenario| {
        options.only.as_ref().is_none_or(|only| scenario.name.contains(&**only))
            && (options.slow || !scenario.slow)
            && (!scenario.needs_coordinator || server.has_coordinator())
    };
    let (alone, together): (Vec<_>, Vec<_>) =
        scenarios.into_iter().filter(wanted).partition(|scenario| scenario.alone);
    let told = options.told;
    let one = |scenario: Scenario| {
        let server = Arc::clone(&server);
        async move {
            let outcome = one(server, scenario).await;
            told(&outcome);
            outcome
        }
    };
    let mut outcomes: Vec<Outcome> =
        stream::iter(together).map(one).buffer_unordered(options.at_once).collect().await;
    for scenario in alone {
        outcomes.push(one(scenario).await);
    }
    outcomes.sort_by_key(|outcome| (outcome.topic, outcome.name));
    Verdict { server: server.name(), outcomes, seconds: began.elapsed().as_secs_f64() }
}

/// Runs one scenario in its own task and namespace, so that a panic or leftover objects do not affect other
/// scenarios.
async fn one(server: Arc<Server>, scenario: Scenario) -> Outcome {
    let began = Instant::now();
    let run = async move {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let bench = Bench::new(server, format!("c-{}", &id[..12])).await?;
        (scenario.begin)(bench.clone()).await?;
        if bench.server.is_newer() { bench.equals_json().await } else { Ok(()) }
    };
    let limit = scenario.limit;
    let run = async move {
        match tokio::time::timeout(limit, run).await {
            Ok(Ok(())) => None,
            Ok(Err(failure)) => Some(chain(&*failure)),
            Err(_) => Some(format!("not finished within {limit:?}")),
        }
    };
    let failure = tokio::spawn(run).await.unwrap_or_else(|error| Some(crash(error)));
    Outcome {
        name: scenario.name,
        topic: scenario.topic,
        failure,
        seconds: (began.elapsed().as_secs_f64() * 1000.0).round() / 1000.0,
    }
}

/// Returns the message of a panic, or the reason why the task of a scenario was cancelled.
fn crash(error: tokio::task::JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => text(&*panic),
        Err(error) => error.to_string(),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let (mut line, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        line += &format!(": {error}");
        cause = error.source();
    }
    line
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}
