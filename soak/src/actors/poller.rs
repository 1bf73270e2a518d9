//! Polls as Flux sends them, of any cluster on any process, each judged against the model.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::generate::PATHS;
use tokio::time::sleep;

use super::WITHOUT_A_FAULT;
use crate::client::Request;
use crate::run::Run;
use crate::site::{Outcome, Site};

const PAUSE: Duration = Duration::from_millis(20);

pub(crate) async fn act(run: Arc<Run>, site: Arc<Site>, number: usize) {
    let mut rng = run.rng(&format!("poller {}", site.name), number);
    let clusters = site.model.lock().expect("no panic while it is held").clusters.len();
    while !run.is_over() {
        sleep(PAUSE).await;
        let asked = site
            .model
            .lock()
            .expect("no panic while it is held")
            .ask(rng.below(clusters));
        let Some(asked) = asked else { continue };
        let path = rng.below(PATHS.len());
        let process = site.any(&mut rng);
        let request = Request::poll(&asked.dns, PATHS[path]);
        let begun = Instant::now();
        match site.send(process, &request, number).await {
            Outcome::Reply(reply) => {
                run.tally.count("polls");
                run.tally.time("polls", begun.elapsed());
                let model = site.model.lock().expect("no panic while it is held");
                if let Err(problem) = model.judge(&asked, path, reply.status, &reply.body) {
                    let place = format!("{} on {}: {}/{}", site.name, process.name, asked.dns, PATHS[path]);
                    run.findings.add(
                        "no reply is shorter than acknowledged writes allow",
                        format!("{place}: {problem}"),
                    );
                }
            }
            Outcome::Disturbed => run.tally.count("polls that met a restart"),
            Outcome::Failed(problem) => {
                let place = format!("poll of {} on {}", asked.dns, process.name);
                run.findings.add(WITHOUT_A_FAULT, format!("{place}: {problem}"));
            }
        }
    }
}
