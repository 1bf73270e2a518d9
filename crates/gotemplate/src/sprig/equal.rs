//! `reflect.DeepEqual`.

use std::collections::HashSet;

use crate::{
    fmt::type_name,
    function::{Failure, MAX_DEPTH},
    value::{List, Map, Value},
};

/// How many values one call may compare.
const MAX_STEPS: usize = 20_000_000;
/// How many pairs of lists and maps one call may remember.
const MAX_SEEN: usize = 1_000_000;

/// Compares values, with a limit on the work of all comparisons together.
#[derive(Default)]
pub(super) struct Comparison {
    steps: usize,
    /// Pairs of lists or maps that were visited. They end cycles, and shared parts are compared once.
    seen: HashSet<[usize; 6]>,
}

impl Comparison {
    /// Whether the value is equal to an item of the list.
    pub(super) fn any(&mut self, value: &Value, list: &[Value]) -> Result<bool, Failure> {
        for item in list {
            if self.equal(value, item)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether two values are equal, including their types.
    pub(super) fn equal(&mut self, a: &Value, b: &Value) -> Result<bool, Failure> {
        self.seen.clear();
        self.compare(a, b, 0)
    }

    fn compare(&mut self, a: &Value, b: &Value, depth: usize) -> Result<bool, Failure> {
        // Long strings count as several values.
        self.steps += 1 + if let Value::Str(text) = a { text.len() / 64 } else { 0 };
        if self.steps > MAX_STEPS || self.seen.len() > MAX_SEEN {
            return Err(Failure::Limit("too many values to compare".to_owned()));
        }
        if depth > MAX_DEPTH {
            return Err(Failure::depth());
        }
        Ok(match (a, b) {
            (Value::Nil, Value::Nil) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a_type, a), Value::Int(b_type, b)) => a_type == b_type && a == b,
            (Value::Float(a), Value::Float(b)) => a == b,
            (Value::Complex(a, ai), Value::Complex(b, bi)) => a == b && ai == bi,
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::Time(a), Value::Time(b)) => a == b,
            (Value::Location(a), Value::Location(b)) => a == b,
            _ if type_name(a) != type_name(b) => false,
            (Value::List(a), Value::List(b)) => self.lists(a, b, depth)?,
            (Value::Map(a), Value::Map(b)) => self.maps(a, b, depth)?,
            _ => false,
        })
    }

    fn lists(&mut self, a: &List, b: &List, depth: usize) -> Result<bool, Failure> {
        if a.is_nil() != b.is_nil() || a.len() != b.len() {
            return Ok(false);
        }
        let ((a_buffer, a_start), (b_buffer, b_start)) = (a.address(), b.address());
        if a.is(b) || !self.seen.insert([a_buffer, a_start, a.len(), b_buffer, b_start, 0]) {
            return Ok(true);
        }
        for (a, b) in a.to_vec().iter().zip(&b.to_vec()) {
            if !self.compare(a, b, depth + 1)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn maps(&mut self, a: &Map, b: &Map, depth: usize) -> Result<bool, Failure> {
        if a.is_nil() != b.is_nil() || a.len() != b.len() {
            return Ok(false);
        }
        if a.address() == b.address() || !self.seen.insert([a.address(), b.address(), 0, 0, 0, 1]) {
            return Ok(true);
        }
        for ((a_key, a), (b_key, b)) in a.to_vec().iter().zip(&b.to_vec()) {
            if a_key != b_key || !self.compare(a, b, depth + 1)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
