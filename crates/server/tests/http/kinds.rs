//! Kinds are data: put into a running fleet, or found in RESOURCES_DIR at the start.

use axum::http::Method;
use fleet::log::Revision;
use flux_resourceset::app::compact::{Old, compact};
use serde_json::{Value, json};

use crate::support::{NETWORK_POLICY, Reply, Setup, TestApp, bare, pointers};

const PROD_DNS: &str = "us-east-prod-01.k8s.example.com";

/// The reply of the chapter "Extending with New Resource Types".
fn chapter_reply() -> Value {
    json!({
        "inputs": [
            {
                "id": "allow-monitoring",
                "target_namespace": "monitoring",
                "ingress_rules": [
                    { "from_namespace": "prometheus", "port": 9090 }
                ],
                "cluster": {
                    "name": "us-east-prod-01",
                    "dns": "us-east-prod-01.k8s.example.com",
                    "environment": "prod"
                }
            }
        ]
    })
}

fn allow_monitoring() -> Value {
    json!({
        "id": "allow-monitoring",
        "target_namespace": "monitoring",
        "ingress_rules": [{ "from_namespace": "prometheus", "port": 9090 }],
    })
}

fn prod_cluster() -> Value {
    json!({
        "cluster_name": "us-east-prod-01",
        "cluster_dns": PROD_DNS,
        "environment": "prod",
        "network_policies": [{"id": "allow-monitoring"}],
    })
}

/// Everything the chapter promises of the new kind.
async fn has_network_policies(app: &TestApp) {
    let created = app.post("/network_policies", &allow_monitoring()).await.expect(201);
    assert_eq!(created.header("location"), "/network_policies/allow-monitoring");
    assert_eq!(created.json(), allow_monitoring());
    app.post("/network_policies", &allow_monitoring())
        .await
        .problem(409, "exists");

    let dangling = json!({"network_policies": [{"id": "nope"}]});
    let refused = app
        .patch("/clusters/demo-cluster-01", &dangling)
        .await
        .problem(422, "invalid");
    assert_eq!(pointers(&refused), ["/network_policies/0/id"]);
    app.post("/clusters", &prod_cluster()).await.expect(201);

    let poll = app.poll(PROD_DNS, "network-policies").await.expect(200);
    assert_eq!(poll.json(), chapter_reply());
    assert_eq!(
        app.input_ids("demo-cluster-01.k8s.example.com", "network-policies")
            .await,
        [""; 0]
    );
    app.poll(PROD_DNS, "network_policies").await.problem(404, "not-found");

    let invalid = json!({"id": "x", "target_namespace": 7, "ingress_rules": [{"port": "http", "from": 1}], "more": 1});
    let refused = app.post("/network_policies", &invalid).await.problem(422, "invalid");
    assert_eq!(
        pointers(&refused),
        [
            "/ingress_rules/0/from",
            "/ingress_rules/0/port",
            "/more",
            "/target_namespace"
        ]
    );

    let mut changed = allow_monitoring();
    changed["ingress_rules"] = json!([]);
    app.put("/network_policies/allow-monitoring", &changed)
        .await
        .expect(200);
    assert_eq!(
        app.inputs(PROD_DNS, "network-policies").await[0]["ingress_rules"],
        json!([])
    );
    let port = json!({"ingress_rules": [{"from_namespace": "prometheus", "port": 9091}]});
    app.patch("/network_policies/allow-monitoring", &port).await.expect(200);
    assert_eq!(
        app.inputs(PROD_DNS, "network-policies").await[0]["ingress_rules"][0]["port"],
        9091
    );
    assert_eq!(app.get("/network_policies").await.expect(200).array().len(), 1);
    let users = app
        .get("/network_policies/allow-monitoring/references")
        .await
        .expect(200)
        .array();
    assert_eq!(users[0]["cluster"], "us-east-prod-01");

    let refused = app
        .delete("/network_policies/allow-monitoring")
        .await
        .problem(409, "in-use");
    assert_eq!(refused["clusters"], json!(["us-east-prod-01"]));
    app.delete("/network_policies/allow-monitoring?cascade=true")
        .await
        .expect(204);
    assert_eq!(
        app.read("/clusters/us-east-prod-01").await["network_policies"],
        json!([])
    );
    assert_eq!(
        app.poll(PROD_DNS, "network-policies").await.expect(200).text(),
        r#"{"inputs":[]}"#
    );
}

#[tokio::test]
async fn the_chapters_file_put_into_a_running_fleet_gives_everything_at_once() {
    let app = TestApp::start().await;
    app.get("/network_policies").await.problem(404, "not-found");
    app.poll(PROD_DNS, "network-policies").await.problem(404, "not-found");
    let put = app.put_kind("network_policies", NETWORK_POLICY).await.expect(201);
    assert_eq!(put.json(), fleet::yaml::parse(NETWORK_POLICY).unwrap());
    has_network_policies(&app).await;
}

#[tokio::test]
async fn the_chapters_file_in_resources_dir_gives_the_same() {
    let setup = Setup::default().resource("network_policy.yaml", NETWORK_POLICY);
    let app = setup.start().await;
    assert_eq!(app.revision(), 1, "kinds and seed are one revision");
    has_network_policies(&app).await;
}

/// Our cluster file with the chapter's change to it.
fn chapter_cluster_file() -> String {
    let shipped = include_str!("../../../../resources/cluster.yaml");
    let added = r##"      network_policies:
        type: array
        items:
          $ref: "#/components/schemas/network_policy_ref"
        description: Network policies to sync to this cluster.
"##;
    let at = shipped.find("      id:\n").unwrap();
    format!("{}{added}{}", &shipped[..at], &shipped[at..])
}

#[tokio::test]
async fn the_chapters_change_to_the_cluster_file_may_come_with_it() {
    let setup = Setup::default()
        .resource("cluster.yaml", &chapter_cluster_file())
        .resource("network_policy.yaml", NETWORK_POLICY);
    let app = setup.start().await;
    let document = fleet::yaml::parse(app.get("/openapi.yaml").await.text()).unwrap();
    let array = &document["components"]["schemas"]["cluster"]["properties"]["network_policies"];
    assert_eq!(array["description"], "Network policies to sync to this cluster.");
    assert_eq!(array["items"]["$ref"], "#/components/schemas/network_policy_ref");
    has_network_policies(&app).await;
}

#[tokio::test]
async fn both_changes_of_the_chapter_can_be_put_into_a_running_fleet() {
    let app = TestApp::start().await;
    let too_early = app
        .put_kind("clusters", &chapter_cluster_file())
        .await
        .problem(422, "invalid");
    assert_eq!(
        pointers(&too_early),
        ["/schema/items/properties/network_policies/items/$ref"]
    );
    app.put_kind("network_policies", NETWORK_POLICY).await.expect(201);
    app.put_kind("clusters", &chapter_cluster_file()).await.expect(200);
    has_network_policies(&app).await;
}

#[tokio::test]
async fn a_cluster_file_that_names_a_kind_which_is_not_there_ends_the_start_and_names_the_variable() {
    let setup = Setup::default().resource("cluster.yaml", &chapter_cluster_file());
    let error = setup.try_start().await.err().unwrap().to_string();
    assert!(error.starts_with("RESOURCES_DIR: "), "{error}");
    assert!(
        error.contains("cluster.yaml") && error.contains("network_policy_ref"),
        "{error}"
    );
}

/// What `GET /kinds` says of one kind.
async fn entry(app: &TestApp, name: &str) -> Value {
    let kinds = app.get("/kinds").await.expect(200).array();
    kinds.into_iter().find(|kind| kind["name"] == name).unwrap()
}

#[tokio::test]
async fn the_list_of_kinds_says_how_each_is_called() {
    let setup = Setup::default().resource("network_policy.yaml", NETWORK_POLICY);
    let app = setup.start().await;
    let quota = "kind: resource_quota\nschema: {properties: {hard: {type: object}}}\n";
    app.put_kind("resource_quotas", quota).await.expect(201);
    let kinds = app.get("/kinds").await.expect(200).array();
    let names: Vec<_> = ["name", "singular", "command", "path", "references", "origin"].to_vec();
    let shown: Vec<Vec<_>> = kinds
        .iter()
        .map(|kind| names.iter().map(|name| kind[*name].clone()).collect())
        .collect();
    assert_eq!(
        json!(shown),
        json!([
            ["clusters", "cluster", "cluster", null, null, "built-in"],
            ["guards", "guard", "guard", null, null, "built-in"],
            [
                "namespaces",
                "namespace",
                "namespace",
                "namespaces",
                "namespaces",
                "built-in"
            ],
            [
                "network_policies",
                "network_policy",
                "network-policy",
                "network-policies",
                "network_policies",
                "resources-dir"
            ],
            [
                "platform_components",
                "platform_component",
                "component",
                "platform-components",
                "platform_components",
                "built-in"
            ],
            ["profiles", "profile", "profile", null, null, "built-in"],
            [
                "resource_quotas",
                "resource_quota",
                "resource-quota",
                "resource-quotas",
                "resource_quotas",
                "api"
            ],
            [
                "rolebindings",
                "rolebinding",
                "rolebinding",
                "rolebindings",
                "rolebindings",
                "built-in"
            ],
            ["rollouts", "rollout", "rollout", null, null, "built-in"],
        ])
    );
    for kind in &kinds {
        let mut fields: Vec<_> = kind.as_object().unwrap().keys().map(String::as_str).collect();
        fields.sort_unstable();
        let mut expected = names.clone();
        expected.extend(["document", "etag"]);
        expected.sort_unstable();
        assert_eq!(fields, expected);
        let one = app
            .get(format!("/kinds/{}", kind["name"].as_str().unwrap()))
            .await
            .expect(200);
        assert_eq!(one.json(), kind["document"]);
        assert_eq!(one.etag(), kind["etag"]);
    }
}

#[tokio::test]
async fn kinds_and_their_list_have_versions() {
    let app = TestApp::start().await;
    let list = app.get("/kinds").await.etag();
    let one = app.get("/kinds/namespaces").await.etag();
    for (path, etag) in [("/kinds", &list), ("/kinds/namespaces", &one)] {
        let same = app.get(path).header("if-none-match", etag).await.expect(304);
        assert!(same.body.is_empty() && same.etag() == *etag);
        app.get(path).header("if-none-match", "\"other\"").await.expect(200);
    }
    app.post("/namespaces", &json!({"id": "x"})).await.expect(201);
    app.get("/kinds").header("if-none-match", &list).await.expect(304);
    app.put_kind("network_policies", NETWORK_POLICY).await.expect(201);
    let changed = app.get("/kinds").header("if-none-match", &list).await.expect(200);
    assert_ne!(changed.etag(), list);
    app.get("/kinds/namespaces")
        .header("if-none-match", &one)
        .await
        .expect(304);

    let put = |etag: &str| {
        app.call(Method::PUT, "/kinds/network_policies")
            .header("if-match", etag)
    };
    put(&one).yaml(NETWORK_POLICY).await.problem(412, "stale");
    let current = app.get("/kinds/network_policies").await.etag();
    put(&current).yaml(NETWORK_POLICY).await.expect(200);
    app.delete("/kinds/network_policies")
        .header("if-match", &one)
        .await
        .problem(412, "stale");
    app.delete("/kinds/network_policies")
        .header("if-match", &current)
        .await
        .expect(204);
    put(&current).yaml(NETWORK_POLICY).await.problem(404, "not-found");
    app.get("/kinds/network_policies").await.problem(404, "not-found");
}

#[tokio::test]
async fn a_kind_is_given_back_as_yaml_to_who_asks_for_it() {
    let app = TestApp::start().await;
    app.put("/kinds/network_policies", &fleet::yaml::parse(NETWORK_POLICY).unwrap())
        .await
        .expect(201);
    let yaml = app
        .get("/kinds/network_policies")
        .header("accept", "application/yaml")
        .await
        .expect(200);
    assert_eq!(yaml.header("content-type"), "application/yaml");
    assert_eq!(
        fleet::yaml::parse(yaml.text()).unwrap(),
        fleet::yaml::parse(NETWORK_POLICY).unwrap()
    );
    let json = app.get("/kinds/network_policies").await.expect(200);
    assert_eq!(json.header("content-type"), "application/json");
    // What was read can be put back, and that changes nothing.
    let revision = app.revision();
    app.put_kind("network_policies", yaml.text()).await.expect(200);
    assert_eq!(app.revision(), revision);
}

#[tokio::test]
async fn a_kind_put_under_another_name_is_told_the_right_one() {
    let app = TestApp::start().await;
    for wrong in ["network_policy", "network-policies", "namespaces", "policies"] {
        let problem = app.put_kind(wrong, NETWORK_POLICY).await.problem(422, "invalid");
        assert_eq!(pointers(&problem), ["/kind"], "{wrong}");
        assert!(
            problem["detail"].as_str().unwrap().contains("/kinds/network_policies"),
            "{problem}"
        );
    }
    assert_eq!(app.revision(), 1);
}

#[tokio::test]
async fn kinds_that_cannot_be_are_refused_with_their_places() {
    let app = TestApp::start().await;
    let cases = [
        (
            "changes",
            "kind: change\nschema: {properties: {a: {type: string}}}",
            vec!["/kind"],
        ),
        (
            "kinds",
            "kind: kinds\nschema: {properties: {a: {type: string}}}",
            vec!["/kind"],
        ),
        (
            "things",
            "kind: Thing\nschema: {properties: {a: {type: string}}}",
            vec!["/kind"],
        ),
        ("things", "schema: {properties: {a: {type: string}}}", vec!["/kind"]),
        ("things", "kind: thing", vec!["/schema"]),
        (
            "things",
            "kind: thing\nschema: {properties: {cluster: {type: string}, provider: {type: string}, kind: {type: string}}}",
            vec![
                "/schema/properties/kind",
                "/schema/properties/cluster",
                "/schema/properties/provider",
            ],
        ),
        (
            "things",
            "kind: thing\nschema: {x-flux: {path: namespaces}, properties: {a: {type: string}}}",
            vec!["/kind"],
        ),
        (
            "things",
            "kind: thing\nschema: {x-flux: {overrideable: [a]}, properties: {a: {type: string}}}",
            vec!["/schema/x-flux/overrideable"],
        ),
        (
            "things",
            "kind: thing\nschema: {x-flux: {overridable: [b]}, properties: {a: {type: string}}}",
            vec!["/schema/x-flux/overridable/0"],
        ),
        (
            "things",
            "kind: thing\nschema: {properties: {a: {type: strin}}}",
            vec!["/schema"],
        ),
        (
            "things",
            "kind: thing\nschema: {properties: {a: {type: string, default: 7}}}",
            vec!["/schema/properties/a/default"],
        ),
    ];
    for (name, text, expected) in cases {
        let problem = app.put_kind(name, text).await.problem(422, "invalid");
        assert_eq!(pointers(&problem), expected, "{text}: {problem}");
    }
    app.put_kind("things", "a: [").await.problem(400, "bad-request");
    app.put_kind("things", "just text").await.problem(422, "invalid");
    assert_eq!(app.revision(), 1);
}

#[tokio::test]
async fn a_changed_kind_must_hold_for_what_is_stored_under_it() {
    let app = TestApp::start().await;
    let mut document = app.read("/kinds/namespaces").await;
    document["schema"]["items"]["required"] = json!(["id", "owner"]);
    document["schema"]["items"]["properties"]["owner"] = json!({"type": "string"});
    let refused = app.put("/kinds/namespaces", &document).await.problem(422, "invalid");
    let text = refused.to_string();
    for namespace in ["cert-manager", "traefik", "podinfo"] {
        assert!(
            text.contains(&format!("namespace \\\"{namespace}\\\" would be invalid at /owner")),
            "{text}"
        );
    }
    let poll = app.poll("demo-cluster-01.k8s.example.com", "namespaces").await.etag();

    // With a default it can be filled in, in the same revision.
    document["schema"]["items"]["properties"]["owner"]["default"] = "platform".into();
    app.put("/kinds/namespaces", &document).await.expect(200);
    assert_eq!(app.revision(), 2);
    assert_eq!(app.read("/namespaces/podinfo").await["owner"], "platform");
    let inputs = app.inputs("demo-cluster-01.k8s.example.com", "namespaces").await;
    assert!(inputs.iter().all(|input| input["owner"] == "platform"));
    assert_ne!(
        app.poll("demo-cluster-01.k8s.example.com", "namespaces").await.etag(),
        poll
    );
}

#[tokio::test]
async fn a_kind_in_use_stays_and_one_that_nothing_uses_goes() {
    let app = TestApp::start().await;
    let in_use = |reply: Reply| reply.problem(409, "in-use");
    in_use(app.delete("/kinds/clusters").await);
    let refused = in_use(app.delete("/kinds/namespaces").await);
    assert!(refused["detail"].as_str().unwrap().contains("podinfo"), "{refused}");
    app.delete("/kinds/nothing").await.problem(404, "not-found");

    app.put_kind("network_policies", NETWORK_POLICY).await.expect(201);
    app.post("/network_policies", &allow_monitoring()).await.expect(201);
    in_use(app.delete("/kinds/network_policies").await);
    app.post("/clusters", &prod_cluster()).await.expect(201);
    app.delete("/network_policies/allow-monitoring?cascade=true")
        .await
        .expect(204);
    app.delete("/kinds/network_policies?dry_run=true").await.expect(200);
    app.get("/network_policies").await.expect(200);
    app.delete("/kinds/network_policies").await.expect(204);
    app.get("/network_policies").await.problem(404, "not-found");
    app.poll(PROD_DNS, "network-policies").await.problem(404, "not-found");
    assert!(
        app.read("/clusters/us-east-prod-01")
            .await
            .get("network_policies")
            .is_none()
    );
    app.delete("/kinds/network_policies").await.problem(404, "not-found");
    // And it can come back.
    app.put_kind("network_policies", NETWORK_POLICY).await.expect(201);
    assert_eq!(
        app.poll(PROD_DNS, "network-policies").await.expect(200).text(),
        r#"{"inputs":[]}"#
    );
}

#[tokio::test]
async fn a_built_in_kind_can_be_replaced_and_a_restart_leaves_that_alone() {
    let app = Setup::default().sqlite().start().await;
    let mut document = app.read("/kinds/namespaces").await;
    document["schema"]["items"]["properties"]["owner"] = json!({"type": "string"});
    app.put("/kinds/namespaces", &document).await.expect(200);
    assert_eq!(entry(&app, "namespaces").await["origin"], "api");
    let revision = app.revision();
    let app = app.restart().await;
    assert_eq!(app.revision(), revision);
    assert_eq!(app.read("/kinds/namespaces").await, document);
    assert_eq!(entry(&app, "clusters").await["origin"], "built-in");
}

#[tokio::test]
async fn a_rollback_restores_where_a_kind_came_from() {
    let app = Setup::default().sqlite().start().await;
    let original = app.read("/kinds/namespaces").await;
    let changed = |text: &str| {
        let mut document = original.clone();
        document["schema"]["items"]["properties"]["owner"] = json!({"type": "string", "description": text});
        document
    };
    app.put("/kinds/namespaces", &changed("one")).await.expect(200);
    app.post("/rollback", &json!({"undo": 2})).await.expect(200);
    assert_eq!(entry(&app, "namespaces").await["origin"], "built-in");
    // An undo of the undo is a request's kind again, and a rollback over all of it is not.
    app.post("/rollback", &json!({"undo": 3})).await.expect(200);
    assert_eq!(entry(&app, "namespaces").await["origin"], "api");
    app.post("/rollback", &json!({"revision": 1})).await.expect(200);
    assert_eq!(entry(&app, "namespaces").await["origin"], "built-in");
    // Put by requests, the same document is theirs; only the rollback knows whose it was.
    app.put("/kinds/namespaces", &changed("two")).await.expect(200);
    app.put("/kinds/namespaces", &original).await.expect(200);
    assert_eq!(entry(&app, "namespaces").await["origin"], "api");
    app.post("/rollback", &json!({"revision": 1})).await.expect(200);
    assert_eq!(entry(&app, "namespaces").await["origin"], "built-in");
    let revision = app.revision();
    let app = app.restart().await;
    assert_eq!(
        (app.revision(), &entry(&app, "namespaces").await["origin"]),
        (revision, &json!("built-in"))
    );
}

#[tokio::test]
async fn where_the_log_no_longer_says_the_origin_a_rollback_knows_only_our_own_kinds() {
    let app = Setup::default()
        .sqlite()
        .resource("np.yaml", NETWORK_POLICY)
        .start()
        .await;
    let mut document = app.read("/kinds/namespaces").await;
    document["schema"]["items"]["properties"]["owner"] = json!({"type": "string"});
    app.post("/clusters", &bare("one")).await.expect(201);
    app.put("/kinds/namespaces", &document).await.expect(200);
    app.put_kind("network_policies", &policy_with("by_request"))
        .await
        .expect(200);
    let budget = app.config().budget;
    compact(&*app.store, Old::Before(Revision(3)), budget).await.unwrap();
    app.post("/rollback", &json!({"revision": 2})).await.expect(200);
    assert_eq!(entry(&app, "namespaces").await["origin"], "built-in");
    assert_eq!(entry(&app, "network_policies").await["origin"], "api");
}

fn policy_with(property: &str) -> String {
    NETWORK_POLICY.replace(
        "  properties:\n    id:",
        &format!("  properties:\n    {property}: {{type: string}}\n    id:"),
    )
}

fn has(kind: &Value, property: &str) -> bool {
    kind["document"]["schema"]["properties"].get(property).is_some()
}

#[tokio::test]
async fn a_file_of_resources_dir_is_applied_once_and_again_when_it_changes() {
    let setup = Setup::default().sqlite().resource("np.yaml", NETWORK_POLICY);
    let app = setup.start().await;
    assert_eq!(entry(&app, "network_policies").await["origin"], "resources-dir");

    app.put_kind("network_policies", &policy_with("by_request"))
        .await
        .expect(200);
    let app = app.restart().await;
    assert_eq!(app.revision(), 2, "a restart undoes no PUT");
    let kind = entry(&app, "network_policies").await;
    assert!(has(&kind, "by_request") && kind["origin"] == "api");

    let app = app
        .stop()
        .await
        .resource("np.yaml", &policy_with("by_file"))
        .start()
        .await;
    assert_eq!(app.revision(), 3, "a changed file is applied");
    let kind = entry(&app, "network_policies").await;
    assert!(has(&kind, "by_file") && !has(&kind, "by_request") && kind["origin"] == "resources-dir");
    let records = app.get("/changes?after=2").await.array();
    assert_eq!(records.len(), 1);
    assert_eq!(
        (&records[0]["actor"], &records[0]["kind"]),
        (&json!("system"), &json!("kinds"))
    );

    app.put_kind("network_policies", NETWORK_POLICY).await.expect(200);
    let app = app.restart().await;
    assert_eq!(app.revision(), 4, "once only");
    assert!(!has(&entry(&app, "network_policies").await, "by_file"));

    // A file that goes takes nothing with it: kinds are only ever deleted by request.
    let mut setup = app.stop().await;
    setup.config.resources_dir = None;
    let app = setup.start().await;
    assert_eq!(app.revision(), 4);
    app.get("/network_policies").await.expect(200);
    app.delete("/kinds/network_policies").await.expect(204);
    let app = app.restart().await;
    app.get("/network_policies").await.problem(404, "not-found");
}

#[tokio::test]
async fn a_deleted_kind_does_not_come_back_from_a_file_that_did_not_change() {
    let setup = Setup::default().sqlite().resource("np.yaml", NETWORK_POLICY);
    let app = setup.start().await;
    app.delete("/kinds/network_policies").await.expect(204);
    let app = app.restart().await;
    app.get("/network_policies").await.problem(404, "not-found");
}

#[tokio::test]
async fn a_changed_file_that_breaks_what_is_stored_leaves_the_old_kind_in_force() {
    let setup = Setup::default().sqlite().resource("np.yaml", NETWORK_POLICY);
    let app = setup.start().await;
    app.post("/network_policies", &allow_monitoring()).await.expect(201);
    let stricter = NETWORK_POLICY
        .replace("required: [id,", "required: [id, owner,")
        .replace(
            "  properties:\n    id:",
            "  properties:\n    owner: {type: string}\n    id:",
        );
    let app = app.stop().await.resource("np.yaml", &stricter).start().await;
    assert_eq!(app.revision(), 2);
    assert!(!has(&entry(&app, "network_policies").await, "owner"));
    app.get("/network_policies/allow-monitoring").await.expect(200);
    // Once nothing is in the way, the next start takes it.
    app.delete("/network_policies/allow-monitoring").await.expect(204);
    let app = app.restart().await;
    assert!(has(&entry(&app, "network_policies").await, "owner"));
}

#[tokio::test]
async fn a_read_only_process_takes_no_changed_file() {
    let setup = Setup::default().sqlite().resource("np.yaml", NETWORK_POLICY);
    let app = setup.start().await;
    let setup = app
        .stop()
        .await
        .resource("np.yaml", &policy_with("by_file"))
        .read_only();
    let app = setup.start().await;
    assert_eq!(app.revision(), 1);
}

#[tokio::test]
async fn a_bad_file_of_resources_dir_ends_the_start_and_names_the_file() {
    for (text, said) in [
        ("kind: [", "np.yaml"),
        (
            "kind: batch\nschema: {x-flux: {plural: batch}, properties: {a: {type: string}}}",
            "np.yaml",
        ),
        ("kind: thing\nschema: {properties: {a: {type: strin}}}", "np.yaml"),
    ] {
        let setup = Setup::default().resource("np.yaml", text);
        let error = setup.try_start().await.err().unwrap().to_string();
        assert!(error.starts_with("RESOURCES_DIR: "), "{text}: {error}");
        assert!(error.contains(said), "{text}: {error}");
    }
    let setup = Setup::default()
        .resource("a.yaml", NETWORK_POLICY)
        .resource("b.yml", NETWORK_POLICY);
    let error = setup.try_start().await.err().unwrap().to_string();
    assert!(error.contains("a.yaml") && error.contains("b.yml"), "{error}");
}

#[tokio::test]
async fn a_kind_may_be_rich_and_its_inputs_follow() {
    let app = TestApp::start().await;
    let kind = r#"
kind: external_secrets
apiVersion: v1
schema:
  type: array
  key: {name: id, schema: {type: string}}
  x-flux:
    path: external-secrets
    references: secrets
    command: secret
    overridable: [store]
    carried: {sync: {type: boolean, default: true}}
    nest: {from: [store, key]}
  query_params:
    - {name: tier, schema: {type: string}}
  items:
    type: object
    required: [id, store, key]
    properties:
      id: {type: string}
      store: {type: string}
      key: {type: string}
      tier: {type: string, enum: [gold, silver], default: silver}
"#;
    app.put_kind("external_secrets", kind).await.expect(201);
    app.post(
        "/external_secrets",
        &json!({"id": "db", "store": "vault", "key": "db/main"}),
    )
    .await
    .expect(201);
    app.post(
        "/external_secrets",
        &json!({"id": "api", "store": "vault", "key": "api", "tier": "gold"}),
    )
    .await
    .expect(201);
    let mut cluster = bare("c1");
    cluster["secrets"] = json!([{"id": "db", "store": "local", "sync": false}, {"id": "api", "store": null}]);
    app.post("/clusters", &cluster).await.expect(201);
    let block = json!({"name": "c1", "dns": "c1.k8s.example.com", "environment": "dev"});
    assert_eq!(
        app.poll("c1.k8s.example.com", "external-secrets")
            .await
            .expect(200)
            .json(),
        json!({"inputs": [
            {"id": "db", "tier": "silver", "sync": false, "from": {"store": "local", "key": "db/main"}, "cluster": block},
            {"id": "api", "tier": "gold", "sync": true, "from": {"store": "vault", "key": "api"}, "cluster": block},
        ]})
    );
    let gold = app.get("/external_secrets?tier=gold").await.expect(200).array();
    assert_eq!(gold.len(), 1);
    app.get("/external_secrets?tier=bronze")
        .await
        .problem(400, "bad-request");
    app.get("/external_secrets?store=vault")
        .await
        .problem(400, "bad-request");
    assert_eq!(entry(&app, "external_secrets").await["command"], "secret");
}

#[tokio::test]
async fn the_tiers_are_what_the_kind_of_clusters_says() {
    let app = TestApp::start().await;
    let mut document = app.read("/kinds/clusters").await;
    let tiers =
        |document: &mut Value, tiers: Value| document["schema"]["items"]["properties"]["environment"]["enum"] = tiers;
    app.get("/api/v2/flux/clusters?environment=staging")
        .await
        .problem(400, "bad-request");
    tiers(&mut document, json!(["qa", "staging"]));
    let refused = app.put("/kinds/clusters", &document).await.problem(422, "invalid");
    assert!(refused.to_string().contains("demo-cluster-01"), "{refused}");
    tiers(&mut document, json!(["dev", "staging"]));
    app.put("/kinds/clusters", &document).await.expect(200);
    for path in ["/api/v2/flux/clusters", "/clusters"] {
        app.get(format!("{path}?environment=staging")).await.expect(200);
        app.get(format!("{path}?selector=environment!=staging"))
            .await
            .expect(200);
        app.get(format!("{path}?environment=prod"))
            .await
            .problem(400, "bad-request");
        app.get(format!("{path}?selector=environment=prod"))
            .await
            .problem(400, "bad-request");
    }
    let body = json!({"environment": "staging"});
    app.patch("/clusters/demo-cluster-01", &body).await.expect(200);
    let body = json!({"environment": "qa"});
    app.patch("/clusters/demo-cluster-01", &body)
        .await
        .problem(422, "invalid");
}

#[tokio::test]
async fn a_kind_that_moves_its_endpoint_leaves_nothing_at_the_old_one() {
    let app = TestApp::start().await;
    let dns = "demo-cluster-01.k8s.example.com";
    let marked = async |path: &str| app.poll(dns, &format!("{path}?marked=true")).await.expect(200).json();
    let before = marked("namespaces").await;
    let mut document = app.read("/kinds/namespaces").await;
    document["schema"]["x-flux"]["path"] = "spaces".into();
    app.put("/kinds/namespaces", &document).await.expect(200);
    // Marks name the path, too: those of the old one must not stay with a cached reply.
    let after = marked("spaces").await;
    for (old, new) in before["inputs"]
        .as_array()
        .unwrap()
        .iter()
        .zip(after["inputs"].as_array().unwrap())
    {
        assert_eq!(old["id"], new["id"]);
        assert_ne!(old["desired"], new["desired"]);
    }
    assert_eq!(app.input_ids(dns, "spaces").await.len(), 3);
    // Not an empty list: that would garbage-collect.
    app.poll(dns, "namespaces").await.problem(404, "not-found");

    // Its array cannot be moved from under the clusters that use it.
    document["schema"]["x-flux"]["references"] = "spaces".into();
    let refused = app.put("/kinds/namespaces", &document).await;
    assert!([409, 422].contains(&refused.status), "{}", refused.text());
    assert!(refused.text().contains("demo-cluster-01"), "{}", refused.text());
    assert_eq!(app.input_ids(dns, "spaces").await.len(), 3);
}

#[tokio::test]
async fn a_built_in_kind_that_resources_dir_replaced_stays_so_without_the_folder() {
    let with_owner = include_str!("../../../../resources/namespace.yaml").replace(
        "      labels:\n        description: Labels of the namespace.",
        "      owner: {type: string}\n      labels:\n        description: Labels of the namespace.",
    );
    let setup = Setup::default().sqlite().resource("namespace.yaml", &with_owner);
    let app = setup.start().await;
    app.patch("/namespaces/podinfo", &json!({"owner": "me"}))
        .await
        .expect(200);
    let mut setup = app.stop().await;
    setup.config.resources_dir = None;
    let app = setup.start().await;
    assert_eq!(entry(&app, "namespaces").await["origin"], "resources-dir");
    assert_eq!(app.read("/namespaces/podinfo").await["owner"], "me");
    assert_eq!(app.revision(), 2);
}
