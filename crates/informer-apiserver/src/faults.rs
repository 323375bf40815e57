//! Faults on demand: rules that say which requests go wrong, when, and how.
//!
//! Rules are data: they are read from JSON or YAML, or built in code. Every request is held against every rule;
//! each rule counts the requests it matched and those it spoiled.

mod action;
mod open;
mod plan;
mod rule;

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};

pub use action::FaultAction;
pub(crate) use open::OpenWatch;
pub(crate) use plan::{Answer, BodyEnd, PagePlan, Plan, Point, Trickle, Twist, Upset};
pub use rule::{FaultFile, FaultMatch, FaultRule, FaultWhen, ParseFaultsError};

use crate::requests::RequestRecord;

/// The faults of one server. A clone is another handle to the same rules.
///
/// ```
/// use informer_apiserver::{ApiServer, FaultMatch};
///
/// let server = ApiServer::builder().build();
/// let expired = server.faults().on(FaultMatch::watch("pods")).nth(1).expire();
/// assert_eq!(expired.fired(), 0);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Faults {
    rules: Arc<Mutex<Vec<Arc<Mutex<Armed>>>>>,
    /// The watches that are open, in the order in which they began.
    open: Arc<Mutex<Vec<Weak<OpenWatch>>>>,
}

#[derive(Debug)]
struct Armed {
    rule: FaultRule,
    rng: StdRng,
    matched: u64,
    fired: u64,
}

/// One rule at work. Dropping the handle leaves the rule in force.
#[derive(Debug, Clone)]
pub struct Fault {
    armed: Arc<Mutex<Armed>>,
    rules: Faults,
}

impl Faults {
    /// Puts a rule in force, behind those already there.
    ///
    /// What happens in the middle of a watch (410, cut, stall, garbage, lost bookmarks) also happens to the watches
    /// that are open: they count as matching requests, the oldest first, and their events count from here on. So "the
    /// first watch" is the same one for a test, whether it has begun yet or not.
    pub fn add(&self, rule: FaultRule) -> Fault {
        let rng = StdRng::seed_from_u64(rule.when.seed);
        let mut armed = Armed { rule, rng, matched: 0, fired: 0 };
        // Under the lock of the rules, so that a watch that begins now meets the rule once: here or in `plan`.
        let mut rules = self.rules.lock();
        self.spoil_open(&mut armed);
        let armed = Arc::new(Mutex::new(armed));
        rules.push(Arc::clone(&armed));
        drop(rules);
        Fault { armed, rules: self.clone() }
    }

    /// Puts all rules of a file in force.
    pub fn add_all(&self, file: FaultFile) -> Vec<Fault> {
        file.faults.into_iter().map(|rule| self.add(rule)).collect()
    }

    /// Begins a rule for the requests that match.
    pub fn on(&self, on: FaultMatch) -> FaultBuilder {
        FaultBuilder { faults: self.clone(), on, when: FaultWhen::default() }
    }

    /// Takes all rules away.
    pub fn clear(&self) {
        self.rules.lock().clear();
    }

    fn spoil_open(&self, armed: &mut Armed) {
        if !armed.rule.action.is_within_a_watch() {
            return;
        }
        let mut open = self.open.lock();
        open.retain(|watch| watch.strong_count() > 0);
        for watch in open.iter().filter_map(Weak::upgrade) {
            if armed.rule.on.matches(watch.request()) && armed.fires() {
                armed.fired += 1;
                watch.spoil(&armed.rule.action);
            }
        }
    }

    /// What the rules make of a request. A watch stays open for later rules as long as its [`OpenWatch`] is held.
    pub(crate) fn plan(&self, request: &Arc<RequestRecord>) -> Plan {
        let mut plan = Plan::default();
        let rules = self.rules.lock();
        if request.verb == crate::Verb::Watch {
            let watch = Arc::new(OpenWatch::new(Arc::clone(request)));
            remember(&mut self.open.lock(), &watch);
            plan.open = Some(watch);
        }
        for armed in rules.iter() {
            let mut armed = armed.lock();
            if armed.rule.on.matches(request) && armed.fires() {
                armed.fired += 1;
                plan.add(&armed.rule.action);
            }
        }
        plan
    }
}

/// Forgets those that ended before the list grows: it holds at most some four times as many as were open at once.
fn remember(open: &mut Vec<Weak<OpenWatch>>, watch: &Arc<OpenWatch>) {
    if open.len() == open.capacity() {
        open.retain(|watch| watch.strong_count() > 0);
        // Room for as many again, so that watches that stay open are not looked through for each new one.
        open.reserve(open.len().max(1));
    }
    open.push(Arc::downgrade(watch));
}

impl Armed {
    fn fires(&mut self) -> bool {
        self.matched += 1;
        let (when, call) = (&self.rule.when, self.matched);
        when.nth.is_none_or(|nth| call == nth)
            && when.from.is_none_or(|from| call >= from)
            && when.to.is_none_or(|to| call <= to)
            && when.every.is_none_or(|every| every > 0 && call.is_multiple_of(every))
            && when.times.is_none_or(|times| self.fired < times)
            // The draw comes last, so that the sequence depends on the seed and on eligible calls alone.
            && when.probability.is_none_or(|probability| self.rng.random::<f64>() < probability)
    }
}

impl Fault {
    /// Requests that the rule matched, whether or not they were spoiled.
    pub fn matched(&self) -> u64 {
        self.armed.lock().matched
    }

    /// Requests that it spoiled.
    pub fn fired(&self) -> u64 {
        self.armed.lock().fired
    }

    /// Takes the rule away.
    pub fn remove(&self) {
        self.rules.rules.lock().retain(|other| !Arc::ptr_eq(other, &self.armed));
    }
}

/// A rule in the making: when it fires, then what happens. The last call puts it in force.
#[derive(Debug)]
#[must_use = "a rule is in force once its action is named"]
pub struct FaultBuilder {
    faults: Faults,
    on: FaultMatch,
    when: FaultWhen,
}

impl FaultBuilder {
    /// Only the n-th matching request, counted from 1.
    pub fn nth(mut self, nth: u64) -> Self {
        self.when.nth = Some(nth);
        self
    }

    /// Only the first `times` requests.
    pub fn times(mut self, times: u64) -> Self {
        self.when.times = Some(times);
        self
    }

    /// Each request with this probability, drawn from `seed`.
    pub fn probability(mut self, probability: f64, seed: u64) -> Self {
        self.when.probability = Some(probability);
        self.when.seed = seed;
        self
    }

    /// Whatever [`FaultWhen`] can say.
    pub fn when(mut self, when: FaultWhen) -> Self {
        self.when = when;
        self
    }

    /// Puts the rule in force with any action.
    pub fn then(self, action: FaultAction) -> Fault {
        let rule = FaultRule { name: None, on: self.on, when: self.when, action };
        self.faults.add(rule)
    }

    /// 410: as the first event of a watch, as the status of anything else.
    pub fn expire(self) -> Fault {
        self.then(FaultAction::Expire { after_events: 0 })
    }

    /// This HTTP status, worded as upstream words it where it does.
    pub fn status(self, code: u16) -> Fault {
        self.then(FaultAction::Status { code, reason: None, message: None, retry_after: None, body: None })
    }

    /// An ERROR event with this status after so many events, worded as upstream words it where it does.
    pub fn error_after(self, events: u64, code: u16) -> Fault {
        self.then(FaultAction::ErrorEvent {
            after_events: events,
            code,
            reason: None,
            message: None,
            retry_after: None,
        })
    }

    /// Carried out, and then the connection is reset in place of the answer.
    pub fn lose_answer(self) -> Fault {
        self.then(FaultAction::LostAnswer)
    }

    /// The stream ends properly after so many events.
    pub fn cut_after(self, events: u64) -> Fault {
        self.then(FaultAction::Cut { after_events: Some(events), after_bytes: None, abrupt: false })
    }

    /// The stream falls silent after so many events, with its connection open.
    pub fn stall_after(self, events: u64) -> Fault {
        self.then(FaultAction::Stall { after_events: Some(events), after_bytes: None })
    }
}

#[cfg(test)]
mod tests;
