//! Bytes of a connection, through hyper's parser, the poll function and the router of a read-only server, in this process.

use std::cell::LazyCell;
use std::io::Read;
use std::sync::Arc;

use clap::Parser;
use flate2::read::GzDecoder;
use flux_resourceset::app::engine::{self, Engine};
use flux_resourceset::app::templates::Templates;
use flux_resourceset::app::{App, start};
use flux_resourceset::auth::Environment;
use flux_resourceset::commands::Cli;
use flux_resourceset::config::{Backend, Config, Mode, Seed, TokenSource};
use flux_resourceset::http::Api;
use flux_resourceset::metrics::Metrics;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use store::{Memory, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};

use crate::accepted;

/// The token of the inputs in the corpus.
const TOKEN: &str = "fuzz";
/// More than any reply of the demo fleet.
const PIPE: usize = 1 << 20;

/// No 5xx, no panic, and every 200 of a poll is a valid reply.
pub fn poll(bytes: &[u8]) {
    thread_local! {
        static SERVER: LazyCell<(Runtime, Api)> = LazyCell::new(start);
    }
    SERVER.with(|server| {
        let (runtime, api) = &**server;
        let replies = runtime.block_on(exchange(api.clone(), bytes));
        check(bytes, &replies);
    });
}

fn start() -> (Runtime, Api) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let api = runtime.block_on(api());
    (runtime, api)
}

/// A read-only server on the demo fleet, in memory.
async fn api() -> Api {
    let config = config();
    let store: Arc<dyn Store> = Arc::new(Memory::default());
    let fleet = start::prepare(&config, &*store, true).await.expect("the demo fleet");
    let recent = engine::recent_removals(&*store, config.budget)
        .await
        .expect("an empty log");
    let metrics = Arc::new(Metrics::default());
    let tokens = Arc::new(Environment::load(&config).expect("one token"));
    let (engine, _task) = Engine::start(store.clone(), fleet, metrics.clone(), config.budget, Ok(recent));
    let templates = Arc::new(Templates::load(None).expect("the shipped templates"));
    Api::new(Arc::new(App::new(&config, engine, store, tokens, metrics, templates)))
}

fn config() -> Config {
    let options = Cli::parse_from(["flux-resourceset"]).options;
    let mut config = options.read_without_tokens().expect("the defaults");
    config.mode = Mode::ReadOnly;
    config.backend = Backend::Memory;
    config.read_tokens = TokenSource {
        token: Some(TOKEN.to_owned()),
        file: None,
    };
    config.seed = Seed::Named(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/seed.json").into());
    config.resources_dir = None;
    config
}

/// Sends the bytes on one connection, closes it for writing, and reads all that comes back.
async fn exchange(api: Api, bytes: &[u8]) -> Vec<u8> {
    let (mut client, server) = tokio::io::duplex(PIPE);
    let connection = http1::Builder::new()
        .max_headers(64)
        .max_buf_size(32 << 10)
        .serve_connection(TokioIo::new(server), TowerToHyperService::new(api));
    let talk = async {
        let _closed_early = client.write_all(bytes).await;
        let _closed_early = client.shutdown().await;
        let mut replies = Vec::new();
        client.read_to_end(&mut replies).await.expect("a pipe can be read");
        replies
    };
    let (_connection, replies) = tokio::join!(connection, talk);
    replies
}

/// The status of the first reply, and its body if it is that of a poll.
fn check(request: &[u8], replies: &[u8]) {
    let Some(end) = replies.windows(4).position(|window| window == b"\r\n\r\n") else {
        return;
    };
    let head = String::from_utf8_lossy(&replies[..end]).to_lowercase();
    assert!(!head.starts_with("http/1.1 5"), "{head}");
    let is_poll = request.starts_with(b"GET /api/v2/flux/clusters/") && head.starts_with("http/1.1 200");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    if let (true, Some(length)) = (is_poll, length) {
        let length: usize = length.parse().expect("a length");
        let body = &replies[end + 4..end + 4 + length];
        match head.contains("content-encoding: gzip") {
            true => accepted::assert_valid(&unpacked(body)),
            false => accepted::assert_valid(body),
        }
    }
}

fn unpacked(body: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    GzDecoder::new(body).read_to_end(&mut text).expect("a gzipped body");
    text
}
