//! Functions that a template may call, with the signatures that Go declares.
//!
//! Arguments are checked and converted by the declared types before the call, as Go's `reflect` does. A body therefore sees
//! what its signature declares.

mod args;
mod failure;
mod param;
mod set;

use std::{fmt, sync::Arc};

pub use self::{args::Args, failure::Failure, param::Param, set::Functions};
pub(crate) use self::{
    args::{item_limit, size_limit},
    set::Entry,
};
use crate::value::Value;

/// The longest string that a function returns, in bytes.
pub(crate) const MAX_BYTES: usize = 16 << 20;
/// The longest list that a function returns.
pub(crate) const MAX_ITEMS: usize = 1 << 20;
/// How deeply values may nest where a function walks them.
pub(crate) const MAX_DEPTH: usize = 250;

/// A function or method.
///
/// ```
/// use gotemplate::{Args, Function, Functions, Options, Param, Template, Value};
///
/// // func(string, int) string
/// let pad = Function::new(&[Param::Str, Param::Int], |args| {
///     let text = String::from_utf8_lossy(args.text(0)?);
///     let width = usize::try_from(args.int(1)?).unwrap_or(0).min(100);
///     Ok(Value::str(format!("{text:>width$}")))
/// });
/// let functions = Functions::new().with("pad", pad);
/// let template = Template::parse_with("t", r#"[{{ pad "x" 3 }}]"#, &Options::new().functions(functions))?;
/// assert_eq!(template.execute(&Value::Nil)?, b"[  x]");
/// # Ok::<(), gotemplate::Error>(())
/// ```
#[derive(Clone)]
pub struct Function {
    /// The types of the parameters; for a method without the receiver.
    pub(crate) params: &'static [Param],
    /// The type of further arguments, if it is variadic.
    pub(crate) rest: Option<Param>,
    pub(crate) body: Body,
    /// Why a template cannot call it, for methods with more than one result. Reported after a wrong number of arguments.
    pub(crate) uncallable: Option<&'static str>,
    /// Whether the declared result type is `interface {}`.
    pub(crate) returns_any: bool,
}

type Closure = dyn Fn(&[Value]) -> Result<Value, Failure> + Send + Sync;

/// What a call does with the arguments. A method gets its receiver before them.
#[derive(Clone)]
pub(crate) enum Body {
    Plain(fn(&[Value]) -> Result<Value, Failure>),
    Closure(Arc<Closure>),
}

impl Function {
    /// A function with a fixed number of parameters.
    #[must_use]
    pub const fn new(params: &'static [Param], body: fn(&[Value]) -> Result<Value, Failure>) -> Self {
        Self {
            params,
            rest: None,
            body: Body::Plain(body),
            uncallable: None,
            returns_any: false,
        }
    }

    /// A variadic function: after the parameters any number of arguments of type `rest`.
    #[must_use]
    pub const fn variadic(params: &'static [Param], rest: Param, body: fn(&[Value]) -> Result<Value, Failure>) -> Self {
        Self {
            params,
            rest: Some(rest),
            body: Body::Plain(body),
            uncallable: None,
            returns_any: false,
        }
    }

    /// A function with a fixed number of parameters whose body captures variables.
    ///
    /// ```
    /// use gotemplate::{Function, Value};
    ///
    /// let version = String::from("1.2.3");
    /// let function = Function::closure(&[], move |_| Ok(Value::str(&version)));
    /// ```
    pub fn closure(
        params: &'static [Param],
        body: impl Fn(&[Value]) -> Result<Value, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self {
            params,
            rest: None,
            body: Body::Closure(Arc::new(body)),
            uncallable: None,
            returns_any: false,
        }
    }

    /// Declares the result type `interface {}`. It decides how an error names the type of a nil result.
    #[must_use]
    pub const fn returning_any(mut self) -> Self {
        self.returns_any = true;
        self
    }

    /// Calls the function without checking the arguments.
    #[cfg(test)]
    pub(crate) fn call(&self, args: &[Value]) -> Result<Value, Failure> {
        self.body.call(args)
    }
}

impl Body {
    pub(crate) fn call(&self, args: &[Value]) -> Result<Value, Failure> {
        match self {
            Self::Plain(body) => body(args),
            Self::Closure(body) => body(args),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Body")
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function")
            .field("params", &self.params)
            .field("rest", &self.rest)
            .finish_non_exhaustive()
    }
}
