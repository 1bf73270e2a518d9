//! Rollouts in a plan: what one would do wave by wave, and the clusters that a write takes out of a promoted wave.

use serde_json::Value;

use super::effect::items;
use super::groups::{clusters, names};
use super::guards;
use crate::output::{Table, Tone};
use crate::session::text;

/// Says that what follows is the effect of the whole rollout, and not of its start.
pub(super) fn heading(document: &Value, table: &mut Table) {
    if !items(&document["rollouts"]).is_empty() {
        table.line("once the rollout is complete:", Tone::Quiet);
    }
}

/// The waves of the rollouts that the write starts.
pub(super) fn waves(document: &Value, wide: bool, table: &mut Table) {
    for rollout in items(&document["rollouts"]) {
        table.line(format!("rollout {}, wave by wave", text(&rollout["id"])), Tone::Head);
        for wave in items(&rollout["waves"]) {
            table.line(format!("    {}", sentence(wave)), Tone::Plain);
            guards::holds(items(&wave["guards"]), table);
        }
        unaffected(&rollout["unaffected"], wide, table);
    }
}

/// `rest: 12 clusters, 10 of them affected; removes something from 2; waits for approval`
fn sentence(wave: &Value) -> String {
    let number = |name: &str| wave[name].as_u64().unwrap_or_default();
    let (members, affected) = (number("members"), number("affected"));
    let who = match (members, affected) {
        (0, _) => "no cluster".to_owned(),
        (_, 0) => format!("{}, none of them affected", clusters(members)),
        (1, _) => clusters(1),
        _ if members == affected => format!("{}, all of them affected", clusters(members)),
        _ => format!("{}, {affected} of them affected", clusters(members)),
    };
    let removals = match number("removals") {
        0 => String::new(),
        count => format!("; removes something from {count}"),
    };
    let approval = match wave["approve"] == true {
        true => "; waits for approval",
        false => "",
    };
    format!("{}: {who}{removals}{approval}", text(&wave["name"]))
}

fn unaffected(unaffected: &Value, wide: bool, table: &mut Table) {
    let Some(count) = unaffected["count"].as_u64().filter(|count| *count > 0) else {
        return;
    };
    let ids: Vec<&str> = items(&unaffected["clusters"]).iter().map(text).collect();
    let verb = if count == 1 { "overrides" } else { "override" };
    table.line(
        format!("    {} {verb} what it changes: {}", clusters(count), names(&ids, wide)),
        Tone::Quiet,
    );
}

/// The clusters that leave a wave that was promoted.
pub(super) fn demotions(document: &Value, wide: bool, table: &mut Table) {
    let demotions = &document["demotions"];
    let Some(count) = demotions["count"].as_u64().filter(|count| *count > 0) else {
        return;
    };
    let ids: Vec<&str> = items(&demotions["clusters"]).iter().map(text).collect();
    let verb = if count == 1 { "leaves" } else { "leave" };
    table.line(
        format!(
            "{} {verb} a promoted wave of a rollout, back to what was before: {}",
            clusters(count),
            names(&ids, wide)
        ),
        Tone::Bad,
    );
    table.line(format!("    use --confirm-demotions {count} to go ahead"), Tone::Bad);
}
