//! Quiet points: no actor runs, and all processes, the model and the log must agree.

use std::path::Path;
use std::time::{Duration, Instant};

use bench::Result;
use bench::generate::{PATHS, Rng};
use tokio::process::Command;
use tokio::time::sleep;

use crate::client::Request;
use crate::model::{Gone, ids};
use crate::process::{Launch, Mode, Process};
use crate::run::Run;
use crate::site::Site;

/// How long processes may take to follow the last write.
const PATIENCE: Duration = Duration::from_secs(60);
const SAMPLE: usize = 25;
/// Polls of a process on a damaged copy.
const DAMAGED_SAMPLE: usize = 300;
/// How many revisions compaction leaves.
const KEPT: u64 = 2000;

/// Checks every site, while no actor runs.
pub(crate) async fn check(run: &Run) {
    run.tally.count("quiet points");
    let number = run.tally.get("quiet points");
    for site in &run.sites {
        let mut rng = run.rng(&format!("quiet {}", site.name), number as usize);
        if let Err(error) = check_site(run, site, &mut rng, number).await {
            run.findings
                .add("a quiet point can be checked", format!("{}: {error}", site.name));
        }
    }
    run.memory.sample(run, true);
}

async fn check_site(run: &Run, site: &Site, rng: &mut Rng, number: u64) -> Result<()> {
    let Some(head) = converge(run, site).await else {
        return Ok(());
    };
    read_log(run, site, head).await?;
    compare(run, site, rng).await?;
    gone_names(run, site, rng).await?;
    streams_arrive(run, site, head).await;
    site.model.lock().expect("no panic while it is held").settle();
    verify(run, site).await?;
    if site.postgres.is_none() && number % 2 == 1 {
        damaged_copy(run, site, rng).await?;
    }
    if number.is_multiple_of(4) && head > KEPT {
        compact(run, site, head - KEPT).await?;
    }
    Ok(())
}

/// Waits until all processes serve the same revision, which is then the head.
async fn converge(run: &Run, site: &Site) -> Option<u64> {
    let begun = Instant::now();
    let mut heads = Vec::new();
    while begun.elapsed() < PATIENCE {
        heads.clear();
        for process in &site.processes {
            let reply = Request::new("GET", "/ready").send(process.addr, 0).await;
            heads.push(reply.ok().and_then(|reply| reply.revision));
        }
        if heads[0].is_some() && heads.iter().all(|head| *head == heads[0]) {
            run.tally.time("processes agree on the head", begun.elapsed());
            return heads[0];
        }
        sleep(Duration::from_millis(50)).await;
    }
    run.findings
        .add("all processes reach the same head", format!("{}: {heads:?}", site.name));
    None
}

/// Reads the log since the last time: it must have no gap, and every acknowledged write.
async fn read_log(run: &Run, site: &Site, head: u64) -> Result<()> {
    let process = site.crud().next().ok_or("no crud process")?;
    loop {
        let after = site.ledger.lock().expect("no panic while it is held").read_to;
        if after >= head {
            break;
        }
        let reply = Request::new("GET", &format!("/changes?after={after}&limit=500"))
            .send(process.addr, 0)
            .await?;
        let records = reply.json()?;
        let records = records
            .as_array()
            .filter(|records| !records.is_empty())
            .ok_or("the log ends before the head")?;
        let problems = site.ledger.lock().expect("no panic while it is held").read(records);
        for problem in problems {
            run.findings
                .add("the log is what was acknowledged", format!("{}: {problem}", site.name));
        }
    }
    let lost = site.ledger.lock().expect("no panic while it is held").lost();
    if !lost.is_empty() {
        run.findings.add(
            "no acknowledged write is lost",
            format!("{}: revisions {lost:?}", site.name),
        );
    }
    Ok(())
}

/// A sample of polls, the same on every process and as the model has it.
async fn compare(run: &Run, site: &Site, rng: &mut Rng) -> Result<()> {
    for _ in 0..SAMPLE {
        let (shape, path) = {
            let model = site.model.lock().expect("no panic while it is held");
            (
                model.clusters[rng.below(model.clusters.len())].shape.clone(),
                rng.below(PATHS.len()),
            )
        };
        let Some(dns) = &shape.dns else { continue };
        let mut etags = Vec::new();
        for process in &site.processes {
            let reply = Request::poll(dns, PATHS[path]).send(process.addr, 0).await?;
            let served = reply.json().map(|body| ids(&body["inputs"])).unwrap_or_default();
            if reply.status != 200 || served != shape.inputs[path] {
                let problem = format!(
                    "{dns}/{} on {}: status {}, {} inputs",
                    PATHS[path],
                    process.name,
                    reply.status,
                    served.len()
                );
                run.findings.add("every process serves what was acknowledged", problem);
            }
            etags.push(reply.etag);
        }
        if etags.iter().any(|etag| *etag != etags[0]) {
            run.findings.add(
                "all processes give the same reply",
                format!("{}: {dns}/{}: {etags:?}", site.name, PATHS[path]),
            );
        }
    }
    Ok(())
}

/// A deleted cluster's name has an empty list, and one that was given up is unknown.
async fn gone_names(run: &Run, site: &Site, rng: &mut Rng) -> Result<()> {
    let gone = site.model.lock().expect("no panic while it is held").gone.clone();
    for (dns, why) in gone {
        let path = PATHS[rng.below(PATHS.len())];
        let process = site.any(rng);
        let reply = Request::poll(&dns, path).send(process.addr, 0).await?;
        let fits = match why {
            Gone::Deleted => reply.status == 200 && reply.body == br#"{"inputs":[]}"#,
            Gone::Renamed => reply.status == 404,
        };
        if !fits {
            let problem = format!(
                "{dns} on {}, {why:?}: status {}: {}",
                process.name,
                reply.status,
                reply.text()
            );
            run.findings.add("names that are gone answer as they should", problem);
        }
    }
    Ok(())
}

async fn streams_arrive(run: &Run, site: &Site, head: u64) {
    let begun = Instant::now();
    let behind = || {
        let feed = site.feed.lock().expect("no panic while it is held");
        feed.at
            .iter()
            .filter(|(_, at)| **at < head)
            .map(|(number, at)| (*number, *at))
            .collect::<Vec<_>>()
    };
    while !behind().is_empty() && !run.is_over() {
        if begun.elapsed() > PATIENCE {
            run.findings.add(
                "streams arrive at the head",
                format!("{}: {:?} of {head}", site.name, behind()),
            );
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// `flux-resourceset verify`, which must also find the last head that it printed.
async fn verify(run: &Run, site: &Site) -> Result<()> {
    let mut command = command(&site.launch, "verify.log")?;
    command.arg("verify");
    if let Some(anchor) = &*site.anchor.lock().expect("no panic while it is held") {
        command.args(["--anchor", anchor]);
    }
    let begun = Instant::now();
    let output = command.output().await?;
    run.tally.time("verify", begun.elapsed());
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        run.findings
            .add("verify passes", format!("{}: {}", site.name, said.trim()));
        return Ok(());
    }
    let head = said.split_whitespace().find(|word| {
        let parts = word.split_once(':');
        parts.is_some_and(|(revision, digest)| revision.parse::<u64>().is_ok() && digest.len() == 64)
    });
    *site.anchor.lock().expect("no panic while it is held") = head.map(str::to_owned);
    Ok(())
}

async fn compact(run: &Run, site: &Site, before: u64) -> Result<()> {
    let output = command(&site.launch, "compact.log")?
        .args(["compact", "--before", &before.to_string()])
        .output()
        .await?;
    run.tally.count("compactions");
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        run.findings
            .add("the log can be compacted", format!("{}: {}", site.name, said.trim()));
    }
    Ok(())
}

/// A command whose output is read here.
fn command(launch: &Launch, log: &str) -> Result<Command> {
    let mut command = launch.command(&launch.folder.join(log))?;
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    Ok(command)
}

/// Flips one bit of a copy of the database. A process on the copy may refuse to start or to reply, but must not reply with a
/// shorter list.
async fn damaged_copy(run: &Run, site: &Site, rng: &mut Rng) -> Result<()> {
    let folder = site.launch.folder.join("copy");
    std::fs::create_dir_all(&folder)?;
    let place = copy_and_flip(&site.launch.folder, &folder, rng)?;
    let launch = Launch {
        url: format!("sqlite://{}?mode=rwc", folder.join("fleet.db").display()),
        folder: folder.clone(),
        ..site.launch.clone()
    };
    run.tally.count("damaged copies opened");
    match Process::start(&launch, "copy".to_owned(), Mode::ReadOnly, false).await {
        Err(_) => run.tally.count("damaged copies refused"),
        Ok(process) => {
            poll_copy(run, site, &process, rng, &place).await;
            process.kill().await?;
        }
    }
    let log = std::fs::read_to_string(folder.join("copy.log")).unwrap_or_default();
    if let Some(line) = log.lines().find(|line| line.contains("panicked")) {
        run.findings
            .add("no panic on a damaged database", format!("{place}: {line}"));
    }
    Ok(std::fs::remove_dir_all(folder)?)
}

/// Copies the files of the database but the shared memory, and flips one bit; says where.
fn copy_and_flip(from: &Path, to: &Path, rng: &mut Rng) -> Result<String> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(from)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with("fleet.db") && !name.ends_with("-shm") {
            std::fs::copy(from.join(&name), to.join(&name))?;
            files.push(name);
        }
    }
    files.retain(|name| std::fs::metadata(to.join(name)).is_ok_and(|file| file.len() > 0));
    files.sort();
    let file = to.join(&files[rng.below(files.len())]);
    let mut bytes = std::fs::read(&file)?;
    let (at, bit) = (rng.below(bytes.len()), rng.below(8));
    bytes[at] ^= 1 << bit;
    std::fs::write(&file, bytes)?;
    Ok(format!(
        "bit {bit} of byte {at} of {}",
        file.file_name().unwrap_or_default().display()
    ))
}

async fn poll_copy(run: &Run, site: &Site, process: &Process, rng: &mut Rng, place: &str) {
    for _ in 0..DAMAGED_SAMPLE {
        let (shape, path) = {
            let model = site.model.lock().expect("no panic while it is held");
            (
                model.clusters[rng.below(model.clusters.len())].shape.clone(),
                rng.below(PATHS.len()),
            )
        };
        let Some(dns) = &shape.dns else { continue };
        let Ok(reply) = Request::poll(dns, PATHS[path]).send(process.addr, 0).await else {
            continue;
        };
        let served = reply.json().map(|body| ids(&body["inputs"])).unwrap_or_default();
        let missing = shape.inputs[path].difference(&served).count();
        if reply.status == 200 && missing > 0 {
            let problem = format!(
                "{place}: {dns}/{}: {missing} of {} inputs are missing",
                PATHS[path],
                shape.inputs[path].len()
            );
            run.findings.add("a damaged database gives no shorter list", problem);
        }
    }
}

/// No process panicked, or logged an error that is not expected.
pub(crate) fn check_logs(run: &Run) {
    for process in run.sites.iter().flat_map(|site| &site.processes) {
        let log = std::fs::read_to_string(process.log()).unwrap_or_default();
        for line in log
            .lines()
            .filter(|line| line.contains("panicked") || line.contains("\"level\":\"ERROR\""))
        {
            run.findings.add(
                "no panics and no errors in the logs",
                format!("{}: {line}", process.name),
            );
        }
    }
}
