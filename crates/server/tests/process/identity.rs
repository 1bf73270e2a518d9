//! `flux-resourceset identity` on the store, and a server that has no token but those of its identities.

use serde_json::json;
use testkit::{Folder, eventually};

#[test]
fn the_first_admin_comes_from_the_command_and_the_server_needs_no_other_token() {
    let folder = Folder::new();
    let without_tokens = || folder.crud().without("AUTH_TOKEN").without("CRUD_AUTH_TOKEN");
    let error = without_tokens().run_for_its_error();
    assert!(
        error.contains("AUTH_TOKEN: is required") && error.contains("identity create"),
        "{error}"
    );
    assert!(!folder.database().exists(), "a start that fails leaves nothing");

    let created = without_tokens()
        .args(&["identity", "create", "root", "--role", "admin"])
        .run();
    assert_eq!(created.status.code(), Some(0), "{created:?}");
    let token = created.stdout.trim();
    assert!(
        token.starts_with("frs_a_") && created.stdout.lines().count() == 1,
        "{created:?}"
    );
    let server = without_tokens().start();
    let root = server.with(token);
    let me = root.get("/whoami").expect(200).json();
    assert_eq!(me["id"], "root");
    root.post("/namespaces", &json!({"id": "made-by-root"})).expect(201);
    assert_eq!(root.changes().last().unwrap()["actor"], "root");

    // One more token, and the list, beside the running server.
    let more = without_tokens()
        .args(&["identity", "create", "root", "--expires-in", "1h"])
        .run();
    let more = more.stdout.trim().to_owned();
    eventually("the new token is accepted", || {
        server.with(&more).get("/whoami").status == 200
    });
    let list = without_tokens().args(&["identity", "list"]).run();
    assert_eq!(list.stdout.matches("  token ").count(), 2, "{}", list.stdout);
    assert!(
        !list.stdout.contains(token) && list.stdout.contains("root\tadmin\texpires never"),
        "{}",
        list.stdout
    );
    let first = list.stdout.lines().nth(1).unwrap().split_whitespace().nth(1).unwrap();
    let revoked = without_tokens()
        .args(&["identity", "revoke", "root", "--token", first])
        .run();
    assert_eq!(revoked.status.code(), Some(0), "{revoked:?}");
    eventually("the revoked token is refused", || {
        server.with(token).get("/whoami").status == 401
    });
    server.with(&more).get("/whoami").expect(200);
    let log = server.stop().stderr;
    assert!(!log.contains(token) && !log.contains(&more), "a token is in the log");
}

#[test]
fn what_cannot_be_created_is_named() {
    let folder = Folder::new();
    folder
        .crud()
        .args(&["identity", "create", "root", "--role", "admin"])
        .run();
    for (arguments, expected) in [
        (
            &["create", "root", "--role", "admin"][..],
            "there is already an identity \"root\"",
        ),
        (&["create", "ann"], "--role is required"),
        (&["create", "cluster:nobody"], "there is no cluster \"nobody\""),
        (&["create", "ci", "--role", "operator"], "/scope/clusters"),
        (
            &["create", "ann", "--role", "reader", "--expires-in", "soon"],
            "expected a time",
        ),
        (&["revoke", "nobody"], "there is no identity \"nobody\""),
        (
            &["revoke", "root", "--token", "0123456789abcdef"],
            "has no token 0123456789abcdef",
        ),
        (&["revoke", "root", "--token", "x"], "16 hexadecimal digits"),
    ] {
        let ended = folder.crud().args(&["identity"]).args(arguments).run();
        assert_ne!(ended.status.code(), Some(0), "{ended:?}");
        assert!(
            ended.stderr.contains(expected) && ended.stdout.is_empty(),
            "{arguments:?}: {ended:?}"
        );
    }
}
