use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use serde::Serialize;
use tokio::time::Instant;

use crate::bench::{Bench, Failure};
use crate::{Scenario, Server};

/// What of the suite is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only scenarios whose name contains this.
    pub only: Option<String>,
    /// Those that take most of a minute, too.
    pub slow: bool,
    /// Scenarios at once, of those that allow it.
    pub at_once: usize,
    /// Told of each scenario when it has ended.
    pub told: fn(&Outcome),
}

impl Default for Options {
    fn default() -> Self {
        // Most scenarios wait most of the time, for backoffs.
        Self { only: None, slow: true, at_once: 16, told: |_| {} }
    }
}

/// How one scenario ended.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Its name.
    pub name: &'static str,
    /// Its topic.
    pub topic: &'static str,
    /// Why it failed.
    pub failure: Option<String>,
    /// How long it took.
    pub seconds: f64,
}

/// How a run of the suite ended.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The server.
    pub server: &'static str,
    /// Scenarios that ran.
    pub outcomes: Vec<Outcome>,
    /// How long the run took.
    pub seconds: f64,
}

impl Verdict {
    /// Those that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|outcome| outcome.failure.is_some())
    }

    /// How many passed.
    pub fn passed(&self) -> usize {
        self.outcomes.len() - self.failed().count()
    }
}

/// Runs scenarios on a server: first those that may run beside others, then the others one by one.
pub async fn run(server: Arc<Server>, scenarios: Vec<Scenario>, options: Options) -> Verdict {
    let began = Instant::now();
    let wanted = |scenario: &Scenario| {
        options.only.as_ref().is_none_or(|only| scenario.name.contains(&**only))
            && (options.slow || !scenario.slow)
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

/// Runs one scenario in a task and a namespace of its own: neither a panic nor what it leaves behind concerns others.
async fn one(server: Arc<Server>, scenario: Scenario) -> Outcome {
    let began = Instant::now();
    let run = async move {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let bench = Bench::new(server, format!("c-{}", &id[..12])).await?;
        (scenario.begin)(bench.clone()).await?;
        match bench.server.is_newer() {
            true => bench.equals_json().await,
            false => Ok(()),
        }
    };
    let failure = ended(tokio::spawn(tokio::time::timeout(scenario.limit, run)).await, scenario.limit);
    Outcome {
        name: scenario.name,
        topic: scenario.topic,
        failure,
        seconds: (began.elapsed().as_secs_f64() * 1000.0).round() / 1000.0,
    }
}

type Ended = Result<Result<Result<(), Failure>, tokio::time::error::Elapsed>, tokio::task::JoinError>;

fn ended(ended: Ended, limit: Duration) -> Option<String> {
    match ended {
        Ok(Ok(Ok(()))) => None,
        Ok(Ok(Err(failure))) => Some(chain(&*failure)),
        Ok(Err(_)) => Some(format!("not done after {limit:?}")),
        Err(error) => Some(match error.try_into_panic() {
            Ok(panic) => text(&*panic),
            Err(error) => error.to_string(),
        }),
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
