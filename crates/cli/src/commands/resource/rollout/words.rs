//! What rollouts say in words.

use serde_json::Value;

use crate::session::text;

/// What a rollout waits for, by its document.
pub(crate) fn waiting_for(rollout: &Value) -> String {
    let wave = rollout["wave"].as_str();
    match (text(&rollout["state"]), rollout["waiting_for"].as_str(), wave) {
        (_, Some(what), _) => match what.split_once('/') {
            Some(("approval", wave)) => format!("approval of {wave}"),
            Some(("guard", guard)) => format!("guard {guard}"),
            _ => what.to_owned(),
        },
        ("running", None, Some(wave)) => format!("the gate of {wave}"),
        ("running", None, None) => "the first wave".to_owned(),
        ("paused" | "halted" | "reverted", ..) => "a person".to_owned(),
        _ => "-".to_owned(),
    }
}

/// The wave that was promoted last, and which of how many it is: `canary (1/3)`.
pub(crate) fn wave(rollout: &Value) -> String {
    let Some(name) = rollout["wave"].as_str() else {
        return "-".to_owned();
    };
    let waves = rollout["waves"].as_array().map(Vec::as_slice).unwrap_or_default();
    match waves.iter().position(|wave| wave["name"] == name) {
        Some(position) => format!("{name} ({}/{})", position + 1, waves.len()),
        None => name.to_owned(),
    }
}

/// The gate in one sentence.
pub(super) fn gate(gate: &Value) -> String {
    let share = |name: &str| match &gate[name] {
        Value::String(share) => Some(share.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let enough = match (share("converged"), share("told")) {
        (_, Some(told)) => format!("at least {told} told"),
        (converged, None) => format!("at least {} converged", converged.unwrap_or_else(|| "95%".to_owned())),
    };
    let (failures, silent) = (share("failures"), share("silent"));
    let mut words = format!(
        "{enough}, at most {} failing and {} silent",
        failures.unwrap_or_else(|| "0".to_owned()),
        silent.unwrap_or_else(|| "5%".to_owned())
    );
    if let Some(soak) = gate["soak"].as_str().filter(|soak| *soak != "0s") {
        words.push_str(&format!(", for {soak}"));
    }
    match gate["deadline"].as_str() {
        Some(deadline) => words.push_str(&format!("; each wave within {deadline}")),
        None => words.push_str("; no deadline"),
    }
    words
}

/// A word as a shell reads it.
pub(crate) fn shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "%+,-./:=@_".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_rollout_waits_for() {
        for (rollout, expected) in [
            (json!({"state": "running", "wave": null}), "the first wave"),
            (json!({"state": "running", "wave": "canary"}), "the gate of canary"),
            (
                json!({"state": "running", "wave": "canary", "waiting_for": "approval/rest"}),
                "approval of rest",
            ),
            (
                json!({"state": "running", "wave": "canary", "waiting_for": "guard/freeze"}),
                "guard freeze",
            ),
            (json!({"state": "halted", "wave": "canary"}), "a person"),
            (json!({"state": "completed", "wave": "rest"}), "-"),
        ] {
            assert_eq!(waiting_for(&rollout), expected);
        }
        let waves = json!([{"name": "canary"}, {"name": "rest"}]);
        assert_eq!(wave(&json!({"wave": "canary", "waves": waves})), "canary (1/2)");
    }

    #[test]
    fn gates_in_words() {
        let given = json!({"converged": "95%", "failures": 1, "silent": "5%", "soak": "30m", "deadline": "2h"});
        assert_eq!(
            gate(&given),
            "at least 95% converged, at most 1 failing and 5% silent, for 30m; each wave within 2h"
        );
        let given = json!({"told": 3, "failures": 0, "silent": "5%", "soak": "0s", "deadline": null});
        assert_eq!(
            gate(&given),
            "at least 3 told, at most 0 failing and 5% silent; no deadline"
        );
    }

    #[test]
    fn words_are_quoted_where_a_shell_needs_it() {
        assert_eq!(shell("oci_tag=6.7.1"), "oci_tag=6.7.1");
        assert_eq!(shell("a!=b"), "'a!=b'");
        assert_eq!(shell("it's"), r"'it'\''s'");
        assert_eq!(shell(""), "''");
    }
}
