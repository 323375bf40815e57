//! Fault injection: rules that select requests, and the faults to inject into them.
//!
//! Rules are data: they are parsed from JSON or YAML, or built in code. Every request is matched against
//! every rule. Each rule counts the requests that it matched and those in which it injected its fault.

mod action;
mod hook;
mod injector;
mod plan;
mod rule;
mod script;
mod shrink;
mod watch;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use rand::{RngExt, SeedableRng, rngs::StdRng};

pub use action::FaultAction;
pub use hook::RequestHook;
pub use injector::{ScriptInjector, WriteFaults};
pub(crate) use plan::{
    BodyEnd, BodyPosition, EventFault, InjectedResponse, PagePlan, Plan, Trickle, WatchFault,
};
pub use rule::{FaultFile, FaultMatch, FaultRule, FaultWhen, ParseFaultsError};
pub use script::{FaultScript, ParseScriptError, RunFault, ScheduledFault};
pub use shrink::ScriptShrinker;
pub(crate) use watch::OpenWatch;

use crate::requests::RequestRecord;

/// The fault rules of one server. Clones are handles to the same rules.
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
    rules: Arc<Mutex<Vec<Arc<Mutex<ActiveRule>>>>>,
    /// The open watches, oldest first.
    open: Arc<Mutex<Vec<Weak<OpenWatch>>>>,
    hook: Arc<OnceLock<Arc<dyn RequestHook>>>,
    /// The number of rules that were ever added.
    added: Arc<AtomicU64>,
}

#[derive(Debug)]
struct ActiveRule {
    /// Identifies the rule among all rules of the server, starting at 1.
    number: u64,
    rule: FaultRule,
    rng: StdRng,
    matched: u64,
    fired: u64,
}

/// A copy of an active fault rule and its counters.
#[derive(Debug)]
pub(crate) struct RuleState {
    pub(crate) number: u64,
    pub(crate) rule: FaultRule,
    pub(crate) matched: u64,
    pub(crate) fired: u64,
}

/// A handle to an active fault rule. Dropping the handle does not remove the rule.
#[derive(Debug, Clone)]
pub struct Fault {
    rule_state: Arc<Mutex<ActiveRule>>,
    rules: Faults,
}

impl Faults {
    /// Activates a rule. It applies after the existing rules.
    ///
    /// An action that takes effect within a watch, such as [`FaultAction::Expire`], [`FaultAction::Garbage`]
    /// or [`FaultAction::DropBookmarks`], also applies to watches that are already open. The open watches
    /// count as matching requests, oldest first, and their events are counted from now on. Therefore
    /// [`nth(1)`](FaultBuilder::nth) selects the same watch, whether a test adds the rule before or after the
    /// watch starts.
    pub fn add(&self, rule: FaultRule) -> Fault {
        let rng = StdRng::seed_from_u64(rule.when.seed);
        let number = self.added.fetch_add(1, Ordering::Relaxed) + 1;
        let mut rule_state = ActiveRule { number, rule, rng, matched: 0, fired: 0 };
        // The lock is held while the rule is added to open watches and to the list. A watch that starts
        // concurrently therefore gets the rule exactly once, here or in `plan`.
        let mut rules = self.rules.lock();
        self.apply_to_open_watches(&mut rule_state);
        let rule_state = Arc::new(Mutex::new(rule_state));
        rules.push(Arc::clone(&rule_state));
        drop(rules);
        Fault { rule_state, rules: self.clone() }
    }

    /// Activates all rules of a file, in order.
    pub fn add_all(&self, file: FaultFile) -> Vec<Fault> {
        file.faults.into_iter().map(|rule| self.add(rule)).collect()
    }

    /// Starts to build a rule for the requests that match.
    pub fn on(&self, on: FaultMatch) -> FaultBuilder {
        FaultBuilder { faults: self.clone(), on, when: FaultWhen::default() }
    }

    /// Removes all rules. A fault that has already begun, such as a stalled watch, continues.
    pub fn clear(&self) {
        self.rules.lock().clear();
    }

    /// Returns copies of the active rules, in the order in which they apply.
    pub(crate) fn active(&self) -> Vec<RuleState> {
        let copy = |active: &Arc<Mutex<ActiveRule>>| {
            let ActiveRule { number, rule, matched, fired, .. } = &*active.lock();
            RuleState { number: *number, rule: rule.clone(), matched: *matched, fired: *fired }
        };
        self.rules.lock().iter().map(copy).collect()
    }

    /// Removes the rule with this number. Returns false if it is not active.
    pub(crate) fn remove(&self, number: u64) -> bool {
        let mut rules = self.rules.lock();
        let before = rules.len();
        rules.retain(|active| active.lock().number != number);
        rules.len() < before
    }

    /// Returns the open watches, oldest first.
    pub(crate) fn open_watches(&self) -> Vec<Arc<OpenWatch>> {
        self.open.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Sets the hook of all requests, which chooses faults by code instead of rules. Its faults are injected
    /// after those of the rules.
    ///
    /// # Errors
    ///
    /// Returns the hook if the server already has one.
    pub fn set_hook(&self, hook: Arc<dyn RequestHook>) -> Result<(), Arc<dyn RequestHook>> {
        self.hook.set(hook)
    }

    pub(crate) fn hook(&self) -> Option<&Arc<dyn RequestHook>> {
        self.hook.get()
    }

    /// Injects a fault into the open watches that `matches` selects, oldest first. Watches that start later
    /// are not affected. Returns the number of these watches.
    ///
    /// Only the actions that [`add`](Self::add) applies to open watches have an effect.
    pub fn inject_into_open_watches(
        &self,
        matches: impl Fn(&RequestRecord) -> bool,
        action: &FaultAction,
    ) -> usize {
        if !action.applies_to_open_watch() {
            return 0;
        }
        let open = self.open_watches();
        let selected = open.iter().filter(|watch| matches(watch.request()));
        selected.inspect(|watch| watch.inject(action)).count()
    }

    fn apply_to_open_watches(&self, rule_state: &mut ActiveRule) {
        if !rule_state.rule.action.applies_to_open_watch() {
            return;
        }
        let mut open = self.open.lock();
        open.retain(|watch| watch.strong_count() > 0);
        for watch in open.iter().filter_map(Weak::upgrade) {
            if rule_state.rule.on.matches(watch.request()) && rule_state.should_fire() {
                rule_state.fired += 1;
                watch.inject(&rule_state.rule.action);
            }
        }
    }

    /// Returns the faults to inject into a request. For a watch, rules that are added later also apply while
    /// its [`OpenWatch`] exists.
    pub(crate) fn plan(&self, request: &Arc<RequestRecord>) -> Plan {
        let mut plan = Plan::default();
        let rules = self.rules.lock();
        if request.verb == crate::Verb::Watch {
            let watch = Arc::new(OpenWatch::new(Arc::clone(request)));
            track_open_watch(&mut self.open.lock(), &watch);
            plan.open = Some(watch);
        }
        for rule_state in rules.iter() {
            let mut rule_state = rule_state.lock();
            if rule_state.rule.on.matches(request) && rule_state.should_fire() {
                rule_state.fired += 1;
                plan.add(&rule_state.rule.action);
            }
        }
        drop(rules);
        if let Some(hook) = self.hook() {
            hook.request(request).iter().for_each(|action| plan.add(action));
        }
        plan
    }
}

/// Adds an open watch to the list. Removes the ended watches before the list grows, so that its size is at
/// most about four times the maximum number of concurrent watches.
fn track_open_watch(open: &mut Vec<Weak<OpenWatch>>, watch: &Arc<OpenWatch>) {
    if open.len() == open.capacity() {
        open.retain(|watch| watch.strong_count() > 0);
        // Doubling the capacity gives the scan for ended watches an amortized constant cost per watch.
        open.reserve(open.len().max(1));
    }
    open.push(Arc::downgrade(watch));
}

impl ActiveRule {
    fn should_fire(&mut self) -> bool {
        self.matched += 1;
        let (when, call) = (&self.rule.when, self.matched);
        when.nth.is_none_or(|nth| call == nth)
            && when.from.is_none_or(|from| call >= from)
            && when.to.is_none_or(|to| call <= to)
            && when.every.is_none_or(|every| every > 0 && call.is_multiple_of(every))
            && when.times.is_none_or(|times| self.fired < times)
            // The random number is drawn after all other conditions, so that the sequence depends only on the
            // seed and the requests that meet them.
            && when.probability.is_none_or(|probability| self.rng.random::<f64>() < probability)
    }
}

impl Fault {
    /// Returns the number of requests that the rule matched, with or without an injected fault.
    pub fn matched(&self) -> u64 {
        self.rule_state.lock().matched
    }

    /// Returns the number of requests in which the rule injected its fault.
    pub fn fired(&self) -> u64 {
        self.rule_state.lock().fired
    }

    /// Removes the rule.
    pub fn remove(&self) {
        self.rules.rules.lock().retain(|other| !Arc::ptr_eq(other, &self.rule_state));
    }
}

/// Builds a [`FaultRule`]: first its conditions, then its action. Setting the action activates the rule.
#[derive(Debug)]
#[must_use = "the rule is activated by setting its action"]
pub struct FaultBuilder {
    faults: Faults,
    on: FaultMatch,
    when: FaultWhen,
}

impl FaultBuilder {
    /// The rule fires only for the n-th matching request, counted from 1.
    pub fn nth(mut self, nth: u64) -> Self {
        self.when.nth = Some(nth);
        self
    }

    /// Fires at most `times` times.
    pub fn times(mut self, times: u64) -> Self {
        self.when.times = Some(times);
        self
    }

    /// The rule fires with this probability for each matching request. `seed` makes the sequence
    /// reproducible.
    pub fn probability(mut self, probability: f64, seed: u64) -> Self {
        self.when.probability = Some(probability);
        self.when.seed = seed;
        self
    }

    /// Sets all conditions of the rule, and replaces those that were set before.
    pub fn when(mut self, when: FaultWhen) -> Self {
        self.when = when;
        self
    }

    /// Sets the action, and activates the rule.
    pub fn then(self, action: FaultAction) -> Fault {
        let rule = FaultRule { name: None, on: self.on, when: self.when, action };
        self.faults.add(rule)
    }

    /// Fails with 410 Expired: as the first event of a watch, or as the status of any other response.
    pub fn expire(self) -> Fault {
        self.then(FaultAction::Expire { after_events: 0 })
    }

    /// Responds with this HTTP status, with kube-apiserver's reason and message for the usual codes.
    pub fn status(self, code: u16) -> Fault {
        self.then(FaultAction::Status { code, reason: None, message: None, retry_after: None, body: None })
    }

    /// Sends an ERROR event with this status after a number of events, with kube-apiserver's reason and
    /// message for the usual codes.
    pub fn error_after(self, events: u64, code: u16) -> Fault {
        self.then(FaultAction::ErrorEvent {
            after_events: events,
            code,
            reason: None,
            message: None,
            retry_after: None,
        })
    }

    /// Executes the request, then resets the connection instead of responding.
    pub fn lose_answer(self) -> Fault {
        self.then(FaultAction::LostAnswer)
    }

    /// Ends the watch normally after a number of events.
    pub fn cut_after(self, events: u64) -> Fault {
        self.then(FaultAction::Cut { after_events: Some(events), after_bytes: None, abrupt: false })
    }

    /// Stalls the watch after a number of events; the connection stays open.
    pub fn stall_after(self, events: u64) -> Fault {
        self.then(FaultAction::Stall { after_events: Some(events), after_bytes: None })
    }
}

#[cfg(test)]
mod tests;
