use std::fmt;

/// A violation: an invariant that does not hold in a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The name of the invariant, as in `docs/simulator.md`.
    pub invariant: &'static str,
    /// A description of the observed state that violates the invariant.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.text)
    }
}

pub(crate) type Checked<T = ()> = Result<T, Violation>;

macro_rules! ensure {
    ($invariant:literal, $condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::check::Violation { invariant: $invariant, text: format!($($text)+) });
        }
    };
}

pub(crate) use ensure;
