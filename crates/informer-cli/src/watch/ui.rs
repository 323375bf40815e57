//! `informer watch --ui`: shows objects and their changes on the whole terminal.
//!
//! # Threads
//!
//! Each kind has an informer with one blocking handler, which adds changes to the [`ChangeLog`]. The screen
//! is drawn by the task of the command.

mod changes;
mod screen_state;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;
use std::time::Duration;

use informer::cache::SharedInformer;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::changes::ChangeLog;
use self::screen_state::ScreenState;
use self::view::{FrameContext, Status};
use super::connect::WatchTarget;
use super::notes::Notes;
use super::{SyncTimeout, Text, WatchArguments, Watched, follow};
use crate::failure::Failure;
use crate::screen::{Screen, Theme};
use crate::signals::Signals;

/// The minimum time between two frames without input.
const FRAME: Duration = Duration::from_millis(100);
/// The maximum time between two frames: the time since the last change is shown in seconds.
const MAX_FRAME: Duration = Duration::from_secs(1);

/// The maximum width of the column of kinds.
const MAX_KIND_WIDTH: usize = 30;

/// Shows the objects of the kinds until the user quits.
pub(super) async fn run(
    arguments: &WatchArguments,
    client: &informer::client::Client,
    found: Vec<WatchTarget>,
    timeout: SyncTimeout,
) -> Result<(), Failure> {
    let notes = Notes::for_screen();
    let log = Arc::new(ChangeLog::new(arguments.ignore.clone(), arguments.show_secrets));
    let has_kinds = found.iter().any(|other| other.kind != found[0].kind);
    let names: Vec<String> = found.iter().map(WatchTarget::name).collect();
    let namespace = match (&arguments.namespace, arguments.all_namespaces) {
        (_, true) => "all namespaces".to_owned(),
        (Some(namespace), false) => format!("namespace {namespace}"),
        (None, false) => format!("namespace {}", client.default_namespace()),
    };
    let title = if found.iter().any(|target| target.namespaced) {
        format!("{} in {namespace}", names.join(", "))
    } else {
        names.join(", ")
    };
    let lengths = found.iter().map(|target| target.kind.resource().len().max("KIND".len()));
    let kind_width = lengths.max().filter(|_| has_kinds).map(|length| length.min(MAX_KIND_WIDTH) as u16);
    let mut watched = Vec::with_capacity(found.len());
    for target in found {
        let (log, kind) = (Arc::clone(&log), target.kind.clone());
        let handler = move |event| log.record(&kind, &event);
        watched.push(Watched::start(client, target, arguments, None, handler, &notes)?);
    }
    let informers: Vec<_> = watched.iter().map(|watched| watched.informer.clone()).collect();
    let view = ChangeView { log, informers, notes: notes.clone(), title, kind_width };
    tokio::select! {
        result = view.show() => result,
        failure = follow(&mut watched, &notes, timeout) => Err(failure),
    }
}

struct ChangeView {
    log: Arc<ChangeLog>,
    informers: Vec<SharedInformer<Text>>,
    notes: Notes,
    title: String,
    kind_width: Option<u16>,
}

impl ChangeView {
    async fn show(&self) -> Result<(), Failure> {
        // The handler of signals is installed first, because a signal without a handler would end the process
        // without restoring the terminal.
        let mut signals = Signals::listen()?;
        let mut screen = Screen::open()?;
        let theme = Theme::of_environment();
        let mut state = ScreenState::default();
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let (status, now) = (self.status(), Instant::now());
            let drawn = self.log.lock().events;
            let context = FrameContext { status: &status, theme: &theme, now };
            screen.draw(|frame| view::draw(frame, &mut state, &self.log, &context))?;
            loop {
                tokio::select! {
                    event = screen.input() => {
                        let Some(event) = event? else { return Ok(()) };
                        state.input(&event, &self.log.lock());
                        break;
                    }
                    _ = frames.tick() => {
                        if self.log.lock().events != drawn || now.elapsed() >= MAX_FRAME {
                            break;
                        }
                    }
                    signal = signals.told_to_end() => return signal,
                }
            }
            if state.quit {
                return Ok(());
            }
        }
    }

    fn status(&self) -> Status {
        let states: Vec<_> = self.informers.iter().map(SharedInformer::state).collect();
        let is_failing = states.iter().any(|state| state.reflector.is_failing());
        let is_synced = states.iter().all(|state| state.synced);
        let state = match (is_failing, is_synced) {
            (true, _) => "reconnecting",
            (false, false) => "listing",
            (false, true) => "live",
        };
        Status {
            title: self.title.clone(),
            state,
            is_live: state == "live",
            note: self.notes.last(),
            kind_width: self.kind_width,
        }
    }
}
