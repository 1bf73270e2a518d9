//! `--waves canary,10%,rest`, or `--wave canary --wave gold:ring=stable,tier=gold --wave rest`: waves in a few words.

use fleet::selector::Selector;
use serde_json::{Value, json};

use crate::error::Failure;

/// The name of the last wave.
const REST: &str = "rest";
/// The label that a bare word is a value of.
const RING: &str = "ring";

/// Parses waves. `approve` names those that wait for an approval, by name or by word.
pub(super) fn parse(words: &[&str], approve: &[String]) -> Result<Vec<Value>, Failure> {
    let mut waves: Vec<Value> = Vec::new();
    for (n, word) in words.iter().enumerate() {
        let is_last = n + 1 == words.len();
        if is_last != (*word == REST) {
            let message = match is_last {
                true => format!("the last wave is `{REST}`, everyone who is left; the last one here is `{word}`"),
                false => format!("`{REST}` is everyone who is left, so it is the last wave"),
            };
            return Err(Failure::usage(message).hint("for example --waves canary,10%,rest"));
        }
        let (name, mut wave) = named(word).map_err(|error| Failure::usage(format!("the wave \"{word}\" {error}")))?;
        wave["name"] = unique(&waves, &name).into();
        if approve
            .iter()
            .any(|given| given == word || wave["name"] == given.as_str())
        {
            wave["approve"] = true.into();
        }
        waves.push(wave);
    }
    let is_known =
        |given: &&String| words.contains(&given.as_str()) || waves.iter().any(|wave| wave["name"] == given.as_str());
    match approve.iter().find(|given| !is_known(given)) {
        Some(unknown) => {
            let names: Vec<&str> = waves.iter().filter_map(|wave| wave["name"].as_str()).collect();
            let failure = Failure::usage(format!("--approve: there is no wave \"{unknown}\""));
            Err(failure.hint(format!("the waves are {}", names.join(", "))))
        }
        None => Ok(waves),
    }
}

/// Splits `--waves` at commas that are not in parentheses: `ring in (a,b),rest`.
pub(super) fn split(words: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = words.split(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    parts.map(str::trim).collect()
}

/// A wave with the name before its colon, if it has one: neither selectors nor shares have colons.
fn named(word: &str) -> Result<(String, Value), String> {
    let Some((name, word)) = word.split_once(':') else {
        return one(word);
    };
    let (_, wave) = one(word.trim())?;
    match slug(name) == name && !name.is_empty() {
        true => Ok((name.to_owned(), wave)),
        false => Err(format!(
            "has a name that is not lower case letters, digits, dots and dashes: \"{name}\""
        )),
    }
}

/// The name of a wave, and the wave without it.
fn one(word: &str) -> Result<(String, Value), String> {
    if word == REST {
        return Ok((REST.to_owned(), json!({})));
    }
    if let Some(number) = word.strip_suffix('%') {
        let percent: f64 = number
            .parse()
            .map_err(|_| "is not a percentage such as 10%".to_owned())?;
        if !(percent > 0.0 && percent <= 100.0) {
            return Err("is not between 0% and 100%".to_owned());
        }
        // A whole number is written as one.
        let value = number
            .parse::<u64>()
            .map_or_else(|_| json!(percent), |whole| json!(whole));
        return Ok((format!("{}-percent", slug(number)), json!({ "percent": value })));
    }
    let (name, selector) = match word.contains(['=', '!', '(']) {
        true => (selector_name(word), word.to_owned()),
        false => (word.to_ascii_lowercase(), format!("{RING}={word}")),
    };
    Selector::parse(&selector).map_err(|error| format!("is not a selector: {error}"))?;
    match slug(&name) {
        name if name.is_empty() => Err("gives the wave no name: write NAME:SELECTOR".to_owned()),
        name => Ok((name, json!({ "selector": selector }))),
    }
}

/// `dev` for `environment=dev`, `not-dev` for `environment!=dev`, `a-b` for `team in (a,b)`.
fn selector_name(selector: &str) -> String {
    if let Some(key) = selector.strip_prefix('!') {
        return format!("not-{key}");
    }
    for (sign, prefix) in [("!=", "not-"), (" notin ", "not-"), (" in ", ""), ("=", "")] {
        if let Some((_, value)) = selector.split_once(sign) {
            return format!("{prefix}{}", value.trim_start_matches('='));
        }
    }
    selector.to_owned()
}

/// A text as a part of a name: lower case, digits, dots and single dashes.
pub(crate) fn slug(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c.to_ascii_lowercase() {
            c if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.' => out.push(c),
            _ if out.ends_with('-') => {}
            _ => out.push('-'),
        }
    }
    out.trim_matches(['-', '.']).to_owned()
}

fn unique(waves: &[Value], name: &str) -> String {
    let is_taken = |name: &str| waves.iter().any(|wave| wave["name"] == name);
    let mut names = std::iter::once(name.to_owned()).chain((2..).map(|n| format!("{name}-{n}")));
    names.find(|name| !is_taken(name)).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn waves_in_words() {
        let words = "canary,environment=dev,team in (a,b),environment!=prod,10%,10%,2.5%,rest";
        let waves = parse(&split(words), &["10%".to_owned(), "rest".to_owned()]).unwrap();
        let expected = json!([
            {"name": "canary", "selector": "ring=canary"},
            {"name": "dev", "selector": "environment=dev"},
            {"name": "a-b", "selector": "team in (a,b)"},
            {"name": "not-prod", "selector": "environment!=prod"},
            {"name": "10-percent", "percent": 10, "approve": true},
            {"name": "10-percent-2", "percent": 10, "approve": true},
            {"name": "2.5-percent", "percent": 2.5},
            {"name": "rest", "approve": true},
        ]);
        assert_eq!(Value::from(waves), expected);
        assert_eq!(parse(&["rest"], &[]).unwrap(), [json!({"name": "rest"})]);
    }

    #[test]
    fn a_wave_may_have_a_selector_with_commas_and_a_name() {
        let words = ["ring=stable,tier=gold", "gold:ring=edge,tier!=silver", "few:5%", "rest"];
        let waves = parse(&words, &["gold".to_owned()]).unwrap();
        let expected = json!([
            {"name": "stable-tier-gold", "selector": "ring=stable,tier=gold"},
            {"name": "gold", "selector": "ring=edge,tier!=silver", "approve": true},
            {"name": "few", "percent": 5},
            {"name": "rest"},
        ]);
        assert_eq!(Value::from(waves), expected);
    }

    #[test]
    fn words_that_are_no_waves() {
        for (words, part) in [
            ("canary", "the last wave is `rest`"),
            ("rest,canary", "everyone who is left"),
            ("x%,rest", "is not a percentage"),
            ("0%,rest", "between 0% and 100%"),
            ("101%,rest", "between 0% and 100%"),
            ("a b,rest", "is not a selector"),
            ("Gold:a=b,rest", "has a name that is not lower case"),
            (":a=b,rest", "has a name that is not lower case"),
            ("", "the last wave is `rest`"),
        ] {
            let message = parse(&split(words), &[]).unwrap_err().message;
            assert!(message.contains(part), "{words}: {message}");
        }
        let unknown = parse(&["canary", "rest"], &["all".to_owned()]).unwrap_err();
        assert_eq!(unknown.hint.as_deref(), Some("the waves are canary, rest"));
    }
}
