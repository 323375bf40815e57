use super::Predicate;
use crate::Trigger;

/// Returns a predicate that holds if both `first` and `second` hold; `second` is evaluated only if `first`
/// holds.
pub fn and<A, B>(first: A, second: B) -> And<A, B> {
    And(first, second)
}

/// Returns a predicate that holds if `first` or `second` holds; `second` is evaluated only if `first` does
/// not hold.
pub fn or<A, B>(first: A, second: B) -> Or<A, B> {
    Or(first, second)
}

/// Returns a predicate that holds if `predicate` does not hold.
pub fn not<A>(predicate: A) -> Not<A> {
    Not(predicate)
}

/// The predicate returned by [`and`].
#[derive(Debug, Clone, Copy)]
pub struct And<A, B>(A, B);

/// The predicate returned by [`or`].
#[derive(Debug, Clone, Copy)]
pub struct Or<A, B>(A, B);

/// The predicate returned by [`not`].
#[derive(Debug, Clone, Copy)]
pub struct Not<A>(A);

impl<O, A: Predicate<O>, B: Predicate<O>> Predicate<O> for And<A, B> {
    fn holds(&self, trigger: &Trigger<O>) -> bool {
        self.0.holds(trigger) && self.1.holds(trigger)
    }
}

impl<O, A: Predicate<O>, B: Predicate<O>> Predicate<O> for Or<A, B> {
    fn holds(&self, trigger: &Trigger<O>) -> bool {
        self.0.holds(trigger) || self.1.holds(trigger)
    }
}

impl<O, A: Predicate<O>> Predicate<O> for Not<A> {
    fn holds(&self, trigger: &Trigger<O>) -> bool {
        !self.0.holds(trigger)
    }
}
