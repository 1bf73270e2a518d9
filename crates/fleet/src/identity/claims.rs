//! Which identity the claims of a verified JWT are.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::Identity;

/// The claim that names the issuer of a JWT.
const ISSUER: &str = "iss";

/// What the claims of a JWT say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed<'a> {
    By(&'a Arc<Identity>),
    Nobody,
    /// Several identities match equally well. Their ids, sorted.
    Tied(Vec<Arc<str>>),
}

/// Whose claims these are: of the identities that match, the one with the most claims; among those with as many claims, the one with
/// the most values. `candidates` are sorted by id.
///
/// Only the first of several issuers may be left out of an identity's claims: `of_first_issuer` says whether the claims are from it.
/// Otherwise an issuer that was added for one purpose could claim every identity.
pub(super) fn claimed<'a>(
    candidates: impl Iterator<Item = &'a Arc<Identity>>,
    claims: &Map<String, Value>,
    of_first_issuer: bool,
) -> Claimed<'a> {
    let matching = candidates
        .filter(|identity| of_first_issuer || identity.claims.contains_key(ISSUER))
        .filter(|identity| matches(&identity.claims, claims));
    let mut matching: Vec<_> = matching
        .map(|identity| (specificity(&identity.claims), identity))
        .collect();
    // Stable, so that ids stay sorted.
    matching.sort_by_key(|(specificity, _)| Reverse(*specificity));
    let Some((most, first)) = matching.first() else {
        return Claimed::Nobody;
    };
    let tied = matching.iter().take_while(|(specificity, _)| specificity == most);
    let tied: Vec<Arc<str>> = tied.map(|(_, identity)| identity.id.clone()).collect();
    match tied.len() {
        1 => Claimed::By(first),
        _ => Claimed::Tied(tied),
    }
}

/// How many claims an identity asks for, and how many values.
fn specificity(wanted: &BTreeMap<String, Value>) -> (usize, usize) {
    let values = wanted.values().map(|value| all(value).len());
    (wanted.len(), values.sum())
}

/// Whether everything that an identity asks for is claimed. One that asks for nothing matches nobody.
fn matches(wanted: &BTreeMap<String, Value>, claims: &Map<String, Value>) -> bool {
    let has = |(name, wanted): (&String, &Value)| {
        let claimed = claims.get(name).map(all).unwrap_or_default();
        let wanted = all(wanted);
        !wanted.is_empty() && wanted.iter().all(|value| claimed.contains(value))
    };
    !wanted.is_empty() && wanted.iter().all(has)
}

/// The values of an array, or the one value.
fn all(value: &Value) -> &[Value] {
    match value {
        Value::Array(values) => values,
        one => std::slice::from_ref(one),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::identity::Role;

    fn identities(claims: &[(&str, Value)]) -> Vec<Arc<Identity>> {
        let identity = |(id, claims): &(&str, Value)| {
            let mut identity = Identity::new(id, Role::Reader);
            identity.claims = serde_json::from_value(claims.clone()).unwrap();
            Arc::new(identity)
        };
        claims.iter().map(identity).collect()
    }

    /// The ids of those who are claimed: one, none, or several that tie.
    fn who(identities: &[Arc<Identity>], claims: &Value, of_first_issuer: bool) -> Vec<String> {
        match claimed(identities.iter(), claims.as_object().unwrap(), of_first_issuer) {
            Claimed::By(identity) => vec![identity.id.to_string()],
            Claimed::Nobody => Vec::new(),
            Claimed::Tied(ids) => ids.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn a_value_is_equal_or_contained() {
        for (wanted, claimed, expected) in [
            (json!("admins"), json!("admins"), true),
            (json!("admins"), json!(["users", "admins"]), true),
            (json!("admins"), json!(["users", "administrators"]), false),
            (json!("admins"), json!("admins "), false),
            (json!("admins"), json!("Admins"), false),
            (json!(["a", "b"]), json!(["c", "b", "a"]), true),
            (json!(["a", "b"]), json!(["a"]), false),
            (json!(["a"]), json!("a"), true),
            (json!(["a", "b"]), json!("a"), false),
            (json!(true), json!(true), true),
            (json!(true), json!("true"), false),
            (json!(7), json!(7), true),
            (json!(7), json!("7"), false),
            (json!("admins"), json!({"admins": true}), false),
            (json!("admins"), json!([["admins"]]), false),
            (json!("admins"), json!(null), false),
            (json!("admins"), json!([]), false),
        ] {
            let identities = identities(&[("x", json!({"groups": wanted}))]);
            let found = who(&identities, &json!({"groups": claimed, "sub": "ann"}), true);
            assert_eq!(!found.is_empty(), expected, "{wanted} in {claimed}");
        }
        let absent = identities(&[("x", json!({"groups": "admins"}))]);
        assert_eq!(who(&absent, &json!({"sub": "ann"}), true), [""; 0]);
    }

    #[test]
    fn every_claim_must_match() {
        let identities = identities(&[("x", json!({"groups": "admins", "mfa": true}))]);
        assert_eq!(
            who(&identities, &json!({"groups": ["admins"], "mfa": true}), true),
            ["x"]
        );
        assert_eq!(
            who(&identities, &json!({"groups": ["admins"], "mfa": false}), true),
            [""; 0]
        );
        assert_eq!(who(&identities, &json!({"groups": ["admins"]}), true), [""; 0]);
    }

    #[test]
    fn the_one_with_the_most_claims_wins() {
        let identities = identities(&[
            ("all", json!({"aud": "fleet"})),
            ("ann", json!({"aud": "fleet", "groups": "admins", "sub": "ann"})),
            ("both", json!({"groups": ["admins", "oncall"]})),
            ("one", json!({"groups": "admins"})),
            ("two", json!({"groups": "users"})),
        ]);
        let who = |claims: Value| who(&identities, &claims, true);
        assert_eq!(who(json!({"aud": "fleet"})), ["all"]);
        assert_eq!(who(json!({"groups": ["admins"]})), ["one"]);
        assert_eq!(who(json!({"groups": ["admins", "oncall"]})), ["both"], "more values");
        assert_eq!(
            who(json!({"aud": ["fleet"], "groups": ["admins", "oncall"], "sub": "ann"})),
            ["ann"],
            "more claims beat more values"
        );
        assert_eq!(who(json!({"groups": ["admins", "users"]})), ["one", "two"], "a tie");
        assert_eq!(who(json!({"groups": ["guests"]})), [""; 0]);
    }

    #[test]
    fn an_identity_without_claims_is_nobodys() {
        assert_eq!(
            who(&identities(&[("x", json!({}))]), &json!({"sub": "ann"}), true),
            [""; 0]
        );
        let empty = identities(&[("x", json!({"groups": []}))]);
        assert_eq!(who(&empty, &json!({"groups": []}), true), [""; 0]);
    }

    #[test]
    fn a_further_issuer_claims_only_identities_that_name_it() {
        let identities = identities(&[
            (
                "ci",
                json!({"iss": "https://ci.example.com", "repository": "acme/fleet"}),
            ),
            ("people", json!({"groups": "admins"})),
        ]);
        let people = json!({"iss": "https://login.example.com", "groups": "admins"});
        let ci = json!({"iss": "https://ci.example.com", "groups": "admins", "repository": "acme/fleet"});
        assert_eq!(who(&identities, &people, true), ["people"]);
        assert_eq!(who(&identities, &people, false), [""; 0]);
        assert_eq!(who(&identities, &ci, false), ["ci"]);
    }
}
