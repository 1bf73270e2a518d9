//! Values as a Go template sees them: an interface with a dynamic type.
//!
//! The type matters as much as the value. A literal is an `int`, an input an `int64`; `list 1 2` is a `[]interface {}`,
//! `splitList` gives a `[]string`; functions accept and refuse by it, `%T`, `typeOf` and `kindOf` print it.
//!
//! Lists and maps are shared, as in Go: `set` and `unset` are seen by everyone who holds the map, and `sortAlpha` sorts a
//! `[]string` where it lies. A template can so put a map into itself; [`Scope`] sees to it that such knots are freed.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt,
    rc::{Rc, Weak},
};

use crate::time::{Location, Time};

/// A Go string: bytes that are usually, not always, UTF-8 (`trunc` and `substr` cut anywhere).
pub(crate) type Str = Rc<[u8]>;

#[derive(Clone)]
pub(crate) enum Value {
    /// The nil interface.
    Nil,
    Bool(bool),
    /// Every integer type, named ones among them. Always within the range of its type.
    Int(IntType, i64),
    Float(f64),
    Complex(f64, f64),
    Str(Str),
    List(List),
    Map(Map),
    /// A `time.Time`.
    Time(Rc<Time>),
    /// A `*time.Location`, never nil: what a time's `Location` method gives.
    Location(Location),
}

/// The integer types that a template can come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntType {
    Int,
    Int64,
    /// A byte of a string or `[]byte`, got by `index`.
    Uint8,
    /// `time.Duration`, an int64.
    Duration,
    /// `time.Month`, an int.
    Month,
    /// `time.Weekday`, an int.
    Weekday,
}

/// The element type of a list or map, as far as the function set can make them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elem {
    /// `interface {}`.
    Any,
    Str,
    Int,
    /// `[]interface {}`: what `chunk` returns lists of.
    Anys,
    /// `uint8`: a `[]byte`.
    Byte,
}

impl Elem {
    /// The zero of the type.
    fn zero(self) -> Value {
        match self {
            Self::Any => Value::Nil,
            Self::Str => Value::str(""),
            Self::Int => Value::int(0),
            Self::Anys => Value::List(List::nil(Self::Any)),
            Self::Byte => Value::Int(IntType::Uint8, 0),
        }
    }
}

/// A slice: a window on a buffer that other slices may share.
#[derive(Clone)]
pub(crate) struct List {
    elem: Elem,
    /// `None` is the nil slice, which is empty and encodes as `null`.
    window: Option<Window>,
}

#[derive(Clone)]
struct Window {
    buffer: Rc<Buffer>,
    start: usize,
    len: usize,
}

/// The memory behind a slice, up to its capacity.
struct Buffer(RefCell<Vec<Value>>);

/// A map with string keys.
#[derive(Clone)]
pub(crate) struct Map {
    elem: Elem,
    /// `None` is the nil map, which is empty and refuses writes.
    entries: Option<Rc<Entries>>,
}

struct Entries(RefCell<BTreeMap<Str, Value>>);

impl Value {
    pub(crate) fn str(text: impl AsRef<[u8]>) -> Self {
        Self::Str(Rc::from(text.as_ref()))
    }

    pub(crate) const fn int(number: i64) -> Self {
        Self::Int(IntType::Int, number)
    }

    pub(crate) const fn int64(number: i64) -> Self {
        Self::Int(IntType::Int64, number)
    }

    /// A `[]interface {}`.
    pub(crate) fn list(items: Vec<Value>) -> Self {
        Self::List(List::new(Elem::Any, items))
    }

    /// A `[]string`.
    pub(crate) fn strings<S: AsRef<[u8]>>(items: impl IntoIterator<Item = S>) -> Self {
        Self::List(List::new(Elem::Str, items.into_iter().map(Value::str).collect()))
    }

    /// A `[]interface {}` that Go makes by appending item by item, such as the lists of the inputs.
    pub(crate) fn appended(items: Vec<Value>) -> Self {
        Self::List(List::appended(Elem::Any, items))
    }

    /// A `map[string]interface {}`.
    pub(crate) fn map(entries: BTreeMap<Str, Value>) -> Self {
        Self::Map(Map::new(Elem::Any, entries))
    }

    /// About how many bytes the value takes by itself, without what it refers to. For budgets.
    pub(crate) fn weight(&self) -> usize {
        let held = match self {
            Self::Str(text) => text.len(),
            Self::List(list) => list.len() * size_of::<Self>(),
            Self::Map(map) => map.len() * 2 * size_of::<Self>(),
            _ => 0,
        };
        held + size_of::<Self>()
    }
}

impl List {
    pub(crate) fn new(elem: Elem, items: Vec<Value>) -> Self {
        let len = items.len();
        Self {
            elem,
            window: Some(Window {
                buffer: Rc::new(Buffer(RefCell::new(items))),
                start: 0,
                len,
            }),
        }
    }

    /// A slice with room for more items than it has. `slice` can reach into that room, where the zeros of the type lie.
    pub(crate) fn with_capacity(elem: Elem, mut items: Vec<Value>, capacity: usize) -> Self {
        let len = items.len();
        items.resize(capacity.max(len), elem.zero());
        let mut list = Self::new(elem, items);
        if let Some(window) = &mut list.window {
            window.len = len;
        }
        list
    }

    /// A slice that Go makes by appending item by item: the room doubles whenever it is used up. Beyond 32 items it
    /// depends on how Go's allocator rounds, which is not followed here.
    pub(crate) fn appended(elem: Elem, items: Vec<Value>) -> Self {
        let capacity = if (1..=32).contains(&items.len()) {
            items.len().next_power_of_two()
        } else {
            0
        };
        Self::with_capacity(elem, items, capacity)
    }

    /// The nil slice.
    pub(crate) const fn nil(elem: Elem) -> Self {
        Self { elem, window: None }
    }

    pub(crate) const fn elem(&self) -> Elem {
        self.elem
    }

    pub(crate) const fn is_nil(&self) -> bool {
        self.window.is_none()
    }

    pub(crate) fn len(&self) -> usize {
        self.window.as_ref().map_or(0, |window| window.len)
    }

    pub(crate) fn get(&self, index: usize) -> Option<Value> {
        let window = self.window.as_ref().filter(|window| index < window.len)?;
        window.buffer.0.borrow().get(window.start + index).cloned()
    }

    /// The items as they are now.
    pub(crate) fn to_vec(&self) -> Vec<Value> {
        self.window.as_ref().map_or_else(Vec::new, |window| {
            window
                .buffer
                .0
                .borrow()
                .get(window.start..window.start + window.len)
                .unwrap_or_default()
                .to_vec()
        })
    }

    /// The bytes of a `[]byte`.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let byte = |item| {
            if let Value::Int(_, byte) = item {
                u8::try_from(byte).unwrap_or_default()
            } else {
                0
            }
        };
        self.to_vec().into_iter().map(byte).collect()
    }

    /// `list[start:end]`, on the same memory. `None` where Go panics.
    pub(crate) fn slice(&self, start: usize, end: usize) -> Option<Self> {
        let Some(window) = &self.window else {
            return (start == 0 && end == 0).then(|| self.clone());
        };
        let capacity = window.buffer.0.borrow().len() - window.start;
        (start <= end && end <= capacity).then(|| Self {
            elem: self.elem,
            window: Some(Window {
                buffer: window.buffer.clone(),
                start: window.start + start,
                len: end - start,
            }),
        })
    }

    /// Writes the items over those that are there, for all who share the memory.
    pub(crate) fn overwrite(&self, items: Vec<Value>) {
        if let Some(window) = &self.window {
            let mut buffer = window.buffer.0.borrow_mut();
            for (old, new) in buffer.iter_mut().skip(window.start).take(window.len).zip(items) {
                *old = new;
            }
        }
    }

    /// The same memory and length, as Go's shortcut for equality asks.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.address() == other.address() && self.len() == other.len()
    }

    /// Tells apart windows on memory. Zero for nil.
    pub(crate) fn address(&self) -> (usize, usize) {
        self.window
            .as_ref()
            .map_or((0, 0), |window| (Rc::as_ptr(&window.buffer).addr(), window.start))
    }
}

impl Map {
    pub(crate) fn new(elem: Elem, entries: BTreeMap<Str, Value>) -> Self {
        Self {
            elem,
            entries: Some(Rc::new(Entries(RefCell::new(entries)))),
        }
    }

    /// The nil map.
    pub(crate) const fn nil(elem: Elem) -> Self {
        Self { elem, entries: None }
    }

    pub(crate) const fn elem(&self) -> Elem {
        self.elem
    }

    pub(crate) const fn is_nil(&self) -> bool {
        self.entries.is_none()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.as_ref().map_or(0, |entries| entries.0.borrow().len())
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Value> {
        self.entries.as_ref()?.0.borrow().get(key).cloned()
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.entries
            .as_ref()
            .is_some_and(|entries| entries.0.borrow().contains_key(key))
    }

    /// The entries as they are now, in the order of the keys' bytes.
    pub(crate) fn to_vec(&self) -> Vec<(Str, Value)> {
        self.entries.as_ref().map_or_else(Vec::new, |entries| {
            entries
                .0
                .borrow()
                .iter()
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        })
    }

    /// Writes an entry. False for the nil map, where Go panics.
    #[must_use]
    pub(crate) fn insert(&self, key: Str, value: Value) -> bool {
        let Some(entries) = &self.entries else { return false };
        if matches!(value, Value::List(_) | Value::Map(_)) {
            Scope::watch(entries);
        }
        // The old value is dropped after the borrow has ended.
        let old = entries.0.borrow_mut().insert(key, value);
        drop(old);
        true
    }

    pub(crate) fn remove(&self, key: &[u8]) {
        let old = self
            .entries
            .as_ref()
            .and_then(|entries| entries.0.borrow_mut().remove(key));
        drop(old);
    }

    /// Tells apart maps. Zero for nil.
    pub(crate) fn address(&self) -> usize {
        self.entries.as_ref().map_or(0, |entries| Rc::as_ptr(entries).addr())
    }
}

/// Dropped without recursion: a template can nest lists deeper than the stack.
impl Drop for Buffer {
    fn drop(&mut self) {
        unravel(self.0.take());
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        unravel(self.0.take().into_values().collect());
    }
}

fn unravel(mut pile: Vec<Value>) {
    while let Some(value) = pile.pop() {
        match value {
            Value::List(List {
                window: Some(window), ..
            }) => {
                if let Some(buffer) = Rc::into_inner(window.buffer) {
                    pile.append(&mut buffer.0.take());
                }
            }
            Value::Map(Map {
                entries: Some(entries), ..
            }) => {
                if let Some(entries) = Rc::into_inner(entries) {
                    pile.extend(entries.0.take().into_values());
                }
            }
            _ => {}
        }
    }
}

thread_local! {
    static WATCHED: RefCell<Option<Vec<Weak<Entries>>>> = const { RefCell::new(None) };
}

/// Lasts as long as the values of a rendering are in use. When it ends it empties the maps that could hold themselves
/// and are still there, which reference counts alone would never free.
#[derive(Debug)]
pub(crate) struct Scope {
    outermost: bool,
}

impl Scope {
    pub(crate) fn enter() -> Self {
        WATCHED.with_borrow_mut(|watched| {
            let outermost = watched.is_none();
            watched.get_or_insert_default();
            Self { outermost }
        })
    }

    fn watch(entries: &Rc<Entries>) {
        WATCHED.with_borrow_mut(|watched| {
            if let Some(watched) = watched {
                let known = watched.last().is_some_and(|last| last.as_ptr() == Rc::as_ptr(entries));
                if !known {
                    watched.push(Rc::downgrade(entries));
                }
            }
        });
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        if self.outermost {
            let watched = WATCHED.take().unwrap_or_default();
            for entries in watched.iter().filter_map(Weak::upgrade) {
                let held = entries.0.take();
                drop(held);
            }
        }
    }
}

/// Shallow, since a template can put a map into itself.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("Nil"),
            Self::Bool(value) => write!(f, "Bool({value})"),
            Self::Int(kind, value) => write!(f, "{kind:?}({value})"),
            Self::Float(value) => write!(f, "Float({value})"),
            Self::Complex(re, im) => write!(f, "Complex({re}, {im})"),
            Self::Str(text) => write!(f, "Str({:?})", String::from_utf8_lossy(text)),
            Self::List(list) => write!(f, "List({:?}, {})", list.elem, list.len()),
            Self::Map(map) => write!(f, "Map({:?}, {})", map.elem, map.len()),
            Self::Time(time) => write!(f, "Time({time:?})"),
            Self::Location(location) => write!(f, "Location({location:?})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(list: &List) -> Vec<i64> {
        list.to_vec()
            .iter()
            .map(|item| if let Value::Int(_, number) = item { *number } else { -1 })
            .collect()
    }

    #[test]
    fn slices_share_their_memory() {
        let list = List::new(Elem::Int, (1..=4).map(Value::int).collect());
        let middle = list.slice(1, 3).expect("within bounds");
        middle.overwrite(vec![Value::int(9), Value::int(8)]);
        assert_eq!(numbers(&list), [1, 9, 8, 4]);
        assert!(list.slice(3, 5).is_none());
        assert!(list.slice(3, 2).is_none());
    }

    #[test]
    fn appended_lists_have_room_that_a_slice_can_reach() {
        let list = List::appended(Elem::Int, (1..=3).map(Value::int).collect());
        assert_eq!(list.len(), 3);
        assert_eq!(numbers(&list.slice(0, 4).expect("Go doubled the room")), [1, 2, 3, 0]);
        assert!(list.slice(0, 5).is_none());
    }

    #[test]
    fn deep_nesting_is_dropped_without_recursion() {
        let mut value = Value::Nil;
        for level in 0..200_000 {
            value = if level % 2 == 0 {
                Value::list(vec![value])
            } else {
                Value::map([(Str::from([]), value)].into())
            };
        }
        drop(value);
    }

    #[test]
    fn a_scope_frees_maps_that_hold_themselves() {
        let scope = Scope::enter();
        let map = Map::new(Elem::Any, BTreeMap::new());
        assert!(map.insert(Str::from(*b"self"), Value::Map(map.clone())));
        let weak = Rc::downgrade(map.entries.as_ref().expect("not nil"));
        drop(map);
        assert!(weak.upgrade().is_some());
        drop(scope);
        assert!(weak.upgrade().is_none());
    }

    #[test]
    fn the_nil_map_is_empty_and_refuses_writes() {
        let map = Map::nil(Elem::Any);
        assert!(!map.insert(Str::from(*b"a"), Value::Nil));
        map.remove(b"a");
        assert_eq!((map.len(), map.contains(b"a")), (0, false));
    }
}
