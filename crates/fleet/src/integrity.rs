//! Digests that let a store detect damage: flipped bits, lost pages, rows that came back.
//!
//! They find damage, not forgery: anyone who can write rows can compute them. Forgery is found by the log's chain and an anchor
//! that was noted elsewhere.

use sha2::{Digest as _, Sha256};

use crate::json::Json;
use crate::log::{Change, Digest, Head, Revision, part};

/// The item of a resource: SHA-256 of its kind, id and body.
pub fn item(kind: &str, id: &str, body: &Json) -> Digest {
    let mut hash = Sha256::new();
    part(&mut hash, Some(kind));
    part(&mut hash, Some(id));
    hash.update(body.as_str());
    Digest(hash.finalize().into())
}

/// The items of a resource before and after a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Items {
    pub before: Option<Digest>,
    pub after: Option<Digest>,
}

impl Items {
    pub fn of(change: &Change) -> Self {
        let item = |body: &Option<Json>| body.as_ref().map(|body| item(&change.kind, &change.id, body));
        Items {
            before: item(&change.before),
            after: item(&change.after),
        }
    }
}

/// The digest of a set of resources: the sum of their items, in any order. Adding or removing one costs an addition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total([u64; 4]);

impl Total {
    pub fn add(&mut self, item: Digest) {
        self.combine(item, u64::wrapping_add);
    }

    pub fn remove(&mut self, item: Digest) {
        self.combine(item, u64::wrapping_sub);
    }

    /// Applies a change.
    pub fn apply(&mut self, items: Items) {
        if let Some(before) = items.before {
            self.remove(before);
        }
        if let Some(after) = items.after {
            self.add(after);
        }
    }

    fn combine(&mut self, item: Digest, with: impl Fn(u64, u64) -> u64) {
        for (lane, bytes) in self.0.iter_mut().zip(item.0.as_chunks::<8>().0) {
            *lane = with(*lane, u64::from_be_bytes(*bytes));
        }
    }

    fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (chunk, lane) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.0) {
            *chunk = lane.to_be_bytes();
        }
        bytes
    }
}

impl Extend<Digest> for Total {
    fn extend<T: IntoIterator<Item = Digest>>(&mut self, items: T) {
        items.into_iter().for_each(|item| self.add(item));
    }
}

/// A digest column: a digest, and a second digest (the seal) over it and related values.
pub type Sealed = [u8; 64];

fn seal(digest: [u8; 32], cover: impl FnOnce(&mut Sha256)) -> Sealed {
    let mut hash = Sha256::new();
    hash.update(digest);
    cover(&mut hash);
    let mut sealed = [0; 64];
    sealed[..32].copy_from_slice(&digest);
    sealed[32..].copy_from_slice(&hash.finalize());
    sealed
}

/// The digest column of a resource's row.
pub fn seal_row(item: Digest, unique: Option<&str>, origin: Option<&str>) -> Sealed {
    seal(item.0, |hash| {
        part(hash, unique);
        part(hash, origin);
    })
}

/// The item in a digest column, intact or not.
pub fn sealed_item(column: &[u8]) -> Option<Digest> {
    let sealed: &Sealed = column.try_into().ok()?;
    Some(Digest(sealed[..32].try_into().ok()?))
}

/// The column with the total of the resources at `head`.
pub fn seal_total(total: Total, head: Head) -> Sealed {
    seal(total.to_bytes(), |hash| {
        hash.update(head.revision.0.to_be_bytes());
        hash.update(head.digest.0);
    })
}

/// The total in such a column, if the column is intact and belongs to this head.
pub fn open_total(column: &[u8], head: Head) -> Option<Total> {
    let mut total = Total::default();
    total.add(sealed_item(column)?);
    (column == seal_total(total, head)).then_some(total)
}

/// The digest column of a change in the log.
pub fn change_digest(revision: Revision, index: usize, change: &Change, items: Items) -> Digest {
    let mut hash = Sha256::new();
    hash.update(revision.0.to_be_bytes());
    hash.update((index as u64).to_be_bytes());
    part(&mut hash, Some(&change.kind));
    part(&mut hash, Some(&change.id));
    part(&mut hash, change.origin.as_deref());
    for item in [items.before, items.after] {
        hash.update([u8::from(item.is_some())]);
        hash.update(item.unwrap_or_default().0);
    }
    Digest(hash.finalize().into())
}

/// The digest column of a note beside the state.
pub fn note_digest(key: &str, value: &str) -> Digest {
    let mut hash = Sha256::new();
    part(&mut hash, Some(key));
    part(&mut hash, Some(value));
    Digest(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item_of(id: &str, body: &str) -> Digest {
        item("things", id, &Json::from_canonical(body))
    }

    #[test]
    fn a_total_is_the_same_in_any_order_and_tells_one_set_from_another() {
        let (a, b, c) = (item_of("a", "1"), item_of("b", "1"), item_of("a", "2"));
        let total = |items: &[Digest]| {
            let mut total = Total::default();
            total.extend(items.iter().copied());
            total
        };
        assert_eq!(total(&[a, b, c]), total(&[c, a, b]));
        for other in [&[a, b][..], &[a, b, b], &[a, c, c], &[]] {
            assert_ne!(total(&[a, b, c]), total(other));
        }
        let mut changed = total(&[a, b]);
        changed.apply(Items {
            before: Some(a),
            after: Some(c),
        });
        assert_eq!(changed, total(&[b, c]));
    }

    #[test]
    fn a_total_counts_only_at_its_own_head_and_unchanged() {
        let mut total = Total::default();
        total.add(item_of("a", "1"));
        let head = Head {
            revision: Revision(7),
            digest: item_of("x", ""),
        };
        let column = seal_total(total, head);
        assert_eq!(open_total(&column, head), Some(total));
        assert_eq!(open_total(&column, Head::default()), None);
        assert_eq!(open_total(&column[..32], head), None);
        for place in 0..64 {
            let mut flipped = column;
            flipped[place] ^= 4;
            assert_eq!(open_total(&flipped, head), None, "{place}");
        }
    }
}
