//! How a template is parsed and executed.

use crate::function::Functions;

/// How a template is parsed and executed. Go sets these with methods of `template.Template`.
///
/// ```
/// use gotemplate::{MissingKey, Options, Template, Value, sprig};
///
/// let options = Options::new()
///     .delimiters("<<", ">>")
///     .missing_key(MissingKey::Error)
///     .functions(sprig::functions());
/// let template = Template::parse_with("config", "name: << .name | upper >>", &options)?;
/// assert_eq!(template.execute(&Value::map([("name", Value::str("web"))]))?, b"name: WEB");
///
/// let error = template.execute(&Value::map::<&str>([])).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     r#"template: config:1:9: executing "config" at <.name>: map has no entry for key "name""#
/// );
/// # Ok::<(), gotemplate::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub(super) delimiters: Delimiters,
    pub(super) missing_key: MissingKey,
    pub(super) functions: Functions,
    pub(super) limits: Limits,
}

/// What happens when a template reads a key that a map does not have: Go's option `missingkey`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// `missingkey=default`: there is no value, which prints as `<no value>`.
    #[default]
    Default,
    /// `missingkey=zero`: the zero value of the map's element type.
    Zero,
    /// `missingkey=error`: the execution stops with an error.
    Error,
}

/// Limits on an execution. Go has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many steps an execution may take. Each node, command and iteration is a step; functions count by the size of their
    /// arguments.
    pub steps: usize,
    /// How many bytes the output and the results of functions may take in total.
    pub bytes: usize,
}

impl Default for Limits {
    /// 5 million steps, 256 MiB.
    fn default() -> Self {
        Self {
            steps: 5_000_000,
            bytes: 256 << 20,
        }
    }
}

/// What starts and ends an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Delimiters {
    pub(super) left: String,
    pub(super) right: String,
}

impl Default for Delimiters {
    fn default() -> Self {
        Self {
            left: "{{".to_owned(),
            right: "}}".to_owned(),
        }
    }
}

impl Options {
    /// The defaults of Go: `{{` and `}}`, `missingkey=default`, no functions except the built-in ones.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// `Delims`: what starts and ends an action. An empty string stands for the default, `{{` or `}}`.
    #[must_use]
    pub fn delimiters(mut self, left: &str, right: &str) -> Self {
        let mut delimiters = Delimiters::default();
        if !left.is_empty() {
            left.clone_into(&mut delimiters.left);
        }
        if !right.is_empty() {
            right.clone_into(&mut delimiters.right);
        }
        self.delimiters = delimiters;
        self
    }

    /// `Option("missingkey=…")`: what happens when a template reads a key that a map does not have.
    #[must_use]
    pub fn missing_key(mut self, missing_key: MissingKey) -> Self {
        self.missing_key = missing_key;
        self
    }

    /// `Funcs`: the functions that a template may call, in addition to the built-in ones.
    #[must_use]
    pub fn functions(mut self, functions: Functions) -> Self {
        self.functions = functions;
        self
    }

    /// Limits on the work and memory of an execution.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}
