//! Measures a disk or a server: `cargo run --release -p store --example commits -- sqlite:/data/probe.db 1000`, or with the
//! URL of an empty PostgreSQL database.
//!
//! Commits single changes one after another, then imports documents of 2 KB in revisions of 1,000, and loads them all.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use fleet::json::Json;
use fleet::log::{Author, Batch, Change};
use store::{Access, Postgres, Sqlite, Store};

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let url = args
        .next()
        .expect("usage: commits URL [SINGLE COMMITS] [REVISIONS OF 1,000]");
    let mut number = |default: usize| args.next().map_or(default, |arg| arg.parse().unwrap());
    let (singles, revisions) = (number(1000), number(100));

    let store: Box<dyn Store> = match url.starts_with("postgres") {
        true => Box::new(Postgres::open(&url, Access::Write).await.unwrap()),
        false => Box::new(Sqlite::open(&url).await.unwrap()),
    };
    let run = std::process::id();

    let mut times = Vec::new();
    let mut before = None;
    for n in 0..singles {
        let id = format!("single-{run}");
        let after = body(&id, n);
        let change = change(id, before.replace(after.clone()), after);
        times.push(commit(&*store, vec![change]).await);
    }
    times.sort_unstable();
    if let (Some(median), Some(worst)) = (times.get(singles / 2), times.last()) {
        let (rate, p99) = (
            singles as f64 / times.iter().sum::<Duration>().as_secs_f64(),
            times[singles * 99 / 100],
        );
        println!("{singles} single commits: {rate:.0}/s, median {median:?}, p99 {p99:?}, worst {worst:?}");
    }

    let mut total = Duration::ZERO;
    for revision in 0..revisions {
        let import = (0..1000).map(|n| {
            let id = format!("import-{run}-{:07}", revision * 1000 + n);
            change(id.clone(), None, body(&id, n))
        });
        total += commit(&*store, import.collect()).await;
    }
    if revisions > 0 {
        let rate = (revisions * 1000) as f64 / total.as_secs_f64();
        println!("{revisions} revisions of 1,000 documents: {rate:.0} documents/s");
    }

    let start = Instant::now();
    let count = store.load().await.unwrap().resources.len();
    println!("load of {count} documents: {:?}", start.elapsed());
    store.close().await;
}

async fn commit(store: &dyn Store, changes: Vec<Change>) -> Duration {
    let base = store.head().await.unwrap();
    let author = Author {
        at: "2026-01-01T00:00:00.000000Z".into(),
        actor: "probe".into(),
        ..Author::default()
    };
    let batch = Batch {
        author,
        changes,
        applied: Vec::new(),
        ..Batch::default()
    };
    let start = Instant::now();
    store.commit(base, &[batch]).await.unwrap();
    start.elapsed()
}

fn change(id: String, before: Option<Json>, after: Json) -> Change {
    Change {
        kind: "clusters".into(),
        unique: Some(format!("{id}.example.com")),
        keeps_unique: before.is_some(),
        id: id.into(),
        before,
        after: Some(after),
        origin: None,
    }
}

fn body(id: &str, n: usize) -> Json {
    let filler = "0123456789abcdef".repeat(122);
    Json::from_canonical(format!(r#"{{"filler":"{filler}","id":"{id}","n":{n}}}"#))
}
