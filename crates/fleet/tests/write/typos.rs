//! Common mistakes in documents: what the refusal says about them.

use fleet::refusal::Refusal;
use fleet::selector::Selector;
use serde_json::json;

use super::*;
use crate::common::{demo, write};

fn refused(operation: serde_json::Value) -> Refusal {
    write(&demo(), json!([operation])).expect_err("a mistake is refused")
}

/// The details of a refusal, by place.
fn details(operation: serde_json::Value) -> Vec<(String, String)> {
    let errors = refused(operation).errors.into_iter();
    errors.map(|error| (error.pointer, error.detail)).collect()
}

#[test]
fn the_name_that_was_meant_is_proposed() {
    for (operation, place, expected) in [
        (
            merge("clusters", "demo-cluster-01", json!({"environment": "prd"})),
            "/operations/0/value/environment",
            "\"prd\" is not one of \"dev\", \"qa\", \"uat\", \"prod\"; did you mean \"prod\"?",
        ),
        (
            merge("clusters", "demo-cluster-01", json!({"lables": {}})),
            "/operations/0/value/lables",
            "is not a property of this kind; did you mean \"labels\"?",
        ),
        (
            merge("clusters", "demo-cluster-01", json!({"nothing_alike": {}})),
            "/operations/0/value/nothing_alike",
            "is not a property of this kind",
        ),
        (
            merge(
                "clusters",
                "demo-cluster-01",
                json!({"platform_components": [{"id": "podinfo", "oci_tga": "1"}]}),
            ),
            "/operations/0/value/platform_components/0/oci_tga",
            "is not a property of this kind; did you mean \"oci_tag\"?",
        ),
        (
            merge(
                "clusters",
                "demo-cluster-01",
                json!({"namespaces": [{"id": "podinof"}]}),
            ),
            "/operations/0/value/namespaces/0/id",
            "there is no namespace \"podinof\"; did you mean \"podinfo\"?",
        ),
        (
            merge("platform_components", "podinfo", json!({"depends_on": ["treafik"]})),
            "/operations/0/value/depends_on/0",
            "there is no platform_component \"treafik\"; did you mean \"traefik\"?",
        ),
    ] {
        assert_eq!(
            details(operation.clone()),
            [(place.to_owned(), expected.to_owned())],
            "{operation}"
        );
    }
}

#[test]
fn a_key_or_value_of_a_selector_is_proposed() {
    for (selector, expected) in [
        (
            "enviroment=dev",
            "\"enviroment\" is neither a field of clusters nor a label of any cluster; did you mean \"environment\"?",
        ),
        (
            "environment=prd",
            "\"prd\" is not a valid value of environment; did you mean \"prod\"?",
        ),
        (
            "zone=a",
            "\"zone\" is neither a field of clusters nor a label of any cluster",
        ),
    ] {
        let error = Selector::for_fleet(selector, &demo()).unwrap_err();
        assert_eq!(error.to_string(), expected, "{selector}");
    }
    let labelled = json!([merge(
        "clusters",
        "demo-cluster-01",
        json!({"labels": {"region": "eu"}})
    )]);
    let error = Selector::for_fleet("regoin", &accept(&demo(), labelled)).unwrap_err();
    assert!(error.to_string().ends_with("did you mean \"region\"?"), "{error}");
}

#[test]
fn values_without_quotes_and_with_spaces_are_explained() {
    for (tag, expected) in [
        (
            json!(1.1),
            "1.1 is a number, and a string is expected; in YAML, put the value in quotes: without quotes, 1.10 is the number 1.1",
        ),
        (
            json!(7),
            "7 is a number, and a string is expected; in YAML, put the value in quotes",
        ),
        (
            json!(true),
            "true is a boolean, and a string is expected; in YAML, put the value in quotes",
        ),
        (json!("1.10 "), "\"1.10 \" ends with a space, which is not allowed"),
        (json!(" 1.10"), "\" 1.10\" begins with a space, which is not allowed"),
        (json!(["1.10"]), "[\"1.10\"] is not of type \"string\""),
    ] {
        let found = details(merge("platform_components", "podinfo", json!({"oci_tag": tag})));
        assert_eq!(
            found.first().map(|(_, detail)| detail.as_str()),
            Some(expected),
            "{tag}"
        );
    }
    let count = details(merge("clusters", "demo-cluster-01", json!({"node_count": "3"})));
    assert_eq!(count[0].1, "\"3\" is not of type \"integer\"");
}
