//! Followers of the log, who resume where they were. No revision is left out, none comes twice, all agree on digests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::{Error, Result};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::WITHOUT_A_FAULT;
use crate::client::Request;
use crate::process::Process;
use crate::run::Run;
use crate::site::Site;

pub(crate) async fn act(run: Arc<Run>, site: Arc<Site>, number: usize) {
    let mut rng = run.rng(&format!("stream {}", site.name), number);
    let mut at = None;
    while !run.is_over() {
        let process = site.any_crud(&mut rng);
        let begun = Instant::now();
        let followed = follow(&run, &site, process, number, &mut at);
        let left = run.duration.saturating_sub(run.begun.elapsed());
        match timeout(left, followed).await {
            Err(_over) => return,
            Ok(Ok(())) => run.tally.count("streams resumed"),
            Ok(Err(error)) => {
                run.tally.count("streams resumed");
                let explained = process.down.touches(begun) || site.fault.touches(begun) || site.attack.touches(begun);
                if !explained {
                    run.findings
                        .add(WITHOUT_A_FAULT, format!("stream of {}: {error}", process.name));
                }
            }
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Reads events until the server ends the stream. What is wrong with the log is a finding, not an error.
async fn follow(run: &Run, site: &Site, process: &Process, number: usize, at: &mut Option<u64>) -> Result<()> {
    let mut request = Request::new("GET", "/changes/stream");
    if let Some(at) = at {
        request = request.header("Last-Event-ID", &at.to_string());
    }
    let mut stream = BufReader::new(request.open(process.addr).await?);
    let start = head(&mut stream).await?;
    let mut last = *at.get_or_insert(start);
    let mut text = String::new();
    loop {
        let Some(piece) = chunk(&mut stream).await? else {
            return Ok(());
        };
        text.push_str(std::str::from_utf8(&piece)?);
        while let Some(end) = text.find("\n\n") {
            let event: String = text.drain(..end + 2).collect();
            let Some(event) = Event::parse(&event)? else { continue };
            run.tally.count("events");
            if event.revision != last + 1 {
                let problem = format!("{}: revision {} after {last}", process.name, event.revision);
                run.findings.add("a stream has no gap and no repetition", problem);
            }
            last = event.revision;
            *at = Some(last);
            note(run, site, number, &event);
        }
    }
}

/// Remembers how far a stream is, and compares what it saw with the others.
fn note(run: &Run, site: &Site, number: usize, event: &Event) {
    let mut feed = site.feed.lock().expect("no panic while it is held");
    feed.at.insert(number, event.revision);
    let known = feed
        .digests
        .entry(event.revision)
        .or_insert_with(|| event.digest.clone());
    if *known != event.digest {
        let problem = format!("{}: revision {} has two digests", site.name, event.revision);
        run.findings.add("all streams see the same log", problem);
    }
}

struct Event {
    revision: u64,
    digest: String,
}

impl Event {
    /// None: a comment, which keeps the connection alive.
    fn parse(text: &str) -> Result<Option<Event>> {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let (Some(id), Some(data)) = (field("id:"), field("data:")) else {
            return Ok(None);
        };
        let data: Value = serde_json::from_str(data)?;
        let revision: u64 = id.parse()?;
        if data["revision"] != revision {
            return Err("an event whose id is not its revision".into());
        }
        let digest = data["digest"].as_str().ok_or("an event without a digest")?.to_owned();
        Ok(Some(Event { revision, digest }))
    }
}

/// Reads the head of the reply; gives the revision that the stream begins after.
async fn head(stream: &mut BufReader<TcpStream>) -> Result<u64> {
    let mut revision = None;
    let mut first = None;
    loop {
        let line = line(stream).await?;
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("x-revision:") {
            revision = value.trim().parse().ok();
        }
        first.get_or_insert(line);
    }
    let status = first.unwrap_or_default();
    match status.contains(" 200 ") {
        true => revision.ok_or_else(|| Error::from("a stream without X-Revision")),
        false => Err(status.into()),
    }
}

/// The next chunk; none at the end.
async fn chunk(stream: &mut BufReader<TcpStream>) -> Result<Option<Vec<u8>>> {
    let size = usize::from_str_radix(&line(stream).await?, 16)?;
    let mut bytes = vec![0; size + 2];
    stream.read_exact(&mut bytes).await?;
    bytes.truncate(size);
    Ok((size > 0).then_some(bytes))
}

async fn line(stream: &mut BufReader<TcpStream>) -> Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Err("the stream broke off".into());
    }
    Ok(line.trim_end().to_owned())
}
