//! Replicas that share a PostgreSQL server, and what may happen to it.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pgtest::{PASSWORD, Server as Postgres};
use serde_json::json;

use testkit::client::{Client, Reply};
use testkit::{Folder, READ, Server, Setup, cluster, eventually, poll};

/// A database, and the folder of the processes that share it.
struct Fleet {
    folder: Folder,
    url: String,
}

impl Fleet {
    fn on(postgres: &Postgres) -> Self {
        Fleet {
            folder: Folder::new(),
            url: postgres.database(),
        }
    }

    fn crud(&self) -> Setup {
        self.folder.crud().env("DATABASE_URL", &self.url)
    }

    fn read_only(&self) -> Setup {
        self.folder.read_only().env("DATABASE_URL", &self.url)
    }
}

fn ready(server: &Server) -> Reply {
    server.anonymous().get("/ready")
}

fn revision(server: &Server) -> u64 {
    ready(server).revision().unwrap_or_default()
}

/// Waits until all serve the same: the last of what any of them has.
#[track_caller]
fn agree(servers: &[&Server]) {
    eventually("all serve the same revision", || {
        let revisions: BTreeSet<u64> = servers.iter().map(|server| revision(server)).collect();
        revisions.len() == 1
    });
}

fn metric(server: &Server, name: &str) -> f64 {
    let text = server.reader().get("/metrics").expect(200).text().to_owned();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value
        .and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("no {name} in\n{text}"))
}

/// Ends what goes on beside a test, also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asks all the time, and fails when any answer is not 200.
struct Pollers {
    stop: AtomicBool,
    count: AtomicUsize,
}

impl Pollers {
    /// Polls `path` on each server while `work` is done; returns how many polls there were.
    fn beside<T>(servers: &[&Server], path: &str, work: impl FnOnce(&dyn Fn()) -> T) -> (T, usize) {
        let pollers = Pollers {
            stop: AtomicBool::new(false),
            count: AtomicUsize::new(0),
        };
        let done = thread::scope(|scope| {
            for server in servers {
                let (client, pollers) = (server.reader(), &pollers);
                scope.spawn(move || {
                    while !pollers.stop.load(Ordering::Relaxed) {
                        client.get(path).expect(200);
                        pollers.count.fetch_add(1, Ordering::Relaxed);
                        thread::sleep(Duration::from_millis(2));
                    }
                });
            }
            let more = || {
                let seen = pollers.count.load(Ordering::Relaxed);
                eventually("polls go on", || {
                    pollers.count.load(Ordering::Relaxed) > seen + 5 * servers.len()
                });
            };
            let _at_the_end = Stop(&pollers.stop);
            work(&more)
        });
        (done, pollers.count.into_inner())
    }
}

/// What writers sent, and what they were told.
#[derive(Default)]
struct Written {
    sent: BTreeSet<String>,
    acknowledged: BTreeSet<String>,
}

/// Creates clusters until told to stop. What is refused with 503 may be there or not, like what broke off.
fn write_until(stop: &AtomicBool, client: &Client, name: &str, written: &Mutex<Written>) {
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let id = format!("{name}-{n}");
        written.lock().unwrap().sent.insert(id.clone());
        let body = cluster(&id).to_string();
        match client.try_send("POST", "/clusters", &[], body.as_bytes()) {
            Ok(reply) if reply.status == 201 => drop(written.lock().unwrap().acknowledged.insert(id)),
            Ok(reply) => {
                assert!(reply.header("retry-after").is_some(), "{reply:?}");
                reply.expect(503);
                thread::sleep(Duration::from_millis(10));
            }
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// A write that the store cannot take is told so, at once.
fn turned_away(server: &Server) {
    let started = Instant::now();
    server.writer().post("/namespaces", &json!({"id": "n"})).expect(503);
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

/// Holds what is there against what was acknowledged, and every replica against the first.
fn check(servers: &[&Server], written: &Mutex<Written>) {
    agree(servers);
    let there: BTreeSet<_> = servers[0].writer().ids("clusters").into_iter().collect();
    let written = written.lock().unwrap();
    let lost: Vec<_> = written.acknowledged.difference(&there).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    assert!(there.is_subset(&written.sent));
    assert!(!written.acknowledged.is_empty());
    servers[0].writer().changes_without_gaps();
    for id in &there {
        for server in servers {
            server.reader().get(&poll(id)).expect(200);
        }
    }
}

#[test]
fn ten_replicas_that_start_at_once_fill_the_database_once() {
    let fleet = Fleet::on(Postgres::shared());
    let seed = fleet.folder.seed(&json!({"clusters": [cluster("seeded")]}));
    let processes: Vec<_> = (0..10)
        .map(|n| {
            let setup = if n % 3 == 0 { fleet.read_only() } else { fleet.crud() };
            setup.env("SEED_FILE", &seed).spawn()
        })
        .collect();
    for process in &processes {
        let address = testkit::address_in(&process.line("listening"));
        let client = Client::new(address, Some(READ));
        assert_eq!(client.get("/ready").expect(200).revision(), Some(1));
        let answer = client.get(&poll("seeded")).expect(200);
        assert_eq!(answer.text(), r#"{"inputs":[]}"#);
    }
}

#[test]
fn replicas_give_the_same_bytes_and_two_writers_lose_no_update() {
    const EACH: usize = 8;
    let fleet = Fleet::on(Postgres::shared());
    let (a, b) = (fleet.crud().start(), fleet.crud().start());
    let (c, d) = (fleet.read_only().start(), fleet.read_only().start());
    for path in ["/clusters", "/changes", "/backup"] {
        c.writer().get(path).expect(404);
    }
    a.writer().post("/clusters", &cluster("shared")).expect(201);
    agree(&[&a, &b, &c, &d]);
    thread::scope(|scope| {
        for writer in 0..8 {
            let client = [&a, &b][writer % 2].writer();
            scope.spawn(move || {
                for n in 0..EACH {
                    let label = json!({"labels": {format!("w{writer}-{n}"): "there"}});
                    let sent = client.send("PATCH", "/clusters/shared", &[], label.to_string().as_bytes());
                    sent.expect(200);
                }
            });
        }
    });
    agree(&[&a, &b, &c, &d]);
    let shared = a.writer().get("/clusters/shared").expect(200).json();
    assert_eq!(shared["labels"].as_object().unwrap().len(), 8 * EACH);
    assert_eq!(a.writer().changes_without_gaps(), b.writer().changes());
    let answers = [&a, &b, &c, &d].map(|server| {
        let answer = server.reader().get(&poll("shared")).expect(200);
        (answer.header("etag").unwrap().to_owned(), answer.body)
    });
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    // Each of the commands works on the database, beside its servers.
    let verified = fleet.crud().args(&["verify"]).run();
    assert!(verified.status.success(), "{}", verified.stderr);
    assert!(
        verified.stdout.contains(&format!("{}:", 2 + 8 * EACH)),
        "{}",
        verified.stdout
    );
}

#[test]
fn a_write_that_changes_nothing_here_is_held_against_what_is_there() {
    let fleet = Fleet::on(Postgres::shared());
    let (a, b) = (fleet.crud().start(), fleet.crud().start());
    a.writer().post("/clusters", &cluster("c")).expect(201);
    agree(&[&a, &b]);
    for n in 0..40 {
        // Through the other one, which may not have heard of it: the last word counts all the same.
        for (server, tier) in [(&a, "qa"), (&b, "dev")] {
            let body = json!({"environment": tier}).to_string();
            server
                .writer()
                .send("PATCH", "/clusters/c", &[], body.as_bytes())
                .expect(200);
        }
        let stored = b.writer().get("/clusters/c").expect(200).json();
        assert_eq!(stored["environment"], "dev", "round {n}");
        let id = format!("n{n}");
        a.writer().post("/namespaces", &json!({"id": id})).expect(201);
        b.writer().delete(&format!("/namespaces/{id}")).expect(204);
    }
}

#[test]
fn a_database_that_was_lost_does_not_make_anybody_forget_the_fleet() {
    let postgres = Postgres::start(&[]);
    let fleet = Fleet::on(&postgres);
    let file = fleet.folder.path("snapshot.gz");
    let seed = fleet.folder.seed(&json!({"clusters": [cluster("seeded")]}));
    let setup = || fleet.crud().env("SNAPSHOT_FILE", &file).env("SEED_FILE", &seed);
    let (crud, reader) = (setup().start(), fleet.read_only().start());
    for n in 0..3 {
        crud.writer().post("/clusters", &cluster(&format!("c{n}"))).expect(201);
    }
    agree(&[&crud, &reader]);
    eventually("what is served is known to be current", || {
        metric(&reader, "flux_resourceset_snapshot_age_seconds") < 4.0
    });
    let kept = crud.stop();
    assert!(kept.stderr.contains("stopped"));
    let name = fleet.url.rsplit('/').next().unwrap().to_owned();
    postgres.sql("postgres", &format!("DROP DATABASE {name} WITH (FORCE)"));
    postgres.sql("postgres", &format!("CREATE DATABASE {name}"));
    // Whoever kept a copy does not begin anew, whoever has none may, and the others do not follow.
    let error = setup().run_for_its_error();
    assert!(
        error.contains("the database is empty, but SNAPSHOT_FILE holds a fleet"),
        "{error}"
    );
    let anew = fleet.crud().env("SEED_FILE", &seed).start();
    assert_eq!(revision(&anew), 1);
    reader.process.line("the store was created again");
    reader.reader().get(&poll("c2")).expect(200);
    assert_eq!(revision(&reader), 4);
}

#[test]
fn a_stream_ends_where_the_history_is_another_one() {
    let postgres = Postgres::start(&[]);
    let fleet = Fleet::on(&postgres);
    let (crud, other) = (fleet.crud().start(), fleet.crud().start());
    crud.writer().post("/clusters", &cluster("c")).expect(201);
    agree(&[&crud, &other]);
    let then = postgres.save();
    eventually("writes go on", || {
        crud.writer().post("/clusters", &cluster("lost")).status == 201
    });
    agree(&[&crud, &other]);
    let mut stream = testkit::client::Connection::open(other.address).unwrap();
    stream
        .send(other.reader().head("GET", "/changes/stream?after=1", &[]))
        .unwrap();
    let mut seen = String::new();
    while !seen.contains("lost") {
        seen.push_str(&stream.some());
    }
    // The process does not see the moment at which the store is behind it.
    other.process.signal("STOP");
    postgres.go_back(&then);
    for id in ["new-1", "new-2", "new-3"] {
        eventually("writes go on", || {
            [201, 409].contains(&crud.writer().post("/clusters", &cluster(id)).status)
        });
    }
    other.process.signal("CONT");
    agree(&[&crud, &other]);
    loop {
        let more = stream.some();
        assert!(!more.contains("new-"), "{more}");
        if more.is_empty() || more.ends_with("0\r\n\r\n") {
            break;
        }
    }
}

#[test]
fn a_server_that_could_not_be_written_to_for_a_while_is_written_to_again() {
    let postgres = Postgres::shared();
    let fleet = Fleet::on(postgres);
    let crud = fleet.crud().start();
    let name = fleet.url.rsplit('/').next().unwrap().to_owned();
    let read_only = |value: &str| {
        postgres.sql(
            &name,
            &format!("ALTER DATABASE {name} SET default_transaction_read_only = {value}"),
        );
    };
    // As a connection is to a primary that has become a standby.
    read_only("on");
    postgres.kill_connections(&fleet.url, "%");
    eventually("it is refused", || {
        crud.writer().post("/clusters", &cluster("a")).status == 503
    });
    postgres.sql(
        "postgres",
        &format!("ALTER DATABASE {name} RESET default_transaction_read_only"),
    );
    eventually("it is taken", || {
        [201, 409].contains(&crud.writer().post("/clusters", &cluster("a")).status)
    });
}

#[test]
fn commands_that_need_a_store_do_not_create_one() {
    let fleet = Fleet::on(Postgres::shared());
    for command in [&["verify"][..], &["compact", "--before", "1"], &["backup", "-"]] {
        let error = fleet.crud().args(command).run_for_its_error();
        assert!(error.contains("its schema does not exist yet"), "{command:?}: {error}");
    }
    let server = fleet.crud().start();
    server.writer().post("/clusters", &cluster("c")).expect(201);
    let compacted = fleet.crud().args(&["compact", "--before", "2"]).run();
    assert!(compacted.status.success(), "{}", compacted.stderr);
}

#[test]
fn a_fleet_moves_from_sqlite_to_postgres_as_it_is() {
    let fleet = Fleet::on(Postgres::shared());
    let old = fleet.folder.crud().start();
    for n in 0..5 {
        old.writer().post("/clusters", &cluster(&format!("c{n}"))).expect(201);
    }
    old.writer().delete("/clusters/c4").expect(204);
    let file = fleet.folder.path("fleet.jsonl.gz");
    let file = file.to_str().unwrap();
    assert!(fleet.folder.crud().args(&["backup", file]).run().status.success());
    let restored = fleet.crud().args(&["restore", file]).run();
    assert!(restored.status.success(), "{}", restored.stderr);
    let new = fleet.crud().start();
    assert_eq!(new.writer().changes(), old.writer().changes());
    for n in 0..5 {
        let path = poll(&format!("c{n}"));
        let answers = [&old, &new].map(|server| server.reader().get(&path).expect(200));
        assert_eq!(answers[0].header("etag"), answers[1].header("etag"));
    }
}

#[test]
fn a_read_only_process_needs_only_select_and_waits_for_the_schema() {
    let postgres = Postgres::shared();
    let fleet = Fleet::on(postgres);
    let name = fleet.url.rsplit('/').next().unwrap().to_owned();
    let role = format!("reader_of_{name}");
    postgres.sql(&name, &format!("CREATE ROLE {role} LOGIN PASSWORD 'only-reads'"));
    let url = postgres.url_of(&role, "only-reads", &name);
    let process = fleet
        .read_only()
        .env("DATABASE_URL", &url)
        .env("LISTEN_ADDR", "127.0.0.1:0");
    let process = process.env("RUST_LOG", "info").spawn();
    process.line("waiting for the store");
    let writer = fleet.crud().start();
    writer.writer().post("/clusters", &cluster("c")).expect(201);
    assert!(!process.log().iter().any(|line| line.contains("listening")));
    postgres.sql(
        &name,
        &format!(
            "GRANT USAGE ON SCHEMA flux_resourceset TO {role};
             GRANT SELECT ON ALL TABLES IN SCHEMA flux_resourceset TO {role}"
        ),
    );
    let reader = Server {
        address: testkit::address_in(&process.line("listening")),
        process,
    };
    ready(&reader).expect(200);
    writer.writer().post("/clusters", &cluster("d")).expect(201);
    eventually("it follows", || reader.reader().get(&poll("d")).status == 200);
    // It does not get to write, whatever it is told to be.
    let crud = fleet.crud().env("DATABASE_URL", &url).run_for_its_error();
    assert!(crud.contains("DATABASE_URL"), "{crud}");
    assert!(!crud.contains("only-reads"), "{crud}");
}

#[test]
fn while_postgres_is_away_polls_are_answered_and_writes_are_refused_at_once() {
    let postgres = Postgres::start(&[]);
    let fleet = Fleet::on(&postgres);
    let (crud, reader) = (fleet.crud().start(), fleet.read_only().start());
    crud.writer().post("/clusters", &cluster("c")).expect(201);
    agree(&[&crud, &reader]);
    let write = |id: &str| crud.writer().post("/clusters", &cluster(id));
    let ((), polls) = Pollers::beside(&[&crud, &reader], &poll("c"), |more| {
        for round in 0..3 {
            postgres.down();
            more();
            let refused = write("d");
            assert!(refused.header("retry-after").is_some());
            refused.expect(503);
            for _ in 0..10 {
                turned_away(&crud);
            }
            // Also what changes nothing: somebody else may have changed it.
            write("c").expect(409);
            let same = crud
                .writer()
                .send("PATCH", "/clusters/c", &[], br#"{"environment": "dev"}"#);
            same.expect(503);
            // What needs no store goes on.
            ready(&crud).expect(200);
            let plan = "/clusters/c?dry_run=true";
            crud.writer()
                .send("PATCH", plan, &[], br#"{"node_count": 1}"#)
                .expect(200);
            eventually("it is seen that the store is away", || {
                metric(&crud, "flux_resourceset_store_available") == 0.0
            });
            postgres.up();
            let id = format!("r{round}");
            eventually("writes go on", || write(&id).status == 201);
            eventually("the other one follows", || {
                reader.reader().get(&poll(&id)).status == 200
            });
        }
    });
    assert!(polls > 100, "{polls}");
    assert_eq!(metric(&crud, "flux_resourceset_history_changes_total"), 0.0);
    assert_eq!(crud.writer().ids("clusters"), ["c", "r0", "r1", "r2"]);
}

#[test]
fn nothing_acknowledged_is_lost_while_connections_are_killed_and_the_server_stops_and_pauses() {
    let postgres = Postgres::start(&[]);
    let fleet = Fleet::on(&postgres);
    let (a, b) = (fleet.crud().start(), fleet.crud().start());
    let (c, d) = (fleet.read_only().start(), fleet.read_only().start());
    a.writer().post("/clusters", &cluster("always")).expect(201);
    agree(&[&a, &b, &c, &d]);
    let written = Mutex::new(Written::default());
    written.lock().unwrap().sent.insert("always".to_owned());
    let stop = AtomicBool::new(false);
    let acknowledged = || written.lock().unwrap().acknowledged.len();
    let progress = |what: &str| {
        let before = acknowledged();
        eventually(what, || acknowledged() > before + 10);
    };
    Pollers::beside(&[&a, &b, &c, &d], &poll("always"), |more| {
        thread::scope(|scope| {
            let _at_the_end = Stop(&stop);
            for n in 0..4 {
                let (client, written, stop) = ([&a, &b][n % 2].writer(), &written, &stop);
                scope.spawn(move || write_until(stop, &client, &format!("w{n}"), written));
            }
            for _ in 0..5 {
                progress("writes are acknowledged");
                assert!(postgres.kill_connections(&fleet.url, "%") > 0);
            }
            for _ in 0..2 {
                progress("writes are acknowledged after connections were killed");
                postgres.down();
                more();
                postgres.up();
            }
            for _ in 0..2 {
                progress("writes are acknowledged after it was down");
                postgres.pause();
                more();
                // Nobody waits for long, once it is known.
                for server in [&a, &b] {
                    eventually("it is seen that the store does not answer", || {
                        metric(server, "flux_resourceset_store_available") == 0.0
                    });
                    for _ in 0..10 {
                        turned_away(server);
                    }
                }
                more();
                postgres.resume();
            }
            progress("writes are acknowledged after it was paused");
        });
    });
    check(&[&a, &b, &c, &d], &written);
    for server in [&a, &b, &c, &d] {
        assert_eq!(metric(server, "flux_resourceset_history_changes_total"), 0.0);
    }
    let verified = fleet.crud().args(&["verify"]).run();
    assert!(verified.status.success(), "{}", verified.stderr);
}

#[test]
fn a_crud_replica_that_is_killed_leaves_all_of_a_commit_or_nothing() {
    let fleet = Fleet::on(Postgres::shared());
    let other = fleet.crud().start();
    let written = Mutex::new(Written::default());
    for round in 0..5 {
        let server = fleet.crud().start();
        let (stop, client) = (AtomicBool::new(false), server.writer());
        thread::scope(|scope| {
            let _at_the_end = Stop(&stop);
            scope.spawn(|| write_until(&stop, &client, &format!("r{round}"), &written));
            let before = written.lock().unwrap().acknowledged.len();
            eventually("writes are acknowledged", || {
                written.lock().unwrap().acknowledged.len() > before + 10
            });
            server.process.kill();
        });
        other
            .writer()
            .post("/namespaces", &json!({"id": format!("n{round}")}))
            .expect(201);
    }
    check(&[&other], &written);
}

/// What it was promoted by may be gone.
#[test]
fn a_rollout_halts_when_the_history_changes_under_it() {
    let postgres = Postgres::start(&[]);
    let fleet = Fleet::on(&postgres);
    let crud = fleet.crud().start();
    let mut one = cluster("c");
    one["namespaces"] = json!([{"id": "n"}]);
    crud.writer().post("/namespaces", &json!({"id": "n"})).expect(201);
    crud.writer().post("/clusters", &one).expect(201);
    let rollout = json!({
        "id": "r", "waves": [{"name": "half", "percent": 50}, {"name": "rest", "approve": true}],
        "operations": [{"op": "merge", "kind": "namespaces", "id": "n", "value": {"labels": {"version": "two"}}}],
    });
    crud.writer().post("/rollouts", &rollout).expect(201);
    let state = || {
        let rollout = crud.reader().get("/rollouts/r").json();
        (rollout["state"].clone(), rollout["wave"].clone())
    };
    eventually("the first wave is promoted", || {
        state() == (json!("running"), json!("half"))
    });
    let then = postgres.save();
    eventually("writes go on", || {
        crud.writer().post("/clusters", &cluster("lost")).status == 201
    });
    postgres.go_back(&then);
    eventually("the rollout halts", || state() == (json!("halted"), json!("half")));
    let message = crud.reader().get("/rollouts/r").json()["message"].clone();
    assert!(
        message.as_str().unwrap().starts_with("the store has another history"),
        "{message}"
    );
    eventually("it goes on when a person says so", || {
        crud.writer().post("/rollouts/r/resume", &json!({})).status == 200
    });
}

#[test]
fn a_failover_that_lost_the_tail_is_noticed_by_every_replica() {
    let postgres = Postgres::start(&[]);
    let fleet = Fleet::on(&postgres);
    let (crud, reader) = (fleet.crud().start(), fleet.read_only().start());
    let label = |value: &str| {
        let body = json!({"environment": value}).to_string();
        crud.writer().send("PATCH", "/clusters/c", &[], body.as_bytes())
    };
    crud.writer().post("/clusters", &cluster("c")).expect(201);
    agree(&[&crud, &reader]);
    let then = postgres.save();
    eventually("writes go on", || label("qa").status == 200);
    for n in 0..4 {
        crud.writer()
            .post("/clusters", &cluster(&format!("lost-{n}")))
            .expect(201);
    }
    agree(&[&crud, &reader]);
    let lost = revision(&reader);
    Pollers::beside(&[&crud, &reader], &poll("c"), |_| {
        // The standby comes up five revisions behind.
        postgres.go_back(&then);
        for server in [&crud, &reader] {
            eventually("the head that went back is noticed", || {
                metric(server, "flux_resourceset_history_changes_total") == 1.0
            });
            let line = server.process.line("the store has another history");
            assert!(line.contains("the store lost commits"), "{line}");
            eventually("what was lost is not served", || revision(server) == lost - 5);
            server.reader().get(&poll("lost-0")).expect(404);
        }
        // The same numbers are given out again, for other content. The first write may find its connection broken.
        for n in 0..5 {
            let new = cluster(&format!("new-{n}"));
            eventually("writes go on", || crud.writer().post("/clusters", &new).status == 201);
        }
        agree(&[&crud, &reader]);
        assert_eq!(revision(&reader), lost);
        reader.reader().get(&poll("new-4")).expect(200);
        reader.reader().get(&poll("lost-3")).expect(404);
    });
    // A follower that was cut off until the numbers had been given out again.
    let then = postgres.save();
    eventually("writes go on", || label("prod").status == 200);
    agree(&[&crud, &reader]);
    reader.process.signal("STOP");
    postgres.go_back(&then);
    eventually("writes go on", || label("uat").status == 200);
    for n in 0..3 {
        let newer = cluster(&format!("newer-{n}"));
        eventually("writes go on", || crud.writer().post("/clusters", &newer).status == 201);
    }
    reader.process.signal("CONT");
    agree(&[&crud, &reader]);
    assert_eq!(metric(&reader, "flux_resourceset_history_changes_total"), 2.0);
    let lists = [&crud, &reader].map(|server| server.reader().get("/api/v2/flux/clusters").expect(200).body);
    assert_eq!(lists[0], lists[1]);
    assert!(String::from_utf8_lossy(&lists[1]).contains("uat"));
    let verified = fleet.crud().args(&["verify"]).run();
    assert!(verified.status.success(), "{}", verified.stderr);
}

#[test]
fn a_replica_starts_from_its_snapshot_file_while_postgres_is_away() {
    let postgres = Postgres::start(&[]);
    let fleet = Fleet::on(&postgres);
    let file = fleet.folder.path("snapshot.gz");
    let crud = fleet.crud().start();
    crud.writer().post("/clusters", &cluster("c")).expect(201);
    let setup = || fleet.read_only().env("SNAPSHOT_FILE", &file);
    let reader = setup().start();
    let answer = reader.reader().get(&poll("c")).expect(200);
    eventually("the file is there", || file.exists());
    reader.stop();
    postgres.down();

    // Without a file there is nothing to serve, and it says what is wrong.
    let error = fleet.read_only().run_for_its_error();
    assert!(error.contains("DATABASE_URL"), "{error}");
    assert!(!error.contains(PASSWORD), "{error}");
    fleet.folder.write("damaged.gz", b"no snapshot");
    let damaged = fleet.folder.path("damaged.gz");
    let error = fleet.read_only().env("SNAPSHOT_FILE", damaged).run_for_its_error();
    assert!(error.contains("SNAPSHOT_FILE"), "{error}");

    // With one it waits, unless it may serve what is old.
    let waiting = setup().spawn();
    waiting.line("waiting for the store");
    let stale = setup()
        .env("ALLOW_STALE_START", "true")
        .env("MAX_STALENESS", "1h")
        .start();
    let again = stale.reader().get(&poll("c")).expect(200);
    assert_eq!(
        (again.header("etag"), &again.body),
        (answer.header("etag"), &answer.body)
    );
    assert_eq!(metric(&stale, "flux_resourceset_store_available"), 0.0);
    let stale_crud = fleet
        .crud()
        .env("SNAPSHOT_FILE", &file)
        .env("ALLOW_STALE_START", "true")
        .start();
    stale_crud.writer().post("/clusters", &cluster("d")).expect(503);
    assert!(!waiting.log().iter().any(|line| line.contains("listening")));

    postgres.up();
    let waiting = Server {
        address: testkit::address_in(&waiting.line("listening")),
        process: waiting,
    };
    eventually("writes go on", || {
        stale_crud.writer().post("/clusters", &cluster("d")).status == 201
    });
    for server in [&crud, &stale, &stale_crud, &waiting] {
        eventually("everybody follows", || server.reader().get(&poll("d")).status == 200);
        ready(server).expect(200);
    }
}

#[test]
fn a_replica_with_a_snapshot_that_is_too_old_is_not_ready() {
    let postgres = Postgres::start(&[]);
    let fleet = Fleet::on(&postgres);
    let crud = fleet.crud().start();
    crud.writer().post("/clusters", &cluster("c")).expect(201);
    let (any, fresh) = (
        fleet.read_only().start(),
        fleet.read_only().env("MAX_STALENESS", "10s").start(),
    );
    postgres.down();
    eventually("it is too old", || ready(&fresh).status == 503);
    // Whoever asks nevertheless is answered.
    fresh.reader().get(&poll("c")).expect(200);
    let body = ready(&any).expect(200).json();
    assert!(body["age_seconds"].as_u64().unwrap() >= 5, "{body}");
    postgres.up();
    eventually("it is fresh again", || ready(&fresh).status == 200);
}
