//! The nudge: how long a change takes where providers poll every five minutes.

use std::time::{Duration, Instant};

use super::evidence::set;
use super::{FLUX, SHOP, reporter};
use crate::kube::{self, text};
use crate::life::look::same;
use crate::story::Story;
use crate::world::World;
use crate::{Result, setup, wait};

/// How many changes of each kind. As many nudges of a provider may follow each other closely.
const EACH: u32 = 5;

/// Longer than any nudge takes, and far less than the interval.
const LONGEST: Duration = Duration::from_secs(30);

pub(super) fn ten_changes(story: &mut Story, world: &mut World) -> Result<()> {
    story.chapter("The nudge: providers poll every five minutes, and changes arrive within seconds");
    poll_every(story, world, "5m")?;
    reporter::start(world)?;
    story.tick("the reporter listens for changes");
    let one = &world.one;
    let (mut namespaces, mut releases) = (Vec::new(), Vec::new());
    for n in 0..EACH {
        let label = format!("namespace update shelf --label n={n}");
        namespaces.push(arrives(story, world, &label, || {
            let shelf = one.kube.need(kube::NAMESPACE, "", "shelf")?;
            same(&shelf["metadata"]["labels"]["n"], &n.to_string().into())
        })?);
        releases.push(arrives(story, world, &set(world, 100 + n), || {
            let made = one.kube.need(kube::CONFIG_MAP, SHOP, SHOP)?;
            match text(&made["data"]["values"]).contains(&format!("\"n\":{}", 100 + n)) {
                true => Ok(()),
                false => Err("the chart has another value".into()),
            }
        })?);
    }
    let all: Vec<Duration> = namespaces.iter().chain(&releases).copied().collect();
    for (what, times) in [
        ("a namespace has its label", namespaces),
        ("a chart has its value, by an upgrade", releases),
        ("all ten", all),
    ] {
        let (median, worst) = figures(times);
        story.tick(&format!(
            "{what}: median {:.2} s, worst {:.2} s after the API call",
            median.as_secs_f32(),
            worst.as_secs_f32()
        ));
    }
    poll_every(story, world, "1s")
}

/// Makes a change, and gives the time until it is there.
fn arrives(story: &mut Story, world: &World, command: &str, look: impl FnMut() -> Result<()>) -> Result<Duration> {
    let start = Instant::now();
    story.ask(&world.fleet, command, &[])?;
    wait::until_within(LONGEST, &format!("`{command}` to arrive"), look)?;
    Ok(start.elapsed())
}

fn figures(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort();
    let worst = times.last().copied().unwrap_or_default();
    (times.get(times.len() / 2).copied().unwrap_or_default(), worst)
}

/// Gives the providers of the first cluster another interval.
fn poll_every(story: &Story, world: &World, interval: &str) -> Result<()> {
    const EVERY: &str = "fluxcd.controlplane.io/reconcileEvery";
    let one = &world.one;
    let objects = setup::bootstrap_every(world, one, interval, reporter::OPTIONS)?;
    one.kube.apply(&objects)?;
    story.until(&format!("every provider polls each {interval}"), || {
        one.kube.list(kube::PROVIDER)?.iter().try_for_each(|provider| {
            same(&text(&provider["metadata"]["annotations"][EVERY]), &interval)?;
            kube::ready(provider)
        })?;
        kube::ready(&one.kube.need(kube::KUSTOMIZATION, FLUX, "flux-resourceset")?)
    })
}
