use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::{Bench, Failure};

pub(crate) type Running = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// The default time limit of a scenario, which ends a scenario that hangs. On an idle machine most scenarios
/// take a few seconds; a machine under heavy load takes many times as long.
const LIMIT: Duration = Duration::from_secs(600);

/// One behavior of informers, with a function that checks the behavior on the embedded server or a real one.
#[derive(Clone)]
pub struct Scenario {
    /// A sentence that describes the tested behavior; it is also the name of the scenario.
    pub name: &'static str,
    /// The topic to which the scenario belongs.
    pub topic: &'static str,
    /// True if the scenario runs while no other scenario runs, because it stops the server, compacts its
    /// history, or fills it.
    pub alone: bool,
    /// True if the scenario takes almost a minute or longer. `cargo test` skips such scenarios.
    pub slow: bool,
    /// True if the scenario needs the coordinator of leader elections, which only a real server has. The
    /// scenario is not part of a run on another server.
    pub needs_coordinator: bool,
    /// The time limit of the scenario.
    pub limit: Duration,
    pub(crate) begin: fn(Bench) -> Running,
}

impl Scenario {
    pub(crate) fn new(name: &'static str, begin: fn(Bench) -> Running) -> Self {
        Self { name, topic: "", alone: false, slow: false, needs_coordinator: false, limit: LIMIT, begin }
    }

    pub(crate) fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    pub(crate) fn slow(mut self) -> Self {
        self.slow = true;
        self
    }

    pub(crate) fn coordinated(mut self) -> Self {
        self.needs_coordinator = true;
        self
    }

    pub(crate) fn within(mut self, seconds: u64) -> Self {
        self.limit = Duration::from_secs(seconds);
        self
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario").field("name", &self.name).finish_non_exhaustive()
    }
}

macro_rules! scenario {
    ($function:ident) => {
        $crate::scenario::Scenario::new(stringify!($function), |bench| Box::pin($function(bench)))
    };
}
pub(crate) use scenario;
