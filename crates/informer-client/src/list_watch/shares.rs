//! A share of a kind's objects, by a hash: asked of the server, and seen to here where it does not know how.

use std::fmt;
use std::future::ready;
use std::ops::Range;

use futures_util::StreamExt;
use informer_cache::source::{ListPart, ListStream, WatchEvent, WatchStream};
use informer_core::fnv::fnv1a;
use informer_core::{Header, Object};

#[cfg(test)]
mod tests;

/// The number of hashes.
const HASHES: u128 = 1 << 64;

/// More shares than this are no longer of nearly one size; and each that is taken is a text of its own in
/// every request.
const MAX_SHARES: u32 = 1024;

/// Some of the equal shares into which a hash divides the objects of a kind: for replicas that each hold a
/// part of them.
///
/// A server with the feature `ShardedListAndWatch` (Kubernetes 1.36, where it is alpha) sends no other
/// objects than those. Every other server ignores what it is asked for, and the rest is dropped as it
/// arrives: that saves memory, but neither traffic nor the scan of what is dropped.
///
/// The hash is that of the server: FNV-1a, 64 bits, of the uid or of the namespace. So an object that is
/// deleted and made anew may come to another share. Objects that cannot be read are told to everybody.
///
/// Nothing hands a share over from one replica to another: who changes the number of replicas stops them all
/// first, or uses what the replicas agree about while they run (`ShardGroup` of `informer-runtime`).
///
/// ```
/// use informer_client::HashShares;
///
/// let second_half = HashShares::new(2, [1])?;
/// assert_eq!(second_half.selector(), "shardRange(object.metadata.uid, '0x8000000000000000', '0x10000000000000000')");
/// # Ok::<(), informer_client::HashSharesError>(())
/// ```
///
/// Upstream:
/// [KEP-5866](https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/5866-server-side-sharded-list-and-watch).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashShares {
    key: HashKey,
    of: u32,
    /// Ascending, each once, all below `of`.
    taken: Vec<u32>,
}

/// What is hashed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HashKey {
    /// The uid of each object.
    #[default]
    Uid,
    /// Its namespace, so that what is in one stays together. Objects without one are all in one share.
    Namespace,
}

/// Shares that there are not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HashSharesError {
    /// None is taken.
    #[error("take shares of {of}: none is taken; at least one has to be")]
    None {
        /// How many there are.
        of: u32,
    },
    /// There is no share of this number.
    #[error(
        "take share {share} of {of}: shares are numbered from 0, and there are 1 to {MAX_SHARES} of them"
    )]
    Unknown {
        /// The number.
        share: u32,
        /// How many there are.
        of: u32,
    },
}

impl HashShares {
    /// These shares, numbered from 0, of so many equal ones. Replica `n` of `m` takes `HashShares::new(m,
    /// [n])`.
    ///
    /// # Errors
    ///
    /// When none is taken, or one that does not exist; when there are more than 1024.
    pub fn new(of: u32, taken: impl IntoIterator<Item = u32>) -> Result<Self, HashSharesError> {
        let mut taken: Vec<u32> = taken.into_iter().collect();
        taken.sort_unstable();
        taken.dedup();
        match taken.last() {
            None => Err(HashSharesError::None { of }),
            Some(last) if *last >= of || of > MAX_SHARES => {
                Err(HashSharesError::Unknown { share: *last, of })
            }
            Some(_) => Ok(Self { key: HashKey::default(), of, taken }),
        }
    }

    /// Says what is hashed; the uid unless told otherwise.
    #[must_use]
    pub fn by(self, key: HashKey) -> Self {
        Self { key, ..self }
    }

    /// Returns the selector as it is sent.
    pub fn selector(&self) -> String {
        let key = match self.key {
            HashKey::Uid => "object.metadata.uid",
            HashKey::Namespace => "object.metadata.namespace",
        };
        let range =
            |Range { start, end }: Range<u128>| format!("shardRange({key}, '{start:#018x}', '{end:#018x}')");
        self.ranges().map(range).collect::<Vec<_>>().join(" || ")
    }

    /// Returns true if an object is in one of the shares.
    pub fn contains(&self, header: &Header) -> bool {
        let hash = u128::from(fnv1a(match self.key {
            HashKey::Uid => header.uid(),
            HashKey::Namespace => header.key().namespace().unwrap_or_default(),
        }));
        self.ranges().any(|range| range.contains(&hash))
    }

    /// Returns the hashes of each share that is taken.
    fn ranges(&self) -> impl Iterator<Item = Range<u128>> {
        let bound = |share: u32| u128::from(share) * HASHES / u128::from(self.of);
        self.taken.iter().map(move |share| bound(*share)..bound(share + 1))
    }

    /// What of a list is in the shares.
    pub(super) fn of_list<O: Object>(self, list: ListStream<O>) -> ListStream<O> {
        ListStream::new(list.map(move |part| {
            part.map(|part| match part {
                ListPart::Items(mut items) => {
                    items.retain(|item| self.contains(item.object().header()));
                    ListPart::Items(items)
                }
                other => other,
            })
        }))
    }

    /// What of a watch is in the shares. Of other events the version stays, so that none of them is asked for
    /// again; but for those of a streaming list, which come in no order of their versions.
    pub(super) fn of_watch<O: Object>(self, watch: WatchStream<O>, streams_a_list: bool) -> WatchStream<O> {
        let mut lists = streams_a_list;
        WatchStream::new(watch.filter_map(move |event| {
            let kept = match event {
                Ok(
                    WatchEvent::Added(object)
                    | WatchEvent::Known(object)
                    | WatchEvent::Modified(object)
                    | WatchEvent::Deleted(object),
                ) if !self.contains(object.header()) => {
                    let version = object.resource_version().clone();
                    (!lists).then_some(Ok(WatchEvent::Bookmark { version, initial_events_end: false }))
                }
                other => {
                    let ends = matches!(other, Ok(WatchEvent::Bookmark { initial_events_end: true, .. }));
                    lists &= !ends;
                    Some(other)
                }
            };
            ready(kept)
        }))
    }
}

impl fmt::Display for HashShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taken: Vec<String> = self.taken.iter().map(ToString::to_string).collect();
        let key = match self.key {
            HashKey::Uid => "uid",
            HashKey::Namespace => "namespace",
        };
        write!(f, "{} of {} by {key}", taken.join("+"), self.of)
    }
}
