//! A watch whose events go wrong.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::error::ApiError;
use crate::faults::{BodyEnd, OpenWatch, Plan, Point, Upset};
use crate::http::BrokenOff;
use crate::watch::{Item, WatchDriver};

/// Applies the faults of a request to the items of its watch.
pub(crate) struct UpsetWatch {
    driver: WatchDriver,
    plan: Plan,
    end: Option<(u64, BodyEnd)>,
    /// Events handed on.
    events: u64,
    /// Lines that go out before anything else.
    due: VecDeque<Bytes>,
    /// The next line is cut in half, and is the last.
    halve: bool,
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
        Self { driver, plan, end, events: 0, due: VecDeque::new(), halve: false, over: false, framing: None }
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
        Some(Ok(if self.halve && self.over { written.slice(..written.len() / 2) } else { written }))
    }

    async fn next_line(&mut self) -> Option<Result<Piece, BrokenOff>> {
        loop {
            if let Some(line) = self.due.pop_front() {
                return Some(Ok(Piece::Line(line)));
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
                item = self.driver.next() => item?,
            };
            match item {
                Item::Bookmark(_) if self.plan.drop_bookmarks => {}
                Item::InitialEnd(_) if self.plan.no_initial_end => {}
                Item::Bookmark(line) | Item::InitialEnd(line) | Item::Error(line) => {
                    return Some(Ok(Piece::Line(line)));
                }
                Item::Event(bytes) if self.halve => {
                    self.over = true;
                    return Some(Ok(Piece::Event(bytes)));
                }
                Item::Event(bytes) => {
                    self.events += 1;
                    return Some(Ok(Piece::Event(bytes)));
                }
            }
        }
    }

    /// Takes in what later rules want; their events count from here on.
    fn take_spoiled(&mut self) {
        let Some(open) = &self.plan.open else { return };
        let mut later = Plan::default();
        open.take().iter().for_each(|action| later.add(action));
        let events = self.events;
        self.plan.upsets.extend(later.upsets.into_iter().map(|(after, upset)| (events + after, upset)));
        self.plan.drop_bookmarks |= later.drop_bookmarks;
        match later.body_end {
            Some((Point::Events(after), end)) => self.end = Some((events + after, end)),
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
                self.due.push_back(ApiError::watch_expired().to_event_line().into());
                self.over = true;
            }
            Upset::Garbage => self.due.push_back(Bytes::from_static(b"{\"type\":\"ADDED\",\"object\":{{{\n")),
            Upset::UnknownEvent => self.due.push_back(Bytes::from_static(
                b"{\"type\":\"EXPLODED\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{}}}\n",
            )),
            Upset::HalfFrame => self.halve = true,
        }
        true
    }
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
