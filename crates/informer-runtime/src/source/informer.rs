use std::fmt;
use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use informer_cache::handler::on_event;
use informer_cache::{Event, HandlerOptions, HandlerRegistration, InformerRun, SharedInformer};
use informer_core::{LabelSelector, Object};
use parking_lot::Mutex;

use super::{Feed, Route, Source};
use crate::handler::Handler;
use crate::predicate::Predicate;
use crate::{BoxError, ReconcileRequest, Trigger};

/// The events of an informer of one's own, which the source keeps running as long as the controller does.
pub fn informer<O, R>(informer: SharedInformer<O>, handler: impl Handler<O, R>) -> Informer<O, R>
where
    O: Object,
    R: ReconcileRequest,
{
    Informer {
        informer,
        route: Mutex::new(Some(Route::new(handler))),
        feeding: OnceLock::new(),
        life: Mutex::new(Life::Created),
    }
}

/// Made by [`informer`].
pub struct Informer<O: Object, R: ReconcileRequest> {
    informer: SharedInformer<O>,
    /// Until it is started.
    route: Mutex<Option<Route<O, R>>>,
    feeding: OnceLock<Arc<Route<O, R>>>,
    life: Mutex<Life<O>>,
}

/// Where a source is in its life.
enum Life<O: Object> {
    Created,
    Running { registration: Arc<HandlerRegistration<O>>, _run: InformerRun },
    Stopped,
}

impl<O: Object> Life<O> {
    /// Gives the run back where it was stopped meanwhile.
    fn run(
        &mut self,
        registration: &Arc<HandlerRegistration<O>>,
        run: InformerRun,
    ) -> Result<(), InformerRun> {
        if matches!(self, Self::Stopped) {
            return Err(run);
        }
        *self = Self::Running { registration: Arc::clone(registration), _run: run };
        Ok(())
    }
}

impl<O: Object, R: ReconcileRequest> Informer<O, R> {
    /// Lets only those through for which `predicate` holds, too.
    pub fn filter(self, predicate: impl Predicate<O>) -> Self {
        if let Some(route) = &mut *self.route.lock() {
            route.filter(predicate);
        }
        self
    }
}

impl<O: Object, R: ReconcileRequest> Source<R> for Informer<O, R> {
    fn name(&self) -> String {
        format!("informer {}", self.informer.name())
    }

    fn start(&self, feed: Feed<R>) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async move {
            let route = self.route.lock().take();
            let Some(route) = route else { return Err("it was started before".into()) };
            let route = Arc::clone(self.feeding.get_or_init(|| Arc::new(route)));
            let options = HandlerOptions::for_work_queue().name(format!("controller {}", feed.controller()));
            let within = feed.sync_within();
            let handler = on_event(move |event: Event<O>| route.deliver(&Trigger::Event(event), &feed));
            let registration = self.informer.add_handler_with(options, handler)?;
            let registration = Arc::new(registration);
            let started = self.life.lock().run(&registration, self.informer.start());
            if let Err(unused) = started {
                registration.remove();
                drop(unused);
                return Err("it was stopped while it started".into());
            }
            Ok(registration.wait_for_sync(within).await?)
        })
    }

    fn replay(&self, feed: Feed<R>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Some(route) = self.feeding.get() else { return };
            route.replay(self.informer.lister().list(&LabelSelector::everything()), &feed).await;
        })
    }

    fn stop(&self) {
        let before = std::mem::replace(&mut *self.life.lock(), Life::Stopped);
        if let Life::Running { registration, .. } = before {
            registration.remove();
        }
    }
}

impl<O: Object, R: ReconcileRequest> fmt::Debug for Informer<O, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer").field("informer", &self.informer).finish_non_exhaustive()
    }
}
