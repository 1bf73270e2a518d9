//! Which providers poll our API for this cluster.

/// The address under which the inputs of this cluster are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ours {
    /// Ends with a slash.
    prefix: String,
    /// The part of the prefix behind the address of the API.
    suffix: String,
}

impl Ours {
    /// `url` is the API's address.
    pub(crate) fn new(url: &str, dns: &str) -> Ours {
        let suffix = format!("/api/v2/flux/clusters/{dns}/");
        Ours {
            prefix: format!("{}{suffix}", comparable(url).trim_end_matches('/')),
            suffix,
        }
    }

    /// The path that a provider with this URL polls, such as `platform-components`.
    pub(crate) fn path<'a>(&self, url: &'a str) -> Option<&'a str> {
        let address = comparable(url);
        let start = address.get(..self.prefix.len())?;
        let path = address.len() - self.prefix.len();
        let url = without_query(url).trim_end_matches('/');
        // What was made comparable is at the begin, so the ends are the same.
        let path = &url[url.len().checked_sub(path)?..];
        (start.eq_ignore_ascii_case(&self.prefix) && !path.is_empty() && !path.contains('/')).then_some(path)
    }

    /// Whether a URL is about this cluster, but at another address than the one that is reported to.
    pub(crate) fn is_elsewhere(&self, url: &str) -> bool {
        self.path(url).is_none() && without_query(url).contains(&self.suffix)
    }
}

fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

/// Without a query, a port that is the scheme's own, a user, and a slash at the end.
fn comparable(url: &str) -> String {
    let url = without_query(url).trim_end_matches('/');
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = host.rsplit('@').next().unwrap_or_default();
    let own = if scheme.eq_ignore_ascii_case("https") {
        ":443"
    } else {
        ":80"
    };
    format!("{scheme}://{}{path}", host.strip_suffix(own).unwrap_or(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_ours_by_address_and_dns_name() {
        let ours = Ours::new("https://fleet.example.com/", "a.example.com");
        let of = |rest: &str| format!("https://fleet.example.com/api/v2/flux/clusters/{rest}");
        for (url, expected) in [
            (of("a.example.com/namespaces"), Some("namespaces")),
            (of("a.example.com/namespaces?marked=true"), Some("namespaces")),
            (of("a.example.com/namespaces/?marked=true#x"), Some("namespaces")),
            (of("A.Example.com/namespaces"), Some("namespaces")),
            (
                "HTTPS://Fleet.example.com:443/api/v2/flux/clusters/a.example.com/x".to_owned(),
                Some("x"),
            ),
            (of("a.example.com/"), None),
            (of("a.example.com"), None),
            (of("a.example.com?x=/namespaces"), None),
            (of("a.example.com/namespaces/more"), None),
            (of("b.example.com/namespaces"), None),
            (of("a.example.community/namespaces"), None),
            (
                "https://other.example.com/api/v2/flux/clusters/a.example.com/x".to_owned(),
                None,
            ),
            (
                "http://fleet.example.com/api/v2/flux/clusters/a.example.com/x".to_owned(),
                None,
            ),
            (
                "https://fleet.example.com:8443/api/v2/flux/clusters/a.example.com/x".to_owned(),
                None,
            ),
            ("${INTERNAL_API_URL}/x".to_owned(), None),
            ("é".repeat(60), None),
            (String::new(), None),
        ] {
            assert_eq!(ours.path(&url), expected, "{url}");
        }
        let elsewhere = "http://flux-api-read:8080/api/v2/flux/clusters/a.example.com/x?marked=true";
        assert!(ours.is_elsewhere(elsewhere));
        assert!(!ours.is_elsewhere(&of("a.example.com/x")));
        assert!(!ours.is_elsewhere(&of("b.example.com/x")));
        // The API may be under a path of its address.
        let ours = Ours::new("http://127.0.0.1:80/fleet", "a");
        assert_eq!(ours.path("http://127.0.0.1/fleet/api/v2/flux/clusters/a/x"), Some("x"));
    }
}
