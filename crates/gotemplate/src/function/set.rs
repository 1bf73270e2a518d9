//! Sets of functions.

use std::{borrow::Cow, collections::BTreeMap};

use super::Function;

/// Functions by name, as Go's `template.FuncMap`.
///
/// ```
/// use gotemplate::{Args, Function, Param, Value, sprig};
///
/// let shout = Function::new(&[Param::Str], |args| {
///     Ok(Value::str([args.text(0)?, b"!"].concat()))
/// });
/// let functions = sprig::functions().with("shout", shout);
/// assert!(functions.get("shout").is_some() && functions.get("upper").is_some());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Functions {
    by_name: BTreeMap<Cow<'static, str>, Entry>,
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Function(Function),
    /// A function without parameters whose result is given with each execution.
    Supplied,
}

impl Functions {
    /// No functions. The built-in ones of text/template are always there.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            by_name: BTreeMap::new(),
        }
    }

    /// Adds a function. It replaces one of the same name, also a built-in one.
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'static, str>>, function: Function) -> Self {
        self.by_name.insert(name.into(), Entry::Function(function));
        self
    }

    /// Adds a function without parameters whose result is given with each execution, see
    /// [`Template::execute_with`](crate::Template::execute_with). In Go one calls `Funcs` again before `Execute`.
    #[must_use]
    pub fn with_supplied(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.by_name.insert(name.into(), Entry::Supplied);
        self
    }

    /// The function of a name. `None` if there is none, or if its result is supplied with each execution.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Function> {
        match self.by_name.get(name)? {
            Entry::Function(function) => Some(function),
            Entry::Supplied => None,
        }
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(AsRef::as_ref)
    }

    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(name)
    }
}

impl<N: Into<Cow<'static, str>>> Extend<(N, Function)> for Functions {
    fn extend<I: IntoIterator<Item = (N, Function)>>(&mut self, functions: I) {
        let entries = functions
            .into_iter()
            .map(|(name, function)| (name.into(), Entry::Function(function)));
        self.by_name.extend(entries);
    }
}
