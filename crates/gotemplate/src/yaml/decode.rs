//! Nodes to values, as go-yaml decodes into an `interface {}`.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::{self, Write as _},
    sync::LazyLock,
};

use data_encoding::Encoding;

use super::{
    MAX_BYTES, MAX_DEPTH,
    error::Error,
    node::{Document, Id, Node},
    resolve::{BINARY, MERGE, Meaning, resolve},
};
use crate::strconv::{format_general, quote};

/// A decoded value.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    /// Bytes, because `!!binary` need not be UTF-8.
    Text(Vec<u8>),
    List(Vec<Item>),
    Map(BTreeMap<Key, Item>),
}

/// A key: any value except lists and maps. The types are ordered as Go's `%#v` prints them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Null,
    Text(Vec<u8>),
    Uint(u64),
    Int(i64),
    /// The bits of the number.
    Float(u64),
    Bool(bool),
}

pub(super) fn decode(document: &Document) -> Result<Item, Error> {
    // One for the document, which go-yaml counts too.
    let mut decoder = Decoder {
        document,
        active: HashSet::new(),
        steps: 1,
        alias_steps: 0,
        alias_depth: 0,
        depth: 0,
        bytes: 0,
    };
    decoder.item(document.root)
}

struct Decoder<'a> {
    document: &'a Document,
    /// Aliases that are being expanded.
    active: HashSet<Id>,
    steps: u32,
    alias_steps: u32,
    alias_depth: u32,
    depth: usize,
    /// How many bytes of text were copied. Go shares strings and need not count.
    bytes: usize,
}

impl Decoder<'_> {
    fn item(&mut self, id: Id) -> Result<Item, Error> {
        self.step()?;
        match self.document.node(id) {
            Node::Alias { name, target } => self.alias(id, name, |decoder| decoder.item(*target)),
            Node::Scalar { value, tag, implicit } => self.scalar(value, tag.as_deref(), *implicit),
            Node::Sequence(children) => self.nested(|decoder| {
                children
                    .iter()
                    .map(|child| decoder.item(*child))
                    .collect::<Result<_, _>>()
                    .map(Item::List)
            }),
            Node::Mapping(children) => {
                let mut map = BTreeMap::new();
                self.nested(|decoder| decoder.mapping(children, &mut map))?;
                Ok(Item::Map(map))
            }
        }
    }

    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth == MAX_DEPTH {
            return Err(Error::Limit("nested too deeply"));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// Of equal keys the last one wins. Merged keys also replace those before them.
    fn mapping(&mut self, children: &[Id], map: &mut BTreeMap<Key, Item>) -> Result<(), Error> {
        for pair in children.chunks_exact(2) {
            if self.is_merge(pair[0]) {
                self.merge(pair[1], map)?;
                continue;
            }
            let key = match self.item(pair[0])? {
                Item::Null => Key::Null,
                Item::Bool(value) => Key::Bool(value),
                Item::Int(number) => Key::Int(number),
                Item::Uint(number) => Key::Uint(number),
                Item::Float(number) => Key::Float(number.to_bits()),
                Item::Text(text) => Key::Text(text),
                collection => return Err(Error::yaml(format!("invalid map key: {collection}"))),
            };
            let value = self.item(pair[1])?;
            map.insert(key, value);
        }
        Ok(())
    }

    fn is_merge(&self, key: Id) -> bool {
        match self.document.node(key) {
            Node::Scalar { value, tag, implicit } => value == "<<" && (*implicit || tag.as_deref() == Some(MERGE)),
            _ => false,
        }
    }

    fn merge(&mut self, value: Id, map: &mut BTreeMap<Key, Item>) -> Result<(), Error> {
        match self.document.node(value) {
            // In reverse, because the first map of the list wins.
            Node::Sequence(children) => children.iter().rev().try_for_each(|child| self.merge_one(*child, map)),
            _ => self.merge_one(value, map),
        }
    }

    fn merge_one(&mut self, id: Id, map: &mut BTreeMap<Key, Item>) -> Result<(), Error> {
        let no_map = || Error::yaml("map merge requires map or sequence of maps as the value");
        match self.document.node(id) {
            Node::Mapping(children) => {
                self.step()?;
                self.nested(|decoder| decoder.mapping(children, map))
            }
            Node::Alias { name, target } => {
                let Node::Mapping(children) = self.document.node(*target) else {
                    return Err(no_map());
                };
                self.step()?;
                self.alias(id, name, |decoder| {
                    decoder.step()?;
                    decoder.nested(|decoder| decoder.mapping(children, map))
                })
            }
            _ => Err(no_map()),
        }
    }

    fn alias<T>(&mut self, id: Id, name: &str, expand: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if !self.active.insert(id) {
            return Err(Error::yaml(format!("anchor '{name}' value contains itself")));
        }
        self.alias_depth += 1;
        let result = expand(self);
        self.alias_depth -= 1;
        self.active.remove(&id);
        result
    }

    fn scalar(&mut self, value: &str, tag: Option<&str>, implicit: bool) -> Result<Item, Error> {
        let text = |decoder: &mut Self, bytes: Vec<u8>| {
            decoder.bytes += bytes.len();
            if decoder.bytes > MAX_BYTES {
                Err(Error::Limit("too large"))
            } else {
                Ok(Item::Text(bytes))
            }
        };
        if tag.is_none() && !implicit {
            return text(self, value.into());
        }
        if tag == Some(BINARY) {
            let Some(bytes) = base64(value) else {
                return Err(Error::yaml("!!binary value contains invalid base64 data"));
            };
            return text(self, bytes);
        }
        match resolve(tag, value)? {
            Meaning::Null => Ok(Item::Null),
            Meaning::Bool(value) => Ok(Item::Bool(value)),
            Meaning::Int(number) => Ok(Item::Int(number)),
            Meaning::Uint(number) => Ok(Item::Uint(number)),
            Meaning::Float(number) => Ok(Item::Float(number)),
            Meaning::Timestamp | Meaning::Text => text(self, value.into()),
        }
    }

    /// Counts a step, and rejects a document if too many of its steps come from aliases. The allowed share shrinks as the number
    /// of steps grows.
    fn step(&mut self) -> Result<(), Error> {
        self.steps += 1;
        if self.alias_depth > 0 {
            self.alias_steps += 1;
        }
        if self.alias_steps > 100 && self.steps > 1000 {
            const LOW: f64 = 400_000.0;
            const HIGH: f64 = 4_000_000.0;
            let steps = f64::from(self.steps);
            let allowed = 0.99 - 0.89 * ((steps - LOW) / (HIGH - LOW)).clamp(0.0, 1.0);
            if f64::from(self.alias_steps) / steps > allowed {
                return Err(Error::yaml("document contains excessive aliasing"));
            }
        }
        Ok(())
    }
}

/// Go's `base64.StdEncoding`: line breaks are skipped, padding is required, unused bits are ignored.
fn base64(text: &str) -> Option<Vec<u8>> {
    static ENCODING: LazyLock<Option<Encoding>> = LazyLock::new(|| {
        let mut specification = data_encoding::BASE64.specification();
        specification.ignore.push_str("\r\n");
        specification.check_trailing_bits = false;
        specification.encoding().ok()
    });
    ENCODING.as_ref()?.decode(text.as_bytes()).ok()
}

/// The key as Go's `%#v` prints it.
impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("interface {}(nil)"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Uint(number) => write!(f, "{number:#x}"),
            Self::Float(number) => f.write_str(&format_general(*number)),
            Self::Text(text) => f.write_str(&quote(text)),
            Self::List(items) => {
                f.write_str("[]interface {}{")?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at == 0 { "" } else { ", " })?;
                }
                f.write_char('}')
            }
            Self::Map(entries) => {
                f.write_str("map[interface {}]interface {}{")?;
                for (at, (key, item)) in entries.iter().enumerate() {
                    write!(
                        f,
                        "{}{}:{item}",
                        if at == 0 { "" } else { ", " },
                        key.clone().into_item()
                    )?;
                }
                f.write_char('}')
            }
        }
    }
}

impl Key {
    pub(super) fn into_item(self) -> Item {
        match self {
            Self::Null => Item::Null,
            Self::Bool(value) => Item::Bool(value),
            Self::Int(number) => Item::Int(number),
            Self::Uint(number) => Item::Uint(number),
            Self::Float(bits) => Item::Float(f64::from_bits(bits)),
            Self::Text(text) => Item::Text(text),
        }
    }
}
