//! `e2e manifests`: every manifest that we ship, judged by the real API server. Each rendering is sent as a server-side dry run with
//! strict validation, into namespaces that admit only restricted pods; a warning counts as an error.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use serde_json::{Value, json};

use crate::cluster::{Cluster, Parts, Plan};
use crate::kube::{Kube, Resource, text};
use crate::{Result, manifests, wait, wiring};

/// Judges renderings by a real API server.
#[derive(Debug, Parser)]
#[command(name = "e2e manifests")]
pub(crate) struct Args {
    /// What build.sh built: bin/ and crds/
    #[arg(long, value_name = "DIR")]
    parts: PathBuf,
    /// Definitions of what is not Flux' own
    #[arg(long, value_name = "DIR")]
    crds: PathBuf,
    /// The folder with a file of objects per rendering
    renderings: PathBuf,
}

/// What a cluster's identity puts into the manifests that it applies, as kustomize-controller would.
const IDENTITY: [(&str, &str); 2] = [
    ("${INTERNAL_API_URL}", "https://internal-api.internal.example.com"),
    ("${CLUSTER_DNS}", "demo-cluster-01.k8s.example.com"),
];
const NOT_SUBSTITUTED: &str = "kustomize.toolkit.fluxcd.io/substitute";

pub(crate) fn check(args: &Args, folder: &Path) -> Result<()> {
    let renderings = read(&args.renderings)?;
    let (work, logs) = (folder.join("work"), folder.join("logs"));
    fs::create_dir_all(&logs)?;
    let parts = Parts::new(&args.parts)?;
    let plan = Plan {
        parts: &parts,
        notification: None,
        name: "manifests",
        environment: "dev",
    };
    let cluster = Cluster::start(plan, &work, &logs)?;
    let kube = &cluster.kube;
    let others = manifests::folder(&args.crds)?;
    kube.define(&others)?;
    println!(
        "A Kubernetes API answers, with the definitions of Flux and {} more",
        others.len()
    );

    let namespaces: BTreeSet<&str> = renderings.values().flatten().map(namespace).collect();
    for name in namespaces.into_iter().filter(|name| !name.is_empty()) {
        let modes = ["enforce", "warn"].map(|mode| (format!("pod-security.kubernetes.io/{mode}"), json!("restricted")));
        let labels: serde_json::Map<_, _> = modes.into_iter().collect();
        let metadata = json!({"name": name, "labels": labels});
        kube.apply(&[json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})])?;
    }
    let judge = Judge {
        kube,
        known: kube.resources()?,
    };
    judge.can_fail()?;
    println!("It refuses an unknown field and a pod that may too much\n");

    let mut problems = Vec::new();
    for (name, objects) in &renderings {
        let found = judge.problems(objects)?;
        println!(
            "  {} {name}: {} objects",
            if found.is_empty() { "✓" } else { "✗" },
            objects.len()
        );
        for problem in &found {
            println!("      {problem}");
        }
        problems.extend(found);
        if wait::interrupted() {
            return Err("interrupted".into());
        }
    }
    match problems.len() {
        0 => Ok(()),
        count => Err(format!("{count} problems in what we ship").into()),
    }
}

/// The renderings by name. An empty folder, or a rendering without objects, is an error.
fn read(folder: &Path) -> Result<BTreeMap<String, Vec<Value>>> {
    let mut renderings = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let objects: Vec<Value> = manifests::file(&path)?.into_iter().map(substituted).collect();
        if objects.is_empty() {
            return Err(format!("{} holds no objects", path.display()).into());
        }
        renderings.insert(name, objects);
    }
    match renderings.is_empty() {
        true => Err(format!("there is nothing in {}", folder.display()).into()),
        false => Ok(renderings),
    }
}

fn substituted(mut object: Value) -> Value {
    if object["metadata"]["annotations"][NOT_SUBSTITUTED] != "disabled" {
        substitute(&mut object);
    }
    object
}

fn substitute(value: &mut Value) {
    match value {
        Value::String(text) => {
            for (variable, value) in IDENTITY {
                *text = text.replace(variable, value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(substitute),
        Value::Object(fields) => fields.values_mut().for_each(substitute),
        _ => {}
    }
}

fn namespace(object: &Value) -> &str {
    match text(&object["kind"]) {
        "Namespace" => text(&object["metadata"]["name"]),
        _ => text(&object["metadata"]["namespace"]),
    }
}

struct Judge<'a> {
    kube: &'a Kube,
    known: Vec<Resource>,
}

impl Judge<'_> {
    /// Checks that the API server does refuse a wrong object.
    fn can_fail(&self) -> Result<()> {
        let metadata = json!({"name": "bad", "namespace": "flux-system"});
        let typo = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"prots": []}});
        let container = json!({"name": "bad", "image": "bad"});
        let root =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}});
        let provider = json!({"apiVersion": "fluxcd.controlplane.io/v1", "kind": "ResourceSetInputProvider",
            "metadata": metadata, "spec": {"type": "Static", "intreval": "5m"}});
        for bad in [typo, root, provider] {
            if self.kube.dry_run(&self.known, &bad)?.is_empty() {
                return Err(format!("the API server takes what it must not: {bad}").into());
            }
        }
        Ok(())
    }

    fn problems(&self, objects: &[Value]) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        for object in objects {
            let name = format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]));
            // A Deployment with pods that are refused is itself only warned of.
            for object in [Some(object.clone()), pod(object)].into_iter().flatten() {
                let found = self.kube.dry_run(&self.known, &object)?;
                problems.extend(found.into_iter().map(|problem| format!("{name}: {problem}")));
            }
        }
        problems.extend(wiring::problems(objects));
        Ok(problems)
    }
}

/// A pod as a controller would make it of this object's template.
fn pod(object: &Value) -> Option<Value> {
    let spec = object["spec"].pointer("/jobTemplate/spec").unwrap_or(&object["spec"]);
    let template = spec
        .get("template")
        .filter(|template| template["spec"]["containers"].is_array())?;
    let mut pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"], "spec": template["spec"]});
    pod["metadata"]["name"] = object["metadata"]["name"].clone();
    pod["metadata"]["namespace"] = object["metadata"]["namespace"].clone();
    Some(pod)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{pod, substituted};

    #[test]
    fn a_template_becomes_a_pod() {
        let spec = json!({"containers": [{"name": "a"}]});
        let object = json!({"kind": "Deployment", "metadata": {"name": "x", "namespace": "y"},
            "spec": {"template": {"metadata": {"labels": {"app": "x"}}, "spec": spec}}});
        let expected = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "x", "namespace": "y", "labels": {"app": "x"}}, "spec": spec});
        assert_eq!(pod(&object), Some(expected.clone()));
        let mut job = object.clone();
        job["spec"] = json!({"jobTemplate": {"spec": object["spec"]}});
        assert_eq!(pod(&job), Some(expected));
        assert_eq!(pod(&json!({"kind": "ResourceSet", "spec": {"template": "text"}})), None);
    }

    #[test]
    fn the_identity_is_put_in_where_it_is_not_forbidden() {
        let object = json!({"spec": {"url": "${INTERNAL_API_URL}/x"}});
        assert_eq!(
            substituted(object)["spec"]["url"],
            "https://internal-api.internal.example.com/x"
        );
        let object = json!({"metadata": {"annotations": {"kustomize.toolkit.fluxcd.io/substitute": "disabled"}}, "spec": "${CLUSTER_DNS}"});
        assert_eq!(substituted(object)["spec"], "${CLUSTER_DNS}");
    }
}
