//! Small parts that several pages share.

use jiff::{Timestamp, Unit};
use maud::{Markup, html};
use serde_json::Value;

use crate::PREFIX;
use crate::call::Call;
use crate::query::{Query, encoded};

/// The states of clusters, the worst first, each with what it means.
pub(crate) const STATES: [(&str, &str); 6] = [
    ("failing", "something of the current content failed"),
    ("silent", "it has not polled for long"),
    ("never", "it has never polled"),
    ("behind", "it has not been told the current content yet"),
    ("told", "it has been told; what came of it is not known yet"),
    ("converged", "everything is applied and ready"),
];

/// The name of a state, with its colour and shape.
pub(crate) fn state(name: &str) -> Markup {
    let meaning = STATES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, meaning)| *meaning);
    html! { span.state.(name) title=[meaning] { (name) } }
}

/// The address of a cluster's page.
pub(crate) fn cluster_address(id: &str) -> String {
    format!("{PREFIX}/clusters/{}", encoded(id))
}

/// The address of a document's page.
pub(crate) fn document_address(kind: &str, id: &str) -> String {
    match kind {
        "clusters" => cluster_address(id),
        "rollouts" => format!("{PREFIX}/rollouts/{}", encoded(id)),
        _ => format!("{PREFIX}/documents/{}/{}", encoded(kind), encoded(id)),
    }
}

pub(crate) fn cluster_link(id: &str) -> Markup {
    html! { a href=(cluster_address(id)) { (id) } }
}

/// A link to a revision.
pub(crate) fn revision_link(revision: u64) -> Markup {
    html! { a href=(format!("{PREFIX}/revisions/{revision}")) { (revision) } }
}

/// How long ago a time was, by the server's clock; the time itself is its tooltip. `now` and `then` are RFC 3339.
pub(crate) fn ago(now: &str, then: Option<&str>) -> Markup {
    let Some(then) = then else {
        return html! { span.faint { "–" } };
    };
    let age = age(now, then);
    html! { time datetime=(then) title=(then) { @match age { Some(age) => { (age) }, None => { (then) } } } }
}

/// The time between two moments in its largest unit or two, such as `5m` or `2h 10m`.
pub(crate) fn age(now: &str, then: &str) -> Option<String> {
    let (now, then): (Timestamp, Timestamp) = (now.parse().ok()?, then.parse().ok()?);
    let seconds = now.since((Unit::Second, then)).ok()?.get_seconds().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    Some(match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 120 => format!("{minutes}m"),
        () if hours < 10 => format!("{hours}h {}m", minutes % 60),
        () if hours < 48 => format!("{hours}h"),
        () => format!("{days}d"),
    })
}

/// The current time, as routes of the API have it.
pub(crate) fn now() -> String {
    Timestamp::now().to_string()
}

/// A number and its noun.
pub(crate) fn count(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{} {noun}s", grouped(number)),
    }
}

/// A number with its thousands apart, such as 100,000.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A value in a table: a text as it is, anything else as JSON.
pub(crate) fn value(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Links to the pages of a list.
pub(crate) fn pager(query: &Query, path: &str, offset: u64, limit: u64, total: u64) -> Markup {
    let last = (offset + limit).min(total);
    html! {
        @if total > limit || offset > 0 {
            nav.pager aria-label="Pages" {
                @if offset > 0 {
                    a rel="prev" href=(query.with_number("offset", offset.saturating_sub(limit)).at(path)) { "← previous" }
                }
                span { (grouped(offset + 1)) "–" (grouped(last)) " of " (grouped(total)) }
                @if last < total {
                    a rel="next" href=(query.with_number("offset", offset + limit).at(path)) { "next →" }
                }
            }
        }
    }
}

/// A button that shows the plan of a call of the API.
pub(crate) fn plan_button(name: &str, class: &str, call: &Call) -> Markup {
    html! {
        form.inline method="post" action=(format!("{PREFIX}/plan")) {
            (call.fields())
            button.(class) type="submit" { (name) }
        }
    }
}

/// A field for a selector or a part of a name, with the labels of the fleet to choose from.
pub(crate) fn search_field(value: Option<&str>, labels: &[String]) -> Markup {
    html! {
        label for="q" { "Search" }
        input #q type="search" name="q" value=[value] list="labels" size="36" spellcheck="false" autocomplete="off"
            placeholder="part of a name, or environment=prod,tier!=gold" aria-describedby="q-help";
        span #q-help .hidden { "A part of an id or DNS name, or a selector of labels." }
        datalist #labels { @for label in labels { option value=(label) {} } }
    }
}

/// Whether a search is a selector, and not a part of a name.
pub(crate) fn is_selector(text: &str) -> bool {
    text.contains(['=', '!', '(', ',']) || text.contains(" in ") || text.contains(" notin ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let then = "2026-11-16T12:00:00Z";
        for (now, shown) in [
            ("2026-11-16T12:00:59.9Z", "59s"),
            ("2026-11-16T12:05:10Z", "5m"),
            ("2026-11-16T14:10:00Z", "2h 10m"),
            ("2026-11-17T13:00:00Z", "25h"),
            ("2026-12-16T13:00:00Z", "30d"),
            ("2026-11-16T11:59:00Z", "0s"),
        ] {
            assert_eq!(age(now, then).as_deref(), Some(shown));
        }
        assert_eq!(age("yesterday", then), None);
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(count(1, "cluster"), "1 cluster");
        assert_eq!(count(2000, "cluster"), "2,000 clusters");
    }

    #[test]
    fn a_search_is_a_selector_or_a_part_of_a_name() {
        assert!(is_selector("environment=prod") && is_selector("tier in (gold)") && is_selector("!edge"));
        assert!(!is_selector("edge-0") && !is_selector("prod.example.com"));
    }
}
