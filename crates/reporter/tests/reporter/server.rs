//! The reporter and the real server understand each other.

use flux_resourceset_reporter::config::Token;
use serde_json::{Value, json};
use testkit::{READ, Server, Setup, WRITE};

use crate::world::{World, eventually, release};

const DNS: &str = "demo-cluster-01.k8s.example.com";

/// What the server says about an input.
fn input(server: &Server, id: &str) -> Value {
    let status = server
        .reader()
        .get("/clusters/demo-cluster-01/status")
        .expect(200)
        .json();
    let inputs = status["kinds"]["platform-components"]["inputs"].as_array();
    let mut named = inputs.into_iter().flatten().filter(|input| input["id"] == id);
    named.next().cloned().unwrap_or_default()
}

#[tokio::test]
async fn what_is_reported_is_the_status_and_a_change_is_nudged() {
    let folder = tempfile::tempdir().unwrap();
    let seed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/seed.json");
    let server = Setup::new(folder.path())
        .env("API_MODE", "crud")
        .env("STORE_BACKEND", "memory")
        .env("SEED_FILE", seed)
        .env("AUTH_TOKEN", READ)
        .env("CRUD_AUTH_TOKEN", WRITE)
        .env("LISTEN_ADDR", "127.0.0.1:0")
        .start();
    let token = server
        .writer()
        .post("/clusters/demo-cluster-01/token", &json!({}))
        .expect(201)
        .json();
    let token = token["token"].as_str().unwrap();
    let path = format!("/api/v2/flux/clusters/{DNS}/platform-components?marked=true");
    let told = server.with(token).get(&path).expect(200).json();
    let inputs = told["inputs"].as_array().unwrap();
    let podinfo = inputs.iter().find(|input| input["id"] == "podinfo").unwrap();

    let mut world = World::new().await;
    world.config.url = server.url();
    world.config.dns = DNS.to_owned();
    world.config.access.token = Token::Given(token.to_owned());
    world.config.nudge = true;
    let mut object = release("podinfo", "True");
    object["metadata"]["annotations"]["event.toolkit.fluxcd.io/desired"] = podinfo["desired"]["input"].clone();
    world.kubernetes.put("helmreleases", object.clone());
    let mut provider = world.provider("platform-components");
    provider["spec"]["url"] = format!("{}{path}", server.url()).into();
    world.kubernetes.put("resourcesetinputproviders", provider);
    world.start().await;
    eventually("podinfo is converged", || {
        let input = input(&server, "podinfo");
        input["state"] == "converged" && input["evidence"] == "report" && input["version"] == "6.7.1"
    })
    .await;

    object["status"]["conditions"][0]["status"] = "False".into();
    world.kubernetes.put("helmreleases", object);
    eventually("podinfo is failing, with the reason", || {
        let input = input(&server, "podinfo");
        input["state"] == "failing" && input["reason"] == "Because" && input["message"] == "of it"
    })
    .await;

    assert!(world.kubernetes.patches().is_empty());
    let patch = json!({"patches": {"podinfo": {"replicaCount": "7"}}}).to_string();
    let headers = [("content-type", "application/merge-patch+json")];
    server
        .writer()
        .send("PATCH", "/clusters/demo-cluster-01", &headers, patch.as_bytes())
        .expect(200);
    eventually("its provider is nudged", || world.kubernetes.patches().len() == 1).await;
    assert_eq!(world.kubernetes.patches()[0].0, "platform-components");
}
