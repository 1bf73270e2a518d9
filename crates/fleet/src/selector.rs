//! Kubernetes label selectors over clusters: labels, and the cluster's own scalar fields.

use std::fmt;

use serde_json::Value;

use crate::kind::Kind;
use crate::snapshot::{Cluster, Fleet};

/// A parsed selector. All requirements must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Missing,
    In(Vec<String>),
    NotIn(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    #[error("the selector is empty; the whole fleet is said as \"*\"")]
    Empty,
    #[error("the selector does not parse at character {at}: {expected}")]
    Syntax { at: usize, expected: &'static str },
    #[error("\"{0}\" is neither a field of clusters nor a label of any cluster")]
    UnknownKey(String),
    #[error("\"{value}\" is not a value that {key} can have")]
    UnknownValue { key: String, value: String },
}

impl Selector {
    /// Parses a selector; `*` selects everything.
    pub fn parse(text: &str) -> Result<Selector, SelectorError> {
        match text.trim() {
            "" => Err(SelectorError::Empty),
            "*" => Ok(Selector {
                requirements: Vec::new(),
            }),
            _ => Parser { text, at: 0 }.selector(),
        }
    }

    /// Parses a selector and makes sure that each key means something: a typo must not select nothing, or, negated, all.
    pub fn for_fleet(text: &str, fleet: &Fleet) -> Result<Selector, SelectorError> {
        let selector = Selector::parse(text)?;
        let kind = fleet.kinds().clusters();
        for requirement in &selector.requirements {
            let key = &requirement.key;
            if !kind.is_some_and(|kind| kind.is_scalar_field(key)) && !fleet.has_label(key) {
                return Err(SelectorError::UnknownKey(key.clone()));
            }
            let options = kind.and_then(|kind| kind.schema["properties"][key]["enum"].as_array());
            if let (Some(options), Test::In(values) | Test::NotIn(values)) = (options, &requirement.test)
                && let Some(value) = values
                    .iter()
                    .find(|value| !options.iter().any(|option| is_text(option, value)))
            {
                let (key, value) = (key.clone(), value.clone());
                return Err(SelectorError::UnknownValue { key, value });
            }
        }
        Ok(selector)
    }

    pub fn matches(&self, kind: &Kind, cluster: &Cluster) -> bool {
        let head = cluster.head();
        self.requirements
            .iter()
            .all(|requirement| match requirement.key.as_str() {
                "id" => requirement.test.holds(Some(&cluster.document().id)),
                "environment" => requirement.test.holds(Some(&head.environment)),
                "cluster_name" => requirement.test.holds(Some(&head.name)),
                "cluster_dns" => requirement.test.holds_for_dns(&head.dns_key),
                key => {
                    let body = &cluster.document().body;
                    let value = match kind.is_scalar_field(key) {
                        true => body.field(key),
                        false => body
                            .field("labels")
                            .and_then(|mut labels| labels.get_mut(key).map(Value::take)),
                    };
                    match value {
                        None | Some(Value::Null) => requirement.test.holds(None),
                        Some(Value::String(text)) => requirement.test.holds(Some(&text)),
                        Some(other) => requirement.test.holds(Some(&other.to_string())),
                    }
                }
            })
    }

    /// The clusters of the fleet that match, sorted by id.
    pub fn select<'a>(&'a self, fleet: &'a Fleet) -> impl Iterator<Item = &'a std::sync::Arc<Cluster>> {
        let kind = fleet.kinds().clusters();
        fleet
            .clusters()
            .values()
            .filter(move |cluster| kind.is_some_and(|kind| self.matches(kind, cluster)))
    }
}

/// Whether a selector names this scalar: it has no quotes for strings.
fn is_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(own) => own == text,
        other => {
            let own = other.to_string();
            own == text
        }
    }
}

impl Test {
    /// As Kubernetes has it: `!=` and `notin` hold for what has no such key.
    fn holds(&self, value: Option<&str>) -> bool {
        match self {
            Test::Exists => value.is_some(),
            Test::Missing => value.is_none(),
            Test::In(options) => value.is_some_and(|value| options.iter().any(|option| option == value)),
            Test::NotIn(options) => value.is_none_or(|value| options.iter().all(|option| option != value)),
        }
    }

    fn holds_for_dns(&self, key: &str) -> bool {
        let lower = |options: &Vec<String>| options.iter().map(|option| option.to_ascii_lowercase()).collect();
        match self {
            Test::In(options) => Test::In(lower(options)).holds(Some(key)),
            Test::NotIn(options) => Test::NotIn(lower(options)).holds(Some(key)),
            other => other.holds(Some(key)),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.requirements.is_empty() {
            return f.write_str("*");
        }
        for (n, Requirement { key, test }) in self.requirements.iter().enumerate() {
            if n > 0 {
                f.write_str(",")?;
            }
            match test {
                Test::Exists => write!(f, "{key}")?,
                Test::Missing => write!(f, "!{key}")?,
                Test::In(options) => write!(f, "{key} in ({})", options.join(","))?,
                Test::NotIn(options) => write!(f, "{key} notin ({})", options.join(","))?,
            }
        }
        Ok(())
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn selector(mut self) -> Result<Selector, SelectorError> {
        let mut requirements = Vec::new();
        loop {
            requirements.push(self.requirement()?);
            match self.peek() {
                None => return Ok(Selector { requirements }),
                Some(',') => self.at += 1,
                Some(_) => return self.fail("a comma or the end"),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        if self.eat("!") {
            let key = self.word("a key")?;
            return Ok(Requirement {
                key,
                test: Test::Missing,
            });
        }
        let key = self.word("a key")?;
        let test = match self.peek() {
            None | Some(',') => Test::Exists,
            Some('=') => {
                self.at += 1;
                self.eat("=");
                Test::In(vec![self.value()?])
            }
            Some('!') if self.eat("!=") => Test::NotIn(vec![self.value()?]),
            Some('i' | 'n') => match self.word("an operator")?.as_str() {
                "in" => Test::In(self.values()?),
                "notin" => Test::NotIn(self.values()?),
                _ => return self.fail("one of =, ==, !=, in, notin"),
            },
            Some(_) => return self.fail("one of =, ==, !=, in, notin"),
        };
        Ok(Requirement { key, test })
    }

    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        if !self.eat("(") {
            return self.fail("an opening parenthesis");
        }
        let mut values = vec![self.value()?];
        while self.eat(",") {
            values.push(self.value()?);
        }
        match self.eat(")") {
            true => Ok(values),
            false => self.fail("a comma or a closing parenthesis"),
        }
    }

    /// A value may be empty: `tier=` selects what has the label with an empty value.
    fn value(&mut self) -> Result<String, SelectorError> {
        match self.peek() {
            None | Some(',' | ')') => Ok(String::new()),
            Some(_) => self.word("a value"),
        }
    }

    fn word(&mut self, expected: &'static str) -> Result<String, SelectorError> {
        self.peek();
        let rest = &self.text[self.at..];
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || "-_./:".contains(c)))
            .unwrap_or(rest.len());
        if end == 0 {
            return self.fail(expected);
        }
        self.at += end;
        Ok(rest[..end].to_owned())
    }

    fn eat(&mut self, token: &str) -> bool {
        self.peek();
        let found = self.text[self.at..].starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// The next character that is not a blank.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn fail<T>(&self, expected: &'static str) -> Result<T, SelectorError> {
        let at = self.text[..self.at].chars().count() + 1;
        Err(SelectorError::Syntax { at, expected })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match Selector::parse(text) {
            Ok(selector) => selector.to_string(),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn the_grammar_is_kubernetes_own() {
        for (given, expected) in [
            ("environment=dev", "environment in (dev)"),
            ("environment == dev , team", "environment in (dev),team"),
            ("a!=b,!c", "a notin (b),!c"),
            (
                "environment in (dev, qa),x notin (y)",
                "environment in (dev,qa),x notin (y)",
            ),
            ("tier=", "tier in ()"),
            ("x in (,a)", "x in (,a)"),
            ("*", "*"),
            ("inner=1", "inner in (1)"),
        ] {
            assert_eq!(shown(given), expected, "{given}");
        }
    }

    #[test]
    fn what_does_not_parse_says_where() {
        for given in [
            "", "  ", "=a", "a=b,", "a in b", "a in (b", "a>3", "a b", "!", "a=b c", "*,a",
        ] {
            assert!(shown(given).starts_with("error: "), "{given} gave {}", shown(given));
        }
    }
}
