//! Go's maps with string keys.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt,
    rc::{Rc, Weak},
};

use super::{Elem, Scope, Str, Value, unravel::unravel};

/// A map with string keys. Clones share their entries, as in Go.
#[derive(Clone)]
pub struct Map {
    elem: Elem,
    /// `None` is the nil map, which is empty and refuses writes.
    entries: Option<Rc<Entries>>,
}

struct Entries(RefCell<BTreeMap<Str, Value>>);

impl Map {
    /// A map of the entries.
    #[must_use]
    pub fn new(elem: Elem, entries: BTreeMap<Str, Value>) -> Self {
        Self {
            elem,
            entries: Some(Rc::new(Entries(RefCell::new(entries)))),
        }
    }

    /// The nil map.
    #[must_use]
    pub const fn nil(elem: Elem) -> Self {
        Self { elem, entries: None }
    }

    /// The type of the values.
    #[must_use]
    pub const fn elem(&self) -> Elem {
        self.elem
    }

    /// Whether this is the nil map.
    #[must_use]
    pub const fn is_nil(&self) -> bool {
        self.entries.is_none()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.as_ref().map_or(0, |entries| entries.0.borrow().len())
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<Value> {
        self.entries.as_ref()?.0.borrow().get(key).cloned()
    }

    /// Whether there is an entry for the key.
    #[must_use]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.entries
            .as_ref()
            .is_some_and(|entries| entries.0.borrow().contains_key(key))
    }

    /// A copy of the entries, sorted by the bytes of their keys.
    #[must_use]
    pub fn to_vec(&self) -> Vec<(Str, Value)> {
        self.entries.as_ref().map_or_else(Vec::new, |entries| {
            entries
                .0
                .borrow()
                .iter()
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        })
    }

    /// Writes an entry. Returns false for the nil map, where Go panics.
    #[must_use]
    pub fn insert(&self, key: Str, value: Value) -> bool {
        let Some(entries) = &self.entries else { return false };
        if matches!(value, Value::List(_) | Value::Map(_)) {
            Scope::watch(self);
        }
        // The old value is dropped after the borrow has ended.
        let old = entries.0.borrow_mut().insert(key, value);
        drop(old);
        true
    }

    /// Removes an entry, if it is there.
    pub fn remove(&self, key: &[u8]) {
        let old = self
            .entries
            .as_ref()
            .and_then(|entries| entries.0.borrow_mut().remove(key));
        drop(old);
    }

    /// Identifies the map in memory. Zero for nil.
    pub(crate) fn address(&self) -> usize {
        self.entries.as_ref().map_or(0, |entries| Rc::as_ptr(entries).addr())
    }

    /// A reference that does not keep the map alive. `None` for nil.
    pub(super) fn downgrade(&self) -> Option<WeakMap> {
        self.entries.as_ref().map(|entries| WeakMap(Rc::downgrade(entries)))
    }

    /// The values, if nothing else refers to the map.
    pub(super) fn into_unshared(self) -> Option<Vec<Value>> {
        Rc::into_inner(self.entries?).map(|entries| entries.0.take().into_values().collect())
    }
}

/// A reference to a map that does not keep it alive.
pub(super) struct WeakMap(Weak<Entries>);

impl WeakMap {
    pub(super) fn is(&self, map: &Map) -> bool {
        map.entries
            .as_ref()
            .is_some_and(|entries| self.0.as_ptr() == Rc::as_ptr(entries))
    }

    /// Removes all entries, if the map still exists.
    pub(super) fn clear(&self) {
        let entries = self.0.upgrade().map(|entries| entries.0.take());
        drop(entries);
    }

    #[cfg(test)]
    pub(super) fn exists(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Map({:?}, {})", self.elem, self.len())
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        unravel(self.0.take().into_values().collect());
    }
}
