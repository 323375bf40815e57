use crate::check::Violation;
use crate::run::run;
use crate::script::Script;

/// The maximum number of scripts that are tried while shrinking. That many take some seconds.
const MAX_TRIES: u32 = 20_000;

/// Returns the shortest script found that violates the same invariant.
pub fn shrink(script: &Script, violation: &Violation) -> Script {
    shrink_while(script, |script| {
        run(script).violation.is_some_and(|found| found.invariant == violation.invariant)
    })
}

/// Returns the shortest script found for which `shows` is true. It removes ever smaller ranges of steps,
/// until no single step can be removed.
pub fn shrink_while(script: &Script, mut shows: impl FnMut(&Script) -> bool) -> Script {
    let mut best = script.clone();
    let mut tries = 0;
    let mut shows = |script: &Script, tries: &mut u32| {
        *tries += 1;
        shows(script)
    };
    loop {
        let length = best.steps.len();
        let mut piece = length.div_ceil(2);
        while piece > 0 && tries < MAX_TRIES {
            let mut begin = 0;
            while begin < best.steps.len() && tries < MAX_TRIES {
                let mut shorter = best.clone();
                let end = (begin + piece).min(shorter.steps.len());
                shorter.steps.drain(begin..end);
                if shows(&shorter, &mut tries) { best = shorter } else { begin += piece }
            }
            piece /= 2;
        }
        if best.steps.len() == length || tries >= MAX_TRIES {
            return best;
        }
    }
}
