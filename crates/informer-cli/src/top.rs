//! `informer top`: shows informers, queues, controllers and reconciles live in a terminal.

mod app;
mod health;
mod sample;
mod table;
#[cfg(test)]
mod tests;
mod view;

use std::time::Duration;

use clap::Args;
use informer::runtime::console::KeyHistory;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use self::app::App;
use crate::failure::Failure;
use crate::live::{LiveArguments, LiveSource};
use crate::screen::{Screen, Theme, require_terminal};
use crate::signals::Signals;

/// The time between two reads of the history of the shown key.
const HISTORY_PERIOD: Duration = Duration::from_secs(1);

const HISTORY_TIMEOUT: Duration = Duration::from_secs(10);

/// Show informers, queues, controllers and reconciles live in the terminal.
///
/// With --attach, they are those of a running program that serves the console. Without it, the command runs
/// an informer for each named kind of a cluster, caches the metadata of the objects, and records their
/// changes. It only reads.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = "\
Examples:
  informer top --attach http://127.0.0.1:8082
      The operator whose port is forwarded, for example by kubectl port-forward.
  INFORMER_TOKEN=$(kubectl create token viewer) informer top --attach https://operator.example.com
      An operator that authorizes requests.
  informer top pods deploy,rs -A
      Runs informers for three kinds in all namespaces.

Keys:
  1-7, Tab, h, l     select a view          j, k, g, G, Ctrl-D, Ctrl-U   select a row
  /                  filter the rows        s, S                         sort by the next column, reverse
  Enter              history of the key     Esc                          clear the filter, go back
  p                  pause                  ?, q                         help, quit
The mouse selects views, rows and sort columns, and scrolls. NO_COLOR disables colors.")]
pub(crate) struct TopArguments {
    #[command(flatten)]
    live: LiveArguments,
}

pub(crate) async fn run(arguments: TopArguments) -> Result<(), Failure> {
    require_terminal("informer top", "read the data of a console at /debug/informer/v1/snapshot")?;
    let source = LiveSource::open(&arguments.live).await?;
    show(source).await
}

type HistoryResult = Result<KeyHistory, String>;

async fn show(mut source: LiveSource) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let mut screen = Screen::open()?;
    let theme = Theme::of_environment();
    let mut app = App::default();
    // A program that does not respond must not block the keyboard.
    let (sender, mut histories) = mpsc::channel::<(String, HistoryResult)>(1);
    let mut history = interval(HISTORY_PERIOD);
    history.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        screen.draw(|frame| view::draw(frame, &mut app, &theme, Instant::now()))?;
        tokio::select! {
            Some(update) = source.updates.recv() => app.update(update, Instant::now()),
            event = screen.input() => match event? {
                Some(event) => app.input(&event),
                None => return Ok(()),
            },
            Some((key, read)) = histories.recv() => app.set_history(&key, read, Instant::now()),
            _ = history.tick(), if app.key.is_some() => {}
            signal = signals.told_to_end() => return signal,
        }
        if app.quit {
            return Ok(());
        }
        if let Some(key) = app.history_due(Instant::now(), HISTORY_PERIOD) {
            let (reader, sender) = (source.reader.clone(), sender.clone());
            tokio::spawn(async move {
                let read = timeout(HISTORY_TIMEOUT, reader.read(&key)).await;
                let read = read.unwrap_or_else(|_| Err("the program does not respond".to_owned()));
                // Sending fails only if `informer top` has ended.
                let _ = sender.send((key, read)).await;
            });
        }
    }
}
