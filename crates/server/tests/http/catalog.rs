//! The optional fields of components, from the catalog to the objects of a cluster. Each snapshot has the inputs and the objects of
//! one case, on every kind of source that the fields can have.

use serde_json::{Value, json};

use crate::support::{TestApp, bare, component};

/// The sources: a Helm repository, charts in an OCI registry, manifests in an OCI registry.
const SOURCES: [&str; 3] = ["https", "chart", "path"];

/// A cluster with a component of each of these sources, all with these fields.
async fn cluster(app: &TestApp, sources: &[&str], fields: &Value, reference: &Value, patches: &Value) {
    let mut operations = Vec::new();
    let (mut references, mut all_patches) = (Vec::new(), json!({}));
    for id in sources {
        let source = match *id {
            "https" => json!({}),
            "chart" => json!({"oci_url": "oci://r.example.com/charts", "oci_artifact": "chart"}),
            _ => json!({"oci_url": "oci://r.example.com/mono"}),
        };
        let mut value = component(id);
        for more in [&source, fields] {
            value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        }
        operations.push(json!({"op": "create", "kind": "platform_components", "value": value}));
        let mut own = reference.clone();
        own["id"] = (*id).into();
        references.push(own);
        all_patches[*id] = patches.clone();
    }
    let mut value = bare("c");
    value["platform_components"] = references.into();
    value["patches"] = all_patches;
    operations.push(json!({"op": "create", "kind": "clusters", "value": value}));
    app.batch(operations.into()).await;
}

/// The inputs of the cluster, and its objects.
async fn rendered(app: &TestApp) -> String {
    let inputs = app.inputs("c.k8s.example.com", "platform-components").await;
    let inputs: Vec<String> = inputs.iter().map(Value::to_string).collect();
    let objects = app.get("/clusters/c/manifests?kind=component").await.expect(200);
    format!("{}\n{}", inputs.join("\n"), objects.text())
}

#[tokio::test]
async fn each_field_reaches_the_objects_that_flux_reads_it_from() {
    let keyless =
        json!({"match_oidc_identity": [{"issuer": "^https://token\\.example\\.com$", "subject": "^.*\"release\".*$"}]});
    let oci = &SOURCES[1..];
    let charts = &SOURCES[..2];
    let (none, patches) = (json!({}), json!({"replicas": "3"}));
    for (case, sources, fields, reference, patches) in [
        ("plain", &SOURCES[..], json!({"depends_on": []}), &none, &none),
        ("plain_patched", &SOURCES[..], json!({}), &none, &patches),
        (
            "namespace",
            &SOURCES[..],
            json!({"namespace": "elsewhere"}),
            &none,
            &none,
        ),
        (
            "values",
            &SOURCES[2..],
            json!({"values": {"replicas": 2, "name": "on", "flag": true}}),
            &none,
            &none,
        ),
        (
            "values_patched",
            &SOURCES[..],
            json!({"values": {"replicas": 2}}),
            &none,
            &patches,
        ),
        (
            "values_nested",
            charts,
            json!({"values": {"on": {"a.b": ["x", null, 1.5]}, "none": null}}),
            &none,
            &none,
        ),
        ("secret_ref", &SOURCES[..], json!({"secret_ref": "login"}), &none, &none),
        (
            "cert_secret_ref",
            &SOURCES[..],
            json!({"cert_secret_ref": "ca"}),
            &none,
            &none,
        ),
        ("provider", oci, json!({"provider": "aws"}), &none, &none),
        (
            "verify_keys",
            oci,
            json!({"verify": {"secret_ref": "keys"}}),
            &none,
            &none,
        ),
        ("verify_signers", oci, json!({ "verify": keyless }), &none, &none),
        (
            "service_account",
            &SOURCES[..],
            json!({"service_account": "deployer"}),
            &none,
            &none,
        ),
        ("timeout", &SOURCES[..], json!({"timeout": "15m"}), &none, &none),
        ("crds", &SOURCES[..], json!({"crds": "CreateReplace"}), &none, &none),
        (
            "overridden",
            oci,
            json!({"namespace": "a", "secret_ref": "a", "provider": "aws", "timeout": "1m", "crds": "Skip"}),
            &json!({"namespace": "b", "secret_ref": null, "provider": "gcp", "timeout": "2m", "crds": "Create",
                    "cert_secret_ref": "b", "service_account": "b", "verify": {"secret_ref": "b"}}),
            &none,
        ),
        // Accepted, since the source decides; reported by the diagnostics.
        (
            "ignored",
            &SOURCES[..1],
            json!({}),
            &json!({"provider": "gcp", "verify": {"secret_ref": "b"}}),
            &none,
        ),
    ] {
        let app = TestApp::start().await;
        cluster(&app, sources, &fields, reference, patches).await;
        insta::assert_snapshot!(case, rendered(&app).await);
    }
}

/// The objects of the cluster by the shipped template, from inputs as a provider gets them.
async fn objects(app: &TestApp, query: &str) -> Vec<Value> {
    let template = include_bytes!("../../../../k8s/resourcesets/platform-components.yaml");
    let bundle = resourceset::Bundle::read([("platform-components.yaml", &template[..])]).unwrap();
    let path = format!("/api/v2/flux/clusters/c.k8s.example.com/platform-components{query}");
    let inputs = app.get(path).await.expect(200).json();
    let inputs: Vec<_> = inputs["inputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|input| input.as_object().unwrap().clone())
        .collect();
    let mut rendered = bundle.render(|_| Some(inputs.clone()));
    let steps = rendered.remove(0).result.unwrap();
    steps.into_iter().flat_map(|step| step.objects).collect()
}

#[tokio::test]
async fn what_has_a_ready_condition_carries_the_mark_and_the_name_of_its_input() {
    let app = TestApp::start().await;
    let patches = json!({"replicas": "3"});
    let values = json!({"values": {"replicas": 2}});
    cluster(&app, &SOURCES, &values, &json!({}), &patches).await;
    let body = app
        .get("/api/v2/flux/clusters/c.k8s.example.com/platform-components?marked=true")
        .await;
    let marks: Vec<Value> = body.json()["inputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|input| {
            json!({
                "event.toolkit.fluxcd.io/desired": input["desired"]["input"],
                "event.toolkit.fluxcd.io/input": format!("platform-components/{}", input["id"].as_str().unwrap()),
            })
        })
        .collect();
    let plain = objects(&app, "").await;
    let mut marked = objects(&app, "?marked=true").await;
    let mut seen = Vec::new();
    for object in &mut marked {
        let kind = object["kind"].as_str().unwrap().to_owned();
        if kind == "ConfigMap" {
            continue;
        }
        let annotations = object["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("annotations")
            .unwrap();
        let input = marks.iter().position(|mark| *mark == annotations);
        seen.push((input.unwrap_or_else(|| panic!("{kind}: {annotations}")), kind));
    }
    assert_eq!(marked, plain, "all else is as without marks");
    seen.sort();
    let seen: Vec<_> = seen
        .iter()
        .map(|(input, kind)| (SOURCES[*input], kind.as_str()))
        .collect();
    assert_eq!(
        seen,
        [
            ("https", "HelmRelease"),
            ("https", "HelmRepository"),
            ("chart", "HelmRelease"),
            ("chart", "OCIRepository"),
            ("path", "Kustomization"),
            ("path", "OCIRepository"),
        ]
    );
    // Plans and manifests show what changes, not that something did.
    let shown = app.get("/clusters/c/manifests?kind=component").await.expect(200);
    assert!(!shown.text().contains("event.toolkit.fluxcd.io"), "{}", shown.text());
}

/// A store may hold a kind from before the name was reserved, with a property `desired`.
#[test]
fn an_input_whose_field_only_looks_like_a_mark_renders_without() {
    let template = include_bytes!("../../../../k8s/resourcesets/platform-components.yaml");
    let bundle = resourceset::Bundle::read([("platform-components.yaml", &template[..])]).unwrap();
    let input = json!({
        "id": "a", "component_path": "a", "component_version": "1", "cluster_env_enabled": false, "depends_on": [], "enabled": true,
        "patches": {}, "source": {"oci_url": "https://a", "oci_tag": "1"}, "cluster": {"name": "c", "environment": "dev"},
        "desired": "a text",
    });
    let rendered = bundle.render(|_| Some(vec![input.as_object().unwrap().clone()]));
    let steps = rendered[0].result.as_ref().unwrap();
    let objects = steps.iter().flat_map(|step| &step.objects);
    assert!(
        objects.clone().count() == 2
            && objects
                .into_iter()
                .all(|object| object["metadata"].get("annotations").is_none())
    );
}

/// What the release of a component refers to: the ConfigMap of the catalog's values, and the source.
async fn referred(app: &TestApp, id: &str) -> (Option<String>, String) {
    let list = app
        .get("/clusters/c/manifests")
        .header("accept", "application/json")
        .await;
    let list = list.expect(200).json();
    let name = format!("platform-{id}");
    let mut objects = list["items"].as_array().unwrap().iter();
    let is_release = |object: &&Value| object["metadata"]["name"] == *name && object["kind"] != "OCIRepository";
    let spec = &objects.find(is_release).unwrap()["spec"];
    let text = |pointers: [&str; 3]| {
        let found = pointers.iter().find_map(|pointer| spec.pointer(pointer)?.as_str());
        found.map(str::to_owned)
    };
    let values = text(["/valuesFrom/0/name", "/postBuild/substituteFrom/1/name", ""]);
    let values = values.filter(|name| name.starts_with("defaults-"));
    (
        values,
        text(["/chartRef/name", "/sourceRef/name", "/chart/spec/sourceRef/name"]).unwrap(),
    )
}

/// Whoever reads a source that does not verify must not get what one that verifies would refuse. Logins change nothing of the content.
#[tokio::test]
async fn a_change_makes_another_source_or_configmap_where_the_content_may_differ() {
    let app = TestApp::start().await;
    cluster(&app, &SOURCES, &json!({}), &json!({}), &json!({})).await;
    for id in SOURCES {
        let before = referred(&app, id).await;
        assert_eq!(before.0, None);
        let change = async |fields: Value| {
            app.patch(format!("/platform_components/{id}"), &fields)
                .await
                .expect(200);
            referred(&app, id).await
        };
        for fields in [
            json!({"secret_ref": "login"}),
            json!({"cert_secret_ref": "ca"}),
            json!({"service_account": "deployer", "timeout": "9m", "crds": "Skip"}),
        ] {
            assert_eq!(change(fields).await, before, "{id}");
        }
        let valued = change(json!({"values": {"a": 1}})).await;
        assert!(valued.0.is_some() && valued.1 == before.1, "{id}: {valued:?}");
        let other = change(json!({"values": {"a": 2}})).await;
        assert!(
            other.0.is_some() && other.0 != valued.0 && other.1 == before.1,
            "{id}: {other:?}"
        );
        if id == "https" {
            continue;
        }
        assert_eq!(change(json!({"provider": "aws"})).await, other, "{id}");
        let verified = change(json!({"verify": {"secret_ref": "keys"}})).await;
        assert_ne!(verified.1, other.1, "{id}: verified");
        let others = change(json!({"verify": {"secret_ref": "other-keys"}})).await;
        assert!(others.1 != verified.1 && others.1 != other.1, "{id}: by other keys");
        assert_eq!(change(json!({"verify": null})).await, other, "{id}: as before");
    }
}

/// The ConfigMap holds YAML within YAML: whatever the catalog holds, Helm must read the same.
#[tokio::test]
async fn values_arrive_unchanged_whatever_they_are() {
    let plain = [
        "", " ", "on", "1e3", "0x1f", "null", "~", "a: b", "- a", "#", "'", "\"", "\\", "{{ x }}", "<< x >>", "${X}",
        "a\nb\n\n", "\n", "  a\n b", "tab\t", "\u{a0}", "\u{2028}", "\u{feff}", "😀", "---\n", "a\r\nb", "é & < >",
    ];
    // What toYaml cannot write: it would give an empty text.
    let odd = ["\u{7f}", "\u{85}", "\u{9f}", "\u{fffe}", "\u{ffff}"];
    for texts in [plain.to_vec(), odd.to_vec(), [plain.to_vec(), odd.to_vec()].concat()] {
        let values = json!({
            "texts": texts,
            "keys": texts.iter().map(|text| ((*text).to_owned(), json!(1))).collect::<serde_json::Map<_, _>>(),
            "numbers": [0, -1, 9_007_199_254_740_991_i64, 1.5, 1e-7, 123_456_789.25],
            "others": [true, false, null, [], {}, [[]], {"a": {"b": {"c": []}}}],
        });
        let app = TestApp::start().await;
        cluster(&app, &["chart"], &json!({ "values": values }), &json!({}), &json!({})).await;
        let list = app
            .get("/clusters/c/manifests")
            .header("accept", "application/json")
            .await;
        let list = list.expect(200).json();
        let mut objects = list["items"].as_array().unwrap().iter();
        let map = objects.find(|object| object["kind"] == "ConfigMap").unwrap();
        let text = map["data"]["values.yaml"].as_str().unwrap();
        // Read as Go reads it, as a part of an object.
        let within = format!("kind: Values\nvalues:\n  {}\n", text.replace('\n', "\n  "));
        let read = resourceset::documents(within.as_bytes()).unwrap();
        assert_eq!(read[0]["values"], values, "{text}");
    }
}
