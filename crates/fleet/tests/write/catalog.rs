//! The optional fields of components: what is refused, what counts as a removal, what is reported.

use fleet::refusal::Reason::{Invalid, RemovalBudget};
use serde_json::{Value, json};

use crate::common::{accept, refuse, write};
use crate::removals::{change, ids, plan, refused};
use crate::{cluster, component, create, merge, small};

fn manifests(fields: Value) -> Value {
    component("x", crate::with(json!({"oci_url": "oci://r.example.com/mono"}), fields))
}

fn chart(fields: Value) -> Value {
    manifests(crate::with(json!({"oci_artifact": "chart"}), fields))
}

#[test]
fn fields_that_flux_would_refuse_or_not_look_at_are_refused_and_the_reason_is_given() {
    let oci_only = |what: &str| format!("{what} in OCI registries only, and oci_url does not begin with oci://");
    let logs_in =
        "\"aws\" is not allowed: a provider logs in to OCI registries only, and oci_url does not begin with oci://";
    let variable = "the values of manifests are variables, whose names have only letters, digits and _";
    for (value, pointer, detail) in [
        (
            component("x", json!({"provider": "aws"})),
            "/provider",
            logs_in.to_owned(),
        ),
        (
            component("x", json!({"verify": {"secret_ref": "keys"}})),
            "/verify",
            oci_only("Flux verifies signatures"),
        ),
        (
            chart(json!({"provider": "generic"})),
            "/provider",
            "\"generic\" is not one of \"aws\", \"azure\", \"gcp\"".into(),
        ),
        (chart(json!({"verify": {}})), "/verify/secret_ref", "is required".into()),
        (
            chart(json!({"verify": {"secret_ref": "k", "match_oidc_identity": [{"issuer": "i", "subject": "s"}]}})),
            "/verify/match_oidc_identity",
            "Flux checks the keys of secret_ref, and no signers: leave out one of the two".into(),
        ),
        (
            chart(json!({"verify": {"match_oidc_identity": []}})),
            "/verify/match_oidc_identity",
            "".into(),
        ),
        (
            chart(json!({"verify": {"provider": "notation", "secret_ref": "k"}})),
            "/verify/provider",
            "\"cosign\"".into(),
        ),
        (
            chart(json!({"crds": "Replace"})),
            "/crds",
            "\"Create\", \"CreateReplace\", \"Skip\"".into(),
        ),
        (chart(json!({"timeout": "5"})), "/timeout", "".into()),
        (chart(json!({"timeout": "0s"})), "/timeout", "".into()),
        // Flux reads durations as 64-bit nanoseconds; one object beyond that stops a controller from reading any.
        (chart(json!({"timeout": "9999999h"})), "/timeout", "".into()),
        (chart(json!({"namespace": "Upper"})), "/namespace", "".into()),
        (chart(json!({"secret_ref": "a/b"})), "/secret_ref", "".into()),
        (chart(json!({"service_account": ""})), "/service_account", "".into()),
        (chart(json!({"values": []})), "/values", "".into()),
        (
            manifests(json!({"values": {"a.b": "c"}})),
            "/values",
            format!("the name \"a.b\" is not allowed: {variable}"),
        ),
        (manifests(json!({"values": {"A": {"b": 1}}})), "/values/A", "".into()),
        (
            manifests(json!({"values": {"A": "two\nlines"}})),
            "/values/A",
            "kustomize-controller drops the line ends of variables".into(),
        ),
    ] {
        let refusal = write(&small(), json!([create("platform_components", value.clone())])).unwrap_err();
        assert_eq!(refusal.reason, Invalid, "{value}");
        let found: Vec<_> = refusal.errors.iter().collect();
        assert!(
            found.len() == 1
                && found[0].pointer == format!("/operations/0/value{pointer}")
                && found[0].detail.contains(&detail),
            "{value}: {found:?}"
        );
    }
    for value in [
        manifests(
            json!({"provider": "aws", "values": {"A": "b", "_c": 1, "d9": true}, "timeout": "1h30m", "crds": "Skip"}),
        ),
        chart(json!({"values": {"a.b": {"c": ["two\nlines"]}}, "verify": {"secret_ref": "keys.v2"}, "timeout": "90s"})),
        component(
            "x",
            json!({"values": {"a": null}, "secret_ref": "s", "cert_secret_ref": "c", "timeout": "1.5h"}),
        ),
    ] {
        accept(&small(), json!([create("platform_components", value)]));
    }
}

#[test]
fn a_source_that_ceases_to_be_oci_must_give_up_the_fields_of_registries() {
    let fleet = accept(
        &small(),
        json!([create("platform_components", chart(json!({"provider": "aws"})))]),
    );
    let https = json!({"oci_url": "https://charts.example.com"});
    let ops = json!([merge("platform_components", "x", https)]);
    refuse(&fleet, ops, Invalid, &["/operations/0/value/provider"]);
}

#[test]
fn overrides_are_checked_by_the_fields_own_rules() {
    let assign = |reference: Value| json!([merge("clusters", "three", json!({"platform_components": [reference]}))]);
    for (field, value) in [
        ("namespace", json!("Upper")),
        ("provider", json!("generic")),
        ("timeout", json!(5)),
        ("verify", json!({})),
        ("values", json!({"a": 1})),
    ] {
        let refusal = write(&small(), assign(json!({"id": "a", field: value}))).unwrap_err();
        assert_eq!(refusal.reason, Invalid, "{field}");
    }
    // The source decides, and it is not the reference's: reported, not refused.
    let odd = json!({"id": "a", "provider": "aws", "verify": {"secret_ref": "k"}, "crds": "Skip"});
    let fleet = accept(&small(), assign(odd));
    let told = fleet.diagnose(fleet.cluster("three").unwrap());
    let told: Vec<_> = told.iter().map(|one| (one.code, one.detail.as_str())).collect();
    assert_eq!(
        told,
        [
            ("ignored", "provider = \"aws\" has no effect: it becomes a HelmRelease"),
            (
                "ignored",
                "verify = {\"provider\":\"cosign\",\"secret_ref\":\"k\"} has no effect: it becomes a HelmRelease"
            ),
        ]
    );
    let fleet = accept(
        &small(),
        json!([create("platform_components", manifests(json!({"crds": "Skip"})))]),
    );
    let fleet = accept(&fleet, assign(json!({"id": "x"})));
    let told = fleet.diagnose(fleet.cluster("three").unwrap());
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        told[0].detail,
        "crds = \"Skip\" has no effect: it becomes a Kustomization"
    );
}

/// Flux uninstalls a release from the old namespace, and prunes a Kustomization's objects there.
#[test]
fn another_namespace_is_a_removal() {
    let moved = |namespace: Value| json!([merge("platform_components", "a", json!({ "namespace": namespace }))]);
    let fleet = small();
    assert_eq!(
        refused(&fleet, moved(json!("elsewhere"))),
        (RemovalBudget, ids(&["one", "two"]))
    );
    let losing = plan(&fleet, moved(json!("elsewhere"))).clusters;
    assert!(losing.iter().all(|cluster| cluster.loses()), "{losing:?}");
    // The id is where it goes without a namespace.
    let fleet = change(&fleet, moved(json!("a")), None).unwrap().0;
    let fleet = change(&fleet, moved(json!("elsewhere")), Some(2)).unwrap().0;
    assert_eq!(
        refused(&fleet, moved(json!(null))),
        (RemovalBudget, ids(&["one", "two"]))
    );
    // A cluster that overrides it stays where it is.
    let here = json!({"platform_components": [{"id": "a", "namespace": "here"}]});
    let ops = json!([merge("clusters", "two", here)]);
    assert_eq!(refused(&fleet, ops.clone()), (RemovalBudget, ids(&["two"])));
    let fleet = change(&fleet, ops, Some(1)).unwrap().0;
    assert_eq!(refused(&fleet, moved(json!("else"))), (RemovalBudget, ids(&["one"])));

    // A DNS name that is given up and taken again.
    let rename = merge("clusters", "two", json!({"cluster_dns": "new.example.com"}));
    let fleet = accept(&fleet, json!([rename]));
    let taken = |reference: Value| {
        let fields = json!({"cluster_dns": "two.example.com", "platform_components": [reference]});
        json!([create("clusters", cluster("four", fields))])
    };
    change(&fleet, taken(json!({"id": "a", "namespace": "here"})), None).unwrap();
    assert_eq!(
        refused(&fleet, taken(json!({"id": "a"}))),
        (RemovalBudget, ids(&["four"]))
    );

    // Manifests have the namespaces of their files without one.
    let fleet = accept(
        &fleet,
        json!([
            create("platform_components", manifests(json!({}))),
            merge("clusters", "three", json!({"platform_components": [{"id": "x"}]})),
        ]),
    );
    let ops = json!([merge("platform_components", "x", json!({"namespace": "x"}))]);
    assert_eq!(refused(&fleet, ops), (RemovalBudget, ids(&["three"])));
    let ops = json!([merge(
        "platform_components",
        "x",
        json!({"timeout": "1m", "secret_ref": "s"})
    )]);
    change(&fleet, ops, None).unwrap();
}
