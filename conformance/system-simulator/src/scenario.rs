//! Scenarios: the setup and the steps of a run as data, determined by a seed.

use std::fmt;
use std::time::Duration;

use informer_simulator::Random;

use crate::fault::Fault;
use crate::sample::NAMESPACES;
use crate::theme::Theme;

/// The number of simulated kinds, which are ConfigMap, Pod, Deployment and Fruit.
pub(crate) const KINDS: usize = 4;

/// The number of different object names that a scenario uses in each namespace.
const NAMES: usize = 4;

/// The representations in which a program can cache a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Representation {
    /// The cache holds the bytes of objects, which are decoded on access.
    Lazy,
    /// The cache holds typed objects, which are decoded on arrival.
    Typed,
    /// The cache holds the compressed bytes of objects.
    Packed,
    /// The cache holds objects as trees of JSON values.
    Dynamic,
    /// The cache holds only the metadata of objects.
    Metadata,
}

/// The namespaces that a program caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The program caches all namespaces, with one informer per kind.
    All,
    /// The program caches this many of the simulated namespaces, each with its own informer.
    Namespaces(usize),
}

/// The objects of a kind that a program caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selected {
    /// All objects of the kind.
    All,
    /// Objects with a certain label.
    Labels,
    /// Objects with a certain field value, or all objects if the kind has no selectable fields.
    Fields,
}

/// How a program caches one kind.
#[derive(Debug, Clone, Copy)]
pub struct KindSetup {
    /// The representation of its objects in the cache.
    pub representation: Representation,
    /// Which objects of the kind the program caches.
    pub selected: Selected,
}

/// The setup of one program under test.
#[derive(Debug, Clone)]
pub struct ProgramSetup {
    /// Seed for the jitter of the program's waits.
    pub seed: u64,
    /// The namespaces that the program caches.
    pub scope: Scope,
    /// True if the program requests JSON only, instead of protobuf.
    pub json: bool,
    /// True if the program requests streaming lists.
    pub streaming: bool,
    /// The number of objects per page of the program's lists.
    pub page_size: u32,
    /// The resync period of the program's handlers in seconds; 0 for no resync.
    pub resync_seconds: u64,
    /// True if lazy objects are transformed before they are cached.
    pub transformed: bool,
    /// True if the program's handler of watch errors sometimes panics.
    pub hook_panics: bool,
    /// True if the client of the program has an interceptor.
    pub intercepted: bool,
    /// The setups of the kinds ConfigMap, Pod, Deployment and Fruit, in this order.
    pub kinds: [KindSetup; KINDS],
}

/// The object that a step concerns: the indexes of its kind, namespace and name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// The index of the object's kind.
    pub kind: usize,
    namespace: usize,
    name: usize,
}

impl Target {
    /// Returns the namespace and the name of the object.
    pub fn key(&self) -> (&'static str, String) {
        (NAMESPACES[self.namespace], format!("o{}", self.name))
    }
}

/// The ways in which a program can write an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Creates the object.
    Create,
    /// Reads the object from the cache, changes it and sends an update.
    Update,
    /// Changes the object like `Update`, but by a call of `create_or_update`.
    CreateOrUpdate,
    /// Changes the object like `Update`, but by a call of `create_or_patch`.
    CreateOrPatch,
    /// Applies some fields of the object (server-side apply).
    Apply,
    /// Patches some fields of the object.
    Patch,
    /// Deletes the object.
    Delete,
}

/// The action of a step.
#[derive(Debug, Clone, Copy)]
pub enum Action {
    /// A client that is not part of a simulated program, like a user with kubectl, creates the object.
    RawCreate(Target),
    /// The same client changes the object.
    RawChange(Target),
    /// The same client deletes the object.
    RawDelete(Target),
    /// A program writes the object and reads it back.
    Write(usize, Write, Target),
    /// Injects a fault into the server, a connection or a program.
    Fault(Fault),
}

/// A step of a scenario: a pause and an action. The random number `draw` decides the details of the action. A
/// step therefore does the same regardless of the steps before it.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Simulated time before the action.
    pub pause: Duration,
    /// The action of the step.
    pub action: Action,
    /// The random number that decides the details of the action.
    pub draw: u64,
}

/// The failure policies of the simulated webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The server rejects a write if a webhook fails.
    Fail,
    /// The server accepts a write if a webhook fails.
    Ignore,
}

/// A scenario: the setup and the steps that a seed determines.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The seed that determines the scenario.
    pub seed: u64,
    /// The part of the system that the steps exercise most.
    pub theme: Theme,
    /// The programs under test.
    pub programs: Vec<ProgramSetup>,
    /// The webhooks of all kinds and their failure policy; `None` for no webhooks.
    pub webhooks: Option<FailurePolicy>,
    /// Number of replicas of the simulated operator. The server is not restored from a backup in such a
    /// scenario: renewals of leases would raise its resourceVersion to the old one before informers notice
    /// the restore.
    pub replicas: usize,
    /// The steps of the scenario, in order.
    pub steps: Vec<Step>,
}

impl Scenario {
    /// Returns the scenario that a seed determines.
    pub fn of_seed(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let theme = Theme::draw(&mut random);
        let mut programs: Vec<_> =
            (0..random.between(1, 4)).map(|_| ProgramSetup::draw(&mut random)).collect();
        programs.iter_mut().for_each(|setup| theme.adapt(setup));
        let replicas = if theme.has_replicas() { random.pick(&[0, 0, 2, 3]) } else { 0 };
        let policy = random.pick(&[FailurePolicy::Fail, FailurePolicy::Ignore]);
        let webhooks = (theme == Theme::Webhooks).then_some(policy);
        let mut steps = Vec::new();
        // The first steps create objects before the programs start to act.
        for _ in 0..random.between(5, 15) {
            let action = Action::RawCreate(theme.target(&mut random));
            steps.push(Step { pause: Duration::ZERO, action, draw: random.draw() });
        }
        let troubled = theme.troubled(&mut random);
        for _ in 0..random.between(40, 80) {
            let action = Action::draw((theme, programs.len()), troubled, &mut random);
            steps.push(Step { pause: pause(&mut random), action, draw: random.draw() });
        }
        Self { seed, theme, programs, webhooks, replicas, steps }
    }

    /// Returns the number of steps that inject a fault.
    pub fn faults(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step.action, Action::Fault(_))).count()
    }
}

/// Returns a random pause. Most pauses are short, many are zero, and a few are long enough for backoffs and
/// timeouts to elapse.
fn pause(random: &mut Random) -> Duration {
    let millis = match random.below(20) {
        0..=7 => 0,
        8..=15 => random.below(50),
        16..=18 => random.below(2000),
        _ => random.below(40_000),
    };
    Duration::from_millis(millis as u64)
}

impl ProgramSetup {
    fn draw(random: &mut Random) -> Self {
        Self {
            seed: random.draw(),
            scope: match random.below(3) {
                0 => Scope::Namespaces(2),
                _ => Scope::All,
            },
            json: random.one_in(4),
            streaming: random.one_in(2),
            page_size: random.pick(&[2, 500]),
            resync_seconds: random.pick(&[0, 0, 20]),
            transformed: random.one_in(4),
            hook_panics: random.one_in(4),
            intercepted: random.one_in(5),
            kinds: std::array::from_fn(|_| KindSetup::draw(random)),
        }
    }
}

impl KindSetup {
    fn draw(random: &mut Random) -> Self {
        use Representation::{Dynamic, Lazy, Metadata, Packed, Typed};
        Self {
            representation: random.pick(&[Lazy, Lazy, Typed, Packed, Dynamic, Metadata]),
            selected: random.pick(&[Selected::All, Selected::All, Selected::Labels, Selected::Fields]),
        }
    }
}

impl Target {
    /// Returns a random object of one of the given kinds in one of the first `namespaces` namespaces.
    pub(crate) fn draw(kinds: &[usize], namespaces: usize, random: &mut Random) -> Self {
        Self { kind: random.pick(kinds), namespace: random.below(namespaces), name: random.below(NAMES) }
    }
}

impl Action {
    fn draw((theme, programs): (Theme, usize), troubled: usize, random: &mut Random) -> Self {
        use Write::{Apply, Create, CreateOrPatch, CreateOrUpdate, Delete, Patch, Update};
        if random.below(40) < troubled {
            return Self::Fault(random.pick(theme.faults()));
        }
        let target = theme.target(random);
        match random.below(10) {
            0 | 1 => Self::RawCreate(target),
            2 | 3 => Self::RawChange(target),
            4 => Self::RawDelete(target),
            _ => {
                let write = random.pick(&[
                    Create,
                    Update,
                    Update,
                    Update,
                    CreateOrUpdate,
                    CreateOrPatch,
                    Apply,
                    Patch,
                    Delete,
                ]);
                Self::Write(random.below(programs), write, target)
            }
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.action)
    }
}
