//! The Kubernetes objects of a cluster: the templates, rendered as Flux Operator renders them.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleet::Fleet;
use fleet::diagnose::Diagnostic;
use fleet::diff::differences;
use fleet::effect::{InputEffect, ListEffect};
use fleet::inputs::Form;
use fleet::kind::Kind;
use fleet::log::Revision;
use fleet::refusal::{Violation, quote, segment};
use fleet::snapshot::{Cluster, Poll};
use resourceset::{Bundle, Rendered, Step};
use serde::Serialize;
use serde_json::{Map, Value};

use super::App;
use super::errors::ReadError;
use super::reads::Turn;
use super::resources::cluster_of;

/// The objects of a cluster, and what to know about them.
#[derive(Debug, Default)]
pub struct Manifests {
    pub objects: Vec<Value>,
    /// Why there are no objects of some inputs.
    pub notes: Vec<String>,
}

impl App {
    /// The objects of a cluster, now or at a revision; of one kind, if it is named.
    pub fn objects(
        &self,
        turn: &Turn,
        id: &str,
        kind: Option<&str>,
        revision: Option<Revision>,
    ) -> Result<Manifests, ReadError> {
        let fleet = match revision {
            Some(revision) => self.fleet_at(turn, revision)?,
            None => self.fleet(),
        };
        let cluster = cluster_of(&fleet, id)?;
        let path = kind.map(|name| path_of(&fleet, name)).transpose()?;
        let (mut objects, mut errors) = (Vec::new(), Vec::new());
        let templates = self.templates.current();
        for rendered in render(&templates, &fleet, cluster) {
            if path.as_deref().is_some_and(|path| !rendered.paths.contains(&path)) {
                continue;
            }
            match rendered.result {
                Ok(steps) => objects.extend(steps.into_iter().flat_map(|step| step.objects)),
                Err(error) => errors.push(Violation::new(segment(rendered.name), error.to_string())),
            }
        }
        if !errors.is_empty() {
            return Err(ReadError::Invalid(errors));
        }
        let notes = unread(&templates, &fleet, cluster, path.as_deref());
        let notes = notes.map(|(kind, detail)| format!("{}: {detail}", kind.name));
        Ok(Manifests {
            objects,
            notes: notes.collect(),
        })
    }

    /// The ResourceSets that a cluster renders its inputs with, and the providers that belong to them.
    pub fn resource_sets(&self, id: &str) -> Result<Manifests, ReadError> {
        cluster_of(&self.fleet(), id)?;
        Ok(Manifests {
            objects: self.templates.current().documents().to_vec(),
            notes: Vec::new(),
        })
    }

    /// What is accepted for a cluster but will not do what it seems to.
    pub fn diagnose(&self, id: &str) -> Result<Vec<Diagnostic>, ReadError> {
        let fleet = self.fleet();
        let cluster = cluster_of(&fleet, id)?;
        let mut found = fleet.diagnose(cluster);
        let templates = self.templates.current();
        found.extend(diagnose(&fleet, &render(&templates, &fleet, cluster)));
        let unread = unread(&templates, &fleet, cluster, None);
        found.extend(unread.map(|(kind, detail)| Diagnostic {
            code: "untemplated",
            kind: kind.name.to_string(),
            id: String::new(),
            detail,
        }));
        Ok(found)
    }
}

/// The Flux path of a kind, by any of the names that the kind has.
fn path_of(fleet: &Fleet, name: &str) -> Result<String, ReadError> {
    let known = |kind: &&Arc<Kind>| {
        *kind.name == *name || kind.singular == name || kind.command == name || kind.path.as_deref() == Some(name)
    };
    let path = fleet
        .kinds()
        .definitions()
        .find(known)
        .and_then(|kind| kind.path.clone());
    path.ok_or_else(|| {
        let name = quote(name);
        ReadError::BadParameter(format!("kind=\"{name}\" is not a kind with a Flux endpoint"))
    })
}

/// Renders each ResourceSet for one cluster.
fn render<'a>(templates: &'a Bundle, fleet: &Fleet, cluster: &Cluster) -> Vec<Rendered<'a>> {
    // Plain: a mark changes with its input, and would only repeat in the manifests what changed.
    templates.render(|path| inputs(fleet, cluster, path, Form::Plain))
}

/// The cluster's inputs at a path. None: the poll would not be answered.
pub(super) fn inputs(fleet: &Fleet, cluster: &Cluster, path: &str, form: Form) -> Option<Vec<Map<String, Value>>> {
    let Poll::Reply(body) = fleet.named(&cluster.head().dns).read(path, form) else {
        return None;
    };
    let mut body: Value = serde_json::from_slice(&body).ok()?;
    let Value::Array(inputs) = body["inputs"].take() else {
        return None;
    };
    let inputs = inputs.into_iter().filter_map(|input| match input {
        Value::Object(input) => Some(input),
        _ => None,
    });
    Some(inputs.collect())
}

/// The kinds whose inputs no ResourceSet reads, each with what that means: those that the cluster has inputs of, or the one at
/// `wanted`.
fn unread<'a>(
    templates: &Bundle,
    fleet: &'a Fleet,
    cluster: &Cluster,
    wanted: Option<&str>,
) -> impl Iterator<Item = (&'a Arc<Kind>, String)> {
    fleet.kinds().definitions().filter_map(move |kind| {
        let path = kind.path.as_deref()?;
        if templates.reads(path) || wanted.is_some_and(|wanted| wanted != path) {
            return None;
        }
        let count = inputs(fleet, cluster, path, Form::Plain).map_or(0, |inputs| inputs.len());
        let detail = match count {
            0 if wanted.is_none() => return None,
            1 => format!("no ResourceSet reads the path {path}, so nothing is rendered of its input"),
            count => format!("no ResourceSet reads the path {path}, so nothing is rendered of its {count} inputs"),
        };
        Some((kind, detail))
    })
}

/// Problems that show only in the rendered objects.
fn diagnose(fleet: &Fleet, rendered: &[Rendered<'_>]) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut known: BTreeMap<String, &str> = BTreeMap::new();
    for one in rendered {
        for object in one.result.iter().flatten().flat_map(|step| &step.objects) {
            known.entry(name(object)).or_insert(one.name);
        }
    }
    for one in rendered {
        let kind = one.paths.first().and_then(|path| fleet.kinds().at_path(path));
        let mut report = |code, detail: String| {
            found.push(Diagnostic {
                code,
                kind: kind.map(|kind| kind.name.to_string()).unwrap_or_default(),
                id: one.name.to_owned(),
                detail,
            });
        };
        let steps: &[Step] = match &one.result {
            Ok(steps) => steps,
            Err(error) => {
                report("template", format!("the ResourceSet cannot be rendered: {error}"));
                continue;
            }
        };
        for object in steps.iter().flat_map(|step| &step.duplicates) {
            report(
                "duplicate",
                format!("{object} is rendered more than once; only the first counts"),
            );
        }
        for object in steps.iter().flat_map(|step| &step.objects) {
            let this = name(object);
            match known.get(&this) {
                Some(owner) if *owner != one.name => {
                    report(
                        "duplicate",
                        format!("{this} is rendered by the ResourceSet {owner} too"),
                    );
                }
                _ => {}
            }
            for wanted in object["spec"]["dependsOn"].as_array().into_iter().flatten() {
                let namespace = wanted["namespace"]
                    .as_str()
                    .or(object["metadata"]["namespace"].as_str());
                let wanted = format!(
                    "{}/{}/{}",
                    object["kind"].as_str().unwrap_or_default(),
                    namespace.unwrap_or_default(),
                    wanted["name"].as_str().unwrap_or_default()
                );
                if !known.contains_key(&wanted) {
                    report("unmet", format!("{this} waits for {wanted}, which is not rendered"));
                }
            }
        }
    }
    found
}

/// What a change does to the objects of one cluster.
#[derive(Clone, Debug, Default)]
pub struct ObjectsEffect {
    /// By the names of the objects.
    pub names: ListEffect,
    /// The objects themselves, sorted by name.
    pub manifests: Vec<ManifestChange>,
}

/// An object that changes: as it was, and as it will be.
#[derive(Clone, Debug, Serialize)]
pub struct ManifestChange {
    id: String,
    before: Option<Value>,
    after: Option<Value>,
}

/// What a change does to the objects of the cluster with a DNS name.
pub fn compare(templates: &Bundle, before: &Fleet, after: &Fleet, dns: &str) -> Result<ObjectsEffect, String> {
    let objects = |fleet: &Fleet| -> Result<BTreeMap<String, Value>, String> {
        let mut objects = BTreeMap::new();
        let Some(cluster) = fleet.cluster_at(dns) else {
            return Ok(objects);
        };
        for rendered in render(templates, fleet, cluster) {
            let steps = rendered.result.map_err(|error| format!("{}: {error}", rendered.name))?;
            let all = steps.into_iter().flat_map(|step| step.objects);
            objects.extend(all.map(|object| (name(&object), object)));
        }
        Ok(objects)
    };
    let (mut old, new) = (objects(before)?, objects(after)?);
    let mut effect = ObjectsEffect::default();
    for (id, after) in new {
        let before = old.remove(&id);
        match &before {
            Some(before) => {
                let fields = differences(Some(before), Some(&after));
                if fields.is_empty() {
                    continue;
                }
                effect.names.changed.push(InputEffect { id: id.clone(), fields });
            }
            None => effect.names.added.push(id.clone()),
        }
        effect.manifests.push(ManifestChange {
            id,
            before,
            after: Some(after),
        });
    }
    effect.names.removed = old.keys().cloned().collect();
    effect
        .manifests
        .extend(old.into_iter().map(|(id, before)| ManifestChange {
            id,
            before: Some(before),
            after: None,
        }));
    effect.manifests.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(effect)
}

/// `Kind/namespace/name`
fn name(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    format!(
        "{}/{}/{}",
        text(&object["kind"]),
        text(&metadata["namespace"]),
        text(&metadata["name"])
    )
}
