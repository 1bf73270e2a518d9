//! Identities, tokens, registration.

use fleet::identity::{Role, SCHEMA};
use fleet::kind::Kinds;
use serde_json::{Value, json};

use super::Operation;
use super::resources::history_page;
use crate::http::openapi::convert::to_openapi;
use crate::http::openapi::schemas::{any_object, array, described, object, reference, text};

/// The tag of these operations.
const TAG: &str = "identities";

pub fn whoami(_: &Kinds) -> Operation {
    let roles = Role::ALL.map(Role::name);
    let properties = json!({
        "id": described("The identity of the caller, or the name of its token in the environment.", text()),
        "subject": described("Whom the caller's JWT names. The actor of its changes in the log is `id/subject`.", text()),
        "role": {"type": "string", "enum": roles},
        "scope": {"type": "object", "nullable": true, "description": "How far it reaches. Null: as far as its role."},
        "expires_at": {"type": "string", "format": "date-time", "nullable": true},
    });
    Operation::new(TAG, "whoami", "The caller, its role and its scope.").answer(
        200,
        "The caller.",
        object(&["id", "role", "scope", "expires_at"], properties),
    )
}

pub fn discovery(_: &Kinds) -> Operation {
    let login = json!({
        "issuer": described("The issuer to log in to, by OpenID Connect.", text()),
        "client_id": described("A public client, with PKCE.", text()),
        "scopes": described("What to ask for, separated by blanks.", text()),
    });
    let mut login = object(&["issuer", "client_id", "scopes"], login);
    login["nullable"] = true.into();
    login["description"] = "Null: this server accepts no JWT.".into();
    let summary = "How people log in to get a JWT. Public.";
    Operation::new(TAG, "discovery", summary).answer(200, "How to log in.", object(&["login"], json!({"login": login})))
}

pub fn list_identities(_: &Kinds) -> Operation {
    Operation::new(
        TAG,
        "list_identities",
        "List identities. Digests of tokens are not shown.",
    )
    .query(
        "role",
        "Only identities of this role.",
        json!({"type": "string", "enum": Role::ALL.map(Role::name)}),
    )
    .paged()
    .answer(200, "The identities.", array(shown()))
    .late()
}

pub fn create_identity(_: &Kinds) -> Operation {
    Operation::new(TAG, "create_identity", "Create an identity. It has no token yet.")
        .writes()
        .document_body(sent())
        .answer(201, "The identity.", shown())
        .problem(409, "The id is taken.")
        .dry_run()
}

pub fn get_identity(_: &Kinds) -> Operation {
    instance(Operation::new(
        TAG,
        "get_identity",
        "Get an identity. Digests of tokens are not shown.",
    ))
    .answer(200, "The identity; ETag is its version.", shown())
    .not_modified()
}

pub fn replace_identity(_: &Kinds) -> Operation {
    instance(Operation::new(TAG, "replace_identity", "Replace an identity. Its tokens stay.").writes())
        .if_match()
        .document_body(sent())
        .answer(200, "The identity.", shown())
        .dry_run()
}

pub fn patch_identity(_: &Kinds) -> Operation {
    instance(Operation::new(TAG, "patch_identity", "Change fields of an identity. Its tokens stay.").writes())
        .if_match()
        .body(&[
            (
                "application/json",
                described("Objects merge, null removes.", any_object()),
            ),
            ("application/merge-patch+json", described("RFC 7396.", any_object())),
        ])
        .answer(200, "The identity.", shown())
        .dry_run()
}

pub fn delete_identity(_: &Kinds) -> Operation {
    instance(
        Operation::new(
            TAG,
            "delete_identity",
            "Delete an identity: all its tokens are refused from then on.",
        )
        .writes(),
    )
    .if_match()
    .answer_plain(204, "Deleted.")
    .dry_run()
}

pub fn history_identity(_: &Kinds) -> Operation {
    let summary = "Every change of an identity: who, when and why. The documents are not shown.";
    history_page(instance(Operation::new(TAG, "history_identity", summary)))
}

pub fn issue_token(_: &Kinds) -> Operation {
    issue(instance(Operation::new(
        TAG,
        "issue_token",
        "Issue a token of an identity. The response is the only place that shows it.",
    )))
}

pub fn issue_cluster_token(_: &Kinds) -> Operation {
    let summary = "Issue a token with which the cluster polls its own paths, and nothing else. The response is the only place that shows it.";
    let operation = Operation::new(TAG, "issue_cluster_token", summary)
        .path("id", "The id of the cluster.")
        .problem(404, "There is no such cluster.");
    issue(operation)
}

fn issue(operation: Operation) -> Operation {
    let properties = json!({
        "id": described("Names the token, to revoke it.", text()),
        "identity": text(),
        "token": text(),
        "expires_at": {"type": "string", "format": "date-time", "nullable": true},
    });
    let lifetime = "How long the token is valid, such as 30m, 12h or 90d. Without it, it does not expire.";
    let body = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {"expires_in": {"type": "string", "nullable": true, "description": lifetime, "pattern": "^[1-9][0-9]{0,3}[smhd]$"}},
    });
    operation
        .writes()
        .document_body(body)
        .answer(
            201,
            "The token.",
            object(&["id", "identity", "token", "expires_at"], properties),
        )
        .dry_run()
}

pub fn revoke_token(_: &Kinds) -> Operation {
    instance(Operation::new(TAG, "revoke_token", "Revoke a token: it is refused from then on.").writes())
        .path("token", "The id of the token.")
        .answer_plain(204, "Revoked.")
        .dry_run()
}

pub fn register(_: &Kinds) -> Operation {
    let summary = "Register a new cluster, with the token of a join identity. The cluster and its identity are created in one revision.";
    let digest = "The SHA-256 of a token that the cluster made itself, as hexadecimal digits. The same call can then be repeated, and gets 200: a response may be lost.";
    let body = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["cluster_name", "cluster_dns", "environment"],
        "properties": {
            "cluster_name": text(),
            "cluster_dns": text(),
            "environment": text(),
            "labels": {"type": "object", "additionalProperties": text()},
            "token_sha256": {"type": "string", "description": digest, "pattern": "^[0-9a-fA-F]{64}$"},
        },
    });
    let properties = json!({
        "cluster": {"$ref": "#/components/schemas/cluster"},
        "token": described("The cluster's token, unless the cluster sent token_sha256.", text()),
    });
    let registered = object(&["cluster"], properties);
    Operation::new(TAG, "register", summary)
        .reason()
        .document_body(body)
        .answer(200, "Registered before, by the same call.", registered.clone())
        .answer(201, "Registered.", registered)
        .problem(400, "The request cannot be parsed, or asks for a dry run.")
        .problem(
            409,
            "The name or the DNS name is taken, is one of a decommissioned cluster, or was given up by a cluster.",
        )
        .problem(503, "The store is unavailable.")
}

fn instance(operation: Operation) -> Operation {
    operation
        .path("id", "The id of the identity.")
        .problem(404, "There is no such identity.")
}

/// An identity as it is sent.
fn sent() -> Value {
    reference("identity")
}

/// An identity as it is shown: it may be a cluster's.
fn shown() -> Value {
    reference("shown_identity")
}

/// The schemas by their names.
pub fn identity_schemas() -> [(String, Value); 2] {
    let sent = to_openapi(&SCHEMA.schema);
    let mut shown = sent.clone();
    shown["properties"]["role"]["enum"] = json!(Role::ALL.map(Role::name));
    shown["properties"]["id"] = described(
        "Its name; that of a cluster's is `cluster:` and the id of the cluster.",
        text(),
    );
    [("identity".to_owned(), sent), ("shown_identity".to_owned(), shown)]
}
