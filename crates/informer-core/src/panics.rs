//! Messages of panics.

use std::any::Any;

/// Returns the message of a caught panic, or `(no text)` if its payload is not a string.
///
/// ```
/// use informer_core::panics::panic_text;
///
/// let panic = std::panic::catch_unwind(|| panic!("no {}", "luck")).expect_err("it panics");
/// assert_eq!(panic_text(&*panic), "no luck");
/// let panic = std::panic::catch_unwind(|| std::panic::panic_any(7)).expect_err("it panics");
/// assert_eq!(panic_text(&*panic), "(no text)");
/// ```
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "(no text)",
    }
}
