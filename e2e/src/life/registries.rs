//! A catalog that reaches real registries: a login, a service account with few rights, a namespace of its own, values of the catalog,
//! definitions that are upgraded, signatures.

use serde_json::{Value, json};

use super::FLUX;
use super::look::same;
use crate::Result;
use crate::artifacts::Files;
use crate::kube::{self, Inventory, Kind, readiness, text};
use crate::login::{self, PASSWORD, USER};
use crate::signing::Key;
use crate::story::Story;
use crate::world::World;

const CRD: &str = "seals.vault.example.com";

/// Succeeds when an object is not ready, and says such a thing.
fn fails(object: &Value, words: &[&str]) -> Result<()> {
    let (status, said) = readiness(object);
    match status == "False" && words.iter().all(|word| said.contains(word)) {
        true => Ok(()),
        false => Err(format!("ready {status}, {said}").into()),
    }
}

/// The one object of a kind whose name begins so.
fn only(world: &World, kind: Kind, prefix: &str) -> Result<Value> {
    let mut found = world.one.named(kind, prefix)?;
    match found.len() {
        1 => Ok(found.remove(0)),
        count => Err(format!("{count} objects begin with {prefix}").into()),
    }
}

/// A definition in the chart's crds/ folder, as each version of the chart has it.
fn definition(description: &str) -> Files {
    let schema = json!({"openAPIV3Schema": {"type": "object", "description": description}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD},
        "spec": {
            "group": "vault.example.com",
            "names": {"kind": "Seal", "listKind": "SealList", "plural": "seals", "singular": "seal"},
            "scope": "Cluster",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    Files::from([("crds/seals.yaml".to_owned(), crd.to_string().into_bytes())])
}

pub(super) fn login(story: &mut Story, world: &mut World) -> Result<()> {
    story.chapter("A chart behind a login, applied with few rights, into a namespace of its own");
    for (version, description) in [("1.0.0", "old"), ("1.1.0", "new")] {
        world
            .artifacts
            .chart_with("", "vault", version, &definition(description))?;
    }
    let address = login::start(world.artifacts.address())?;
    let (one, fleet) = (&world.one, &world.fleet);
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "deployer", "namespace": FLUX}});
    one.kube.apply(&[account])?;
    let vault = json!({
        "kind": "platform_components", "id": "vault", "component_path": "vault", "oci_url": format!("http://{address}"),
        "oci_tag": "1.0.0", "namespace": "secrets", "timeout": "2m", "crds": "CreateReplace", "service_account": "deployer",
        "values": {"replicas": 1, "ui": {"color": "blue", "size": 3}},
    });
    fleet.file("vault.yaml", &vault.to_string())?;
    story.ask(fleet, &format!("namespace create secrets --cluster {}", one.name), &[])?;
    story.ask(fleet, "apply -f vault.yaml", &[])?;
    let asked = story.ask(fleet, &format!("component assign vault --cluster {}", one.name), &[])?;
    story.then(asked, "without the login, the repository answers 401", || {
        fails(&only(world, kube::HELM_REPOSITORY, "charts-vault-")?, &["401"])
    })?;
    let before = only(world, kube::HELM_REPOSITORY, "charts-vault-")?;

    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "vault-login", "namespace": FLUX},
        "stringData": {"username": USER, "password": PASSWORD}});
    one.kube.apply(&[secret])?;
    let asked = story.ask(fleet, "component update vault --secret-ref vault-login", &[])?;
    story.then(asked, "with it, the same source is ready", || {
        let source = only(world, kube::HELM_REPOSITORY, "charts-vault-")?;
        same(&text(&source["metadata"]["uid"]), &text(&before["metadata"]["uid"]))?;
        kube::ready(&source)
    })?;
    story.until("the service account has no right to install it", || {
        let release = one.kube.need(kube::HELM_RELEASE, FLUX, "platform-vault")?;
        fails(&release, &["forbidden", "system:serviceaccount:flux-system:deployer"])
    })?;
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "deployer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": FLUX}]});
    one.kube.apply(&[binding])?;
    let patch = format!("component patch vault --cluster {} --set ui.color=red", one.name);
    let asked = story.ask(fleet, &patch, &[])?;
    story.then(
        asked,
        "with the right, it is in its namespace; the patch wins, key by key",
        || {
            let installed = one.installed_in("vault", "secrets")?;
            same(&installed.version.as_str(), &"1.0.0")?;
            same(
                &installed.values,
                &json!({"replicas": 1, "ui": {"color": "red", "size": 3}}),
            )
        },
    )?;
    let described = || -> Result<String> {
        let crd = one.kube.need(kube::CRD, "", CRD)?;
        Ok(text(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"]).to_owned())
    };
    same(&described()?.as_str(), &"old")?;
    let asked = story.ask(fleet, "component update vault --oci-tag 1.1.0", &[])?;
    story.then(asked, "an upgrade replaces its definitions too", || {
        same(&one.installed_in("vault", "secrets")?.version.as_str(), &"1.1.0")?;
        same(&described()?.as_str(), &"new")
    })?;
    story.ask(
        fleet,
        &format!("namespace create elsewhere --cluster {}", one.name),
        &[],
    )?;
    let asked = story.ask(fleet, "component update vault --namespace elsewhere", &[])?;
    // Flux looks for objects without a namespace of their own in the new one: those of the old one stay. The book says so.
    story.then(asked, "with another namespace, Flux installs it there", || {
        one.installed_in("vault", "elsewhere")?;
        one.kube.need(kube::CONFIG_MAP, "secrets", "vault").map(drop)
    })?;
    let asked = story.ask(fleet, "component update vault --cert-secret-ref absent", &[])?;
    story.then(
        asked,
        "a certificate that is not there is named, and the release stays",
        || {
            fails(&only(world, kube::HELM_REPOSITORY, "charts-vault-")?, &["absent"])?;
            same(&one.installed_in("vault", "elsewhere")?.version.as_str(), &"1.1.0")
        },
    )?;
    let said = story.refused(fleet, "component update vault --provider aws", &[])?;
    same(&said.contains("a provider logs in to OCI registries only"), &true)?;
    story.tick("a provider is for OCI registries, and the API says so");
    Ok(())
}

/// Values of the catalog for manifests: variables, between the cluster's identity and its patches.
pub(super) fn variables(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("Manifests with values of the catalog, in a namespace of their own");
    let (one, fleet) = (&world.one, &world.fleet);
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "paint"},
        "data": {"color": "${COLOR}", "size": "${SIZE}", "environment": "${ENVIRONMENT}", "cluster": "${CLUSTER_NAME}"},
    });
    let files = Files::from([
        ("paint/map.json".to_owned(), map.to_string().into_bytes()),
        (
            "paint/kustomization.yaml".to_owned(),
            b"resources: [map.json]\n".to_vec(),
        ),
    ]);
    world.artifacts.oci_files("paint", "v1", &files)?;
    let paint = json!({
        "kind": "platform_components", "id": "paint", "component_path": "paint", "oci_url": world.artifacts.oci("paint"),
        "oci_tag": "v1", "namespace": "secrets", "timeout": "1m", "service_account": "deployer",
        "values": {"COLOR": "blue", "SIZE": "'3'", "ENVIRONMENT": "of the catalog"},
    });
    fleet.file("paint.yaml", &paint.to_string())?;
    story.ask(fleet, "apply -f paint.yaml", &[])?;
    let patch = format!("component patch paint --cluster {} --set COLOR=red", one.name);
    story.ask(fleet, &patch, &[])?;
    let asked = story.ask(fleet, &format!("component assign paint --cluster {}", one.name), &[])?;
    story.then(
        asked,
        "patches win over the catalog, and the catalog over the identity",
        || {
            kube::ready(&one.kube.need(kube::KUSTOMIZATION, FLUX, "platform-paint")?)?;
            let made = one.kube.need(kube::CONFIG_MAP, "secrets", "paint")?;
            let expected = json!({"color": "red", "size": "3", "environment": "of the catalog", "cluster": one.name});
            same(&made["data"], &expected)
        },
    )?;
    Ok(())
}

pub(super) fn signatures(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("An artifact must have a signature");
    let (one, fleet, artifacts) = (&world.one, &world.fleet, &world.artifacts);
    let (key, other) = (
        Key::new(&world.folder.join("key"))?,
        Key::new(&world.folder.join("other-key"))?,
    );
    for (name, key) in [("cosign", &key), ("other-cosign", &other)] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": FLUX},
            "stringData": {"cosign.pub": key.public}});
        one.kube.apply(&[secret])?;
    }
    let signed = artifacts.oci_chart("charts", "sealed", "1.0.0")?;
    artifacts.sign("charts/sealed", &signed, &key)?;
    artifacts.oci_chart("charts", "sealed", "1.1.0")?;
    let sealed = |tag: &str, secret: &str, color: &str| -> Result<()> {
        let document = json!({
            "kind": "platform_components", "id": "sealed", "component_path": "sealed", "oci_url": artifacts.oci("charts"),
            "oci_artifact": "chart", "oci_tag": tag, "verify": {"secret_ref": secret}, "values": {"color": color},
        });
        fleet.file("sealed.yaml", &document.to_string())
    };
    sealed("1.0.0", "cosign", "blue")?;
    story.ask(fleet, &format!("namespace create sealed --cluster {}", one.name), &[])?;
    story.ask(fleet, "apply -f sealed.yaml", &[])?;
    let asked = story.ask(fleet, &format!("component assign sealed --cluster {}", one.name), &[])?;
    let is_blue = || -> Result<()> {
        let made = one.kube.need(kube::CONFIG_MAP, "sealed", "sealed")?;
        same(&text(&made["data"]["version"]).split('+').next(), &Some("1.0.0"))?;
        same(
            &serde_json::from_str::<Value>(text(&made["data"]["values"]))?,
            &json!({"color": "blue"}),
        )
    };
    story.then(asked, "a signed chart is installed", || {
        one.installed("sealed")?;
        is_blue()
    })?;
    // With the new values each time: neither they nor the chart may arrive.
    for (tag, secret, case) in [
        ("1.1.0", "cosign", "a chart without a signature"),
        ("1.0.0", "other-cosign", "a signature by another key"),
    ] {
        sealed(tag, secret, "red")?;
        let asked = story.ask(fleet, "apply -f sealed.yaml", &[])?;
        story.then(
            asked,
            &format!("{case} is refused, and nothing of the change arrives"),
            || {
                let source = only(world, kube::OCI_REPOSITORY, "platform-sealed-")?;
                same(&text(&source["spec"]["verify"]["secretRef"]["name"]), &secret)?;
                fails(&source, &["verif"])?;
                is_blue()
            },
        )?;
    }
    sealed("1.0.0", "cosign", "green")?;
    let asked = story.ask(fleet, "apply -f sealed.yaml", &[])?;
    story.then(asked, "with the right key it goes on", || {
        same(&one.installed("sealed")?.values, &json!({"color": "green"}))
    })?;
    let asked = story.ask(fleet, "component update sealed --provider aws", &[])?;
    story.then(asked, "the provider reaches the source", || {
        let source = only(world, kube::OCI_REPOSITORY, "platform-sealed-")?;
        same(&text(&source["spec"]["provider"]), &"aws")
    })?;
    let unassign = format!("component unassign sealed --cluster {}", one.name);
    story.ask(fleet, &unassign, &[])?;
    story.until("the release is gone", || {
        one.kube.gone(kube::HELM_RELEASE, FLUX, "platform-sealed")
    })?;
    Ok(())
}

/// What this story made by hand, or Helm leaves, is there to the end.
pub(super) fn left(world: &World, bare: &mut Inventory) -> Result<()> {
    let names = ["ServiceAccount", "Secret"];
    let ours = |key: &str| {
        let made = ["/deployer", "/vault-login", "/cosign", "/other-cosign"];
        names.iter().any(|kind| key.starts_with(&format!("{kind} {FLUX}")))
            && made.iter().any(|name| key.ends_with(name))
            || key.contains("vault.example.com")
            || key.starts_with("ClusterRoleBinding ") && key.ends_with("deployer")
    };
    let now = world.one.kube.inventory()?;
    bare.extend(now.into_iter().filter(|(key, _)| ours(key)));
    Ok(())
}
