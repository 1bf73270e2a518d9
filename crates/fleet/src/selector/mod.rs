//! Kubernetes label selectors over clusters: labels, and the cluster's own scalar fields.

mod matcher;
mod parser;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

pub use self::matcher::Matcher;
pub(crate) use self::matcher::Subject;
use self::parser::Parser;
use crate::kind::Kind;
use crate::nearest::did_you_mean;
use crate::refusal::quote;
use crate::snapshot::{Cluster, ClusterSet, Fleet, Number};

/// The limits of a selector. Each requirement is checked for each cluster, so they limit the work per cluster.
pub const MOST_BYTES: usize = 4096;
pub const MOST_REQUIREMENTS: usize = 64;
/// For the values of all requirements together.
pub const MOST_VALUES: usize = 256;

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
    #[error("the selector is empty; use \"*\" to select the whole fleet")]
    Empty,
    #[error("the selector has {found} {what}, and at most {most} are allowed: use a label that these clusters share")]
    TooLarge {
        what: &'static str,
        found: usize,
        most: usize,
    },
    #[error("the selector is not valid at character {at}: expected {expected}")]
    Syntax { at: usize, expected: &'static str },
    #[error("\"{}\" is neither a field of clusters nor a label of any cluster{}", quote(.key), suffix(.like))]
    UnknownKey { key: String, like: Option<String> },
    #[error("\"{}\" is not a valid value of {}{}", quote(.value), quote(.key), suffix(.like))]
    UnknownValue {
        key: String,
        value: String,
        like: Option<String>,
    },
}

impl Selector {
    /// Parses a selector; `*` selects everything.
    pub fn parse(text: &str) -> Result<Selector, SelectorError> {
        match text.trim() {
            "" => Err(SelectorError::Empty),
            "*" => Ok(Selector {
                requirements: Vec::new(),
            }),
            _ => {
                bounded("bytes", text.len(), MOST_BYTES)?;
                let selector = Parser::new(text).selector()?;
                bounded("requirements", selector.requirements.len(), MOST_REQUIREMENTS)?;
                bounded("values", selector.values(), MOST_VALUES)?;
                Ok(selector)
            }
        }
    }

    /// The number of values in all requirements.
    fn values(&self) -> usize {
        let count = |requirement: &Requirement| match &requirement.test {
            Test::In(values) | Test::NotIn(values) => values.len(),
            Test::Exists | Test::Missing => 0,
        };
        self.requirements.iter().map(count).sum()
    }

    /// The keys whose value is required to be one of some, with these values.
    pub fn wanted(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.requirements
            .iter()
            .filter_map(|requirement| match &requirement.test {
                Test::In(values) => Some((requirement.key.as_str(), values.as_slice())),
                Test::Exists | Test::Missing | Test::NotIn(_) => None,
            })
    }

    /// Whether the documents of clusters must be read, or whether the fields in the snapshot are enough.
    pub fn reads_documents(&self) -> bool {
        let at_hand = ["id", "environment", "cluster_name", "cluster_dns"];
        self.requirements
            .iter()
            .any(|requirement| !at_hand.contains(&requirement.key.as_str()))
    }

    /// Parses a selector and checks that each key exists: a typo must not select no cluster or, negated, every cluster.
    pub fn for_fleet(text: &str, fleet: &Fleet) -> Result<Selector, SelectorError> {
        let selector = Selector::parse(text)?;
        for requirement in &selector.requirements {
            if !is_key(&requirement.key, fleet) {
                return Err(unknown_key(&requirement.key, fleet));
            }
            requirement.check_values(fleet)?;
        }
        Ok(selector)
    }

    /// Parses a selector that is to be stored. A key that is no field is a label, even if no cluster has it yet; but not in a negated
    /// requirement, which a typo would make true for every cluster.
    pub fn stored(text: &str, fleet: &Fleet) -> Result<Selector, SelectorError> {
        let selector = Selector::stored_early(text, fleet)?;
        for requirement in &selector.requirements {
            let is_negated = matches!(requirement.test, Test::Missing | Test::NotIn(_));
            if is_negated && !is_key(&requirement.key, fleet) {
                return Err(unknown_key(&requirement.key, fleet));
            }
        }
        Ok(selector)
    }

    /// The same, before the clusters come that have its labels.
    pub(crate) fn stored_early(text: &str, fleet: &Fleet) -> Result<Selector, SelectorError> {
        let selector = Selector::parse(text)?;
        for requirement in &selector.requirements {
            requirement.check_values(fleet)?;
        }
        Ok(selector)
    }

    /// The keys of its requirements.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.requirements.iter().map(|requirement| requirement.key.as_str())
    }

    /// Its keys that no cluster has, neither as a field nor as a label.
    pub(crate) fn labels_unknown_to(&self, fleet: &Fleet) -> Vec<&str> {
        self.keys().filter(|key| !is_key(key, fleet)).collect()
    }

    /// Whether it has every requirement of another selector, so that it matches no cluster that the other does not.
    pub fn is_within(&self, other: &Selector) -> bool {
        other
            .requirements
            .iter()
            .all(|wanted| self.requirements.contains(wanted))
    }

    /// The clusters of the fleet that match, sorted by id.
    pub fn select<'a>(&self, fleet: &'a Fleet) -> Box<dyn Iterator<Item = &'a Arc<Cluster>> + 'a> {
        let Some(kind) = fleet.kinds().clusters() else {
            return Box::new(std::iter::empty());
        };
        let (indexed, rest) = self.by_index(fleet, kind);
        let rest = rest.map(|rest| rest.on(kind));
        let matches = move |cluster: &&'a Arc<Cluster>| rest.as_ref().is_none_or(|rest| rest.matches(cluster));
        match indexed {
            None => Box::new(fleet.clusters().values().filter(matches)),
            Some(found) => Box::new(fleet.sorted(found).filter(matches)),
        }
    }

    /// The numbers of the clusters that match.
    pub(crate) fn numbers(&self, fleet: &Fleet) -> ClusterSet {
        let Some(kind) = fleet.kinds().clusters() else {
            return ClusterSet::default();
        };
        match self.by_index(fleet, kind) {
            (Some(found), None) => found,
            (Some(found), Some(rest)) => {
                let rest = rest.on(kind);
                let matches = |number: &Number| fleet.numbered(*number).is_some_and(|one| rest.matches(one));
                found.numbers().filter(matches).collect()
            }
            (None, _) => self.select(fleet).map(|cluster| cluster.number()).collect(),
        }
    }

    /// What the index of labels finds, and the requirements that are left to test. None: it knows none of the requirements.
    fn by_index(&self, fleet: &Fleet, kind: &Kind) -> (Option<ClusterSet>, Option<Selector>) {
        let is_indexed = |requirement: &&Requirement| {
            matches!(requirement.test, Test::In(_)) && !kind.is_scalar_field(&requirement.key)
        };
        let (indexed, others): (Vec<&Requirement>, Vec<&Requirement>) = self.requirements.iter().partition(is_indexed);
        let rest = (!others.is_empty()).then(|| Selector {
            requirements: others.into_iter().cloned().collect(),
        });
        let sets = indexed.iter().map(|requirement| requirement.labelled(fleet));
        let found = sets.reduce(|mut found, set| {
            found.intersect(&set);
            found
        });
        (found, rest)
    }
}

impl Requirement {
    /// The clusters that have the label with one of the values.
    fn labelled(&self, fleet: &Fleet) -> ClusterSet {
        match &self.test {
            Test::In(values) => fleet.labelled(&self.key, values).collect(),
            Test::Exists | Test::Missing | Test::NotIn(_) => ClusterSet::default(),
        }
    }

    /// Refuses a value that the field of clusters cannot have.
    fn check_values(&self, fleet: &Fleet) -> Result<(), SelectorError> {
        let kind = fleet.kinds().clusters();
        let options = kind.and_then(|kind| kind.schema["properties"][&self.key]["enum"].as_array());
        let (Some(options), Test::In(values) | Test::NotIn(values)) = (options, &self.test) else {
            return Ok(());
        };
        let is_option = |value: &&String| options.iter().any(|option| is_text(option, value));
        match values.iter().find(|value| !is_option(value)) {
            None => Ok(()),
            Some(value) => {
                let like = did_you_mean(value, options.iter().filter_map(Value::as_str));
                let (key, value) = (self.key.clone(), value.clone());
                Err(SelectorError::UnknownValue { key, value, like })
            }
        }
    }
}

/// Whether a key is a field of clusters, or a label of one.
fn is_key(key: &str, fleet: &Fleet) -> bool {
    let kind = fleet.kinds().clusters();
    kind.is_some_and(|kind| kind.is_scalar_field(key)) || fleet.has_label(key)
}

fn unknown_key(key: &str, fleet: &Fleet) -> SelectorError {
    let kind = fleet.kinds().clusters();
    let fields = kind.and_then(|kind| kind.schema["properties"].as_object());
    let fields = fields.into_iter().flat_map(|all| all.keys()).map(String::as_str);
    let fields = fields.filter(|field| kind.is_some_and(|kind| kind.is_scalar_field(field)));
    let like = did_you_mean(key, fields.chain(fleet.label_keys()));
    let key = key.to_owned();
    SelectorError::UnknownKey { key, like }
}

fn suffix(like: &Option<String>) -> String {
    like.as_ref().map(|like| format!("; {like}")).unwrap_or_default()
}

fn bounded(what: &'static str, found: usize, most: usize) -> Result<(), SelectorError> {
    match found > most {
        true => Err(SelectorError::TooLarge { what, found, most }),
        false => Ok(()),
    }
}

/// Whether a scalar is the value that a selector names. Selectors have no quotes around strings.
fn is_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(own) => own == text,
        other => {
            let own = other.to_string();
            own == text
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

    #[test]
    fn length_requirements_and_values_are_bounded() {
        let terms = |n: usize| vec!["a"; n].join(",");
        let values = |n: usize| format!("a in ({})", vec!["b"; n].join(","));
        assert!(Selector::parse(&terms(MOST_REQUIREMENTS)).is_ok());
        assert!(Selector::parse(&values(MOST_VALUES)).is_ok());
        assert!(Selector::parse(&"a".repeat(MOST_BYTES)).is_ok());
        for (given, expected) in [
            (terms(MOST_REQUIREMENTS + 1), "has 65 requirements, and at most 64"),
            (values(MOST_VALUES + 1), "has 257 values, and at most 256"),
            (vec![values(20); 20].join(","), "has 400 values, and at most 256"),
            ("a".repeat(27_000), "has 27000 bytes, and at most 4096"),
        ] {
            assert!(shown(&given).contains(expected), "{}", shown(&given));
        }
    }

    #[test]
    fn an_error_does_not_repeat_a_long_key() {
        let (key, like) = ("k".repeat(4000), None);
        let error = SelectorError::UnknownKey { key, like }.to_string();
        assert!(error.len() < 300 && error.contains("… (4000 bytes)"), "{error}");
    }
}
