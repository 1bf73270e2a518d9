//! The version of kinds, definitions and profiles, and which clusters their last changes concern.
//!
//! A changed definition or profile makes the cached replies of its clusters stale, and there may be a million of them. They are not visited: each cached reply
//! carries the stamp of the catalog that it was made with, and a poll that finds another stamp asks the catalog whether the reply still holds.

use std::collections::VecDeque;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::{ClusterSet, Number};
use crate::document::Etag;

/// Identifies a catalog among those that a fleet had.
pub(crate) type CatalogStamp = u64;

/// How many changes are remembered each for itself.
const MOST: usize = 64;
/// How many earlier changes are remembered together, as one set of clusters: a reply from before one of them holds if its cluster is not in the set. Then
/// the set begins again, because it only grows.
const MOST_EARLIER: usize = 4096;

#[derive(Clone, Debug, Default)]
pub(super) struct Catalog {
    stamp: CatalogStamp,
    /// The oldest first.
    recent: VecDeque<Concern>,
    earlier: Arc<Earlier>,
}

/// The changes before the recent ones, of any kind.
#[derive(Clone, Debug, Default)]
struct Earlier {
    /// The stamps before them. The oldest first.
    before: VecDeque<CatalogStamp>,
    users: ClusterSet,
}

/// What one edit changed about one kind.
#[derive(Clone, Debug)]
struct Concern {
    /// The stamp before it.
    before: CatalogStamp,
    kind: Arc<str>,
    users: ClusterSet,
}

impl Catalog {
    pub(super) fn stamp(&self) -> CatalogStamp {
        self.stamp
    }

    /// Follows a change of a kind, of its definitions, or of profiles that refer to it. `users` are the clusters whose replies may differ, before and after;
    /// `etags` identify what was written.
    pub(super) fn change(&mut self, kind: &Arc<str>, users: ClusterSet, etags: &[(Arc<str>, Option<Etag>)]) {
        let mut hash = Sha256::new();
        hash.update(self.stamp.to_be_bytes());
        hash.update(kind.as_bytes());
        for (id, etag) in etags {
            hash.update([0]);
            hash.update(id.as_bytes());
            hash.update(etag.map_or([0; 16], |etag| etag.0.to_be_bytes()));
        }
        let digest = hash.finalize();
        let before = self.stamp;
        self.stamp = CatalogStamp::from_be_bytes(digest[..8].try_into().expect("SHA-256 has 32 bytes"));
        if self.recent.len() == MOST
            && let Some(oldest) = self.recent.pop_front()
        {
            Arc::make_mut(&mut self.earlier).add(&oldest);
        }
        self.recent.push_back(Concern {
            before,
            kind: kind.clone(),
            users,
        });
    }

    /// Whether nothing changed for a cluster since a stamp: for its replies of one kind, or for all of them.
    pub(super) fn is_same(&self, since: CatalogStamp, kind: Option<&str>, cluster: Number) -> bool {
        if since == self.stamp {
            return true;
        }
        for change in self.recent.iter().rev() {
            if kind.is_none_or(|kind| kind == &*change.kind) && change.users.contains(cluster) {
                return false;
            }
            if change.before == since {
                return true;
            }
        }
        !self.earlier.users.contains(cluster) && self.earlier.before.contains(&since)
    }
}

impl Earlier {
    fn add(&mut self, change: &Concern) {
        if self.before.len() == MOST_EARLIER {
            // Who was concerned by which of them is not known any more.
            *self = Earlier::default();
        }
        self.before.push_back(change.before);
        self.users.unite(&change.users);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(numbers: &[Number]) -> ClusterSet {
        numbers.iter().copied().collect()
    }

    #[test]
    fn a_change_concerns_its_users_and_its_kind_only() {
        let (things, others): (Arc<str>, Arc<str>) = ("things".into(), "others".into());
        let mut catalog = Catalog::default();
        let first = catalog.stamp();
        catalog.change(&things, users(&[1, 2]), &[("a".into(), Some(Etag(1)))]);
        let second = catalog.stamp();
        catalog.change(&others, users(&[2, 3]), &[("b".into(), None)]);
        for (since, kind, cluster, is_same) in [
            (first, Some("things"), 1, false),
            (first, Some("things"), 3, true),
            (first, Some("others"), 1, true),
            (first, Some("others"), 3, false),
            (first, None, 1, false),
            (first, None, 4, true),
            (second, Some("things"), 1, true),
            (second, None, 2, false),
            (catalog.stamp(), None, 2, true),
            // Of another history: nothing is known about it.
            (7, Some("things"), 4, false),
        ] {
            assert_eq!(
                catalog.is_same(since, kind, cluster),
                is_same,
                "{since} {kind:?} {cluster}"
            );
        }
    }

    /// A plan and a write start from the same catalog, and must not be taken for each other.
    #[test]
    fn other_changes_have_other_stamps_and_equal_ones_the_same() {
        let kind: Arc<str> = "things".into();
        let changed = |id: &str, etag| {
            let mut catalog = Catalog::default();
            catalog.change(&kind, users(&[1]), &[(id.into(), etag)]);
            catalog.stamp()
        };
        assert_eq!(changed("a", Some(Etag(1))), changed("a", Some(Etag(1))));
        let stamps = [
            Catalog::default().stamp(),
            changed("a", Some(Etag(1))),
            changed("a", Some(Etag(2))),
            changed("a", None),
            changed("b", None),
        ];
        for (n, stamp) in stamps.iter().enumerate() {
            assert!(!stamps[..n].contains(stamp), "{n}");
        }
    }

    #[test]
    fn earlier_changes_are_remembered_together_and_not_for_ever() {
        let mut catalog = Catalog::default();
        let first = catalog.stamp();
        let mut change = |n: usize, users: ClusterSet| {
            catalog.change(&"things".into(), users, &[("a".into(), Some(Etag(n as u128)))]);
            catalog.clone()
        };
        change(0, users(&[1]));
        let mut after = Catalog::default();
        for n in 1..=MOST {
            after = change(n, users(&[2]));
        }
        // The first change is not among the recent ones now.
        let second = after.recent[0].before;
        for (since, kind, cluster, is_same) in [
            (first, Some("things"), 1, false),
            (first, Some("things"), 2, false),
            (first, Some("things"), 3, true),
            // Kinds are not told apart any more.
            (first, Some("others"), 1, false),
            (first, Some("others"), 3, true),
            (second, Some("things"), 1, true),
            (7, Some("things"), 3, false),
        ] {
            assert_eq!(
                after.is_same(since, kind, cluster),
                is_same,
                "{since} {kind:?} {cluster}"
            );
        }
        for n in 0..MOST_EARLIER {
            after = change(n, users(&[2]));
        }
        assert!(!after.is_same(first, None, 3), "forgotten");
        let last = after.recent[0].before;
        assert!(after.is_same(last, None, 1), "the recent ones are always known");
    }
}
