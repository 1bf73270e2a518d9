//! A cluster that joins the fleet by itself: what the Job of k8s/registration does. Nothing runs pods here, so the Job's command runs as
//! a process, with its arguments, its environment and the token of its ServiceAccount.

use std::fs;
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::look::same;
use crate::kube::{self, text};
use crate::story::Story;
use crate::world::World;
use crate::{Result, setup};

/// The cluster of this namespace has no token yet.
const NAMESPACE: &str = "new-cluster";
const NAME: &str = "demo-cluster-03";
const SECRET: &str = "internal-api-token";

/// The container of the Job.
struct Job {
    arguments: Vec<String>,
    account: PathBuf,
}

impl Job {
    /// Runs it for a cluster with this name and DNS name.
    fn run(&self, world: &World, join: &str, name: &str, dns: &str) -> Result<(i32, String, String)> {
        let identity = [
            ("$(CLUSTER_NAME)", name),
            ("$(CLUSTER_DNS)", dns),
            ("$(ENVIRONMENT)", "qa"),
        ];
        let filled = self.arguments.iter().map(|argument| {
            let filled = |text: String, (variable, value): (&str, &str)| text.replace(variable, value);
            identity.into_iter().fold(argument.clone(), filled)
        });
        let filled: Vec<String> = filled.collect();
        let account = format!("--service-account={}", self.account.display());
        let mut arguments: Vec<&str> = filled.iter().map(String::as_str).collect();
        arguments.push(&account);
        println!("  $ flux-resourceset-cli {}", filled.join(" "));
        let address = world.two.kube.address();
        let (host, port) = address.rsplit_once(':').unwrap_or_default();
        let environment = [
            ("FLUX_API_URL", world.fleet.write_url()),
            ("FLUX_API_TOKEN", join.to_owned()),
            ("KUBERNETES_SERVICE_HOST", host.to_owned()),
            ("KUBERNETES_SERVICE_PORT", port.to_owned()),
        ];
        world.fleet.command_with(&environment, &arguments)
    }
}

pub(super) fn registration(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("A cluster registers itself");
    let job = prepare(world)?;
    story.tick("k8s/registration is applied: a ServiceAccount that may change one Secret, which is empty");
    story.ask(&world.fleet, "profile create qa --selector environment=qa", &[])?;
    story.ask(&world.fleet, "profile add qa namespace/podinfo", &[])?;
    let create = "identity create factory --role join --dns-suffix .k8s.example.com --environments qa --uses 1";
    story.ask(&world.fleet, create, &[])?;
    let join = story.show(&world.fleet, "token create factory")?;
    let join = text(&join);
    let dns = format!("{NAME}.k8s.example.com");

    let (code, _, stderr) = job.run(world, join, NAME, &format!("{NAME}.example.org"))?;
    refused(code, &stderr, "does not end in .k8s.example.com")?;
    story.tick("with a DNS name outside of its scope it is refused");
    let (code, stdout, stderr) = job.run(world, join, NAME, &dns)?;
    same(&(code, stderr.as_str()), &(0, ""))?;
    story.tick(&stdout);
    let token = token(world)?;
    let poll = format!("inputs {dns} namespaces");
    story.until(
        "the token in the Secret polls the cluster's paths, and gets what its profile brings",
        || {
            let (code, stdout, stderr) = world.fleet.with_token(&token, &poll.split(' ').collect::<Vec<_>>())?;
            same(&(code, stderr.as_str()), &(0, ""))?;
            let reply: Value = serde_json::from_str(&stdout)?;
            same(&reply["inputs"][0]["id"], &json!("podinfo"))
        },
    )?;
    let own = story.show(&world.fleet, &format!("cluster get {NAME}"))?;
    same(&own["namespaces"], &json!([]))?;
    story.tick("nothing is written on the cluster itself");
    let (code, stdout, _) = job.run(world, join, NAME, &dns)?;
    same(&code, &0)?;
    same(&self::token(world)?, &token)?;
    story.tick(&format!("the Job once more: {stdout}, with the same token"));
    let (code, _, stderr) = job.run(world, join, "demo-cluster-04", "demo-cluster-04.k8s.example.com")?;
    refused(code, &stderr, "is used up")?;
    story.tick("for one more cluster the identity is used up");

    let other = Job {
        arguments: job.arguments.iter().map(|one| one.replace(SECRET, "another")).collect(),
        account: job.account,
    };
    let (code, _, stderr) = other.run(world, join, NAME, &dns)?;
    refused(code, &stderr, "forbidden")?;
    story.tick("Kubernetes refuses the Job any other Secret");
    story.ask(&world.fleet, &format!("cluster delete {NAME} --yes"), &[])?;
    story.ask(&world.fleet, "identity delete factory --yes", &[])?;
    story.ask(&world.fleet, "profile delete qa --yes", &[])?;
    let clusters = story.show(&world.fleet, "cluster list -o name")?;
    same(&clusters.to_string().contains("demo-cluster-04"), &false)?;
    Ok(())
}

fn refused(code: i32, stderr: &str, because: &str) -> Result<()> {
    match code == 1 && stderr.contains(because) {
        true => Ok(()),
        false => Err(format!("should be refused ({because}), but: exit code {code}, {stderr}").into()),
    }
}

/// Applies what the Job needs, in a namespace of its own, and gives the Job.
fn prepare(world: &World) -> Result<Job> {
    let kube = &world.two.kube;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let (jobs, mut others): (Vec<Value>, Vec<Value>) = setup::kustomization(world, "k8s/registration")?
        .into_iter()
        .partition(|object| object["kind"] == "Job");
    for object in &mut others {
        object["metadata"]["namespace"] = NAMESPACE.into();
        let subjects = object.get_mut("subjects").and_then(Value::as_array_mut);
        for subject in subjects.into_iter().flatten() {
            subject["namespace"] = NAMESPACE.into();
        }
    }
    kube.apply(&[namespace])?;
    kube.apply(&others)?;
    let pod = &jobs.first().ok_or("k8s/registration has no Job")?["spec"]["template"]["spec"];
    let arguments = pod["containers"][0]["args"].as_array().into_iter().flatten().map(text);
    let arguments = arguments.map(|argument| argument.replace("flux-system/", &format!("{NAMESPACE}/")));
    let account = world.folder.join("work/service-account");
    fs::create_dir_all(&account)?;
    let token = kube.account_token(NAMESPACE, text(&pod["serviceAccountName"]))?;
    fs::write(account.join("token"), token)?;
    fs::write(account.join("namespace"), NAMESPACE)?;
    fs::copy(world.two.authority(), account.join("ca.crt"))?;
    Ok(Job {
        arguments: arguments.collect(),
        account,
    })
}

fn token(world: &World) -> Result<String> {
    let secret = world.two.kube.need(kube::SECRET, NAMESPACE, SECRET)?;
    Ok(String::from_utf8(
        BASE64_STANDARD.decode(text(&secret["data"]["token"]))?,
    )?)
}
