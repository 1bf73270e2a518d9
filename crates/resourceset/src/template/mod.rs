//! Go's text/template with `<<` and `>>` as delimiters and `missingkey=error`, as Flux Operator sets it up.
//!
//! Text → [`lex`] → [`parse`] → [`ast`] → [`exec`], which evaluates pipelines in [`eval`] and calls functions in
//! [`call`]. What a template prints and the text of its errors are Go's; where Go would run on we stop, with an error of
//! our own: parentheses nest only so deep, and work and memory have a bound.

mod ast;
mod builtins;
mod call;
mod escape;
mod eval;
mod exec;
mod lex;
mod number;
mod parse;
mod slot;
#[cfg(test)]
mod tests;

use ast::Place;

use crate::{strconv::quote, value::Value};

/// The name that Flux Operator gives every template.
const NAME: &str = "resourceset";

/// A template that is ready to be rendered, any number of times.
#[derive(Debug)]
pub(crate) struct Template {
    text: Box<str>,
    trees: ast::Trees,
}

impl Template {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        Ok(Self {
            text: text.into(),
            trees: parse::parse(text)?,
        })
    }

    /// Renders with one input, a map, which the template gets from the function `inputs` and may change.
    pub(crate) fn render(&self, inputs: &Value) -> Result<Vec<u8>, Error> {
        exec::Exec::run(self, inputs, exec::Limits::default())
    }
}

/// Why a template does not parse or render. Prints what Go prints.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("template: {}: {}", .0.position, .0.reason)]
pub(crate) struct Error(Box<Complaint>);

/// Boxed, since results that may be errors are passed along everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Complaint {
    /// The template with line and perhaps column.
    position: String,
    line: usize,
    reason: String,
}

impl Error {
    fn parse(line: usize, reason: &str) -> Self {
        Self(Box::new(Complaint {
            position: format!("{NAME}:{line}"),
            line,
            reason: reason.to_owned(),
        }))
    }

    /// An error while something is evaluated, which is nothing at the very start.
    fn execute(text: &str, name: &[u8], place: Option<&dyn Place>, reason: &str) -> Self {
        let Some(place) = place else {
            return Self::parse(1, reason);
        };
        let before = text.get(..place.pos()).unwrap_or_default();
        let line = 1 + before.matches('\n').count();
        let column = before.len() - before.rfind('\n').map_or(0, |at| at + 1);
        let position = format!("{NAME}:{line}:{column}");
        let reason = format!("executing {} at <{place}>: {reason}", quote(name));
        Self(Box::new(Complaint { position, line, reason }))
    }

    /// The line of the template, from 1.
    pub(crate) const fn line(&self) -> usize {
        self.0.line
    }

    /// What is wrong, without the position.
    pub(crate) fn reason(&self) -> &str {
        &self.0.reason
    }
}
