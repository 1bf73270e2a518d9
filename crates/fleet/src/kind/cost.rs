//! The cost of a kind: the memory of its compiled schema, and the work of validating one document. Every replica compiles every
//! kind at every start, so a request that puts a kind is refused if the kind costs too much. Stored kinds are always read.

use std::collections::HashMap;

use jsonschema_regex::to_rust_regex;
use regex_automata::dfa::{StartKind, dense};
use regex_automata::meta;
use regex_automata::nfa::thompson::{self, NFA};
use serde_json::Value;

use super::schema::base_id;
use crate::refusal::{Violation, segment};

/// The most kinds. The clusters' schema has an array for each.
pub(super) const MOST_KINDS: usize = 500;
/// The most bytes of the documents of all kinds together. They are in the OpenAPI document, which needs no token.
pub(super) const MOST_TEXT: usize = 4 << 20;
/// The most memory of one kind and of all kinds, approximately.
pub(super) const MOST_WEIGHT: usize = 8 << 20;
pub(super) const MOST_WEIGHT_OF_ALL: usize = 48 << 20;
/// The most work for a single place in a document: schemas that apply to it at once, and patterns.
pub(super) const MOST_WIDTH: usize = 8192;

/// The largest compiled pattern, in bytes.
const MOST_PATTERN: usize = 512 << 10;
/// The largest automaton of a fast pattern, in bytes. A fast pattern takes one step per byte of a text, because its automaton
/// stays in the cache; a slow one takes up to as many steps as it has states. `^.{1,255}$` is far below, `x[a-z]{0,99}y` far
/// above.
const MOST_AUTOMATON: usize = 1 << 20;

/// The memory of the smaller parts, approximately.
const OF_A_SCHEMA: usize = 1024;
const OF_A_KEYWORD: usize = 512;
const OF_UNEVALUATED: usize = 8 << 10;
const OF_A_VALUE: usize = 128;
const OF_A_PATTERN: usize = 8 << 10;

/// The width of a schema or a fast pattern, and the bytes of a slow pattern that count as one.
const SCHEMA_WIDTH: usize = 8;
const SLOW_PER_WIDTH: usize = 2;
/// `unevaluatedProperties` validates the document against its siblings again, and nested ones multiply.
const UNEVALUATED: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// The memory in bytes, approximately.
    pub(crate) weight: usize,
    /// The most work for one place in a document: schemas, and states of patterns.
    pub(crate) width: usize,
    /// The most schemas for one place: each can report a problem.
    pub(crate) schemas: usize,
}

impl Cost {
    /// More than each built-in kind costs. They are not weighed, because every start has them and weighing takes memory. The
    /// clusters' references are weighed with the kinds that they are of.
    pub(super) const OF_OURS: Cost = Cost {
        weight: MOST_WEIGHT / 8,
        width: MOST_WIDTH / 4,
        schemas: 100,
    };

    /// Whether a document may have too many problems to list: all of them are in memory before the first is reported.
    pub(super) fn may_be_flooded(&self, document: &Value) -> bool {
        const MOST_PROBLEMS: usize = 100_000;
        self.schemas.saturating_mul(values(document)) > MOST_PROBLEMS
    }
}

/// The most work for one place in a document.
#[derive(Clone, Copy, Default)]
struct Place {
    width: usize,
    schemas: usize,
}

impl Place {
    fn beside(self, other: Place) -> Place {
        Place {
            width: self.width.saturating_add(other.width),
            schemas: self.schemas.saturating_add(other.schemas),
        }
    }

    fn or(self, other: Place) -> Place {
        Place {
            width: self.width.max(other.width),
            schemas: self.schemas.max(other.schemas),
        }
    }

    fn of_width(width: usize) -> Place {
        Place { width, schemas: 0 }
    }

    fn times(self, count: usize) -> Place {
        Place {
            width: self.width.saturating_mul(count),
            schemas: self.schemas.saturating_mul(count),
        }
    }
}

/// Adds up the cost of a kind.
pub(super) struct Scales {
    weight: usize,
    /// The most weight. Weighing stops beyond it.
    most: usize,
    /// The width of each pattern seen so far: each is compiled once.
    patterns: HashMap<String, usize>,
    /// The place where the weight exceeded the limit.
    pub(super) too_heavy: Option<Violation>,
    /// Parts that are refused whatever the kind weighs.
    pub(super) faults: Vec<Violation>,
}

impl Scales {
    pub(super) fn new(most: usize) -> Self {
        Scales {
            weight: 0,
            most,
            patterns: HashMap::new(),
            too_heavy: None,
            faults: Vec::new(),
        }
    }

    /// Weighs a kind: its document, and its schema, which is at `pointer`.
    pub(super) fn kind(&mut self, document: &Value, schema: &Value, pointer: &str) -> Cost {
        self.settings(document);
        let Place { width, schemas } = self.schema(schema, pointer);
        Cost {
            weight: self.weight,
            width,
            schemas,
        }
    }

    /// Weighs the patterns of `x-flux`, which are compiled when they are read.
    pub(super) fn settings(&mut self, document: &Value) {
        let rules = document.pointer("/schema/x-flux/renders").and_then(Value::as_array);
        for (n, rule) in rules.into_iter().flatten().enumerate() {
            let at = format!("/schema/x-flux/renders/{n}");
            let when = rule.get("when").and_then(Value::as_object).into_iter().flatten();
            let when = when.map(|(field, pattern)| (format!("{at}/when{}", segment(field)), pattern));
            let others = ["patch_keys", "patch_values"];
            let others = others
                .iter()
                .filter_map(|key| Some((format!("{at}/{key}"), rule.get(key)?)));
            for (pointer, pattern) in when.chain(others) {
                let pattern = pattern.as_str().unwrap_or_default();
                self.pattern(pattern, pattern, &pointer);
            }
        }
    }

    fn is_full(&self) -> bool {
        self.weight > self.most
    }

    fn add(&mut self, bytes: usize, pointer: &str) {
        self.weight = self.weight.saturating_add(bytes);
        if self.is_full() && self.too_heavy.is_none() {
            let detail = format!(
                "the kind would take more than {} MiB of memory: it has too many schemas or patterns",
                self.most >> 20
            );
            self.too_heavy = Some(Violation::new(pointer, detail));
        }
    }

    /// Weighs a pattern of JSON Schema, in JavaScript's syntax. Returns its width.
    fn schema_pattern(&mut self, pattern: &str, pointer: &str) -> usize {
        match to_rust_regex(pattern) {
            Ok(text) => self.pattern(pattern, &text, pointer),
            Err(()) => 0,
        }
    }

    /// Weighs a pattern, and returns its width. An invalid one counts nothing here; compiling the schema refuses it.
    fn pattern(&mut self, pattern: &str, text: &str, pointer: &str) -> usize {
        if let Some(known) = self.patterns.get(pattern) {
            return *known;
        }
        if self.is_full() || base_id()["pattern"] == pattern {
            return 0;
        }
        let states = thompson::Config::new().nfa_size_limit(Some(MOST_PATTERN));
        let whole = meta::Config::new().nfa_size_limit(Some(MOST_PATTERN));
        let automaton = dense::Config::new()
            .start_kind(StartKind::Unanchored)
            .dfa_size_limit(Some(MOST_AUTOMATON))
            .determinize_size_limit(Some(MOST_AUTOMATON));
        let whole = meta::Builder::new().configure(whole).build(text);
        let (weight, width) = match (whole, NFA::compiler().configure(states).build(text)) {
            (Ok(whole), Ok(states)) => {
                let automaton = dense::Builder::new().configure(automaton).build_from_nfa(&states);
                let kept = automaton.as_ref().map_or(MOST_AUTOMATON, dense::DFA::memory_usage);
                let slow = states.memory_usage() / SLOW_PER_WIDTH;
                let width = automaton.map_or(slow, |_| SCHEMA_WIDTH);
                (whole.memory_usage() + kept, width)
            }
            (Err(error), _) if error.size_limit().is_some() => (MOST_PATTERN, usize::MAX),
            _ => (0, 0),
        };
        if width > MOST_WIDTH {
            let detail = "the pattern takes too much memory, or too much time on a long text: begin it with ^, repeat less, or \
                          limit the length with maxLength";
            self.faults.push(Violation::new(pointer, detail));
        }
        self.patterns.insert(pattern.to_owned(), width);
        self.add(weight + OF_A_PATTERN, pointer);
        width
    }

    /// Weighs a schema with everything in it. Returns the work for one place at or below the schema's own.
    fn schema(&mut self, schema: &Value, pointer: &str) -> Place {
        let Value::Object(schema) = schema else {
            return Place::default();
        };
        self.add(OF_A_SCHEMA + schema.len() * OF_A_KEYWORD, pointer);
        let mut here = Place {
            width: SCHEMA_WIDTH,
            schemas: 1,
        };
        // Only one of these applies to a place: a property, or the schema for all others.
        let mut below = Place::default();
        let mut again = 1_usize;
        for (key, value) in schema {
            if self.is_full() {
                break;
            }
            let at = format!("{pointer}{}", segment(key));
            match (key.as_str(), value) {
                ("properties", Value::Object(_)) | ("prefixItems", Value::Array(_)) => {
                    let inner = self.schemas(value, &at);
                    below = inner.into_iter().fold(below, Place::or);
                }
                ("items" | "additionalProperties", _) => below = below.or(self.schema(value, &at)),
                ("unevaluatedProperties" | "unevaluatedItems", _) => {
                    self.add(OF_UNEVALUATED, &at);
                    again = again.saturating_mul(UNEVALUATED);
                    here = here.beside(self.schema(value, &at));
                }
                (key, value) => here = here.beside(self.keyword(key, value, &at)),
            }
        }
        here.beside(below).times(again)
    }

    /// The schemas of an object or an array, each by itself.
    fn schemas(&mut self, all: &Value, pointer: &str) -> Vec<Place> {
        let mut places = Vec::new();
        for (name, schema) in all.as_object().into_iter().flatten() {
            places.push(self.schema(schema, &format!("{pointer}{}", segment(name))));
        }
        for (n, schema) in all.as_array().into_iter().flatten().enumerate() {
            places.push(self.schema(schema, &format!("{pointer}/{n}")));
        }
        places
    }

    /// Weighs a keyword that applies to the same place as its schema. Returns the work that it adds.
    fn keyword(&mut self, key: &str, value: &Value, at: &str) -> Place {
        match (key, value) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(_)) => {
                let detail = "a schema may not refer to another place: only properties, items and \
                              additionalProperties may, to \"#/components/schemas/<singular>_ref\"";
                self.faults.push(Violation::new(at, detail));
            }
            ("pattern", Value::String(pattern)) => return Place::of_width(self.schema_pattern(pattern, at)),
            ("enum" | "const", _) => {
                self.add(of_values(value), at);
                return Place::of_width(options_width(key, value));
            }
            ("patternProperties", Value::Object(named)) => {
                let patterns = named
                    .keys()
                    .map(|name| self.schema_pattern(name, &format!("{at}{}", segment(name))));
                let width = patterns.fold(0, usize::saturating_add);
                let schemas = self.schemas(value, at).into_iter();
                return schemas.fold(Place::of_width(width), Place::beside);
            }
            // These do not apply schemas to the document.
            ("$defs" | "definitions" | "default" | "examples" | "example" | "required" | "dependentRequired", _) => {
                self.add(of_values(value), at);
            }
            (key, _) if key.starts_with("x-") => self.add(of_values(value), at),
            ("dependentSchemas" | "dependencies", Value::Object(_)) | (_, Value::Array(_)) => {
                let schemas = self.schemas(value, at).into_iter();
                return schemas.fold(Place::default(), Place::beside);
            }
            // All others apply at once: allOf, anyOf, oneOf, not, if, contains, and keywords that are not known here.
            (_, Value::Object(_)) => return self.schema(value, at),
            (_, Value::String(text)) => self.add(text.len(), at),
            _ => {}
        }
        Place::default()
    }
}

/// The width of an `enum` or `const`: strings and integers are looked up, other options are compared one by one.
fn options_width(key: &str, value: &Value) -> usize {
    let options = value.as_array().filter(|_| key == "enum");
    let is_quick = |options: &Vec<Value>| options.iter().all(Value::is_string) || options.iter().all(Value::is_i64);
    if options.is_some_and(is_quick) {
        0
    } else {
        values(value)
    }
}

/// The memory of a value that is not a schema, approximately.
pub(super) fn of_values(value: &Value) -> usize {
    values(value).saturating_mul(OF_A_VALUE)
}

/// The number of values within a value; each 64 bytes of text count as one more.
fn values(value: &Value) -> usize {
    let of_text = |text: &str| text.len() / 64;
    1 + match value {
        Value::Array(items) => items.iter().map(values).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| of_text(name) + values(value)).sum(),
        Value::String(text) => of_text(text),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use crate::kind::{Kinds, Trust, built_in, name_of};

    #[test]
    fn the_built_in_kinds_are_far_from_the_limits() {
        let sources: Vec<_> = built_in()
            .iter()
            .map(|document| {
                (
                    name_of(document).unwrap().into(),
                    (crate::json::Json::new(document), None),
                )
            })
            .collect();
        let sources = sources.iter().map(|(name, source)| (name, source));
        let kinds = Kinds::build(sources, &Kinds::default(), Trust::Given).unwrap();
        for kind in kinds.iter() {
            let (cost, ours) = (kind.weighed(), kind.cost());
            assert!(cost.weight < ours.weight, "{}: {cost:?}", kind.name);
            assert!(cost.width < ours.width, "{}: {cost:?}", kind.name);
            assert!(cost.schemas < ours.schemas, "{}: {cost:?}", kind.name);
        }
    }
}
