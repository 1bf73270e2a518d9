//! The fields of an identity as flags.

use std::time::{Duration, SystemTime};

use clap::Args;
use fleet::identity::{Role, Time};
use fleet::nearest::did_you_mean;
use serde_json::{Map, Value, json};

use super::{empty, unfit};
use crate::args::complete::{kind_names, selectors};
use crate::args::target::scope_selector;
use crate::error::Failure;
use crate::session::Session;

#[derive(Args, Clone, Debug)]
pub(super) struct IdentityFields {
    /// For an operator: the clusters that it may change, '*' for every cluster
    #[arg(long, value_name = "SELECTOR", value_parser = scope_selector, add = selectors())]
    clusters: Option<String>,
    /// For an operator: the kinds that it may write besides clusters, with commas (can be repeated)
    #[arg(long, value_name = "KIND,...", alias = "kind", value_delimiter = ',', add = kind_names())]
    kinds: Vec<String>,
    /// For an operator: it may approve rollouts
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    approve: Option<bool>,
    /// For a join identity: how the DNS names of new clusters end, as in .k8s.example.com
    #[arg(long, value_name = "SUFFIX")]
    dns_suffix: Option<String>,
    /// For a join identity: the environments of new clusters, with commas [default: any]
    #[arg(long, value_name = "NAME,...", alias = "environment", value_delimiter = ',')]
    environments: Vec<String>,
    /// For a join identity: a label that every new cluster gets (can be repeated)
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    label: Vec<(String, String)>,
    /// For a join identity: how many clusters may register [default: 1]
    #[arg(long, value_name = "N")]
    uses: Option<u32>,
    /// How long it is valid, with all its tokens: 12h, 90d
    #[arg(long, value_name = "TIME", value_parser = span, conflicts_with = "expires_at")]
    expires_in: Option<Duration>,
    /// Until when it is valid, with all its tokens: 2027-01-31T00:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    expires_at: Option<Time>,
    /// A DNS name of client certificates that identify it (can be repeated; replaces those that it has)
    #[arg(long, value_name = "DNS")]
    certificate: Vec<String>,
    /// What the JWT of a caller must claim (can be repeated)
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    claim: Vec<(String, String)>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

impl IdentityFields {
    /// Refuses flags that the role has no use for.
    pub(super) fn check(&self, role: Role) -> Result<(), Failure> {
        let operator = [
            ("clusters", self.clusters.is_some()),
            ("kinds", !self.kinds.is_empty()),
            ("approve", self.approve.is_some()),
        ];
        let join = [
            ("dns-suffix", self.dns_suffix.is_some()),
            ("environments", !self.environments.is_empty()),
            ("label", !self.label.is_empty()),
            ("uses", self.uses.is_some()),
        ];
        let given = |flags: &[(&'static str, bool)]| flags.iter().find(|(_, given)| *given).map(|(flag, _)| *flag);
        match (given(&operator), given(&join)) {
            (Some(flag), _) if role != Role::Operator => Err(unfit(flag, role, "operators")),
            (_, Some(flag)) if role != Role::Join => Err(unfit(flag, role, "join identities")),
            _ => Ok(()),
        }
    }

    /// The fields that were given. A new identity also has the scope that its role needs.
    pub(super) fn document(&self, session: &Session<'_>, new: Option<Role>) -> Result<Value, Failure> {
        let mut document = Map::new();
        let scope = self.scope(session, new)?;
        if !scope.is_empty() {
            document.insert("scope".to_owned(), scope.into());
        }
        if let Some(time) = self.expiry()? {
            document.insert("expires_at".to_owned(), time.to_string().into());
        }
        if !self.certificate.is_empty() {
            document.insert("certificates".to_owned(), json!(self.certificate));
        }
        if !self.claim.is_empty() {
            document.insert("claims".to_owned(), pairs(&self.claim));
        }
        if let Some(description) = &self.description {
            document.insert("description".to_owned(), description.as_str().into());
        }
        Ok(document.into())
    }

    fn scope(&self, session: &Session<'_>, new: Option<Role>) -> Result<Map<String, Value>, Failure> {
        let required = |flag: &str, what: &str| Failure::usage(format!("{what} needs --{flag}"));
        match new {
            Some(Role::Operator) if self.clusters.is_none() => {
                return Err(required("clusters SELECTOR", "an operator"));
            }
            Some(Role::Join) if self.dns_suffix.is_none() => {
                return Err(required("dns-suffix SUFFIX", "a join identity"));
            }
            _ => {}
        }
        let mut scope = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                scope.insert(name.to_owned(), value);
            }
        };
        let some = |list: &[String]| (!list.is_empty()).then(|| json!(list));
        set("clusters", self.clusters.as_deref().map(Value::from));
        set("kinds", some(&kinds(session, &self.kinds)?));
        set("approve", self.approve.map(Value::from));
        set("dns_suffix", self.dns_suffix.as_deref().map(Value::from));
        set("environments", some(&self.environments));
        set("labels", (!self.label.is_empty()).then(|| pairs(&self.label)));
        let once = (new == Some(Role::Join)).then_some(1);
        set("uses", self.uses.or(once).map(Value::from));
        Ok(scope)
    }

    fn expiry(&self) -> Result<Option<Time>, Failure> {
        let Some(span) = self.expires_in else {
            return Ok(self.expires_at);
        };
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let later = Time::from_seconds(0).after(now + span);
        match later {
            Some(time) => Ok(Some(time)),
            None => Err(Failure::usage(
                "--expires-in ends after the year 2106: leave it out for one that does not expire",
            )),
        }
    }
}

/// Kinds by the names of the server. An unknown name is left to the server, which knows more than the list of kinds.
fn kinds(session: &Session<'_>, given: &[String]) -> Result<Vec<String>, Failure> {
    if given.is_empty() {
        return Ok(Vec::new());
    }
    let known = session.kinds()?;
    let name = |given: &String| {
        known
            .named(given)
            .map_or_else(|| given.clone(), |kind| kind.name.clone())
    };
    Ok(given.iter().map(name).collect())
}

fn pairs(given: &[(String, String)]) -> Value {
    let all = given
        .iter()
        .map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    Value::Object(all.collect())
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

fn time(text: &str) -> Result<Time, String> {
    Time::parse(text).ok_or_else(|| "expected a time such as 2027-01-31T00:00:00Z, up to the year 2106".to_owned())
}

/// Parses a length of time: numbers with the units w, d, h, m and s.
fn span(text: &str) -> Result<Duration, String> {
    let wrong = || "expected a time such as 30m, 12h or 90d".to_owned();
    let mut total: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let unit = match tail.as_bytes().first() {
            Some(b'w') => 7 * 86_400,
            Some(b'd') => 86_400,
            Some(b'h') => 3600,
            Some(b'm') => 60,
            Some(b's') => 1,
            _ => return Err(wrong()),
        };
        let part = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
        total = part.and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
        rest = &tail[1..];
    }
    match total {
        0 => Err(wrong()),
        seconds => Ok(Duration::from_secs(seconds)),
    }
}

/// A field that an update clears, or one key of it.
#[derive(Clone, Debug)]
pub(super) struct UnsetField {
    name: &'static str,
    key: Option<String>,
}

/// The fields that can be cleared.
const CLEARABLE: [&str; 7] = [
    "certificates",
    "claims",
    "description",
    "environments",
    "expires_at",
    "kinds",
    "labels",
];

pub(super) fn unset_field(text: &str) -> Result<UnsetField, String> {
    let (field, key) = match text.split_once('.') {
        Some((field, key)) => (field, Some(key.to_owned())),
        None => (text, None),
    };
    let wanted = field.replace('-', "_");
    let Some(name) = CLEARABLE.into_iter().find(|known| *known == wanted) else {
        let like = did_you_mean(&wanted, CLEARABLE)
            .map(|like| format!("; {like}"))
            .unwrap_or_default();
        return Err(format!("\"{field}\" is not one of {}{like}", CLEARABLE.join(", ")));
    };
    match key {
        Some(_) if !matches!(name, "claims" | "labels") => Err(format!("{name} has no keys")),
        key => Ok(UnsetField { name, key }),
    }
}

impl UnsetField {
    /// Adds the clearing to a patch.
    pub(super) fn clear(&self, patch: &mut Value) {
        let place = match self.name {
            "environments" | "kinds" | "labels" => &mut patch["scope"],
            _ => patch,
        };
        if place.is_null() {
            *place = empty();
        }
        match &self.key {
            Some(key) if !place[self.name].is_object() => place[self.name] = json!({key.as_str(): null}),
            Some(key) => place[self.name][key] = Value::Null,
            // Null in place of an array would be a wrong type for some of them.
            None if matches!(self.name, "certificates" | "environments" | "kinds") => place[self.name] = json!([]),
            None => place[self.name] = Value::Null,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_units() {
        for (text, seconds) in [("90d", 90 * 86_400), ("1h30m", 5400), ("2w", 14 * 86_400), ("45s", 45)] {
            assert_eq!(span(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for wrong in ["", "90", "0d", "d", "1x", "-1d", "99999999999999999999d", "1.5h"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fields_are_cleared_where_they_are() {
        let mut patch = json!({"scope": {"clusters": "a=b"}});
        for text in ["description", "kinds", "labels.team", "claims.groups", "certificates"] {
            unset_field(text).unwrap().clear(&mut patch);
        }
        let expected = json!({
            "description": null, "claims": {"groups": null}, "certificates": [],
            "scope": {"clusters": "a=b", "kinds": [], "labels": {"team": null}},
        });
        assert_eq!(patch, expected);
        assert!(unset_field("description.x").unwrap_err().contains("has no keys"));
        assert!(unset_field("descripton").unwrap_err().contains("did you mean"));
    }
}
