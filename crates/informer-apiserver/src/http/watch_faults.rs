//! A watch whose events go wrong.

mod late;

use std::collections::VecDeque;
use std::fmt::Write;

use bytes::Bytes;

use self::late::Late;
use crate::faults::{BodyEnd, OpenWatch, Plan, Point, Twist, Upset};
use crate::http::BrokenOff;
use crate::http::watch::{Item, WatchDriver};
use crate::model::error::ApiError;

/// Applies the faults of a request to the items of its watch.
pub(crate) struct UpsetWatch {
    driver: WatchDriver,
    plan: Plan,
    end: Option<(u64, BodyEnd)>,
    /// Events handed on.
    events: u64,
    /// What goes out before anything else.
    due: VecDeque<Piece>,
    /// What happens to the next event.
    twist: Option<Twist>,
    /// An event that comes after the next one.
    held: Option<Bytes>,
    /// What is told later, where there is a lag.
    late: Option<Box<Late>>,
    /// The last piece is half of what it was.
    halved: bool,
    over: bool,
    /// What becomes of lines that are no events, where the watch is not answered in JSON.
    framing: Option<Framing>,
}

/// What a watch is made of.
enum Piece {
    /// Events, in the encoding of the watch.
    Event(Bytes),
    /// Something else, as a line of JSON.
    Line(Bytes),
}

/// Writes lines of JSON in another encoding.
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

    /// The same in another encoding than JSON.
    pub(crate) fn with_framing(mut self, framing: Option<Framing>) -> Self {
        self.framing = framing;
        self
    }

    /// The next piece of the body; `None` at its proper end.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, BrokenOff>> {
        let written = match self.next_line().await? {
            Err(broken) => return Some(Err(broken)),
            Ok(Piece::Event(bytes)) => bytes,
            Ok(Piece::Line(line)) => match &self.framing {
                None => line,
                Some(framing) => framing(&line),
            },
        };
        // The half of a frame, not the frame of a half.
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
                        // What went before is flushed while the body is pending; a reset would discard it.
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

    /// Makes pieces of what the watch has to tell.
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
                // One that waits already waits no longer.
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

    /// Takes in what later rules want; their events count from here on.
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
            // Neither events nor bytes were named: at once.
            Some((Point::Bytes(_), end)) => self.end = Some((events, end)),
            None => {}
        }
        // From here on events must be told apart, to be counted.
        self.driver.coalesce &= self.plan.leaves_events() && self.end.is_none();
    }

    /// Arranges the upset whose time has come; true where there was one that makes a line or ends the stream.
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

/// A bookmark, of a version so much older.
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
    /// The 410 of a watch, without saying from when.
    fn watch_expired() -> Self {
        Self::new(410, "Expired", "The resourceVersion for the provided watch is too old.")
    }
}
