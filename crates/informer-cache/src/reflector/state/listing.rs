use std::time::{Duration, Instant};

use informer_core::{Object, ResourceVersion};

use super::super::list_builder::{Inserted, ListBuilder};
use super::super::{MAX_EMPTY_PAGES, MAX_PAGE_RETRIES, Paging, ReflectorConfig, RelistReason};
use super::{
    Input, ListPlan, Next, Phase, ReflectorAction, ReflectorNotice, ReflectorState, Step, Turn,
    asks_for_retry, later,
};
use crate::source::{ListEnd, ListPart, SourceError, SourceErrorKind, VersionMatch};

/// A list that is in flight, with all its pages.
pub(super) struct Listing<O: Object> {
    plan: ListPlan,
    /// The resourceVersion in the request for the first page. Requests for later pages have a continue token
    /// instead of a version. A list that is repeated after its token expired requests this version again.
    origin: ResourceVersion,
    consistent: bool,
    /// True if the server has accepted the request for the current page, so that the driver reads the
    /// response instead of sending the request.
    open: bool,
    /// The time of the last progress of the list: the request for the current page was sent or accepted, or a
    /// part of the response arrived. After too long a time without progress, the list fails.
    progress_at: Instant,
    /// The time at which the request for the current page is sent again. It is set if that request was
    /// rejected or got no response.
    resume_at: Option<Instant>,
    /// Number of times that the request for the current page was rejected or got no response. After
    /// `MAX_PAGE_RETRIES` retries the whole list fails.
    refusals: u32,
    pages: u32,
    /// Number of consecutive pages without an object. A list with too many of them fails, because it probably
    /// has no end.
    empty_pages: u32,
    page_filled: bool,
    /// The resourceVersion of the first page, from which the watch starts. A watch from this version misses
    /// no change, regardless of the versions of later pages.
    version: ResourceVersion,
    builder: ListBuilder<O>,
}

impl<O: Object> Listing<O> {
    pub(super) fn step(&self, config: &ReflectorConfig) -> Step {
        if let Some(resume_at) = self.resume_at {
            return Step { action: ReflectorAction::Wait, until: Some(resume_at) };
        }
        let action = if self.open { ReflectorAction::Read } else { ReflectorAction::List(self.plan.clone()) };
        Step { action, until: Some(later(self.progress_at, config.progress_timeout)) }
    }

    pub(super) fn resume_at(&self) -> Option<Instant> {
        self.resume_at
    }

    /// Returns true until the server has accepted the request for the first page of the list.
    pub(super) fn begins(&self) -> bool {
        !self.open && self.plan.continue_token.is_none() && self.resume_at.is_none()
    }

    pub(super) fn withhold_known(&mut self) {
        self.plan.use_known = false;
    }

    /// Returns true if the list is a consistent read that decodes every object. Such a list is applied even
    /// if it is older than the last version.
    pub(super) fn is_truth(&self) -> bool {
        self.consistent && !self.plan.use_known
    }

    pub(super) fn held_up(&mut self, how_long: Duration, now: Instant) {
        self.progress_at = later(self.progress_at, how_long).min(now);
    }

    /// Begins a list at its first page. Used for a new list, and for a repetition of the whole list in
    /// another variant (for example without pages) after a failure.
    fn begin(plan: ListPlan, consistent: bool, config: &ReflectorConfig, now: Instant) -> Self {
        Self {
            origin: plan.version.clone(),
            plan,
            consistent,
            open: false,
            progress_at: now,
            resume_at: None,
            refusals: 0,
            pages: 0,
            empty_pages: 0,
            page_filled: false,
            version: ResourceVersion::unset(),
            builder: ListBuilder::new(config.max_objects),
        }
    }
}

fn whole(version: ResourceVersion, limit: Option<u32>, use_known: bool) -> ListPlan {
    ListPlan { version, version_match: VersionMatch::Unset, limit, continue_token: None, use_known }
}

impl<O: Object> ReflectorState<O> {
    pub(super) fn begin_list(&mut self, reason: RelistReason, turn: &mut Turn<'_, O>) -> Phase<O> {
        let version = match (self.consistent, self.status.last_version.is_empty()) {
            (true, _) => ResourceVersion::unset(),
            (false, true) => ResourceVersion::any(),
            (false, false) => self.status.last_version.clone(),
        };
        let limit = self.limit(&version);
        self.begin_list_as(whole(version, limit, true), reason, turn)
    }

    fn begin_list_as(&mut self, plan: ListPlan, reason: RelistReason, turn: &mut Turn<'_, O>) -> Phase<O> {
        let plan = ListPlan { use_known: !self.withhold_known, ..plan };
        self.status.relists.add(reason);
        self.status.list_requests += 1;
        turn.effects.notices.push(ReflectorNotice::Relist(reason));
        Phase::Listing(Listing::begin(plan, self.consistent, &self.config, turn.now))
    }

    fn limit(&self, version: &ResourceVersion) -> Option<u32> {
        let paged = match self.config.paging {
            Paging::Always => true,
            Paging::Never => false,
            Paging::Auto if self.complete_lists => false,
            Paging::Auto => self.paged || version.is_empty() || version.is_any(),
        };
        paged.then_some(self.config.page_size)
    }

    pub(super) fn on_listing(
        &mut self,
        mut listing: Listing<O>,
        input: Input<O>,
        turn: &mut Turn<'_, O>,
    ) -> Phase<O> {
        if let Some(resume_at) = listing.resume_at {
            if matches!(input, Input::Timer) && turn.now >= resume_at {
                (listing.resume_at, listing.progress_at) = (None, turn.now);
                self.status.list_requests += 1;
            }
            return Phase::Listing(listing);
        }
        match input {
            Input::Opened => listing.open = true,
            Input::Part(ListPart::End(end)) => return self.end_page(listing, end, turn),
            Input::Part(part) => {
                if let Err(error) = self.take_part(&mut listing, part) {
                    return self.list_failed(listing, error, turn);
                }
            }
            Input::Ended => {
                let error = self.error(SourceErrorKind::Connection, "the list was cut off before its end");
                return self.list_failed(listing, error, turn);
            }
            Input::Failed(error) => return self.list_failed(listing, error, turn),
            Input::Timer if turn.now >= later(listing.progress_at, self.config.progress_timeout) => {
                let silent = format!("the list was silent for {:?}", self.config.progress_timeout);
                let error = self.error(SourceErrorKind::Timeout, &silent);
                return self.list_failed(listing, error, turn);
            }
            Input::Timer | Input::Events(_) | Input::RelistRequested | Input::Stop => {
                return Phase::Listing(listing);
            }
        }
        listing.progress_at = turn.now;
        Phase::Listing(listing)
    }

    fn take_part(&mut self, listing: &mut Listing<O>, part: ListPart<O>) -> Result<(), SourceError> {
        let full = match part {
            ListPart::Items(items) => {
                listing.page_filled |= !items.is_empty();
                items.into_iter().any(|listed| listing.builder.put(listed) == Inserted::Full)
            }
            ListPart::Undecodable(undecodable) => {
                listing.page_filled = true;
                self.status.undecodable += 1;
                listing.builder.set_aside(undecodable) == Inserted::Full
            }
            ListPart::Rejected(count) => {
                listing.page_filled |= count > 0;
                false
            }
            ListPart::End(_) => false,
        };
        if full { Err(self.too_many_objects()) } else { Ok(()) }
    }

    fn end_page(&mut self, mut listing: Listing<O>, end: ListEnd, turn: &mut Turn<'_, O>) -> Phase<O> {
        if listing.pages == 0 {
            listing.version = end.version;
        }
        listing.pages += 1;
        listing.empty_pages = if listing.page_filled { 0 } else { listing.empty_pages + 1 };
        match end.continue_token.filter(|token| !token.is_empty()) {
            None => self.end_list(listing, turn),
            Some(token) => match self.check_pages(&listing, &token) {
                Ok(()) => self.next_page(listing, token, turn),
                Err(error) => self.list_failed(listing, error, turn),
            },
        }
    }

    fn end_list(&mut self, listing: Listing<O>, turn: &mut Turn<'_, O>) -> Phase<O> {
        let duplicates = listing.builder.duplicates();
        if duplicates > 0 {
            self.status.duplicates += duplicates;
            turn.effects.notices.push(ReflectorNotice::Duplicates(duplicates));
        }
        let truth = listing.is_truth();
        match self.accept(listing.builder, listing.version, truth, turn) {
            Ok(()) => self.begin_watch(turn),
            Err(_) => self.begin_relist(RelistReason::StaleList, turn),
        }
    }

    fn next_page(&mut self, mut listing: Listing<O>, token: String, turn: &mut Turn<'_, O>) -> Phase<O> {
        // A server that sends pages for a list at version 0 does not serve lists from a watch cache. `paged`
        // then makes the reflector request relists in pages too.
        self.paged |= listing.origin.is_any();
        listing.plan.version = ResourceVersion::unset();
        listing.plan.continue_token = Some(token);
        (listing.open, listing.page_filled, listing.progress_at) = (false, false, turn.now);
        listing.refusals = 0;
        self.status.list_requests += 1;
        Phase::Listing(listing)
    }

    /// Returns an error if the pages of the list seem to have no end: a continue token is repeated, or there
    /// are too many pages, or too many consecutive pages without an object.
    fn check_pages(&self, listing: &Listing<O>, token: &str) -> Result<(), SourceError> {
        let problem = if listing.plan.continue_token.as_deref() == Some(token) {
            "a page of the list has the continue token of the previous page".to_owned()
        } else if listing.pages >= self.config.max_pages {
            format!("the list has more than {} pages (max_pages)", self.config.max_pages)
        } else if listing.empty_pages >= MAX_EMPTY_PAGES {
            format!("the list continues after {MAX_EMPTY_PAGES} empty pages")
        } else {
            return Ok(());
        };
        Err(self.error(SourceErrorKind::Protocol, &problem))
    }

    fn list_failed(
        &mut self,
        mut listing: Listing<O>,
        error: SourceError,
        turn: &mut Turn<'_, O>,
    ) -> Phase<O> {
        let in_pages = listing.plan.continue_token.is_some() && !listing.open;
        let again = asks_for_retry(&error) || error.kind() == SourceErrorKind::Connection;
        if in_pages && again && listing.refusals < MAX_PAGE_RETRIES {
            // The failed request was one for a later page, so only this page is requested again. An
            // overloaded server need not send the earlier pages again.
            listing.refusals += 1;
            listing.resume_at = Some(self.back_off(error, turn));
            return Phase::Listing(listing);
        }
        let expired = error.kind() == SourceErrorKind::Expired;
        let unavailable = expired || error.kind() == SourceErrorKind::VersionTooLarge;
        if expired && listing.plan.continue_token.is_some() {
            self.recover(error, turn);
            let (version, use_known) = (listing.origin, listing.plan.use_known);
            let plan = whole(version, None, use_known);
            return self.begin_list_as(plan, RelistReason::ContinueExpired, turn);
        }
        // A server that cannot parse the requested version would reject every list with that version, so the
        // next list requests no version.
        let odd = !listing.origin.is_empty() && listing.origin.as_u64().is_none();
        let refused = odd && error.kind() == SourceErrorKind::Rejected;
        if (unavailable || refused) && !listing.consistent {
            self.recover(error, turn);
            self.consistent = true;
            return self.begin_list(RelistReason::ListExpired, turn);
        }
        self.fail(error, Next::Relist(RelistReason::ListFailed), turn)
    }

    pub(super) fn too_many_objects(&self) -> SourceError {
        let problem = format!("the list has more than {} objects (max_objects)", self.config.max_objects);
        self.error(SourceErrorKind::Protocol, &problem)
    }

    /// Returns an error for a problem that the reflector itself has detected, such as a response that stopped
    /// or a list that is too long. The message names the kind of the objects and the reflector.
    pub(super) fn error(&self, kind: SourceErrorKind, problem: &str) -> SourceError {
        let kind_text = self.config.expected_kind.as_deref().unwrap_or("objects");
        SourceError::new(kind, format!("reading {kind_text} for {}: {problem}", self.config.name))
    }
}
