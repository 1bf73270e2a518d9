//! Everything that the watches see, and which part of it is reported.

use std::collections::BTreeMap;
use std::mem;

use crate::kind::Kind;
use crate::ours::Ours;
use crate::report::{Object, Provider, State};
use crate::seen::{Role, Seen};

/// An object's kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) kind: Kind,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// The objects of all kinds in all watched namespaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inventory {
    places: BTreeMap<(Kind, String), Place>,
}

/// The objects of one kind in one namespace.
#[derive(Clone, Debug, Default)]
struct Place {
    /// Whether this is how it is now: the list was read, and the watch goes on.
    current: bool,
    objects: BTreeMap<String, Seen>,
}

/// One of our providers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnProvider {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// What it polls.
    pub(crate) path: String,
    pub(crate) ready: Option<bool>,
}

impl Inventory {
    /// Nothing is known yet of these kinds and namespaces.
    pub(crate) fn new(namespaces: &[String]) -> Inventory {
        let places = namespaces
            .iter()
            .flat_map(|namespace| Kind::ALL.map(|kind| ((kind, namespace.clone()), Place::default())));
        Inventory {
            places: places.collect(),
        }
    }

    /// Whether everything is known: only then does a missing object mean that there is none.
    pub(crate) fn is_current(&self) -> bool {
        self.places.values().all(|place| place.current)
    }

    /// The list of a kind in a namespace was read. None of a kind that the cluster does not have.
    pub(crate) fn replace(&mut self, kind: Kind, namespace: &str, objects: Vec<(String, Seen)>) {
        let place = self.place(kind, namespace);
        place.objects = objects.into_iter().collect();
        place.current = true;
    }

    pub(crate) fn put(&mut self, kind: Kind, namespace: &str, name: String, seen: Seen) {
        self.place(kind, namespace).objects.insert(name, seen);
    }

    pub(crate) fn remove(&mut self, kind: Kind, namespace: &str, name: &str) {
        self.place(kind, namespace).objects.remove(name);
    }

    /// The watch failed. Returns whether that is new.
    pub(crate) fn lose(&mut self, kind: Kind, namespace: &str) -> bool {
        mem::take(&mut self.place(kind, namespace).current)
    }

    fn place(&mut self, kind: Kind, namespace: &str) -> &mut Place {
        self.places.entry((kind, namespace.to_owned())).or_default()
    }

    fn of(&self, kind: Kind) -> impl Iterator<Item = (&str, &str, &Seen)> {
        let places = self.places.iter().filter(move |((found, _), _)| *found == kind);
        places.flat_map(|((_, namespace), place)| {
            let objects = place.objects.iter();
            objects.map(|(name, seen)| (namespace.as_str(), name.as_str(), seen))
        })
    }

    /// The providers that poll our API for this cluster.
    pub(crate) fn providers(&self, ours: &Ours) -> Vec<OwnProvider> {
        let found = self.of(Kind::InputProvider).filter_map(|(namespace, name, seen)| {
            let Role::Provider { url: Some(url), .. } = &seen.role else {
                return None;
            };
            Some(OwnProvider {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                path: ours.path(url)?.to_owned(),
                ready: seen.readiness.ready,
            })
        });
        found.collect()
    }

    /// Providers of this cluster's inputs at another address than ours.
    pub(crate) fn elsewhere<'a>(&'a self, ours: &'a Ours) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.of(Kind::InputProvider)
            .filter_map(|(_, name, seen)| match &seen.role {
                Role::Provider { url: Some(url), .. } if ours.is_elsewhere(url) => Some((name, url.as_str())),
                _ => None,
            })
    }

    /// What is reported: objects that came of our inputs, charts of such releases, ResourceSets that read our providers, and
    /// the providers themselves.
    pub(crate) fn state(&self, ours: &Ours) -> State {
        let mut state = State::default();
        for kind in Kind::ALL {
            for (namespace, name, seen) in self.of(kind) {
                let input = match kind {
                    Kind::InputProvider => None,
                    Kind::ResourceSet => self.reads_ours(ours, namespace, seen).then_some(None),
                    Kind::HelmChart if seen.input.is_none() => self.input_of_chart(namespace, name).map(Some),
                    _ => seen.input.clone().map(Some),
                };
                let Some(input) = input else { continue };
                let key = Key {
                    kind,
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                };
                let object = Object::new(&key, seen, input);
                state.objects.insert(key, object);
            }
        }
        let providers = self
            .of(Kind::InputProvider)
            .filter(|(_, _, seen)| polls_ours(ours, seen));
        state.providers = providers
            .map(|(namespace, name, seen)| Provider::new(namespace, name, seen))
            .collect();
        state
    }

    fn reads_ours(&self, ours: &Ours, namespace: &str, set: &Seen) -> bool {
        let Role::Set { reads } = &set.role else {
            return false;
        };
        // A ResourceSet reads providers of its own namespace only.
        let place = self.places.get(&(Kind::InputProvider, namespace.to_owned()));
        let mut providers = place.into_iter().flat_map(|place| &place.objects);
        providers.any(|(name, provider)| match &provider.role {
            Role::Provider { labels, .. } => {
                polls_ours(ours, provider) && reads.iter().any(|reads| reads.matches(name, labels))
            }
            _ => false,
        })
    }

    /// The input of the release whose chart this is. helm-controller names the chart of release `NS/NAME` `NS-NAME`.
    fn input_of_chart(&self, namespace: &str, name: &str) -> Option<String> {
        let mut releases = self.of(Kind::HelmRelease).filter(|(of, release, seen)| {
            let named = name.strip_prefix(*of).and_then(|rest| rest.strip_prefix('-')) == Some(release);
            let Role::Release { chart } = &seen.role else {
                return false;
            };
            // `a-b/c` and `a/b-c` have the same name of a chart. Each says which one is its own, once it has one.
            named
                && chart
                    .as_ref()
                    .is_none_or(|chart| *chart == format!("{namespace}/{name}"))
        });
        releases.find_map(|(_, _, seen)| seen.input.clone())
    }
}

fn polls_ours(ours: &Ours, provider: &Seen) -> bool {
    matches!(&provider.role, Role::Provider { url: Some(url), .. } if ours.path(url).is_some())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const URL: &str = "https://fleet.example.com";

    fn ours() -> Ours {
        Ours::new(URL, "a")
    }

    fn put(inventory: &mut Inventory, kind: Kind, name: &str, object: Value) {
        let mut object = object;
        object["metadata"]["name"] = name.into();
        let seen = Seen::of(kind, &serde_json::from_value(object).unwrap());
        inventory.put(kind, "ns", name.to_owned(), seen);
    }

    fn marked(input: &str) -> Value {
        json!({"metadata": {"annotations": {
            "event.toolkit.fluxcd.io/input": input, "event.toolkit.fluxcd.io/desired": "00000000000000ff"}}})
    }

    fn provider(url: &str) -> Value {
        json!({"metadata": {"labels": {"team": "a"}}, "spec": {"type": "ExternalService", "url": url}})
    }

    /// Kinds and names of the reported objects, with their inputs.
    fn reported(inventory: &Inventory) -> Vec<String> {
        let state = inventory.state(&ours());
        let objects = state.objects.values();
        objects
            .map(|object| {
                let input = object.input.as_deref().unwrap_or("-");
                let desired = object.desired.as_deref().unwrap_or("-");
                format!("{} {} {input} {desired}", object.kind, object.name)
            })
            .collect()
    }

    #[test]
    fn what_came_of_our_inputs_is_reported() {
        let mut inventory = Inventory::new(&["ns".to_owned()]);
        put(
            &mut inventory,
            Kind::HelmRelease,
            "platform-a",
            marked("platform-components/a"),
        );
        put(&mut inventory, Kind::HelmRelease, "foreign", json!({}));
        put(&mut inventory, Kind::HelmChart, "ns-platform-a", json!({}));
        put(&mut inventory, Kind::HelmChart, "ns-foreign", json!({}));
        put(&mut inventory, Kind::HelmChart, "other-platform-a", json!({}));
        put(
            &mut inventory,
            Kind::OciRepository,
            "platform-b",
            marked("platform-components/b"),
        );
        let url = format!("{URL}/api/v2/flux/clusters/a/namespaces?marked=true");
        put(&mut inventory, Kind::InputProvider, "names", provider(&url));
        put(
            &mut inventory,
            Kind::InputProvider,
            "foreign",
            provider("https://other.example.com/x"),
        );
        let reads = |item: Value| json!({"spec": {"inputsFrom": [item]}});
        put(
            &mut inventory,
            Kind::ResourceSet,
            "by-name",
            reads(json!({"name": "names"})),
        );
        put(
            &mut inventory,
            Kind::ResourceSet,
            "by-label",
            reads(json!({"selector": {"matchLabels": {"team": "a"}}})),
        );
        put(
            &mut inventory,
            Kind::ResourceSet,
            "foreign",
            reads(json!({"name": "foreign"})),
        );
        put(
            &mut inventory,
            Kind::ResourceSet,
            "without",
            json!({"spec": {"inputs": [{"id": "a"}]}}),
        );
        assert_eq!(
            reported(&inventory),
            [
                "HelmRelease platform-a platform-components/a 00000000000000ff",
                "OCIRepository platform-b platform-components/b 00000000000000ff",
                // Without the mark: the chart may still be that of an earlier input.
                "HelmChart ns-platform-a platform-components/a -",
                "ResourceSet by-label - -",
                "ResourceSet by-name - -",
            ]
        );
        let state = inventory.state(&ours());
        let names: Vec<&str> = state.providers.iter().map(|provider| provider.name.as_str()).collect();
        assert_eq!(names, ["names"]);
        let own = inventory.providers(&ours());
        assert_eq!((own[0].name.as_str(), own[0].path.as_str()), ("names", "namespaces"));
    }

    #[test]
    fn a_chart_whose_name_fits_two_releases_belongs_to_the_one_that_names_it() {
        let mut inventory = Inventory::default();
        for (namespace, name, input) in [("a-b", "c", "x/one"), ("a", "b-c", "x/two")] {
            let mut object = marked(input);
            object["metadata"]["name"] = name.into();
            object["status"] = json!({"helmChart": format!("{namespace}/a-b-c")});
            let seen = Seen::of(Kind::HelmRelease, &serde_json::from_value(object).unwrap());
            inventory.put(Kind::HelmRelease, namespace, name.to_owned(), seen);
        }
        assert_eq!(inventory.input_of_chart("a", "a-b-c").as_deref(), Some("x/two"));
        assert_eq!(inventory.input_of_chart("a-b", "a-b-c").as_deref(), Some("x/one"));
        assert_eq!(inventory.input_of_chart("b", "a-b-c"), None);
    }

    #[test]
    fn it_is_current_when_every_list_was_read_and_every_watch_goes_on() {
        let mut inventory = Inventory::new(&["ns".to_owned()]);
        for kind in Kind::ALL {
            assert!(!inventory.is_current(), "{kind:?}");
            inventory.replace(kind, "ns", Vec::new());
        }
        assert!(inventory.is_current());
        put(&mut inventory, Kind::Kustomization, "a", marked("p/a"));
        assert!(inventory.lose(Kind::Kustomization, "ns"));
        assert!(!inventory.lose(Kind::Kustomization, "ns"), "that is not new");
        assert!(!inventory.is_current());
        assert_eq!(reported(&inventory).len(), 1, "what was seen stays");
        inventory.replace(Kind::Kustomization, "ns", Vec::new());
        assert!(inventory.is_current() && reported(&inventory).is_empty());
    }
}
