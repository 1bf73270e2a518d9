//! Identities: their documents, their tokens, what becomes of them when clusters go, and how far an operator reaches.

use std::sync::Arc;
use std::time::Duration;

use fleet::budget::Recent;
use fleet::history::{Back, Scope, WayBack};
use fleet::identity::{Holder, IDENTITIES, OperatorScope, Reach, Role, Time, Token, TokenId};
use fleet::judge::{Confirmation, Terms};
use fleet::log::{Batch, Change, RevisionRecord};
use fleet::operation::{BatchRequest, Operation, Target, Verb};
use fleet::patch::Form;
use fleet::refusal::Reason::{Exists, Invalid, NotFound, OutOfScope};
use fleet::refusal::{Reason, Refusal};
use fleet::write::Rules;

use super::*;
use crate::common::{commit, document};

const NOW: Time = Time::from_seconds(1_800_000_000);

fn on_identities(fleet: &Fleet, verb: Verb) -> Result<(Fleet, Vec<Change>), Refusal> {
    commit(fleet, &[Operation::new(IDENTITIES, verb)], Rules::default()).map(|(fleet, record)| (fleet, record.changes))
}

#[track_caller]
fn created(fleet: &Fleet, value: Value) -> Fleet {
    on_identities(fleet, Verb::Create { id: None, value }).unwrap().0
}

#[track_caller]
fn refused(fleet: &Fleet, verb: Verb, reason: Reason, pointers: &[&str]) -> Refusal {
    let refusal = on_identities(fleet, verb).expect_err("must be refused");
    let found: Vec<_> = refusal.errors.iter().map(|error| error.pointer.as_str()).collect();
    assert_eq!((refusal.reason, found.as_slice()), (reason, pointers), "{refusal:#?}");
    refusal
}

fn token(text: &str) -> Token {
    Token::new(
        Token::digest_of(text.as_bytes()),
        NOW,
        NOW.after(Duration::from_secs(60)),
    )
}

#[track_caller]
fn issued(fleet: &Fleet, id: &str, text: &str) -> Fleet {
    let (id, token) = (id.to_owned(), token(text));
    on_identities(fleet, Verb::IssueToken { id, token }).unwrap().0
}

/// Whose token a text is.
fn holder(fleet: &Fleet, text: &str) -> Option<String> {
    let digest = Token::digest_of(text.as_bytes());
    let found = fleet.identities().holder(&digest)?;
    Some(match found {
        Holder::Cluster { cluster, .. } => format!("cluster {cluster}"),
        Holder::Named { identity, .. } => identity.id.to_string(),
    })
}

fn operator(id: &str, clusters: &str, kinds: &[&str]) -> Value {
    json!({"id": id, "role": "operator", "scope": {"clusters": clusters, "kinds": kinds}})
}

#[test]
fn each_role_has_its_document() {
    let join = json!({"dns_suffix": ".example.com", "uses": 3, "environments": ["dev"], "labels": {"team": "red"}});
    for value in [
        json!({"id": "grafana", "role": "reader", "description": "dashboards"}),
        json!({"id": "root", "role": "admin", "claims": {"groups": "admins"}, "certificates": ["Admin.example.com"]}),
        json!({"id": "edge", "role": "mirror", "expires_at": "2027-01-01T00:00:00Z"}),
        operator("ci", "team=red", &["platform_components"]),
        operator("nobody-yet", "ring=canary", &[]),
        json!({"id": "factory", "role": "join", "scope": join}),
    ] {
        let fleet = created(&small(), value.clone());
        let id = value["id"].as_str().unwrap();
        let identity = fleet.identities().get(id).unwrap();
        assert_eq!(identity.role.name(), value["role"]);
        assert_eq!(
            fleet.identities().ids().map(|id| id.to_string()).collect::<Vec<_>>(),
            [id]
        );
    }
}

#[test]
fn a_wrong_document_is_refused_at_its_place() {
    for (value, pointers) in [
        (json!({"role": "reader"}), &["/id"][..]),
        (json!({"id": "x"}), &["/role"]),
        (json!({"id": "cluster:x", "role": "reader"}), &["/id"]),
        (json!({"id": "system", "role": "reader"}), &["/id"]),
        (json!({"id": "rollout/x", "role": "reader"}), &["/id"]),
        (json!({"id": "x", "role": "cluster"}), &["/role"]),
        (json!({"id": "x", "role": "reader", "scope": {}}), &["/scope"]),
        (json!({"id": "x", "role": "operator"}), &["/scope"]),
        (
            json!({"id": "x", "role": "operator", "scope": {"kinds": []}}),
            &["/scope/clusters"],
        ),
        (operator("x", "", &[]), &["/scope/clusters"]),
        (operator("x", "team=", &["nothings"]), &["/scope/kinds/0"]),
        (operator("x", "environment=nowhere", &[]), &["/scope/clusters"]),
        (operator("x", "taem!=red", &[]), &["/scope/clusters"]),
        (
            operator("x", "*", &["clusters", "kinds", "identities", "decommissions"]),
            &["/scope/kinds/0", "/scope/kinds/1", "/scope/kinds/2", "/scope/kinds/3"],
        ),
        (
            json!({"id": "x", "role": "join", "scope": {"dns_suffix": "example.com", "uses": 0}}),
            &["/scope/dns_suffix", "/scope/uses"],
        ),
        (
            json!({"id": "x", "role": "join", "scope": {"dns_suffix": ".a.b", "uses": 1, "environments": ["mars"]}}),
            &["/scope/environments/0"],
        ),
        (
            json!({"id": "x", "role": "reader", "expires_at": "soon"}),
            &["/expires_at"],
        ),
        (
            json!({"id": "x", "role": "reader", "certificates": ["a b"]}),
            &["/certificates/0"],
        ),
        (
            json!({"id": "x", "role": "reader", "claims": {"a": {"b": 1}}}),
            &["/claims/a"],
        ),
        (
            json!({"id": "x", "role": "reader", "tokens": [{"id": "1"}]}),
            &["/tokens"],
        ),
        (json!({"id": "x", "role": "reader", "extra": 1}), &["/extra"]),
    ] {
        let value = value.clone();
        refused(&small(), Verb::Create { id: None, value }, Invalid, pointers);
    }
}

#[test]
fn a_change_keeps_tokens_and_never_the_role() {
    let fleet = created(&small(), json!({"id": "ann", "role": "reader"}));
    let shown = fleet.identities().get("ann").unwrap().shown();
    assert_eq!(shown, json!({"id": "ann", "role": "reader"}));
    let first = Verb::Merge {
        on: Target::Id("ann".into()),
        form: Form::Merge,
        value: json!({"description": "without a token"}),
    };
    let (fleet, _) = on_identities(&fleet, first).unwrap();
    let fleet = issued(&fleet, "ann", "secret");
    let id = || "ann".to_owned();
    let put = |value: Value| Verb::Replace { id: id(), value };
    let (fleet, changes) = on_identities(&fleet, put(json!({"role": "reader", "description": "x"}))).unwrap();
    assert_eq!(changes.len(), 1);
    assert_eq!(holder(&fleet, "secret").as_deref(), Some("ann"));
    // What was shown can be sent back.
    let shown = fleet.identities().get("ann").unwrap().shown();
    assert!(!shown.to_string().contains("digest"), "{shown}");
    let (_, changes) = on_identities(&fleet, put(shown)).unwrap();
    assert!(changes.is_empty());
    refused(&fleet, put(json!({"role": "admin"})), Invalid, &["/role"]);
    refused(&fleet, put(json!({"id": "bob", "role": "reader"})), Invalid, &["/id"]);
    let patch = |value: Value| Verb::Merge {
        on: Target::Id(id()),
        form: Form::Merge,
        value,
    };
    let (fleet, _) = on_identities(&fleet, patch(json!({"description": null}))).unwrap();
    assert_eq!(fleet.identities().get("ann").unwrap().description, None);
    assert_eq!(holder(&fleet, "secret").as_deref(), Some("ann"));
    refused(&fleet, patch(json!({"tokens": []})), Invalid, &["/tokens"]);
    refused(
        &fleet,
        Verb::Replace {
            id: "eve".into(),
            value: json!({}),
        },
        NotFound,
        &[],
    );
    refused(
        &fleet,
        Verb::Create {
            id: None,
            value: json!({"id": "ann", "role": "reader"}),
        },
        Exists,
        &["/id"],
    );
}

#[test]
fn a_certificate_name_belongs_to_one_identity() {
    let fleet = created(
        &small(),
        json!({"id": "ann", "role": "reader", "certificates": ["A.example.com"]}),
    );
    assert_eq!(
        &*fleet.identities().with_certificate("a.example.com").unwrap().id,
        "ann"
    );
    let value = json!({"id": "bob", "role": "reader", "certificates": ["a.EXAMPLE.com"]});
    refused(&fleet, Verb::Create { id: None, value }, Invalid, &["/certificates/0"]);
    let (fleet, _) = on_identities(
        &fleet,
        Verb::Delete {
            id: "ann".into(),
            cascade: false,
        },
    )
    .unwrap();
    assert!(fleet.identities().with_certificate("a.example.com").is_none());
}

#[test]
fn a_certificate_name_is_that_of_a_cluster_or_of_an_identity() {
    let ann = |dns: &str| json!({"id": "ann", "role": "reader", "certificates": ["other.example.com", dns]});
    let create_ann = |dns: &str| Verb::Create {
        id: None,
        value: ann(dns),
    };
    let gone = accept(&small(), json!([delete("clusters", "two")]));
    for dns in ["One.example.com", "two.example.com"] {
        refused(&gone, create_ann(dns), Invalid, &["/certificates/1"]);
    }
    let fleet = created(&gone, ann("Ann.example.com"));
    let taken = json!({"cluster_dns": "ANN.example.com"});
    for operation in [
        create("clusters", cluster("four", taken.clone())),
        merge("clusters", "one", taken),
    ] {
        let pointer = "/operations/0/value/cluster_dns";
        common::refuse(&fleet, json!([operation]), Exists, &[pointer]);
    }
    let put = |dns: &str| Verb::Replace {
        id: "ann".into(),
        value: ann(dns),
    };
    refused(&fleet, put("one.example.com"), Invalid, &["/certificates/1"]);
    on_identities(&fleet, put("free.example.com")).unwrap();
}

#[test]
fn a_name_that_two_had_before_it_was_refused_is_in_the_way_of_no_other_change() {
    let fleet = created(
        &small(),
        json!({"id": "ann", "role": "reader", "certificates": ["ann.example.com"]}),
    );
    // As an earlier release accepted it.
    let four = cluster("four", json!({"cluster_dns": "ann.example.com"}));
    let (_, changes) = common::write(&small(), json!([create("clusters", four)])).unwrap();
    let batch = Batch {
        changes,
        ..Batch::default()
    };
    let fleet = fleet.follow(&RevisionRecord::on(fleet.head(), &batch)).unwrap();
    accept(
        &fleet,
        json!([merge("clusters", "four", json!({"labels": {"a": "b"}}))]),
    );
    let describe = Verb::Merge {
        on: Target::Id("ann".into()),
        form: Form::Merge,
        value: json!({"description": "x"}),
    };
    on_identities(&fleet, describe).unwrap();
}

#[test]
fn a_cluster_that_registers_takes_no_name_that_a_machine_may_still_poll() {
    let gone = accept(&small(), json!([delete("clusters", "two")]));
    let renamed = accept(
        &gone,
        json!([merge("clusters", "one", json!({"cluster_dns": "new.example.com"}))]),
    );
    let scope = json!({"dns_suffix": ".example.com", "uses": 3});
    let fleet = created(&renamed, json!({"id": "factory", "role": "join", "scope": scope}));
    let registers = |cluster: &str, dns: &str| Verb::Register {
        id: "factory".into(),
        cluster: cluster.to_owned(),
        dns: dns.to_owned(),
    };
    for (cluster, dns, pointer) in [
        ("four", "One.example.com", "/cluster_dns"),
        ("four", "two.example.com", "/cluster_dns"),
        ("two", "four.example.com", "/cluster_name"),
    ] {
        refused(&fleet, registers(cluster, dns), Exists, &[pointer]);
    }
    on_identities(&fleet, registers("four", "four.example.com")).unwrap();
}

#[test]
fn tokens_are_found_by_their_text_until_they_are_revoked() {
    let fleet = created(&small(), json!({"id": "ann", "role": "admin"}));
    let fleet = issued(
        &issued(&issued(&fleet, "ann", "one"), "ann", "two"),
        "cluster:one",
        "three",
    );
    assert_eq!(holder(&fleet, "one").as_deref(), Some("ann"));
    assert_eq!(holder(&fleet, "three").as_deref(), Some("cluster one"));
    assert_eq!(holder(&fleet, "four"), None);
    let revoke = |id: &str, text: &str| Verb::RevokeToken {
        id: id.into(),
        token: token(text).id,
    };
    let (fleet, _) = on_identities(&fleet, revoke("ann", "one")).unwrap();
    assert_eq!(holder(&fleet, "one"), None);
    assert_eq!(holder(&fleet, "two").as_deref(), Some("ann"));
    refused(&fleet, revoke("ann", "one"), NotFound, &[]);
    // The identity of a cluster is nothing but its tokens.
    let (fleet, _) = on_identities(&fleet, revoke("cluster:one", "three")).unwrap();
    assert!(fleet.identities().get("cluster:one").is_none());
    let (fleet, _) = on_identities(
        &fleet,
        Verb::Delete {
            id: "ann".into(),
            cascade: false,
        },
    )
    .unwrap();
    assert!(fleet.identities().is_empty() && holder(&fleet, "two").is_none());
    let verb = Verb::IssueToken {
        id: "cluster:nobody".into(),
        token: token("x"),
    };
    refused(&fleet, verb, NotFound, &[]);
    let verb = Verb::IssueToken {
        id: "nobody".into(),
        token: token("x"),
    };
    refused(&fleet, verb, NotFound, &[]);
}

#[test]
fn tokens_are_limited_and_differ() {
    let mut fleet = small();
    for n in 0..16 {
        fleet = issued(&fleet, "cluster:one", &format!("token {n}"));
    }
    let again = |id: &str, text: &str| Verb::IssueToken {
        id: id.into(),
        token: token(text),
    };
    refused(&fleet, again("cluster:one", "one more"), Invalid, &[""]);
    refused(&fleet, again("cluster:two", "token 3"), Exists, &[""]);
    assert!(
        fleet
            .identities()
            .has_token(TokenId::of(&Token::digest_of(b"token 15")))
    );
}

#[test]
fn the_identity_of_a_cluster_lives_while_the_cluster_or_its_decommission_does() {
    let fleet = issued(&issued(&small(), "cluster:one", "secret"), "cluster:two", "other");
    let gone = accept(&fleet, json!([delete("clusters", "one")]));
    assert_eq!(holder(&gone, "secret").as_deref(), Some("cluster one"));
    assert!(gone.is_name_of("ONE.example.com", "one") && !gone.is_name_of("one.example.com", "two"));
    // Forgotten: the identity goes with the decommission.
    let forgotten = accept(&gone, json!([delete("decommissions", "one.example.com")]));
    assert_eq!(holder(&forgotten, "secret"), None);
    // The id is used again: another cluster, without the old tokens.
    let again = accept(
        &gone,
        json!([create(
            "clusters",
            cluster("one", json!({"cluster_dns": "new.example.com"}))
        )]),
    );
    assert_eq!(holder(&again, "secret"), None);
    // Another cluster takes the DNS name: the decommission ends, and so does the identity.
    let taken = accept(
        &gone,
        json!([create(
            "clusters",
            cluster("four", json!({"cluster_dns": "one.example.com"}))
        )]),
    );
    assert_eq!(holder(&taken, "secret"), None);
    assert_eq!(holder(&taken, "other").as_deref(), Some("cluster two"));
}

#[test]
fn a_cluster_polls_the_name_that_it_has_and_those_that_it_was_decommissioned_with() {
    let fleet = issued(&small(), "cluster:one", "secret");
    let renamed = accept(
        &fleet,
        json!([merge("clusters", "one", json!({"cluster_dns": "new.example.com"}))]),
    );
    assert_eq!(holder(&renamed, "secret").as_deref(), Some("cluster one"));
    assert!(renamed.is_name_of("new.example.com", "one"));
    assert!(!renamed.is_name_of("one.example.com", "one"), "a name that it gave up");
    let gone = accept(&renamed, json!([delete("clusters", "one")]));
    assert!(gone.is_name_of("new.example.com", "one") && !gone.is_name_of("one.example.com", "one"));
    let again = accept(
        &gone,
        json!([create(
            "clusters",
            cluster("one", json!({"cluster_dns": "third.example.com"}))
        )]),
    );
    assert!(again.is_name_of("third.example.com", "one") && again.is_name_of("new.example.com", "one"));
    assert!(!again.is_name_of("two.example.com", "one"));
}

#[test]
fn an_id_that_is_used_again_has_the_tokens_of_that_write_only() {
    let fleet = issued(&small(), "cluster:one", "secret");
    // Deleted and created in one write: it never was away, and the log has one update.
    let replaced = accept(
        &fleet,
        json!([
            delete("clusters", "one"),
            create("clusters", cluster("one", json!({"cluster_dns": "new.example.com"}))),
        ]),
    );
    assert_eq!(holder(&replaced, "secret").as_deref(), Some("cluster one"));
    let gone = accept(&fleet, json!([delete("clusters", "one")]));
    let operations = [
        Operation::new(
            "clusters",
            Verb::Create {
                id: None,
                value: cluster("one", json!({"cluster_dns": "new.example.com"})),
            },
        ),
        Operation::new(
            IDENTITIES,
            Verb::IssueToken {
                id: "cluster:one".into(),
                token: token("newer"),
            },
        ),
    ];
    let (again, record) = commit(&gone, &operations, Rules::default()).unwrap();
    assert_eq!(holder(&again, "secret"), None);
    assert_eq!(holder(&again, "newer").as_deref(), Some("cluster one"));
    let kinds: Vec<_> = record.changes.iter().map(|change| &*change.kind).collect();
    assert_eq!(kinds, ["clusters", IDENTITIES], "in one revision");
}

#[test]
fn an_undone_creation_keeps_the_identity_until_the_decommission_ends() {
    let before = small();
    let fleet = accept(&before, json!([create("clusters", cluster("four", json!({})))]));
    let fleet = issued(&fleet, "cluster:four", "secret");
    let undo = WayBack {
        then: Arc::new(before.clone()),
        back: Back::Rollback(Scope::Fleet),
    };
    let (gone, _) = commit(&fleet, &undo.operations(&fleet).unwrap(), Rules::default()).unwrap();
    assert!(gone.cluster("four").is_none() && gone.is_name_of("four.example.com", "four"));
    assert_eq!(holder(&gone, "secret").as_deref(), Some("cluster four"));
    let back = WayBack {
        then: Arc::new(fleet.clone()),
        back: Back::Rollback(Scope::Fleet),
    };
    let (restored, _) = commit(&gone, &back.operations(&gone).unwrap(), Rules::default()).unwrap();
    assert!(restored.cluster("four").is_some());
    assert_eq!(holder(&restored, "secret").as_deref(), Some("cluster four"));
}

#[test]
fn rollback_and_undo_leave_identities_alone() {
    let before = small();
    let fleet = issued(
        &created(&before, json!({"id": "ann", "role": "admin"})),
        "cluster:one",
        "secret",
    );
    let gone = accept(&fleet, json!([delete("clusters", "one")]));
    let back = WayBack {
        then: Arc::new(before),
        back: Back::Rollback(Scope::Fleet),
    };
    let operations = back.operations(&gone).unwrap();
    let (restored, _) = commit(&gone, &operations, Rules::default()).unwrap();
    assert!(restored.cluster("one").is_some());
    assert_eq!(holder(&restored, "secret").as_deref(), Some("cluster one"));
    assert!(restored.identities().get("ann").is_some());
}

#[test]
fn batches_files_and_rollbacks_cannot_write_identities() {
    let fleet = created(&small(), json!({"id": "ann", "role": "reader"}));
    for operation in [
        json!({"op": "create", "kind": "identities", "value": {"id": "eve", "role": "admin"}}),
        json!({"op": "apply", "kind": "identities", "value": {"id": "ann", "role": "admin"}}),
        json!({"op": "merge", "kind": "identities", "id": "ann", "value": {"description": "x"}}),
        json!({"op": "delete", "kind": "identities", "id": "ann"}),
    ] {
        common::refuse(&fleet, json!([operation]), Invalid, &["/operations/0/kind"]);
    }
    let value = Some(json!({"id": "ann", "role": "admin"}));
    let restore = Verb::Restore {
        id: "ann".into(),
        value,
        dangled: Arc::default(),
    };
    refused(&fleet, restore, Invalid, &["/kind"]);
    common::refuse(
        &fleet,
        json!([create("kinds", kind("identity", json!({}), json!({})))]),
        Invalid,
        &["/operations/0/value/kind"],
    );
}

/// What an operator with this scope gets for a batch.
fn as_operator(fleet: &Fleet, clusters: &str, kinds: &[&str], operations: Value) -> Result<(), Refusal> {
    let request = BatchRequest::parse(json!({ "operations": operations })).unwrap();
    let scope = OperatorScope {
        clusters: clusters.to_owned(),
        kinds: kinds.iter().map(|&kind| kind.to_owned()).collect(),
        approve: false,
    };
    let terms = Terms {
        recent: &Recent::default(),
        since: "",
        budget: None,
        confirmation: Confirmation::default(),
        reach: &Reach::Within(Arc::new(scope)),
        at: "",
        overrides: &[],
        unguarded: false,
    };
    fleet.change(&request.operations, common::BATCH, terms).map(drop)
}

#[test]
fn an_operator_writes_within_its_scope() {
    let label = |id: &str, team: &str| json!({"op": "merge", "kind": "clusters", "id": id, "value": {"labels": {"team": team}}});
    let tag = json!({"op": "merge", "kind": "platform_components", "id": "b", "value": {"oci_tag": "v2"}});
    for (clusters, kinds, operation) in [
        (
            "team=red",
            &[][..],
            json!({"op": "merge", "kind": "clusters", "id": "one", "value": {"node_count": 4}}),
        ),
        // Only `one` runs `b`.
        ("team=red", &["platform_components"], tag.clone()),
        ("team=red", &[], delete("clusters", "one")),
        ("environment=dev", &[], create("clusters", cluster("four", json!({})))),
        ("*", &[], label("two", "red")),
    ] {
        as_operator(&small(), clusters, kinds, json!([operation])).unwrap();
    }
    for (clusters, kinds, operation, outside) in [
        ("team=red", &[][..], label("two", "blue2"), &["two"][..]),
        // Into the scope and out of it.
        ("team=red", &[], label("two", "red"), &["two"]),
        ("team=red", &[], label("one", "blue"), &["one"]),
        (
            "team=red",
            &[],
            create("clusters", cluster("four", json!({}))),
            &["four"],
        ),
        ("team=red", &[], tag, &[]),
        // `two` runs `a` as well.
        (
            "team=red",
            &["platform_components"],
            json!({"op": "merge", "kind": "platform_components", "id": "a", "value": {"component_path": "x"}}),
            &["two"],
        ),
        (
            "*",
            &["platform_components"],
            json!({"op": "delete", "kind": "namespaces", "id": "b", "cascade": true}),
            &[],
        ),
        ("*", &[], create("kinds", common::network_policy()), &[]),
        ("ring=canary", &[], label("one", "x"), &["one"]),
    ] {
        let refusal = as_operator(&small(), clusters, kinds, json!([operation.clone()])).unwrap_err();
        assert_eq!(refusal.reason, OutOfScope, "{operation}: {refusal:?}");
        assert_eq!(refusal.clusters, outside, "{operation}");
        assert!(!refusal.clusters.is_empty() || !refusal.resources.is_empty());
    }
}

#[test]
fn an_operator_does_not_end_records_of_names_on_their_own() {
    let gone = accept(&small(), json!([delete("clusters", "one")]));
    let refusal = as_operator(&gone, "*", &[], json!([delete("decommissions", "one.example.com")])).unwrap_err();
    assert_eq!(refusal.resources, ["decommissions/one.example.com"]);
    // A cluster in scope that takes the name ends the decommission.
    let taker = cluster("four", json!({"cluster_dns": "one.example.com"}));
    as_operator(&gone, "environment=dev", &[], json!([create("clusters", taker)])).unwrap();
}

#[test]
fn an_operator_does_not_end_the_decommission_of_an_earlier_cluster_with_the_id_of_its_own() {
    let gone = accept(&small(), json!([delete("clusters", "one")]));
    let next = create("clusters", cluster("one", json!({"cluster_dns": "next.example.com"})));
    let again = accept(&gone, json!([next]));
    let ends = delete("decommissions", "one.example.com");
    let label = merge("clusters", "one", json!({"labels": {"a": "b"}}));
    as_operator(&again, "environment=dev", &[], json!([label])).unwrap();
    for (fleet, own) in [(&gone, next), (&again, label)] {
        let refusal = as_operator(fleet, "environment=dev", &[], json!([own, ends])).unwrap_err();
        assert_eq!(refusal.resources, ["decommissions/one.example.com"], "{own}");
    }
}

#[test]
fn an_operator_without_a_scope_writes_nothing() {
    let label = merge("clusters", "one", json!({"labels": {"a": "b"}}));
    let refusal = as_operator(&small(), &OperatorScope::default().clusters, &[], json!([label])).unwrap_err();
    assert_eq!(refusal.reason, OutOfScope);
}

#[test]
fn an_operator_whose_cluster_takes_a_decommissioned_name_ends_the_identity_that_had_it() {
    let fleet = issued(&small(), "cluster:three", "secret");
    let gone = accept(&fleet, json!([delete("clusters", "three")]));
    let taker = create("clusters", cluster("four", json!({"cluster_dns": "three.example.com"})));
    as_operator(&gone, "environment=dev", &[], json!([taker])).unwrap();
    let refusal = as_operator(&gone, "environment=prod", &[], json!([taker])).unwrap_err();
    assert_eq!((refusal.clusters, refusal.resources), (vec!["four".to_owned()], vec![]));
}

#[test]
fn documents_of_clusters_are_the_same_after_they_were_compacted_in_memory() {
    let fleet = issued(&issued(&small(), "cluster:one", "secret"), "cluster:one", "later");
    let stored = document(&fleet, IDENTITIES, "cluster:one");
    assert_eq!(stored["role"], Role::Cluster.name());
    assert_eq!(stored["tokens"].as_array().unwrap().len(), 2);
    assert_eq!(stored["tokens"][0]["digest"], Token::digest_of(b"secret").to_string());
    assert_eq!(stored["tokens"][0]["created_at"], NOW.to_string());
}
