use std::fmt;

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Its name, as in the documentation.
    pub invariant: &'static str,
    /// The observed state that violates it.
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
