//! Access to arguments, and limits on results.

use super::{Failure, MAX_BYTES, MAX_ITEMS};
use crate::{
    time::Time,
    value::{Map, Value},
};

/// Arguments by index. Their types were checked against the signature before the call.
pub trait Args {
    /// An argument of any type; nil if there is none.
    fn any(&self, index: usize) -> &Value;
    /// A `string`.
    fn text(&self, index: usize) -> Result<&[u8], Failure>;
    /// An integer.
    fn int(&self, index: usize) -> Result<i64, Failure>;
    /// A `bool`.
    fn bool(&self, index: usize) -> Result<bool, Failure>;
    /// A `map[string]interface {}`.
    fn dict(&self, index: usize) -> Result<&Map, Failure>;
    /// A `time.Time`.
    fn time(&self, index: usize) -> Result<&Time, Failure>;
    /// The arguments from an index on.
    fn rest(&self, from: usize) -> &[Value];
}

impl Args for [Value] {
    fn any(&self, index: usize) -> &Value {
        self.get(index).unwrap_or(&Value::Nil)
    }

    fn text(&self, index: usize) -> Result<&[u8], Failure> {
        match self.any(index) {
            Value::Str(text) => Ok(text),
            _ => Err(Failure::mismatch(index)),
        }
    }

    fn int(&self, index: usize) -> Result<i64, Failure> {
        match self.any(index) {
            Value::Int(_, number) => Ok(*number),
            _ => Err(Failure::mismatch(index)),
        }
    }

    fn bool(&self, index: usize) -> Result<bool, Failure> {
        match self.any(index) {
            Value::Bool(value) => Ok(*value),
            _ => Err(Failure::mismatch(index)),
        }
    }

    fn dict(&self, index: usize) -> Result<&Map, Failure> {
        match self.any(index) {
            Value::Map(map) => Ok(map),
            _ => Err(Failure::mismatch(index)),
        }
    }

    fn time(&self, index: usize) -> Result<&Time, Failure> {
        match self.any(index) {
            Value::Time(time) => Ok(time),
            _ => Err(Failure::mismatch(index)),
        }
    }

    fn rest(&self, from: usize) -> &[Value] {
        self.get(from..).unwrap_or_default()
    }
}

/// Fails if a string of that many bytes is too long.
pub(crate) fn size_limit(bytes: usize) -> Result<(), Failure> {
    if bytes > MAX_BYTES {
        Err(Failure::size())
    } else {
        Ok(())
    }
}

/// Fails if a list of that many items is too long.
pub(crate) fn item_limit(items: usize) -> Result<(), Failure> {
    if items > MAX_ITEMS {
        Err(Failure::size())
    } else {
        Ok(())
    }
}
