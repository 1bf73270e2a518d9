//! The report, as the API reads it, and what of it is sent.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::inventory::Key;
use crate::seen::Seen;

/// Who reports.
pub(crate) const REPORTER: &str = concat!("flux-resourceset-reporter/", env!("CARGO_PKG_VERSION"));
/// The API accepts 4 MiB and 10,000 objects. What is longer is sent in parts.
const LARGEST: usize = 3 << 20;
const MOST: usize = 5_000;

/// All that is reported, at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    pub(crate) objects: BTreeMap<Key, Object>,
    pub(crate) providers: Vec<Provider>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Object {
    pub(crate) api_version: String,
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) ready: Option<bool>,
    pub(crate) reason: String,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// `PATH/ID`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<String>,
    /// The digest of the input that the object was made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) desired: Option<String>,
    /// Since when it is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<String>,
    pub(crate) deleted: bool,
}

impl Object {
    pub(crate) fn new(key: &Key, seen: &Seen, input: Option<String>) -> Object {
        Object {
            api_version: key.kind.api_version(),
            kind: key.kind.name(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid: seen.uid.clone(),
            resource_version: seen.resource_version.clone(),
            ready: seen.readiness.ready,
            reason: seen.readiness.reason.clone(),
            message: seen.readiness.message.clone(),
            version: seen.version.clone(),
            input,
            desired: seen.desired.clone(),
            at: seen.at.clone(),
            deleted: false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Provider {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) ready: Option<bool>,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Provider {
    pub(crate) fn new(namespace: &str, name: &str, seen: &Seen) -> Provider {
        Provider {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ready: seen.readiness.ready,
            reason: seen.readiness.reason.clone(),
            message: seen.readiness.message.clone(),
        }
    }
}

impl State {
    /// The objects that are not as they were; those that are gone are marked as deleted. None: nothing changed.
    ///
    /// An object that was only written again counts, too: events about what was in between may have reached the API, and
    /// only a newer `resourceVersion` answers them.
    pub(crate) fn changes_since(&self, earlier: &State) -> Option<Vec<Object>> {
        let gone = earlier
            .objects
            .iter()
            .filter(|(key, _)| !self.objects.contains_key(key));
        let gone = gone.map(|(_, object)| Object {
            ready: None,
            deleted: true,
            ..object.clone()
        });
        let changed = self
            .objects
            .iter()
            .filter(|(key, object)| earlier.objects.get(key) != Some(object));
        let changes: Vec<Object> = gone.chain(changed.map(|(_, object)| object.clone())).collect();
        (!changes.is_empty() || self.providers != earlier.providers).then_some(changes)
    }

    /// Whether a provider is gone. Only a report of everything can tell that.
    pub(crate) fn lacks_providers_of(&self, earlier: &State) -> bool {
        let is_here = |gone: &Provider| {
            self.providers
                .iter()
                .any(|provider| (&provider.namespace, &provider.name) == (&gone.namespace, &gone.name))
        };
        !earlier.providers.iter().all(is_here)
    }

    /// Reports with these objects, and all providers. A whole report that is too large for one is continued by changes.
    pub(crate) fn reports<'a>(
        &self,
        objects: impl Iterator<Item = &'a Object>,
        full: bool,
        at: Timestamp,
    ) -> Vec<String> {
        self.reports_within(LARGEST, objects, full, at)
    }

    fn reports_within<'a>(
        &self,
        largest: usize,
        objects: impl Iterator<Item = &'a Object>,
        full: bool,
        at: Timestamp,
    ) -> Vec<String> {
        let mut parts: Vec<(usize, Vec<Box<RawValue>>)> = vec![(0, Vec::new())];
        for object in objects.map(raw) {
            let length = object.get().len() + 1;
            match parts.last_mut() {
                Some((size, part)) if part.is_empty() || (*size + length <= largest && part.len() < MOST) => {
                    *size += length;
                    part.push(object);
                }
                _ => parts.push((length, vec![object])),
            }
        }
        let parts = parts.iter().enumerate().map(|(n, (_, objects))| Report {
            at: at.to_string(),
            reporter: REPORTER,
            full: full && n == 0,
            objects,
            providers: &self.providers,
        });
        parts.map(|report| raw(&report).get().to_owned()).collect()
    }
}

#[derive(Serialize)]
struct Report<'a> {
    at: String,
    reporter: &'static str,
    full: bool,
    objects: &'a [Box<RawValue>],
    providers: &'a [Provider],
}

/// Maps of these types have text as keys, and no writer fails in memory.
fn raw(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::kind::Kind;

    fn state(objects: &[(&str, &str, Option<bool>)]) -> State {
        let objects = objects.iter().map(|(name, version, ready)| {
            let key = Key {
                kind: Kind::HelmRelease,
                namespace: "ns".to_owned(),
                name: (*name).to_owned(),
            };
            let object = json!({"metadata": {"name": name, "uid": "u", "resourceVersion": version}});
            let seen = Seen::of(Kind::HelmRelease, &serde_json::from_value(object).unwrap());
            let mut object = Object::new(&key, &seen, Some(format!("p/{name}")));
            object.ready = *ready;
            (key, object)
        });
        State {
            objects: objects.collect(),
            providers: Vec::new(),
        }
    }

    #[test]
    fn changes_are_what_differs() {
        let before = state(&[
            ("gone", "1", Some(false)),
            ("same", "1", None),
            ("written", "1", None),
            ("worse", "1", Some(true)),
        ]);
        let mut after = state(&[
            ("same", "1", None),
            ("written", "2", None),
            ("worse", "2", Some(false)),
            ("new", "1", None),
        ]);
        let changes = after.changes_since(&before).unwrap();
        let told: Vec<_> = changes
            .iter()
            .map(|object| (object.name.as_str(), object.ready, object.deleted))
            .collect();
        let expected = [
            ("gone", None, true),
            ("new", None, false),
            ("worse", Some(false), false),
            ("written", None, false),
        ];
        assert_eq!(told, expected);
        assert_eq!(after.changes_since(&after), None);
        let same = after.clone();
        after.providers.push(Provider {
            namespace: "ns".to_owned(),
            name: "p".to_owned(),
            ready: None,
            reason: String::new(),
            message: String::new(),
        });
        assert_eq!(after.changes_since(&same), Some(Vec::new()));
        assert!(same.lacks_providers_of(&after) && !after.lacks_providers_of(&same));
    }

    #[test]
    fn a_large_report_is_sent_in_parts_of_which_only_the_first_is_full() {
        let state = state(&[("a", "1", None), ("b", "1", None), ("c", "1", None)]);
        let one = raw(state.objects.values().next().unwrap()).get().len();
        let at = "2026-11-16T10:00:00Z".parse().unwrap();
        let parts = |largest, full| -> Vec<Value> {
            let parts = state.reports_within(largest, state.objects.values(), full, at);
            parts.iter().map(|part| serde_json::from_str(part).unwrap()).collect()
        };
        let shape = |parts: &[Value]| -> Vec<(bool, usize)> {
            let shape = parts
                .iter()
                .map(|part| (part["full"] == true, part["objects"].as_array().unwrap().len()));
            shape.collect()
        };
        assert_eq!(shape(&parts(LARGEST, true)), [(true, 3)]);
        assert_eq!(shape(&parts(2 * one + 2, true)), [(true, 2), (false, 1)]);
        assert_eq!(shape(&parts(1, true)), [(true, 1), (false, 1), (false, 1)]);
        assert_eq!(shape(&parts(1, false)), [(false, 1), (false, 1), (false, 1)]);
        let whole = parts(LARGEST, true);
        let expected = json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "namespace": "ns", "name": "a", "uid": "u",
            "resourceVersion": "1", "ready": null, "reason": "", "message": "", "input": "p/a", "deleted": false,
        });
        assert_eq!(whole[0]["objects"][0], expected);
        assert_eq!(whole[0]["at"], "2026-11-16T10:00:00Z");
        // An empty cluster has an empty report, which is sent all the same.
        let empty = State::default().reports([].iter(), true, at);
        assert_eq!(empty.len(), 1);
        assert!(
            empty[0].contains("\"full\":true,\"objects\":[],\"providers\":[]"),
            "{}",
            empty[0]
        );
    }
}
