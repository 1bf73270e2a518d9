//! What came of it, as commands show it: states of clusters, ages, and how far a change has come.

mod rows;
mod stream;

use fleet::status::{Moment, State};
use serde_json::Value;

pub(crate) use self::rows::Rows;
pub(crate) use self::stream::{Event, Events};
use crate::output::Tone;
use crate::session::text;

/// The states that need attention, the worst first.
pub(crate) const NOT_WELL: [State; 4] = [State::Failing, State::Silent, State::Never, State::Behind];

pub(crate) fn tone(state: &str) -> Tone {
    match State::parse(state) {
        Some(State::Failing) => Tone::Bad,
        Some(State::Silent | State::Never | State::Behind) => Tone::Attention,
        Some(State::Converged) => Tone::Good,
        Some(State::Told) | None => Tone::Plain,
    }
}

/// The cell of a state.
pub(crate) fn state_cell(state: &Value) -> (String, Tone) {
    let state = state.as_str().unwrap_or("-");
    (state.to_owned(), tone(state))
}

/// Parses the name of a state.
pub(crate) fn state(name: &str) -> Result<State, String> {
    let known = || State::ALL.map(State::name).join(", ");
    State::parse(name).ok_or_else(|| format!("expected one of {}", known()))
}

/// How long before `now` a time was, as `kubectl` shows it: `12s`, `5m`, `3h`, `2d`. Both are times of the server, so that the clock
/// of this machine does not matter.
pub(crate) fn age(now: &Value, time: &Value) -> String {
    let (Some(now), Some(time)) = (Moment::parse(text(now)), Moment::parse(text(time))) else {
        return "-".to_owned();
    };
    span(now.since(time).as_secs())
}

/// The largest unit of which there are at least two.
fn span(seconds: u64) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    match seconds {
        0..120 => format!("{seconds}s"),
        _ if seconds < 2 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ => format!("{}d", seconds / DAY),
    }
}

/// How far a change has come: `12/40 converged, 1 failing, 27 told`. None: it affects no cluster.
pub(crate) fn progress(status: &Value) -> Option<String> {
    let count = |name: &str| status[name].as_u64().unwrap_or_default();
    let affected = count("affected");
    let others = ["failing", "silent", "behind", "told"].into_iter();
    let others = others.filter(|name| count(name) > 0);
    let others: String = others.map(|name| format!(", {} {name}", count(name))).collect();
    (affected > 0).then(|| format!("{}/{affected} converged{others}", count("converged")))
}

/// The first line of a message, cut unless it is wanted whole.
pub(crate) fn message(text: &Value, whole: bool) -> String {
    const MOST: usize = 100;
    let text = text.as_str().unwrap_or_default().trim();
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(MOST) {
        Some((end, _)) if !whole => format!("{}…", line[..end].trim_end()),
        _ if line.is_empty() => "-".to_owned(),
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ages_have_one_unit() {
        for (time, shown) in [
            (json!("2026-11-16T12:00:00Z"), "0s"),
            (json!("2026-11-16T12:00:01Z"), "0s"),
            (json!("2026-11-16T11:58:01Z"), "119s"),
            (json!("2026-11-16T11:57:30Z"), "2m"),
            (json!("2026-11-16T10:00:01Z"), "119m"),
            (json!("2026-11-16T10:00:00Z"), "2h"),
            (json!("2026-11-14T12:00:00Z"), "2d"),
            (json!(null), "-"),
        ] {
            assert_eq!(age(&json!("2026-11-16T12:00:00Z"), &time), shown, "{time}");
        }
    }

    #[test]
    fn progress_names_what_is_not_there_yet() {
        let status =
            json!({"revision": 4, "affected": 40, "told": 26, "converged": 12, "failing": 1, "silent": 0, "behind": 1});
        assert_eq!(
            progress(&status).as_deref(),
            Some("12/40 converged, 1 failing, 1 behind, 26 told")
        );
        assert_eq!(progress(&json!({"affected": 0})), None);
    }

    #[test]
    fn long_messages_are_cut_in_tables() {
        let long = json!(format!("{} end\nsecond line", "ä".repeat(100)));
        assert_eq!(message(&long, false), format!("{}…", "ä".repeat(100)));
        assert_eq!(message(&long, true), format!("{} end", "ä".repeat(100)));
        assert_eq!(message(&json!(null), false), "-");
    }
}
