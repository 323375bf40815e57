//! Applies injected faults to the events of a watch.

mod lag;

use std::collections::VecDeque;
use std::fmt::Write;

use bytes::Bytes;

use self::lag::LagBuffer;
use crate::faults::{BodyEnd, BodyPosition, EventFault, OpenWatch, Plan, WatchFault};
use crate::http::BrokenOff;
use crate::http::watch::{Item, WatchDriver};
use crate::model::error::ApiError;

pub(crate) struct FaultyWatch {
    driver: WatchDriver,
    plan: Plan,
    end: Option<(u64, BodyEnd)>,
    /// Number of delivered events. The faults of the watch apply at a given number of events.
    events: u64,
    /// Outputs that are sent before the next item of the watch driver.
    pending: VecDeque<WatchOutput>,
    next_fault: Option<EventFault>,
    /// The event that `EventFault::Swap` holds back until the next event has been sent.
    held: Option<Bytes>,
    lag_buffer: Option<Box<LagBuffer>>,
    /// The last output is truncated to half of its bytes, for the fault `HalfFrame`.
    truncated: bool,
    ended: bool,
    /// Converts the JSON lines of bookmarks and errors to the encoding of the watch; `None` for JSON watches.
    framing: Option<Framing>,
}

enum WatchOutput {
    /// One or more watch events, in the encoding of the watch.
    Event(Bytes),
    /// A bookmark, an error, or a line that a fault adds to the watch. It is JSON, and is converted to the
    /// encoding of the watch when it is sent.
    Line(Bytes),
}

pub(crate) type Framing = Box<dyn Fn(&Bytes) -> Bytes + Send>;

impl FaultyWatch {
    pub(crate) fn new(driver: WatchDriver, plan: Plan, end: Option<(BodyPosition, BodyEnd)>) -> Self {
        let end = end.and_then(|(point, end)| match point {
            BodyPosition::Events(events) => Some((events, end)),
            BodyPosition::Bytes(_) => None,
        });
        let lag_buffer = LagBuffer::new(&driver, plan.lag);
        Self {
            driver,
            plan,
            end,
            events: 0,
            pending: VecDeque::new(),
            next_fault: None,
            held: None,
            lag_buffer,
            truncated: false,
            ended: false,
            framing: None,
        }
    }

    pub(crate) fn with_framing(mut self, framing: Option<Framing>) -> Self {
        self.framing = framing;
        self
    }

    /// Returns the next bytes of the watch body, or `None` at its regular end.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, BrokenOff>> {
        let written = match self.next_line().await? {
            Err(broken) => return Some(Err(broken)),
            Ok(WatchOutput::Event(bytes)) => bytes,
            Ok(WatchOutput::Line(line)) => match &self.framing {
                None => line,
                Some(framing) => framing(&line),
            },
        };
        // Truncate the line after it is framed, because the client must receive half of a frame.
        Some(Ok(if self.truncated { written.slice(..written.len() / 2) } else { written }))
    }

    async fn next_line(&mut self) -> Option<Result<WatchOutput, BrokenOff>> {
        loop {
            if let Some(piece) = self.pending.pop_front() {
                return Some(Ok(piece));
            }
            if self.ended {
                return None;
            }
            if self.apply_due_fault() {
                continue;
            }
            if let Some((at, end)) = self.end
                && self.events >= at
            {
                self.ended = true;
                match end {
                    BodyEnd::Clean => return None,
                    BodyEnd::Lost => return Some(Err(BrokenOff)),
                    BodyEnd::Reset => {
                        // Yield once, so that hyper flushes the previous bytes. The reset would otherwise
                        // discard them.
                        tokio::task::yield_now().await;
                        return Some(Err(BrokenOff));
                    }
                    BodyEnd::Stall => std::future::pending::<()>().await,
                }
            }
            let item = tokio::select! {
                biased;
                () = notified(self.plan.open.as_deref()) => {
                    self.apply_injected();
                    continue;
                }
                item = lag::next(self.lag_buffer.as_deref_mut(), &mut self.driver) => item,
            };
            match item {
                Some(Item::Event(bytes)) if self.next_fault.is_none() && self.held.is_none() => {
                    self.events += 1;
                    return Some(Ok(WatchOutput::Event(bytes)));
                }
                Some(item) => self.take(item),
                None => {
                    self.ended = true;
                    self.pending.extend(self.held.take().map(WatchOutput::Event));
                }
            }
        }
    }

    fn take(&mut self, item: Item) {
        match item {
            Item::Bookmark(_) if self.plan.drop_bookmarks => {}
            Item::InitialEnd(_) if self.plan.no_initial_end => {}
            Item::Bookmark(line) | Item::InitialEnd(line) => {
                let line = match self.plan.bookmarks_behind {
                    0 => line,
                    by => rewind_bookmark(&line, by),
                };
                let times = 1 + usize::from(self.plan.repeat_bookmarks);
                self.pending.extend(std::iter::repeat_n(line, times).map(WatchOutput::Line));
            }
            Item::Error(line) => self.pending.push_back(WatchOutput::Line(line)),
            Item::Event(bytes) => self.take_event(bytes),
        }
    }

    fn take_event(&mut self, bytes: Bytes) {
        match self.next_fault.take() {
            Some(EventFault::Skip) => return,
            Some(EventFault::Swap) => {
                // Another swap still holds an event back. Deliver that event now.
                if let Some(held) = self.held.replace(bytes) {
                    self.push_event(held);
                }
                return;
            }
            Some(EventFault::Halve) => (self.truncated, self.ended) = (true, true),
            Some(EventFault::Repeat) => self.push_event(bytes.clone()),
            None => {}
        }
        self.push_event(bytes);
        if let Some(held) = self.held.take().filter(|_| !self.ended) {
            self.push_event(held);
        }
    }

    fn push_event(&mut self, event: Bytes) {
        self.events += 1;
        self.pending.push_back(WatchOutput::Event(event));
    }

    /// Adds the faults that rules have injected since the watch was opened. A fault that applies after a
    /// number of events counts them from now on.
    fn apply_injected(&mut self) {
        let Some(open) = &self.plan.open else { return };
        let mut later = Plan::default();
        open.take().iter().for_each(|action| later.add(action));
        let events = self.events;
        self.plan.watch_faults.extend(
            later.watch_faults.into_iter().map(|(after, upset)| (events.saturating_add(after), upset)),
        );
        self.plan.drop_bookmarks |= later.drop_bookmarks;
        self.plan.repeat_bookmarks |= later.repeat_bookmarks;
        self.plan.bookmarks_behind = self.plan.bookmarks_behind.max(later.bookmarks_behind);
        if self.lag_buffer.is_none() {
            self.lag_buffer = LagBuffer::new(&self.driver, later.lag);
        }
        match later.body_end {
            Some((BodyPosition::Events(after), end)) => self.end = Some((events.saturating_add(after), end)),
            // Bytes were not counted so far, so a fault with a byte position ends an open watch immediately.
            Some((BodyPosition::Bytes(_), end)) => self.end = Some((events, end)),
            None => {}
        }
        // The driver may combine several initial events into one item. Faults that apply after a number of
        // events require that each item is one event.
        self.driver.coalesce &= self.plan.may_coalesce_events() && self.end.is_none();
    }

    /// Applies the first fault whose event count is reached. Returns false if no fault is due.
    fn apply_due_fault(&mut self) -> bool {
        let events = self.events;
        let Some(index) = self.plan.watch_faults.iter().position(|(at, _)| *at <= events) else {
            return false;
        };
        match self.plan.watch_faults.remove(index).1 {
            WatchFault::Expire => {
                self.pending.push_back(WatchOutput::Line(ApiError::watch_expired().to_event_line().into()));
                self.ended = true;
            }
            WatchFault::Line(line) => self.pending.push_back(WatchOutput::Line(line)),
            WatchFault::LastLine(line) => {
                self.pending.push_back(WatchOutput::Line(line));
                self.ended = true;
            }
            WatchFault::NextEvent(next_fault) => self.next_fault = Some(next_fault),
        }
        true
    }
}

fn rewind_bookmark(line: &Bytes, by: u64) -> Bytes {
    const MARK: &str = "\"resourceVersion\":\"";
    let Ok(mut rest) = std::str::from_utf8(line) else { return line.clone() };
    let mut out = String::with_capacity(rest.len());
    while let Some((before, after)) = rest.split_once(MARK) {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let version: u64 = after[..digits].parse().unwrap_or_default();
        write!(out, "{before}{MARK}{}", version.saturating_sub(by))
            .expect("writing to a string does not fail");
        rest = &after[digits..];
    }
    out.push_str(rest);
    out.into()
}

async fn notified(open: Option<&OpenWatch>) {
    match open {
        Some(open) => open.notified().await,
        None => std::future::pending().await,
    }
}

impl ApiError {
    /// Returns the 410 error that an open watch receives as an ERROR event.
    fn watch_expired() -> Self {
        Self::new(410, "Expired", "The resourceVersion for the provided watch is too old.")
    }
}
