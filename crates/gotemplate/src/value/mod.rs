//! Values as a Go template sees them: an `interface {}` with its dynamic type.
//!
//! The type matters as much as the value. A literal in a template is an `int`, a number from JSON an `int64`; `list 1 2` is
//! a `[]interface {}`, `splitList` returns a `[]string`. Functions accept or refuse arguments by type; `%T`, `typeOf` and
//! `kindOf` print it.
//!
//! Lists and maps are shared, as in Go: a change made by `set` or `unset` is visible to every holder of the map, and
//! `sortAlpha` sorts a `[]string` in place. A template can therefore put a map into itself; [`Scope`] frees such cycles.

mod convert;
mod elem;
mod list;
mod map;
mod scope;
#[cfg(test)]
mod tests;
mod unravel;

use std::{fmt, rc::Rc};

pub use self::{elem::Elem, list::List, map::Map, scope::Scope};
use crate::time::{Location, Time};

/// A Go string: bytes that are usually, but not always, UTF-8 (`trunc` and `substr` cut anywhere).
pub type Str = Rc<[u8]>;

/// A Go value with its dynamic type.
///
/// ```
/// use gotemplate::Value;
///
/// let name = Value::str("web");
/// let ports = Value::list(vec![Value::int(80), Value::int(443)]);
/// let service = Value::map([("name", name), ("ports", ports)]);
/// assert_eq!(gotemplate::fmt::sprintf(b"%v", &[service]).unwrap(), b"map[name:web ports:[80 443]]");
///
/// let json = serde_json::json!({"replicas": 3});
/// let value = Value::from(&json);
/// assert_eq!(gotemplate::fmt::sprintf(b"%T", &[value]).unwrap(), b"map[string]interface {}");
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum Value {
    /// The nil interface.
    Nil,
    /// A `bool`.
    Bool(bool),
    /// Every integer type, including named ones such as `time.Month`. The number is in the range of its type.
    Int(IntType, i64),
    /// A `float64`.
    Float(f64),
    /// A `complex128`: the real and the imaginary part.
    Complex(f64, f64),
    /// A `string`.
    Str(Str),
    /// A slice.
    List(List),
    /// A map with string keys.
    Map(Map),
    /// A `time.Time`.
    Time(Rc<Time>),
    /// A `*time.Location` that is not nil.
    Location(Location),
}

/// The integer types that a template can meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IntType {
    /// `int`: literals in templates.
    Int,
    /// `int64`.
    Int64,
    /// `uint8`: a byte of a string or `[]byte`, as `index` returns it.
    Uint8,
    /// `time.Duration`, an `int64`.
    Duration,
    /// `time.Month`, an `int`.
    Month,
    /// `time.Weekday`, an `int`.
    Weekday,
}

impl Value {
    /// A `string`.
    pub fn str(text: impl AsRef<[u8]>) -> Self {
        Self::Str(Rc::from(text.as_ref()))
    }

    /// An `int`.
    #[must_use]
    pub const fn int(number: i64) -> Self {
        Self::Int(IntType::Int, number)
    }

    /// An `int64`.
    #[must_use]
    pub const fn int64(number: i64) -> Self {
        Self::Int(IntType::Int64, number)
    }

    /// A `[]interface {}`.
    #[must_use]
    pub fn list(items: Vec<Value>) -> Self {
        Self::List(List::new(Elem::Any, items))
    }

    /// A `[]string`.
    pub fn strings<S: AsRef<[u8]>>(items: impl IntoIterator<Item = S>) -> Self {
        Self::List(List::new(Elem::Str, items.into_iter().map(Value::str).collect()))
    }

    /// A `[]interface {}` with the capacity that it has in Go when it was built with `append`, one item at a time.
    #[must_use]
    pub fn appended(items: Vec<Value>) -> Self {
        Self::List(List::appended(Elem::Any, items))
    }

    /// A `map[string]interface {}`. Of two entries with the same key the last one counts.
    pub fn map<K: AsRef<[u8]>>(entries: impl IntoIterator<Item = (K, Value)>) -> Self {
        let entries = entries.into_iter();
        Self::Map(Map::new(
            Elem::Any,
            entries.map(|(key, value)| (Str::from(key.as_ref()), value)).collect(),
        ))
    }

    /// Roughly how many bytes the value takes, without the values that it refers to. Used for memory limits.
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

/// Prints one level only, because a template can put a map into itself.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("Nil"),
            Self::Bool(value) => write!(f, "Bool({value})"),
            Self::Int(kind, value) => write!(f, "{kind:?}({value})"),
            Self::Float(value) => write!(f, "Float({value})"),
            Self::Complex(re, im) => write!(f, "Complex({re}, {im})"),
            Self::Str(text) => write!(f, "Str({:?})", String::from_utf8_lossy(text)),
            Self::List(list) => list.fmt(f),
            Self::Map(map) => map.fmt(f),
            Self::Time(time) => write!(f, "Time({time:?})"),
            Self::Location(location) => write!(f, "Location({location:?})"),
        }
    }
}
