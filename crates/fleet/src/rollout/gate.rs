//! What must hold before the next wave: enough clusters converged, not too many failures, for long enough.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::status::Moment;

/// A number of clusters, or a share of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Share {
    Clusters(usize),
    Percent(f64),
}

impl Share {
    fn read(value: &Value) -> Option<Share> {
        match value {
            Value::Number(_) => value
                .as_u64()
                .and_then(|n| usize::try_from(n).ok())
                .map(Share::Clusters),
            Value::String(text) => {
                let percent: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
                (0.0..=100.0).contains(&percent).then_some(Share::Percent(percent))
            }
            _ => None,
        }
    }

    /// The fewest clusters of `all` that are at least this share. A number is at most all of them.
    fn at_least(self, all: usize) -> usize {
        match self {
            Share::Clusters(clusters) => clusters.min(all),
            Share::Percent(percent) => part(percent, all, f64::ceil),
        }
    }

    /// The most clusters of `all` that are at most this share.
    fn at_most(self, all: usize) -> usize {
        match self {
            Share::Clusters(clusters) => clusters,
            Share::Percent(percent) => part(percent, all, f64::floor),
        }
    }
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)] // A fleet has millions, at most.
fn part(percent: f64, all: usize, round: fn(f64) -> f64) -> usize {
    // A share such as 95 % of 20 must be 19, although 0.95 is not exact.
    let exact = percent * all as f64 / 100.0;
    let near = exact.round();
    let exact = if (exact - near).abs() < 1e-6 {
        near
    } else {
        round(exact)
    };
    exact as usize
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Share::Clusters(clusters) => write!(f, "{clusters}"),
            Share::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// What is asked of the clusters that are promoted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    pub enough: Enough,
    /// How many may fail.
    pub failures: Share,
    /// How many may be silent. Those beyond count as failures.
    pub silent: Share,
    pub soak: Duration,
    pub deadline: Option<Duration>,
}

/// What counts as success, and how many clusters must have it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Enough {
    Converged(Share),
    /// For fleets with no evidence but polls.
    Told(Share),
}

/// A field of a gate that says nothing usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {detail}")]
pub struct NotAGate {
    pub field: &'static str,
    pub detail: &'static str,
}

/// The longest soak and the longest deadline.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

impl Gate {
    /// The values of fields that a gate leaves out. They are written into the document, so that everyone sees them.
    pub(crate) const DEFAULTS: [(&'static str, &'static str); 4] = [
        ("failures", "0"),
        ("silent", "\"5%\""),
        ("soak", "\"0s\""),
        ("deadline", "\"24h\""),
    ];
    pub(crate) const DEFAULT_SHARE: &'static str = "95%";

    pub fn read(value: &Value) -> Result<Gate, NotAGate> {
        let given = |field: &str| value.get(field).filter(|value| !value.is_null());
        let share = |field: &'static str| {
            let detail = "must be a share such as \"95%\", or a number of clusters";
            let read = |value| Share::read(value).ok_or(NotAGate { field, detail });
            given(field).map(read).transpose()
        };
        let span = |field: &'static str| {
            let detail = "must be a duration such as \"30s\", \"30m\", \"2h\" or \"90d\"";
            let read = |value: &Value| value.as_str().and_then(duration).ok_or(NotAGate { field, detail });
            given(field).map(read).transpose()
        };
        let enough = match (share("converged")?, share("told")?) {
            (Some(_), Some(_)) => {
                let detail = "cannot be given together with \"converged\": one of the two is enough";
                return Err(NotAGate { field: "told", detail });
            }
            (None, Some(told)) => Enough::Told(told),
            (Some(converged), None) => Enough::Converged(converged),
            (None, None) => Enough::Converged(Share::Percent(95.0)),
        };
        Ok(Gate {
            enough,
            failures: share("failures")?.unwrap_or(Share::Clusters(0)),
            silent: share("silent")?.unwrap_or(Share::Percent(5.0)),
            soak: span("soak")?.unwrap_or_default(),
            deadline: span("deadline")?,
        })
    }

    /// What can be read and makes no sense. A stored gate may be from before these rules.
    pub(crate) fn mistakes(&self) -> Vec<NotAGate> {
        let mut found = Vec::new();
        for (field, given) in [("soak", Some(self.soak)), ("deadline", self.deadline)] {
            if given.is_some_and(|given| given > LONGEST) {
                let detail = "is longer than a year (365d)";
                found.push(NotAGate { field, detail });
            }
        }
        if !self.soak.is_zero() && self.deadline.is_some_and(|deadline| self.soak >= deadline) {
            let detail = "must be shorter than the deadline, which ends the soak";
            found.push(NotAGate { field: "soak", detail });
        }
        found
    }
}

/// A duration as users write it: a number and one of `s`, `m`, `h`, `d`.
fn duration(text: &str) -> Option<Duration> {
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
    let (number, unit) = units
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(*name)?, unit)))?;
    let number: u64 = number.parse().ok()?;
    number.checked_mul(*unit).map(Duration::from_secs)
}

/// A duration in words, of which nobody needs the last second.
fn span(left: Duration) -> String {
    match left.as_secs() {
        seconds @ 0..120 => format!("{} s", seconds.max(1)),
        seconds @ 120..7200 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h", seconds.div_ceil(3600)),
    }
}

/// What the evidence says about the promoted clusters that a rollout affects. Those that no number below counts are on their way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub affected: usize,
    pub told: usize,
    pub converged: usize,
    pub failing: usize,
    /// They polled once, and no longer do.
    pub silent: usize,
    /// Nothing is known about them. They count as silent, but do not fail a wave before its deadline: whoever lost the evidence waits
    /// for it.
    pub unknown: usize,
}

impl Counts {
    /// Silent clusters, and those that nothing is known about.
    pub fn unheard(&self) -> usize {
        self.silent + self.unknown
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            affected,
            told,
            converged,
            failing,
            ..
        } = self;
        write!(
            f,
            "{affected} affected, {told} told, {converged} converged, {failing} failing, {} silent",
            self.unheard()
        )
    }
}

/// Whether a gate lets the next wave pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    /// What it waits for, in words.
    Waits(String),
    /// Why it fails, in words.
    Fails(String),
    /// The deadline has passed; what it still waits for, in words.
    Late(String),
}

/// When things happened at a gate.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// When the wave was promoted, or the rollout went on. None: the deadline does not run.
    pub began: Option<Moment>,
    /// Since when enough clusters have it, without a break. None: not now.
    pub enough_since: Option<Moment>,
    pub now: Moment,
}

impl Gate {
    /// Whether enough clusters have what they should, and few enough are silent: then they soak.
    pub fn has_enough(&self, counts: &Counts) -> bool {
        let (have, needed) = self.have_and_needed(counts);
        have >= needed && self.failures(counts, counts.unheard()) <= self.failures.at_most(counts.affected)
    }

    /// As many silent clusters as are allowed are left out: one that is away must not block all others.
    fn have_and_needed(&self, counts: &Counts) -> (usize, usize) {
        let left_out = counts.unheard().min(self.silent.at_most(counts.affected));
        let counted = counts.affected - left_out;
        let (have, share) = match self.enough {
            Enough::Converged(share) => (counts.converged, share),
            Enough::Told(share) => (counts.told, share),
        };
        // Without any evidence nothing passes, however many may be silent.
        let fewest = usize::from(share.at_least(counts.affected) > 0);
        (have, share.at_least(counted).max(fewest))
    }

    /// Failing clusters, and silent ones beyond what is allowed.
    fn failures(&self, counts: &Counts, silent: usize) -> usize {
        counts.failing + silent.saturating_sub(self.silent.at_most(counts.affected))
    }

    /// How long one must have watched to know that the gate does not hold: evidence may be lost at a start, and a soak starts again.
    pub fn grace(&self, silent_after: Duration) -> Duration {
        let heard = self
            .deadline
            .map_or(silent_after, |deadline| deadline.min(silent_after));
        self.soak.saturating_add(heard)
    }

    /// Whether the next wave may be promoted.
    pub fn judge(&self, counts: &Counts, times: Times) -> Verdict {
        if counts.affected == 0 {
            return Verdict::Passed;
        }
        if self.failures(counts, counts.silent) > self.failures.at_most(counts.affected) {
            let (failures, silent) = (self.failures, self.silent);
            return Verdict::Fails(format!(
                "too many failures: at most {failures} may fail and {silent} may be silent; {counts}"
            ));
        }
        if !self.has_enough(counts) {
            return self.wait(times, self.what_is_missing(counts), counts);
        }
        let soaked = times
            .enough_since
            .map_or(Duration::ZERO, |since| times.now.since(since));
        match self.soak.checked_sub(soaked) {
            None | Some(Duration::ZERO) => Verdict::Passed,
            Some(left) => {
                let reason = format!("soaks for another {} of {}", span(left), span(self.soak));
                self.wait(times, reason, counts)
            }
        }
    }

    fn what_is_missing(&self, counts: &Counts) -> String {
        let (have, needed) = self.have_and_needed(counts);
        let what = match self.enough {
            Enough::Converged(_) => "converged",
            Enough::Told(_) => "told",
        };
        match have < needed {
            true => format!("{have} of {} are {what}, {needed} must be", counts.affected),
            false => format!(
                "nothing is heard of {}, at most {} may be silent",
                counts.unheard(),
                self.silent
            ),
        }
    }

    /// Waits, until the deadline.
    fn wait(&self, times: Times, what: String, counts: &Counts) -> Verdict {
        match self.deadline.zip(times.began) {
            Some((deadline, began)) if times.now.since(began) >= deadline => {
                Verdict::Late(format!("the deadline has passed: {what}; {counts}"))
            }
            _ => Verdict::Waits(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn gate(value: &Value) -> Gate {
        Gate::read(value).unwrap()
    }

    fn verdict(gate: &Gate, counts: Counts, soaked: u64) -> &'static str {
        let now = Moment(100_000_000);
        let enough_since = gate.has_enough(&counts).then_some(Moment(now.0 - soaked * 1000));
        let times = Times {
            began: Some(Moment(now.0 - 3_600_000)),
            enough_since,
            now,
        };
        match gate.judge(&counts, times) {
            Verdict::Passed => "passed",
            Verdict::Waits(_) => "waits",
            Verdict::Fails(_) => "fails",
            Verdict::Late(_) => "late",
        }
    }

    #[test]
    fn a_gate_judges_evidence() {
        let lenient =
            gate(&json!({"converged": "95%", "failures": 1, "silent": "5%", "soak": "30m", "deadline": "2h"}));
        let counts = |converged, failing, silent, unknown| Counts {
            affected: 20,
            told: 20 - silent - unknown,
            converged,
            failing,
            silent,
            unknown,
        };
        for (counts, soaked, expected) in [
            (counts(20, 0, 0, 0), 1800, "passed"),
            (counts(20, 0, 0, 0), 1799, "waits"),
            (counts(18, 0, 0, 0), 9999, "waits"),
            (counts(19, 1, 0, 0), 1800, "passed"),
            (counts(18, 2, 0, 0), 9999, "fails"),
            // One silent cluster is allowed, a second one counts as a failure, and one failure is allowed.
            (counts(19, 0, 1, 0), 1800, "passed"),
            (counts(19, 1, 1, 0), 1800, "passed"),
            (counts(18, 0, 2, 0), 9999, "waits"),
            (counts(17, 0, 3, 0), 9999, "fails"),
            // Nothing is known about any of them: the evidence was lost.
            (counts(0, 0, 0, 20), 9999, "waits"),
            (Counts::default(), 0, "passed"),
        ] {
            assert_eq!(verdict(&lenient, counts, soaked), expected, "{counts}");
        }
        let hasty = gate(&json!({"converged": "95%", "deadline": "1h"}));
        assert_eq!(verdict(&hasty, counts(0, 0, 0, 20), 0), "late", "the deadline");
        assert_eq!(
            verdict(&hasty, counts(20, 0, 0, 0), 0),
            "passed",
            "what is enough passes at its deadline"
        );
        let patient = gate(&json!({"converged": "95%", "silent": "100%"}));
        assert_eq!(
            verdict(&patient, counts(0, 0, 0, 20), 0),
            "waits",
            "no evidence, no promotion"
        );
        assert_eq!(verdict(&patient, counts(0, 0, 20, 0), 0), "waits");
        assert_eq!(verdict(&patient, counts(1, 0, 0, 19), 0), "passed");
        let told = gate(&json!({"told": "95%"}));
        assert_eq!(verdict(&told, counts(0, 0, 0, 0), 0), "passed");
    }

    #[test]
    fn the_rest_of_a_soak_has_one_unit() {
        for (seconds, words) in [
            (0, "1 s"),
            (119, "119 s"),
            (120, "2 min"),
            (1790, "30 min"),
            (7200, "2 h"),
            (86_401, "25 h"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), words);
        }
    }

    #[test]
    fn shares_are_exact() {
        for (percent, all, least, most) in [
            (95.0, 20, 19, 19),
            (10.0, 15, 2, 1),
            (33.3, 3, 1, 0),
            (0.0, 9, 0, 0),
            (100.0, 7, 7, 7),
        ] {
            let share = Share::Percent(percent);
            assert_eq!(
                (share.at_least(all), share.at_most(all)),
                (least, most),
                "{share} of {all}"
            );
        }
        assert_eq!(Share::Clusters(5).at_least(3), 3);
    }

    #[test]
    fn unusable_gates_name_the_field() {
        for (value, field) in [
            (json!({"converged": "95"}), "converged"),
            (json!({"silent": -1}), "silent"),
            (json!({"soak": "1w"}), "soak"),
            (json!({"soak": ""}), "soak"),
            (json!({"soak": "é"}), "soak"),
            (json!({"deadline": 5}), "deadline"),
            (json!({"told": "95%", "converged": "95%"}), "told"),
        ] {
            assert_eq!(Gate::read(&value).unwrap_err().field, field, "{value}");
        }
    }

    /// A stored gate may have any duration.
    #[test]
    fn the_grace_after_a_start_is_bounded_and_never_overflows() {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        for (value, expected) in [
            (json!({"soak": "30m", "deadline": "2h"}), minutes(50)),
            (json!({"soak": "1m", "deadline": "5m"}), minutes(6)),
            (json!({"deadline": null}), minutes(20)),
            (json!({"soak": "18446744073709551615s"}), Duration::MAX),
        ] {
            assert_eq!(gate(&value).grace(minutes(20)).as_secs(), expected.as_secs(), "{value}");
        }
    }

    #[test]
    fn durations_have_an_end_and_a_soak_ends_before_the_deadline() {
        for (value, fields) in [
            (json!({"soak": "365d", "deadline": null}), vec![]),
            (json!({"soak": "366d", "deadline": null}), vec!["soak"]),
            (json!({"soak": "18446744073709551615s", "deadline": null}), vec!["soak"]),
            (json!({"deadline": "8761h"}), vec!["deadline"]),
            (
                json!({"soak": "400d", "deadline": "366d"}),
                vec!["soak", "deadline", "soak"],
            ),
            (json!({"soak": "2h", "deadline": "2h"}), vec!["soak"]),
            (json!({"soak": "119m", "deadline": "2h"}), vec![]),
            (json!({"soak": "0s", "deadline": "0s"}), vec![]),
        ] {
            let found: Vec<_> = gate(&value).mistakes().iter().map(|one| one.field).collect();
            assert_eq!(found, fields, "{value}");
        }
    }
}
