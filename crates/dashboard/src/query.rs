//! Query strings: parsed, and made for links.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// What a value in a query string, or a segment of a path, cannot hold as it is.
const VALUE: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'&')
    .add(b'+')
    .add(b'/')
    .add(b'<')
    .add(b'=')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The parameters of which an empty value says something: without a version. Of the others, a form sends it for every field that is left empty.
const MAY_BE_EMPTY: [&str; 1] = ["version"];

fn is_given(name: &str, value: &str) -> bool {
    MAY_BE_EMPTY.contains(&name) || !value.trim().is_empty()
}

/// A text as a value in a query string, or as a segment of a path.
pub(crate) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, VALUE).to_string()
}

/// The parameters of a page. A link to the page with one parameter changed keeps the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: Option<&str>) -> Query {
        let pairs = text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let decoded = |text: &str| {
            let text = text.replace('+', " ");
            percent_decode_str(&text).decode_utf8_lossy().into_owned()
        };
        Query(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(name, value)| (decoded(name), decoded(value)))
                .collect(),
        )
    }

    /// The value of a parameter. None if it is absent or empty: a form sends every field.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name)?;
        Some(found.1.trim()).filter(|value| !value.is_empty())
    }

    /// The value of a parameter as it is, also if it is empty.
    pub(crate) fn exact(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name)?;
        Some(&found.1)
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// The same with another value of a parameter.
    pub(crate) fn with(&self, name: &str, value: impl Into<String>) -> Query {
        let mut changed = self.without(name);
        changed.0.push((name.to_owned(), value.into()));
        changed
    }

    pub(crate) fn with_number(&self, name: &str, number: u64) -> Query {
        self.with(name, number.to_string())
    }

    pub(crate) fn without(&self, name: &str) -> Query {
        let pairs = self
            .0
            .iter()
            .filter(|(known, value)| known != name && is_given(known, value));
        Query(pairs.cloned().collect())
    }

    /// Those of the parameters that a route of the API knows.
    pub(crate) fn only(&self, names: &[&str]) -> Query {
        let pairs = self
            .0
            .iter()
            .filter(|(name, value)| names.contains(&name.as_str()) && is_given(name, value));
        Query(pairs.cloned().collect())
    }

    /// A path with these parameters.
    pub(crate) fn at(&self, path: &str) -> String {
        let pairs: Vec<String> = self
            .0
            .iter()
            .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
            .collect();
        match pairs.is_empty() {
            true => path.to_owned(),
            false => format!("{path}?{}", pairs.join("&")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_keeps_the_other_parameters() {
        let query = Query::parse(Some("q=tier%3Dgold%2Cregion+in+(a)&state=failing&offset=100&empty="));
        assert_eq!(query.get("q"), Some("tier=gold,region in (a)"));
        assert_eq!(query.get("empty"), None);
        assert_eq!(query.number("offset"), Some(100));
        let next = query.with_number("offset", 200);
        assert_eq!(
            next.at("/ui"),
            "/ui?q=tier%3Dgold,region%20in%20(a)&state=failing&offset=200"
        );
        assert_eq!(Query::parse(Some(next.at("").trim_start_matches('?'))), next);
        assert_eq!(query.only(&["state"]).at("/status"), "/status?state=failing");
        assert_eq!(Query::default().at("/ui"), "/ui");
        let without_version = Query::parse(Some("q=&reason=Stalled&version=")).with("state", "failing");
        assert_eq!(without_version.at("/ui"), "/ui?reason=Stalled&version=&state=failing");
        assert_eq!(
            without_version.only(&["version", "q"]).at("/status"),
            "/status?version="
        );
    }
}
