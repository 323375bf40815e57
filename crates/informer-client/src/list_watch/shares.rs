//! Divides the objects of a kind into shares by a hash, so that each replica of a program lists and watches
//! only some shares. The server filters the objects; if it does not support `shardSelector`, the client drops
//! the objects of other shares.

use std::fmt;
use std::future::ready;
use std::ops::Range;

use futures_util::StreamExt;
use informer_cache::source::{ListPart, ListStream, WatchEvent, WatchStream};
use informer_core::fnv::fnv1a;
use informer_core::{Header, Object};

#[cfg(test)]
mod tests;

const HASHES: u128 = 1 << 64;

/// The maximum number of shares. With more shares their sizes differ more, and each selected share adds a
/// range to the selector of every request.
const MAX_SHARES: u32 = 1024;

/// A selection of the equal shares into which a hash divides the objects of a kind. With such a selection,
/// each replica of a program caches only a part of the objects.
///
/// A server with the feature `ShardedListAndWatch` (Kubernetes 1.36, where it is alpha) sends only the
/// objects of the selected shares. Every other server ignores the selector, and the client drops the
/// remaining objects as they arrive: that saves memory, but neither traffic nor the scan of the dropped
/// objects.
///
/// The client computes the same hash as the server: FNV-1a, 64 bits, of the uid or of the namespace. An
/// object that is deleted and re-created may therefore be in another share. Undecodable objects are reported
/// to all replicas.
///
/// Shares are not handed over from one replica to another. To change the number of replicas, stop all of them
/// first, or use `ShardGroup` of `informer-runtime`, which coordinates them at run time.
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
    /// The numbers of the selected shares, in ascending order, without duplicates, each less than `of`, the
    /// total number of shares.
    taken: Vec<u32>,
}

/// The field of an object whose hash determines the object's share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HashKey {
    /// The hash of an object's uid determines its share. This spreads the objects of each namespace over all
    /// shares.
    #[default]
    Uid,
    /// The hash of an object's namespace determines its share, so that all objects of a namespace are in the
    /// same share. All cluster-scoped objects are in one share.
    Namespace,
}

/// The error for an invalid selection of shares.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HashSharesError {
    /// The selection contains no share, so the informer would receive no objects.
    #[error("select shares of {of}: no share is selected; select at least one")]
    None {
        /// The total number of shares.
        of: u32,
    },
    /// The selection contains a share number that is not below the total number of shares.
    #[error(
        "select share {share} of {of}: invalid share; number shares from 0 and use 1 to {MAX_SHARES} of them"
    )]
    Unknown {
        /// The number of the invalid share.
        share: u32,
        /// The total number of shares.
        of: u32,
    },
}

impl HashShares {
    /// Selects the shares `taken`, numbered from 0, of `of` equal shares. Replica `n` of `m` selects
    /// `HashShares::new(m, [n])`.
    ///
    /// # Errors
    ///
    /// When no share is selected, a selected share does not exist, or there are more than 1024 shares.
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

    /// Sets the field of an object whose hash determines the object's share. The default is the uid.
    #[must_use]
    pub fn by(self, key: HashKey) -> Self {
        Self { key, ..self }
    }

    /// Returns the `shardSelector` that is sent to the server.
    pub fn selector(&self) -> String {
        let key = match self.key {
            HashKey::Uid => "object.metadata.uid",
            HashKey::Namespace => "object.metadata.namespace",
        };
        let range =
            |Range { start, end }: Range<u128>| format!("shardRange({key}, '{start:#018x}', '{end:#018x}')");
        self.ranges().map(range).collect::<Vec<_>>().join(" || ")
    }

    /// Returns true if an object is in one of the selected shares.
    pub fn contains(&self, header: &Header) -> bool {
        let hash = u128::from(fnv1a(match self.key {
            HashKey::Uid => header.uid(),
            HashKey::Namespace => header.key().namespace().unwrap_or_default(),
        }));
        self.ranges().any(|range| range.contains(&hash))
    }

    fn ranges(&self) -> impl Iterator<Item = Range<u128>> {
        let bound = |share: u32| u128::from(share) * HASHES / u128::from(self.of);
        self.taken.iter().map(move |share| bound(*share)..bound(share + 1))
    }

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

    /// Removes the objects that are not in the selected shares from a watch. An event for an object of
    /// another share is replaced with a bookmark of its resourceVersion, so that the watch is not resumed
    /// from an older version. Initial events for objects of other shares are dropped without a bookmark,
    /// because initial events are not ordered by resourceVersion.
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
