//! Evaluates pipelines, commands and fields.

use super::{
    Error, MissingKey,
    ast::{Command, Pipe, Term, TermKind},
    call::{Call, Callee},
    exec::Exec,
    slot::Slot,
};
use crate::{strconv::quote, time, value::Value};

impl<'t> Exec<'t> {
    /// The result of the last command, unwrapped from its interface. Declares or assigns the variables of the pipeline.
    pub(super) fn pipeline(&mut self, dot: &Slot, pipe: &'t Pipe) -> Result<Slot, Error> {
        self.at(pipe);
        let mut value = None;
        for command in &pipe.commands {
            self.spend_steps(1)?;
            value = Some(self.command(dot, command, value)?.unboxed());
        }
        let value = value.unwrap_or_else(Slot::none);
        for name in &pipe.variables {
            if pipe.assigns {
                self.assign(name, value.clone())?;
            } else {
                self.declare(name, value.clone());
            }
        }
        Ok(value)
    }

    fn command(&mut self, dot: &Slot, command: &'t Command, piped: Option<Slot>) -> Result<Slot, Error> {
        let (first, args) = (&command.first, command.args.as_slice());
        match &first.kind {
            TermKind::Field(fields) => {
                self.at(first);
                self.fields(dot, dot.clone(), fields, first, args, piped)
            }
            TermKind::Chain { of, fields } => {
                self.at(first);
                self.chain(dot, of, fields, first, args, piped)
            }
            TermKind::Function { name, callee } => {
                self.at(first);
                self.call(
                    dot,
                    callee,
                    None,
                    Call {
                        place: command,
                        name,
                        args,
                    },
                    piped,
                )
            }
            TermKind::Variable { name, fields } => {
                self.at(first);
                self.variable(dot, name, fields, first, args, piped)
            }
            TermKind::Pipe(pipe) => {
                self.no_arguments(first, args, piped.as_ref())?;
                self.pipeline(dot, pipe)
            }
            TermKind::Dot | TermKind::Nil | TermKind::Bool(_) | TermKind::Number { .. } | TermKind::String { .. } => {
                self.at(first);
                self.no_arguments(first, args, piped.as_ref())?;
                if matches!(first.kind, TermKind::Dot) {
                    Ok(dot.clone())
                } else {
                    self.constant(first)
                }
            }
        }
    }

    fn no_arguments(&self, first: &Term, args: &[Term], piped: Option<&Slot>) -> Result<(), Error> {
        if args.is_empty() && piped.is_none() {
            return Ok(());
        }
        self.fail(format!("can't give argument to non-function {first}"))
    }

    pub(super) fn variable(
        &mut self,
        dot: &Slot,
        name: &'t str,
        fields: &'t [Box<str>],
        place: &'t Term,
        args: &'t [Term],
        piped: Option<Slot>,
    ) -> Result<Slot, Error> {
        let value = self.read(name)?;
        if fields.is_empty() {
            self.no_arguments(place, args, piped.as_ref())?;
            return Ok(value);
        }
        self.fields(dot, value, fields, place, args, piped)
    }

    pub(super) fn chain(
        &mut self,
        dot: &Slot,
        of: &'t Term,
        fields: &'t [Box<str>],
        place: &'t Term,
        args: &'t [Term],
        piped: Option<Slot>,
    ) -> Result<Slot, Error> {
        let value = self.argument(dot, None, of)?;
        self.fields(dot, value, fields, place, args, piped)
    }

    /// Follows a chain of fields. The last one may be a method with arguments.
    pub(super) fn fields(
        &mut self,
        dot: &Slot,
        mut receiver: Slot,
        fields: &'t [Box<str>],
        place: &'t Term,
        args: &'t [Term],
        piped: Option<Slot>,
    ) -> Result<Slot, Error> {
        let Some((last, others)) = fields.split_last() else {
            return Ok(receiver);
        };
        for name in others {
            self.spend_steps(1)?;
            receiver = self.field(dot, &receiver, Call { place, name, args: &[] }, None)?;
        }
        self.field(
            dot,
            &receiver,
            Call {
                place,
                name: last,
                args,
            },
            piped,
        )
    }

    fn field(&mut self, dot: &Slot, receiver: &Slot, call: Call<'t>, piped: Option<Slot>) -> Result<Slot, Error> {
        let name = call.name;
        if receiver.is_none() {
            if self.missing_key() != MissingKey::Error {
                return Ok(Slot::none());
            }
            return self.fail(format!("nil data; no entry for key {}", quote(name.as_bytes())));
        }
        let type_name = receiver.type_name();
        if receiver.is_boxed_nil() {
            return self.fail(format!("nil pointer evaluating {type_name}.{name}"));
        }
        let value = receiver.value();
        if let Some(method) = time::method(value, name) {
            let callee = Callee::from_function(&method);
            return self.call(dot, &callee, Some(value.clone()), call, piped);
        }
        match value {
            Value::Map(_) if !call.args.is_empty() || piped.is_some() => {
                self.fail(format!("{name} is not a method but has arguments"))
            }
            Value::Map(map) => match Slot::entry(map, name.as_bytes()) {
                Some(entry) => Ok(entry),
                None if self.missing_key() == MissingKey::Default => Ok(Slot::none()),
                None if self.missing_key() == MissingKey::Zero => Ok(Slot::zero(map)),
                None => self.fail(format!("map has no entry for key {}", quote(name.as_bytes()))),
            },
            _ if is_private_field(value, name) => {
                self.fail(format!("{name} is an unexported field of struct type {type_name}"))
            }
            _ => self.fail(format!("can't evaluate field {name} in type {type_name}")),
        }
    }
}

/// The unexported fields of Go's structs, which a template cannot read.
fn is_private_field(value: &Value, name: &str) -> bool {
    match value {
        Value::Time(_) => matches!(name, "wall" | "ext" | "loc"),
        Value::Location(_) => {
            matches!(
                name,
                "name" | "zone" | "tx" | "extend" | "cacheStart" | "cacheEnd" | "cacheZone"
            )
        }
        _ => false,
    }
}
