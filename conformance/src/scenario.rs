use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::{Bench, Failure};

/// The run of a scenario.
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// The default time limit of a scenario; it ends one that hangs. On an idle machine most take a few
/// seconds; a machine under heavy load takes many times as long.
const LIMIT: Duration = Duration::from_secs(600);

/// One behaviour of informers, and how it is shown, on either server.
#[derive(Clone)]
pub struct Scenario {
    /// A sentence.
    pub name: &'static str,
    /// The topic it belongs to.
    pub topic: &'static str,
    /// It must be alone on its server: it stops it, forgets its history, or fills it.
    pub alone: bool,
    /// It takes most of a minute, so that it is not part of `cargo test`.
    pub slow: bool,
    /// When it has failed.
    pub limit: Duration,
    pub(crate) begin: fn(Bench) -> Running,
}

impl Scenario {
    pub(crate) fn new(name: &'static str, begin: fn(Bench) -> Running) -> Self {
        Self { name, topic: "", alone: false, slow: false, limit: LIMIT, begin }
    }

    /// With nothing else on the server.
    pub(crate) fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// Not in `cargo test`.
    pub(crate) fn slow(mut self) -> Self {
        self.slow = true;
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

/// A scenario from the function of its name.
macro_rules! scenario {
    ($function:ident) => {
        $crate::scenario::Scenario::new(stringify!($function), |bench| Box::pin($function(bench)))
    };
}
pub(crate) use scenario;
