//! The fleet that is measured: the same one in every run, so that figures of two runs can be compared.

use std::io::Write;

use serde_json::{Map, Value, json};

use crate::Result;

const COMPONENTS: usize = 20;
const NAMESPACES: usize = 40;
const ROLEBINDINGS: usize = 20;
const NAMESPACES_PER_CLUSTER: usize = 15;
const ROLEBINDINGS_PER_CLUSTER: usize = 10;
const PATCHED_PER_CLUSTER: usize = 3;
/// The components that others depend on: every cluster has them, so that no dependency dangles.
const BASE_COMPONENTS: usize = 2;

/// The paths of the three Flux endpoints, in the order of [`Cluster::inputs`].
pub const PATHS: [&str; 3] = ["platform-components", "namespaces", "rolebindings"];

/// What the loader must know of a generated cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    pub id: String,
    pub dns: String,
    /// How many inputs each of [`PATHS`] has to answer with.
    pub inputs: [usize; 3],
    /// A component of this cluster, for writers to patch.
    pub component: String,
}

/// splitmix64: good enough to spread load, and the same everywhere.
#[derive(Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to `bound` - 1.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// True in `chance` of 100 cases.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    /// `count` distinct numbers of `from..to`, sorted: references keep the order of the catalog.
    fn pick(&mut self, count: usize, from: usize, to: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (from..to).collect();
        for i in 0..count {
            let other = i + self.below(all.len() - i);
            all.swap(i, other);
        }
        all.truncate(count);
        all.sort_unstable();
        all
    }
}

/// Writes a fleet of `count` clusters as JSON lines, definitions first. A smaller fleet is the beginning of a larger one.
pub fn write_fleet(count: usize, out: &mut impl Write) -> Result<Vec<Cluster>> {
    let mut rng = Rng::new(0x000f_1ee7);
    for i in 0..COMPONENTS {
        writeln!(out, "{}", component(i))?;
    }
    for i in 0..NAMESPACES {
        writeln!(out, "{}", namespace(i))?;
    }
    for i in 0..ROLEBINDINGS {
        writeln!(out, "{}", rolebinding(i))?;
    }
    let mut clusters = Vec::with_capacity(count);
    for i in 0..count {
        let (document, cluster) = cluster(i, &mut rng);
        writeln!(out, "{document}")?;
        clusters.push(cluster);
    }
    Ok(clusters)
}

fn component_id(i: usize) -> String {
    format!("component-{i:02}")
}

fn component(i: usize) -> Value {
    let depends_on: Vec<String> = (0..BASE_COMPONENTS.min(i)).map(component_id).collect();
    json!({
        "kind": "platform_components",
        "id": component_id(i),
        "component_path": format!("platform/{}/base", component_id(i)),
        "component_version": format!("{}.{}.{}", 1 + i % 4, i, i * 7 % 10),
        "cluster_env_enabled": i.is_multiple_of(3),
        "oci_url": format!("oci://registry.example.com/platform/{}", component_id(i)),
        "oci_tag": format!("v{}.{}.{}", 1 + i % 4, i, i * 7 % 10),
        "depends_on": depends_on,
    })
}

fn namespace(i: usize) -> Value {
    json!({
        "kind": "namespaces",
        "id": format!("team-{i:02}"),
        "labels": {"team": format!("team-{i:02}"), "pod-security.kubernetes.io/enforce": "restricted"},
        "annotations": {"owner": format!("team-{i:02}@example.com"), "cost-center": format!("cc-{}", 1000 + i * 37)},
    })
}

fn rolebinding(i: usize) -> Value {
    let group = |role: &str| json!({"kind": "Group", "name": format!("team-{i:02}-{role}"), "apiGroup": "rbac.authorization.k8s.io"});
    json!({
        "kind": "rolebindings",
        "id": format!("team-{i:02}-access"),
        "role": (["view", "edit", "admin"][i % 3]),
        "subjects": [group("developers"), group("operators")],
    })
}

fn cluster(i: usize, rng: &mut Rng) -> (Value, Cluster) {
    let id = format!("cluster-{i:06}");
    let dns = format!("{id}.k8s.example.com");
    let others = 15 - BASE_COMPONENTS + rng.below(6);
    let mut components: Vec<usize> = (0..BASE_COMPONENTS).collect();
    components.extend(rng.pick(others, BASE_COMPONENTS, COMPONENTS));
    let references: Vec<Value> = components.iter().map(|&component| reference(component, rng)).collect();

    let mut patches = Map::new();
    for place in rng.pick(PATCHED_PER_CLUSTER, 0, components.len()) {
        let values = json!({
            "replicaCount": (1 + rng.below(5)).to_string(),
            "resources.limits.memory": format!("{}Mi", 128 * (1 + rng.below(8))),
            "ingress.host": format!("app-{}.{dns}", rng.below(100)),
        });
        patches.insert(component_id(components[place]), values);
    }

    let document = json!({
        "kind": "clusters",
        "id": id,
        "cluster_name": id,
        "cluster_dns": dns,
        "environment": (["dev", "qa", "uat", "prod"][rng.below(4)]),
        "labels": {"region": (["eu-west", "eu-north", "us-east", "ap-south"][rng.below(4)]), "wave": rng.below(10).to_string()},
        "platform_components": references,
        "namespaces": rng
            .pick(NAMESPACES_PER_CLUSTER, 0, NAMESPACES)
            .iter()
            .map(|n| json!({"id": format!("team-{n:02}")}))
            .collect::<Vec<_>>(),
        "rolebindings": rng
            .pick(ROLEBINDINGS_PER_CLUSTER, 0, ROLEBINDINGS)
            .iter()
            .map(|n| json!({"id": format!("team-{n:02}-access")}))
            .collect::<Vec<_>>(),
        "patches": patches,
    });
    let inputs = [components.len(), NAMESPACES_PER_CLUSTER, ROLEBINDINGS_PER_CLUSTER];
    let component = component_id(components[rng.below(components.len())]);
    (
        document,
        Cluster {
            id,
            dns,
            inputs,
            component,
        },
    )
}

fn reference(component: usize, rng: &mut Rng) -> Value {
    let id = component_id(component);
    let mut reference = json!({"id": id, "enabled": !rng.percent(5)});
    if rng.percent(10) {
        reference["oci_tag"] = json!(format!("v9.{}.0-canary", rng.below(20)));
    }
    if rng.percent(5) {
        reference["component_path"] = json!(format!("platform/{id}/overlays/{}", rng.below(4)));
    }
    reference
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    fn generated(count: usize) -> (String, Vec<Cluster>) {
        let mut out = Vec::new();
        let clusters = write_fleet(count, &mut out).expect("writes to memory");
        (String::from_utf8(out).expect("UTF-8"), clusters)
    }

    fn ids(value: &Value) -> Vec<&str> {
        value
            .as_array()
            .expect("array")
            .iter()
            .map(|item| item["id"].as_str().expect("id"))
            .collect()
    }

    #[test]
    fn a_fleet_is_the_same_in_every_run_and_begins_like_a_larger_one() {
        let (text, clusters) = generated(50);
        assert_eq!((text.clone(), clusters), generated(50));
        assert!(generated(80).0.starts_with(&text));
    }

    #[test]
    fn documents_have_the_shape_that_import_takes() {
        let (text, clusters) = generated(200);
        let mut known: HashMap<String, HashSet<String>> = HashMap::new();
        let mut seen = clusters.iter();
        let mut sizes = HashSet::new();
        for line in text.lines() {
            let document: Value = serde_json::from_str(line).expect("JSON");
            let kind = document["kind"].as_str().expect("kind");
            let id = document["id"].as_str().expect("id");
            assert!(
                id.len() <= 53
                    && id
                        .bytes()
                        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            );
            if kind != "clusters" {
                for dependency in document["depends_on"].as_array().into_iter().flatten() {
                    assert!(
                        known[kind].contains(dependency.as_str().expect("string")),
                        "definitions come in order"
                    );
                }
                assert!(known.entry(kind.into()).or_default().insert(id.into()), "{id} twice");
                continue;
            }
            let cluster = seen.next().expect("one per line");
            assert_eq!(
                (id, document["cluster_dns"].as_str()),
                (cluster.id.as_str(), Some(cluster.dns.as_str()))
            );
            for (array, inputs) in ["platform_components", "namespaces", "rolebindings"]
                .iter()
                .zip(cluster.inputs)
            {
                let references = ids(&document[*array]);
                assert_eq!(references.len(), inputs);
                assert_eq!(
                    references.iter().collect::<HashSet<_>>().len(),
                    inputs,
                    "a reference twice"
                );
                assert!(
                    references.iter().all(|id| known[*array].contains(*id)),
                    "a reference dangles"
                );
            }
            let components = ids(&document["platform_components"]);
            assert!(components.contains(&cluster.component.as_str()));
            let patches = document["patches"].as_object().expect("object");
            assert_eq!(patches.len(), PATCHED_PER_CLUSTER);
            assert!(patches.keys().all(|id| components.contains(&id.as_str())));
            sizes.insert(cluster.inputs[0]);
        }
        assert_eq!(seen.next(), None);
        assert_eq!(sizes, (15..=20).collect());
        assert_eq!(known["platform_components"].len(), COMPONENTS);
    }
}
