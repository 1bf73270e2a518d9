//! What is wrong with a configuration.

use std::fmt;

use fleet::refusal::Violation;

/// A setting that cannot be used, by its variable. The problem may have more lines, one for each place in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {problem}")]
pub struct ConfigError {
    pub variable: &'static str,
    pub problem: String,
}

impl ConfigError {
    pub fn new(variable: &'static str, problem: impl Into<String>) -> Self {
        ConfigError {
            variable,
            problem: problem.into(),
        }
    }

    /// A file that cannot be used: one problem of the file as a whole, or a line for each place in it.
    pub fn in_file(variable: &'static str, file: impl fmt::Display, errors: &[Violation]) -> Self {
        let mut problem = match errors {
            [one] if one.pointer.is_empty() => return ConfigError::new(variable, format!("{file}: {}", one.detail)),
            [_] => format!("{file}: 1 problem"),
            many => format!("{file}: {} problems", many.len()),
        };
        for error in errors {
            problem.push_str(&format!("\n  {}: {}", error.pointer, error.detail));
        }
        ConfigError::new(variable, problem)
    }
}

/// Every problem of a configuration, in the order of the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    pub fn push(&mut self, error: ConfigError) {
        self.0.push(error);
    }

    /// The value of a check that succeeded. The problems of one that failed are added to these.
    pub fn keep<T>(&mut self, checked: Result<T, impl Into<ConfigErrors>>) -> Option<T> {
        checked.map_err(|errors| self.0.extend(errors.into().0)).ok()
    }

    /// Fails when there is a problem.
    pub fn into_result(self) -> Result<(), ConfigErrors> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(self),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        ConfigErrors(vec![error])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, error) in self.0.iter().enumerate() {
            let separator = if n == 0 { "" } else { "\n" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
