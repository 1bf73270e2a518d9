//! Go's slices.

use std::{cell::RefCell, fmt, rc::Rc};

use super::{Elem, Value, unravel::unravel};

/// A slice: a window on a buffer that other slices may share.
#[derive(Clone)]
pub struct List {
    elem: Elem,
    /// `None` is the nil slice, which is empty and encodes as `null`.
    window: Option<Window>,
}

#[derive(Clone)]
struct Window {
    buffer: Rc<Buffer>,
    start: usize,
    len: usize,
    /// How far a slice of it may reach.
    capacity: usize,
}

/// The memory behind a slice, up to its capacity.
struct Buffer(RefCell<Vec<Value>>);

impl List {
    /// A slice of the items, with no spare capacity.
    #[must_use]
    pub fn new(elem: Elem, items: Vec<Value>) -> Self {
        let len = items.len();
        Self {
            elem,
            window: Some(Window {
                buffer: Rc::new(Buffer(RefCell::new(items))),
                start: 0,
                len,
                capacity: len,
            }),
        }
    }

    /// The nil slice.
    #[must_use]
    pub const fn nil(elem: Elem) -> Self {
        Self { elem, window: None }
    }

    /// The element type.
    #[must_use]
    pub const fn elem(&self) -> Elem {
        self.elem
    }

    /// Whether this is the nil slice.
    #[must_use]
    pub const fn is_nil(&self) -> bool {
        self.window.is_none()
    }

    /// Whether there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.window.as_ref().map_or(0, |window| window.len)
    }

    /// The item at an index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Value> {
        let window = self.window.as_ref().filter(|window| index < window.len)?;
        window.buffer.0.borrow().get(window.start + index).cloned()
    }

    /// A copy of the items.
    #[must_use]
    pub fn to_vec(&self) -> Vec<Value> {
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

    /// A slice with spare capacity. A template can reach into it with `slice`; it holds zero values.
    pub(crate) fn with_capacity(elem: Elem, mut items: Vec<Value>, capacity: usize) -> Self {
        let len = items.len();
        items.resize(capacity.max(len), elem.zero());
        let mut list = Self::new(elem, items);
        if let Some(window) = &mut list.window {
            window.len = len;
        }
        list
    }

    /// A slice that Go builds with `append`, one item at a time: the capacity doubles whenever it is used up. Beyond 32
    /// items the capacity depends on the size classes of Go's allocator, which are not reproduced here.
    pub(crate) fn appended(elem: Elem, items: Vec<Value>) -> Self {
        let capacity = if (1..=32).contains(&items.len()) {
            items.len().next_power_of_two()
        } else {
            0
        };
        Self::with_capacity(elem, items, capacity)
    }

    /// How far a slice of the list may reach: Go's `cap`.
    pub(crate) fn capacity(&self) -> usize {
        self.window.as_ref().map_or(0, |window| window.capacity)
    }

    /// `list[start:end]`, on the same memory. `None` where Go panics.
    pub(crate) fn slice(&self, start: usize, end: usize) -> Option<Self> {
        self.slice3(start, end, self.capacity())
    }

    /// `list[start:end:max]`, on the same memory. `None` where Go panics.
    pub(crate) fn slice3(&self, start: usize, end: usize, max: usize) -> Option<Self> {
        if start > end || end > max || max > self.capacity() {
            return None;
        }
        let window = self.window.as_ref().map(|window| Window {
            buffer: window.buffer.clone(),
            start: window.start + start,
            len: end - start,
            capacity: max - start,
        });
        Some(Self {
            elem: self.elem,
            window,
        })
    }

    /// Replaces the items in place; every slice of the same memory sees the new ones.
    pub(crate) fn overwrite(&self, items: Vec<Value>) {
        if let Some(window) = &self.window {
            let mut buffer = window.buffer.0.borrow_mut();
            for (old, new) in buffer.iter_mut().skip(window.start).take(window.len).zip(items) {
                *old = new;
            }
        }
    }

    /// Whether two slices have the same memory and length. Go's `DeepEqual` looks no further then.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.address() == other.address() && self.len() == other.len()
    }

    /// Identifies the memory that the slice starts at. Zero for nil.
    pub(crate) fn address(&self) -> (usize, usize) {
        self.window
            .as_ref()
            .map_or((0, 0), |window| (Rc::as_ptr(&window.buffer).addr(), window.start))
    }

    /// The items, if no other slice shares the memory.
    pub(super) fn into_unshared(self) -> Option<Vec<Value>> {
        Rc::into_inner(self.window?.buffer).map(|buffer| buffer.0.take())
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "List({:?}, {})", self.elem, self.len())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        unravel(self.0.take());
    }
}
