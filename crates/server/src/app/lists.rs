//! Lists of resources: the documents of a kind that pass its filters, and a selector where the kind is clusters.

use std::sync::Arc;

use fleet::Fleet;
use fleet::document::Document;
use fleet::guard::Guard;
use fleet::identity::{IDENTITIES, Role};
use fleet::json::Json;
use fleet::kind::{CLUSTERS, GUARDS, Kind, PROFILES, ROLLOUTS};
use fleet::nearest::did_you_mean;
use fleet::refusal::quote;
use fleet::rollout::Rollout;
use fleet::selector::Selector;
use fleet::snapshot::Cluster;
use jiff::Timestamp;
use serde_json::Value;

use super::App;
use super::errors::ReadError;
use super::reads::Turn;
use super::resources::kind_of;

/// Which resources of a kind are listed.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// Fields that the kind filters by, each with the value that it must have.
    pub fields: Vec<(String, String)>,
    /// Only for clusters.
    pub selector: Option<String>,
    /// Only for guards: those in force at a time.
    pub in_force: Option<Timestamp>,
    /// Only for rollouts: those that are under way, or those that are over.
    pub active: Option<bool>,
}

impl App {
    /// The documents that pass the filters, sorted by id. Each is a pointer into the snapshot, not a copy.
    pub fn list(&self, turn: &Turn, kind: &str, filters: &Filters) -> Result<Vec<Json>, ReadError> {
        let fleet = self.fleet();
        if fleet.is_damaged(kind) {
            return Err(ReadError::Damaged);
        }
        let kind = kind_of(&fleet, kind)?;
        check_values(&kind, &filters.fields)?;
        match &*kind.name {
            CLUSTERS => clusters(turn, &fleet, filters),
            PROFILES => {
                let all = fleet
                    .profiles()
                    .iter()
                    .map(|profile| (&profile.document, profile.value()));
                Ok(passing(all, filters))
            }
            GUARDS => {
                let wanted = |guard: &&Arc<Guard>| filters.in_force.is_none_or(|at| guard.is_in_force(at));
                let all = fleet.guards().iter().filter(wanted);
                Ok(passing(all.map(|guard| (&guard.document, guard.value())), filters))
            }
            ROLLOUTS => {
                let wanted =
                    |rollout: &&Arc<Rollout>| filters.active.is_none_or(|active| rollout.is_active() == active);
                let all = fleet.rollouts().iter().filter(wanted);
                let all: Vec<_> = all.map(|rollout| &rollout.document).collect();
                let values: Vec<_> = all.iter().map(|document| document.body.parse()).collect();
                Ok(passing(all.into_iter().zip(&values), filters))
            }
            name => {
                let all = fleet.definitions(name).into_iter().flat_map(|all| all.iter());
                Ok(passing(all.map(|one| (&one.document, one.value())), filters))
            }
        }
    }

    /// The identities of a role, or all, as they are shown.
    pub fn list_identities(&self, role: Option<Role>) -> Result<Vec<Json>, ReadError> {
        let fleet = self.fleet();
        if fleet.is_damaged(IDENTITIES) {
            return Err(ReadError::Damaged);
        }
        let identities = fleet.identities();
        let all = identities.ids().filter_map(|id| identities.get(&id));
        let wanted = all.filter(|identity| role.is_none_or(|role| identity.role == role));
        Ok(wanted.map(|identity| Json::new(&identity.shown())).collect())
    }

    /// All decommissions, or all released names.
    pub fn list_name_records(&self, kind: &str) -> Result<Vec<Json>, ReadError> {
        let fleet = self.fleet();
        if fleet.is_damaged(kind) {
            return Err(ReadError::Damaged);
        }
        let records = fleet.name_records(kind).ok_or(ReadError::Internal)?;
        Ok(records.values().map(|document| document.body.clone()).collect())
    }
}

/// A value outside a field's enum is a mistake: it would silently list nothing.
fn check_values(kind: &Kind, fields: &[(String, String)]) -> Result<(), ReadError> {
    for (field, value) in fields {
        let options = kind.schema["properties"][field]["enum"].as_array();
        if options.is_some_and(|options| !options.iter().any(|option| plain(option) == *value)) {
            let (value, name) = (quote(value), &kind.name);
            let like = options.and_then(|options| did_you_mean(&value, options.iter().filter_map(Value::as_str)));
            let like = like.map(|like| format!("; {like}")).unwrap_or_default();
            let detail = format!("{field}=\"{value}\" is not a value that {name} can have{like}");
            return Err(ReadError::BadParameter(detail));
        }
    }
    Ok(())
}

/// The documents with the values of the filters.
fn passing<'a>(all: impl Iterator<Item = (&'a Document, &'a Value)>, filters: &Filters) -> Vec<Json> {
    let passing = all.filter(|(_, value)| {
        let mut fields = filters.fields.iter();
        fields.all(|(field, wanted)| plain(&value[field]) == *wanted)
    });
    passing.map(|(document, _)| document.body.clone()).collect()
}

fn clusters(turn: &Turn, fleet: &Fleet, filters: &Filters) -> Result<Vec<Json>, ReadError> {
    let selector = filters.selector.as_deref();
    let selector = selector.map(|text| Selector::for_fleet(text, fleet)).transpose()?;
    let all: Box<dyn Iterator<Item = &Arc<Cluster>>> = match &selector {
        Some(selector) => selector.select(fleet),
        None => Box::new(fleet.clusters().values()),
    };
    let mut found = Vec::new();
    for cluster in turn.until_stopped(all) {
        let cluster = cluster?;
        let mut fields = filters.fields.iter();
        if fields.all(|(field, value)| field_is(cluster, field, value)) {
            found.push(cluster.document().body.clone());
        }
    }
    Ok(found)
}

/// A value as a query string has it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Compares the fields that the snapshot holds without parsing the document.
fn field_is(cluster: &Cluster, field: &str, value: &str) -> bool {
    match field {
        "environment" => &*cluster.head().environment == value,
        "cluster_name" => &*cluster.head().name == value,
        "cluster_dns" => cluster.head().dns_key.eq_ignore_ascii_case(value),
        field => plain(&cluster.document().body.field(field).unwrap_or_default()) == value,
    }
}
