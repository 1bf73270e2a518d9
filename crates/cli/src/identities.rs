//! Identities and their tokens, as the API has them: what commands about either share.

use clap::{ArgGroup, Args};
use fleet::identity::{CLUSTER_PREFIX, IDENTITIES, cluster_of};
use serde_json::{Value, json};

use crate::args::complete;
use crate::args::ids::{cluster_id, id_of};
use crate::client::{Change, Conditions, Method, Reply, Versioned, encode};
use crate::error::{Code, Failure};
use crate::plan::Plan;
use crate::plan::whole::Objects;
use crate::session::{Outcome, Session, text};

// Options of writes to identities: no such write changes what a cluster gets, so there are no removals to confirm.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AccessWriteArgs {
    /// The reason for the change; kept in the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}

// An identity, by its id or as the one of a cluster.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("owner").args(["identity", "cluster"]).required(true)))]
pub(crate) struct Owner {
    /// The id of the identity; cluster:ID is the one of a cluster
    #[arg(value_parser = identity_id, add = complete::ids(IDENTITIES))]
    identity: Option<String>,
    /// The identity of this cluster
    #[arg(long, value_name = "ID", value_parser = cluster_id, add = complete::cluster_ids())]
    cluster: Option<String>,
}

impl Owner {
    /// The id of the identity.
    pub(crate) fn id(&self) -> String {
        match (&self.identity, &self.cluster) {
            (Some(id), _) => id.clone(),
            (None, Some(cluster)) => format!("{CLUSTER_PREFIX}{cluster}"),
            (None, None) => String::new(),
        }
    }
}

/// Parses the id of an identity.
pub(crate) fn identity_id(text: &str) -> Result<String, String> {
    id_of(vec![IDENTITIES.to_owned(), "identity".to_owned()])(text)
}

pub(crate) fn path(id: &str) -> String {
    format!("/{IDENTITIES}/{}", encode(id))
}

/// The route that issues tokens. That of a cluster works before the cluster has its first.
pub(crate) fn tokens_path(id: &str) -> String {
    match cluster_of(id) {
        Some(cluster) => format!("/clusters/{}/token", encode(cluster)),
        None => format!("{}/tokens", path(id)),
    }
}

/// The revocation of a token.
pub(crate) fn revocation(id: &str, token: &str, reason: Option<&str>) -> Change {
    Change::new(Method::Delete, format!("{}/tokens/{token}", path(id)), reason)
}

/// An identity and its version.
pub(crate) fn find(session: &Session<'_>, id: &str) -> Result<Versioned, Failure> {
    let found = session.client.resource(IDENTITIES, id);
    found.map_err(|error| explain(error.into(), id))
}

/// The tokens of an identity. None if the caller may not see them: operators issue and revoke tokens of clusters, and see none.
pub(crate) fn visible_tokens(session: &Session<'_>, id: &str) -> Result<Option<Vec<Value>>, Failure> {
    match session.client.find(IDENTITIES, id) {
        Ok(found) => Ok(Some(
            found.map(|found| tokens(&found.value).to_vec()).unwrap_or_default(),
        )),
        Err(error) if error.status() == Some(403) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn tokens(identity: &Value) -> &[Value] {
    identity["tokens"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Adds hints to a failure about an identity.
pub(crate) fn explain(failure: Failure, id: &str) -> Failure {
    let is_about_it = failure.message.contains(&format!("\"{id}\""));
    match (failure.code, cluster_of(id)) {
        (Code::NotFound, None) if is_about_it => {
            let failure = failure.or_hint(|| "`identity list` lists the identities".to_owned());
            failure.about(IDENTITIES, id)
        }
        (Code::NotFound, Some(cluster)) => {
            let hint =
                || format!("a cluster has an identity from its first token on: `token create --cluster {cluster}`");
            failure.or_hint(hint)
        }
        _ => failure,
    }
}

/// Plans a write, and shows the plan.
pub(crate) fn show_plan(session: &Session<'_>, change: &Change) -> Result<(), Failure> {
    let reply = session.client.change(change, &Conditions::dry_run(Objects::None))?;
    Plan::read(session.client.json(&reply)?).show(session.printer)
}

/// Sends a write.
pub(crate) fn send(session: &Session<'_>, change: &Change) -> Result<Reply, Failure> {
    Ok(session.client.change(change, &Conditions::default())?)
}

/// Shows a write that was made, as writes to other kinds are shown.
pub(crate) fn show_done(session: &Session<'_>, reply: &Reply, changed: Option<(&str, &str)>) -> Result<(), Failure> {
    let changes: Vec<Value> = changed
        .map(|(action, id)| json!({"kind": IDENTITIES, "id": id, "action": action, "etag": reply.etag}))
        .into_iter()
        .collect();
    session.show(&Outcome::Done(json!({"revision": reply.revision, "changes": changes})))
}

/// How far an identity reaches, in one cell.
pub(crate) fn scope(identity: &Value) -> String {
    let scope = &identity["scope"];
    let list = |name: &str| {
        let items = scope[name].as_array().into_iter().flatten().filter_map(Value::as_str);
        items.collect::<Vec<_>>().join(",")
    };
    let mut parts: Vec<String> = Vec::new();
    let mut add = |name: &str, value: String| {
        if !value.is_empty() {
            parts.push(format!("{name} {value}"));
        }
    };
    add("clusters", text(&scope["clusters"]).to_owned());
    add("kinds", list("kinds"));
    add("environments", list("environments"));
    add("names", text(&scope["dns_suffix"]).to_owned());
    let labels = scope["labels"].as_object().into_iter().flatten();
    let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={}", text(value))).collect();
    add("labels", labels.join(","));
    if scope["approve"] == true {
        parts.push("approves rollouts".to_owned());
    }
    if let Some(uses) = scope["uses"].as_u64() {
        parts.push(match identity["used"].as_u64() {
            Some(used) => format!("{used} of {uses} used"),
            None => format!("uses {uses}"),
        });
    }
    parts.join("; ")
}
