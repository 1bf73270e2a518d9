//! Executes a template: walks its nodes and writes their output.
//!
//! A node that contains others pushes a frame on an explicit stack instead of recursing. Templates can therefore invoke each
//! other as deeply as in Go, independent of the stack size of the thread.

use std::slice;

use super::{
    Error, MissingKey, Template,
    ast::{Branches, Invocation, ListId, Node, Pipe, Place, Range},
    slot::Slot,
};
use crate::{
    fmt,
    function::Failure,
    value::{IntType, List as Items, Value},
};

/// How deeply templates may invoke each other, as in Go.
const MAX_DEPTH: usize = 100_000;

pub(super) struct Exec<'t> {
    template: &'t Template,
    /// Results of functions that are supplied with the execution.
    supplied: &'t [(&'t str, &'t Value)],
    out: Vec<u8>,
    frames: Vec<Frame<'t>>,
    /// The name of the current template.
    name: &'t [u8],
    variables: Vec<(&'t str, Slot)>,
    /// Where the variables of the current template start.
    base: usize,
    depth: usize,
    /// The node that is being evaluated, for errors.
    place: Option<&'t dyn Place>,
    steps: usize,
    bytes: usize,
}

/// Work that remains to be done.
enum Frame<'t> {
    /// Nodes, and the number of variables to keep after them.
    List {
        rest: slice::Iter<'t, Node>,
        dot: Slot,
        scope: usize,
    },
    /// Iterations of a loop. The variables of its body start at `body`.
    Range {
        range: &'t Range,
        rounds: Rounds,
        scope: usize,
        body: usize,
    },
    /// The end of the `else` of a loop: `break` jumps to it, `continue` does not.
    Otherwise { scope: usize },
    /// The return to the template that invoked the current one.
    Return { name: &'t [u8], base: usize },
}

/// What a loop iterates over.
enum Rounds {
    Count {
        kind: IntType,
        next: i64,
        end: i64,
    },
    /// Read during the loop, because a function may sort the list meanwhile.
    Items {
        items: Items,
        next: usize,
    },
    Entries(Box<dyn Iterator<Item = (Slot, Slot)>>),
}

impl Rounds {
    /// The index or key, if there is one, and the element.
    fn next(&mut self) -> Option<(Slot, Slot)> {
        match self {
            Self::Count { kind, next, end } => {
                let number = *next;
                (number < *end).then(|| {
                    *next += 1;
                    (Slot::none(), Slot::bare(Value::Int(*kind, number)))
                })
            }
            Self::Items { items, next } => {
                let index = *next;
                let item = Slot::item(items, index)?;
                *next += 1;
                Some((Slot::bare(Value::int(i64::try_from(index).unwrap_or(i64::MAX))), item))
            }
            Self::Entries(entries) => entries.next(),
        }
    }
}

impl<'t> Exec<'t> {
    pub(super) fn run(
        template: &'t Template,
        data: &Value,
        supplied: &'t [(&'t str, &'t Value)],
    ) -> Result<Vec<u8>, Error> {
        let name = template.name.as_bytes();
        let mut exec = Self {
            template,
            supplied,
            out: Vec::new(),
            frames: Vec::new(),
            name,
            variables: vec![("$", Slot::bare(data.clone()))],
            base: 0,
            depth: 0,
            place: None,
            steps: 0,
            bytes: 0,
        };
        let list = template.trees.by_name.get(name).copied();
        exec.enter(list, Slot::bare(data.clone()), 0);
        while exec.step()? {}
        Ok(exec.out)
    }

    /// The result of a function that was supplied with the execution.
    pub(super) fn supplied(&self, name: &str) -> Option<&'t Value> {
        let found = self.supplied.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }

    pub(super) const fn missing_key(&self) -> MissingKey {
        self.template.missing_key
    }

    /// Sets the node that is being evaluated.
    pub(super) fn at(&mut self, place: &'t dyn Place) {
        self.place = Some(place);
    }

    pub(super) fn fail<T>(&self, reason: impl AsRef<str>) -> Result<T, Error> {
        Err(Error::execute(
            self.template.source(),
            self.name,
            self.place,
            reason.as_ref(),
        ))
    }

    /// Counts work that takes about as long as `steps` nodes.
    pub(super) fn spend_steps(&mut self, steps: usize) -> Result<(), Error> {
        self.steps += steps;
        match self.template.limits.steps {
            limit if self.steps > limit => self.fail(format!("exceeded maximum work ({limit} steps)")),
            _ => Ok(()),
        }
    }

    /// Counts allocated memory, whether it is still in use or not.
    pub(super) fn spend_bytes(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes += bytes;
        match self.template.limits.bytes {
            limit if self.bytes > limit => self.fail(format!("exceeded maximum memory ({limit} bytes)")),
            _ => Ok(()),
        }
    }

    fn write(&mut self, text: &[u8]) -> Result<(), Error> {
        self.spend_bytes(text.len())?;
        self.out.extend_from_slice(text);
        Ok(())
    }

    fn enter(&mut self, list: Option<ListId>, dot: Slot, scope: usize) {
        let nodes = list.map_or(&[][..], |list| self.template.trees.list(list));
        self.frames.push(Frame::List {
            rest: nodes.iter(),
            dot,
            scope,
        });
    }

    /// Does the next piece of work. Returns false if nothing is left.
    fn step(&mut self) -> Result<bool, Error> {
        self.spend_steps(1)?;
        match self.frames.last_mut() {
            None => return Ok(false),
            Some(Frame::List { rest, dot, scope }) => match rest.next() {
                Some(node) => {
                    let dot = dot.clone();
                    self.node(node, dot)?;
                }
                None => {
                    let scope = *scope;
                    self.leave(scope);
                }
            },
            Some(Frame::Range {
                range,
                rounds,
                scope,
                body,
            }) => {
                let (range, scope, body) = (*range, *scope, *body);
                match rounds.next() {
                    Some((index, element)) => {
                        self.variables.truncate(body);
                        self.set_loop_variables(&range.pipe, index, &element)?;
                        self.enter(Some(range.body), element, body);
                    }
                    None => self.leave(scope),
                }
            }
            Some(Frame::Otherwise { scope }) => {
                let scope = *scope;
                self.leave(scope);
            }
            Some(Frame::Return { name, base }) => {
                (self.name, self.base) = (*name, *base);
                self.depth -= 1;
                self.frames.pop();
            }
        }
        Ok(true)
    }

    fn leave(&mut self, scope: usize) {
        self.frames.pop();
        self.variables.truncate(scope);
    }

    fn node(&mut self, node: &'t Node, dot: Slot) -> Result<(), Error> {
        match node {
            Node::Text(text) => self.write(text.as_bytes()),
            Node::Action(pipe) => {
                let result = self.pipeline(&dot, pipe)?;
                if pipe.variables.is_empty() {
                    self.print(result.value())
                } else {
                    Ok(())
                }
            }
            Node::If(branches) => self.branch(branches, dot, false),
            Node::With(branches) => self.branch(branches, dot, true),
            Node::Range(range) => self.range(range, dot),
            Node::Template(invocation) => self.invoke(invocation, &dot),
            Node::Break => {
                while let Some(frame) = self.frames.pop() {
                    if let Frame::Range { scope, .. } | Frame::Otherwise { scope } = frame {
                        self.variables.truncate(scope);
                        break;
                    }
                }
                Ok(())
            }
            Node::Continue => {
                while !matches!(self.frames.last(), None | Some(Frame::Range { .. })) {
                    self.frames.pop();
                }
                Ok(())
            }
        }
    }

    fn print(&mut self, value: &Value) -> Result<(), Error> {
        match value {
            Value::Nil => self.write(b"<no value>"),
            Value::Str(text) => self.write(text),
            other => {
                let text = self.display(other)?;
                self.write(&text)
            }
        }
    }

    fn display(&self, value: &Value) -> Result<Vec<u8>, Error> {
        fmt::display(value).or_else(|failure: Failure| self.fail(failure.text()))
    }

    fn branch(&mut self, branches: &'t Branches, dot: Slot, with: bool) -> Result<(), Error> {
        let scope = self.variables.len();
        for (pipe, list) in &branches.branches {
            let value = self.pipeline(&dot, pipe)?;
            if value.is_true() {
                self.enter(Some(*list), if with { value } else { dot }, scope);
                return Ok(());
            }
        }
        self.enter(branches.otherwise, dot, scope);
        Ok(())
    }

    fn range(&mut self, range: &'t Range, dot: Slot) -> Result<(), Error> {
        let scope = self.variables.len();
        let value = self.pipeline(&dot, &range.pipe)?;
        if let Value::Map(map) = value.value() {
            // All entries are copied, even if the loop ends early.
            self.spend_steps(map.len() / 8)?;
        }
        let rounds = match value.value() {
            Value::Int(..) if range.pipe.variables.len() > 1 => {
                let text = self.display(value.value())?;
                let text = String::from_utf8_lossy(&text);
                return self.fail(format!("can't use {text} to iterate over more than one variable"));
            }
            Value::Int(kind, end) => (*end > 0).then_some(Rounds::Count {
                kind: *kind,
                next: 0,
                end: *end,
            }),
            Value::List(items) => (!items.is_empty()).then(|| Rounds::Items {
                items: items.clone(),
                next: 0,
            }),
            Value::Map(map) => (!map.is_empty()).then(|| Rounds::Entries(Box::new(Slot::entries(map)))),
            Value::Nil => None,
            other => {
                let text = self.display(other)?;
                return self.fail(format!("range can't iterate over {}", String::from_utf8_lossy(&text)));
            }
        };
        match rounds {
            Some(rounds) => {
                let body = self.variables.len();
                self.frames.push(Frame::Range {
                    range,
                    rounds,
                    scope,
                    body,
                });
            }
            None => {
                self.frames.push(Frame::Otherwise { scope });
                self.enter(range.otherwise, dot, scope);
            }
        }
        Ok(())
    }

    /// One variable gets the element; two get the index and the element.
    fn set_loop_variables(&mut self, pipe: &'t Pipe, index: Slot, element: &Slot) -> Result<(), Error> {
        let values: &mut dyn Iterator<Item = Slot> = match pipe.variables.len() {
            2.. => &mut [index, element.clone()].into_iter(),
            _ => &mut std::iter::once(element.clone()),
        };
        let top = self.variables.len() - if pipe.assigns { 0 } else { pipe.variables.len() };
        for (at, (name, value)) in pipe.variables.iter().zip(values).enumerate() {
            if pipe.assigns {
                self.assign(name, value)?;
            } else if let Some((_, variable)) = self.variables.get_mut(top + at) {
                *variable = value;
            }
        }
        Ok(())
    }

    fn invoke(&mut self, invocation: &'t Invocation, dot: &Slot) -> Result<(), Error> {
        self.at(invocation);
        let trees = &self.template.trees;
        let Some((name, &list)) = trees.by_name.get_key_value(&invocation.name) else {
            return self.fail(format!(
                "template {} not defined",
                crate::strconv::quote(&invocation.name)
            ));
        };
        if self.depth == MAX_DEPTH {
            return self.fail(format!("exceeded maximum template depth ({MAX_DEPTH})"));
        }
        let dot = match &invocation.pipe {
            Some(pipe) => self.pipeline(dot, pipe)?,
            None => Slot::none(),
        };
        self.frames.push(Frame::Return {
            name: self.name,
            base: self.base,
        });
        self.depth += 1;
        self.name = name;
        // The variables of the caller are not visible in the template.
        self.base = self.variables.len();
        self.variables.push(("$", dot.clone()));
        self.enter(Some(list), dot, self.base);
        Ok(())
    }

    pub(super) fn declare(&mut self, name: &'t str, value: Slot) {
        self.variables.push((name, value));
    }

    /// Assigns to the variable of that name that was declared last.
    pub(super) fn assign(&mut self, name: &'t str, value: Slot) -> Result<(), Error> {
        let at = self.find(name)?;
        if let Some((_, variable)) = self.variables.get_mut(at) {
            *variable = value;
        }
        Ok(())
    }

    pub(super) fn read(&mut self, name: &str) -> Result<Slot, Error> {
        let at = self.find(name)?;
        Ok(self
            .variables
            .get(at)
            .map_or_else(Slot::none, |(_, value)| value.clone()))
    }

    fn find(&mut self, name: &str) -> Result<usize, Error> {
        let own = self.variables.get(self.base..).unwrap_or_default();
        match own.iter().rposition(|(known, _)| *known == name) {
            Some(at) => {
                self.spend_steps((own.len() - at) / 8)?;
                Ok(self.base + at)
            }
            None => self.fail(format!("undefined variable: {name}")),
        }
    }
}
