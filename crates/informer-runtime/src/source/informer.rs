use std::fmt;
use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use informer_cache::handler::on_event;
use informer_cache::{Event, HandlerOptions, HandlerRegistration, InformerRun, SharedInformer};
use informer_core::{LabelSelector, Object};
use parking_lot::Mutex;

use super::{Enqueuer, Route, Source};
use crate::handler::Handler;
use crate::predicate::Predicate;
use crate::{BoxError, ReconcileRequest, Trigger};

/// Creates a source from the events of any informer, also one that does not belong to the manager's cache.
/// The source keeps that informer running while the controller runs.
pub fn informer<O, R>(informer: SharedInformer<O>, handler: impl Handler<O, R>) -> Informer<O, R>
where
    O: Object,
    R: ReconcileRequest,
{
    let route = Route::new(format!("informer {}", informer.name()), handler);
    Informer {
        informer,
        route: Mutex::new(Some(route)),
        feeding: OnceLock::new(),
        state: Mutex::new(InformerSourceState::Created),
    }
}

/// The source returned by [`informer`], which delivers the events of an informer.
pub struct Informer<O: Object, R: ReconcileRequest> {
    informer: SharedInformer<O>,
    /// The predicates and the handler of this source. They are taken out when the source starts, because it
    /// starts at most once.
    route: Mutex<Option<Route<O, R>>>,
    feeding: OnceLock<Arc<Route<O, R>>>,
    state: Mutex<InformerSourceState<O>>,
}

enum InformerSourceState<O: Object> {
    Created,
    Running { registration: Arc<HandlerRegistration<O>>, _run: InformerRun },
    Stopped,
}

impl<O: Object> InformerSourceState<O> {
    /// Changes the source to running, and stores the handler's registration and the run of the informer. If
    /// the source was stopped meanwhile, returns the run, so that the caller ends it.
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
    /// Adds a predicate to this source. An event of the informer reaches the handler only if all predicates
    /// accept it.
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

    fn start(&self, enqueuer: Enqueuer<R>) -> BoxFuture<'_, Result<(), BoxError>> {
        Box::pin(async move {
            let route = self.route.lock().take();
            let Some(route) = route else { return Err("the source was started before".into()) };
            let route = Arc::clone(self.feeding.get_or_init(|| Arc::new(route)));
            let options =
                HandlerOptions::for_work_queue().name(format!("controller {}", enqueuer.controller()));
            let within = enqueuer.sync_within();
            let handler = on_event(move |event: Event<O>| route.deliver(&Trigger::Event(event), &enqueuer));
            let registration = self.informer.add_handler_with(options, handler)?;
            let registration = Arc::new(registration);
            let started = self.state.lock().run(&registration, self.informer.start());
            if let Err(unused) = started {
                registration.remove();
                drop(unused);
                return Err("the source was stopped while it was starting".into());
            }
            Ok(registration.wait_for_sync(within).await?)
        })
    }

    fn replay(&self, enqueuer: Enqueuer<R>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Some(route) = self.feeding.get() else { return };
            route.replay(self.informer.lister().list(&LabelSelector::everything()), &enqueuer).await;
        })
    }

    fn stop(&self) {
        let before = std::mem::replace(&mut *self.state.lock(), InformerSourceState::Stopped);
        if let InformerSourceState::Running { registration, .. } = before {
            registration.remove();
        }
    }
}

impl<O: Object, R: ReconcileRequest> fmt::Debug for Informer<O, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer").field("informer", &self.informer).finish_non_exhaustive()
    }
}
