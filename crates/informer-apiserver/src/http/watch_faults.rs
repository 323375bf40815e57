//! Applies injected faults to the events of a watch.

mod late;

use std::collections::VecDeque;
use std::fmt::Write;

use bytes::Bytes;

use self::late::Late;
use crate::faults::{BodyEnd, OpenWatch, Plan, Point, Twist, Upset};
use crate::http::BrokenOff;
use crate::http::watch::{Item, WatchDriver};
use crate::model::error::ApiError;

/// A watch stream with the injected faults of its request.
pub(crate) struct UpsetWatch {
    driver: WatchDriver,
    plan: Plan,
    end: Option<(u64, BodyEnd)>,
    /// Number of delivered events; faults are scheduled by this count.
    events: u64,
    /// Output that is sent before the next item of the driver.
    due: VecDeque<Piece>,
    /// The fault of the next event.
    twist: Option<Twist>,
    /// The event that `EventFault::Swap` delivers after the next one.
    held: Option<Bytes>,
    /// The delay buffer of a lagging watch.
    late: Option<Box<Late>>,
    /// The last output is truncated to half of its bytes.
    halved: bool,
    over: bool,
    /// Encodes lines that the driver does not encode itself, if the watch is not JSON.
    framing: Option<Framing>,
}

/// A part of the body.
enum Piece {
    /// One or more events, in the encoding of the watch.
    Event(Bytes),
    /// A bookmark, an error or an injected line, as JSON.
    Line(Bytes),
}

/// Converts JSON lines to the encoding of the watch.
pub(crate) type Framing = Box<dyn Fn(&Bytes) -> Bytes + Send>;

impl UpsetWatch {
    pub(crate) fn new(driver: WatchDriver, plan: Plan, end: Option<(Point, BodyEnd)>) -> Self {
        let end = end.and_then(|(point, end)| match point {
            Point::Events(events) => Some((events, end)),
            Point::Bytes(_) => None,
        });
        let late = Late::by(&driver, plan.lag);
        Self {
            driver,
            plan,
            end,
            events: 0,
            due: VecDeque::new(),
            twist: None,
            held: None,
            late,
            halved: false,
            over: false,
            framing: None,
        }
    }

    /// Sets the conversion for a watch that is not JSON.
    pub(crate) fn with_framing(mut self, framing: Option<Framing>) -> Self {
        self.framing = framing;
        self
    }

    /// Returns the next bytes of the body, or `None` at its regular end.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, BrokenOff>> {
        let written = match self.next_line().await? {
            Err(broken) => return Some(Err(broken)),
            Ok(Piece::Event(bytes)) => bytes,
            Ok(Piece::Line(line)) => match &self.framing {
                None => line,
                Some(framing) => framing(&line),
            },
        };
        // Truncate after framing, not before.
        Some(Ok(if self.halved { written.slice(..written.len() / 2) } else { written }))
    }

    async fn next_line(&mut self) -> Option<Result<Piece, BrokenOff>> {
        loop {
            if let Some(piece) = self.due.pop_front() {
                return Some(Ok(piece));
            }
            if self.over {
                return None;
            }
            if self.take_due() {
                continue;
            }
            if let Some((at, end)) = self.end
                && self.events >= at
            {
                self.over = true;
                match end {
                    BodyEnd::Clean => return None,
                    BodyEnd::Lost => return Some(Err(BrokenOff)),
                    BodyEnd::Reset => {
                        // hyper flushes the previous bytes while the body is pending. A reset would discard them.
                        tokio::task::yield_now().await;
                        return Some(Err(BrokenOff));
                    }
                    BodyEnd::Stall => std::future::pending::<()>().await,
                }
            }
            let item = tokio::select! {
                biased;
                () = rung(self.plan.open.as_deref()) => {
                    self.take_spoiled();
                    continue;
                }
                item = late::next(self.late.as_deref_mut(), &mut self.driver) => item,
            };
            match item {
                Some(Item::Event(bytes)) if self.twist.is_none() && self.held.is_none() => {
                    self.events += 1;
                    return Some(Ok(Piece::Event(bytes)));
                }
                Some(item) => self.take(item),
                None => {
                    self.over = true;
                    self.due.extend(self.held.take().map(Piece::Event));
                }
            }
        }
    }

    /// Queues the output for an item, after applying the faults.
    fn take(&mut self, item: Item) {
        match item {
            Item::Bookmark(_) if self.plan.drop_bookmarks => {}
            Item::InitialEnd(_) if self.plan.no_initial_end => {}
            Item::Bookmark(line) | Item::InitialEnd(line) => {
                let line = match self.plan.bookmarks_behind {
                    0 => line,
                    by => older(&line, by),
                };
                let times = 1 + usize::from(self.plan.repeat_bookmarks);
                self.due.extend(std::iter::repeat_n(line, times).map(Piece::Line));
            }
            Item::Error(line) => self.due.push_back(Piece::Line(line)),
            Item::Event(bytes) => self.take_event(bytes),
        }
    }

    fn take_event(&mut self, bytes: Bytes) {
        match self.twist.take() {
            Some(Twist::Skip) => return,
            Some(Twist::Swap) => {
                // Deliver an event that an earlier swap still holds.
                if let Some(held) = self.held.replace(bytes) {
                    self.tell(held);
                }
                return;
            }
            Some(Twist::Halve) => (self.halved, self.over) = (true, true),
            Some(Twist::Repeat) => self.tell(bytes.clone()),
            None => {}
        }
        self.tell(bytes);
        if let Some(held) = self.held.take().filter(|_| !self.over) {
            self.tell(held);
        }
    }

    fn tell(&mut self, event: Bytes) {
        self.events += 1;
        self.due.push_back(Piece::Event(event));
    }

    /// Adds the faults that were injected while the watch is open. Their event counts start now.
    fn take_spoiled(&mut self) {
        let Some(open) = &self.plan.open else { return };
        let mut later = Plan::default();
        open.take().iter().for_each(|action| later.add(action));
        let events = self.events;
        self.plan
            .upsets
            .extend(later.upsets.into_iter().map(|(after, upset)| (events.saturating_add(after), upset)));
        self.plan.drop_bookmarks |= later.drop_bookmarks;
        self.plan.repeat_bookmarks |= later.repeat_bookmarks;
        self.plan.bookmarks_behind = self.plan.bookmarks_behind.max(later.bookmarks_behind);
        if self.late.is_none() {
            self.late = Late::by(&self.driver, later.lag);
        }
        match later.body_end {
            Some((Point::Events(after), end)) => self.end = Some((events.saturating_add(after), end)),
            // A byte position does not apply to an open watch: end it now.
            Some((Point::Bytes(_), end)) => self.end = Some((events, end)),
            None => {}
        }
        // Faults that count events require one event per item.
        self.driver.coalesce &= self.plan.leaves_events() && self.end.is_none();
    }

    /// Applies the first scheduled fault whose event count is reached. Returns false if there is none.
    fn take_due(&mut self) -> bool {
        let events = self.events;
        let Some(index) = self.plan.upsets.iter().position(|(at, _)| *at <= events) else { return false };
        match self.plan.upsets.remove(index).1 {
            Upset::Expire => {
                self.due.push_back(Piece::Line(ApiError::watch_expired().to_event_line().into()));
                self.over = true;
            }
            Upset::Line(line) => self.due.push_back(Piece::Line(line)),
            Upset::LastLine(line) => {
                self.due.push_back(Piece::Line(line));
                self.over = true;
            }
            Upset::Twist(twist) => self.twist = Some(twist),
        }
        true
    }
}

/// Returns a bookmark line whose resourceVersion is `by` lower.
fn older(line: &Bytes, by: u64) -> Bytes {
    const MARK: &str = "\"resourceVersion\":\"";
    let Ok(mut rest) = std::str::from_utf8(line) else { return line.clone() };
    let mut out = String::with_capacity(rest.len());
    while let Some((before, after)) = rest.split_once(MARK) {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let version: u64 = after[..digits].parse().unwrap_or_default();
        write!(out, "{before}{MARK}{}", version.saturating_sub(by)).expect("a String takes everything");
        rest = &after[digits..];
    }
    out.push_str(rest);
    out.into()
}

async fn rung(open: Option<&OpenWatch>) {
    match open {
        Some(open) => open.rung().await,
        None => std::future::pending().await,
    }
}

impl ApiError {
    /// The 410 error that is sent as an event of an open watch.
    fn watch_expired() -> Self {
        Self::new(410, "Expired", "The resourceVersion for the provided watch is too old.")
    }
}
