//! Where each value of a cluster's inputs comes from, and what it beats.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::inputs::{Effective, cluster_block, reference_id, references};
use crate::kind::{CLUSTERS, EXCLUDED, KINDS, Kind, PROFILES, ROLLOUTS};
use crate::refusal::segment;
use crate::snapshot::{Cluster, Fleet, Seen, View};

/// The origin of everything that a cluster is told.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    pub cluster: String,
    /// The profiles that it matches, by ascending priority.
    pub profiles: Vec<String>,
    /// Per path, in the order of the reply.
    pub inputs: BTreeMap<String, Vec<ExplainedInput>>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ExplainedInput {
    pub id: String,
    /// By the pointer of each field in the input.
    pub fields: BTreeMap<String, Explained>,
}

/// A value, the document that it comes from, and those that it beats, the strongest first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explained {
    pub value: Value,
    /// `KIND/ID`.
    pub from: String,
    pub over: Vec<Beaten>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beaten {
    pub value: Value,
    pub from: String,
}

/// Explains the inputs of a cluster: all, those of one path, or one of them.
pub fn explain(fleet: &Fleet, cluster: &Cluster, path: Option<&str>, input: Option<&str>) -> Explanation {
    let view = fleet.view(cluster);
    let mut inputs = BTreeMap::new();
    for kind in fleet.kinds().definitions() {
        let Some(own) = kind.path.as_deref().filter(|own| path.is_none_or(|path| path == *own)) else {
            continue;
        };
        let found = explain_kind(&view, kind, input);
        if !found.is_empty() || path.is_some() {
            inputs.insert(own.to_owned(), found);
        }
    }
    Explanation {
        cluster: cluster.document().id.to_string(),
        profiles: view
            .profiles()
            .profiles()
            .iter()
            .map(|profile| profile.id().to_string())
            .collect(),
        inputs,
    }
}

fn explain_kind(view: &View<'_>, kind: &Kind, input: Option<&str>) -> Vec<ExplainedInput> {
    let Some(definitions) = view.definitions(&kind.name) else {
        return Vec::new();
    };
    let cluster = view.cluster();
    let own = cluster.document().body.parse();
    let effective = view.effective_for(kind);
    let wanted = references(kind, &effective)
        .iter()
        .filter(|reference| input.is_none_or(|input| input == reference_id(reference)));
    let explained = wanted.filter_map(|reference| {
        let id = reference_id(reference);
        let definition = definitions.get(id)?;
        let merged = Effective::new(kind, definition.value(), reference, &effective);
        let layers = layers(kind, view, &own, id);
        let mut fields = explain_fields(kind, &definitions, id, &merged, &layers);
        fields.extend(explain_cluster(kind, cluster));
        let id = id.to_owned();
        Some(ExplainedInput { id, fields })
    });
    explained.collect()
}

/// One document's part in the merge of an input.
struct Layer<'a> {
    from: String,
    reference: Option<&'a Value>,
    patches: Option<&'a Map<String, Value>>,
}

/// The documents that have a part in an input of a cluster, in the order of the merge. What an exclusion took out is left out.
fn layers<'a>(kind: &Kind, view: &'a View<'_>, own: &'a Value, id: &str) -> Vec<Layer<'a>> {
    let cluster = view.cluster();
    let profiles = view.profiles().profiles().iter();
    let documents = profiles.map(|profile| (format!("{PROFILES}/{}", profile.id()), profile.value()));
    let documents = documents.chain([(format!("{CLUSTERS}/{}", cluster.document().id), own)]);
    let mut layers = Vec::new();
    for (from, document) in documents {
        let mut all = references(kind, document).iter();
        let mut reference = all.find(|reference| reference_id(reference) == id);
        if reference.is_some_and(|reference| reference.get(EXCLUDED) == Some(&Value::Bool(true))) {
            layers.clear();
            reference = None;
        }
        let patches = document.get("patches").filter(|_| kind.flux.patches);
        let patches = patches.and_then(|patches| patches.get(id)?.as_object());
        layers.push(Layer {
            from,
            reference,
            patches,
        });
    }
    layers
}

/// The profiles that have a part in an input of a cluster, by ascending priority, and the fields of its reference that they set.
pub(crate) fn set_by_profiles(kind: &Kind, view: &View<'_>, id: &str) -> (Vec<String>, BTreeMap<String, String>) {
    let own = Value::Null;
    let (mut profiles, mut fields) = (Vec::new(), BTreeMap::new());
    for layer in layers(kind, view, &own, id) {
        let Some(profile) = layer.from.strip_prefix(PROFILES).and_then(|id| id.strip_prefix('/')) else {
            continue;
        };
        let set = layer.reference.and_then(Value::as_object);
        let set = set.into_iter().flatten().filter(|(_, value)| !value.is_null());
        let names = set
            .map(|(name, _)| name)
            .filter(|name| kind.flux.overridable.contains(name));
        fields.extend(names.map(|name| (name.clone(), profile.to_owned())));
        if layer.reference.is_some() {
            profiles.push(profile.to_owned());
        }
    }
    (profiles, fields)
}

fn explain_fields(
    kind: &Kind,
    definitions: &Seen<'_>,
    id: &str,
    merged: &Effective<'_>,
    layers: &[Layer<'_>],
) -> BTreeMap<String, Explained> {
    let mut fields = BTreeMap::new();
    let by_kind = format!("{KINDS}/{}", kind.name);
    let by_definition = format!("{}/{id}", kind.name);
    let by_rollout = definitions.rollout(id).map(|rollout| format!("{ROLLOUTS}/{rollout}"));
    let present = definitions.present(id).map(|definition| definition.value());
    let seen = definitions.get(id).map(|definition| definition.value());
    for (name, value) in merged.to_map() {
        if name == "patches" && kind.flux.patches {
            fields.extend(explain_patches(&value, layers, &by_kind));
            continue;
        }
        let mut candidates = Vec::new();
        if let Some(default) = kind.flux.carried.get(&name).and_then(|schema| schema.get("default")) {
            candidates.push((default, &by_kind));
        }
        let present = present.and_then(|value| value.get(&name));
        candidates.extend(present.map(|value| (value, &by_definition)));
        let patched = seen
            .and_then(|value| value.get(&name))
            .filter(|value| Some(*value) != present);
        candidates.extend(patched.zip(by_rollout.as_ref()));
        let can_differ = kind.flux.overridable.contains(&name) || kind.flux.carried.contains_key(&name);
        for layer in layers.iter().filter(|_| can_differ) {
            let set = layer.reference.and_then(|reference| reference.get(&name));
            candidates.extend(set.filter(|value| !value.is_null()).map(|value| (value, &layer.from)));
        }
        let pointer = match merged.target(&name) {
            Some(target) => format!("{}{}", segment(target), segment(&name)),
            None => segment(&name),
        };
        fields.extend(explained(candidates).map(|explained| (pointer, explained)));
    }
    fields
}

fn explain_patches(merged: &Value, layers: &[Layer<'_>], by_kind: &String) -> BTreeMap<String, Explained> {
    let merged = merged.as_object().into_iter().flatten();
    let mut fields: BTreeMap<String, Explained> = merged
        .filter_map(|(key, _)| {
            let candidates = layers
                .iter()
                .filter_map(|layer| Some((layer.patches?.get(key)?, &layer.from)));
            let pointer = format!("/patches{}", segment(key));
            explained(candidates.collect()).map(|explained| (pointer, explained))
        })
        .collect();
    if fields.is_empty() {
        let none = Value::Object(Map::new());
        fields.extend(explained(vec![(&none, by_kind)]).map(|explained| ("/patches".to_owned(), explained)));
    }
    fields
}

/// The cluster block, which only the cluster's document decides.
fn explain_cluster(kind: &Kind, cluster: &Cluster) -> BTreeMap<String, Explained> {
    fn leaves(value: Value, pointer: String, found: &mut Vec<(String, Value)>) {
        match value {
            Value::Object(fields) if !fields.is_empty() => fields
                .into_iter()
                .for_each(|(name, value)| leaves(value, format!("{pointer}{}", segment(&name)), found)),
            value => found.push((pointer, value)),
        }
    }
    let mut found = Vec::new();
    leaves(
        cluster_block(kind, cluster.head()).to_value(),
        "/cluster".to_owned(),
        &mut found,
    );
    let from = format!("{CLUSTERS}/{}", cluster.document().id);
    let explained = found.into_iter().map(|(pointer, value)| {
        let (from, over) = (from.clone(), Vec::new());
        (pointer, Explained { value, from, over })
    });
    explained.collect()
}

/// The last candidate, and those that it beats.
fn explained(candidates: Vec<(&Value, &String)>) -> Option<Explained> {
    let mut strongest = candidates.into_iter().rev();
    let (value, from) = strongest.next()?;
    Some(Explained {
        value: value.clone(),
        from: from.clone(),
        over: strongest
            .map(|(value, from)| Beaten {
                value: value.clone(),
                from: from.clone(),
            })
            .collect(),
    })
}
