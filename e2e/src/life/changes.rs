//! What operators do every day: patches, versions, roles, turning things off.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::FLUX;
use super::look::same;
use crate::Result;
use crate::kube::{self, text};
use crate::story::Story;
use crate::world::World;

pub(super) fn patch(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("A patch becomes a Helm upgrade");
    let (one, two) = (&world.one, &world.two);
    let command = format!(
        "component patch podinfo --cluster {} --set replicaCount=3 --set",
        one.name
    );
    let asked = story.ask(&world.fleet, &command, &["ui.color=#3b82f6"])?;
    story.then(asked, "the ConfigMap has the new values", || {
        let patches = one.patches("podinfo")?;
        same(
            &json!([patches["replicaCount"], patches["ui.color"]]),
            &json!(["3", "#3b82f6"]),
        )
    })?;
    story.then(asked, "Helm has upgraded the release with them", || {
        let values = one.installed("podinfo")?.values;
        same(
            &json!([values["replicaCount"], values["ui"]["color"]]),
            &json!([3, "#3b82f6"]),
        )
    })?;
    same(&two.installed("podinfo")?.values, &json!({}))?;
    story.tick("the other cluster is as it was");
    Ok(())
}

/// Values that YAML, the template or Helm could take for something else arrive as they are.
pub(super) fn any_value(story: &mut Story, world: &World) -> Result<()> {
    /// A Helm path, where that is in the values, and a text.
    const PATCHES: [(&str, &str, &str); 11] = [
        ("hostile.quotes", "/quotes", r#"she said "it's" \ so"#),
        ("hostile.yaml", "/yaml", "key: [a, {b: c}] # no comment"),
        (
            "hostile.template",
            "/template",
            "<< inputs.id >> {{ .Values }} ${CLUSTER_DNS}",
        ),
        ("hostile.lines", "/lines", "first\n---\n  second\n"),
        ("hostile.unicode", "/unicode", "Grüße, 世界 🚀"),
        ("hostile.list", "/list", "a,b,{c,d}"),
        ("hostile.map", "/map", "{a: b}"),
        ("hostile.blank", "/blank", "  "),
        ("hostile.y", "/y", "n"),
        ("hostile.hosts[0].name", "/hosts/0/name", "*.example.com"),
        (r"hostile.a\.b/c", "/a.b~1c", "~"),
    ];
    const NOTE: &str = "on: \"yes\"\n---\nkind: Secret # << fail >> ${HOME}\n";
    story.chapter("Any value arrives as it is");
    let (fleet, one) = (&world.fleet, &world.one);
    let sets: Vec<String> = PATCHES
        .iter()
        .map(|(path, _, value)| format!("--set={path}={value}"))
        .collect();
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let asked = story.ask(fleet, &format!("component patch traefik --cluster {}", one.name), &sets)?;
    let reached = "quotes, line breaks, braces, `<<` and emoji reach the chart";
    story.then(asked, reached, || {
        let values = one.installed("traefik")?.values;
        PATCHES.iter().try_for_each(|(path, pointer, value)| {
            let arrived = values["hostile"].pointer(pointer).and_then(Value::as_str);
            same(&arrived, &Some(*value)).map_err(|error| format!("{path}: {error}").into())
        })
    })?;

    let create = format!("namespace create y --cluster {} --label on=no --annotation", one.name);
    let asked = story.ask(fleet, &create, &[&format!("note={NOTE}")])?;
    story.then(asked, "and a namespace called y, labelled on: no", || {
        let namespace = one.kube.need(kube::NAMESPACE, "", "y")?;
        same(&text(&namespace["metadata"]["labels"]["on"]), &"no")?;
        same(&text(&namespace["metadata"]["annotations"]["note"]), &NOTE)
    })?;
    let create = format!(
        "rolebinding create team:1e3 --cluster {} --role system:node --subject",
        one.name
    );
    let asked = story.ask(fleet, &create, &["kind=ServiceAccount,name=robot,namespace=y"])?;
    story.then(asked, "and a binding called team:1e3, for a ServiceAccount", || {
        let binding = one.kube.need(kube::CLUSTER_ROLE_BINDING, "", "team:1e3")?;
        let robot = json!({"kind": "ServiceAccount", "name": "robot", "namespace": "y"});
        same(&binding["subjects"], &json!([robot]))
    })?;
    Ok(())
}

/// Flux accepts 100 inputs unless a provider says otherwise, and drops the rest silently.
pub(super) fn many(story: &mut Story, world: &World) -> Result<()> {
    const MANY: usize = 150;
    story.chapter("More than a hundred of a kind");
    let (fleet, one) = (&world.fleet, &world.one);
    let mut documents = String::new();
    let mut references = Vec::new();
    for n in 0..MANY {
        let id = format!("many-{n:03}");
        let subjects = json!([{"kind": "User", "name": id}]);
        let document = json!({"kind": "rolebindings", "id": id, "role": "view", "subjects": subjects});
        writeln!(documents, "---\n{document}")?;
        references.push(json!({ "id": id }));
    }
    fleet.file("many.yaml", &documents)?;
    story.ask(fleet, "apply -f many.yaml", &[])?;
    let mut cluster = story.show(fleet, &format!("cluster get {}", one.name))?;
    if let Some(bindings) = cluster["rolebindings"].as_array_mut() {
        bindings.extend(references);
    }
    cluster["kind"] = "clusters".into();
    fleet.file("with-many.json", &cluster.to_string())?;
    let asked = story.ask(fleet, "apply -f with-many.json", &[])?;
    story.then(asked, &format!("all {MANY} bindings are there"), || {
        let bindings = one.kube.list(kube::CLUSTER_ROLE_BINDING)?;
        let names = bindings.iter().map(|binding| text(&binding["metadata"]["name"]));
        same(&names.filter(|name| name.starts_with("many-")).count(), &MANY)
    })?;
    Ok(())
}

pub(super) fn disable(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("A component is turned off, and on again");
    let (fleet, one) = (&world.fleet, &world.one);
    let kube = &one.kube;
    let asked = story.ask(fleet, &format!("component disable podinfo --cluster {}", one.name), &[])?;
    story.then(asked, "HelmRelease, HelmRepository and ConfigMaps are gone", || {
        kube.gone(kube::HELM_RELEASE, FLUX, "platform-podinfo")?;
        let mut left = one.named(kube::HELM_REPOSITORY, "charts-podinfo")?;
        left.extend(one.named(kube::CONFIG_MAP, "values-podinfo")?);
        same(&left, &Vec::new())
    })?;
    story.then(asked, "Helm has uninstalled the chart", || {
        kube.gone(kube::CONFIG_MAP, "podinfo", "podinfo")
    })?;
    kube.need(kube::NAMESPACE, "", "podinfo")?;
    world.two.installed("podinfo")?;
    story.tick("its namespace is still there, and the other cluster still runs it");
    let asked = story.ask(fleet, &format!("component enable podinfo --cluster {}", one.name), &[])?;
    story.then(asked, "it is back, with its patches", || {
        same(&one.installed("podinfo")?.values["replicaCount"], &json!(3))
    })?;
    Ok(())
}

pub(super) fn catalog(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("The catalog moves to a new version, and all clusters follow");
    let asked = story.ask(&world.fleet, "component update podinfo --oci-tag 1.1.0", &[])?;
    for cluster in [&world.one, &world.two] {
        story.then(asked, &format!("{} runs podinfo 1.1.0", cluster.name), || {
            same(&cluster.installed("podinfo")?.version.as_str(), &"1.1.0")
        })?;
    }
    Ok(())
}

pub(super) fn canary(story: &mut Story, world: &World) -> Result<()> {
    const NEXT: &str = "2.0.0-rc.1";
    story.chapter("A canary: one cluster runs the next version");
    let (fleet, one, two) = (&world.fleet, &world.one, &world.two);
    let pin = format!("component override podinfo --cluster {} --oci-tag {NEXT}", one.name);
    let asked = story.ask(fleet, &pin, &[])?;
    story.then(asked, &format!("{} runs podinfo {NEXT}", one.name), || {
        same(&one.installed("podinfo")?.version.as_str(), &NEXT)
    })?;
    same(&two.installed("podinfo")?.version.as_str(), &"1.1.0")?;
    story.tick(&format!("{} still runs 1.1.0", two.name));
    let pins = story.show(fleet, "component pins podinfo")?.to_string();
    same(&(pins.contains(one.name), pins.contains(two.name)), &(true, false))?;
    story.tick("the pin is listed");
    let asked = story.ask(fleet, &format!("component unpin podinfo --cluster {}", one.name), &[])?;
    story.then(asked, &format!("{} is back on the catalog's 1.1.0", one.name), || {
        same(&one.installed("podinfo")?.version.as_str(), &"1.1.0")
    })?;
    Ok(())
}

/// Kubernetes does not allow a change of `roleRef`, so the binding must be replaced.
pub(super) fn role(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("A role changes, which Kubernetes does not allow");
    let binding = || world.one.kube.need(kube::CLUSTER_ROLE_BINDING, "", "dev-readers");
    let before = binding()?;
    let asked = story.ask(&world.fleet, "rolebinding update dev-readers --role edit", &[])?;
    let after = story.then(asked, "dev-readers binds the role edit", || {
        let binding = binding()?;
        same(&text(&binding["roleRef"]["name"]), &"edit")?;
        Ok(binding)
    })?;
    if before["metadata"]["uid"] == after["metadata"]["uid"] {
        return Err("the binding is the same object with another role".into());
    }
    story.tick("the binding was replaced");
    same(&after["subjects"], &before["subjects"])?;
    story.tick("its subjects are the same");
    Ok(())
}

/// `queue` cannot be installed at first, so `worker`, which depends on it, waits.
pub(super) fn dependencies(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("A component waits for what it depends on");
    let (fleet, one, charts) = (&world.fleet, &world.one, world.artifacts.charts());
    let chart = |name: &str| {
        let cluster = one.name;
        format!("component create {name} --component-path {name} --oci-url {charts} --cluster {cluster} --oci-tag")
    };
    for name in ["queue", "worker"] {
        story.ask(fleet, &format!("namespace create {name} --cluster {}", one.name), &[])?;
    }
    story.ask(fleet, &chart("queue"), &["9.9.9"])?;
    let asked = story.ask(fleet, &chart("worker"), &["1.0.0", "--depends-on", "queue"])?;
    let waits = "queue has a version that nobody published; worker says what it waits for";
    story.then(asked, waits, || {
        let release = one.kube.need(kube::HELM_RELEASE, FLUX, "platform-worker")?;
        let (status, said) = kube::readiness(&release);
        match status == "False" && said.contains("platform-queue") {
            true => Ok(()),
            false => Err(said.into()),
        }
    })?;
    one.kube.gone(kube::CONFIG_MAP, "worker", "worker")?;
    story.tick("worker is not installed");
    let asked = story.ask(fleet, "component update queue --oci-tag 1.0.0", &[])?;
    story.then(asked, "queue is installed", || one.installed("queue"))?;
    story.then(asked, "and then worker", || one.installed("worker"))?;
    Ok(())
}
