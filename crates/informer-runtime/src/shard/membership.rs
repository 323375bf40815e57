//! Assigns keys to members by rendezvous hashing.
//!
//! The score of a member for a key is `mix(fnv(key) ^ mix(fnv(member)))`, where `fnv` is 64-bit FNV-1a over
//! the bytes of the string and `mix` is the finalizer of SplitMix64. The member with the highest score owns
//! the key; if scores are equal, the member whose name sorts last. Replicas of two releases must compute the
//! same owner, so the algorithm never changes for a [`SCHEME`].

use std::sync::Arc;

use informer_core::fnv::fnv1a;

/// The version of the algorithm that assigns keys to members. Each member publishes it in its Lease, so that
/// a release with another algorithm does not misinterpret the published membership.
pub(super) const SCHEME: &str = "v1";

#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    name: Arc<str>,
    seed: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Membership {
    members: Arc<[Member]>,
}

impl Membership {
    pub(crate) fn new(names: impl IntoIterator<Item = Arc<str>>) -> Self {
        let mut names: Vec<Arc<str>> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        let member = |name: Arc<str>| Member { seed: mix(fnv1a(&name)), name };
        Self { members: names.into_iter().map(member).collect() }
    }

    pub(crate) fn names(&self) -> impl ExactSizeIterator<Item = &Arc<str>> {
        self.members.iter().map(|member| &member.name)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.names().any(|member| **member == *name)
    }

    /// Returns the name of the member that owns a key; `None` if the membership is empty.
    pub(crate) fn assignee(&self, key: &str) -> Option<&Arc<str>> {
        let key = fnv1a(key);
        let highest = self.members.iter().max_by_key(|member| (mix(key ^ member.seed), &member.name));
        highest.map(|member| &member.name)
    }

    pub(crate) fn assigns(&self, key: &str, member: &str) -> bool {
        self.assignee(key).is_some_and(|owner| **owner == *member)
    }
}

fn mix(hash: u64) -> u64 {
    let hash = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
