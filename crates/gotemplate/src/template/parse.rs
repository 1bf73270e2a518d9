//! Builds the tree of a template from its tokens, and reports syntax errors.
//!
//! Open control structures are kept on an explicit stack, so only parentheses recurse.

use std::collections::HashMap;

use super::{
    Error,
    ast::{Branches, Command, Invocation, List, ListId, Node, Pipe, Range, Term, TermKind, Trees},
    call::Callee,
    lex::{Keyword, Kind, Lexer, Token},
    number::Number,
    options::Options,
};
use crate::strconv::{quote, unquote};

/// How deeply parentheses may nest. Go's limit is 10,000.
const MAX_PARENS: usize = 100;

pub(super) fn parse(name: &str, text: &str, options: &Options) -> Result<Trees, Error> {
    let mut parser = Parser {
        name,
        options,
        lexer: Lexer::new(text, &options.delimiters),
        tree: Tree::default(),
        list: List::new(),
        open: Vec::new(),
        trees: Trees {
            lists: Vec::new(),
            by_name: HashMap::new(),
        },
    };
    parser.whole()?;
    Ok(parser.trees)
}

struct Parser<'t> {
    /// The name of the whole template.
    name: &'t str,
    options: &'t Options,
    lexer: Lexer<'t>,
    tree: Tree<'t>,
    /// The nodes since the innermost structure was opened.
    list: List,
    open: Vec<Open<'t>>,
    trees: Trees,
}

/// A structure without its `end` so far.
struct Open<'t> {
    structure: Structure<'t>,
    /// The nodes before it, in the list that it is part of.
    outer: List,
}

enum Structure<'t> {
    /// `if` or `with`. `pipe` belongs to the current branch; `None` is the final `else`.
    Branches {
        keyword: Keyword,
        pipe: Option<Pipe>,
        branches: Vec<(Pipe, ListId)>,
        scope: usize,
    },
    /// `range`, with its body after an `else`.
    Range {
        pipe: Pipe,
        body: Option<ListId>,
        scope: usize,
    },
    /// `define`.
    Definition { name: Box<[u8]>, outer: Tree<'t> },
    /// `block`, with the invocation that it stands for.
    Block { invocation: Invocation, outer: Tree<'t> },
}

/// The state of the template that is being read. A definition has its own.
#[derive(Default)]
struct Tree<'t> {
    /// Tokens that were put back, the next one last.
    pending: Vec<Token<'t>>,
    /// The line of the last token, which errors refer to.
    line: usize,
    /// The line where the current action started.
    action_line: Option<usize>,
    variables: Variables,
    ranges: usize,
    parens: usize,
}

/// The variables in scope, except `$`.
#[derive(Default)]
struct Variables {
    stack: Vec<Box<str>>,
    /// How often each name is on the stack, for fast lookup.
    count: HashMap<Box<str>, usize>,
}

impl Variables {
    fn push(&mut self, name: &str) {
        self.stack.push(name.into());
        *self.count.entry(name.into()).or_default() += 1;
    }

    fn truncate(&mut self, length: usize) {
        for name in self.stack.drain(length..) {
            if let Some(count) = self.count.get_mut(&name) {
                *count -= 1;
            }
        }
    }

    fn contains(&self, name: &str) -> bool {
        name == "$" || self.count.get(name).is_some_and(|&count| count > 0)
    }
}

/// The meaning of an action.
enum Item<'t> {
    Node(Node),
    Open(Structure<'t>),
    Stop(Stop),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    Else,
    End,
}

impl Stop {
    const fn text(self) -> &'static str {
        match self {
            Self::Else => "{{else}}",
            Self::End => "{{end}}",
        }
    }
}

impl<'t> Parser<'t> {
    fn next(&mut self) -> Token<'t> {
        self.tree.pending.pop().unwrap_or_else(|| {
            let token = self.lexer.next();
            self.tree.line = token.line;
            token
        })
    }

    fn back(&mut self, token: Token<'t>) {
        self.tree.pending.push(token);
    }

    fn peek(&mut self) -> Token<'t> {
        let token = self.next();
        self.back(token.clone());
        token
    }

    fn next_non_space(&mut self) -> Token<'t> {
        loop {
            let token = self.next();
            if token.kind != Kind::Space {
                return token;
            }
        }
    }

    fn peek_non_space(&mut self) -> Token<'t> {
        let token = self.next_non_space();
        self.back(token.clone());
        token
    }

    fn error<T>(&self, reason: impl AsRef<str>) -> Result<T, Error> {
        Err(Error::parse(self.name, self.tree.line, reason.as_ref()))
    }

    fn unexpected<T>(&self, token: &Token<'_>, context: &str) -> Result<T, Error> {
        if token.kind != Kind::Error {
            return self.error(format!("unexpected {} in {context}", token.describe()));
        }
        let message = &token.text;
        match self.tree.action_line.filter(|&line| line != token.line) {
            Some(line) if message.ends_with(" action") => {
                self.error(format!("{message} started at {}:{line}", self.name))
            }
            Some(line) => self.error(format!("{message} in action started at {}:{line}", self.name)),
            None => self.error(message),
        }
    }

    fn expect(&mut self, kind: Kind, context: &str) -> Result<Token<'t>, Error> {
        let token = self.next_non_space();
        if token.kind == kind {
            Ok(token)
        } else {
            self.unexpected(&token, context)
        }
    }

    /// The whole text.
    fn whole(&mut self) -> Result<(), Error> {
        loop {
            if self.open.is_empty() {
                let token = self.peek();
                if token.kind == Kind::End {
                    let list = self.finish_list(List::new());
                    return self.add(self.name.as_bytes().into(), list);
                }
                if token.kind == Kind::LeftDelim && self.definition()? {
                    continue;
                }
            } else if self.peek_non_space().kind == Kind::End {
                return self.error("unexpected EOF");
            }
            self.item()?;
        }
    }

    /// Opens a definition, if the next action is one. Definitions are allowed at the top level only.
    fn definition(&mut self) -> Result<bool, Error> {
        const CONTEXT: &str = "define clause";
        let delim = self.next();
        let token = self.next_non_space();
        if token.kind != Kind::Keyword(Keyword::Define) {
            self.back(token);
            self.back(delim);
            return Ok(false);
        }
        let outer = std::mem::take(&mut self.tree);
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        self.expect(Kind::RightDelim, CONTEXT)?;
        self.open(Structure::Definition { name, outer });
        Ok(true)
    }

    fn open(&mut self, structure: Structure<'t>) {
        let outer = std::mem::take(&mut self.list);
        self.open.push(Open { structure, outer });
    }

    /// Stores the nodes read so far as a list, and continues with other nodes.
    fn finish_list(&mut self, next: List) -> ListId {
        let list = std::mem::replace(&mut self.list, next);
        self.trees.lists.push(list);
        ListId(self.trees.lists.len() - 1)
    }

    /// Adds a template. A blank one is replaced by another one of the same name.
    fn add(&mut self, name: Box<[u8]>, list: ListId) -> Result<(), Error> {
        let known = self.trees.by_name.get(&name);
        if known.is_none_or(|known| is_blank(self.trees.list(*known))) {
            self.trees.by_name.insert(name, list);
        } else if !is_blank(self.trees.list(list)) {
            return self.error(format!("template: multiple definition of template {}", quote(&name)));
        }
        Ok(())
    }

    /// A piece of text or an action.
    fn item(&mut self) -> Result<(), Error> {
        let token = self.next_non_space();
        match token.kind {
            Kind::Text => self.list.push(Node::Text(token.text.into())),
            Kind::LeftDelim => {
                self.tree.action_line = Some(token.line);
                match self.action()? {
                    // Errors refer to this action until the next one starts.
                    Item::Open(structure) => self.open(structure),
                    Item::Node(node) => {
                        self.tree.action_line = None;
                        self.list.push(node);
                    }
                    Item::Stop(stop) => {
                        self.tree.action_line = None;
                        self.close(stop)?;
                    }
                }
            }
            _ => return self.unexpected(&token, "input"),
        }
        Ok(())
    }

    fn action(&mut self) -> Result<Item<'t>, Error> {
        let token = self.next_non_space();
        let Kind::Keyword(keyword) = token.kind else {
            self.back(token);
            return Ok(Item::Node(Node::Action(self.pipeline("command", Kind::RightDelim)?)));
        };
        let scope = self.tree.variables.stack.len();
        Ok(match keyword {
            Keyword::Block => Item::Open(self.block()?),
            Keyword::Break => Item::Node(self.loop_control("{{break}}", Node::Break)?),
            Keyword::Continue => Item::Node(self.loop_control("{{continue}}", Node::Continue)?),
            Keyword::Else => {
                // `close` reads an `if` or `with` after it.
                if !matches!(self.peek_non_space().kind, Kind::Keyword(Keyword::If | Keyword::With)) {
                    self.expect(Kind::RightDelim, "else")?;
                }
                Item::Stop(Stop::Else)
            }
            Keyword::End => {
                self.expect(Kind::RightDelim, "end")?;
                Item::Stop(Stop::End)
            }
            Keyword::If | Keyword::With => {
                let pipe = Some(self.branch_condition(keyword)?);
                Item::Open(Structure::Branches {
                    keyword,
                    pipe,
                    branches: Vec::new(),
                    scope,
                })
            }
            Keyword::Range => {
                let pipe = self.pipeline("range", Kind::RightDelim)?;
                self.tree.ranges += 1;
                Item::Open(Structure::Range {
                    pipe,
                    body: None,
                    scope,
                })
            }
            Keyword::Template => Item::Node(self.invocation()?),
            Keyword::Define | Keyword::Dot | Keyword::Nil => {
                self.back(token);
                Item::Node(Node::Action(self.pipeline("command", Kind::RightDelim)?))
            }
        })
    }

    fn branch_condition(&mut self, keyword: Keyword) -> Result<Pipe, Error> {
        self.pipeline(if keyword == Keyword::If { "if" } else { "with" }, Kind::RightDelim)
    }

    /// Ends the innermost structure, or its part before an `else`.
    fn close(&mut self, stop: Stop) -> Result<(), Error> {
        let Some(Open { structure, outer }) = self.open.pop() else {
            return self.error(format!("unexpected {}", stop.text()));
        };
        let list = self.finish_list(outer);
        match (structure, stop) {
            (
                Structure::Branches {
                    keyword,
                    pipe: Some(pipe),
                    mut branches,
                    scope,
                },
                _,
            ) => {
                branches.push((pipe, list));
                match stop {
                    Stop::End => self.close_branches(keyword, branches, None, scope),
                    Stop::Else => self.next_branch(keyword, branches, scope)?,
                }
            }
            (
                Structure::Range {
                    pipe,
                    body: None,
                    scope,
                },
                _,
            ) => {
                self.tree.ranges -= 1;
                match stop {
                    Stop::End => self.close_range(pipe, list, None, scope),
                    Stop::Else => {
                        let body = Some(list);
                        self.open(Structure::Range { pipe, body, scope });
                    }
                }
            }
            (Structure::Branches { .. } | Structure::Range { .. }, Stop::Else) => {
                return self.error(format!("expected end; found {}", stop.text()));
            }
            (
                Structure::Branches {
                    keyword,
                    branches,
                    scope,
                    ..
                },
                Stop::End,
            ) => self.close_branches(keyword, branches, Some(list), scope),
            (Structure::Range { pipe, body, scope }, Stop::End) => {
                self.close_range(pipe, body.unwrap_or(list), Some(list), scope);
            }
            (Structure::Definition { name, outer }, _) => self.close_definition(name, list, outer, stop)?,
            (Structure::Block { invocation, outer }, _) => self.close_block(invocation, list, outer, stop)?,
        }
        Ok(())
    }

    /// Opens the branch after an `else`, which may have a condition of its own.
    fn next_branch(&mut self, keyword: Keyword, branches: Vec<(Pipe, ListId)>, scope: usize) -> Result<(), Error> {
        let pipe = if self.peek().kind == Kind::Keyword(keyword) {
            self.next();
            Some(self.branch_condition(keyword)?)
        } else {
            None
        };
        self.open(Structure::Branches {
            keyword,
            pipe,
            branches,
            scope,
        });
        Ok(())
    }

    fn close_definition(&mut self, name: Box<[u8]>, list: ListId, outer: Tree<'t>, stop: Stop) -> Result<(), Error> {
        if stop == Stop::Else {
            return self.error(format!("unexpected {} in define clause", stop.text()));
        }
        self.add(name, list)?;
        self.tree = outer;
        Ok(())
    }

    fn close_block(&mut self, invocation: Invocation, list: ListId, outer: Tree<'t>, stop: Stop) -> Result<(), Error> {
        if stop == Stop::End {
            self.add(invocation.name.clone(), list)?;
        }
        self.tree = outer;
        if stop == Stop::Else {
            return self.error(format!("unexpected {} in block clause", stop.text()));
        }
        self.tree.action_line = None;
        self.list.push(Node::Template(invocation));
        Ok(())
    }

    fn close_branches(
        &mut self,
        keyword: Keyword,
        branches: Vec<(Pipe, ListId)>,
        otherwise: Option<ListId>,
        scope: usize,
    ) {
        self.tree.variables.truncate(scope);
        let branches = Branches { branches, otherwise };
        self.list.push(if keyword == Keyword::If {
            Node::If(branches)
        } else {
            Node::With(branches)
        });
    }

    fn close_range(&mut self, pipe: Pipe, body: ListId, otherwise: Option<ListId>, scope: usize) {
        self.tree.variables.truncate(scope);
        self.list.push(Node::Range(Range { pipe, body, otherwise }));
    }

    fn loop_control(&mut self, text: &str, node: Node) -> Result<Node, Error> {
        self.expect(Kind::RightDelim, text)?;
        if self.tree.ranges == 0 {
            return self.error(format!("{text} outside {{{{range}}}}"));
        }
        Ok(node)
    }

    /// The rest of a `block` action: a definition and its invocation.
    fn block(&mut self) -> Result<Structure<'t>, Error> {
        const CONTEXT: &str = "block clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, Kind::RightDelim)?;
        let invocation = Invocation {
            pos: token.pos,
            name,
            pipe: Some(pipe),
        };
        Ok(Structure::Block {
            invocation,
            outer: std::mem::take(&mut self.tree),
        })
    }

    /// The rest of a `template` action.
    fn invocation(&mut self) -> Result<Node, Error> {
        const CONTEXT: &str = "template clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        let next = self.next_non_space();
        let pipe = if next.kind == Kind::RightDelim {
            None
        } else {
            self.back(next);
            Some(self.pipeline(CONTEXT, Kind::RightDelim)?)
        };
        Ok(Node::Template(Invocation {
            pos: token.pos,
            name,
            pipe,
        }))
    }

    fn template_name(&self, token: &Token<'_>, context: &str) -> Result<Box<[u8]>, Error> {
        match token.kind {
            Kind::String | Kind::RawString => Ok(self.unquote(&token.text)?.into()),
            _ => self.unexpected(token, context),
        }
    }

    fn unquote(&self, quoted: &str) -> Result<Vec<u8>, Error> {
        unquote(quoted).map_or_else(|| self.error("invalid syntax"), Ok)
    }

    fn pipeline(&mut self, context: &str, end: Kind) -> Result<Pipe, Error> {
        let pos = self.peek_non_space().pos;
        let (variables, assigns) = self.declarations(context)?;
        let mut commands = Vec::new();
        loop {
            let token = self.next_non_space();
            match token.kind {
                kind if kind == end => break,
                Kind::Bool
                | Kind::CharConstant
                | Kind::Complex
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::RawString
                | Kind::String
                | Kind::Variable
                | Kind::LeftParen
                | Kind::Keyword(Keyword::Dot | Keyword::Nil) => {
                    self.back(token);
                    commands.push(self.command()?);
                }
                _ => return self.unexpected(&token, context),
            }
        }
        if commands.is_empty() {
            return self.error(format!("missing value for {context}"));
        }
        if let Some(stage) = commands
            .iter()
            .skip(1)
            .position(|command| !command.first.is_executable())
        {
            return self.error(format!("non executable command in pipeline stage {}", stage + 2));
        }
        Ok(Pipe {
            pos,
            variables,
            assigns,
            commands,
        })
    }

    /// The variables that a pipeline starts with: `$x :=`, `$x =`, and in a range `$i, $x :=`.
    fn declarations(&mut self, context: &str) -> Result<(Vec<Box<str>>, bool), Error> {
        let mut variables = Vec::new();
        loop {
            let variable = self.next_non_space();
            if variable.kind != Kind::Variable {
                self.back(variable);
                return Ok((variables, false));
            }
            let adjacent = self.peek();
            let next = self.next_non_space();
            let comma = next.kind == Kind::Char && next.text == ",";
            if !comma && !matches!(next.kind, Kind::Assign | Kind::Declare) {
                // A use, not a declaration: put everything back, including a blank.
                self.back(next);
                if adjacent.kind == Kind::Space {
                    self.back(adjacent);
                }
                self.back(variable);
                return Ok((variables, false));
            }
            self.tree.variables.push(&variable.text);
            variables.push(variable.text.into());
            if !comma {
                return Ok((variables, next.kind == Kind::Assign));
            }
            if context != "range" || variables.len() > 1 {
                return self.error(format!("too many declarations in {context}"));
            }
            if !matches!(
                self.peek_non_space().kind,
                Kind::Variable | Kind::RightDelim | Kind::RightParen
            ) {
                return self.error("range can only initialize variables");
            }
        }
    }

    /// A term with its arguments, and the `|` after it.
    fn command(&mut self) -> Result<Command, Error> {
        let pos = self.peek_non_space().pos;
        let mut terms = Vec::new();
        loop {
            terms.extend(self.operand()?);
            let token = self.next();
            match token.kind {
                Kind::Space => {}
                Kind::Pipe => break,
                Kind::RightDelim | Kind::RightParen => {
                    self.back(token);
                    break;
                }
                _ => return self.unexpected(&token, "operand"),
            }
        }
        let mut terms = terms.into_iter();
        match terms.next() {
            Some(first) => Ok(Command {
                pos,
                first,
                args: terms.collect(),
            }),
            None => self.error("empty command"),
        }
    }

    /// A term with the fields after it. `None` if the next token does not start a term.
    fn operand(&mut self) -> Result<Option<Term>, Error> {
        let Some(term) = self.term()? else { return Ok(None) };
        let first = self.peek();
        if first.kind != Kind::Field {
            return Ok(Some(term));
        }
        let mut fields = Vec::new();
        while self.peek().kind == Kind::Field {
            fields.push(field_name(&self.next()));
        }
        let kind = match term.kind {
            TermKind::Field(mut all) => {
                all.append(&mut fields);
                TermKind::Field(all)
            }
            TermKind::Variable { name, .. } => TermKind::Variable { name, fields },
            TermKind::Function { .. } | TermKind::Pipe(_) => TermKind::Chain {
                of: Box::new(term),
                fields,
            },
            _ => {
                let term = quote(term.to_string().as_bytes());
                return self.error(format!("unexpected . after term {term}"));
            }
        };
        Ok(Some(Term { pos: first.pos, kind }))
    }

    fn term(&mut self) -> Result<Option<Term>, Error> {
        let token = self.next_non_space();
        let number = |number: Result<Number, String>| match number {
            Ok(number) => Ok(TermKind::Number {
                text: token.text.as_ref().into(),
                number,
            }),
            Err(reason) => self.error(reason),
        };
        let kind = match token.kind {
            Kind::Identifier => match Callee::find(&token.text, &self.options.functions) {
                Some(callee) => TermKind::Function {
                    name: token.text.as_ref().into(),
                    callee,
                },
                None => return self.error(format!("function {} not defined", quote(token.text.as_bytes()))),
            },
            Kind::Keyword(Keyword::Dot) => TermKind::Dot,
            Kind::Keyword(Keyword::Nil) => TermKind::Nil,
            Kind::Variable if !self.tree.variables.contains(&token.text) => {
                return self.error(format!("undefined variable {}", quote(token.text.as_bytes())));
            }
            Kind::Variable => TermKind::Variable {
                name: token.text.as_ref().into(),
                fields: Vec::new(),
            },
            Kind::Field => TermKind::Field(vec![field_name(&token)]),
            Kind::Bool => TermKind::Bool(token.text == "true"),
            Kind::CharConstant => number(Number::from_char(&token.text))?,
            Kind::Complex => number(Number::from_complex(&token.text))?,
            Kind::Number => number(Number::parse(&token.text))?,
            Kind::String | Kind::RawString => {
                let text = self.unquote(&token.text)?.into();
                TermKind::String {
                    quoted: token.text.as_ref().into(),
                    text,
                }
            }
            Kind::LeftParen => {
                if self.tree.parens >= MAX_PARENS {
                    return self.error("max expression depth exceeded");
                }
                self.tree.parens += 1;
                let pipe = self.pipeline("parenthesized pipeline", Kind::RightParen)?;
                self.tree.parens -= 1;
                return Ok(Some(Term {
                    pos: pipe.pos,
                    kind: TermKind::Pipe(Box::new(pipe)),
                }));
            }
            _ => {
                self.back(token);
                return Ok(None);
            }
        };
        Ok(Some(Term { pos: token.pos, kind }))
    }
}

fn field_name(token: &Token<'_>) -> Box<str> {
    token.text.strip_prefix('.').unwrap_or(&token.text).into()
}

/// Whether there is only white space.
fn is_blank(list: &[Node]) -> bool {
    list.iter()
        .all(|node| matches!(node, Node::Text(text) if text.trim().is_empty()))
}
