//! What Flux sees: the inputs of one cluster, and the list of clusters.

use std::collections::BTreeSet;
use std::io::Read;

use fleet::json::Json;
use fleet::log::{Batch, Change};
use serde_json::{Value, json};

use crate::support::{
    DEMO, DEMO_DNS, NETWORK_POLICY, PATHS, Reply, Setup, TestApp, WRITE, bare, component, ids, pretty, until,
};

const LIST: &str = "/api/v2/flux/clusters";

fn unpacked(reply: &Reply) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(&reply.body[..])
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// A wrong `DATABASE_URL` gives an empty store. Whoever provisions clusters from the list keeps what it has.
#[tokio::test]
async fn a_fleet_that_never_had_a_cluster_has_no_list_and_one_that_lost_its_last_has_an_empty_one() {
    let app = Setup::default().empty().start().await;
    app.get(LIST).await.expect(404);
    app.post("/clusters", &bare("only")).await.expect(201);
    app.get(LIST).await.expect(200);
    app.delete("/clusters/only").await.expect(204);
    assert_eq!(app.get(LIST).await.expect(200).json(), json!({"inputs": []}));
}

#[tokio::test]
async fn the_demo_fleet_is_answered_as_the_book_says() {
    let app = TestApp::start().await;
    let cluster = json!({"name": DEMO, "dns": DEMO_DNS, "environment": "dev"});
    assert_eq!(
        app.inputs(DEMO_DNS, "platform-components").await[0],
        json!({
            "id": "cert-manager",
            "component_path": "cert-manager",
            "component_version": "latest",
            "cluster_env_enabled": false,
            "depends_on": [],
            "enabled": true,
            "patches": {},
            "cluster": cluster,
            "source": {"oci_url": "https://charts.jetstack.io", "oci_tag": "latest"},
        })
    );
    assert_eq!(
        app.inputs(DEMO_DNS, "namespaces").await[0],
        json!({"id": "cert-manager", "labels": {"app": "cert-manager"}, "annotations": {}, "cluster": cluster})
    );
    assert_eq!(
        app.inputs(DEMO_DNS, "rolebindings").await[0],
        json!({
            "id": "platform-admins",
            "role": "cluster-admin",
            "subjects": [{"kind": "Group", "name": "platform-team", "apiGroup": "rbac.authorization.k8s.io"}],
            "cluster": cluster,
        })
    );
    assert_eq!(
        app.get(LIST).await.expect(200).json(),
        json!({"inputs": [{"id": DEMO, "cluster_name": DEMO, "cluster_dns": DEMO_DNS, "environment": "dev"}]})
    );
    for path in PATHS {
        let reply = app.poll(DEMO_DNS, path).await.expect(200);
        assert_eq!(reply.header("content-type"), "application/json");
        insta::assert_snapshot!(path, pretty(&reply.json()));
    }
}

#[tokio::test]
async fn the_merge_example_of_the_book_comes_out_with_its_defaults_filled_in() {
    let app = Setup::default().empty().start().await;
    for entry in [
        json!({ "_id": "cert-manager", "component_path": "core/cert-manager/1.14.0", "oci_url": "oci://registry/repo", "oci_tag": "v1.0.0", "depends_on": [] }),
        json!({ "_id": "grafana", "component_path": "observability/grafana/17.0.0", "oci_url": "oci://registry/repo", "oci_tag": "v1.0.0", "depends_on": ["cert-manager"] }),
    ] {
        app.post("/platform_components", &entry).await.expect(201);
    }
    let cluster = json!({
        "cluster_name": "us-east-prod-01",
        "cluster_dns": "us-east-prod-01.k8s.example.com",
        "environment": "prod",
        "platform_components": [
            { "id": "cert-manager", "enabled": true, "oci_tag": null, "component_path": null },
            { "id": "grafana", "enabled": true, "oci_tag": "v1.0.0-1", "component_path": "observability/grafana/17.1.0" }
        ],
        "patches": {
            "grafana": { "GRAFANA_REPLICAS": "3" }
        }
    });
    let created = app.post("/clusters", &cluster).await.expect(201);
    assert_eq!(created.header("location"), "/clusters/us-east-prod-01");
    let block = json!({"name": "us-east-prod-01", "dns": "us-east-prod-01.k8s.example.com", "environment": "prod"});
    assert_eq!(
        app.poll("us-east-prod-01.k8s.example.com", "platform-components")
            .await
            .expect(200)
            .json(),
        json!({"inputs": [
            {
                "id": "cert-manager",
                "component_path": "core/cert-manager/1.14.0",
                "component_version": "latest",
                "cluster_env_enabled": false,
                "enabled": true,
                "source": { "oci_url": "oci://registry/repo", "oci_tag": "v1.0.0" },
                "depends_on": [],
                "patches": {},
                "cluster": block,
            },
            {
                "id": "grafana",
                "component_path": "observability/grafana/17.1.0",
                "component_version": "latest",
                "cluster_env_enabled": false,
                "enabled": true,
                "source": { "oci_url": "oci://registry/repo", "oci_tag": "v1.0.0-1" },
                "depends_on": ["cert-manager"],
                "patches": { "GRAFANA_REPLICAS": "3" },
                "cluster": block,
            },
        ]})
    );
}

#[tokio::test]
async fn each_encoding_has_a_version_of_its_own() {
    let app = TestApp::start().await;
    let paths = PATHS
        .iter()
        .map(|path| format!("{LIST}/{DEMO_DNS}/{path}"))
        .chain([LIST.to_owned()]);
    for path in paths {
        let plain = app.get(&path).await.expect(200);
        let packed = app.get(&path).header("accept-encoding", "gzip").await.expect(200);
        assert_eq!(plain.header("content-encoding"), "");
        assert_eq!(packed.header("content-encoding"), "gzip");
        assert_eq!(unpacked(&packed), plain.text());
        for reply in [&plain, &packed] {
            assert_eq!(reply.header("content-type"), "application/json");
            assert!(reply.header("vary").eq_ignore_ascii_case("accept-encoding"));
        }
        assert_ne!(plain.etag(), packed.etag());

        let asked = |etag: String| app.get(&path).header("if-none-match", &etag);
        let same = asked(plain.etag()).await.expect(304);
        assert!(same.body.is_empty());
        assert_eq!(same.etag(), plain.etag());
        assert!(same.header("vary").eq_ignore_ascii_case("accept-encoding"));
        let same = asked(packed.etag()).header("accept-encoding", "gzip").await.expect(304);
        assert_eq!(same.etag(), packed.etag());
        asked(packed.etag()).await.expect(200);
        asked(plain.etag()).header("accept-encoding", "gzip").await.expect(200);
        asked(format!("\"x\", {}", plain.etag())).await.expect(304);
        asked(format!("W/{}", plain.etag())).await.expect(304);
        asked("*".into()).await.expect(304);
        asked("\"x\"".into()).await.expect(200);
        let refused = app.get(&path).header("accept-encoding", "gzip;q=0, identity").await;
        assert_eq!(refused.header("content-encoding"), "");
    }
}

#[tokio::test]
async fn the_same_state_gives_the_same_bytes() {
    let app = TestApp::start().await;
    let mut before = Vec::new();
    for path in PATHS {
        before.push(
            app.poll(DEMO_DNS, path)
                .header("accept-encoding", "gzip")
                .await
                .expect(200),
        );
    }
    let list = app.get(LIST).await;

    app.post("/platform_components", &component("unrelated"))
        .await
        .expect(201);
    app.post("/namespaces", &json!({"id": "unrelated"})).await.expect(201);
    app.patch(
        format!("/clusters/{DEMO}"),
        &json!({"labels": {"team": "a"}, "node_count": 3}),
    )
    .await
    .expect(200);
    app.put_kind("network_policies", NETWORK_POLICY).await.expect(201);
    app.patch("/namespaces/podinfo", &json!({"labels": {"x": "y"}}))
        .await
        .expect(200);
    app.patch("/namespaces/podinfo", &json!({"labels": {"x": null}}))
        .await
        .expect(200);
    app.patch(format!("/clusters/{DEMO}"), &json!({"environment": "qa"}))
        .await
        .expect(200);
    app.patch(format!("/clusters/{DEMO}"), &json!({"environment": "dev"}))
        .await
        .expect(200);
    for (path, before) in PATHS.iter().zip(before) {
        let after = app
            .poll(DEMO_DNS, path)
            .header("accept-encoding", "gzip")
            .await
            .expect(200);
        assert_eq!((after.etag(), after.body), (before.etag(), before.body), "{path}");
    }
    let after = app.get(LIST).await;
    assert_eq!((after.etag(), &after.body), (list.etag(), &list.body));
    // Another process with the same documents, written in another order, says the same.
    let other = Setup::default().sqlite().start().await.restart().await;
    assert_eq!(
        other.poll(DEMO_DNS, "rolebindings").await.etag(),
        app.poll(DEMO_DNS, "rolebindings").await.etag()
    );
}

#[tokio::test]
async fn a_change_reaches_the_polls_that_it_concerns_at_once() {
    let app = TestApp::start().await;
    app.post("/clusters", &bare("other")).await.expect(201);
    let namespaces = app.poll(DEMO_DNS, "namespaces").await.etag();
    let components = app.poll(DEMO_DNS, "platform-components").await.etag();
    app.patch("/platform_components/podinfo", &json!({"oci_tag": "6.0.0"}))
        .await
        .expect(200);
    let inputs = app.inputs(DEMO_DNS, "platform-components").await;
    assert_eq!(inputs[2]["source"]["oci_tag"], "6.0.0");
    assert_ne!(app.poll(DEMO_DNS, "platform-components").await.etag(), components);
    assert_eq!(app.poll(DEMO_DNS, "namespaces").await.etag(), namespaces);
    assert_eq!(
        app.poll("other.k8s.example.com", "platform-components").await.text(),
        r#"{"inputs":[]}"#
    );
}

#[tokio::test]
async fn inputs_come_in_the_order_of_the_references() {
    let app = TestApp::start().await;
    let body = json!({"platform_components": [{"id": "podinfo"}, {"id": "cert-manager"}, {"id": "traefik"}]});
    let patch = app.patch(format!("/clusters/{DEMO}"), &body);
    patch
        .header("content-type", "application/merge-patch+json")
        .await
        .expect(200);
    assert_eq!(
        app.input_ids(DEMO_DNS, "platform-components").await,
        ["podinfo", "cert-manager", "traefik"]
    );
}

#[tokio::test]
async fn deleting_a_cluster_decommissions_its_dns_until_a_cluster_takes_it_again() {
    let app = Setup::default().sqlite().start().await;
    let cluster = app.read(&format!("/clusters/{DEMO}")).await;
    app.delete(format!("/clusters/{DEMO}")).await.expect(204);
    let app = app.restart().await;
    app.put_kind("network_policies", NETWORK_POLICY).await.expect(201);
    for path in PATHS.into_iter().chain(["network-policies"]) {
        for dns in [DEMO_DNS, "DEMO-cluster-01.K8S.example.com"] {
            let reply = app.poll(dns, path).await.expect(200);
            assert_eq!(reply.text(), r#"{"inputs":[]}"#, "{path}");
            assert_eq!(
                unpacked(&app.poll(dns, path).header("accept-encoding", "gzip").await),
                r#"{"inputs":[]}"#
            );
        }
    }
    app.poll(DEMO_DNS, "no-such-kind").await.problem(404, "not-found");
    app.poll("never-known.example.com", "namespaces")
        .await
        .problem(404, "not-found");
    assert_eq!(app.get(LIST).await.expect(200).text(), r#"{"inputs":[]}"#);

    app.post("/clusters", &cluster).await.expect(201);
    assert_eq!(app.get("/decommissions").await.expect(200).array(), [json!(null); 0]);
    assert_eq!(
        app.input_ids(DEMO_DNS, "namespaces").await,
        ["cert-manager", "traefik", "podinfo"]
    );
    // It is a cluster like any other again: when it is renamed, its old name is unknown.
    app.patch(format!("/clusters/{DEMO}"), &json!({"cluster_dns": "new.example.com"}))
        .await
        .expect(200);
    app.poll(DEMO_DNS, "namespaces").await.problem(404, "not-found");
}

#[tokio::test]
async fn a_dns_that_was_given_up_by_renaming_is_unknown() {
    let app = TestApp::start().await;
    app.patch(format!("/clusters/{DEMO}"), &json!({"cluster_dns": "New.Example.com"}))
        .await
        .expect(200);
    for path in PATHS {
        app.poll(DEMO_DNS, path).await.problem(404, "not-found");
        app.poll("new.example.com", path).await.expect(200);
    }
    assert_eq!(
        app.inputs("new.example.com", "namespaces").await[0]["cluster"]["dns"],
        "New.Example.com"
    );
    // Deleting it decommissions the name it has, not the one it had.
    app.delete(format!("/clusters/{DEMO}")).await.expect(204);
    app.poll(DEMO_DNS, "namespaces").await.problem(404, "not-found");
    assert_eq!(
        app.poll("new.example.com", "namespaces").await.text(),
        r#"{"inputs":[]}"#
    );
}

#[tokio::test]
async fn a_decommissioned_dns_that_a_cluster_is_renamed_to_is_that_clusters() {
    let app = TestApp::start().await;
    app.post("/clusters", &bare("old")).await.expect(201);
    app.delete("/clusters/old").await.expect(204);
    app.patch(
        format!("/clusters/{DEMO}"),
        &json!({"cluster_dns": "OLD.k8s.example.com"}),
    )
    .await
    .expect(200);
    assert_eq!(app.input_ids("old.k8s.example.com", "namespaces").await.len(), 3);
    assert_eq!(app.get("/decommissions").await.array().len(), 0);
}

#[tokio::test]
async fn a_dns_name_is_found_in_any_case_and_a_name_close_to_it_is_not() {
    let app = TestApp::start().await;
    let reply = app.poll(&DEMO_DNS.to_uppercase(), "namespaces").await.expect(200);
    assert_eq!(reply.etag(), app.poll(DEMO_DNS, "namespaces").await.etag());
    for dns in [
        "demo-cluster-01",
        "demo-cluster-02.k8s.example.com",
        "demo-cluster-01.k8s.example.com.",
        "%20",
        DEMO,
    ] {
        app.poll(dns, "namespaces").await.problem(404, "not-found");
    }
    app.get(format!("{LIST}/%FF/namespaces"))
        .await
        .problem(400, "bad-request");
    app.get(format!("{LIST}/{DEMO_DNS}")).await.problem(404, "not-found");
}

#[tokio::test]
async fn a_component_that_is_switched_off_stays_in_the_list() {
    let app = TestApp::start().await;
    let off = json!({"platform_components": [{"id": "podinfo", "enabled": false}]});
    app.patch(format!("/clusters/{DEMO}"), &off).await.expect(200);
    let inputs = app.inputs(DEMO_DNS, "platform-components").await;
    assert_eq!(ids(&inputs), ["cert-manager", "traefik", "podinfo"]);
    assert_eq!(inputs[2]["enabled"], false);
}

#[tokio::test]
async fn provisioner_fields_never_reach_an_input() {
    let app = TestApp::start().await;
    let extra = json!({
        "labels": {"team": "a"}, "node_count": 3, "vm_image": "img", "k0s_version": "1.30", "protected": true,
    });
    app.patch(format!("/clusters/{DEMO}"), &extra).await.expect(200);
    for path in PATHS {
        let text = app.poll(DEMO_DNS, path).await.text().to_owned();
        for word in ["team\":\"a", "node_count", "vm_image", "k0s_version", "protected"] {
            assert!(!text.contains(word), "{path}: {word}");
        }
    }
    let list = app.get(LIST).await.json();
    assert_eq!(list["inputs"][0].as_object().unwrap().len(), 4);
}

#[tokio::test]
async fn fluxs_own_requests_are_answered() {
    let app = TestApp::start().await;
    let as_flux = || {
        app.poll(DEMO_DNS, "platform-components")
            .header("user-agent", "flux-operator/v0.58.1")
            .header("accept", "application/json")
            .header("accept-encoding", "gzip")
    };
    let reply = as_flux().await.expect(200);
    let body: Value = serde_json::from_str(&unpacked(&reply)).unwrap();
    assert_eq!(body["inputs"].as_array().unwrap().len(), 3);
    // Its connections are not kept when there are many: it opens one per poll and leaves it idle.
    app.app.metrics.connections.set(5_000);
    assert_eq!(as_flux().await.expect(200).header("connection"), "close");
    let other = app.poll(DEMO_DNS, "namespaces").header("user-agent", "curl/8").await;
    assert_eq!(other.header("connection"), "");
}

fn marked(path: &str) -> String {
    format!("{LIST}/{DEMO_DNS}/{path}?marked=true")
}

#[tokio::test]
async fn a_marked_reply_is_the_plain_one_with_a_digest_in_each_input() {
    let app = TestApp::start().await;
    for path in PATHS {
        let plain = app.poll(DEMO_DNS, path).await.expect(200);
        let reply = app.get(marked(path)).await.expect(200);
        let mut body = reply.json();
        for input in body["inputs"].as_array_mut().unwrap() {
            let desired = input.as_object_mut().unwrap().remove("desired");
            let mark = fleet::inputs::mark(path, Json::new(input).as_str());
            assert_eq!(desired, Some(json!({"input": mark.to_string()})), "{path}");
        }
        assert_eq!(body, plain.json(), "{path}");
        assert_ne!(reply.etag(), plain.etag());
        // The plain form is the same before and after.
        let again = app.poll(DEMO_DNS, path).await.expect(200);
        assert_eq!((again.etag(), &again.body), (plain.etag(), &plain.body), "{path}");
        let shown = app.get(format!("/clusters/{DEMO}/inputs/{path}?marked=true")).await;
        assert_eq!(shown.expect(200).text(), reply.text(), "{path}");
        let shown = app.get(format!("/clusters/{DEMO}/inputs/{path}")).await;
        assert_eq!(shown.expect(200).text(), plain.text(), "{path}");
    }
    // A decommissioned cluster is told the same in both forms.
    app.delete(format!("/clusters/{DEMO}")).await.expect(204);
    assert_eq!(
        app.get(marked("namespaces")).await.expect(200).text(),
        r#"{"inputs":[]}"#
    );
}

#[tokio::test]
async fn a_mark_changes_with_its_input_only() {
    let app = TestApp::start().await;
    let marks = async || -> Vec<(Value, Value)> {
        let mut body = app.get(marked("namespaces")).await.expect(200).json();
        let inputs = body["inputs"].as_array_mut().unwrap().drain(..);
        inputs
            .map(|mut input| (input["id"].take(), input["desired"].take()))
            .collect()
    };
    let before = marks().await;
    app.patch("/namespaces/podinfo", &json!({"labels": {"x": "y"}}))
        .await
        .expect(200);
    app.patch("/platform_components/podinfo", &json!({"component_version": "9.9.9"}))
        .await
        .expect(200);
    let after = marks().await;
    let changed: Vec<_> = before
        .iter()
        .zip(&after)
        .filter(|(before, after)| before != after)
        .collect();
    assert_eq!(changed.len(), 1, "{changed:?}");
    assert_eq!(changed[0].0.0, "podinfo");
    app.patch("/namespaces/podinfo", &json!({"labels": {"x": null}}))
        .await
        .expect(200);
    assert_eq!(marks().await, before);
}

#[tokio::test]
async fn a_marked_reply_has_an_etag_of_its_own() {
    let app = TestApp::start().await;
    let path = marked("namespaces");
    for encoding in ["gzip", "identity"] {
        let ask = |path: &str| app.get(path).header("accept-encoding", encoding);
        let reply = ask(&path).await.expect(200);
        let plain = app
            .poll(DEMO_DNS, "namespaces")
            .header("accept-encoding", encoding)
            .await
            .expect(200);
        assert_eq!(reply.header("content-type"), "application/json");
        ask(&path).header("if-none-match", &plain.etag()).await.expect(200);
        // The other form was polled in between: the same bytes are made again.
        let again = ask(&path).header("if-none-match", &reply.etag()).await.expect(304);
        assert_eq!((again.etag(), again.body.len()), (reply.etag(), 0));
        let head = app
            .call(axum::http::Method::HEAD, &path)
            .header("accept-encoding", encoding)
            .await
            .expect(200);
        assert_eq!(head.etag(), reply.etag());
    }
    // Both servers and both forms of the same state agree.
    let read_only = Setup::default().read_only().start().await;
    assert_eq!(
        read_only.get(&path).await.expect(200).etag(),
        app.get(&path).await.etag()
    );
}

#[tokio::test]
async fn marked_is_true_or_false_and_other_parameters_are_ignored() {
    let app = TestApp::start().await;
    let ask = |query: &str| app.get(format!("{LIST}/{DEMO_DNS}/namespaces{query}"));
    let (plain, with_marks) = (ask("").await.etag(), ask("?marked=true").await.etag());
    for (query, expected) in [
        ("?", &plain),
        ("?marked=false", &plain),
        ("?a=b&marks=true", &plain),
        ("?&marked=true&", &with_marks),
        ("?cluster=x&marked=true&marked2=1", &with_marks),
        ("?mark%65d=tru%65", &with_marks),
    ] {
        assert_eq!(&ask(query).await.expect(200).etag(), expected, "{query}");
    }
    for query in [
        "?marked",
        "?marked=",
        "?marked=1",
        "?marked=TRUE",
        "?marked=tru%FF",
        "?marked=true&marked=true",
    ] {
        let problem = ask(query).await.problem(400, "bad-request");
        assert!(
            problem["detail"].as_str().unwrap().contains("marked"),
            "{query}: {problem}"
        );
    }
    // A caller without a token learns nothing about its query.
    ask("?marked=1").without_token().await.expect(401);
}

#[tokio::test]
async fn what_would_break_the_contract_is_never_sent() {
    let app = TestApp::start().await;
    let cluster = app.app.fleet().document("clusters", DEMO).unwrap();
    let mut broken = cluster.body.parse();
    broken["namespaces"] = json!([{"id": "podinfo"}, {"id": "podinfo"}]);
    // No write of ours leads here: somebody wrote to the store.
    let change = Change {
        kind: "clusters".into(),
        id: DEMO.into(),
        before: Some(cluster.body),
        after: Some(Json::new(&broken)),
        origin: None,
        unique: Some(DEMO_DNS.into()),
        keeps_unique: false,
    };
    let batch = Batch {
        changes: vec![change],
        ..Batch::default()
    };
    app.store.commit(app.app.fleet().head(), &[batch]).await.unwrap();
    until("the other process's write is seen", || app.revision() == 2).await;
    let problem = app.poll(DEMO_DNS, "namespaces").await.problem(500, "contract");
    assert!(problem["detail"].as_str().unwrap().contains("podinfo"), "{problem}");
    app.poll(DEMO_DNS, "rolebindings").await.expect(200);
    let found = app
        .get(format!("/clusters/{DEMO}/diagnostics"))
        .await
        .expect(200)
        .array();
    assert!(
        found
            .iter()
            .any(|one| one["code"] == "contract" && one["kind"] == "namespaces"),
        "{found:?}"
    );
    // It can be put right.
    broken["namespaces"] = json!([{"id": "podinfo"}]);
    app.put(format!("/clusters/{DEMO}"), &broken).await.expect(200);
    assert_eq!(app.input_ids(DEMO_DNS, "namespaces").await, ["podinfo"]);
}

/// A small fleet over all tiers and two teams.
async fn fleet_of_eight() -> TestApp {
    let app = Setup::default().empty().start().await;
    let clusters = (0..8).map(|n| {
        let mut cluster = bare(&format!("c{n}"));
        cluster["environment"] = ["dev", "qa", "uat", "prod"][n / 2].into();
        cluster["labels"] = json!({"team": if n % 2 == 0 { "red" } else { "blue" }});
        if n == 7 {
            cluster["labels"]["example.com/tier"] = "gold".into();
            cluster["node_count"] = 3.into();
        }
        json!({"op": "create", "kind": "clusters", "value": cluster})
    });
    app.batch(clusters.collect()).await;
    app
}

async fn listed(app: &TestApp, query: &str) -> Vec<String> {
    let reply = app.get(format!("{LIST}?{query}")).await.expect(200).json();
    ids(reply["inputs"].as_array().unwrap())
}

#[tokio::test]
async fn the_list_of_clusters_can_be_narrowed() {
    let app = fleet_of_eight().await;
    for (query, expected) in [
        ("", "c0 c1 c2 c3 c4 c5 c6 c7"),
        ("environment=prod", "c6 c7"),
        ("selector=environment%3Dprod", "c6 c7"),
        ("selector=environment+in+(dev,qa),team=red", "c0 c2"),
        ("selector=environment!=prod,team!=red", "c1 c3 c5"),
        ("selector=team+notin+(red)", "c1 c3 c5 c7"),
        ("selector=example.com/tier", "c7"),
        ("selector=!example.com/tier,environment=prod", "c6"),
        ("selector=node_count=3", "c7"),
        ("selector=id=c4", "c4"),
        ("selector=cluster_dns==C4.k8s.EXAMPLE.com", "c4"),
        ("selector=*", "c0 c1 c2 c3 c4 c5 c6 c7"),
        ("environment=prod&selector=team=red", "c6"),
        ("environment=prod&selector=team=green", ""),
        ("shard=0/1", "c0 c1 c2 c3 c4 c5 c6 c7"),
    ] {
        assert_eq!(listed(&app, query).await.join(" "), expected, "{query}");
    }
    let mut whole = BTreeSet::new();
    for part in 0..3 {
        let part = listed(&app, &format!("shard={part}/3")).await;
        for id in part {
            assert!(whole.insert(id.clone()), "{id} is in two shards");
        }
    }
    assert_eq!(whole.len(), 8);
}

#[tokio::test]
async fn a_list_of_clusters_that_is_asked_for_wrongly_is_400_and_never_shorter() {
    let app = fleet_of_eight().await;
    for query in [
        "env=prod",
        "limit=3",
        "Environment=prod",
        "environment=production",
        "environment=",
        "environment=PROD",
        "environment=dev&environment=qa",
        "selector=",
        "selector=+",
        "selector=nope=1",
        "selector=!nope",
        "selector=nope!=1",
        "selector=nope+notin+(a)",
        "selector=team=red,nope",
        "selector=team=red,",
        "selector=team%3E3",
        "selector=labels=x",
        "selector=environment=production",
        "selector=environment!=production",
        "selector=environment+in+(prod,production)",
        "shard=",
        "shard=1",
        "shard=1/1",
        "shard=3/3",
        "shard=0/0",
        "shard=-1/3",
        "shard=a/b",
        "shard=0/3/1",
        "shard=0/99999999999",
        "shard=0/2&shard=1/2",
    ] {
        app.get(format!("{LIST}?{query}")).await.problem(400, "bad-request");
    }
    // A label that the last cluster gives up is unknown from then on, also to a list that was made before.
    listed(&app, "selector=example.com/tier").await;
    app.patch("/clusters/c7", &json!({"labels": {"example.com/tier": null}}))
        .await
        .expect(200);
    app.get(format!("{LIST}?selector=example.com/tier"))
        .await
        .problem(400, "bad-request");
}

#[tokio::test]
async fn a_list_of_clusters_follows_every_change_to_clusters() {
    let app = fleet_of_eight().await;
    assert_eq!(listed(&app, "environment=prod").await, ["c6", "c7"]);
    app.patch("/clusters/c0", &json!({"environment": "prod"}))
        .await
        .expect(200);
    assert_eq!(listed(&app, "environment=prod").await, ["c0", "c6", "c7"]);
    app.delete("/clusters/c6").await.expect(204);
    assert_eq!(listed(&app, "environment=prod").await, ["c0", "c7"]);
    assert_eq!(listed(&app, "selector=team=red").await, ["c0", "c2", "c4"]);
    app.patch("/clusters/c7", &json!({"labels": {"team": "red"}}))
        .await
        .expect(200);
    assert_eq!(listed(&app, "selector=team=red").await, ["c0", "c2", "c4", "c7"]);
}

#[tokio::test]
async fn a_fleet_whose_list_is_too_large_says_so_and_is_served_in_shards() {
    const CLUSTERS: usize = 7_000;
    let app = Setup::default().empty().start().await;
    let clusters = (0..CLUSTERS).map(|n| {
        let value = bare(&format!("edge-location-eu-central-site-{n:05}"));
        json!({"op": "create", "kind": "clusters", "value": value})
    });
    let reply = app.batch(clusters.collect()).await;
    assert_eq!(reply["changes"].as_array().unwrap().len(), CLUSTERS);
    assert_eq!(app.revision(), 2);

    let problem = app.get(LIST).await.problem(422, "contract");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("921600") && detail.contains("shard"), "{detail}");
    app.get(format!("{LIST}?environment=dev"))
        .await
        .problem(422, "contract");
    assert_eq!(
        app.get(format!("{LIST}?environment=prod")).await.expect(200).text(),
        r#"{"inputs":[]}"#
    );

    let mut whole = BTreeSet::new();
    for part in 0..4 {
        let reply = app.get(format!("{LIST}?shard={part}/4")).await.expect(200);
        assert!(reply.body.len() <= 900 * 1024);
        let inputs = reply.json();
        let inputs = inputs["inputs"].as_array().unwrap();
        assert!(inputs.len() > CLUSTERS / 8, "shards are of a size: {}", inputs.len());
        whole.extend(ids(inputs));
    }
    assert_eq!(whole.len(), CLUSTERS);

    // The list for people has no such limit, and goes out in pieces.
    let response = app.get("/clusters").token(WRITE).response().await;
    assert_eq!(response.headers()["x-total-count"], "7000");
    let mut body = response.into_body();
    let (mut size, mut largest) = (0, 0);
    while let Some(frame) = http_body_util::BodyExt::frame(&mut body).await {
        let length = frame.unwrap().into_data().unwrap().len();
        size += length;
        largest = largest.max(length);
    }
    assert!(
        size > 1 << 20 && largest < 128 << 10,
        "{size} bytes, pieces up to {largest}"
    );
}

#[tokio::test]
async fn head_is_answered_like_get() {
    let app = TestApp::start().await;
    for path in [
        format!("{LIST}/{DEMO_DNS}/namespaces"),
        LIST.to_owned(),
        format!("/clusters/{DEMO}"),
        "/health".into(),
    ] {
        let get = app.get(&path).await.expect(200);
        let head = app.call(axum::http::Method::HEAD, &path).await.expect(200);
        assert_eq!(head.header("etag"), get.header("etag"), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
    }
}

/// A later release may write what this one does not know. It must not be served without that.
#[tokio::test]
async fn a_revision_that_cannot_be_followed_leaves_the_last_snapshot_and_ready_says_why() {
    let app = TestApp::start().await;
    let before = app.poll(DEMO_DNS, "namespaces").await.expect(200).body;
    let change = Change {
        kind: "from_the_future".into(),
        id: "x".into(),
        before: None,
        after: Some(Json::new(&json!({"id": "x"}))),
        origin: None,
        unique: None,
        keeps_unique: false,
    };
    let batch = Batch {
        changes: vec![change],
        ..Batch::default()
    };
    app.store.commit(app.app.fleet().head(), &[batch]).await.unwrap();
    until("it stops following", || app.app.status().stopped().is_some()).await;
    let ready = app.get("/ready").without_token().await.expect(200).json();
    assert_eq!((&ready["status"], &ready["revision"]), (&json!("stopped"), &json!(1)));
    assert!(ready["detail"].as_str().unwrap().contains("from_the_future"), "{ready}");
    assert_eq!(app.poll(DEMO_DNS, "namespaces").await.expect(200).body, before);
    app.patch(format!("/clusters/{DEMO}"), &json!({"labels": {"a": "b"}}))
        .await
        .expect(503);
}
