//! Executes a template: walks its nodes and writes what they give.
//!
//! Nodes that contain others do not recurse but put a frame on a stack of our own, so that templates may invoke each
//! other as deeply as in Go whatever the stack of the thread.

use std::slice;

use super::{
    Error, Template,
    ast::{Branches, Invocation, ListId, Node, Pipe, Place, Range},
    slot::Slot,
};
use crate::{
    format,
    function::Failure,
    value::{IntType, List as Items, Value},
};

/// How deep templates may invoke each other, as in Go.
const MAX_DEPTH: usize = 100_000;
/// Bounds that Go does not have, so that no template takes a server with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How many nodes, commands and rounds of a loop may be gone through.
    pub(super) steps: usize,
    /// How many bytes the output and the results of functions may take in all.
    pub(super) bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: 5_000_000,
            bytes: 256 << 20,
        }
    }
}

pub(super) struct Exec<'t> {
    template: &'t Template,
    inputs: &'t Value,
    out: Vec<u8>,
    frames: Vec<Frame<'t>>,
    /// The name of the template at hand.
    name: &'t [u8],
    variables: Vec<(&'t str, Slot)>,
    /// Where the variables of the template at hand start.
    base: usize,
    depth: usize,
    /// What is being evaluated, for errors.
    place: Option<&'t dyn Place>,
    limits: Limits,
    steps: usize,
    bytes: usize,
}

/// What is left to do.
enum Frame<'t> {
    /// Nodes, and the number of variables to go back to after them.
    List {
        rest: slice::Iter<'t, Node>,
        dot: Slot,
        scope: usize,
    },
    /// Rounds of a loop. The variables of its body start at `body`.
    Range {
        range: &'t Range,
        rounds: Rounds,
        scope: usize,
        body: usize,
    },
    /// The end of what a loop does instead of any round, which a `break` goes to but not a `continue`.
    Otherwise { scope: usize },
    /// The return to the template that invoked the one at hand.
    Return { name: &'t [u8], base: usize },
}

/// What a loop goes over.
enum Rounds {
    Count {
        kind: IntType,
        next: i64,
        end: i64,
    },
    /// Read as it goes: a function may sort the list meanwhile.
    Items {
        items: Items,
        next: usize,
    },
    Entries(Box<dyn Iterator<Item = (Slot, Slot)>>),
}

impl Rounds {
    /// The index or key, if there is such a thing, and the element.
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
    pub(super) fn run(template: &'t Template, inputs: &'t Value, limits: Limits) -> Result<Vec<u8>, Error> {
        let mut exec = Self {
            template,
            inputs,
            out: Vec::new(),
            frames: Vec::new(),
            name: super::NAME.as_bytes(),
            variables: vec![("$", Slot::none())],
            base: 0,
            depth: 0,
            place: None,
            limits,
            steps: 0,
            bytes: 0,
        };
        exec.enter(
            template.trees.by_name.get(super::NAME.as_bytes()).copied(),
            Slot::none(),
            0,
        );
        while exec.step()? {}
        Ok(exec.out)
    }

    pub(super) const fn inputs(&self) -> &'t Value {
        self.inputs
    }

    /// Says what is evaluated from here on.
    pub(super) fn at(&mut self, place: &'t dyn Place) {
        self.place = Some(place);
    }

    pub(super) fn fail<T>(&self, reason: impl AsRef<str>) -> Result<T, Error> {
        Err(Error::execute(
            &self.template.text,
            self.name,
            self.place,
            reason.as_ref(),
        ))
    }

    /// Counts work that takes about as long as `steps` nodes.
    pub(super) fn spend_steps(&mut self, steps: usize) -> Result<(), Error> {
        self.steps += steps;
        match self.limits.steps {
            limit if self.steps > limit => self.fail(format!("exceeded maximum work ({limit} steps)")),
            _ => Ok(()),
        }
    }

    /// Counts memory that was taken, whether it is still in use or not.
    pub(super) fn spend_bytes(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes += bytes;
        match self.limits.bytes {
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

    /// Does the next thing. False when there is nothing left.
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
        format::display(value).or_else(|failure: Failure| self.fail(failure.text()))
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
            // The entries are copied and the loop may end with the first.
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
            Value::List(items) => (items.len() > 0).then(|| Rounds::Items {
                items: items.clone(),
                next: 0,
            }),
            Value::Map(map) => (map.len() > 0).then(|| Rounds::Entries(Box::new(Slot::entries(map)))),
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

    /// One variable takes the element, two take the index and the element.
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
        // No variable of the caller is seen inside.
        self.base = self.variables.len();
        self.variables.push(("$", dot.clone()));
        self.enter(Some(list), dot, self.base);
        Ok(())
    }

    pub(super) fn declare(&mut self, name: &'t str, value: Slot) {
        self.variables.push((name, value));
    }

    /// Gives a new value to the variable that was declared last by that name.
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
