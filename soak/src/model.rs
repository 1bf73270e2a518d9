//! The expected state. Each cluster has one writer, so its expected state is known at every moment.

use std::collections::{BTreeMap, BTreeSet};

use bench::generate::PATHS;
use serde_json::Value;

/// The arrays of references, in the order of [`PATHS`].
pub(crate) const ARRAYS: [&str; 3] = ["platform_components", "namespaces", "rolebindings"];

pub(crate) type Inputs = [BTreeSet<String>; PATHS.len()];

/// The visible state of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Shape {
    /// None: there is no such cluster, or it was deleted.
    pub(crate) dns: Option<String>,
    pub(crate) inputs: Inputs,
}

impl Shape {
    /// The shape of a cluster's document.
    pub(crate) fn of(document: &Value) -> Shape {
        Shape {
            dns: document["cluster_dns"].as_str().map(str::to_owned),
            inputs: ARRAYS.map(|array| ids(&document[array])),
        }
    }
}

/// The ids of an array of references or inputs.
pub(crate) fn ids(items: &Value) -> BTreeSet<String> {
    let items = items.as_array().into_iter().flatten();
    items
        .filter_map(|item| item["id"].as_str())
        .map(str::to_owned)
        .collect()
}

/// One cluster as its writer knows it.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) id: String,
    /// As it was last acknowledged.
    pub(crate) shape: Shape,
    /// The least that every process must reply with: what the last quiet point and every state since have in common.
    floor: Inputs,
    /// Whether every process knows its name since the last quiet point.
    settled: bool,
    /// The version of its document, if it is known.
    pub(crate) etag: Option<String>,
    /// A revision to go back to, and what the cluster was then.
    pub(crate) past: Option<(u64, Shape)>,
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) clusters: Vec<Cluster>,
    /// Names that clusters had earlier, and why they lost them.
    pub(crate) gone: BTreeMap<String, Gone>,
    /// Grows with each quiet point.
    epoch: u64,
}

/// Why a name belongs to no cluster any more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Gone {
    /// It answers with an empty list, so that Flux cleans up.
    Deleted,
    /// It answers with 404, so that Flux keeps what it has.
    Renamed,
}

/// A poll before it is sent.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) cluster: usize,
    pub(crate) dns: String,
    epoch: u64,
}

/// What is wrong with a reply.
pub(crate) type Verdict = Result<(), String>;

impl Model {
    pub(crate) fn new(documents: &[Value]) -> Model {
        let mut model = Model::default();
        for document in documents {
            model.add(document["id"].as_str().unwrap_or_default(), Shape::of(document));
        }
        model.settle();
        model
    }

    /// Adds a cluster; one without a name does not exist yet.
    pub(crate) fn add(&mut self, id: &str, shape: Shape) {
        self.clusters.push(Cluster {
            id: id.to_owned(),
            shape,
            floor: Inputs::default(),
            settled: false,
            etag: None,
            past: None,
        });
    }

    /// All processes agree with the model: from now on nothing of it may vanish by itself.
    pub(crate) fn settle(&mut self) {
        self.epoch += 1;
        for cluster in &mut self.clusters {
            cluster.floor = cluster.shape.inputs.clone();
            cluster.settled = true;
        }
    }

    /// Records a write before it is sent: from now on the cluster may have this state.
    pub(crate) fn expect(&mut self, index: usize, next: &Shape) {
        let cluster = &mut self.clusters[index];
        cluster.settled &= cluster.shape.dns == next.dns;
        for (floor, next) in cluster.floor.iter_mut().zip(&next.inputs) {
            floor.retain(|id| next.contains(id));
        }
    }

    /// Records the state that a writer knows for certain.
    pub(crate) fn known(&mut self, index: usize, shape: Shape, etag: Option<String>, revision: Option<u64>) {
        let cluster = &mut self.clusters[index];
        if let (None, Some(revision)) = (&cluster.past, revision) {
            cluster.past = Some((revision, shape.clone()));
        }
        if let Some(old) = cluster.shape.dns.clone().filter(|old| shape.dns.as_ref() != Some(old)) {
            let why = if shape.dns.is_none() {
                Gone::Deleted
            } else {
                Gone::Renamed
            };
            self.gone.insert(old, why);
        }
        if let Some(name) = &shape.dns {
            self.gone.remove(name);
        }
        cluster.shape = shape;
        cluster.etag = etag;
    }

    pub(crate) fn ask(&self, cluster: usize) -> Option<Asked> {
        let dns = self.clusters[cluster].shape.dns.clone()?;
        let epoch = self.epoch;
        Some(Asked { cluster, dns, epoch })
    }

    /// Checks the reply to a poll. Between quiet points the least expected state only shrinks, so the current one is valid for an
    /// earlier reply. A reply from before a quiet point is not checked.
    pub(crate) fn judge(&self, asked: &Asked, path: usize, status: u16, body: &[u8]) -> Verdict {
        let cluster = &self.clusters[asked.cluster];
        let same_name = cluster.settled && cluster.shape.dns.as_ref() == Some(&asked.dns);
        if self.epoch != asked.epoch || (status == 404 && !same_name) {
            return Ok(());
        }
        if status != 200 {
            return Err(format!("status {status}"));
        }
        let body: Value = serde_json::from_slice(body).map_err(|error| format!("no JSON: {error}"))?;
        if !body["inputs"].is_array() {
            return Err("no inputs".to_owned());
        }
        let missing: Vec<_> = match same_name {
            true => cluster.floor[path].difference(&ids(&body["inputs"])).cloned().collect(),
            false => Vec::new(),
        };
        match missing.is_empty() {
            true => Ok(()),
            false => Err(format!("{} inputs are missing: {}", missing.len(), missing.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn model() -> Model {
        let document = json!({"id": "a", "cluster_dns": "a.example.com",
            "platform_components": [{"id": "x"}, {"id": "y"}], "namespaces": [], "rolebindings": []});
        Model::new(&[document])
    }

    fn reply(ids: &[&str]) -> Vec<u8> {
        let inputs: Vec<_> = ids.iter().map(|id| json!({ "id": id })).collect();
        json!({ "inputs": inputs }).to_string().into_bytes()
    }

    fn judge(model: &Model, status: u16, ids: &[&str]) -> Verdict {
        let asked = model.ask(0).expect("it has a name");
        model.judge(&asked, 0, status, &reply(ids))
    }

    #[test]
    fn a_shorter_list_is_wrong_until_a_write_may_have_shortened_it() {
        let mut model = model();
        assert!(judge(&model, 200, &["x", "y"]).is_ok());
        assert!(judge(&model, 200, &["x"]).is_err());
        assert!(judge(&model, 404, &[]).is_err());
        let mut next = model.clusters[0].shape.clone();
        next.inputs[0].remove("y");
        model.expect(0, &next);
        assert!(judge(&model, 200, &["x"]).is_ok());
        assert!(judge(&model, 200, &[]).is_err());
    }

    #[test]
    fn an_added_input_must_be_everywhere_only_after_a_quiet_point() {
        let mut model = model();
        let mut next = model.clusters[0].shape.clone();
        next.inputs[0].insert("z".to_owned());
        model.expect(0, &next);
        model.known(0, next, None, Some(2));
        assert!(judge(&model, 200, &["x", "y"]).is_ok());
        let asked_before = model.ask(0).expect("it has a name");
        model.settle();
        assert!(judge(&model, 200, &["x", "y"]).is_err());
        assert!(model.judge(&asked_before, 0, 200, &reply(&["x", "y"])).is_ok());
    }

    #[test]
    fn a_name_may_be_unknown_only_while_it_is_new() {
        let mut model = model();
        let mut next = model.clusters[0].shape.clone();
        next.dns = Some("b.example.com".to_owned());
        model.expect(0, &next);
        model.known(0, next, None, None);
        assert!(judge(&model, 404, &[]).is_ok());
        assert!(judge(&model, 500, &[]).is_err());
        model.settle();
        assert!(judge(&model, 404, &[]).is_err());
    }
}
