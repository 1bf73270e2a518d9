//! Anything may be sent. Never a 5xx, every refusal a problem, and whatever was accepted leaves replies that Flux takes.

use std::collections::BTreeSet;

use axum::http::{HeaderValue, Method};
use fleet::Fleet;
use fleet::kind::{KINDS, is_server_kind};
use flux_resourceset::app::App;
use flux_resourceset::app::reads::{Class, Turn};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::Config;
use serde_json::{Map, Value, json};

use crate::reads::assert_small;
use crate::support::{DEMO, DEMO_DNS, NETWORK_POLICY, Reply, Setup, TestApp};

/// One request, as it was made up.
#[derive(Clone, Debug)]
struct Shot {
    method: Method,
    path: String,
    headers: Vec<(&'static str, Vec<u8>)>,
    body: Vec<u8>,
}

const KIND_NAMES: [&str; 9] = [
    "clusters",
    "platform_components",
    "namespaces",
    "rolebindings",
    "network_policies",
    "kinds",
    "decommissions",
    "released_names",
    "nope",
];

/// Words that mean something somewhere, and some that never do.
const WORDS: [&str; 34] = [
    "podinfo",
    "traefik",
    "cert-manager",
    DEMO,
    DEMO_DNS,
    "platform-admins",
    "dev-readers",
    "a",
    "b",
    "c-1",
    "dev",
    "prod",
    "latest",
    "",
    " ",
    "*",
    "delete",
    "id",
    "x/y",
    "a~b",
    "..",
    "/",
    "null",
    "-",
    "A",
    "ä\u{1F600}",
    "\u{0}\n\"\\",
    "https://x",
    "oci://x",
    "string",
    "object",
    "array",
    "#/components/schemas/namespace_ref",
    "clusters",
];

const FIELDS: [&str; 36] = [
    "id",
    "_id",
    "kind",
    "cluster",
    "cluster_name",
    "cluster_dns",
    "environment",
    "labels",
    "annotations",
    "patches",
    "protected",
    "node_count",
    "platform_components",
    "namespaces",
    "rolebindings",
    "network_policies",
    "enabled",
    "oci_tag",
    "oci_url",
    "component_path",
    "depends_on",
    "role",
    "subjects",
    "name",
    "$patch",
    "podinfo",
    "replicaCount",
    "a",
    "",
    "x/y",
    "schema",
    "properties",
    "type",
    "items",
    "x-flux",
    "default",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![4 => select(&WORDS[..]).prop_map(str::to_owned), 1 => "\\PC{0,12}"]
}

fn field() -> impl Strategy<Value = String> {
    prop_oneof![6 => select(&FIELDS[..]).prop_map(str::to_owned), 1 => "\\PC{0,8}"]
}

fn object(value: impl Strategy<Value = Value>, most: usize) -> impl Strategy<Value = Value> {
    vec((field(), value), 0..most).prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>()))
}

fn anything() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => (0..5i64).prop_map(Value::from),
        1 => any::<f64>().prop_map(|number| json!(number)),
        4 => word().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![vec(inner.clone(), 0..4).prop_map(Value::from), object(inner, 4)]
    })
    .boxed()
}

fn references() -> impl Strategy<Value = Value> {
    let reference = (word(), proptest::option::of((field(), anything()))).prop_map(|(id, more)| {
        let mut reference = json!({ "id": id });
        if let Some((field, value)) = more {
            reference[field] = value;
        }
        reference
    });
    vec(reference, 0..4).prop_map(Value::from)
}

/// Ids that are often there: of the demo fleet, and of what is made up on the way.
fn known_id(kind: &str) -> impl Strategy<Value = String> + use<> {
    let ids: &[&str] = match kind {
        "clusters" => &[DEMO, DEMO, "a", "b"],
        "rolebindings" => &["dev-readers", "platform-admins", "a", "b"],
        "network_policies" => &["a", "b"],
        "kinds" => &["network_policies", "namespaces", "clusters"],
        "decommissions" | "released_names" => &[DEMO_DNS, "a.example.com"],
        _ => &["podinfo", "traefik", "cert-manager", "a", "b"],
    };
    select(ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>())
}

fn known_references(kind: &'static str) -> impl Strategy<Value = Value> {
    let ids = match kind {
        "network_policies" => vec!["a", "b"],
        _ => vec!["podinfo", "traefik", "cert-manager"],
    };
    proptest::sample::subsequence(ids, 0..2).prop_map(move |ids| {
        let references = ids.into_iter().map(|id| match kind {
            "platform_components" => json!({"id": id, "oci_tag": "2", "enabled": id != "traefik"}),
            _ => json!({ "id": id }),
        });
        references.collect()
    })
}

/// A document that can be taken, if what it refers to is there.
fn sane(kind: &'static str) -> BoxedStrategy<Value> {
    let id = select(vec!["a", "b"]);
    match kind {
        "clusters" => {
            let references = (known_references("platform_components"), known_references("namespaces"), known_references("network_policies"));
            let dns = select(vec!["a.example.com", "B.example.com", "c.example.com", DEMO_DNS]);
            (id, dns, select(vec!["dev", "prod"]), references)
                .prop_map(|(id, dns, environment, (components, namespaces, policies))| {
                    json!({
                        "id": id, "cluster_name": id, "cluster_dns": dns, "environment": environment, "rolebindings": [],
                        "platform_components": components, "namespaces": namespaces, "network_policies": policies,
                        "labels": {"team": environment}, "patches": {"podinfo": {"a": "b"}},
                    })
                })
                .boxed()
        }
        "platform_components" => (id, select(vec!["podinfo", "a", "b"]))
            .prop_map(|(id, on)| json!({"id": id, "component_path": "a", "oci_url": "https://x", "oci_tag": "1", "depends_on": [on]}))
            .boxed(),
        "rolebindings" => id.prop_map(|id| json!({"id": id, "role": "view", "subjects": [{"kind": "User", "name": "a"}]})).boxed(),
        "network_policies" => id.prop_map(|id| json!({"id": id, "target_namespace": "a", "ingress_rules": [{"port": 1}]})).boxed(),
        "kinds" => sane_kind().boxed(),
        _ => id.prop_map(|id| json!({"id": id, "labels": {"a": "b"}})).boxed(),
    }
}

/// The chapter's kind with this and that of what a kind can say.
fn sane_kind() -> impl Strategy<Value = Value> {
    let features = vec![
        ("references", json!("policies")),
        ("path", json!("policies")),
        ("path", json!("namespaces")),
        ("overridable", json!(["target_namespace"])),
        ("carried", json!({"on": {"type": "boolean", "default": true}})),
        ("nest", json!({"where": ["target_namespace"]})),
        ("patches", json!(true)),
        ("off", json!({"target_namespace": "a"})),
        ("command", json!("policy")),
        ("depends_on", json!("ingress_rules")),
    ];
    (
        proptest::sample::subsequence(features, 0..4),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(flux, open, more)| {
            let mut kind = fleet::yaml::parse(NETWORK_POLICY).unwrap();
            if open {
                kind["schema"]["additionalProperties"] = true.into();
            }
            if more {
                kind["schema"]["properties"]["more"] = json!({"type": "string", "default": "x"});
            }
            for (name, value) in flux {
                kind["schema"]["x-flux"][name] = value;
            }
            kind
        })
}

/// A document, sometimes with a field or two replaced.
fn document_of(kind: &'static str) -> impl Strategy<Value = Value> {
    let value = prop_oneof![anything(), references()];
    let changes = prop_oneof![2 => Just(Vec::new()), 1 => vec((field(), value), 1..3)];
    (sane(kind), changes).prop_map(|(mut document, changes)| {
        for (field, value) in changes {
            document[field] = value;
        }
        document
    })
}

fn document() -> impl Strategy<Value = Value> {
    select(&KIND_NAMES[..6]).prop_flat_map(document_of)
}

fn kind_document() -> impl Strategy<Value = Value> {
    let schema = prop_oneof![
        anything(),
        (object(anything(), 4), object(anything(), 4))
            .prop_map(|(properties, flux)| json!({"properties": properties, "x-flux": flux})),
        (
            field(),
            select(vec!["string", "integer", "array", "object"]),
            anything()
        )
            .prop_map(|(name, kind, default)| {
                json!({"type": "object", "properties": {name: {"type": kind, "default": default}}})
            }),
    ];
    let builtin = fleet::kind::built_in().to_vec();
    prop_oneof![
        (word(), schema).prop_map(|(kind, schema)| json!({"kind": kind, "schema": schema})),
        (select(builtin), select(&FIELDS[..]), anything()).prop_map(|(mut kind, field, schema)| {
            kind["schema"]["items"]["properties"][field] = schema;
            kind
        }),
    ]
}

fn json_patch() -> impl Strategy<Value = Value> {
    let path = vec(field(), 0..3)
        .prop_map(|parts| parts.iter().map(|part| format!("/{part}")).collect::<String>())
        .boxed();
    let one = (
        select(vec!["add", "remove", "replace", "move", "copy", "test", "x"]),
        path.clone(),
        path,
        anything(),
    );
    let one = one.prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}));
    vec(one, 0..4).prop_map(Value::from)
}

fn operation() -> impl Strategy<Value = Value> {
    const OPS: [&str; 9] = [
        "create", "replace", "apply", "merge", "delete", "assign", "unassign", "patch", "x",
    ];
    let value = prop_oneof![document(), anything(), kind_document(), object(references(), 3)];
    let extra = prop_oneof![
        Just(json!({})),
        word().prop_map(|word| json!({ "cluster": word })),
        Just(json!({"cluster": DEMO})),
        select(vec!["*", "", "environment=dev", "id in (a,b)", "nope", "!a", "a=b,"])
            .prop_map(|text| json!({ "selector": text })),
        Just(json!({"cluster": DEMO, "set": {"a": "b"}})),
        object(anything(), 2).prop_map(|set| json!({"cluster": DEMO, "set": set, "unset": ["a"]})),
        any::<bool>().prop_map(|cascade| json!({ "cascade": cascade })),
        Just(json!({"cluster": DEMO, "drop_patches": true})),
        object(anything(), 2),
    ];
    (
        select(&OPS[..]),
        select(&KIND_NAMES[..]),
        proptest::option::of(word()),
        proptest::option::of(value),
        extra,
    )
        .prop_map(|(op, kind, id, value, extra)| {
            let mut operation = json!({"op": op, "kind": kind});
            if let Some(id) = id {
                operation["id"] = id.into();
            }
            if let Some(value) = value {
                operation["value"] = value;
            }
            for (name, value) in extra.as_object().into_iter().flatten() {
                operation[name] = value.clone();
            }
            operation
        })
}

/// An operation that says what it should, and is refused only for what it does.
fn sane_operation() -> impl Strategy<Value = Value> {
    let on = || {
        prop_oneof![
            3 => known_id("clusters").prop_map(|id| json!({ "cluster": id })),
            1 => select(vec!["*", "environment=dev", "team=prod", "id!=a"]).prop_map(|text| json!({ "selector": text })),
        ]
    };
    let merged = |mut one: Value, other: Value| {
        for (name, value) in other.as_object().into_iter().flatten() {
            one[name] = value.clone();
        }
        one
    };
    let definitions = || select(vec!["platform_components", "namespaces", "network_policies"]);
    prop_oneof![
        4 => (select(vec!["create", "apply", "apply"]), select(&KIND_NAMES[..6])).prop_flat_map(|(op, kind)| {
            document_of(kind).prop_map(move |value| json!({"op": op, "kind": kind, "value": value}))
        }),
        1 => select(&KIND_NAMES[..6]).prop_flat_map(|kind| {
            (known_id(kind), sane(kind)).prop_map(move |(id, value)| json!({"op": "replace", "kind": kind, "id": id, "value": value}))
        }),
        2 => (select(&KIND_NAMES[..7]), any::<bool>()).prop_flat_map(|(kind, cascade)| {
            known_id(kind).prop_map(move |id| json!({"op": "delete", "kind": kind, "id": id, "cascade": cascade}))
        }),
        2 => (definitions(), on()).prop_flat_map(move |(kind, on)| {
            known_id(kind).prop_map(move |id| merged(json!({"op": "assign", "kind": kind, "id": id}), on.clone()))
        }),
        2 => (definitions(), on()).prop_flat_map(move |(kind, on)| {
            known_id(kind).prop_map(move |id| merged(json!({"op": "unassign", "kind": kind, "id": id}), on.clone()))
        }),
        1 => (known_id("platform_components"), on(), anything()).prop_map(move |(id, on, value)| {
            merged(json!({"op": "patch", "kind": "platform_components", "id": id, "set": {"a": value}, "unset": ["b"]}), on)
        }),
        1 => (known_id("clusters"), object(references(), 2)).prop_map(|(id, value)| {
            json!({"op": "merge", "kind": "clusters", "id": id, "value": value})
        }),
    ]
}

fn batch() -> impl Strategy<Value = Value> {
    prop_oneof![
        2 => vec(operation(), 1..4).prop_map(|operations| json!({ "operations": operations })),
        6 => vec(sane_operation(), 1..5).prop_map(|operations| json!({ "operations": operations })),
        1 => anything(),
    ]
}

fn segment() -> impl Strategy<Value = String> {
    let odd = select(vec![
        "%00",
        "%FF",
        "%2F",
        "..",
        ".",
        "%",
        "%zz",
        "a%20b",
        "%E4%BD%A0",
        "a,b",
        "a;b",
        "references",
    ]);
    prop_oneof![
        6 => word().prop_map(|word| word.bytes().map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        }).collect::<String>()),
        2 => select(&KIND_NAMES[..]).prop_map(str::to_owned),
        1 => odd.prop_map(str::to_owned),
    ]
}

fn query() -> impl Strategy<Value = String> {
    let pair = prop_oneof![
        select(vec![
            "",
            "dry_run=true",
            "cascade=true",
            "cascade=true&dry_run=true",
            "limit=1",
            "limit=0",
            "offset=1",
            "limit=99999999999999999999",
            "selector=*",
            "selector=environment=dev",
            "selector=",
            "environment=dev",
            "environment=x",
            "shard=0/2",
            "shard=9/2",
            "after=0",
            "after=18446744073709551615",
            "kind=clusters",
            "dry_run",
            "=",
            "%FF=%FF",
            "a=%",
            "cluster_dns=x",
        ])
        .prop_map(str::to_owned),
        (segment(), segment()).prop_map(|(name, value)| format!("{name}={value}")),
    ];
    vec(pair, 0..2).prop_map(|pairs| pairs.join("&"))
}

fn path() -> impl Strategy<Value = String> {
    let known = prop_oneof![
        segment().prop_map(|id| format!("/clusters/{id}")),
        Just(format!("/clusters/{DEMO}")),
        Just("/clusters".to_owned()),
        select(&KIND_NAMES[..]).prop_map(|kind| format!("/{kind}")),
        (select(&KIND_NAMES[..]), segment()).prop_map(|(kind, id)| format!("/{kind}/{id}")),
        (select(&KIND_NAMES[..]), segment(), segment()).prop_map(|(kind, id, view)| format!("/{kind}/{id}/{view}")),
        (segment(), segment()).prop_map(|(dns, path)| format!("/api/v2/flux/clusters/{dns}/{path}")),
        select(vec![
            "/api/v2/flux/clusters",
            "/batch",
            "/changes",
            "/revisions",
            "/kinds",
            "/health",
            "/ready",
            "/openapi.yaml",
            "/metrics"
        ])
        .prop_map(str::to_owned),
        vec(segment(), 0..6).prop_map(|parts| format!("/{}", parts.join("/"))),
    ];
    (known, query()).prop_map(|(path, query)| match query.is_empty() {
        true => path,
        false => format!("{path}?{query}"),
    })
}

fn headers() -> impl Strategy<Value = Vec<(&'static str, Vec<u8>)>> {
    let names = vec![
        "if-match",
        "if-none-match",
        "accept-encoding",
        "accept",
        "x-change-reason",
        "x-request-id",
        "content-type",
        "user-agent",
    ];
    let value = prop_oneof![
        select(vec![
            "*",
            "\"x\"",
            "W/\"x\"",
            "gzip",
            "gzip;q=0",
            "application/json",
            "application/yaml",
            "application/merge-patch+json",
            "application/json-patch+json",
            "text/plain",
            "flux-operator/v1",
            "",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        vec(prop_oneof![0x20..0x7fu8, 0x80..=0xffu8], 0..8),
    ];
    vec((select(names), value), 0..3)
}

fn methods() -> impl Strategy<Value = Method> {
    let methods = vec![
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ];
    select(methods)
}

fn shot() -> impl Strategy<Value = Shot> {
    let text = |value: Value| value.to_string().into_bytes();
    let bodies = prop_oneof![
        document().prop_map(text),
        anything().prop_map(text),
        batch().prop_map(text),
        kind_document().prop_map(text),
        json_patch().prop_map(text),
        vec(any::<u8>(), 0..20),
    ];
    let wild = (methods(), path(), headers(), bodies).prop_map(|(method, path, headers, body)| Shot {
        method,
        path,
        headers,
        body,
    });
    // Aimed at what can be changed, so that much of it is accepted.
    let aimed = |method: Method, path: &str, body: BoxedStrategy<Value>, kind: &'static str| {
        let path = path.to_owned();
        body.prop_map(move |body| Shot {
            method: method.clone(),
            path: path.clone(),
            headers: vec![("content-type", kind.as_bytes().to_vec())],
            body: body.to_string().into_bytes(),
        })
    };
    let json = "application/json";
    let demo = format!("/clusters/{DEMO}");
    let replaced = sane("clusters").prop_map(|mut cluster| {
        cluster["id"] = DEMO.into();
        cluster
    });
    let fields = prop_oneof![object(anything(), 3), object(references(), 3)].boxed();
    let creations = select(&KIND_NAMES[..5]).prop_flat_map(|kind| {
        document_of(kind).prop_map(move |body| Shot {
            method: Method::POST,
            path: format!("/{kind}"),
            headers: vec![],
            body: body.to_string().into_bytes(),
        })
    });
    let kinds = prop_oneof![kind_document(), document_of("kinds")].prop_map(|kind| Shot {
        method: Method::PUT,
        path: format!("/kinds/{}", fleet::kind::name_of(&kind).unwrap_or_else(|_| "x".into())),
        headers: vec![],
        body: kind.to_string().into_bytes(),
    });
    prop_oneof![
        3 => wild,
        4 => aimed(Method::POST, "/batch", batch().boxed(), json),
        2 => aimed(Method::PATCH, &demo, fields.clone(), json),
        1 => aimed(Method::PATCH, &demo, fields, "application/merge-patch+json"),
        1 => aimed(Method::PATCH, &demo, json_patch().boxed(), "application/json-patch+json"),
        1 => aimed(Method::PUT, &demo, replaced.boxed(), json),
        3 => creations,
        1 => kinds,
    ]
}

fn judge(shot: &Shot, reply: &Reply) {
    assert!(reply.status < 500, "{shot:?} gave {} {}", reply.status, reply.text());
    if reply.status >= 400 {
        assert_eq!(reply.header("content-type"), "application/problem+json", "{shot:?}");
        if shot.method != Method::HEAD {
            let problem = reply.json();
            assert_eq!(problem["status"], reply.status, "{shot:?}");
            for name in ["type", "title", "detail"] {
                assert!(problem[name].is_string(), "{shot:?} gave {problem}");
            }
            assert_small(reply);
        }
    }
}

/// Every poll of every cluster is something that Flux takes, and says who the cluster is.
async fn holds_the_contract(app: &TestApp) {
    let fleet = app.app.fleet();
    for cluster in fleet.clusters().values() {
        let head = cluster.head();
        for kind in fleet.kinds().definitions() {
            let path = kind.path.as_deref().unwrap();
            let reply = app.poll(&head.dns, path).await;
            let what = format!("{} {}", reply.what, reply.text());
            assert_eq!(reply.status, 200, "{what}");
            assert!(reply.body.len() <= 900 * 1024, "{what}");
            let inputs = reply.json()["inputs"].as_array().expect(&what).clone();
            assert!(inputs.len() <= 10_000);
            let mut seen = BTreeSet::new();
            for input in &inputs {
                let id = input["id"].as_str().expect(&what);
                assert!(seen.insert(id), "{id} twice: {what}");
                let block = json!({"name": &*head.name, "dns": &*head.dns, "environment": &*head.environment});
                assert_eq!(input["cluster"], block, "{what}");
            }
        }
    }
    for dns in fleet.decommissions().keys() {
        assert!(
            fleet.cluster_at(dns).is_none(),
            "{dns} is decommissioned and a cluster's"
        );
        assert_eq!(app.poll(dns, "namespaces").await.expect(200).text(), r#"{"inputs":[]}"#);
    }
    for dns in fleet.released_names().keys() {
        app.poll(dns, "namespaces").await.problem(404, "not-found");
    }
}

/// What a process that starts now would serve is what this one serves.
async fn is_what_the_store_holds(app: &TestApp) {
    let served = app.app.fleet();
    let state = app.store.load().await.unwrap();
    assert_eq!(state.head, served.head());
    let stored: BTreeSet<_> = state
        .resources
        .iter()
        .map(|one| (one.kind.clone(), one.id.clone()))
        .collect();
    for (kind, id) in &stored {
        let body = state
            .resources
            .iter()
            .find(|one| one.kind == *kind && one.id == *id)
            .map(|one| &one.body);
        assert_eq!(
            served.document(kind, id).as_ref().map(|document| &document.body),
            body,
            "{kind}/{id}"
        );
    }
    let definitions = served
        .kinds()
        .definitions()
        .map(|kind| served.definitions(&kind.name).unwrap().len());
    let count = definitions.sum::<usize>()
        + served.clusters().len()
        + served.decommissions().len()
        + served.released_names().len()
        + served.profiles().len()
        + served.guards().iter().count()
        + served.rollouts().iter().count()
        // The kinds of the server are not stored.
        + served.kinds().iter().filter(|kind| !is_server_kind(&kind.name)).count();
    assert_eq!(stored.len(), count);
    assert!(stored.iter().any(|(kind, _)| &**kind == KINDS));
    Fleet::load(state).unwrap();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// Few enough for every run of the tests; `PROPTEST_CASES` asks for more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(80)
}

proptest! {
    #![proptest_config(Config { cases: cases(), failure_persistence: None, ..Config::default() })]

    #[test]
    fn whatever_is_sent_never_breaks_the_server_or_the_contract(shots in vec(shot(), 1..24)) {
        runtime().block_on(async {
            let app = Setup::default().start().await;
            app.put_kind("network_policies", NETWORK_POLICY).await.expect(201);
            for shot in &shots {
                if shot.path.parse::<axum::http::Uri>().is_err() {
                    continue;
                }
                let mut call = app.call(shot.method.clone(), &shot.path).token(crate::support::WRITE);
                call = call.content("application/json", shot.body.clone());
                for (name, value) in &shot.headers {
                    if let Ok(value) = HeaderValue::from_bytes(value) {
                        call = call.raw_header(*name, value);
                    }
                }
                judge(shot, &call.await);
            }
            holds_the_contract(&app).await;
            is_what_the_store_holds(&app).await;
        });
    }
}

#[tokio::test]
async fn hostile_bodies_are_refused_quickly() {
    let app = TestApp::start().await;
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for n in 1..12 {
        bomb.push_str(&format!(
            "a{n}: &a{n} [{}]\n",
            vec![format!("*a{}", n - 1); 9].join(", ")
        ));
    }
    let deep = |open: &str, close: &str, depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    let mut copies = vec![json!({"op": "add", "path": "/labels", "value": {"a": "x".repeat(1000)}})];
    copies.extend((0..60).map(|n| json!({"op": "copy", "from": "", "path": format!("/labels/b{n}")})));
    let bodies = [
        ("application/json", deep("[", "]", 100_000)),
        ("application/json", deep("{\"a\":", "}", 100_000)),
        ("application/json", "\"\\ud800\"".into()),
        ("application/json", "{\"id\":1e999}".into()),
        ("application/json", format!("{{\"id\":{}}}", "9".repeat(10_000))),
        ("application/json", "{\"id\":\"a\",\"id\":\"UPPER\"}".into()),
        ("application/yaml", deep("[", "]", 100_000)),
        ("application/yaml", bomb),
        ("application/yaml", "id: !!binary gA==\nlabels: {a: .nan}\n".into()),
        ("application/yaml", "id: &a [*a]\n".into()),
        ("application/yaml", "a: 1\n---\nb: 2\n".into()),
        ("application/json-patch+json", json!(copies).to_string()),
    ];
    for (kind, body) in bodies {
        for (method, path) in [
            (Method::POST, "/namespaces"),
            (Method::PATCH, "/namespaces/podinfo"),
            (Method::PUT, "/kinds/things"),
            (Method::POST, "/batch"),
        ] {
            let reply = app.call(method, path).content(kind, body.clone()).await;
            assert!(
                (400..500).contains(&reply.status),
                "{} of {kind} gave {}: {:.200}",
                reply.what,
                reply.status,
                body
            );
            assert_eq!(reply.header("content-type"), "application/problem+json");
            assert!(reply.body.len() < 10_000, "{} bytes of problem", reply.body.len());
        }
    }
    assert_eq!(app.revision(), 1);
}

#[tokio::test]
async fn schemas_that_refer_elsewhere_or_to_themselves_are_refused() {
    let app = TestApp::start().await;
    let put = async |property: &Value| {
        let kind = json!({"kind": "thing", "schema": {"properties": {"a": property}}});
        app.put("/kinds/things", &kind).await
    };
    for elsewhere in [
        "https://example.com/schema.json",
        "file:///etc/passwd",
        "#/nowhere",
        "#/components/schemas/nope_ref",
    ] {
        put(&json!({"oneOf": [{"$ref": elsewhere}]}))
            .await
            .problem(422, "invalid");
        put(&json!({"$ref": elsewhere})).await.problem(422, "invalid");
    }
    for property in [
        json!({"anyOf": [{"$ref": "#"}]}),
        json!({"allOf": [{"$ref": "#/allOf/0/properties/a"}]}),
        json!({"not": {"$ref": "#/allOf/0/properties/a"}}),
        json!({"$dynamicRef": "#"}),
        json!({"if": {"$ref": "#"}}),
    ] {
        put(&property).await.problem(422, "invalid");
    }
}

#[tokio::test]
async fn a_kind_that_would_take_all_memory_is_refused() {
    let app = TestApp::start().await;
    let property = |n: usize| {
        (
            format!("p{n}"),
            json!({"pattern": format!(r"(\w{{50}}\W{{9}}){{9}}N{n}")}),
        )
    };
    let properties: Value = (0..2000).map(property).collect();
    let kind = json!({"kind": "thing", "schema": {"properties": properties}});
    let problem = app.put("/kinds/things", &kind).await.problem(422, "invalid");
    let pointer = problem["errors"][0]["pointer"].as_str().unwrap();
    assert!(
        pointer.starts_with("/schema/properties/p") && pointer.ends_with("/pattern"),
        "{pointer}"
    );
}

#[tokio::test]
async fn a_client_that_disconnects_keeps_its_place_until_the_work_is_done() {
    let app = TestApp::start().await.app.clone();
    let (begun, begins) = std::sync::mpsc::channel();
    let (go_on, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Arc::new(std::sync::Mutex::new(held));
    // As many as there are places, and all their callers go.
    for _ in 0..4 {
        let (app, begun, held) = (app.clone(), begun.clone(), held.clone());
        let read = tokio::spawn(async move {
            let work = move |_: &App, _: &Turn| {
                begun.send(()).unwrap();
                let _end = held.lock().unwrap().recv();
            };
            app.read(Class::Reader, work).await
        });
        while begins.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        read.abort();
        assert!(read.await.unwrap_err().is_cancelled());
    }
    let next = app.read(Class::Reader, |_, _| ());
    let waits = tokio::time::timeout(std::time::Duration::from_millis(100), next).await;
    assert!(waits.is_err(), "their work goes on, and so would more and more");
    go_on.send(()).unwrap();
    assert!(app.read(Class::Reader, |_, _| ()).await.is_ok());
    drop(go_on);
}
