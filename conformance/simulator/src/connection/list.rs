use std::collections::VecDeque;
use std::sync::Arc;

use informer_cache::source::{KnownObjects, ListEnd, ListPart, Listed, SourceContext, SourceErrorKind};
use informer_cache::{Undecodable, UndecodableLog};
use informer_core::{Object, ResourceVersion};
use informer_store::Indexer;

use super::{ListBody, ListTail, Network, Open, Peer, Response, failure, number};
use crate::fault::Fault;
use crate::object::SimObject;
use crate::server::Content;

pub(crate) struct ListAsk<'a> {
    pub(crate) version: &'a ResourceVersion,
    pub(crate) limit: Option<u32>,
    pub(crate) token: Option<&'a str>,
    /// The objects in the client's cache, if the list response may refer to them instead of repeating them.
    pub(crate) known: Option<Indexer<SimObject>>,
}

struct Page {
    version: u64,
    from: usize,
    content: Content,
}

impl Network {
    pub(crate) fn list(&mut self, ask: &ListAsk<'_>, peer: &mut Peer<'_>) -> Response {
        if let Some(response) = self.refuse(peer) {
            return response;
        }
        let page = match self.page(ask, peer) {
            Ok(page) => page,
            Err(kind) => {
                self.hits += 1;
                return Response::Failed(failure(kind));
            }
        };
        let fits = |fault| match fault {
            Fault::SameToken => ask.token.is_some(),
            Fault::TokenExpires => ask.token.is_some(),
            Fault::ShortPage | Fault::LimitIgnored => ask.limit.is_some(),
            Fault::KnownIgnored => ask.known.is_some(),
            Fault::StaleResponse => ask.token.is_none() && !ask.version.is_empty() && !ask.version.is_any(),
            Fault::ListBreaks | Fault::ListStalls | Fault::EmptyPage | Fault::ListedTwice => true,
            _ => false,
        };
        match self.take(fits, peer) {
            Some(Fault::StaleResponse) => {
                let version = peer.server.compacted;
                let content = peer.server.content_at(version).unwrap_or_default();
                let page = Page { version, from: 0, content };
                Response::Open(Open::List(self.body(ask, &page, None, peer)))
            }
            Some(Fault::TokenExpires) => Response::Failed(failure(SourceErrorKind::Expired)),
            fault => Response::Open(Open::List(self.body(ask, &page, fault, peer))),
        }
    }

    /// Returns the state of the objects that the server lists, and the first key of the requested page.
    fn page(&self, ask: &ListAsk<'_>, peer: &mut Peer<'_>) -> Result<Page, SourceErrorKind> {
        let server = peer.server;
        let replica = server.at(peer.random.below(server.replicas()));
        let (version, from) = match ask.token {
            Some(token) => parse_token(token, server.epoch).ok_or(SourceErrorKind::Expired)?,
            None if ask.version.is_empty() => (server.version, 0),
            None if ask.version.is_any() => (replica, 0),
            None if replica < number(ask.version) => return Err(SourceErrorKind::VersionTooLarge),
            None => (replica, 0),
        };
        let content = server.content_at(version).ok_or(SourceErrorKind::Expired)?;
        Ok(Page { version, from, content })
    }

    fn body(&self, ask: &ListAsk<'_>, page: &Page, fault: Option<Fault>, peer: &mut Peer<'_>) -> ListBody {
        let known = ask.known.clone().filter(|_| fault != Some(Fault::KnownIgnored));
        let known = known.map(|known| Arc::new(known) as Arc<dyn KnownObjects<SimObject>>);
        let context = SourceContext::new(known, UndecodableLog::default());
        let limit = match (fault, ask.limit) {
            (Some(Fault::EmptyPage), _) => 0,
            (Some(Fault::ShortPage), _) => 1,
            (Some(Fault::LimitIgnored), _) | (_, None) => usize::MAX,
            (_, Some(limit)) => limit as usize,
        };
        let shown = |object: &&Arc<SimObject>| object.in_view || !self.selector;
        let mut rest = page.content[page.from..].iter().flatten().filter(shown).peekable();
        let (mut parts, mut items) = (VecDeque::new(), Vec::new());
        let mut next = page.from;
        for object in rest.by_ref().take(limit) {
            next = object.number() + 1;
            match context.unchanged(object.key().as_str(), object.uid(), object.resource_version()) {
                Some(known) => items.push(Listed::Known(known)),
                None if object.readable => items.push(Listed::Fresh(Arc::clone(object))),
                None => parts.push_back(ListPart::Undecodable(undecodable(object))),
            }
        }
        if fault == Some(Fault::ListedTwice)
            && let Some(first) = items.first().cloned()
        {
            items.push(first);
        }
        let end = match fault {
            Some(Fault::ListBreaks) if peer.random.one_in(2) => ListTail::Breaks,
            Some(Fault::ListStalls) => ListTail::Stalls,
            _ => ListTail::Ends,
        };
        let cut = matches!(fault, Some(Fault::ListBreaks | Fault::ListStalls));
        if cut {
            items.truncate(items.len() / 2);
        }
        let items_part = ListPart::Items(items);
        parts.push_back(items_part);
        if !cut {
            let token = match (fault, ask.token) {
                (Some(Fault::SameToken), Some(token)) => Some(token.to_owned()),
                (Some(Fault::EmptyPage), token) => Some(longer(token, page, peer.server.epoch)),
                _ => rest.peek().map(|_| format!("{} {} {next}", peer.server.epoch, page.version)),
            };
            let version = page.version.into();
            parts.push_back(ListPart::End(ListEnd { version, continue_token: token, remaining: None }));
        }
        ListBody { parts, end }
    }
}

/// Returns a continue token for the same position that differs from all previous tokens.
fn longer(token: Option<&str>, page: &Page, epoch: u32) -> String {
    match token {
        Some(token) => format!("{token} "),
        None => format!("{epoch} {} {} ", page.version, page.from),
    }
}

/// Parses a continue token: the version of the list, and the first key of the page. Returns `None` for a
/// token from before a restore, which has expired.
fn parse_token(token: &str, epoch: u32) -> Option<(u64, usize)> {
    let mut numbers = token.split_whitespace().map(|number| number.parse().ok());
    let (then, version, from) = (numbers.next()??, numbers.next()??, numbers.next()??);
    (then == u64::from(epoch)).then_some((version, usize::try_from(from).ok()?))
}

pub(super) fn undecodable(object: &SimObject) -> Undecodable {
    Undecodable::new(Some(object.key().clone()), "undecodable in this simulation")
        .with_version(object.uid(), object.resource_version().clone())
}
