//! `identity`: who may call, and how far they reach.

mod fields;

use clap::{Args, Subcommand};
use fleet::identity::{IDENTITIES, Role, cluster_of};
use serde_json::{Value, json};

use self::fields::{IdentityFields, UnsetField, unset_field};
use crate::args::complete;
use crate::args::ids::unique;
use crate::client::{Change, Method, with_query};
use crate::confirm::confirm_loss;
use crate::error::{Code, Failure};
use crate::identities::{AccessWriteArgs, explain, find, identity_id, path, scope, send, show_done, show_plan, tokens};
use crate::output::{Table, Tone, cell};
use crate::session::{Session, text};

const CREATE_EXAMPLES: &str = "\
Examples:
  flux-resourceset-cli identity create ann --role admin
  flux-resourceset-cli identity create red --role operator --clusters team=red --kinds namespaces
  flux-resourceset-cli identity create ci --role operator --clusters '*' --claim repository=a/b
  flux-resourceset-cli identity create edge --role join --dns-suffix .edge.example.com --uses 10
  flux-resourceset-cli identity create eu --role mirror --certificate mirror.example.com

An identity without tokens, certificates and claims cannot call: `token create ID` issues a token.";

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum IdentityCommand {
    /// List identities
    List(ListArgs),
    /// Show one identity, or several; tokens are never shown
    Get(GetArgs),
    /// Create an identity
    #[command(after_help = CREATE_EXAMPLES)]
    Create(Box<CreateArgs>),
    /// Change fields of an identity; the others, and its tokens, stay
    Update(Box<UpdateArgs>),
    /// Delete an identity, with all its tokens
    Delete(DeleteArgs),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ListArgs {
    /// Only those with this role [cluster, reader, operator, admin, mirror, join]
    #[arg(long, value_parser = role)]
    role: Option<Role>,
    /// At most N identities
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Skip the first N identities
    #[arg(long, value_name = "N")]
    offset: Option<u64>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct GetArgs {
    /// The id of the identity (several can be given); cluster:ID is the one of a cluster
    #[arg(value_name = "ID", required = true, value_parser = identity_id, add = complete::ids(IDENTITIES))]
    ids: Vec<String>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CreateArgs {
    /// Its name, which is the actor of its changes in the log
    #[arg(value_parser = identity_id)]
    id: String,
    /// What it may do [reader, operator, admin, mirror, join]
    #[arg(long, value_parser = new_role)]
    role: Role,
    #[command(flatten)]
    fields: IdentityFields,
    #[command(flatten)]
    how: AccessWriteArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct UpdateArgs {
    /// The id of the identity
    #[arg(value_parser = identity_id, add = complete::ids(IDENTITIES))]
    id: String,
    #[command(flatten)]
    fields: IdentityFields,
    /// Clear a field, or one key of it: description, claims.groups (can be repeated)
    #[arg(long, value_name = "FIELD", value_parser = unset_field)]
    unset: Vec<UnsetField>,
    #[command(flatten)]
    how: AccessWriteArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct DeleteArgs {
    /// The id of the identity; cluster:ID is the one of a cluster
    #[arg(value_parser = identity_id, add = complete::ids(IDENTITIES))]
    id: String,
    #[command(flatten)]
    how: AccessWriteArgs,
}

fn role(name: &str) -> Result<Role, String> {
    Role::parse(name).ok_or_else(|| format!("expected one of {}", Role::ALL.map(Role::name).join(", ")))
}

/// The role of a new identity.
fn new_role(name: &str) -> Result<Role, String> {
    match role(name)? {
        Role::Cluster => {
            Err("a cluster gets its identity with its first token: `token create --cluster ID`".to_owned())
        }
        role => Ok(role),
    }
}

pub(crate) fn run(session: &Session<'_>, command: &IdentityCommand) -> Result<(), Failure> {
    match command {
        IdentityCommand::List(args) => list(session, args),
        IdentityCommand::Get(args) => get(session, args),
        IdentityCommand::Create(args) => create(session, args),
        IdentityCommand::Update(args) => update(session, args),
        IdentityCommand::Delete(args) => delete(session, args),
    }
}

fn list(session: &Session<'_>, args: &ListArgs) -> Result<(), Failure> {
    let parameters = [
        ("role", args.role.map(|role| role.name().to_owned())),
        ("limit", args.limit.map(|limit| limit.to_string())),
        ("offset", args.offset.map(|offset| offset.to_string())),
    ];
    let found = session.client.get(&with_query(&format!("/{IDENTITIES}"), parameters))?;
    print(session, &found)
}

fn get(session: &Session<'_>, args: &GetArgs) -> Result<(), Failure> {
    let ids = unique(args.ids.clone());
    let found: Result<Vec<Value>, Failure> = ids.iter().map(|id| Ok(find(session, id)?.value)).collect();
    match found?.as_slice() {
        [one] => print(session, one),
        several => print(session, &Value::Array(several.to_vec())),
    }
}

fn print(session: &Session<'_>, found: &Value) -> Result<(), Failure> {
    let items = match found {
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let names = || {
        items
            .iter()
            .map(|item| format!("{IDENTITIES}/{}", text(&item["id"])))
            .collect()
    };
    session.printer.print(found, |wide| table(items, wide), names)
}

fn table(identities: &[Value], wide: bool) -> Table {
    let mut heading = vec!["id", "role", "scope", "tokens", "expires"];
    if wide {
        heading.extend(["certificates", "claims", "description"]);
    }
    let mut table = Table::new(&heading);
    for identity in identities {
        // A count of zero is left out of the document.
        let mut identity = identity.clone();
        if identity["used"].is_null() {
            identity["used"] = 0.into();
        }
        let mut cells = vec![
            cell(&identity["id"]),
            cell(&identity["role"]),
            scope(&identity),
            tokens(&identity).len().to_string(),
            cell(&identity["expires_at"]),
        ];
        if wide {
            cells.extend(["certificates", "claims", "description"].map(|name| cell(&identity[name])));
        }
        table.row(cells.into_iter().map(|text| (text, Tone::Plain)));
    }
    table
}

fn create(session: &Session<'_>, args: &CreateArgs) -> Result<(), Failure> {
    args.fields.check(args.role)?;
    let mut document = args.fields.document(session, Some(args.role))?;
    document["id"] = args.id.as_str().into();
    document["role"] = args.role.name().into();
    let change = Change::new(Method::Post, format!("/{IDENTITIES}"), args.how.reason.as_deref()).with_body(document);
    if args.how.dry_run {
        return show_plan(session, &change);
    }
    let reply = send(session, &change)?;
    show_done(session, &reply, Some(("create", &args.id)))?;
    let reached = &session.client.json(&reply)?;
    if reached["certificates"].is_null() && reached["claims"].is_null() {
        session
            .printer
            .hint(&format!("`token create {}` issues its first token", args.id));
    }
    Ok(())
}

fn update(session: &Session<'_>, args: &UpdateArgs) -> Result<(), Failure> {
    let present = find(session, &args.id)?;
    if let Some(role) = Role::parse(text(&present.value["role"])) {
        args.fields.check(role)?;
    }
    let mut patch = args.fields.document(session, None)?;
    for field in &args.unset {
        field.clear(&mut patch);
    }
    if patch.as_object().is_none_or(serde_json::Map::is_empty) {
        return Err(Failure::usage("name the fields to change, or --unset FIELD"));
    }
    let change = Change::new(Method::Patch, path(&args.id), args.how.reason.as_deref()).with_body(patch);
    if args.how.dry_run {
        return show_plan(session, &change);
    }
    let reply = send(session, &change)?;
    let is_changed = reply.etag.as_ref() != Some(&present.etag);
    show_done(session, &reply, is_changed.then_some(("update", &args.id)))
}

fn delete(session: &Session<'_>, args: &DeleteArgs) -> Result<(), Failure> {
    let present = find(session, &args.id)?;
    let mut change = Change::new(Method::Delete, path(&args.id), args.how.reason.as_deref());
    change.if_match = Some(present.etag.clone());
    if args.how.dry_run {
        return show_plan(session, &change);
    }
    let question = format!("Delete the identity {}", args.id);
    confirm_loss(session, args.how.yes, &[lost(&present.value)], &question)?;
    let reply = send(session, &change).map_err(|failure| explain(failure, &args.id))?;
    show_done(session, &reply, Some(("delete", &args.id)))
}

/// What a deletion takes away.
fn lost(identity: &Value) -> String {
    let role = text(&identity["role"]);
    let mut ways: Vec<String> = Vec::new();
    let count = |number: usize, noun: &str| match number {
        1 => format!("1 {noun}"),
        number => format!("{number} {noun}s"),
    };
    match tokens(identity).len() {
        0 => {}
        number => ways.push(count(number, "token")),
    }
    match identity["certificates"].as_array().map_or(0, Vec::len) {
        0 => {}
        number => ways.push(count(number, "certificate name")),
    }
    if identity["claims"].is_object() {
        ways.push("its claims".to_owned());
    }
    let id = text(&identity["id"]);
    match (cluster_of(id), ways.is_empty()) {
        (_, true) => format!("the {role} {id} is deleted; it has no tokens"),
        (Some(cluster), _) => format!(
            "the cluster {cluster} can no longer poll: the server refuses {} from now on. It keeps what it has",
            ways.join(", ")
        ),
        (None, _) => format!("the server refuses {} of the {role} {id} from now on", ways.join(", ")),
    }
}

/// The failure of a flag that the role has no use for.
fn unfit(flag: &str, role: Role, owner: &str) -> Failure {
    let article = if matches!(role, Role::Operator | Role::Admin) {
        "an"
    } else {
        "a"
    };
    Failure::new(
        Code::Usage,
        format!("--{flag} is for {owner}: {article} {} has no such scope", role.name()),
    )
}

/// An empty object, to be filled.
fn empty() -> Value {
    json!({})
}
