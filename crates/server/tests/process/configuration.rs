//! A setting that cannot be used ends the process with one line that names it.

use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;

use serde_json::json;

use testkit::{Ended, Folder, READ, Setup, WRITE, cluster};

use crate::shell::shell;

/// Every variable: those of the book first.
const VARIABLES: [&str; 22] = [
    "API_MODE",
    "STORE_BACKEND",
    "DATABASE_URL",
    "AUTH_TOKEN",
    "CRUD_AUTH_TOKEN",
    "SEED_FILE",
    "OPENAPI_FILE",
    "LISTEN_ADDR",
    "RUST_LOG",
    "AUTH_TOKEN_FILE",
    "CRUD_AUTH_TOKEN_FILE",
    "RESOURCES_DIR",
    "METRICS_ADDR",
    "MAX_CONNECTIONS",
    "SHUTDOWN_GRACE",
    "LOG_FORMAT",
    "TEMPLATES_DIR",
    "REMOVAL_BUDGET",
    "REMOVAL_WINDOW",
    "MAX_STALENESS",
    "SNAPSHOT_FILE",
    "ALLOW_STALE_START",
];

/// Runs starts that must fail, looks at the form of what they say, and collects it for a snapshot.
struct Failures<'a> {
    folder: &'a Folder,
    text: String,
}

impl<'a> Failures<'a> {
    fn new(folder: &'a Folder) -> Self {
        Failures {
            folder,
            text: String::new(),
        }
    }

    /// One setting on top of those that work.
    fn set(&mut self, variable: &str, value: &str) {
        let setup = self.folder.setup().env(variable, value);
        self.check(&format!("{variable}={value}"), variable, setup);
    }

    /// The same, without the value in the snapshot.
    fn check(&mut self, title: &str, variable: &str, setup: Setup) {
        let ended = setup.run();
        check_form(&ended, variable);
        let here = self.folder.path("");
        let here = here.to_str().unwrap().trim_end_matches('/');
        let said = format!("{}\n{}\n", title.trim_end(), ended.stderr);
        self.text.push_str(&said.replace(here, "FOLDER"));
    }
}

#[track_caller]
fn check_form(ended: &Ended, variable: &str) {
    let said = &ended.stderr;
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert_eq!(ended.stdout, "");
    let errors: Vec<_> = said.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{said}");
    assert!(errors[0].starts_with(&format!("error: {variable}: ")), "{said}");
    // Below it: nothing, or a line for each place.
    let below = said.lines().skip_while(|line| !line.starts_with("error: ")).skip(1);
    for line in below {
        assert!(line.starts_with("  "), "{said}");
    }
    for never in ["panicked", "backtrace", "stack", READ, WRITE] {
        assert!(!said.contains(never), "{never} in {said}");
    }
}

#[test]
fn a_value_that_is_none_of_the_options_is_named() {
    let folder = Folder::new();
    let mut failures = Failures::new(&folder);
    failures.set("API_MODE", "both");
    failures.set("API_MODE", "");
    failures.set("STORE_BACKEND", "mysql");
    failures.set("MAX_STALENESS", "soon");
    failures.set("ALLOW_STALE_START", "yes");
    failures.set("LOG_FORMAT", "xml");
    failures.set("LISTEN_ADDR", "8080");
    failures.set("LISTEN_ADDR", "127.0.0.1");
    failures.set("LISTEN_ADDR", "127.0.0.1:99999");
    failures.set("METRICS_ADDR", "");
    failures.set("METRICS_ADDR", "everywhere");
    failures.set("MAX_CONNECTIONS", "0");
    failures.set("MAX_CONNECTIONS", "-1");
    failures.set("MAX_CONNECTIONS", "many");
    failures.set("SHUTDOWN_GRACE", "soon");
    failures.set("SHUTDOWN_GRACE", "1.5");
    failures.set("RUST_LOG", "flux_resourceset=loud");
    failures.set("RUST_LOG", "[{");
    for variable in [
        "SEED_FILE",
        "RESOURCES_DIR",
        "OPENAPI_FILE",
        "AUTH_TOKEN_FILE",
        "CRUD_AUTH_TOKEN_FILE",
    ] {
        failures.set(variable, "");
    }
    insta::assert_snapshot!(failures.text);
}

#[test]
fn a_token_that_is_missing_or_cannot_be_sent_is_named_and_never_shown() {
    let folder = Folder::new();
    let mut failures = Failures::new(&folder);
    failures.check("no token", "AUTH_TOKEN", folder.setup().without("AUTH_TOKEN"));
    failures.set("AUTH_TOKEN", "");
    failures.set("AUTH_TOKEN", "   ");
    failures.set("CRUD_AUTH_TOKEN", "");
    let blank = format!("{READ} {WRITE}");
    let setup = folder.setup().env("AUTH_TOKEN", &blank);
    failures.check("AUTH_TOKEN with a blank", "AUTH_TOKEN", setup);
    let setup = folder.setup().env("CRUD_AUTH_TOKEN", format!("{WRITE}\nmore"));
    failures.check("CRUD_AUTH_TOKEN of two lines", "CRUD_AUTH_TOKEN", setup);
    let bytes = [WRITE.as_bytes(), b"\xff"].concat();
    let setup = folder.setup().env("AUTH_TOKEN", std::ffi::OsStr::from_bytes(&bytes));
    failures.check("AUTH_TOKEN that is not UTF-8", "AUTH_TOKEN", setup);

    folder.write("empty", "\n  \n# nothing but this\n");
    for variable in ["AUTH_TOKEN_FILE", "CRUD_AUTH_TOKEN_FILE"] {
        failures.set(variable, "missing");
        failures.set(variable, "empty");
        failures.set(variable, ".");
    }
    insta::assert_snapshot!(failures.text);
}

#[test]
fn a_seed_that_cannot_be_used_is_named_with_every_place() {
    let folder = Folder::new();
    let mut failures = Failures::new(&folder);
    failures.set("SEED_FILE", "missing.json");
    failures.set("SEED_FILE", ".");
    folder.write("text.json", "clusters: []\n");
    failures.set("SEED_FILE", "text.json");
    folder.write("list.json", "[]");
    failures.set("SEED_FILE", "list.json");
    folder.write(
        "object.json",
        json!({"clusters": {"a": {}}, "namespaces": "b"}).to_string(),
    );
    failures.set("SEED_FILE", "object.json");
    folder.write("unknown.json", json!({"gadgets": [{"id": "a"}]}).to_string());
    failures.set("SEED_FILE", "unknown.json");

    let mut wrong = cluster("Shouting");
    wrong["environment"] = "production".into();
    wrong["node_count"] = "three".into();
    wrong["colour"] = "green".into();
    let places = json!({
        "clusters": [cluster("fine"), wrong, {"id": "bare"}],
        "namespaces": [{"id": "fine"}, {"id": "not~a~name", "labels": {"a": 1}}],
    });
    folder.write("places.json", places.to_string());
    failures.set("SEED_FILE", "places.json");

    let mut twin = cluster("b");
    twin["cluster_dns"] = "A.k8s.example.com".into();
    folder.write("twin.json", json!({"clusters": [cluster("a"), twin]}).to_string());
    failures.set("SEED_FILE", "twin.json");
    let twice = json!({"clusters": [cluster("a"), cluster("b"), cluster("a")]});
    folder.write("twice.json", twice.to_string());
    failures.set("SEED_FILE", "twice.json");

    insta::assert_snapshot!(failures.text);
    // Nothing was kept of any of them: the next start finds the store empty.
    let server = folder
        .crud()
        .env("SEED_FILE", folder.seed(&json!({"clusters": [cluster("a")]})))
        .start();
    assert_eq!(server.writer().ids("clusters"), ["a"]);
}

#[test]
fn a_database_that_cannot_be_used_is_named_and_left_alone() {
    let folder = Folder::new();
    let mut failures = Failures::new(&folder);
    // The password of somebody who expected another engine.
    let setup = folder
        .setup()
        .env("DATABASE_URL", format!("postgres://flux:{WRITE}@127.0.0.1:1/fleet"));
    failures.check("another engine", "DATABASE_URL", setup);
    failures.set("DATABASE_URL", "");
    failures.set("DATABASE_URL", "sqlite:");
    failures.set("DATABASE_URL", "sqlite::memory:");
    failures.set("DATABASE_URL", "sqlite:fleet.db?mode=ro");
    failures.set("DATABASE_URL", "sqlite:fleet.db?mode=rw");
    failures.set("DATABASE_URL", "sqlite:.");

    folder.write("garbage.db", "not a database at all\n".repeat(1000));
    shell(&folder.path("bookmarks.db"), "CREATE TABLE bookmarks (url TEXT)").close();
    for name in ["garbage.db", "bookmarks.db"] {
        let before = std::fs::read(folder.path(name)).unwrap();
        failures.set("DATABASE_URL", &format!("sqlite:{name}"));
        assert_eq!(std::fs::read(folder.path(name)).unwrap(), before);
    }
    failures.set("DATABASE_URL", "sqlite:garbage.db/below/fleet.db");
    insta::assert_snapshot!(failures.text);
}

#[test]
fn a_database_of_a_later_release_stops_an_older_one_in_either_mode() {
    let folder = Folder::new();
    folder.crud().start().stop();
    shell(&folder.database(), "PRAGMA user_version = 7").close();
    let mut failures = Failures::new(&folder);
    failures.check("crud", "DATABASE_URL", folder.crud());
    failures.check("read-only", "DATABASE_URL", folder.read_only());
    let import = folder.setup().args(&["import", "-"]);
    failures.check("import", "DATABASE_URL", import);
    insta::assert_snapshot!(failures.text);
}

#[test]
fn files_of_kinds_that_cannot_be_used_are_named() {
    let folder = Folder::new();
    let mut failures = Failures::new(&folder);
    failures.set("RESOURCES_DIR", "missing");
    folder.write("file", "");
    failures.set("RESOURCES_DIR", "file");
    folder.write("no-yaml/a.yaml", "kind: [unclosed\n");
    failures.set("RESOURCES_DIR", "no-yaml");
    folder.write("no-name/a.yaml", "schema: {type: object}\n");
    failures.set("RESOURCES_DIR", "no-name");
    let quota = "kind: quota\napiVersion: v1\nschema: {type: object, properties: {cpu: {type: string}}}\n";
    folder.write("twice/a.yaml", quota);
    folder.write("twice/b.yml", quota);
    failures.set("RESOURCES_DIR", "twice");
    folder.write("reserved/a.yaml", quota.replace("quota", "change"));
    folder.write("reserved/b.yaml", quota.replace("type: string", "type: strong"));
    failures.set("RESOURCES_DIR", "reserved");
    // It is the folder's fault also when there is a seed, which may need the kind.
    let seed = folder.seed(&json!({"clusters": [cluster("a")], "quotas": [{"id": "small"}]}));
    let setup = folder.setup().env("RESOURCES_DIR", "reserved").env("SEED_FILE", seed);
    failures.check("RESOURCES_DIR=reserved, with a seed", "RESOURCES_DIR", setup);

    failures.set("OPENAPI_FILE", "missing.yaml");
    failures.set("OPENAPI_FILE", ".");
    insta::assert_snapshot!(failures.text);
}

#[test]
fn an_address_in_use_is_named() {
    let folder = Folder::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for variable in ["LISTEN_ADDR", "METRICS_ADDR"] {
        let ended = folder.setup().env(variable, &address).run();
        check_form(&ended, variable);
        assert!(
            ended.stderr.contains(&format!("cannot listen on {address}: ")),
            "{}",
            ended.stderr
        );
    }
    assert!(
        !folder.database().exists(),
        "nothing is created before it is clear that the server can run"
    );
}

#[test]
fn the_help_lists_every_variable_with_its_default_and_shows_no_secret() {
    let folder = Folder::new();
    let ended = folder
        .setup()
        .env("DATABASE_URL", format!("sqlite:{WRITE}"))
        .args(&["--help"])
        .run();
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
    for variable in VARIABLES {
        assert!(
            ended.stdout.contains(&format!("[env: {variable}")),
            "{variable} in {}",
            ended.stdout
        );
        let flag = format!("--{} ", variable.to_lowercase().replace('_', "-"));
        assert!(ended.stdout.contains(&flag), "{flag} in {}", ended.stdout);
    }
    for default in [
        "[default: read-only]",
        "[default: sqlite, or what",
        "[default: sqlite://data/flux-resourceset.db?mode=rwc]",
        "[default: 0.0.0.0:8080]",
        "data/seed.json",
    ] {
        assert!(ended.stdout.contains(default), "{default} in {}", ended.stdout);
    }
    for token in [READ, WRITE] {
        assert!(!ended.stdout.contains(token), "{}", ended.stdout);
    }
    let help = folder.bare().args(&["--help"]).run().stdout;
    // Editors take away the blanks at the ends of lines, which clap leaves there.
    let help: Vec<_> = help.lines().map(str::trim_end).collect();
    insta::assert_snapshot!(help.join("\n"));
}

#[test]
fn a_flag_that_is_not_known_ends_with_a_hint() {
    let ended = Folder::new().setup().args(&["--api-mod", "crud"]).run();
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(2), ""));
    assert!(
        ended.stderr.contains("a similar argument exists: '--api-mode'"),
        "{}",
        ended.stderr
    );
}

#[test]
fn the_version_names_the_commit() {
    let ended = Folder::new().bare().args(&["--version"]).run();
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
    let version = concat!("flux-resourceset ", env!("CARGO_PKG_VERSION"));
    let rest = ended.stdout.strip_prefix(version).unwrap().trim_end();
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    if !root.join(".git").exists() && rest.is_empty() {
        return;
    }
    let build = rest.strip_prefix(" (").unwrap().strip_suffix(')').unwrap();
    let (commit, date) = build.split_once(' ').unwrap_or((build, ""));
    let mut git = std::process::Command::new("git");
    let known = git
        .args(["show", "--no-patch", "--format=%cs", commit])
        .current_dir(root);
    let known = String::from_utf8(known.output().unwrap().stdout).unwrap();
    assert_eq!(known.trim(), date, "{rest}");
}

#[test]
fn flags_of_the_same_name_win_over_variables() {
    let folder = Folder::new();
    let database = format!("sqlite:{}", folder.path("other.db").display());
    let settings = [
        ("--api-mode", "crud"),
        ("--listen-addr", "127.0.0.1:0"),
        ("--database-url", &database),
        ("--auth-token", READ),
        ("--crud-auth-token", WRITE),
        ("--max-connections", "100"),
        ("--log-format", "json"),
    ];
    let args: Vec<_> = settings.iter().flat_map(|(flag, value)| [*flag, *value]).collect();
    let setup = folder
        .bare()
        .env("API_MODE", "read-only")
        .env("LOG_FORMAT", "xml")
        .env("AUTH_TOKEN", "other");
    let server = setup.args(&["serve"]).args(&args).start();
    server.writer().post("/clusters", &cluster("a")).expect(201);
    server.with("other").get("/clusters").expect(401);
    assert!(folder.path("other.db").is_file());
    server.stop();
}

#[test]
fn what_cannot_be_used_is_not_needed_in_memory() {
    let folder = Folder::new();
    let setup = folder.crud().env("STORE_BACKEND", "memory");
    let server = setup.env("DATABASE_URL", "postgres://nowhere").start();
    server.writer().post("/clusters", &cluster("a")).expect(201);
    let ended = server.stop();
    assert!(!ended.stderr.contains("postgres"));
}

#[test]
fn the_description_of_the_api_can_be_a_file_of_the_users() {
    let folder = Folder::new();
    let file = folder.write("openapi.yaml", "openapi: 3.0.3\ninfo: {title: ours}\n");
    let server = folder.crud().env("OPENAPI_FILE", file).start();
    server
        .process
        .line("OPENAPI_FILE differs from the document generated from the kinds");
    assert!(
        server
            .anonymous()
            .get("/openapi.yaml")
            .expect(200)
            .text()
            .contains("title: ours")
    );
}

#[test]
fn the_description_of_the_api_is_printed_without_a_store() {
    let folder = Folder::new();
    let ended = folder.bare().args(&["openapi"]).run();
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
    let server = folder.crud().start();
    assert_eq!(server.anonymous().get("/openapi.yaml").expect(200).text(), ended.stdout);
}

#[test]
fn every_problem_is_reported_at_once() {
    let folder = Folder::new();
    folder.write("tokens", "ann:\nfine-token-of-bob\ntwo words\n");
    folder.write("kinds/a.yaml", "kind: [unclosed\n");
    folder.write("kinds/b.yaml", "schema: {type: object}\n");
    folder.write("templates/a.yaml", "not: [yaml\n");
    let setup = folder.setup().without("AUTH_TOKEN");
    let settings = [
        ("API_MODE", "both"),
        ("DATABASE_URL", "mysql://fleet"),
        ("CRUD_AUTH_TOKEN", ""),
        ("AUTH_TOKEN_FILE", "tokens"),
        ("CRUD_AUTH_TOKEN_FILE", "missing"),
        ("SEED_FILE", ""),
        ("REMOVAL_BUDGET", "many"),
        ("REMOVAL_WINDOW", "soon"),
        ("MAX_STALENESS", "1s"),
        ("ACCEPT_NEW_STORE", "perhaps"),
        ("RESOURCES_DIR", "kinds"),
        ("TEMPLATES_DIR", "templates"),
        ("OPENAPI_FILE", "missing.yaml"),
        ("LISTEN_ADDR", "8080"),
        ("MAX_CONNECTIONS", "0"),
        ("LOG_FORMAT", "xml"),
        ("RUST_LOG", "[{"),
    ];
    let setup = settings
        .iter()
        .fold(setup, |setup, (variable, value)| setup.env(variable, value));
    let ended = setup.run();
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(1), ""));
    for (variable, _) in settings {
        assert!(ended.stderr.contains(&format!("error: {variable}: ")), "{variable}");
    }
    insta::assert_snapshot!(ended.stderr);
}

#[test]
fn every_problem_of_a_mirror_is_reported_at_once() {
    let folder = Folder::new();
    folder.write("empty.pem", "");
    let ended = folder
        .setup()
        .without("AUTH_TOKEN")
        .without("CRUD_AUTH_TOKEN")
        .env("API_MODE", "crud")
        .env("SNAPSHOT_FILE", "copy.gz")
        .env("MIRROR_FROM", "http://ann@fleet.example.com")
        .env("MIRROR_TOKEN_FILE", "missing")
        .env("MIRROR_CA_FILE", "empty.pem")
        .env("MIRROR_REPLACE", "maybe")
        .args(&["mirror"])
        .run();
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(1), ""));
    insta::assert_snapshot!(ended.stderr);
}
