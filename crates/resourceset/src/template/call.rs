//! What a template can call, and how arguments become what the callee declares.

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
    format,
    function::{Body, Failure, Function, Param},
    functions,
    value::{Elem, IntType, List, Map, Value},
};

/// How many bytes of arguments a function goes through in about the time of a step.
const BYTES_PER_STEP: usize = 4 << 10;

/// A function by its signature and what to do with the arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Callee {
    params: &'static [Param],
    rest: Option<Param>,
    /// Why it cannot be called at all.
    unfit: Option<&'static str>,
    act: Act,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// The function `inputs`.
    Inputs,
    /// The built-ins that stop at the first argument that decides, true or false.
    ShortCircuit {
        at: bool,
    },
    /// The built-in `call`, which wants to know how its first argument is written.
    Call,
    /// A built-in that sees whether a value is in an interface.
    Unary(fn(&Slot) -> Result<Value, Failure>),
    Binary(fn(&Slot, &Slot) -> Result<Value, Failure>),
    Variadic(fn(&Slot, &[Slot]) -> Result<Slot, Failure>),
    /// Any other function. Whether its declared result is an interface shows only where it is called without
    /// arguments, outside a pipeline of its own.
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
            unfit: None,
            act,
        }
    }

    /// The function of that name. Sprig's come before the built-ins, as its `slice` shows.
    pub(super) fn find(name: &str) -> Option<Self> {
        if name == "inputs" {
            return Some(Self::new(&[], None, Act::Inputs));
        }
        match functions::lookup(name) {
            Some(function) => Some(Self::from_function(&function, matches!(name, "coalesce" | "concat"))),
            None => builtins::lookup(name),
        }
    }

    pub(super) const fn from_function(function: &Function, boxed: bool) -> Self {
        let act = Act::Values {
            body: function.body,
            boxed,
        };
        Self {
            params: function.params,
            rest: function.rest,
            unfit: function.unfit,
            act,
        }
    }

    fn param(&self, index: usize) -> Option<Param> {
        self.params.get(index).copied().or(self.rest)
    }
}

/// A call as it is written.
#[derive(Clone, Copy)]
pub(super) struct Call<'t> {
    /// What an error of the callee is said to be at.
    pub(super) place: &'t dyn Place,
    pub(super) name: &'t str,
    pub(super) args: &'t [Term],
}

impl<'t> Exec<'t> {
    /// Evaluates the arguments and calls. What is piped in comes last; a method gets its receiver before all.
    pub(super) fn call(
        &mut self,
        dot: &Slot,
        callee: &Callee,
        receiver: Option<Value>,
        call: Call<'t>,
        piped: Option<Slot>,
    ) -> Result<Slot, Error> {
        self.check_count(callee, call, piped.is_some())?;
        if let Some(reason) = callee.unfit {
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
        let result = match (callee.act, slots.as_slice()) {
            (Act::Unary(body), [arg]) => body(arg).map(Slot::bare),
            (Act::Binary(body), [left, right]) => body(left, right).map(Slot::bare),
            (Act::Variadic(body), [first, rest @ ..]) => body(first, rest),
            (Act::Call, [callee, ..]) => Err(builtins::call(callee, call.args.first())),
            (Act::Values { body, boxed }, _) => {
                let values: Vec<Value> = slots.into_iter().map(Slot::into_value).collect();
                let result = body(&values);
                if let Ok(value) = &result
                    && !values.iter().any(|arg| is_same(arg, value))
                {
                    self.spend_bytes(value.weight())?;
                }
                result.map(if boxed { Slot::boxed } else { Slot::bare })
            }
            (Act::Inputs, _) => Ok(Slot::boxed(self.inputs().clone())),
            // Not reached: there are as many arguments as it takes.
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
            // What is piped in is not counted here.
            return self.fail(format!(
                "wrong number of args for {name}: want at least {want} got {given}"
            ));
        }
        Ok(())
    }

    /// Evaluates an argument. Without a type, which only the term before a field has not, anything goes.
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

    /// A constant where any type will do.
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

    /// Sees that a value is assignable to the parameter, and takes it out of its interface if that makes it so.
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
            _ => format::type_name(slot.value()) == type_name,
        };
        if fits && !slot.is_boxed_nil() {
            return Ok(slot.unboxed());
        }
        let got = if slot.is_boxed_nil() {
            slot.type_name()
        } else {
            format::type_name(slot.value())
        };
        self.fail(format!("wrong type for value; expected {type_name}; got {got}"))
    }
}

/// Whether a result is memory that was there before: `default` and `set` give back an argument, `get` a string of one.
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

/// Whether the syntax of a number, which may be an integer in value, says float.
fn is_float(text: &str) -> bool {
    let hex = text.len() > 2 && (text.starts_with("0x") || text.starts_with("0X")) && !text.contains(['p', 'P']);
    !hex && !text.starts_with('\'') && looks_like_float(text)
}
