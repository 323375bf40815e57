//! The functions of admission webhooks.
//!
//! `Fn` is a supertrait, so that the compiler infers the argument of a closure from the kind.

use super::{AdmissionRequest, Allowed, Denied};

/// A function that allows or denies requests for objects of `K`:
/// `async fn(AdmissionRequest<K>) -> Result<Allowed, Denied>`, or a closure.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not validate objects of `{K}`",
    label = "not a validating webhook",
    note = "pass an async function: `async fn check(request: AdmissionRequest<{K}>) -> Result<Allowed, Denied>`"
)]
pub trait Validator<K>:
    Fn(AdmissionRequest<K>) -> <Self as Validator<K>>::Future + Send + Sync + 'static
{
    /// The future that decides about one request.
    type Future: Future<Output = Result<Allowed, Denied>> + Send + 'static;
}

impl<K, F, Fut> Validator<K> for F
where
    F: Fn(AdmissionRequest<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Allowed, Denied>> + Send + 'static,
{
    type Future = Fut;
}

/// A function that sets defaults in objects of `K`, or changes them otherwise:
/// `async fn(AdmissionRequest<K>, K) -> Result<K, Denied>`, or a closure.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not set defaults in objects of `{K}`",
    label = "not a mutating webhook",
    note = "pass an async function: \
            `async fn fill(request: AdmissionRequest<{K}>, object: {K}) -> Result<{K}, Denied>`"
)]
pub trait Defaulter<K>:
    Fn(AdmissionRequest<K>, K) -> <Self as Defaulter<K>>::Future + Send + Sync + 'static
{
    /// The future that returns the changed object of one request.
    type Future: Future<Output = Result<K, Denied>> + Send + 'static;
}

impl<K, F, Fut> Defaulter<K> for F
where
    F: Fn(AdmissionRequest<K>, K) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<K, Denied>> + Send + 'static,
{
    type Future = Fut;
}
