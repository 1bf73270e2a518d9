//! A fleet of 100,000 clusters: `make ui-large`, with an optimised server. It prints what it measures.

use std::path::Path;
use std::time::{Duration, Instant};

use testkit::client::Reply;
use testkit::{Folder, READ, Server, Setup};

use crate::browser::visit;
use crate::fleet::{self, Fleet, Outcome, id};

const CLUSTERS: usize = 100_000;
const FIRST_PAGE: Duration = Duration::from_millis(200);
const PACKED: usize = 300 << 10;
const MAP_DRAWN: f64 = 1500.0;

fn start(folder: &Folder) -> Server {
    let binary =
        std::env::var_os("SERVER_BINARY").expect("SERVER_BINARY is the optimised server: make ui-large sets it");
    let setup = Setup::of(Path::new(&binary), folder.root())
        .env("AUTH_TOKEN", READ)
        .env("CRUD_AUTH_TOKEN", testkit::WRITE)
        .env("LISTEN_ADDR", "127.0.0.1:0")
        .env("API_MODE", "crud")
        .env("DATABASE_URL", format!("sqlite://{}", folder.database().display()))
        .env("SEED_FILE", folder.seed(&fleet::seed(CLUSTERS)));
    setup.start_within(Duration::from_secs(300))
}

fn packed(server: &Server, path: &str) -> Reply {
    let headers = [("accept-encoding", "gzip")];
    server.reader().send("GET", path, &headers, &[]).expect(200)
}

/// The quickest of a few requests: what the page costs, without what else the machine does.
fn quickest(server: &Server, path: &str) -> Duration {
    let once = |_| {
        let begun = Instant::now();
        packed(server, path);
        begun.elapsed()
    };
    (0..9).map(once).min().unwrap()
}

#[test]
#[ignore = "needs an optimised server and a minute: make ui-large"]
fn a_hundred_thousand_clusters_are_on_one_page() {
    let folder = Folder::new();
    let server = start(&folder);
    let fleet = Fleet::on(server, folder);
    // States that differ from cell to cell: a map of one colour would be packed to nothing.
    for n in (0..CLUSTERS).step_by(37) {
        match n % 3 {
            0 => fleet.report(&id(n), Outcome::Ready),
            1 => fleet.report(&id(n), Outcome::Fails("podinfo", "UpgradeFailed", "timed out")),
            _ => drop(fleet.poll(&id(n))),
        }
    }
    let server = &fleet.server;
    let page = packed(server, "/ui");
    let html = server.reader().get("/ui");
    let assets = html.text().split('"').filter(|part| part.starts_with("/ui/assets/"));
    let mut assets: Vec<&str> = assets.collect();
    assets.sort_unstable();
    assets.dedup();
    let files: usize = assets.iter().map(|asset| packed(server, asset).body.len()).sum();
    let map = packed(server, "/ui/map?by=environment").body.len();
    let bytes = page.body.len() + files + map;
    let (first, map_time) = (quickest(server, "/ui"), quickest(server, "/ui/map?by=environment"));
    println!("first page: {first:?} on the server; the map's data: {map_time:?}");
    println!(
        "packed: page {} B, files {files} B, map {map} B, together {bytes} B",
        page.body.len()
    );
    let mut drawn = Vec::new();
    visit(server, async |page| {
        page.sign_in(READ, "/ui").await;
        for _ in 0..3 {
            page.open("/ui").await;
            page.wait("the map", async || {
                page.count(&format!("#map[data-drawn='{CLUSTERS}']")).await == 1
            })
            .await;
            let time = page
                .run("return performance.getEntriesByName('map-drawn')[0].startTime", vec![])
                .await;
            drawn.push(time.as_f64().unwrap());
        }
    });
    let quickest = drawn.iter().copied().fold(f64::INFINITY, f64::min);
    println!("map drawn in Chromium, from the click: {drawn:.0?} ms");
    assert!(first <= FIRST_PAGE, "the first page takes {first:?}");
    assert!(bytes <= PACKED, "the first page has {bytes} bytes");
    assert!(quickest <= MAP_DRAWN, "the map takes {quickest} ms");
}
