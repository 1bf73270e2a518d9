//! What was seen of one object on a cluster.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Moment;
use crate::inputs::Mark;

/// The kinds of objects that apply an input: only their success means that the input is ready.
const APPLIERS: [&str; 2] = ["HelmRelease", "Kustomization"];
/// The kind of the objects that poll.
pub(super) const PROVIDER: &str = "ResourceSetInputProvider";
/// The kind of the objects that render inputs.
pub(super) const RESOURCE_SET: &str = "ResourceSet";

/// The longest names of objects. Kubernetes has no longer ones.
pub(super) const MOST_KIND: usize = 63;
pub(super) const MOST_NAMESPACE: usize = 63;
pub(super) const MOST_NAME: usize = 253;
/// The longest `PATH/ID` of an input. Kinds and documents have shorter ones.
pub(super) const MOST_INPUT: usize = 512;

/// An object on a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Object {
    #[serde(rename = "k")]
    pub kind: Box<str>,
    #[serde(rename = "s", default, skip_serializing_if = "str::is_empty")]
    pub namespace: Box<str>,
    #[serde(rename = "n")]
    pub name: Box<str>,
}

impl Object {
    /// Whether it installs what an input says.
    pub fn applies(&self) -> bool {
        APPLIERS.contains(&&*self.kind)
    }

    /// Whether this is the chart of a release.
    pub fn is_chart_of(&self, release: &Object) -> bool {
        &*self.kind == "HelmChart" && &*release.kind == "HelmRelease" && *self.name == *release.chart()
    }

    /// Whether its names are no longer than those that are accepted.
    pub(super) fn is_bounded(&self) -> bool {
        self.kind.len() <= MOST_KIND && self.namespace.len() <= MOST_NAMESPACE && self.name.len() <= MOST_NAME
    }

    /// The name of the chart of a release: Flux makes it from the release's namespace and name.
    pub(super) fn chart(&self) -> String {
        format!("{}-{}", self.namespace, self.name)
    }
}

/// As `kubectl` names it: `HelmRelease/NAMESPACE/NAME`.
impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.is_empty() {
            true => write!(f, "{}/{}", self.kind, self.name),
            false => write!(f, "{}/{}/{}", self.kind, self.namespace, self.name),
        }
    }
}

/// The input that an object was made from: `PATH/ID`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InputRef {
    #[serde(rename = "p")]
    pub path: Box<str>,
    #[serde(rename = "i")]
    pub id: Box<str>,
}

impl InputRef {
    /// None: it names no input, or is longer than any name of one.
    pub fn parse(text: &str) -> Option<InputRef> {
        if text.len() > MOST_INPUT {
            return None;
        }
        let (path, id) = text.split_once('/')?;
        (!path.is_empty() && !id.is_empty()).then(|| InputRef {
            path: path.into(),
            id: id.into(),
        })
    }

    fn len(&self) -> usize {
        self.path.len() + 1 + self.id.len()
    }
}

/// As it is parsed: `PATH/ID`.
impl fmt::Display for InputRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.path, self.id)
    }
}

/// How an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Health {
    #[serde(rename = "r")]
    Ready,
    /// The controller has not finished, or does not say.
    #[serde(rename = "u")]
    UnderWay,
    #[serde(rename = "f")]
    Failing,
    /// It was deleted.
    #[serde(rename = "g")]
    Gone,
}

impl Health {
    pub const fn name(self) -> &'static str {
        match self {
            Health::Ready => "ready",
            Health::UnderWay => "progressing",
            Health::Failing => "failing",
            Health::Gone => "deleted",
        }
    }
}

/// Who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Source {
    #[serde(rename = "e")]
    Event,
    #[serde(rename = "r")]
    Report,
}

impl Source {
    pub const fn name(self) -> &'static str {
        match self {
            Source::Event => "event",
            Source::Report => "report",
        }
    }
}

/// What was seen of one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    #[serde(rename = "o")]
    pub object: Object,
    /// None: it is not known which input it comes from.
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    pub input: Option<InputRef>,
    /// The content of the input that the object carries.
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none", with = "as_text")]
    pub mark: Option<Mark>,
    /// Whether the input was found by what the cluster renders. Then the mark, if there is one, was the input's when the evidence came, and is not
    /// the object's own: it cannot tell of success.
    #[serde(rename = "q", default, skip_serializing_if = "std::ops::Not::not")]
    pub inferred: bool,
    #[serde(rename = "h")]
    pub health: Health,
    #[serde(rename = "r", default, skip_serializing_if = "str::is_empty")]
    pub reason: Box<str>,
    #[serde(rename = "t", default, skip_serializing_if = "str::is_empty")]
    pub message: Box<str>,
    #[serde(rename = "v", default, skip_serializing_if = "str::is_empty")]
    pub version: Box<str>,
    /// When it was so, by the cluster's clock: what observations of one object are ordered by.
    #[serde(rename = "a")]
    pub at: Moment,
    /// Since when it is so.
    #[serde(rename = "b")]
    pub since: Moment,
    /// When we learnt it, by our clock: what it is compared with polls by.
    #[serde(rename = "c")]
    pub learnt: Moment,
    #[serde(rename = "w", default)]
    pub resource_version: u64,
    #[serde(rename = "s")]
    pub source: Source,
}

/// A mark as its digits.
mod as_text {
    use super::Mark;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(mark: &Option<Mark>, serializer: S) -> Result<S::Ok, S::Error> {
        match mark {
            Some(mark) => serializer.collect_str(mark),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Mark>, D::Error> {
        let text = Option::<std::borrow::Cow<'_, str>>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(de::Error::custom)).transpose()
    }
}

/// The most characters that are kept of a message, and of the name of a reporter.
pub(super) const MOST_MESSAGE: usize = 1024;
pub(super) const MOST_REPORTER: usize = 128;

impl Observation {
    /// Whether something fails, and it is not known of which input, although it may come from one.
    pub fn is_stray_failure(&self) -> bool {
        let has_none = [PROVIDER, RESOURCE_SET].contains(&&*self.object.kind);
        self.health == Health::Failing && self.input.is_none() && !has_none
    }

    /// Which of two observations of one object is newer. A total order, so that the order of arrival does not matter.
    pub(super) fn order(&self, other: &Observation) -> Ordering {
        let key = |seen: &Observation| (seen.at, seen.resource_version, seen.source, seen.inferred, seen.learnt);
        let rest = |seen: &Observation| (seen.health, seen.mark.map(|mark| mark.0), seen.since);
        key(self)
            .cmp(&key(other))
            .then_with(|| rest(self).cmp(&rest(other)))
            .then_with(|| self.input.cmp(&other.input))
            .then_with(|| {
                (&self.reason, &self.message, &self.version).cmp(&(&other.reason, &other.message, &other.version))
            })
    }

    /// Whether both say the same.
    pub(super) fn repeats(&self, other: &Observation) -> bool {
        let learnt = self.learnt;
        *self
            == Observation {
                learnt,
                ..other.clone()
            }
    }

    /// The length of its texts.
    pub(super) fn text_len(&self) -> usize {
        let names = self.object.kind.len() + self.object.namespace.len() + self.object.name.len();
        let input = self.input.as_ref().map_or(0, InputRef::len);
        names + input + self.reason.len() + self.message.len() + self.version.len()
    }

    /// Cuts texts to the length that is kept.
    pub(super) fn trim(mut self) -> Self {
        // The message of something that is ready says nothing more.
        if self.health == Health::Ready || self.health == Health::Gone {
            self.message = Box::default();
        }
        for (text, most) in [
            (&mut self.message, MOST_MESSAGE),
            (&mut self.reason, 128),
            (&mut self.version, 256),
        ] {
            cut(text, most);
        }
        // The beginning of a name would be another name.
        self.input = self.input.filter(|input| input.len() <= MOST_INPUT);
        self
    }
}

/// Cuts a text to a number of characters.
pub(super) fn cut(text: &mut Box<str>, most: usize) {
    if let Some((end, _)) = text.char_indices().nth(most) {
        *text = text[..end].into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_named_by_path_and_id() {
        let input = InputRef::parse("platform-components/cert/manager").unwrap();
        assert_eq!((&*input.path, &*input.id), ("platform-components", "cert/manager"));
        let long = format!("platform-components/{}", "x".repeat(MOST_INPUT));
        for bad in ["", "platform-components", "/x", "platform-components/", &long] {
            assert_eq!(InputRef::parse(bad), None, "{bad}");
        }
    }
}
