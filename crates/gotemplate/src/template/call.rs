//! Calls: finds functions, and checks and converts arguments by the declared types.

use std::rc::Rc;

use super::{
    Error,
    ast::{Place, Term, TermKind},
    builtins,
    exec::Exec,
    number::{Number, looks_like_float},
    slot::Slot,
};
use crate::{
    fmt,
    function::{Body, Entry, Failure, Function, Functions, Param},
    value::{Elem, IntType, List, Map, Value},
};

/// How many bytes of arguments count as one step.
const BYTES_PER_STEP: usize = 4 << 10;

/// A function: its signature and what it does.
#[derive(Clone, Debug)]
pub(super) struct Callee {
    params: &'static [Param],
    rest: Option<Param>,
    /// Why a template cannot call it.
    uncallable: Option<&'static str>,
    act: Act,
}

#[derive(Clone, Debug)]
pub(super) enum Act {
    /// A function whose result is supplied with the execution.
    Supplied,
    /// `and` and `or`, which stop at the first argument whose truth is `at`.
    ShortCircuit {
        at: bool,
    },
    /// The built-in `call`, whose error quotes its first argument.
    Call,
    /// Built-ins that distinguish whether a value is in an interface.
    Unary(fn(&Slot) -> Result<Value, Failure>),
    Binary(fn(&Slot, &Slot) -> Result<Value, Failure>),
    Variadic(fn(&Slot, &[Slot]) -> Result<Slot, Failure>),
    /// Any other function. `boxed`: its declared result is an interface. That matters only where it is called without
    /// arguments and without a pipeline of its own.
    Values {
        body: Body,
        boxed: bool,
    },
}

impl Callee {
    pub(super) const fn new(params: &'static [Param], rest: Option<Param>, act: Act) -> Self {
        Self {
            params,
            rest,
            uncallable: None,
            act,
        }
    }

    /// The function of a name. A function of the options replaces a built-in one.
    pub(super) fn find(name: &str, functions: &Functions) -> Option<Self> {
        match functions.entry(name) {
            Some(Entry::Function(function)) => Some(Self::from_function(function)),
            Some(Entry::Supplied) => Some(Self::new(&[], None, Act::Supplied)),
            None => builtins::lookup(name),
        }
    }

    pub(super) fn from_function(function: &Function) -> Self {
        Self {
            params: function.params,
            rest: function.rest,
            uncallable: function.uncallable,
            act: Act::Values {
                body: function.body.clone(),
                boxed: function.returns_any,
            },
        }
    }

    fn param(&self, index: usize) -> Option<Param> {
        self.params.get(index).copied().or(self.rest)
    }
}

/// A call in the text.
#[derive(Clone, Copy)]
pub(super) struct Call<'t> {
    /// Where an error of the function is reported.
    pub(super) place: &'t dyn Place,
    pub(super) name: &'t str,
    pub(super) args: &'t [Term],
}

impl<'t> Exec<'t> {
    /// Evaluates the arguments and calls. A piped value is the last argument; a method gets its receiver first.
    pub(super) fn call(
        &mut self,
        dot: &Slot,
        callee: &Callee,
        receiver: Option<Value>,
        call: Call<'t>,
        piped: Option<Slot>,
    ) -> Result<Slot, Error> {
        self.check_count(callee, call, piped.is_some())?;
        if let Some(reason) = callee.uncallable {
            return self.fail(reason);
        }
        if let Act::ShortCircuit { at } = callee.act {
            let mut last = Slot::none();
            for arg in call.args {
                last = self.argument(dot, Some(Param::Reflect), arg)?;
                if last.is_true() == at {
                    return Ok(last);
                }
            }
            return Ok(piped.unwrap_or(last));
        }
        let mut slots = Vec::with_capacity(call.args.len() + 2);
        slots.extend(receiver.map(Slot::bare));
        for (index, arg) in call.args.iter().enumerate() {
            slots.push(self.argument(dot, callee.param(index), arg)?);
        }
        if let Some(piped) = piped {
            slots.push(self.fit(piped, callee.param(call.args.len()))?);
        }
        self.spend_steps(slots.iter().map(|slot| slot.value().weight()).sum::<usize>() / BYTES_PER_STEP)?;
        let result = match (&callee.act, slots.as_slice()) {
            (Act::Unary(body), [arg]) => body(arg).map(Slot::bare),
            (Act::Binary(body), [left, right]) => body(left, right).map(Slot::bare),
            (Act::Variadic(body), [first, rest @ ..]) => body(first, rest),
            (Act::Call, [callee, ..]) => Err(builtins::call(callee, call.args.first())),
            (Act::Values { body, boxed }, _) => {
                let values: Vec<Value> = slots.into_iter().map(Slot::into_value).collect();
                let result = body.call(&values);
                if let Ok(value) = &result
                    && !values.iter().any(|arg| is_same(arg, value))
                {
                    self.spend_bytes(value.weight())?;
                }
                result.map(if *boxed { Slot::boxed } else { Slot::bare })
            }
            (Act::Supplied, _) => match self.supplied(call.name) {
                Some(value) => Ok(Slot::boxed(value.clone())),
                None => Err(Failure::Error("no result was supplied".to_owned())),
            },
            // Not reached: the number of arguments was checked.
            _ => Ok(Slot::none()),
        };
        match result {
            Ok(slot) => Ok(slot),
            Err(failure) => {
                self.at(call.place);
                self.fail(format!("error calling {}: {}", call.name, failure.text()))
            }
        }
    }

    fn check_count(&self, callee: &Callee, call: Call<'_>, piped: bool) -> Result<(), Error> {
        let want = callee.params.len();
        let given = call.args.len();
        let got = given + usize::from(piped);
        let name = call.name;
        if callee.rest.is_none() && got != want {
            return self.fail(format!("wrong number of args for {name}: want {want} got {got}"));
        }
        if got < want {
            // Like in Go, a piped value is not counted here.
            return self.fail(format!(
                "wrong number of args for {name}: want at least {want} got {given}"
            ));
        }
        Ok(())
    }

    /// Evaluates an argument. There is no type for a term before a field, where any value is allowed.
    pub(super) fn argument(&mut self, dot: &Slot, param: Option<Param>, term: &'t Term) -> Result<Slot, Error> {
        self.at(term);
        let slot = match &term.kind {
            TermKind::Dot => dot.clone(),
            TermKind::Field(fields) => self.fields(dot, dot.clone(), fields, term, &[], None)?,
            TermKind::Variable { name, fields } => self.variable(dot, name, fields, term, &[], None)?,
            TermKind::Pipe(pipe) => self.pipeline(dot, pipe)?,
            TermKind::Function { name, callee } => self.call(
                dot,
                callee,
                None,
                Call {
                    place: term,
                    name,
                    args: &[],
                },
                None,
            )?,
            TermKind::Chain { of, fields } => self.chain(dot, of, fields, term, &[], None)?,
            TermKind::Nil | TermKind::Bool(_) | TermKind::Number { .. } | TermKind::String { .. } => {
                return self.constant_argument(param.unwrap_or(Param::Any), term);
            }
        };
        self.fit(slot, param)
    }

    fn constant_argument(&self, param: Param, term: &Term) -> Result<Slot, Error> {
        let type_name = param.type_name();
        if matches!(term.kind, TermKind::Nil) {
            return match zero(param) {
                Some(slot) => Ok(slot),
                None => self.fail(format!("cannot assign nil to {type_name}")),
            };
        }
        let int = |kind, number: &Number| number.int.map(|int| Value::Int(kind, int));
        let (value, expected) = match (param, &term.kind) {
            (Param::Any | Param::Reflect, _) => return self.constant(term),
            (Param::Bool, TermKind::Bool(value)) => (Some(Value::Bool(*value)), "bool"),
            (Param::Bool, _) => (None, "bool"),
            (Param::Str, TermKind::String { text, .. }) => (Some(Value::str(text)), "string"),
            (Param::Str, _) => (None, "string"),
            (Param::Int, TermKind::Number { number, .. }) => (int(IntType::Int, number), "integer"),
            (Param::Duration, TermKind::Number { number, .. }) => (int(IntType::Duration, number), "integer"),
            (Param::Int | Param::Duration, _) => (None, "integer"),
            (Param::Float64, TermKind::Number { number, .. }) => (number.float.map(Value::Float), "float"),
            (Param::Float64, _) => (None, "float"),
            (Param::Dict | Param::Bytes | Param::Time | Param::Location, _) => {
                return self.fail(format!("can't handle {term} for arg of type {type_name}"));
            }
        };
        match value {
            Some(value) => Ok(Slot::bare(value)),
            None => self.fail(format!("expected {expected}; found {term}")),
        }
    }

    /// A constant where any type is allowed.
    pub(super) fn constant(&self, term: &Term) -> Result<Slot, Error> {
        Ok(Slot::bare(match &term.kind {
            TermKind::Bool(value) => Value::Bool(*value),
            TermKind::String { text, .. } => Value::str(text),
            TermKind::Number { text, number } => match *number {
                Number {
                    complex: Some((real, imaginary)),
                    ..
                } => Value::Complex(real, imaginary),
                Number { float: Some(float), .. } if is_float(text) => Value::Float(float),
                Number { int: Some(int), .. } => Value::int(int),
                _ => return self.fail(format!("{text} overflows int")),
            },
            _ => return self.fail("nil is not a command"),
        }))
    }

    /// Checks that a value is assignable to the parameter, and unwraps its interface if that is necessary.
    fn fit(&self, slot: Slot, param: Option<Param>) -> Result<Slot, Error> {
        let Some(param) = param else { return Ok(slot) };
        let type_name = param.type_name();
        if slot.is_none() {
            return match zero(param) {
                Some(slot) => Ok(slot),
                None => self.fail(format!("invalid value; expected {type_name}")),
            };
        }
        let fits = match param {
            Param::Any | Param::Reflect => return Ok(slot),
            Param::Dict => matches!(slot.value(), Value::Map(map) if map.elem() == Elem::Any),
            _ => fmt::type_name(slot.value()) == type_name,
        };
        if fits && !slot.is_boxed_nil() {
            return Ok(slot.unboxed());
        }
        let got = if slot.is_boxed_nil() {
            slot.type_name()
        } else {
            fmt::type_name(slot.value())
        };
        self.fail(format!("wrong type for value; expected {type_name}; got {got}"))
    }
}

/// Whether a result uses no new memory: `default` and `set` return an argument, `get` a string in one.
fn is_same(arg: &Value, result: &Value) -> bool {
    match (arg, result) {
        (_, Value::Str(text)) => Rc::strong_count(text) > 1,
        (Value::List(arg), Value::List(result)) => arg.address() == result.address(),
        (Value::Map(arg), Value::Map(result)) => arg.address() == result.address(),
        _ => false,
    }
}

/// Nil as a value of the type, if it has one.
fn zero(param: Param) -> Option<Slot> {
    match param {
        Param::Any => Some(Slot::boxed(Value::Nil)),
        Param::Reflect => Some(Slot::none()),
        Param::Dict => Some(Slot::bare(Value::Map(Map::nil(Elem::Any)))),
        Param::Bytes => Some(Slot::bare(Value::List(List::nil(Elem::Byte)))),
        Param::Location => Some(Slot::bare(Value::Nil)),
        Param::Bool | Param::Int | Param::Float64 | Param::Str | Param::Time | Param::Duration => None,
    }
}

/// Whether a number is written as a float, even if its value is an integer.
fn is_float(text: &str) -> bool {
    let hex = text.len() > 2 && (text.starts_with("0x") || text.starts_with("0X")) && !text.contains(['p', 'P']);
    !hex && !text.starts_with('\'') && looks_like_float(text)
}
