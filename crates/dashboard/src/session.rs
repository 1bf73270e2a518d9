//! The session: the caller's token in cookies of the browser. Nothing is kept on the server.

use axum::http::HeaderMap;
use axum::http::header::{COOKIE, HOST, HeaderName, HeaderValue, ORIGIN};
use axum::http::uri::Authority;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::{PREFIX, Settings};

/// The name of the cookies, before their number.
const NAME: &str = "flux-resourceset-";
/// The most bytes of a cookie. Browsers keep 4,096 of name, value and attributes.
const MOST: usize = 3500;
/// The most cookies of a token, which may be a JWT with many claims.
const PARTS: usize = 6;

static FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
static FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The token of a request's cookies.
pub(crate) fn token(headers: &HeaderMap) -> Option<String> {
    let mut parts: Vec<Option<&str>> = vec![None; PARTS];
    for (name, value) in cookies(headers) {
        let number = name.strip_prefix(NAME).and_then(|number| number.parse::<usize>().ok());
        if let Some(part) = number.and_then(|number| parts.get_mut(number)) {
            *part = Some(value);
        }
    }
    let encoded: String = parts.into_iter().map_while(|part| part).collect();
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(encoded).ok()?;
    String::from_utf8(bytes).ok().filter(|token| !token.is_empty())
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = values.flat_map(|value| value.split(';'));
    pairs.filter_map(|pair| pair.trim().split_once('='))
}

/// The cookies that keep a token. None if it is too long.
pub(crate) fn kept(token: &str, is_secure: bool) -> Option<Vec<HeaderValue>> {
    let encoded = BASE64_URL_SAFE_NO_PAD.encode(token);
    let mut parts: Vec<&str> = Vec::new();
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (part, more) = rest.split_at(rest.len().min(MOST));
        parts.push(part);
        rest = more;
    }
    if parts.len() > PARTS {
        return None;
    }
    // Parts of an earlier, longer token must not be added to this one.
    let stale = (parts.len()..PARTS).map(|number| set(&format!("{NAME}{number}"), "", is_secure, Some(0)));
    let kept = parts
        .iter()
        .enumerate()
        .map(|(number, part)| set(&format!("{NAME}{number}"), part, is_secure, None));
    kept.chain(stale).collect()
}

/// The cookies that forget it.
pub(crate) fn forgotten(is_secure: bool) -> Vec<HeaderValue> {
    let all = (0..PARTS).filter_map(|number| set(&format!("{NAME}{number}"), "", is_secure, Some(0)));
    all.collect()
}

/// A cookie of ours: no script can read it, and no other site's form sends it.
pub(crate) fn set(name: &str, value: &str, is_secure: bool, seconds: Option<u32>) -> Option<HeaderValue> {
    let age = seconds.map_or(String::new(), |seconds| format!("; Max-Age={seconds}"));
    let secure = if is_secure { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path={PREFIX}; HttpOnly; SameSite=Lax{secure}{age}");
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The value of another cookie of ours.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut found = cookies(headers).filter(|(known, _)| *known == name);
    found.next().map(|(_, value)| value)
}

/// Whether the browser speaks TLS, to us or to a proxy before us. A client that lies about it only makes its own cookies stricter.
pub(crate) fn is_secure(ui: &Settings, headers: &HeaderMap) -> bool {
    match &ui.url {
        Some(url) => url.starts_with("https:"),
        None => ui.has_tls || was_secure(headers),
    }
}

fn was_secure(headers: &HeaderMap) -> bool {
    let forwarded = first(headers, &FORWARDED_PROTO);
    forwarded.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"))
}

/// The host, and port, that the browser asked for: of us, or of a proxy before us.
pub(crate) fn host(headers: &HeaderMap) -> Option<&str> {
    let host = first(headers, &FORWARDED_HOST).or_else(|| first(headers, &HOST))?;
    let authority: Authority = host.parse().ok()?;
    // Not a user name before the host.
    (authority.as_str() == host && !host.contains('@')).then_some(host)
}

/// The first of the values of a header: proxies add theirs behind a comma.
fn first<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let value = headers.get(name)?.to_str().ok()?;
    value.split(',').map(str::trim).find(|value| !value.is_empty())
}

/// Where a form was sent from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A page of ours.
    Own,
    /// A page of another site.
    Other,
    /// Not said: not a browser.
    Unknown,
}

impl Source {
    /// Browsers name the origin of every form that they send, and no script can change it.
    pub(crate) fn of(ui: &Settings, headers: &HeaderMap) -> Source {
        let Some(origin) = headers.get(ORIGIN) else {
            return Source::Unknown;
        };
        let origin = origin.to_str().unwrap_or_default();
        match is_ours(ui, headers, origin) {
            true => Source::Own,
            false => Source::Other,
        }
    }
}

/// Whether pages of an origin are ours: the origin of UI_URL, or the host that the browser asked for. Where the browser speaks TLS, a page
/// without TLS is not ours, though it has our name: anybody on the way to the browser can make one.
fn is_ours(ui: &Settings, headers: &HeaderMap, origin: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else {
        return false;
    };
    let configured = ui.url.as_deref().and_then(|url| url.split_once("://"));
    let configured = configured.map(|(scheme, rest)| (scheme, rest.split('/').next().unwrap_or_default()));
    if let Some((wanted, ours)) = configured
        && ours.eq_ignore_ascii_case(authority)
    {
        return wanted.eq_ignore_ascii_case(scheme);
    }
    let mut hosts = [&HOST, &FORWARDED_HOST]
        .into_iter()
        .filter_map(|name| first(headers, name));
    let is_encrypted = ui.has_tls || was_secure(headers);
    hosts.any(|host| host.eq_ignore_ascii_case(authority)) && (!is_encrypted || scheme.eq_ignore_ascii_case("https"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// What a browser sends back.
    fn returned(cookies: &[HeaderValue]) -> HeaderMap {
        let pairs = cookies.iter().map(|cookie| cookie.to_str().unwrap());
        let kept = pairs.filter(|cookie| !cookie.contains("Max-Age=0"));
        let pairs: Vec<&str> = kept.map(|cookie| cookie.split(';').next().unwrap()).collect();
        HeaderMap::from_iter([(COOKIE, HeaderValue::try_from(pairs.join("; ")).unwrap())])
    }

    #[test]
    fn a_token_comes_back_from_its_cookies() {
        for token in ["short", "with; odd = characters", &"long".repeat(3000)] {
            let cookies = kept(token, false).unwrap();
            assert!(cookies.iter().all(|cookie| cookie.len() < 3700));
            assert_eq!(token_of(&cookies).as_deref(), Some(token));
        }
        assert_eq!(kept(&"x".repeat(30_000), false), None);
        assert_eq!(token_of(&forgotten(false)), None);
    }

    fn token_of(cookies: &[HeaderValue]) -> Option<String> {
        token(&returned(cookies))
    }

    #[test]
    fn cookies_are_for_this_site_and_not_for_scripts() {
        let text = |is_secure| kept("t", is_secure).unwrap()[0].to_str().unwrap().to_owned();
        assert_eq!(text(false), "flux-resourceset-0=dA; Path=/ui; HttpOnly; SameSite=Lax");
        assert_eq!(
            text(true),
            "flux-resourceset-0=dA; Path=/ui; HttpOnly; SameSite=Lax; Secure"
        );
    }

    #[test]
    fn the_host_is_the_one_that_the_browser_asked_for() {
        let host = |pairs: &[(&'static str, &'static str)]| {
            let pairs = pairs
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            let headers = HeaderMap::from_iter(pairs);
            super::host(&headers).map(|host| (host.to_owned(), was_secure(&headers)))
        };
        let found = |host: &str, is_secure| Some((host.to_owned(), is_secure));
        assert_eq!(host(&[("host", "127.0.0.1:8080")]), found("127.0.0.1:8080", false));
        assert_eq!(host(&[("host", "[::1]:8080")]), found("[::1]:8080", false));
        let proxied = ("x-forwarded-host", "fleet.example.com, inner.example.com");
        let encrypted = ("x-forwarded-proto", "https, http");
        assert_eq!(
            host(&[("host", "api:8080"), proxied, encrypted]),
            found("fleet.example.com", true)
        );
        for wrong in [
            "",
            "ann@evil.example.com",
            "fleet.example.com/x",
            "fleet example.com",
            "a?b",
        ] {
            assert_eq!(host(&[("host", wrong)]), None, "{wrong}");
        }
        assert_eq!(host(&[]), None);
    }

    #[test]
    fn only_our_own_pages_are_our_own() {
        let source = |ui: &Settings, pairs: &[(&'static str, &'static str)]| {
            let pairs = pairs
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            Source::of(ui, &HeaderMap::from_iter(pairs))
        };
        let ui = settings(None);
        let host = ("host", "fleet.example.com:8443");
        assert_eq!(source(&ui, &[host]), Source::Unknown);
        for (origin, expected) in [
            ("https://fleet.example.com:8443", Source::Own),
            ("https://fleet.example.com", Source::Other),
            ("https://evil.example.com", Source::Other),
            ("fleet.example.com:8443", Source::Other),
            ("null", Source::Other),
        ] {
            assert_eq!(source(&ui, &[host, ("origin", origin)]), expected, "{origin}");
        }
        let proxied = ("x-forwarded-host", "fleet.example.com");
        let [plain, encrypted] = ["http://fleet.example.com", "https://fleet.example.com"].map(|one| ("origin", one));
        assert_eq!(source(&ui, &[host, proxied, encrypted]), Source::Own);
        assert_eq!(source(&ui, &[host, proxied, plain]), Source::Own);
        let with_tls = ("x-forwarded-proto", "https");
        assert_eq!(source(&ui, &[host, proxied, with_tls, encrypted]), Source::Own);
        assert_eq!(source(&ui, &[host, proxied, with_tls, plain]), Source::Other);

        // A proxy that passes nothing on, before a server that knows its address.
        let ui = settings(Some("https://fleet.example.com/ui"));
        let inner = ("host", "api:8080");
        assert_eq!(source(&ui, &[inner, encrypted]), Source::Own);
        assert_eq!(source(&ui, &[inner, plain]), Source::Other);
        // Somebody who goes around the proxy, as with a forwarded port.
        let local = [("host", "127.0.0.1:8080"), ("origin", "http://127.0.0.1:8080")];
        assert_eq!(source(&ui, &local), Source::Own);
    }

    fn settings(url: Option<&str>) -> Settings {
        let nothing = tower::service_fn(async |_| Ok(axum::http::Response::default()));
        Settings {
            api: crate::ApiService(tower::util::BoxCloneSyncService::new(nothing)),
            carry: Clone::clone,
            has_tls: false,
            writes: true,
            issuer: None,
            url: url.map(str::to_owned),
        }
    }
}
