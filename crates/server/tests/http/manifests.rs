//! What clusters make of their inputs.

use serde_json::{Value, json};

use crate::support::{DEMO, NETWORK_POLICY, Setup, TestApp, bare, component};

fn names(list: &Value) -> Vec<String> {
    let objects = list["items"].as_array().unwrap().iter();
    objects
        .map(|object| {
            format!(
                "{}/{}",
                object["kind"].as_str().unwrap(),
                object["metadata"]["name"].as_str().unwrap()
            )
        })
        .collect()
}

async fn objects(app: &TestApp, path: &str) -> Value {
    let reply = app.get(path).header("accept", "application/json").await.expect(200);
    assert_eq!(reply.header("content-type"), "application/json");
    reply.json()
}

fn find<'a>(list: &'a Value, kind: &str, name: &str) -> &'a Value {
    let mut objects = list["items"].as_array().unwrap().iter();
    let found = objects.find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind}/{name} among {:?}", names(list)))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// The names of the objects that the release of a component refers to: its values, and its source.
fn referred(list: &Value, id: &str) -> (String, String) {
    let mut objects = list["items"].as_array().unwrap().iter();
    let release = objects.find(|object| {
        ["HelmRelease", "Kustomization"].contains(&text(&object["kind"]))
            && object["metadata"]["name"] == format!("platform-{id}")
    });
    let spec = &release.unwrap()["spec"];
    let first = |pointers: &[&str]| {
        let mut names = pointers.iter().filter_map(|pointer| spec.pointer(pointer));
        text(names.next().unwrap()).to_owned()
    };
    let values = first(&["/valuesFrom/0/name", "/postBuild/substituteFrom/1/name"]);
    let source = first(&["/chartRef/name", "/sourceRef/name", "/chart/spec/sourceRef/name"]);
    (values, source)
}

#[tokio::test]
async fn the_demo_cluster_renders_as_the_book_says() {
    let app = TestApp::start().await;
    let yaml = app.get(format!("/clusters/{DEMO}/manifests")).await.expect(200);
    assert_eq!(yaml.header("content-type"), "application/yaml");
    let documents: Vec<_> = yaml.text().split("---\n").skip(1).collect();
    let list = objects(&app, &format!("/clusters/{DEMO}/manifests")).await;
    assert_eq!(documents.len(), list["items"].as_array().unwrap().len());
    let release = find(&list, "HelmRelease", "platform-podinfo");
    assert_eq!(release["spec"]["dependsOn"], json!([{"name": "platform-traefik"}]));
    assert_eq!(
        release["spec"]["chart"]["spec"]["version"],
        Value::Null,
        "latest is not pinned"
    );
    let values = find(&list, "ConfigMap", &format!("values-podinfo-{DEMO}"));
    assert_eq!(values["data"]["ui.color"], "#2f855a");
    let read = find(&list, "ConfigMap", text(&release["spec"]["valuesFrom"][0]["name"]));
    assert_eq!(read["data"], values["data"]);
    find(&list, "Namespace", "podinfo");
    let binding = find(&list, "ClusterRoleBinding", "platform-admins");
    assert_eq!(
        binding["metadata"]["annotations"]["fluxcd.controlplane.io/force"],
        "enabled"
    );
    let some = objects(&app, &format!("/clusters/{DEMO}/manifests?kind=rolebinding")).await;
    assert_eq!(
        names(&some),
        ["ClusterRoleBinding/platform-admins", "ClusterRoleBinding/dev-readers"]
    );
    app.get(format!("/clusters/{DEMO}/manifests?kind=gadget"))
        .await
        .problem(400, "bad-request");
    app.get("/clusters/nobody/manifests").await.problem(404, "not-found");
}

#[tokio::test]
async fn the_source_of_a_component_decides_its_template() {
    let app = TestApp::start().await;
    let with = |id: &str, more: Value| {
        let mut value = component(id);
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"op": "create", "kind": "platform_components", "value": value})
    };
    let mut cluster = bare("c");
    cluster["platform_components"] = json!([{"id": "path"}, {"id": "chart"}, {"id": "https"}]);
    cluster["patches"] = json!({"path": {"REPLICAS": "3", "not.a.variable": "x"}, "chart": {"hosts[0].name": "a,b"}});
    app.batch(json!([
        with("path", json!({"oci_url": "oci://r.example.com/mono", "component_path": "grafana", "cluster_env_enabled": true})),
        with("chart", json!({"oci_url": "oci://r.example.com/charts", "oci_artifact": "chart"})),
        with("https", json!({"cluster_env_enabled": true})),
        {"op": "create", "kind": "clusters", "value": cluster},
    ]))
    .await;
    let list = objects(&app, "/clusters/c/manifests").await;
    let path = find(&list, "Kustomization", "platform-path");
    assert_eq!(path["spec"]["path"], "grafana/dev");
    let read = text(&path["spec"]["postBuild"]["substituteFrom"][1]["name"]);
    assert_eq!(find(&list, "ConfigMap", read)["data"], json!({"REPLICAS": "3"}));
    assert_eq!(
        find(&list, "ConfigMap", "values-path-c")["data"],
        json!({"REPLICAS": "3"})
    );
    let source = find(&list, "OCIRepository", text(&path["spec"]["sourceRef"]["name"]));
    assert_eq!(source["spec"]["ref"]["tag"], "1.0.0");
    let chart = find(&list, "HelmRelease", "platform-chart");
    let source = find(&list, "OCIRepository", text(&chart["spec"]["chartRef"]["name"]));
    assert_eq!(source["spec"]["url"], "oci://r.example.com/charts/chart");
    assert_eq!(
        find(&list, "HelmRelease", "platform-https")["spec"]["chart"]["spec"]["version"],
        "1.0.0"
    );

    // What has no meaning on a road is told.
    let found = app.get("/clusters/c/diagnostics").await.expect(200).array();
    let told: Vec<_> = found
        .iter()
        .map(|one| (one["code"].as_str().unwrap(), one["id"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [("ignored", "path"), ("ignored", "https")], "{found:?}");
}

/// A release must never read a ConfigMap or a source that is about to change: both are named by their content.
#[tokio::test]
async fn values_and_sources_are_named_by_their_content() {
    let app = TestApp::start().await;
    let long = "l".repeat(53);
    let ids = ["https", "chart", "path", long.as_str()];
    let with = |id: &str, more: Value| {
        let mut value = component(id);
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"op": "create", "kind": "platform_components", "value": value})
    };
    let mut cluster = bare("c");
    cluster["platform_components"] = ids.map(|id| json!({"id": id})).into();
    cluster["patches"] = ids.iter().map(|id| ((*id).to_owned(), json!({"n": "1"}))).collect();
    app.batch(json!([
        with("https", json!({})),
        with("chart", json!({"oci_url": "oci://r.example.com/charts", "oci_artifact": "chart"})),
        with("path", json!({"oci_url": "oci://r.example.com/mono"})),
        with(&long, json!({"oci_url": "oci://r.example.com/mono"})),
        {"op": "create", "kind": "clusters", "value": cluster},
    ]))
    .await;
    let before = objects(&app, "/clusters/c/manifests").await;
    for name in names(&before) {
        assert!(name.split_once('/').unwrap().1.len() <= 253, "{name}");
    }
    let patches: serde_json::Map<_, _> = ids.iter().map(|id| ((*id).to_owned(), json!({"n": "2"}))).collect();
    app.patch("/clusters/c", &json!({ "patches": patches }))
        .await
        .expect(200);
    let valued = objects(&app, "/clusters/c/manifests").await;
    let moved = ids.map(|id| json!({"id": id, "oci_tag": "2.0.0"}));
    app.patch("/clusters/c", &json!({ "platform_components": moved }))
        .await
        .expect(200);
    let tagged = objects(&app, "/clusters/c/manifests").await;
    for id in ids {
        let [
            (values, source),
            (other_values, same_source),
            (same_values, other_source),
        ] = [&before, &valued, &tagged].map(|list| referred(list, id));
        assert_ne!(values, other_values, "{id}: other values");
        assert_eq!(source, same_source, "{id}: the same source");
        assert_eq!(other_values, same_values, "{id}: the same values");
        // A chart's version over https is in the release, and its source is the repository alone.
        assert_eq!(source == other_source, id == "https", "{id}: another version");
        assert_eq!(find(&tagged, "ConfigMap", &format!("values-{id}-c"))["data"]["n"], "2");
    }
    assert!(!tagged.to_string().contains("reconcile.fluxcd.io/watch"));

    // What changes nothing in the ConfigMap keeps its name.
    let number = json!({"patches": {"https": {"n": 2}}});
    app.patch("/clusters/c", &number).await.expect(200);
    let numbered = objects(&app, "/clusters/c/manifests").await;
    assert_eq!(referred(&numbered, "https"), referred(&tagged, "https"));
    let mirror = json!({"oci_url": "https://mirror.example.com"});
    app.patch("/platform_components/https", &mirror).await.expect(200);
    let mirrored = objects(&app, "/clusters/c/manifests").await;
    assert_ne!(
        referred(&mirrored, "https").1,
        referred(&tagged, "https").1,
        "another address"
    );
}

#[tokio::test]
async fn templates_of_a_folder_are_used_and_their_errors_are_reported() {
    let setup = Setup::default();
    let template = |name: &str, provider: &str, text: &str| {
        let text = text.replace('\n', "\n    ");
        format!(
            "apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSet\nmetadata: {{name: {name}, namespace: flux-system}}\n\
             spec:\n  inputsFrom: [{{name: {provider}}}]\n  resourcesTemplate: |\n    {text}\n---\n"
        )
    };
    let map =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: same, namespace: x}\ndata: {a: << inputs.size | quote >>}";
    let policies = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: << inputs.id >>, namespace: x}";
    let mut text = template("ns", "namespaces", &map.replace("inputs.size", "inputs.id"));
    text += &template("broken", "rolebindings", map);
    text += &template("later", "policies", policies);
    text += "apiVersion: fluxcd.controlplane.io/v1\nkind: ResourceSetInputProvider\nmetadata: {name: policies}\n\
             spec: {url: 'https://x/api/v2/flux/clusters/y/network-policies?a=b'}\n";
    let mut setup = setup;
    let file = setup.file("templates/all.yaml", &text);
    setup.config.templates_dir = Some(file.parent().unwrap().to_owned());
    let app = setup.start().await;
    let found = app
        .get(format!("/clusters/{DEMO}/diagnostics"))
        .await
        .expect(200)
        .array();
    let told: Vec<_> = found
        .iter()
        .map(|one| (one["code"].as_str().unwrap(), one["id"].as_str().unwrap()))
        .collect();
    // Components have no template there.
    assert_eq!(
        told,
        [("duplicate", "ns"), ("template", "broken"), ("untemplated", "")],
        "{found:?}"
    );
    assert!(
        found[1]["detail"]
            .as_str()
            .unwrap()
            .contains("map has no entry for key \"size\""),
        "{found:?}"
    );
    let problem = app
        .get(format!("/clusters/{DEMO}/manifests"))
        .await
        .problem(422, "invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/broken");
    let list = objects(&app, &format!("/clusters/{DEMO}/manifests?kind=namespaces")).await;
    assert_eq!(names(&list), ["ConfigMap/same"]);

    // A kind that comes later is rendered by the template that waits for it.
    app.put_kind("network_policies", NETWORK_POLICY).await.expect(201);
    let policy = json!({"id": "deny", "target_namespace": "x", "ingress_rules": []});
    let created = app.post("/network_policies", &policy).await;
    assert!(created.status == 201, "{}", created.text());
    app.patch(
        format!("/clusters/{DEMO}"),
        &json!({"network_policies": [{"id": "deny"}]}),
    )
    .await
    .expect(200);
    let list = objects(&app, &format!("/clusters/{DEMO}/manifests?kind=network-policies")).await;
    assert_eq!(names(&list), ["ConfigMap/deny"]);
}

#[tokio::test]
async fn a_kind_without_a_template_is_told() {
    let app = TestApp::start().await;
    app.put_kind("network_policies", NETWORK_POLICY).await.expect(201);
    for id in ["deny", "allow"] {
        let policy = json!({"id": id, "target_namespace": "x", "ingress_rules": []});
        let created = app.post("/network_policies", &policy).await;
        assert!(created.status == 201, "{}", created.text());
    }
    let none = objects(&app, &format!("/clusters/{DEMO}/manifests")).await;
    assert_eq!(none.get("notes"), None, "it has no inputs of the kind");
    let references = json!({"network_policies": [{"id": "deny"}, {"id": "allow"}]});
    app.patch(format!("/clusters/{DEMO}"), &references).await.expect(200);
    let note = "no ResourceSet reads the path network-policies, so nothing is rendered of its 2 inputs";
    let told = format!("network_policies: {note}");
    let all = objects(&app, &format!("/clusters/{DEMO}/manifests")).await;
    assert_eq!((&all["notes"], &all["items"]), (&json!([told]), &none["items"]));
    let some = objects(&app, &format!("/clusters/{DEMO}/manifests?kind=network_policy")).await;
    assert_eq!((&some["notes"], &some["items"]), (&json!([told]), &json!([])));
    let others = objects(&app, &format!("/clusters/{DEMO}/manifests?kind=namespace")).await;
    assert_eq!(others.get("notes"), None);
    let yaml = app.get(format!("/clusters/{DEMO}/manifests?kind=network_policy")).await;
    assert_eq!(yaml.expect(200).text(), format!("# {told}\n"));
    let found = app
        .get(format!("/clusters/{DEMO}/diagnostics"))
        .await
        .expect(200)
        .array();
    let expected = json!({"code": "untemplated", "kind": "network_policies", "id": "", "detail": note});
    assert!(found.contains(&expected), "{found:?}");
}

#[tokio::test]
async fn the_templates_are_shown_as_clusters_apply_them() {
    let app = TestApp::start().await;
    let path = format!("/clusters/{DEMO}/resourcesets");
    let list = objects(&app, &path).await;
    for name in ["namespaces", "platform-components", "rolebindings"] {
        let set = find(&list, "ResourceSet", name);
        assert_eq!(set["spec"]["inputsFrom"][0]["name"], name);
        let provider = find(&list, "ResourceSetInputProvider", name);
        let url = format!("${{INTERNAL_API_URL}}/api/v2/flux/clusters/${{CLUSTER_DNS}}/{name}?marked=true");
        assert_eq!(provider["spec"]["url"], url);
    }
    let shipped = include_str!("../../../../k8s/resourcesets/namespaces.yaml");
    let template = text(&find(&list, "ResourceSet", "namespaces")["spec"]["resourcesTemplate"]);
    assert!(template.lines().all(|line| shipped.contains(line)));
    let yaml = app.get(&path).await.expect(200);
    assert_eq!(yaml.header("content-type"), "application/yaml");
    app.get("/clusters/nobody/resourcesets").await.problem(404, "not-found");
    app.get(format!("{path}?kind=namespaces"))
        .await
        .problem(400, "bad-request");
}
