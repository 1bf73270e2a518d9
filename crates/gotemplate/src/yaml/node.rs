//! Tokens to the tree of the first document.

use std::collections::HashMap;

use super::{
    MAX_DEPTH,
    error::{Error, Problem},
    scanner::{Kind, Scanner},
};

/// The index of a node in its [`Document`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id(usize);

#[derive(Debug)]
pub(super) enum Node {
    Scalar {
        value: String,
        /// The tag, with its handle resolved. Collections have none, because go-yaml ignores theirs.
        tag: Option<String>,
        /// Whether it is plain, or tagged with a lone `!`.
        implicit: bool,
    },
    Sequence(Vec<Id>),
    /// Alternating keys and values.
    Mapping(Vec<Id>),
    Alias {
        name: String,
        target: Id,
    },
}

#[derive(Debug)]
pub(super) struct Document {
    nodes: Vec<Node>,
    pub(super) root: Id,
}

impl Document {
    pub(super) fn node(&self, id: Id) -> &Node {
        &self.nodes[id.0]
    }
}

/// Reads the first document; `None` if there is none. The text after it is not read.
pub(super) fn compose(input: &[u8]) -> Result<Option<Document>, Error> {
    // go-yaml replaces an empty input with a line break.
    let input = if input.is_empty() { b"\n" } else { input };
    Composer::new(input).document()
}

/// A collection that is being filled.
#[derive(Debug)]
struct Frame {
    id: Id,
    state: State,
}

/// What a collection expects next.
#[derive(Clone, Copy, Debug)]
enum State {
    BlockSequence,
    /// A sequence as the value of a key, at the same column as the key.
    IndentlessSequence,
    BlockKey,
    BlockValue,
    FlowSequence {
        first: bool,
    },
    /// `[a: b]` is a list of one mapping with one pair.
    PairKey,
    PairValue,
    PairEnd,
    FlowKey {
        first: bool,
    },
    FlowValue,
    /// The key had no `:`.
    FlowEmptyValue,
}

/// Where a node is, which decides what it may be.
#[derive(Clone, Copy, Debug)]
enum Place {
    Block { indentless: bool },
    Flow,
}

/// What a collection needs next.
enum Next {
    Node(Place),
    Empty,
    OpenPair,
    End,
}

struct Composer<'a> {
    scanner: Scanner<'a>,
    nodes: Vec<Node>,
    anchors: HashMap<String, Id>,
    tag_prefixes: Vec<(String, String)>,
    stack: Vec<Frame>,
    too_deep: bool,
}

impl<'a> Composer<'a> {
    fn new(input: &'a [u8]) -> Self {
        Self {
            scanner: Scanner::new(input),
            nodes: Vec::new(),
            anchors: HashMap::new(),
            tag_prefixes: Vec::new(),
            stack: Vec::new(),
            too_deep: false,
        }
    }

    fn document(mut self) -> Result<Option<Document>, Error> {
        self.scanner.next()?;
        let root = match self.scanner.peek()?.kind {
            Kind::StreamEnd => return Ok(None),
            Kind::VersionDirective { .. } | Kind::TagDirective { .. } | Kind::DocumentStart => {
                self.directives()?;
                let token = self.scanner.next()?;
                if token.kind != Kind::DocumentStart {
                    return Err(Problem::parsing(token.line, "did not find expected <document start>").into());
                }
                match self.scanner.peek()?.kind {
                    Kind::VersionDirective { .. }
                    | Kind::TagDirective { .. }
                    | Kind::DocumentStart
                    | Kind::DocumentEnd
                    | Kind::StreamEnd => self.empty(),
                    _ => self.tree()?,
                }
            }
            _ => {
                self.directives()?;
                self.tree()?
            }
        };
        // Any token ends the document.
        self.scanner.peek()?;
        if self.too_deep {
            return Err(Error::Limit("nested too deeply"));
        }
        Ok(Some(Document {
            nodes: self.nodes,
            root,
        }))
    }

    /// The next node, with everything in it. Without recursion, because the text decides how deeply nodes nest.
    fn tree(&mut self) -> Result<Id, Error> {
        let mut done = self.start_node(Place::Block { indentless: false })?;
        loop {
            if let Some(id) = done {
                match self.stack.last() {
                    Some(frame) => {
                        let parent = frame.id;
                        if let Node::Sequence(children) | Node::Mapping(children) = &mut self.nodes[parent.0] {
                            children.push(id);
                        }
                    }
                    None => return Ok(id),
                }
            }
            self.too_deep |= self.stack.len() > MAX_DEPTH;
            done = match self.advance()? {
                Next::Node(place) => self.start_node(place)?,
                Next::Empty => Some(self.empty()),
                Next::OpenPair => self.open(Node::Mapping(Vec::new()), State::PairKey, None),
                Next::End => self.stack.pop().map(|frame| frame.id),
            };
        }
    }

    fn add(&mut self, node: Node) -> Id {
        self.nodes.push(node);
        Id(self.nodes.len() - 1)
    }

    fn empty(&mut self) -> Id {
        self.add(Node::Scalar {
            value: String::new(),
            tag: None,
            implicit: true,
        })
    }

    fn open(&mut self, node: Node, state: State, anchor: Option<String>) -> Option<Id> {
        let id = self.add(node);
        self.anchor(id, anchor);
        self.stack.push(Frame { id, state });
        None
    }

    fn anchor(&mut self, id: Id, name: Option<String>) {
        if let Some(name) = name {
            self.anchors.insert(name, id);
        }
    }

    /// Reads a scalar or alias, which is complete, or the start of a collection, which is not.
    fn start_node(&mut self, place: Place) -> Result<Option<Id>, Error> {
        if let Kind::Alias(_) = self.scanner.peek()?.kind {
            return self.alias().map(Some);
        }
        let (anchor, tag) = self.properties()?;
        let token = self.scanner.peek()?;
        let line = token.line;
        let state = match (&token.kind, place) {
            // The dash remains for the sequence.
            (Kind::BlockEntry, Place::Block { indentless: true }) => {
                return Ok(self.open(Node::Sequence(Vec::new()), State::IndentlessSequence, anchor));
            }
            (Kind::Scalar { .. }, _) => return self.scalar(anchor, tag).map(Some),
            (Kind::FlowSequenceStart, _) => State::FlowSequence { first: true },
            (Kind::FlowMappingStart, _) => State::FlowKey { first: true },
            (Kind::BlockSequenceStart, Place::Block { .. }) => State::BlockSequence,
            (Kind::BlockMappingStart, Place::Block { .. }) => State::BlockKey,
            _ if anchor.is_some() || tag.is_some() => {
                let implicit = tag.is_none();
                let id = self.add(Node::Scalar {
                    value: String::new(),
                    tag,
                    implicit,
                });
                self.anchor(id, anchor);
                return Ok(Some(id));
            }
            _ => return Err(Problem::parsing(line, "did not find expected node content").into()),
        };
        let node = match state {
            State::FlowSequence { .. } | State::BlockSequence => Node::Sequence(Vec::new()),
            _ => Node::Mapping(Vec::new()),
        };
        self.scanner.next()?;
        Ok(self.open(node, state, anchor))
    }

    fn alias(&mut self) -> Result<Id, Error> {
        let Kind::Alias(name) = self.scanner.next()?.kind else {
            return Err(Error::yaml("unknown problem parsing YAML content"));
        };
        match self.anchors.get(&name) {
            Some(&target) => Ok(self.add(Node::Alias { name, target })),
            None => Err(Error::yaml(format!("unknown anchor '{name}' referenced"))),
        }
    }

    fn scalar(&mut self, anchor: Option<String>, tag: Option<String>) -> Result<Id, Error> {
        let Kind::Scalar { value, plain } = self.scanner.next()?.kind else {
            return Err(Error::yaml("unknown problem parsing YAML content"));
        };
        let implicit = tag.as_ref().map_or(plain, |tag| tag == "!");
        let id = self.add(Node::Scalar { value, tag, implicit });
        self.anchor(id, anchor);
        Ok(id)
    }

    /// An anchor and a tag, in either order.
    fn properties(&mut self) -> Result<(Option<String>, Option<String>), Problem> {
        let (mut anchor, mut tag) = (None, None);
        loop {
            match self.scanner.peek()?.kind {
                Kind::Anchor(_) if anchor.is_none() => {
                    if let Kind::Anchor(name) = self.scanner.next()?.kind {
                        anchor = Some(name);
                    }
                }
                Kind::Tag { .. } if tag.is_none() => {
                    let token = self.scanner.next()?;
                    if let Kind::Tag { handle, suffix } = token.kind {
                        tag = Some((handle, suffix, token.line));
                    }
                }
                _ => break,
            }
        }
        let tag = tag
            .map(|(handle, suffix, line)| self.resolve_tag(&handle, suffix, line))
            .transpose()?;
        Ok((anchor, tag))
    }

    fn resolve_tag(&self, handle: &str, suffix: String, line: usize) -> Result<String, Problem> {
        if handle.is_empty() {
            return Ok(suffix);
        }
        self.tag_prefixes
            .iter()
            .find(|(known, _)| known == handle)
            .map(|(_, prefix)| format!("{prefix}{suffix}"))
            .filter(|tag| !tag.is_empty())
            .ok_or_else(|| Problem::parsing(line, "found undefined tag handle"))
    }

    fn directives(&mut self) -> Result<(), Problem> {
        let mut versioned = false;
        while let Kind::VersionDirective { .. } | Kind::TagDirective { .. } = self.scanner.peek()?.kind {
            let token = self.scanner.next()?;
            let refusal = |text| Problem::parsing(token.line, text);
            match token.kind {
                Kind::VersionDirective { .. } if versioned => return Err(refusal("found duplicate %YAML directive")),
                Kind::VersionDirective { major: 1, minor: 1 } => versioned = true,
                Kind::VersionDirective { .. } => return Err(refusal("found incompatible YAML document")),
                Kind::TagDirective { handle, .. } if self.tag_prefixes.iter().any(|(known, _)| *known == handle) => {
                    return Err(refusal("found duplicate %TAG directive"));
                }
                Kind::TagDirective { handle, prefix } => self.tag_prefixes.push((handle, prefix)),
                _ => {}
            }
        }
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            if !self.tag_prefixes.iter().any(|(known, _)| known == handle) {
                self.tag_prefixes.push((handle.to_owned(), prefix.to_owned()));
            }
        }
        Ok(())
    }

    /// Continues the innermost collection.
    fn advance(&mut self) -> Result<Next, Problem> {
        let Some(frame) = self.stack.last_mut() else {
            return Ok(Next::End);
        };
        let scanner = &mut self.scanner;
        let (next, state) = match frame.state {
            State::BlockSequence => (block_sequence(scanner)?, State::BlockSequence),
            State::IndentlessSequence => (indentless_sequence(scanner)?, State::IndentlessSequence),
            State::BlockKey => (block_key(scanner)?, State::BlockValue),
            State::BlockValue => (block_value(scanner)?, State::BlockKey),
            State::FlowSequence { first } => (flow_sequence(scanner, first)?, State::FlowSequence { first: false }),
            State::PairKey => (pair_key(scanner)?, State::PairValue),
            State::PairValue => (pair_value(scanner)?, State::PairEnd),
            State::PairEnd => {
                scanner.peek()?;
                (Next::End, State::PairEnd)
            }
            State::FlowKey { first } => flow_key(scanner, first)?,
            State::FlowValue => (flow_value(scanner)?, State::FlowKey { first: false }),
            State::FlowEmptyValue => {
                scanner.peek()?;
                (Next::Empty, State::FlowKey { first: false })
            }
        };
        frame.state = state;
        Ok(next)
    }
}

/// A node, unless the next token is one that follows it.
fn node_unless(scanner: &mut Scanner<'_>, place: Place, after: &[Kind]) -> Result<Next, Problem> {
    Ok(if after.contains(&scanner.peek()?.kind) {
        Next::Empty
    } else {
        Next::Node(place)
    })
}

fn block_sequence(scanner: &mut Scanner<'_>) -> Result<Next, Problem> {
    let token = scanner.next()?;
    match token.kind {
        Kind::BlockEntry => node_unless(
            scanner,
            Place::Block { indentless: false },
            &[Kind::BlockEntry, Kind::BlockEnd],
        ),
        Kind::BlockEnd => Ok(Next::End),
        _ => Err(Problem::parsing(token.line, "did not find expected '-' indicator")),
    }
}

fn indentless_sequence(scanner: &mut Scanner<'_>) -> Result<Next, Problem> {
    if scanner.peek()?.kind != Kind::BlockEntry {
        return Ok(Next::End);
    }
    scanner.next()?;
    let after = [Kind::BlockEntry, Kind::Key, Kind::Value, Kind::BlockEnd];
    node_unless(scanner, Place::Block { indentless: false }, &after)
}

const AFTER_BLOCK_PART: [Kind; 3] = [Kind::Key, Kind::Value, Kind::BlockEnd];

fn block_key(scanner: &mut Scanner<'_>) -> Result<Next, Problem> {
    let token = scanner.next()?;
    match token.kind {
        Kind::Key => node_unless(scanner, Place::Block { indentless: true }, &AFTER_BLOCK_PART),
        Kind::BlockEnd => Ok(Next::End),
        _ => Err(Problem::parsing(token.line, "did not find expected key")),
    }
}

fn block_value(scanner: &mut Scanner<'_>) -> Result<Next, Problem> {
    if scanner.peek()?.kind != Kind::Value {
        return Ok(Next::Empty);
    }
    scanner.next()?;
    node_unless(scanner, Place::Block { indentless: true }, &AFTER_BLOCK_PART)
}

/// Skips the comma before an entry that is not the first. Returns whether the collection ends instead.
fn flow_entry(scanner: &mut Scanner<'_>, first: bool, end: &Kind, refusal: &str) -> Result<bool, Problem> {
    let token = scanner.peek()?;
    if token.kind != *end && !first {
        if token.kind != Kind::FlowEntry {
            return Err(Problem::parsing(token.line, refusal));
        }
        scanner.next()?;
    }
    let ends = scanner.peek()?.kind == *end;
    if ends {
        scanner.next()?;
    }
    Ok(ends)
}

fn flow_sequence(scanner: &mut Scanner<'_>, first: bool) -> Result<Next, Problem> {
    if flow_entry(
        scanner,
        first,
        &Kind::FlowSequenceEnd,
        "did not find expected ',' or ']'",
    )? {
        return Ok(Next::End);
    }
    if scanner.peek()?.kind == Kind::Key {
        scanner.next()?;
        return Ok(Next::OpenPair);
    }
    Ok(Next::Node(Place::Flow))
}

fn pair_key(scanner: &mut Scanner<'_>) -> Result<Next, Problem> {
    let next = node_unless(
        scanner,
        Place::Flow,
        &[Kind::Value, Kind::FlowEntry, Kind::FlowSequenceEnd],
    )?;
    if let Next::Empty = next {
        // Like libyaml, this consumes the token that it stopped at.
        scanner.next()?;
    }
    Ok(next)
}

fn pair_value(scanner: &mut Scanner<'_>) -> Result<Next, Problem> {
    if scanner.peek()?.kind != Kind::Value {
        return Ok(Next::Empty);
    }
    scanner.next()?;
    node_unless(scanner, Place::Flow, &[Kind::FlowEntry, Kind::FlowSequenceEnd])
}

fn flow_key(scanner: &mut Scanner<'_>, first: bool) -> Result<(Next, State), Problem> {
    if flow_entry(
        scanner,
        first,
        &Kind::FlowMappingEnd,
        "did not find expected ',' or '}'",
    )? {
        return Ok((Next::End, State::FlowKey { first: false }));
    }
    if scanner.peek()?.kind != Kind::Key {
        return Ok((Next::Node(Place::Flow), State::FlowEmptyValue));
    }
    scanner.next()?;
    let next = node_unless(
        scanner,
        Place::Flow,
        &[Kind::Value, Kind::FlowEntry, Kind::FlowMappingEnd],
    )?;
    Ok((next, State::FlowValue))
}

fn flow_value(scanner: &mut Scanner<'_>) -> Result<Next, Problem> {
    if scanner.peek()?.kind != Kind::Value {
        return Ok(Next::Empty);
    }
    scanner.next()?;
    node_unless(scanner, Place::Flow, &[Kind::FlowEntry, Kind::FlowMappingEnd])
}
