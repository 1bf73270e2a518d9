//! Names of version directories: Semantic Versioning, so that they have an order.

use std::cmp::Ordering;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    numbers: [u64; 3],
    /// What stands behind a dash: `1`, `rc.1`. A hotfix or a candidate.
    pre: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Text(String),
}

impl Version {
    /// `1.14.0`, `v1.14.0-1`, `1.0.0+build`.
    pub(crate) fn parse(text: &str) -> Option<Version> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (text, build) = text
            .split_once('+')
            .map_or((text, None), |(text, build)| (text, Some(build)));
        let (core, pre) = text
            .split_once('-')
            .map_or((text, None), |(core, pre)| (core, Some(pre)));
        let fine =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if build.is_some_and(|build| !build.split('.').all(fine)) {
            return None;
        }
        let mut numbers = core.split('.').map(number);
        let numbers = [numbers.next()??, numbers.next()??, numbers.next()??];
        if core.split('.').count() != 3 {
            return None;
        }
        let mut parts = Vec::new();
        for part in pre.into_iter().flat_map(|pre| pre.split('.')) {
            match part.bytes().all(|byte| byte.is_ascii_digit()) {
                true => parts.push(Part::Number(number(part)?)),
                false if fine(part) => parts.push(Part::Text(part.to_owned())),
                false => return None,
            }
        }
        Some(Version { numbers, pre: parts })
    }
}

/// A number without leading zeros.
fn number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}

impl Ord for Version {
    fn cmp(&self, other: &Version) -> Ordering {
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => self.pre.cmp(&other.pre),
            })
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn versions_have_the_order_of_semver() {
        let sorted = [
            "0.9.9",
            "1.0.0-1",
            "1.0.0-2",
            "1.0.0-10",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-rc.1",
            "1.0.0",
            "v1.0.1",
            "1.14.0",
            "10.0.0",
        ];
        for pair in sorted.windows(2) {
            assert!(Version::parse(pair[0]) < Version::parse(pair[1]), "{pair:?}");
        }
        assert_eq!(Version::parse("1.0.0+a"), Version::parse("1.0.0+b"));
    }

    #[test]
    fn what_is_no_version_is_none() {
        for text in [
            "",
            "1",
            "1.2",
            "1.2.3.4",
            "latest",
            "base",
            "01.2.3",
            "1.2.3-",
            "1.2.3-01",
            "1.2.3-a..b",
            "1.2.3+",
            "1.2.x",
            "-1.0.0",
            "1.2.99999999999999999999",
        ] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }
}
