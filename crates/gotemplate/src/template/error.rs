//! Why a template does not parse or execute.

use super::ast::Place;
use crate::strconv::quote;

/// Why a template does not parse or execute. Displays as Go's error does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("template: {}: {}", .0.position, .0.reason)]
pub struct Error(Box<Details>);

/// Boxed to keep results small.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Details {
    /// The name of the template, the line, and for an execution the column.
    position: String,
    line: usize,
    reason: String,
}

impl Error {
    /// The line of the template, counted from 1.
    #[must_use]
    pub const fn line(&self) -> usize {
        self.0.line
    }

    /// What is wrong, without the position.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    pub(super) fn parse(name: &str, line: usize, reason: &str) -> Self {
        Self(Box::new(Details {
            position: format!("{name}:{line}"),
            line,
            reason: reason.to_owned(),
        }))
    }

    /// An error at a place in the text. There is none before the first node is evaluated.
    pub(super) fn execute(root: Source<'_>, name: &[u8], place: Option<&dyn Place>, reason: &str) -> Self {
        let Some(place) = place else {
            return Self::parse(root.name, 1, reason);
        };
        let before = root.text.get(..place.pos()).unwrap_or_default();
        let line = 1 + before.matches('\n').count();
        let column = before.len() - before.rfind('\n').map_or(0, |at| at + 1);
        let position = format!("{}:{line}:{column}", root.name);
        let reason = format!("executing {} at <{place}>: {reason}", quote(name));
        Self(Box::new(Details { position, line, reason }))
    }
}

/// The name and the text of a template.
#[derive(Clone, Copy)]
pub(super) struct Source<'t> {
    pub(super) name: &'t str,
    pub(super) text: &'t str,
}
