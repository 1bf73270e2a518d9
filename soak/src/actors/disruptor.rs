//! Restarts, kills and faults of the database, one at a time.

use std::sync::Arc;
use std::time::Duration;

use bench::Result;
use bench::generate::Rng;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::process::Process;
use crate::run::Run;
use crate::site::Site;

pub(crate) async fn act(run: Arc<Run>, site: Arc<Site>) {
    let mut rng = run.rng(&format!("disruptor {}", site.name), 0);
    let pause = (run.duration / 100).clamp(Duration::from_secs(4), Duration::from_secs(20));
    loop {
        sleep(pause.mul_f64(0.5 + rng.below(100) as f64 / 100.0)).await;
        let Some(_place) = run.place().await else { return };
        let done = match &site.postgres {
            Some(server) if rng.percent(50) => fault(&run, &site, server, &mut rng).await,
            _ => restart(&run, &site, &mut rng).await,
        };
        if let Err(error) = done {
            run.findings
                .add("every process starts again", format!("{}: {error}", site.name));
        }
    }
}

/// Ends one process that is not steady, and starts it again.
async fn restart(run: &Run, site: &Site, rng: &mut Rng) -> Result<()> {
    let mortal: Vec<&Process> = site.processes.iter().filter(|process| !process.steady).collect();
    let process = mortal[rng.below(mortal.len())];
    process.down.begin();
    let done = async {
        if rng.percent(60) {
            run.tally.count("kills");
            process.kill().await?;
        } else {
            run.tally.count("restarts");
            if !process.terminate().await? {
                run.findings
                    .add("SIGTERM ends a process in order", process.name.clone());
            }
        }
        sleep(Duration::from_millis(rng.below(1500) as u64)).await;
        let _tokens = site.tokens.lock().await;
        process.launch().await
    };
    let done = done.await;
    process.down.end();
    done
}

/// Does something to the database server, for a while.
async fn fault(run: &Run, site: &Site, server: &Arc<pgtest::Server>, rng: &mut Rng) -> Result<()> {
    run.tally.count("database faults");
    let time = Duration::from_millis(200 + rng.below(5000) as u64);
    let (server, database, what) = (server.clone(), site.launch.url.clone(), rng.below(3));
    site.fault.begin();
    let done = spawn_blocking(move || match what {
        0 => {
            server.down();
            std::thread::sleep(time);
            server.up();
        }
        1 => {
            server.pause();
            std::thread::sleep(time);
            server.resume();
        }
        _ => {
            let _how_many = server.kill_connections(&database, "%");
        }
    })
    .await;
    site.fault.end();
    run.tally
        .count(["database stopped", "database paused", "connections to the database cut"][what]);
    Ok(done?)
}
