//! Who a cluster is for the API: by a token of its own, and by a client certificate.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::FLUX;
use super::look::same;
use crate::kube::{self, text};
use crate::story::Story;
use crate::world::World;
use crate::{Result, setup};

/// The token in a cluster's Secret opens the paths of that cluster, and nothing else.
pub(super) fn own_token(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("Each cluster has a token of its own");
    let (one, two) = (&world.one, &world.two);
    let secret = one.kube.need(kube::SECRET, FLUX, "internal-api-token")?;
    let token = String::from_utf8(BASE64_STANDARD.decode(text(&secret["data"]["token"]))?)?;
    let ask = |words: &str| world.fleet.with_token(&token, &words.split(' ').collect::<Vec<_>>());
    let (code, stdout, stderr) = ask("whoami")?;
    let who: Value = serde_json::from_str(&stdout).map_err(|_| format!("whoami: {code} {stderr}"))?;
    same(&text(&who["id"]), &format!("cluster:{}", one.name).as_str())?;
    same(&text(&who["role"]), &"cluster")?;
    story.tick(&format!("the token in its Secret is that of {}", text(&who["id"])));
    let (code, _, stderr) = ask(&format!("inputs {} namespaces", one.dns))?;
    same(&(code, stderr.as_str()), &(0, ""))?;
    story.tick("it reads its own inputs, over TLS with our authority");
    let (code, _, stderr) = ask(&format!("inputs {} namespaces", two.dns))?;
    match code == 1 && stderr.contains("its own paths only") {
        true => story.tick(&format!(
            "for those of {}: {}",
            two.name,
            stderr.lines().next().unwrap_or_default()
        )),
        false => return Err(format!("the other's inputs: exit code {code}, {stderr}").into()),
    }
    let (code, _, stderr) = world.fleet.without_authority(&token, &["whoami"])?;
    same(&code, &3)?;
    story.tick(&format!(
        "without our authority: {}",
        stderr.lines().next().unwrap_or_default()
    ));
    Ok(())
}

/// The second cluster changes over from its token to a certificate.
pub(super) fn certificate(story: &mut Story, world: &World) -> Result<()> {
    story.chapter("A cluster identifies with a client certificate");
    let two = &world.two;
    let (certificate, key) = world.fleet.certificates().sign(&two.dns)?;
    let (certificate, key) = (certificate.display().to_string(), key.display().to_string());
    let objects = setup::bootstrap(world, two, &["--cert-file", &certificate, "--key-file", &key])?;
    if objects
        .iter()
        .any(|object| object["metadata"]["name"] == "internal-api-token")
    {
        return Err("a cluster with a certificate has a token all the same".into());
    }
    two.kube.apply(&objects)?;
    story.until("its providers name the certificate, and no token", || {
        two.kube.list(kube::PROVIDER)?.iter().try_for_each(|provider| {
            let spec = &provider["spec"];
            same(&text(&spec["certSecretRef"]["name"]), &"internal-api-tls")?;
            same(&spec["secretRef"], &Value::Null)
        })
    })?;
    let identity = format!("cluster:{}", two.name);
    story.ask(&world.fleet, &format!("identity delete {identity} --yes"), &[])?;
    let listed = story.show(&world.fleet, "identity list -o name")?;
    match listed.to_string().contains(&identity) {
        true => return Err(format!("{identity} is still there").into()),
        false => story.tick("its tokens are revoked"),
    }
    two.poll()?;
    story.until("its providers are ready", || two.polled())?;
    let asked = story.ask(
        &world.fleet,
        &format!("namespace create by-certificate --cluster {}", two.name),
        &[],
    )?;
    story.then(asked, "a change arrives", || {
        two.kube.need(kube::NAMESPACE, "", "by-certificate")
    })?;
    let asked = story.ask(&world.fleet, "namespace delete by-certificate --cascade --yes", &[])?;
    story.then(asked, "and its removal", || {
        two.kube.gone(kube::NAMESPACE, "", "by-certificate")
    })?;
    Ok(())
}
