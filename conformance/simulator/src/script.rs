//! What a seed stands for: a setup and a list of steps, each of which carries its own chance, so that a script that lost some
//! of its steps does what the rest of them say.

use std::fmt;
use std::str::FromStr;

use crate::fault::Fault;
use crate::object::KEYS_MAX;
use crate::random::Random;
use crate::theme::Theme;

/// A schedule: what the world is like, and what happens in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// What the world is like.
    pub setup: Setup,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One step. The number decides about everything that its verb leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The action.
    pub verb: Verb,
    /// How.
    pub chance: u16,
}

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Somebody writes an object: creates, updates or deletes it.
    Write,
    /// Several updates of one object.
    Burst,
    /// An object is deleted, and another of its name created.
    Recreate,
    /// An object leaves the selector's view, or comes into it.
    Relabel,
    /// The server's content is saved, to be gone back to.
    BackUp,
    /// The reflector does its present step.
    Reflect,
    /// The pump takes a batch.
    Pump,
    /// A handler works.
    Handle,
    /// A worker of the queue takes its next step.
    Work,
    /// Some things happen in the election.
    Elect,
    /// Time passes.
    Wait,
    /// Something goes wrong.
    Fault(Fault),
}

/// Declares the numbers of a setup, and the range that each is drawn from.
macro_rules! setup {
    ($($(#[doc = $doc:literal])* $name:ident $range:expr,)*) => {
        /// What the world of a schedule is like: small numbers, 0 and 1 for no and yes.
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
                    _ => return Err(ParseScriptError(format!("a setup has no {name:?}"))),
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
    /// Decides about what no step does: jitter, and the time after the last step.
    seed 0..1_000_000,
    /// Keys of the world.
    keys 10..KEYS_MAX + 1,
    /// Objects that are there from the beginning.
    first 6..11,
    /// The server knows streaming lists.
    streaming 0..2,
    /// When the reflector asks for streaming lists: 0 to 2 where they are known, 3 always, 4 never.
    streaming_wish 0..5,
    /// The server sends bookmarks: 0 none, 3 even those of a version before that of the watch.
    bookmarks 0..4,
    /// Replicas of the server.
    replicas 1..4,
    /// The informer has a selector.
    selector 0..3,
    /// What happened so many changes ago is forgotten, in tens.
    window 1..8,
    /// Objects of a page.
    page 3..7,
    /// When lists are asked for in pages: 0 and 1 as is best, 2 always, 3 never.
    paging 0..4,
    /// Workers of the queue.
    workers 1..4,
    /// The queue has priorities: 1 for ever, 2 until low ones have waited for long.
    priorities 0..3,
    /// The policies of the handlers' buffers, a bit each: 1 merges.
    policies 0..8,
    /// Minutes between the resyncs of the second handler; 0 never.
    resync 0..6,
    /// Minutes between the resyncs that the reflector asks for; 0 never.
    reflector_resync 0..12,
    /// Candidates of the election.
    candidates 2..4,
    /// A lease of 6 s, or of 15 s.
    lease 0..2,
    /// What the controller is told of: everything, changes of the version, or everything again, by a combination.
    predicate 0..3,
}

/// How many steps a schedule has, at least and less than.
const STEPS: std::ops::Range<usize> = 100..141;

impl Script {
    /// The schedule of a seed.
    pub fn of_seed(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let setup = Setup::draw(&mut random);
        let theme = Theme::draw(&mut random);
        let count = random.between(STEPS.start, STEPS.end);
        let mut steps: Vec<_> = (0..count).map(|_| step(theme, &mut random)).collect();
        let (kinds, faults) = (theme.faults(), theme.count());
        for _ in 0..random.between(faults.start, faults.end) {
            let fault = random.pick(&kinds);
            // Not among the first, in which nothing is open yet; and never one over another.
            let mut place = random.between(5, count);
            while matches!(steps[place].verb, Verb::Fault(_)) {
                place = if place + 1 == count { 5 } else { place + 1 };
            }
            steps[place].verb = Verb::Fault(fault);
        }
        Self { setup, steps }
    }

    /// How many of the steps are faults.
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

/// Why a text is no script.
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

    /// One line a step; empty lines, and those that begin with `#`, are skipped.
    fn from_str(text: &str) -> Result<Self, ParseScriptError> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let first = lines.next().and_then(|line| line.strip_prefix("setup "));
        let first = first.ok_or_else(|| ParseScriptError("a script begins with its setup".to_owned()))?;
        let mut setup = Setup::draw(&mut Random::new(0));
        for pair in first.split_whitespace() {
            let parsed = pair.split_once('=').and_then(|(name, value)| Some((name, value.parse().ok()?)));
            let (name, value) = parsed.ok_or_else(|| ParseScriptError(format!("{pair:?} is no setting")))?;
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
        _ => Err(ParseScriptError(format!("{line:?} is no step"))),
    }
}
