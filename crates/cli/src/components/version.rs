//! The names of version folders: Semantic Versioning, with an optional `v` in front.

/// Parses `1.14.0`, `v1.14.0-1` or `1.0.0+build`.
pub(super) fn parse(text: &str) -> Option<semver::Version> {
    semver::Version::parse(text.strip_prefix('v').unwrap_or(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn versions_have_the_order_of_semver() {
        let sorted = [
            "0.9.9",
            "1.0.0-1",
            "1.0.0-2",
            "1.0.0-10",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-rc.9",
            "1.0.0-rc.10",
            "1.0.0",
            "v1.0.1",
            "1.14.0",
            "10.0.0",
        ];
        for pair in sorted.windows(2) {
            assert!(parse(pair[0]) < parse(pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn other_names_are_not_versions() {
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
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
