use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::{Enqueue, Handler};
use crate::{ReconcileRequest, Trigger};

/// Returns a handler that enqueues the requests that `function` returns for the object; for an update, the
/// requests for the old and the new state of the object, without duplicates.
///
/// A closure names the type of its object. That of
/// [`watches_mapped`](crate::ControllerBuilder::watches_mapped) needs no type.
///
/// ```
/// use informer_cache::testing::TestObject;
/// use informer_core::Object;
/// use informer_runtime::{Request, handler::map};
///
/// // Every change enqueues the same request.
/// let handler = map(|_: &TestObject| ["default/config".parse::<Request>().ok()].into_iter().flatten());
/// # let _ = handler;
/// ```
pub fn map<O, R, F, I>(function: F) -> Map<F, fn(&O) -> I>
where
    F: Fn(&O) -> I + Send + Sync + 'static,
    I: IntoIterator<Item = R>,
    R: ReconcileRequest,
{
    Map { function, types: PhantomData }
}

/// A function that returns the requests for an object: `Fn(&O) -> I`, where `I` is a collection of requests.
///
/// `Fn` is a supertrait, so that the compiler infers the argument of a closure.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not map objects `{O}` to `{R}`",
    label = "not a map function",
    note = "a closure takes `&{O}` and returns requests, for example as `Option<{R}>` or `Vec<{R}>`"
)]
pub trait Mapper<O, R>: Fn(&O) -> <Self as Mapper<O, R>>::Requests + Send + Sync + 'static {
    /// The requests for one object.
    type Requests: IntoIterator<Item = R> + 'static;
}

impl<O, R, F, I> Mapper<O, R> for F
where
    F: Fn(&O) -> I + Send + Sync + 'static,
    I: IntoIterator<Item = R> + 'static,
{
    type Requests = I;
}

/// The handler returned by [`map`], which enqueues the requests that a function returns for an object.
pub struct Map<F, T> {
    function: F,
    types: PhantomData<T>,
}

impl<O, R, F, I> Handler<O, R> for Map<F, fn(&O) -> I>
where
    O: 'static,
    R: ReconcileRequest,
    F: Fn(&O) -> I + Send + Sync + 'static,
    I: IntoIterator<Item = R> + 'static,
{
    fn handle(&self, trigger: &Trigger<O>, enqueue: &mut Enqueue<'_, R>) {
        let Some(old) = trigger.old().filter(|old| !Arc::ptr_eq(old, trigger.object())) else {
            (self.function)(trigger.object()).into_iter().for_each(|request| enqueue.add(request));
            return;
        };
        let mut seen: HashSet<R> = HashSet::new();
        for request in (self.function)(old).into_iter().chain((self.function)(trigger.object())) {
            if !seen.contains(&request) {
                seen.insert(request.clone());
                enqueue.add(request);
            }
        }
    }
}

impl<F, T> fmt::Debug for Map<F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map").finish_non_exhaustive()
    }
}
