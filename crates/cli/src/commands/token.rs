//! `token`: the tokens of identities and clusters.

use clap::{Args, Subcommand};
use fleet::identity::{CLUSTER_PREFIX, IDENTITIES, TokenId};
use serde_json::{Value, json};

use crate::args::complete;
use crate::args::given;
use crate::args::ids::cluster_id;
use crate::client::{Change, Method};
use crate::confirm::confirm_loss;
use crate::error::{Code, Failure};
use crate::identities::{
    AccessWriteArgs, Owner, explain, find, identity_id, revocation, send, show_done, show_plan, tokens, tokens_path,
    visible_tokens,
};
use crate::output::{Table, Tone, cell};
use crate::session::{Session, missing_cluster, text};

const CREATE_HELP: &str = "\
The token is printed once, alone on stdout; the store keeps only its SHA-256. -o json prints it with its id and expiry.

Examples:
  flux-resourceset-cli token create team-red --expires-in 90d
  TOKEN=$(flux-resourceset-cli token create --cluster demo-cluster-01)";

const ROTATE_HELP: &str = "\
The new token is printed once, alone on stdout. The old ones go on working, so that clients can change over: revoke them with \
`token revoke` afterwards. With --revoke-old they are refused as soon as the new one exists.";

const ONCE: &str = "it is shown only here";

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Issue a token for an identity or a cluster, and print it
    #[command(after_help = CREATE_HELP)]
    Create(CreateArgs),
    /// List tokens: their ids, never the tokens themselves
    List(ListArgs),
    /// Issue one more token, to replace those that an identity has
    #[command(after_help = ROTATE_HELP)]
    Rotate(RotateArgs),
    /// Revoke a token: every server refuses it as soon as it sees the change
    Revoke(RevokeArgs),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    owner: Owner,
    /// How long the token is valid: 12h, 90d [default: it does not expire]
    #[arg(long, value_name = "TIME", value_parser = given)]
    expires_in: Option<String>,
    #[command(flatten)]
    how: AccessWriteArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct ListArgs {
    /// Only those of this identity; cluster:ID is the one of a cluster
    #[arg(value_parser = identity_id, add = complete::ids(IDENTITIES))]
    identity: Option<String>,
    /// Only those of this cluster
    #[arg(long, value_name = "ID", value_parser = cluster_id, add = complete::cluster_ids(), conflicts_with = "identity")]
    cluster: Option<String>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct RotateArgs {
    #[command(flatten)]
    owner: Owner,
    /// How long the new token is valid: 12h, 90d [default: it does not expire]
    #[arg(long, value_name = "TIME", value_parser = given)]
    expires_in: Option<String>,
    /// Revoke all others when the new one exists
    #[arg(long)]
    revoke_old: bool,
    #[command(flatten)]
    how: AccessWriteArgs,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct RevokeArgs {
    /// The id of the identity (not with --cluster), and the id of the token as `token list` shows it
    #[arg(value_names = ["IDENTITY", "TOKEN"], required = true, num_args = 1..=2, value_parser = given, add = complete::ids(IDENTITIES))]
    words: Vec<String>,
    /// The identity of this cluster
    #[arg(long, value_name = "ID", value_parser = cluster_id, add = complete::cluster_ids())]
    cluster: Option<String>,
    #[command(flatten)]
    how: AccessWriteArgs,
}

pub(crate) fn run(session: &Session<'_>, command: &TokenCommand) -> Result<(), Failure> {
    match command {
        TokenCommand::Create(args) => create(session, args),
        TokenCommand::List(args) => list(session, args),
        TokenCommand::Rotate(args) => rotate(session, args),
        TokenCommand::Revoke(args) => revoke(session, args),
    }
}

fn create(session: &Session<'_>, args: &CreateArgs) -> Result<(), Failure> {
    let id = args.owner.id();
    let change = issue(&id, args.expires_in.as_deref(), args.how.reason.as_deref());
    if args.how.dry_run {
        return show_plan(session, &change).map_err(|failure| unknown_owner(failure, &id));
    }
    let issued = issued(session, &id, &change)?;
    print(session, &issued)?;
    note(session, &issued, ONCE);
    Ok(())
}

/// The request for a token.
pub(crate) fn issue(id: &str, expires_in: Option<&str>, reason: Option<&str>) -> Change {
    let body = match expires_in {
        Some(span) => json!({ "expires_in": span }),
        None => json!({}),
    };
    Change::new(Method::Post, tokens_path(id), reason).with_body(body)
}

/// Sends the request for a token.
pub(crate) fn issued(session: &Session<'_>, id: &str, change: &Change) -> Result<Value, Failure> {
    let reply = send(session, change).map_err(|failure| unknown_owner(failure, id))?;
    Ok(session.client.json(&reply)?)
}

/// Explains that there is no such identity or cluster.
fn unknown_owner(failure: Failure, id: &str) -> Failure {
    match id.strip_prefix(CLUSTER_PREFIX) {
        Some(cluster) => missing_cluster(failure, cluster),
        None => explain(failure, id),
    }
}

/// Prints a new token: alone, so that a script can keep it, unless another format was asked for.
fn print(session: &Session<'_>, issued: &Value) -> Result<(), Failure> {
    if !session.printer.is_explicit() {
        return session.printer.text(&format!("{}\n", text(&issued["token"])));
    }
    let table = |_| {
        let columns = ["identity", "id", "expires_at", "token"];
        let mut table = Table::new(columns);
        table.row(columns.map(|name| (cell(&issued[name]), Tone::Plain)));
        table
    };
    session
        .printer
        .print(issued, table, || vec![text(&issued["id"]).to_owned()])
}

/// Says what was issued, and where it is.
pub(crate) fn note(session: &Session<'_>, issued: &Value, place: &str) {
    let expiry = match issued["expires_at"].as_str() {
        Some(time) => format!("is valid until {time}"),
        None => "does not expire".to_owned(),
    };
    session.printer.note(&format!(
        "token {} of {} {expiry}; {place}",
        text(&issued["id"]),
        text(&issued["identity"])
    ));
}

fn list(session: &Session<'_>, args: &ListArgs) -> Result<(), Failure> {
    let cluster = args
        .cluster
        .as_ref()
        .map(|cluster| format!("{CLUSTER_PREFIX}{cluster}"));
    let identities = match args.identity.clone().or(cluster) {
        Some(id) => json!([find(session, &id)?.value]),
        None => session.client.get(&format!("/{IDENTITIES}"))?,
    };
    let mut all = Vec::new();
    for identity in identities.as_array().into_iter().flatten() {
        for token in tokens(identity) {
            let mut token = token.clone();
            token["identity"] = identity["id"].clone();
            token["role"] = identity["role"].clone();
            if token.get("expires_at").is_none() {
                token["expires_at"] = Value::Null;
            }
            all.push(token);
        }
    }
    let table = |_| {
        let mut table = Table::new(["identity", "role", "token", "created", "expires"]);
        for token in &all {
            let columns = ["identity", "role", "id", "created_at", "expires_at"];
            table.row(columns.map(|name| (cell(&token[name]), Tone::Plain)));
        }
        table
    };
    let names = || all.iter().map(|token| text(&token["id"]).to_owned()).collect();
    session.printer.print(&Value::Array(all.clone()), table, names)
}

fn rotate(session: &Session<'_>, args: &RotateArgs) -> Result<(), Failure> {
    let id = args.owner.id();
    let change = issue(&id, args.expires_in.as_deref(), args.how.reason.as_deref());
    let old = visible_tokens(session, &id)?;
    if args.revoke_old && old.is_none() {
        let failure =
            Failure::refused("--revoke-old needs the right to see the tokens of identities, which only admins have");
        return Err(failure.hint("rotate without it, and revoke the old token by its id: `token revoke`"));
    }
    let old = old.unwrap_or_default();
    if args.how.dry_run {
        show_plan(session, &change).map_err(|failure| unknown_owner(failure, &id))?;
        if args.revoke_old && !old.is_empty() {
            session.printer.note(&format!("would also revoke {}", named(&old)));
        }
        return Ok(());
    }
    if args.revoke_old && !old.is_empty() {
        let losses = [format!(
            "the server refuses {} of {id} as soon as the new one exists",
            named(&old)
        )];
        confirm_loss(session, args.how.yes, &losses, &format!("Replace the tokens of {id}"))?;
    }
    let issued = issued(session, &id, &change)?;
    print(session, &issued)?;
    note(session, &issued, ONCE);
    if !args.revoke_old {
        session.printer.hint(&match old.is_empty() {
            true => "tokens that it had before stay valid until they are revoked: `token revoke`".to_owned(),
            false => format!(
                "{} still valid: `token revoke {id} {}` when every client has the new one",
                are(&old),
                text(&old[0]["id"])
            ),
        });
        return Ok(());
    }
    for token in &old {
        let change = revocation(&id, text(&token["id"]), args.how.reason.as_deref());
        match send(session, &change) {
            Ok(_) => session.printer.note(&format!("revoked {}", text(&token["id"]))),
            // It was revoked by someone else in between.
            Err(failure) if failure.code == Code::NotFound => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

fn ids(tokens: &[Value]) -> String {
    let ids: Vec<&str> = tokens.iter().map(|token| text(&token["id"])).collect();
    ids.join(" ")
}

fn named(tokens: &[Value]) -> String {
    match tokens.len() {
        1 => format!("the token {}", ids(tokens)),
        _ => format!("the tokens {}", ids(tokens)),
    }
}

fn are(tokens: &[Value]) -> String {
    let verb = if tokens.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", named(tokens))
}

fn revoke(session: &Session<'_>, args: &RevokeArgs) -> Result<(), Failure> {
    let (id, token) = args.split()?;
    let change = revocation(&id, token, args.how.reason.as_deref());
    if args.how.dry_run {
        return show_plan(session, &change).map_err(|failure| unknown_token(failure, &id));
    }
    // An operator may revoke tokens that it does not see.
    let losses = match visible_tokens(session, &id)? {
        Some(present) if present.iter().any(|known| known["id"] == token) => {
            let rest = match present.len() - 1 {
                0 => "it has no other token".to_owned(),
                1 => "1 other token stays valid".to_owned(),
                others => format!("{others} other tokens stay valid"),
            };
            vec![format!(
                "the server refuses the token {token} of {id} from now on; {rest}"
            )]
        }
        _ => Vec::new(),
    };
    if !losses.is_empty() {
        confirm_loss(session, args.how.yes, &losses, &format!("Revoke the token {token}"))?;
    }
    let reply = send(session, &change).map_err(|failure| unknown_token(failure, &id))?;
    show_done(session, &reply, Some(("update", &id)))
}

fn unknown_token(failure: Failure, id: &str) -> Failure {
    match failure.code {
        Code::NotFound if failure.message.contains("no token") => {
            failure.hint(format!("`token list {id}` lists its tokens"))
        }
        _ => explain(failure, id),
    }
}

impl RevokeArgs {
    /// The identity, and the id of the token.
    fn split(&self) -> Result<(String, &str), Failure> {
        let (id, token) = match (&self.cluster, self.words.as_slice()) {
            (Some(cluster), [token]) => (format!("{CLUSTER_PREFIX}{cluster}"), token),
            (None, [identity, token]) => (identity_id(identity).map_err(Failure::usage)?, token),
            _ => {
                let failure = Failure::usage("name the identity and the id of the token");
                return Err(failure.hint("`token list` lists the tokens; `identity delete` revokes all of an identity"));
            }
        };
        match TokenId::parse(token) {
            Some(_) => Ok((id, token)),
            // A token in place of its id must not appear in a message.
            None => {
                let failure = Failure::usage("a token is revoked by its id, which has 16 hexadecimal digits");
                Err(failure.hint("`token list` lists the ids"))
            }
        }
    }
}
