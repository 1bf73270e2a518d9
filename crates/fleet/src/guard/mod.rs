//! Guards: limits on what one write may do, as documents. A guard has a selector, the most clusters whose replies a write may
//! change or that it may take something from, and the time during which it is in force.
//!
//! `limits` compares the effect of a write with the guards; [`crate::judge`] decides what follows.

mod limits;

use std::sync::Arc;

use imbl::OrdMap;
use jiff::Timestamp;
use serde_json::Value;

pub use self::limits::{GuardCheck, GuardLimit, Limited, check_part};
pub(crate) use self::limits::{check, refusal};
use crate::diagnose::Diagnostic;
use crate::document::Document;
use crate::json::Json;
use crate::kind::GUARDS;
use crate::refusal::{Violation, quote};
use crate::selector::Selector;
use crate::snapshot::Fleet;

/// A guard, parsed: every write is compared with all of them.
#[derive(Debug)]
pub struct Guard {
    pub document: Document,
    value: Value,
    pub selector: Selector,
    /// The most matching clusters whose replies one write may change.
    pub changes: Option<usize>,
    /// The most matching clusters that one write may take something from.
    pub removals: Option<usize>,
    from: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl Guard {
    fn new(id: Arc<str>, body: Json) -> Result<Guard, String> {
        let value = body.parse();
        let unreadable = |detail: String| format!("the guard \"{id}\" cannot be read: {detail}");
        let selector = Selector::parse(text(&value, "selector")).map_err(|error| unreadable(error.to_string()))?;
        let number = |field: &str| value[field].as_u64().and_then(|number| usize::try_from(number).ok());
        let time = |field: &str| match value[field].as_str() {
            None => Ok(None),
            Some(text) => parse_time(text)
                .map(Some)
                .ok_or_else(|| unreadable(format!("{field} is not a time"))),
        };
        Ok(Guard {
            changes: number("changes"),
            removals: number("removals"),
            from: time("from")?,
            until: time("until")?,
            selector,
            document: Document::new(id, body),
            value,
        })
    }

    pub fn id(&self) -> &Arc<str> {
        &self.document.id
    }

    pub fn value(&self) -> &Value {
        &self.value
    }

    pub fn reason(&self) -> &str {
        text(&self.value, "reason")
    }

    pub(crate) fn selector_text(&self) -> &str {
        text(&self.value, "selector")
    }

    /// When it ends, as it was given.
    fn until_text(&self) -> Option<&str> {
        self.value["until"].as_str()
    }

    /// Whether it is in force at a time: from its beginning on, and before its end.
    pub fn is_in_force(&self, at: Timestamp) -> bool {
        self.from.is_none_or(|from| from <= at) && self.until.is_none_or(|until| at < until)
    }
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// The guards of a fleet.
#[derive(Clone, Debug, Default)]
pub struct Guards {
    by_id: OrdMap<Arc<str>, Arc<Guard>>,
}

impl Guards {
    pub fn get(&self, id: &str) -> Option<&Arc<Guard>> {
        self.by_id.get(id)
    }

    /// Sorted by id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Guard>> {
        self.by_id.values()
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Those in force at a time, in the format of revisions. At a time that cannot be read, all are.
    pub fn in_force(&self, at: &str) -> Vec<&Arc<Guard>> {
        if self.is_empty() {
            return Vec::new();
        }
        let at = parse_time(at);
        let is_in_force = |guard: &&Arc<Guard>| at.is_none_or(|at| guard.is_in_force(at));
        self.iter().filter(is_in_force).collect()
    }

    pub(crate) fn put(&mut self, id: Arc<str>, after: Option<Json>) -> Result<(), String> {
        match after {
            Some(body) => self.by_id.insert(id.clone(), Arc::new(Guard::new(id, body)?)),
            None => self.by_id.remove(&id),
        };
        Ok(())
    }
}

/// Parses a time as guards have it: RFC 3339.
pub fn parse_time(text: &str) -> Option<Timestamp> {
    // The parser accepts more, such as a space for the T.
    let is_date_time = text.as_bytes().get(10).is_some_and(|byte| matches!(byte, b'T' | b't'));
    text.parse().ok().filter(|_| is_date_time)
}

/// What is wrong with a guard's document beyond its schema.
pub(crate) fn problems(value: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    let is_there = |field: &str| value.get(field).is_some_and(|value| !value.is_null());
    if !is_there("changes") && !is_there("removals") {
        let detail = "a guard limits something: give it `changes`, `removals` or both; `changes: 0` is a freeze";
        found.push(Violation::new("", detail));
    }
    let [from, until] = ["from", "until"].map(|field| {
        let text = value.get(field).and_then(Value::as_str)?;
        let time = parse_time(text);
        if time.is_none() {
            let detail = format!(
                "\"{}\" is not a time: write it as 2026-12-20T00:00:00Z, with the zone",
                quote(text)
            );
            found.push(Violation::new(format!("/{field}"), detail));
        }
        time
    });
    if let (Some(from), Some(until)) = (from, until)
        && until <= from
    {
        found.push(Violation::new("/until", "must be after `from`"));
    }
    found
}

/// What is suspicious about one guard.
pub(crate) fn warnings(fleet: &Fleet, guard: &Guard) -> Option<Diagnostic> {
    let unknown = guard.selector.labels_unknown_to(fleet);
    let detail = match unknown.first() {
        Some(key) => format!("selects by the label \"{key}\", which no cluster has"),
        None if guard.selector.select(fleet).next().is_none() => "matches no cluster".to_owned(),
        None => return None,
    };
    Some(Diagnostic {
        code: "unmatched",
        kind: GUARDS.to_owned(),
        id: guard.id().to_string(),
        detail,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn guard(value: &Value) -> Guard {
        Guard::new("g".into(), Json::new(value)).unwrap()
    }

    #[test]
    fn a_guard_is_in_force_from_its_beginning_until_before_its_end() {
        let both = guard(&json!({"id": "g", "selector": "*", "changes": 0, "reason": "x",
            "from": "2026-12-20T00:00:00Z", "until": "2026-12-21T01:00:00+01:00"}));
        for (at, expected) in [
            ("2026-12-19T23:59:59.999999Z", false),
            ("2026-12-20T00:00:00.000000Z", true),
            ("2026-12-20T23:59:59.999999Z", true),
            ("2026-12-21T00:00:00.000000Z", false),
        ] {
            assert_eq!(both.is_in_force(parse_time(at).unwrap()), expected, "{at}");
        }
        let always = guard(&json!({"id": "g", "selector": "*", "changes": 0, "reason": "x"}));
        assert!(always.is_in_force(parse_time("1970-01-01T00:00:00Z").unwrap()));
    }

    #[test]
    fn at_a_time_that_cannot_be_read_every_guard_is_in_force() {
        let mut guards = Guards::default();
        let ended = json!({"id": "g", "selector": "*", "changes": 0, "reason": "x", "until": "2020-01-01T00:00:00Z"});
        guards.put("g".into(), Some(Json::new(&ended))).unwrap();
        assert_eq!(guards.in_force("").len(), 1);
        assert_eq!(guards.in_force("2026-11-16T15:00:00.000000Z").len(), 0);
    }

    #[test]
    fn times_are_rfc_3339() {
        assert!(parse_time("2026-12-20T00:00:00.25+02:00").is_some());
        for bad in [
            "",
            "2026-12-20",
            "2026-12-20T00:00:00",
            "2026-12-20 00:00:00Z",
            "tomorrow",
        ] {
            assert!(parse_time(bad).is_none(), "{bad}");
        }
    }
}
