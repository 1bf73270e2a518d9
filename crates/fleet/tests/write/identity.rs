//! Ids, DNS names, versions.

use fleet::refusal::Reason::{Exists, Invalid, NotFound, Stale};
use serde_json::json;

use super::*;
use crate::common::{document, ids, poll, refuse, write};

#[test]
fn the_id_of_a_cluster_defaults_to_its_name() {
    let value = json!({"cluster_name": "x", "cluster_dns": "x.example.com", "environment": "dev"});
    for op in [create("clusters", value.clone()), apply("clusters", value)] {
        assert_eq!(document(&accept(&empty(), json!([op])), "clusters", "x")["id"], "x");
    }
}

#[test]
fn an_underscored_id_is_read_as_the_id() {
    let fleet = accept(&empty(), json!([create("namespaces", json!({"_id": "x"}))]));
    assert_eq!(
        document(&fleet, "namespaces", "x"),
        json!({"id": "x", "labels": {}, "annotations": {}})
    );
    let fleet = accept(
        &fleet,
        json!([apply(
            "namespaces",
            json!({"_id": "x", "id": "x", "labels": {"a": "b"}})
        )]),
    );
    assert_eq!(document(&fleet, "namespaces", "x")["labels"], json!({"a": "b"}));
    let differ = json!([create("namespaces", json!({"_id": "x", "id": "y"}))]);
    refuse(&fleet, differ, Invalid, &["/operations/0/value/_id"]);
}

#[test]
fn other_kinds_have_no_default_id() {
    refuse(
        &empty(),
        json!([create("namespaces", json!({}))]),
        Invalid,
        &["/operations/0/value/id"],
    );
    let given = json!([{"op": "create", "kind": "namespaces", "id": "x", "value": {}}]);
    assert_eq!(document(&accept(&empty(), given), "namespaces", "x")["id"], "x");
}

#[test]
fn an_id_never_changes() {
    for value in [json!({"id": "y"}), json!({"id": null}), json!({"_id": "y"})] {
        let refusal = write(&small(), json!([merge("namespaces", "a", value)])).unwrap_err();
        assert_eq!(refusal.reason, Invalid);
    }
    refuse(
        &small(),
        json!([replace("namespaces", "a", json!({"id": "y"}))]),
        Invalid,
        &["/operations/0/value/id"],
    );
    let other = json!([{"op": "create", "kind": "namespaces", "id": "x", "value": {"id": "y"}}]);
    refuse(&small(), other, Invalid, &["/operations/0/value/id"]);
}

#[test]
fn a_put_without_an_id_means_the_one_it_is_put_to() {
    let value = json!({"cluster_name": "another", "cluster_dns": "three.example.com", "environment": "qa"});
    let fleet = accept(&small(), json!([replace("clusters", "three", value)]));
    assert_eq!(document(&fleet, "clusters", "three")["cluster_name"], "another");
}

#[test]
fn what_is_not_there_is_not_found() {
    for op in [
        replace("namespaces", "x", json!({})),
        merge("namespaces", "x", json!({})),
        delete("namespaces", "x"),
    ] {
        refuse(&small(), json!([op]), NotFound, &["/operations/0/id"]);
    }
    refuse(
        &small(),
        json!([create("nothings", json!({"id": "x"}))]),
        NotFound,
        &["/operations/0/kind"],
    );
    refuse(
        &small(),
        json!([delete("kinds", "nothings")]),
        NotFound,
        &["/operations/0/id"],
    );
}

#[test]
fn what_is_there_is_not_created_again() {
    refuse(
        &small(),
        json!([create("namespaces", json!({"id": "a"}))]),
        Exists,
        &["/operations/0/id"],
    );
    refuse(
        &small(),
        json!([create("kinds", kind("namespace", json!({}), json!({})))]),
        Exists,
        &["/operations/0/id"],
    );
    accept(
        &small(),
        json!([
            apply("namespaces", json!({"id": "a"})),
            apply("namespaces", json!({"id": "x"}))
        ]),
    );
}

#[test]
fn a_dns_name_is_unique_without_regard_to_case() {
    let taken = cluster("four", json!({"cluster_dns": "ONE.example.COM"}));
    let refusal = refuse(
        &small(),
        json!([create("clusters", taken)]),
        Exists,
        &["/operations/0/value/cluster_dns"],
    );
    assert_eq!(refusal.clusters, ["one"]);
    let taken = json!([merge("clusters", "two", json!({"cluster_dns": "One.example.com"}))]);
    refuse(&small(), taken, Exists, &["/operations/0/value/cluster_dns"]);
    let twice = json!([
        create("clusters", cluster("x", json!({}))),
        create("clusters", cluster("y", json!({"cluster_dns": "X.example.com"})))
    ]);
    refuse(&small(), twice, Exists, &["/operations/1/value/cluster_dns"]);
}

#[test]
fn a_dns_name_that_is_taken_is_refused_whatever_else_the_batch_does() {
    let kind = create("kinds", kind("thing", json!({}), json!({})));
    for taker in ["aaa", "zzz"] {
        let taken = create("clusters", cluster(taker, json!({"cluster_dns": "one.example.com"})));
        refuse(
            &small(),
            json!([taken, kind]),
            Exists,
            &["/operations/0/value/cluster_dns"],
        );
    }
}

#[test]
fn a_cluster_may_change_the_case_of_its_dns_name() {
    let fleet = accept(
        &small(),
        json!([merge("clusters", "one", json!({"cluster_dns": "ONE.example.com"}))]),
    );
    assert_eq!(
        poll(&fleet, "one.example.com", "namespaces")["inputs"][0]["cluster"]["dns"],
        "ONE.example.com"
    );
}

#[test]
fn a_dns_name_that_was_given_up_by_renaming_is_unknown() {
    let fleet = accept(
        &small(),
        json!([merge("clusters", "one", json!({"cluster_dns": "new.example.com"}))]),
    );
    assert_eq!(poll(&fleet, "one.example.com", "namespaces"), "unknown cluster");
    assert_eq!(ids(&fleet, "new.example.com", "namespaces"), ["a", "b"]);
}

#[test]
fn two_clusters_may_swap_their_dns_names_in_one_batch() {
    let swap = json!([
        merge("clusters", "one", json!({"cluster_dns": "two.example.com"})),
        merge("clusters", "two", json!({"cluster_dns": "one.example.com"})),
    ]);
    let (fleet, changes) = write(&small(), swap).unwrap();
    assert_eq!(ids(&fleet, "one.example.com", "platform-components"), ["a"]);
    assert_eq!(ids(&fleet, "two.example.com", "platform-components"), ["a", "b"]);
    assert_eq!(changes.len(), 2);
}

#[test]
fn a_dns_name_may_pass_on_in_one_batch_in_either_order() {
    let give = merge("clusters", "one", json!({"cluster_dns": "new.example.com"}));
    let take = create(
        "clusters",
        cluster(
            "four",
            json!({"cluster_dns": "one.example.com", "namespaces": [{"id": "b"}]}),
        ),
    );
    for ops in [json!([give, take]), json!([take, give])] {
        let fleet = accept(&small(), ops);
        assert_eq!(ids(&fleet, "one.example.com", "namespaces"), ["b"]);
        assert_eq!(ids(&fleet, "new.example.com", "namespaces"), ["a", "b"]);
    }
}

#[test]
fn a_change_names_the_dns_name_that_the_store_keeps_unique() {
    let (_, changes) = write(
        &small(),
        json!([create(
            "clusters",
            cluster("four", json!({"cluster_dns": "Four.Example.com"}))
        )]),
    )
    .unwrap();
    assert_eq!(changes[0].unique.as_deref(), Some("four.example.com"));
    let (_, changes) = write(
        &small(),
        json!([merge("namespaces", "a", json!({"labels": {"x": "y"}}))]),
    )
    .unwrap();
    assert_eq!(changes[0].unique, None);
}

#[test]
fn a_stale_version_is_refused() {
    let etag = |fleet: &Fleet| fleet.document("namespaces", "a").unwrap().etag.to_string();
    let old = etag(&small());
    let change = |etag: &str| {
        with(
            merge("namespaces", "a", json!({"labels": {"x": "y"}})),
            json!({"if_match": etag}),
        )
    };
    let fleet = accept(&small(), json!([change(&old)]));
    assert_ne!(etag(&fleet), old);
    for stale in [&*old, "\"something else\"", "", "W/\"1\""] {
        for op in [
            change(stale),
            with(replace("namespaces", "a", json!({})), json!({"if_match": stale})),
            with(apply("namespaces", json!({"id": "a"})), json!({"if_match": stale})),
            with(delete("namespaces", "a"), json!({"if_match": stale})),
            with(delete("kinds", "namespaces"), json!({"if_match": stale})),
            with(
                apply("kinds", kind("namespace", json!({}), json!({}))),
                json!({"if_match": stale}),
            ),
            json!({"op": "assign", "kind": "namespaces", "id": "a", "cluster": "three", "if_match": stale}),
        ] {
            refuse(&fleet, json!([op]), Stale, &["/operations/0/if_match"]);
        }
    }
    for fresh in [etag(&fleet), "*".to_owned(), format!("{old}, {}", etag(&fleet))] {
        accept(&fleet, json!([change(&fresh)]));
    }
}

#[test]
fn a_version_is_of_what_the_operation_before_left() {
    let etag = small().document("namespaces", "a").unwrap().etag.to_string();
    let first = merge("namespaces", "a", json!({"labels": {"x": "y"}}));
    let second = with(
        merge("namespaces", "a", json!({"labels": {"z": "y"}})),
        json!({"if_match": etag}),
    );
    refuse(&small(), json!([first, second]), Stale, &["/operations/1/if_match"]);
}

#[test]
fn the_same_content_is_the_same_version() {
    let there = accept(
        &small(),
        json!([merge("namespaces", "a", json!({"labels": {"x": "y"}}))]),
    );
    let back = accept(
        &there,
        json!([merge("namespaces", "a", json!({"labels": {"x": null}}))]),
    );
    let etag = |fleet: &Fleet| fleet.document("namespaces", "a").unwrap().etag;
    assert_eq!(etag(&back), etag(&small()));
}
