//! The guards in force, and what they mean for a write: in a plan, and in a refusal.

use serde_json::Value;

use super::groups::clusters;
use crate::error::Failure;
use crate::output::{Table, Tone};
use crate::session::text;

/// Shows each limit of the guards in force, and what comes of it.
pub(super) fn checks(checks: &[Value], table: &mut Table) {
    for check in checks {
        let (outcome, tone) = match (check["exceeded"] == true, check["overridden"] == true) {
            (true, false) => (": refused", Tone::Bad),
            (true, true) => (": overridden", Tone::Attention),
            (false, _) => ("", Tone::Quiet),
        };
        table.line(
            format!("guard {} {}{outcome}", text(&check["id"]), sentence(check)),
            tone,
        );
        if check["exceeded"] == true {
            table.line(format!("    {}", text(&check["reason"])), tone);
        }
    }
}

/// Shows each limit that would keep a wave from being promoted.
pub(super) fn holds(checks: &[Value], table: &mut Table) {
    for check in checks.iter().filter(|check| refuses(check)) {
        let line = format!("        guard {} {}: held", text(&check["id"]), sentence(check));
        table.line(line, Tone::Attention);
        table.line(format!("            {}", text(&check["reason"])), Tone::Attention);
    }
}

/// Whether a limit refuses the write.
pub(super) fn refuses(check: &Value) -> bool {
    check["exceeded"] == true && check["overridden"] != true
}

/// The failure of a write that these limits refuse. It says why each guard exists, and what can be done.
pub(crate) fn failure(limits: &[&Value]) -> Failure {
    let mut failure = Failure::refused(match limits {
        [one] => format!("guard {} {}; nothing was changed", text(&one["id"]), sentence(one)),
        many => format!("{} limits of guards are exceeded; nothing was changed", many.len()),
    });
    failure.details = limits
        .iter()
        .map(|limit| {
            let (id, reason) = (text(&limit["id"]), text(&limit["reason"]));
            match limits.len() {
                1 => (id.to_owned(), reason.to_owned()),
                _ => (id.to_owned(), format!("{} ({reason})", sentence(limit))),
            }
        })
        .collect();
    failure.hint(hint(limits))
}

/// `allows changes to 0 clusters of environment=prod until 2027-01-03T00:00:00Z, and this changes 12`
fn sentence(limit: &Value) -> String {
    let number = |name: &str| limit[name].as_u64().unwrap_or_default();
    let (noun, verb) = match text(&limit["of"]) {
        "removals" => ("removals from", "removes something from"),
        _ => ("changes to", "changes"),
    };
    let until = match limit["until"].as_str() {
        Some(until) => format!(" until {until}"),
        None => String::new(),
    };
    format!(
        "allows {noun} {} of {}{until}, and this {verb} {}",
        clusters(number("limit")),
        text(&limit["selector"]),
        number("count")
    )
}

/// What can be done about it.
fn hint(limits: &[&Value]) -> String {
    let mut ways = Vec::new();
    // RFC 3339 in one zone sorts as text; in several zones, the exact order does not matter here.
    if let Some(until) = limits
        .iter()
        .map(|limit| limit["until"].as_str())
        .collect::<Option<Vec<_>>>()
        && let Some(last) = until.iter().max()
    {
        ways.push(format!("wait until {last}"));
    }
    let most = limits
        .iter()
        .filter_map(|limit| limit["limit"].as_u64())
        .min()
        .unwrap_or_default();
    let selectors: Vec<&str> = limits.iter().map(|limit| text(&limit["selector"])).collect();
    match selectors.as_slice() {
        _ if most > 0 => ways.push(format!(
            "change at most {} at a time, as the waves of a rollout do",
            clusters(most)
        )),
        [one] if *one != "*" => ways.push(format!("leave out the clusters of {one}")),
        _ => {}
    }
    let mut ids: Vec<&str> = limits.iter().map(|limit| text(&limit["id"])).collect();
    ids.dedup();
    ways.push(format!(
        "as an admin, use --override-guard {} with --reason",
        ids.join(",")
    ));
    ways.join("; or ")
}
