//! The schedule of a seed: a setup and a list of steps. Each step has its own random number. If shrinking
//! removes some steps, the remaining ones therefore behave as before.

use std::fmt;
use std::str::FromStr;

use crate::combination::Combination;
use crate::fault::Fault;
use crate::object::MAX_KEYS;
use crate::random::Random;
use crate::theme::Theme;

/// A schedule: the setup of the simulated world, and the steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The setup of the simulated world.
    pub setup: Setup,
    /// The steps of the schedule, in order.
    pub steps: Vec<Step>,
}

/// One step of a schedule. Its random number decides everything that its verb leaves open, such as the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The kind of action of the step.
    pub verb: Verb,
    /// The random number that decides the details of the step.
    pub chance: u16,
}

/// The actions of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// A user creates, updates or deletes an object.
    Write,
    /// A user updates one object several times.
    Burst,
    /// An object is deleted and re-created with the same name.
    Recreate,
    /// A label of an object changes, so that the informer's selector matches it or no longer does.
    Relabel,
    /// A backup of the server's content is taken. A later fault may restore it.
    BackUp,
    /// The reflector runs its current step.
    Reflect,
    /// The pump takes a batch of changes from the queue and applies it.
    Pump,
    /// A handler runs. Some of its calls return, and others stay blocked.
    Handle,
    /// A worker of the work queue runs its next step.
    Work,
    /// The leader election advances by several events.
    Elect,
    /// The simulated time advances.
    Wait,
    /// A fault is injected.
    Fault(Fault),
}

/// Declares the fields of a setup, with the range from which each is drawn at random.
macro_rules! setup {
    ($($(#[doc = $doc:literal])* $name:ident $range:expr,)*) => {
        /// The setup of a schedule: small numbers, with 0 and 1 for no and yes.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Setup {
            $($(#[doc = $doc])* pub $name: u32,)*
        }

        impl Setup {
            fn draw(random: &mut Random) -> Self {
                Self { $($name: random.between($range.start, $range.end) as u32,)* }
            }

            fn set(&mut self, name: &str, value: u32) -> Result<(), ParseScriptError> {
                match name {
                    $(stringify!($name) => self.$name = value.clamp($range.start as u32, $range.end as u32 - 1),)*
                    _ => return Err(ParseScriptError(format!("unknown setting {name:?}"))),
                }
                Ok(())
            }
        }

        impl fmt::Display for Setup {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("setup")?;
                $(write!(f, " {}={}", stringify!($name), self.$name)?;)*
                Ok(())
            }
        }
    };
}

setup! {
    /// Seed for all randomness outside of the steps: jitter, and everything after the last step.
    seed 0..1_000_000,
    /// Number of different object keys.
    keys 10..MAX_KEYS + 1,
    /// Number of objects that exist at the start.
    first 6..11,
    /// Whether the server supports streaming lists.
    streaming 0..2,
    /// When the reflector requests streaming lists: 0 to 2 if the server supports them, 3 always, 4 never.
    streaming_wish 0..5,
    /// Which bookmarks the server sends: with 0 none, with 3 even those of a version before that of the
    /// watch.
    bookmarks 0..4,
    /// Number of replicas of the API server.
    replicas 1..4,
    /// With 2, the informer has a label selector; with 0 and 1, it watches all objects.
    selector 0..3,
    /// The number of changes, in tens, after which the server forgets a change.
    window 1..8,
    /// Number of objects per page of a list.
    page 3..7,
    /// When lists are paginated: 0 and 1 automatically, 2 always, 3 never.
    paging 0..4,
    /// Number of workers of the work queue.
    workers 1..4,
    /// Priorities of the work queue: 0 none, 1 strict, 2 with aging of low priorities.
    priorities 0..3,
    /// The buffer policies of the handlers, one bit for each handler. If the bit is 1, the handler's buffer
    /// merges events.
    policies 0..8,
    /// Resync period of the second handler in minutes; 0 for never.
    resync 0..6,
    /// Resync period that the reflector requests, in minutes; 0 for never.
    reflector_resync 0..12,
    /// Number of candidates in the election.
    candidates 2..4,
    /// The lease duration: 6 s or 15 s.
    lease 0..2,
    /// The predicate of the controller: 0 passes everything, 1 passes changes of the version, and 2 passes
    /// everything through a combination of predicates.
    predicate 0..3,
    /// Which keys the steps change: with 0 all, with 1 the first two, with 2 only the first. With few keys, a
    /// restored server often assigns a version again to the same key.
    few_keys 0..3,
}

const STEPS: std::ops::Range<usize> = 100..141;

impl Script {
    /// Returns the schedule that a seed determines.
    pub fn of_seed(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut setup = Setup::draw(&mut random);
        let combination = Combination::of_seed(seed);
        let theme = combination.map_or_else(|| Theme::draw(&mut random), |combination| combination.theme);
        setup.few_keys = u32::from(theme == Theme::Restores);
        let count = random.between(STEPS.start, STEPS.end);
        let (mut steps, faults): (Vec<_>, _) = match combination {
            Some(combination) => {
                (combination.prepare)(&mut setup);
                (combination.steps(count, &mut random), combination.faults.clone())
            }
            None => ((0..count).map(|_| step(theme, &mut random)).collect(), theme.count()),
        };
        let kinds = theme.faults();
        for _ in 0..random.between(faults.start, faults.end) {
            let fault = random.pick(&kinds);
            // A random fault replaces none of the first five steps, because no connection is open then. It
            // also never replaces another fault.
            let mut place = random.between(5, steps.len());
            while matches!(steps[place].verb, Verb::Fault(_)) {
                place = if place + 1 == steps.len() { 5 } else { place + 1 };
            }
            steps[place].verb = Verb::Fault(fault);
        }
        Self { setup, steps }
    }

    /// Returns the number of steps that are faults.
    pub fn faults(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step.verb, Verb::Fault(_))).count()
    }
}

fn step(theme: Theme, random: &mut Random) -> Step {
    Step { verb: theme.verb(random), chance: random.draw() as u16 }
}

impl Verb {
    const PLAIN: [(Self, &'static str); 11] = [
        (Self::Write, "write"),
        (Self::Burst, "burst"),
        (Self::Recreate, "recreate"),
        (Self::Relabel, "relabel"),
        (Self::BackUp, "back-up"),
        (Self::Reflect, "reflect"),
        (Self::Pump, "pump"),
        (Self::Handle, "handle"),
        (Self::Work, "work"),
        (Self::Elect, "elect"),
        (Self::Wait, "wait"),
    ];
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = Self::PLAIN.iter().find(|(verb, _)| verb == self);
        match (self, plain) {
            (Self::Fault(fault), _) => write!(f, "fault {}", fault.as_str()),
            (_, Some((_, word))) => f.write_str(word),
            (_, None) => Err(fmt::Error),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.setup)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "{} {}", step.verb, step.chance))
    }
}

/// The error for a string that is not a valid script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseScriptError(String);

impl fmt::Display for ParseScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseScriptError {}

impl FromStr for Script {
    type Err = ParseScriptError;

    /// Parses one step per line, and skips empty lines and lines that start with `#`.
    fn from_str(text: &str) -> Result<Self, ParseScriptError> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let first = lines.next().and_then(|line| line.strip_prefix("setup "));
        let first = first.ok_or_else(|| ParseScriptError("the first line must be the setup".to_owned()))?;
        let mut setup = Setup { few_keys: 0, ..Setup::draw(&mut Random::new(0)) };
        for pair in first.split_whitespace() {
            let parsed = pair.split_once('=').and_then(|(name, value)| Some((name, value.parse().ok()?)));
            let (name, value) = parsed
                .ok_or_else(|| ParseScriptError(format!("{pair:?} is not a setting; write NAME=NUMBER")))?;
            setup.set(name, value)?;
        }
        Ok(Self { setup, steps: lines.map(parse_step).collect::<Result<_, _>>()? })
    }
}

fn parse_step(line: &str) -> Result<Step, ParseScriptError> {
    let words: Vec<_> = line.split_whitespace().collect();
    let (verb, chance) = match words[..] {
        ["fault", word, chance] => (Fault::of_word(word).map(Verb::Fault), chance),
        [word, chance] => {
            (Verb::PLAIN.iter().find(|(_, plain)| *plain == word).map(|(verb, _)| *verb), chance)
        }
        _ => (None, ""),
    };
    match (verb, chance.parse()) {
        (Some(verb), Ok(chance)) => Ok(Step { verb, chance }),
        _ => Err(ParseScriptError(format!("{line:?} is not a step"))),
    }
}
