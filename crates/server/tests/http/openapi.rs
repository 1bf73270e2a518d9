//! The description of the API: made from the kinds, complete, and locked by a snapshot.

use std::collections::BTreeSet;

use axum::http::Method;
use flux_resourceset::http::routes::{ROUTES, Route};
use serde_json::Value;

use crate::auth::{Documented, documented};
use crate::support::{NETWORK_POLICY, Setup, TestApp};

async fn document(app: &TestApp) -> Value {
    let reply = app.get("/openapi.yaml").without_token().await.expect(200);
    assert_eq!(reply.header("content-type"), "application/yaml");
    fleet::yaml::parse(reply.text()).unwrap()
}

#[tokio::test]
async fn the_document_of_the_built_in_kinds_is_this_one() {
    let app = Setup::default().empty().start().await;
    let text = app.get("/openapi.yaml").await.expect(200).text().to_owned();
    insta::assert_snapshot!("crud", text);
    let app = Setup::default().empty().read_only().start().await;
    let text = app.get("/openapi.yaml").await.expect(200).text().to_owned();
    insta::assert_snapshot!("read_only", text);
}

#[tokio::test]
async fn the_document_is_the_same_whatever_the_fleet_holds() {
    let demo = document(&TestApp::start().await).await;
    let empty = document(&Setup::default().empty().start().await).await;
    assert_eq!(demo, empty);
}

#[tokio::test]
async fn a_kind_that_is_put_appears_and_one_that_is_deleted_goes() {
    let app = TestApp::start().await;
    let before = document(&app).await;
    app.put_kind("network_policies", NETWORK_POLICY).await.expect(201);
    let with = document(&app).await;
    let schema = &with["components"]["schemas"];
    assert_eq!(
        schema["network_policy"]["properties"]["target_namespace"]["type"],
        "string"
    );
    assert_eq!(
        schema["cluster"]["properties"]["network_policies"]["items"]["$ref"],
        "#/components/schemas/network_policy_ref"
    );
    assert_eq!(schema["network_policy_ref"]["required"], serde_json::json!(["id"]));
    for (path, methods) in [
        ("/network_policies", vec!["get", "post"]),
        ("/network_policies/{id}", vec!["delete", "get", "patch", "put"]),
        ("/network_policies/{id}/references", vec!["get"]),
        ("/api/v2/flux/clusters/{cluster_dns}/network-policies", vec!["get"]),
    ] {
        let found: Vec<_> = with["paths"][path].as_object().unwrap().keys().collect();
        assert_eq!(found, methods, "{path}");
    }
    app.delete("/kinds/network_policies").await.expect(204);
    assert_eq!(document(&app).await, before);
}

#[tokio::test]
async fn read_only_replicas_describe_the_endpoint_of_a_kind_too() {
    let setup = Setup::default().read_only().resource("np.yaml", NETWORK_POLICY);
    let document = document(&setup.start().await).await;
    assert!(document["paths"]["/api/v2/flux/clusters/{cluster_dns}/network-policies"]["get"].is_object());
    assert!(document["paths"]["/network_policies"].is_null());
}

#[tokio::test]
async fn every_reference_in_the_document_leads_somewhere_and_every_operation_has_a_name_of_its_own() {
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    for setup in [Setup::default(), Setup::default().read_only()] {
        let app = setup.resource("np.yaml", NETWORK_POLICY).start().await;
        let document = document(&app).await;
        assert_eq!(document["openapi"], "3.0.3");
        let mut targets = Vec::new();
        references(&document, &mut targets);
        assert!(!targets.is_empty());
        for target in targets {
            let found = document.pointer(target.strip_prefix('#').unwrap());
            assert!(found.is_some(), "{target} leads nowhere");
        }
        let operations = documented(&app).await;
        let names: BTreeSet<_> = operations
            .iter()
            .map(|one| one.operation["operationId"].to_string())
            .collect();
        assert_eq!(names.len(), operations.len());
    }
}

/// Whether a route such as `/{kind}/{id}` serves a path of the document.
fn serves(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len() && template.iter().zip(&path).all(|(t, p)| t.starts_with('{') || t == p)
}

#[tokio::test]
async fn every_route_is_in_the_document_and_answers() {
    let app = TestApp::start().await;
    app.delete("/clusters/demo-cluster-01").await.expect(204);
    let documented = documented(&app).await;
    for route in ROUTES {
        let matching = |one: &&Documented| one.method == route.method.method() && serves(route.path, &one.template);
        let one = documented.iter().find(matching);
        let one = one.unwrap_or_else(|| panic!("{route:?} is not in the document"));
        let reply = app.call(one.method.clone(), &one.path).response().await;
        let status = reply.status().as_u16();
        assert!(status != 405 && status < 500, "{route:?} is not served: {status}");
    }
    for one in &documented {
        let served = |route: &&Route| one.method == route.method.method() && serves(route.path, &one.template);
        assert!(
            ROUTES.iter().any(|route| served(&route)),
            "{} has no route",
            one.template
        );
    }
}

#[tokio::test]
async fn no_kind_can_take_the_path_of_a_route() {
    let app = TestApp::start().await;
    let firsts: BTreeSet<_> = ROUTES
        .iter()
        .filter_map(|route| route.path.split('/').nth(1))
        .filter(|first| !first.starts_with('{') && *first != "clusters" && !first.contains('.'))
        .collect();
    assert!(firsts.len() >= 10, "{firsts:?}");
    for first in firsts {
        let kind = NETWORK_POLICY.replace("network_policies", first);
        app.put_kind(first, &kind).await.problem(422, "invalid");
    }
}

#[tokio::test]
async fn the_document_begins_with_what_people_look_for() {
    let app = TestApp::start().await;
    let text = app.get("/openapi.yaml").await.expect(200).text().to_owned();
    let sections: Vec<_> = text.lines().filter(|line| !line.starts_with([' ', '-', '}'])).collect();
    let names: Vec<_> = sections.iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(names, ["openapi", "info", "servers", "paths", "components", "tags"]);
}

#[tokio::test]
async fn the_methods_that_a_path_allows_are_the_ones_in_the_document() {
    let app = TestApp::start().await;
    app.delete("/clusters/demo-cluster-01").await.expect(204);
    let operations = documented(&app).await;
    let paths: BTreeSet<_> = operations.iter().map(|one| (&one.template, &one.path)).collect();
    for (template, path) in paths {
        let mut methods = BTreeSet::from([Method::HEAD.to_string()]);
        methods.extend(
            operations
                .iter()
                .filter(|one| one.template == *template)
                .map(|one| one.method.to_string()),
        );
        if !methods.contains("GET") {
            methods.remove("HEAD");
        }
        let refused = app.call(Method::OPTIONS, path).await;
        let allowed: BTreeSet<_> = refused.header("allow").split(", ").map(str::to_owned).collect();
        refused.problem(405, "method-not-allowed");
        assert_eq!(allowed, methods, "{template}");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"]
            .iter()
            .filter(|method| !methods.contains(**method))
        {
            app.call(method.parse().unwrap(), path)
                .await
                .problem(405, "method-not-allowed");
        }
    }
}

#[tokio::test]
async fn the_document_of_a_file_is_served_as_it_is() {
    let mut setup = Setup::default();
    setup.openapi_file = Some("openapi: mine\n".into());
    let reply = setup
        .start()
        .await
        .get("/openapi.yaml")
        .without_token()
        .await
        .expect(200);
    assert_eq!(reply.text(), "openapi: mine\n");
}
