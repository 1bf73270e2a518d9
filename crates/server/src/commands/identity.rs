use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use fleet::Fleet;
use fleet::identity::{CLUSTER_PREFIX, IDENTITIES, Identity, Role, TokenId, cluster_of};
use fleet::log::Author;
use fleet::operation::{Operation, Verb};
use serde_json::{Value, json};

use super::store::{self, Offline};
use super::{Failure, output};
use crate::app::engine::{WriteError, WriteRequest};
use crate::app::start::SYSTEM;
use crate::auth::{NewToken, now};
use crate::config::Options;
use crate::config::values::duration;

/// Create, list and revoke identities on the store, without a server: the first admin, or one more when all tokens are lost.
///
/// Servers on the same store see the change like any other.
#[derive(Args, Debug)]
pub(super) struct IdentityCommand {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Create(Create),
    /// List identities: id, role, tokens, expiry. Tokens are never shown.
    List,
    Revoke(Revoke),
}

/// Create an identity and a token of it. The token is printed on standard output, once.
///
/// For a cluster (`cluster:ID`), and for an identity that exists, only a token is added. An identity with --claim gets no token: its
/// callers have a JWT of OIDC_ISSUER.
#[derive(Args, Debug)]
struct Create {
    /// Its name, which is the actor of its changes in the log; or cluster:ID.
    id: String,
    /// What it may do. Not needed for a cluster.
    #[arg(long)]
    role: Option<NamedRole>,
    /// For an operator: the clusters that it may change, as a selector.
    #[arg(long, value_name = "SELECTOR")]
    clusters: Option<String>,
    /// For an operator: a kind that it may write besides clusters. May be repeated.
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
    /// For a join identity: how DNS names of new clusters end, as in .k8s.example.com.
    #[arg(long, value_name = "SUFFIX")]
    dns_suffix: Option<String>,
    /// For a join identity: how many clusters may register.
    #[arg(long, value_name = "NUMBER")]
    uses: Option<u32>,
    /// What the JWT of a caller must claim to be this identity, as in groups=platform-admins. May be repeated, also with the same name:
    /// then all values must be claimed.
    #[arg(long = "claim", value_name = "NAME=VALUE", value_parser = claim, conflicts_with = "expires_in")]
    claims: Vec<(String, String)>,
    /// How long the token is valid, as in 90d. Without it, it does not expire.
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    expires_in: Option<Duration>,
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

/// Revoke one token of an identity, or all of them.
#[derive(Args, Debug)]
struct Revoke {
    id: String,
    /// The id of the token. Without it, the identity is deleted with all its tokens.
    #[arg(long, value_name = "TOKEN_ID", value_parser = token_id)]
    token: Option<TokenId>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum NamedRole {
    Reader,
    Operator,
    Admin,
    Mirror,
    Join,
}

impl NamedRole {
    fn name(self) -> &'static str {
        match self {
            NamedRole::Reader => Role::Reader.name(),
            NamedRole::Operator => Role::Operator.name(),
            NamedRole::Admin => Role::Admin.name(),
            NamedRole::Mirror => Role::Mirror.name(),
            NamedRole::Join => Role::Join.name(),
        }
    }
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let time = duration(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| "expected a time such as 30m, 12h or 90d".to_owned())
}

fn claim(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    match name.is_empty() || value.is_empty() {
        true => Err("expected NAME=VALUE".to_owned()),
        false => Ok((name.to_owned(), value.to_owned())),
    }
}

fn token_id(text: &str) -> Result<TokenId, String> {
    TokenId::parse(text)
        .ok_or_else(|| "expected the id of a token: 16 hexadecimal digits, as `identity list` shows it".to_owned())
}

impl IdentityCommand {
    pub(super) async fn run(&self, options: &Options) -> Result<(), Failure> {
        let problem =
            "a memory store exists only inside its server: choose sqlite or postgres, or use POST /identities";
        match &self.command {
            Action::List => list(options).await,
            Action::Create(create) => {
                let offline = store::open_offline(options, problem).await?;
                let outcome = create.run(&offline).await;
                offline.close().await;
                match outcome? {
                    Some(token) => output::print(format_args!("{token}\n")),
                    None => {
                        output::report(format_args!("created"));
                        Ok(())
                    }
                }
            }
            Action::Revoke(revoke) => {
                let offline = store::open_offline(options, problem).await?;
                let verb = match revoke.token {
                    Some(token) => Verb::RevokeToken {
                        id: revoke.id.clone(),
                        token,
                    },
                    None => Verb::Delete {
                        id: revoke.id.clone(),
                        cascade: false,
                    },
                };
                let outcome = write(&offline, vec![Operation::new(IDENTITIES, verb)], "revoke").await;
                offline.close().await;
                outcome?;
                output::report(format_args!("revoked"));
                Ok(())
            }
        }
    }
}

impl Create {
    /// Creates the identity, unless it exists, and returns the text of a new token, unless it has claims.
    async fn run(&self, offline: &Offline) -> Result<Option<String>, Failure> {
        let present = offline.engine.fleet().identities().get(&self.id);
        let (role, document) = match (&present, cluster_of(&self.id), self.role) {
            (Some(identity), _, None) => (identity.role, None),
            (Some(_), _, Some(_)) => {
                let detail = format!(
                    "there is already an identity \"{}\": leave out --role to add a token to it",
                    self.id
                );
                return Err(Failure::Refused(detail));
            }
            (None, Some(_), _) => (Role::Cluster, None),
            (None, None, Some(role)) => (
                Role::parse(role.name()).unwrap_or(Role::Reader),
                Some(self.document(role)),
            ),
            (None, None, None) => {
                let detail = format!("--role is required for a new identity (for a cluster, use {CLUSTER_PREFIX}ID)");
                return Err(Failure::Refused(detail));
            }
        };
        if !self.claims.is_empty() {
            let value = document.ok_or_else(|| {
                Failure::Refused(
                    "--claim is for a new identity; PATCH /identities/{id} changes one that exists".to_owned(),
                )
            })?;
            let create = Operation::new(IDENTITIES, Verb::Create { id: None, value });
            write(offline, vec![create], "create").await?;
            return Ok(None);
        }
        let created_at = now();
        let too_late = || Failure::Refused("--expires-in ends after the year 2106".to_owned());
        let expires_at = self
            .expires_in
            .map(|span| created_at.after(span).ok_or_else(too_late))
            .transpose()?;
        let new =
            NewToken::generate(role, created_at, expires_at).map_err(|error| Failure::Refused(error.to_string()))?;
        let (id, token) = (self.id.clone(), new.stored.clone());
        let create = document.map(|value| Operation::new(IDENTITIES, Verb::Create { id: None, value }));
        let issue = Operation::new(IDENTITIES, Verb::IssueToken { id, token });
        write(offline, create.into_iter().chain([issue]).collect(), "create").await?;
        Ok(Some(new.text))
    }

    fn document(&self, role: NamedRole) -> Value {
        let mut document = json!({"id": self.id, "role": role.name()});
        if let Some(description) = &self.description {
            document["description"] = description.as_str().into();
        }
        for (name, value) in &self.claims {
            let claims = &mut document["claims"][name];
            match claims.as_array_mut() {
                Some(values) => values.push(value.as_str().into()),
                None => *claims = json!([value]),
            }
        }
        match role {
            NamedRole::Operator => {
                document["scope"] =
                    json!({"clusters": self.clusters.as_deref().unwrap_or_default(), "kinds": self.kinds});
            }
            NamedRole::Join => {
                let suffix = self.dns_suffix.as_deref().unwrap_or_default();
                document["scope"] = json!({"dns_suffix": suffix, "uses": self.uses.unwrap_or(1)});
            }
            NamedRole::Reader | NamedRole::Admin | NamedRole::Mirror => {}
        }
        document
    }
}

async fn write(offline: &Offline, operations: Vec<Operation>, what: &str) -> Result<(), Failure> {
    let write = WriteRequest {
        operations,
        author: Author {
            at: crate::now(),
            actor: SYSTEM.into(),
            request_id: crate::request_id(),
            reason: Some(format!("flux-resourceset identity {what}")),
            reversal: None,
            overrides: Vec::new(),
        },
        ..WriteRequest::default()
    };
    let written = offline.engine.write(write).await;
    written.map(drop).map_err(|error| {
        Failure::Refused(match error {
            WriteError::Refused(refusal) => refusal.detail,
            WriteError::Unavailable(detail) => format!("DATABASE_URL: {detail}"),
            WriteError::Stopped(_) | WriteError::Internal => "an internal error, see the log".to_owned(),
        })
    })
}

async fn list(options: &Options) -> Result<(), Failure> {
    let store = store::open_for_reading(options).await?;
    let state = store
        .load()
        .await
        .map_err(|error| Failure::Refused(error.to_string()))?;
    store.close().await;
    let fleet = Fleet::load(state).map_err(Failure::Refused)?;
    let identities = fleet.identities();
    for identity in identities.ids().filter_map(|id| identities.get(&id)) {
        output::print(format_args!("{}", lines(&identity)))?;
    }
    Ok(())
}

/// An identity, and its tokens below.
pub(super) fn lines(identity: &Identity) -> String {
    let end = |time: Option<fleet::identity::Time>| time.map_or_else(|| "never".to_owned(), |time| time.to_string());
    let mut text = format!(
        "{}\t{}\texpires {}\n",
        identity.id,
        identity.role.name(),
        end(identity.expires_at)
    );
    for token in &identity.tokens {
        text.push_str(&format!(
            "  token {}\tcreated {}\texpires {}\n",
            token.id,
            token.created_at,
            end(token.expires_at)
        ));
    }
    text
}
