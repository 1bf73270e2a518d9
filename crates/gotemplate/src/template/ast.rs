//! The tree of a template.
//!
//! Every node that an error can refer to has a position and displays as Go prints it. That can differ from the text: blanks are
//! lost, and delimiters become braces.

use std::{collections::HashMap, fmt};

use super::{call::Callee, number::Number};
use crate::strconv::quote;

/// A part of a template that an error can refer to.
pub(super) trait Place: fmt::Display {
    /// The byte offset of its start. For a field after a term, the start of the field.
    fn pos(&self) -> usize;
}

/// The template of a text, and the templates that it defines.
#[derive(Debug)]
pub(super) struct Trees {
    /// All lists of nodes. A node refers to the lists in it by index, so the tree does not nest, however deeply the
    /// text does.
    pub(super) lists: Vec<List>,
    pub(super) by_name: HashMap<Box<[u8]>, ListId>,
}

impl Trees {
    pub(super) fn list(&self, id: ListId) -> &[Node] {
        self.lists.get(id.0).map_or(&[], Vec::as_slice)
    }
}

/// The nodes of a branch, a loop body or a template.
pub(super) type List = Vec<Node>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListId(pub(super) usize);

#[derive(Debug)]
pub(super) enum Node {
    Text(Box<str>),
    Action(Pipe),
    If(Branches),
    With(Branches),
    Range(Range),
    Template(Invocation),
    Break,
    Continue,
}

/// `if` and `with`. `else if` and `else with` are further branches here; in Go they nest.
#[derive(Debug)]
pub(super) struct Branches {
    pub(super) branches: Vec<(Pipe, ListId)>,
    pub(super) otherwise: Option<ListId>,
}

#[derive(Debug)]
pub(super) struct Range {
    pub(super) pipe: Pipe,
    pub(super) body: ListId,
    pub(super) otherwise: Option<ListId>,
}

/// `template "name" pipeline`.
#[derive(Debug)]
pub(super) struct Invocation {
    pub(super) pos: usize,
    pub(super) name: Box<[u8]>,
    pub(super) pipe: Option<Pipe>,
}

/// Commands joined by `|`, and variables that the result is assigned to. Has at least one command.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) pos: usize,
    /// The names, with `$`.
    pub(super) variables: Vec<Box<str>>,
    /// Whether it assigns (`=`) instead of declaring (`:=`).
    pub(super) assigns: bool,
    pub(super) commands: Vec<Command>,
}

/// A term and its arguments.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) pos: usize,
    pub(super) first: Term,
    pub(super) args: Vec<Term>,
}

#[derive(Debug)]
pub(super) struct Term {
    pub(super) pos: usize,
    pub(super) kind: TermKind,
}

#[derive(Debug)]
pub(super) enum TermKind {
    Bool(bool),
    Dot,
    Nil,
    Number {
        text: Box<str>,
        number: Number,
    },
    String {
        quoted: Box<str>,
        text: Box<[u8]>,
    },
    /// `.a.b`.
    Field(Vec<Box<str>>),
    /// `$x.a.b`; the name with `$`.
    Variable {
        name: Box<str>,
        fields: Vec<Box<str>>,
    },
    Function {
        name: Box<str>,
        callee: Callee,
    },
    /// `(pipeline).a.b` or `function.a.b`.
    Chain {
        of: Box<Term>,
        fields: Vec<Box<str>>,
    },
    Pipe(Box<Pipe>),
}

impl Place for Pipe {
    fn pos(&self) -> usize {
        self.pos
    }
}

impl Place for Command {
    fn pos(&self) -> usize {
        self.pos
    }
}

impl Place for Term {
    fn pos(&self) -> usize {
        self.pos
    }
}

impl Place for Invocation {
    fn pos(&self) -> usize {
        self.pos
    }
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.variables.is_empty() {
            f.write_str(&self.variables.join(", "))?;
            f.write_str(if self.assigns { " = " } else { " := " })?;
        }
        for (index, command) in self.commands.iter().enumerate() {
            let separator = if index > 0 { " | " } else { "" };
            write!(f, "{separator}{command}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt_argument(f)?;
        for arg in &self.args {
            f.write_str(" ")?;
            arg.fmt_argument(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dotted =
            |f: &mut fmt::Formatter<'_>, fields: &[Box<str>]| fields.iter().try_for_each(|field| write!(f, ".{field}"));
        match &self.kind {
            TermKind::Bool(value) => write!(f, "{value}"),
            TermKind::Dot => f.write_str("."),
            TermKind::Nil => f.write_str("nil"),
            TermKind::Number { text, .. }
            | TermKind::String { quoted: text, .. }
            | TermKind::Function { name: text, .. } => f.write_str(text),
            TermKind::Field(fields) => dotted(f, fields),
            TermKind::Variable { name, fields } => {
                f.write_str(name)?;
                dotted(f, fields)
            }
            TermKind::Chain { of, fields } => {
                of.fmt_argument(f)?;
                dotted(f, fields)
            }
            TermKind::Pipe(pipe) => write!(f, "{pipe}"),
        }
    }
}

impl Term {
    /// Whether a value can be piped into it, judging by its syntax.
    pub(super) const fn is_executable(&self) -> bool {
        !matches!(
            self.kind,
            TermKind::Bool(_) | TermKind::Dot | TermKind::Nil | TermKind::Number { .. } | TermKind::String { .. }
        )
    }

    /// Displays it as part of a command, where a pipeline has parentheses.
    fn fmt_argument(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let TermKind::Pipe(pipe) = &self.kind {
            write!(f, "({pipe})")
        } else {
            write!(f, "{self}")
        }
    }
}

impl fmt::Display for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{{template {}", quote(&self.name))?;
        if let Some(pipe) = &self.pipe {
            write!(f, " {pipe}")?;
        }
        f.write_str("}}")
    }
}
