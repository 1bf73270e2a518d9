//! Go's `text/template`.
//!
//! The text passes through [`lex`] (tokens) and [`parse`] (a tree, [`ast`]); [`exec`] executes the tree, evaluates pipelines
//! with [`eval`] and calls functions with [`call`]. Output and errors are those of Go. Where Go has no limit and continues,
//! this crate stops with an error of its own: parentheses nest up to a limit, and work and memory are limited.

mod ast;
mod builtins;
mod call;
mod error;
mod escape;
mod eval;
mod exec;
mod lex;
mod number;
mod options;
mod parse;
mod slot;
#[cfg(test)]
mod tests;

pub use self::{
    error::Error,
    options::{Limits, MissingKey, Options},
};
use crate::value::Value;

/// A parsed template, which can be executed any number of times.
///
/// ```
/// use gotemplate::{Template, Value};
///
/// let template = Template::parse("greeting", "Hello {{ range .names }}{{ . }}, {{ end }}")?;
/// let data = Value::map([("names", Value::strings(["Ada", "Grace"]))]);
/// assert_eq!(template.execute(&data)?, b"Hello Ada, Grace, ");
///
/// let error = Template::parse("broken", "line one\n{{ if }}").unwrap_err();
/// assert_eq!(error.to_string(), "template: broken:2: missing value for if");
/// # Ok::<(), gotemplate::Error>(())
/// ```
#[derive(Debug)]
pub struct Template {
    name: Box<str>,
    text: Box<str>,
    trees: ast::Trees,
    missing_key: MissingKey,
    limits: Limits,
}

impl Template {
    /// Parses a template with the default options. Its name appears in errors.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        Self::parse_with(name, text, &Options::new())
    }

    /// Parses a template. Its name appears in errors.
    pub fn parse_with(name: &str, text: &str, options: &Options) -> Result<Self, Error> {
        Ok(Self {
            name: name.into(),
            text: text.into(),
            trees: parse::parse(name, text, options)?,
            missing_key: options.missing_key,
            limits: options.limits,
        })
    }

    /// The name that the template was parsed with.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Executes the template. The data is `.` and `$` in the template.
    ///
    /// The output is usually, but not always, UTF-8: a template can cut strings anywhere.
    pub fn execute(&self, data: &Value) -> Result<Vec<u8>, Error> {
        self.execute_with(data, &[])
    }

    /// Executes the template with results for the functions that were declared with
    /// [`Functions::with_supplied`](crate::Functions::with_supplied).
    ///
    /// ```
    /// use gotemplate::{Functions, Options, Template, Value};
    ///
    /// let options = Options::new().functions(Functions::new().with_supplied("release"));
    /// let template = Template::parse_with("t", "{{ release.name }} {{ . }}", &options)?;
    /// let release = Value::map([("name", Value::str("web"))]);
    /// assert_eq!(template.execute_with(&Value::int(1), &[("release", &release)])?, b"web 1");
    /// # Ok::<(), gotemplate::Error>(())
    /// ```
    pub fn execute_with(&self, data: &Value, supplied: &[(&str, &Value)]) -> Result<Vec<u8>, Error> {
        exec::Exec::run(self, data, supplied)
    }

    const fn source(&self) -> error::Source<'_> {
        error::Source {
            name: &self.name,
            text: &self.text,
        }
    }
}
