use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::EventHandler;
use crate::Event;

type OnAdd<O> = Box<dyn FnMut(Arc<O>, bool) + Send>;
type OnUpdate<O> = Box<dyn FnMut(Arc<O>, Arc<O>) + Send>;
type OnDelete<O> = Box<dyn FnMut(Arc<O>) + Send>;

/// A handler with up to three callbacks, like
/// [`ResourceEventHandlerFuncs`](https://pkg.go.dev/k8s.io/client-go/tools/cache#ResourceEventHandlerDetailedFuncs).
/// Events for which no callback is set are ignored. The callbacks must not block.
///
/// ```
/// use informer_cache::{handler::handler_funcs, testing::TestObject};
/// use informer_core::Object;
///
/// let handler = handler_funcs::<TestObject>()
///     .on_add(|object, initial| println!("+ {} {initial}", object.key()))
///     .on_update(|_old, new| println!("~ {}", new.key()))
///     .on_delete(|last| println!("- {}", last.key()));
/// # let _ = handler;
/// ```
pub struct HandlerFuncs<O> {
    add: Option<OnAdd<O>>,
    update: Option<OnUpdate<O>>,
    delete: Option<OnDelete<O>>,
}

/// Returns a [`HandlerFuncs`] without callbacks.
pub fn handler_funcs<O>() -> HandlerFuncs<O> {
    HandlerFuncs { add: None, update: None, delete: None }
}

impl<O> HandlerFuncs<O> {
    /// Calls `callback` with each added object and a flag. The flag is true for objects of the first list,
    /// and for cached objects that are replayed to a handler added later.
    pub fn on_add(mut self, callback: impl FnMut(Arc<O>, bool) + Send + 'static) -> Self {
        self.add = Some(Box::new(callback));
        self
    }

    /// Calls `callback` with the old and the new state of each changed object. In a resync the two states are
    /// the same.
    pub fn on_update(mut self, callback: impl FnMut(Arc<O>, Arc<O>) + Send + 'static) -> Self {
        self.update = Some(Box::new(callback));
        self
    }

    /// Calls `callback` with the last known state of each deleted object.
    pub fn on_delete(mut self, callback: impl FnMut(Arc<O>) + Send + 'static) -> Self {
        self.delete = Some(Box::new(callback));
        self
    }
}

impl<O: Send + Sync + 'static> EventHandler<O> for HandlerFuncs<O> {
    fn handle(&mut self, event: Event<O>) -> impl Future<Output = ()> + Send {
        match event {
            Event::Added { object, initial } => {
                if let Some(callback) = &mut self.add {
                    callback(object, initial);
                }
            }
            Event::Updated { old, new, .. } => {
                if let Some(callback) = &mut self.update {
                    callback(old, new);
                }
            }
            Event::Deleted { last, .. } => {
                if let Some(callback) = &mut self.delete {
                    callback(last);
                }
            }
        }
        std::future::ready(())
    }
}

impl<O> fmt::Debug for HandlerFuncs<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerFuncs")
            .field("add", &self.add.is_some())
            .field("update", &self.update.is_some())
            .field("delete", &self.delete.is_some())
            .finish()
    }
}

/// Forwards an event to `handler` if `filter` returns true for its object. If an update changes the result of
/// `filter`, it becomes an add or a delete, so that the handler sees exactly the objects that match.
pub fn filtered<O, F, H>(filter: F, handler: H) -> Filtered<F, H>
where
    F: Fn(&O) -> bool + Send + 'static,
    H: EventHandler<O>,
{
    Filtered { filter, handler }
}

/// The handler returned by [`filtered`].
pub struct Filtered<F, H> {
    filter: F,
    handler: H,
}

impl<F, H> Filtered<F, H> {
    fn select<O>(&self, event: Event<O>) -> Option<Event<O>>
    where
        F: Fn(&O) -> bool,
    {
        match event {
            Event::Updated { old, new, resync } => match ((self.filter)(&old), (self.filter)(&new)) {
                (true, true) => Some(Event::Updated { old, new, resync }),
                (false, true) => Some(Event::Added { object: new, initial: false }),
                (true, false) => Some(Event::Deleted { last: old, stale: false }),
                (false, false) => None,
            },
            event => (self.filter)(event.object()).then_some(event),
        }
    }
}

impl<O, F, H> EventHandler<O> for Filtered<F, H>
where
    O: Send + Sync + 'static,
    F: Fn(&O) -> bool + Send + 'static,
    H: EventHandler<O>,
{
    fn handle(&mut self, event: Event<O>) -> impl Future<Output = ()> + Send {
        let selected = self.select(event);
        let handler = &mut self.handler;
        async move {
            if let Some(event) = selected {
                handler.handle(event).await;
            }
        }
    }
}

impl<F, H> fmt::Debug for Filtered<F, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filtered").finish_non_exhaustive()
    }
}
