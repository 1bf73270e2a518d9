//! Go's `net/url`: parsing and printing of URLs.

mod address;

use crate::{strconv, strings};

/// A URL in parts, which are decoded.
///
/// ```
/// let url = gotemplate::url::parse(b"https://ada@example.com:8443/a%20b?q=1#top").unwrap();
/// assert_eq!(url.hostname(), b"example.com");
/// assert_eq!(url.path, b"/a b");
/// assert_eq!(url.to_bytes(), b"https://ada@example.com:8443/a%20b?q=1#top");
/// ```
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Url {
    /// In lower case, without the colon.
    pub scheme: Vec<u8>,
    /// What follows the scheme of a URL without slashes, such as `mailto:a@b`.
    pub opaque: Vec<u8>,
    /// Name and password.
    pub user: Option<User>,
    /// Host and port.
    pub host: Vec<u8>,
    /// The path.
    pub path: Vec<u8>,
    /// The query, encoded, without the question mark.
    pub query: Vec<u8>,
    /// The fragment, without the number sign.
    pub fragment: Vec<u8>,
}

/// The name and password of a URL.
#[derive(Debug, PartialEq, Eq)]
pub struct User {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

/// The part of a URL that a byte belongs to. It decides whether the byte must be escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Host,
    /// The zone of an IPv6 address.
    Zone,
    User,
    Fragment,
}

impl Part {
    /// Whether the byte needs no escaping.
    fn allows(self, byte: u8) -> bool {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => true,
            b'$' | b'&' | b'+' | b',' | b';' | b'=' => true,
            b'!' | b'(' | b')' | b'*' => matches!(self, Self::Fragment | Self::Zone | Self::Host),
            b'"' | b'\'' | b'<' | b'>' | b'[' | b']' => matches!(self, Self::Zone | Self::Host),
            b':' => self != Self::User,
            b'/' | b'@' => matches!(self, Self::Fragment | Self::Path),
            b'?' => self == Self::Fragment,
            _ => false,
        }
    }
}

/// `url.Parse`. The error is the text of Go's error.
pub fn parse(raw: &[u8]) -> Result<Url, String> {
    let (before, fragment) = cut(raw, b'#');
    let failed = |whole: &[u8], problem: String| format!("parse {}: {problem}", strconv::quote(whole));
    let mut url = parse_before_fragment(before).map_err(|problem| failed(before, problem))?;
    url.fragment = unescape(fragment.unwrap_or_default(), Part::Fragment).map_err(|problem| failed(raw, problem))?;
    Ok(url)
}

fn parse_before_fragment(raw: &[u8]) -> Result<Url, String> {
    if raw.iter().any(u8::is_ascii_control) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let mut url = Url::default();
    if raw == b"*" {
        url.path = raw.to_vec();
        return Ok(url);
    }
    let (scheme, rest) = scheme(raw)?;
    url.scheme = scheme.to_ascii_lowercase();
    let (mut rest, query) = cut(rest, b'?');
    url.query = query.unwrap_or_default().to_vec();
    if !rest.starts_with(b"/") {
        if !scheme.is_empty() {
            url.opaque = rest.to_vec();
            return Ok(url);
        }
        if cut(rest, b'/').0.contains(&b':') {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    if let Some(authority) = rest.strip_prefix(b"//")
        && (!scheme.is_empty() || !authority.starts_with(b"/"))
    {
        let end = authority
            .iter()
            .position(|&byte| byte == b'/')
            .unwrap_or(authority.len());
        (url.user, url.host) = parse_authority(&url.scheme, &authority[..end])?;
        rest = &authority[end..];
    }
    url.path = unescape(rest, Part::Path)?;
    Ok(url)
}

/// The text before the first occurrence of a byte, and the text after it.
fn cut(text: &[u8], at: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|&byte| byte == at) {
        Some(position) => (&text[..position], Some(&text[position + 1..])),
        None => (text, None),
    }
}

/// The scheme, which may be empty, and the text after it.
fn scheme(raw: &[u8]) -> Result<(&[u8], &[u8]), String> {
    for (at, byte) in raw.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&raw[..at], &raw[at + 1..])),
            _ => break,
        }
    }
    Ok((b"", raw))
}

fn parse_authority(scheme: &[u8], authority: &[u8]) -> Result<(Option<User>, Vec<u8>), String> {
    let Some(at) = authority.iter().rposition(|&byte| byte == b'@') else {
        return Ok((None, parse_host(scheme, authority)?));
    };
    let host = parse_host(scheme, &authority[at + 1..])?;
    let user = &authority[..at];
    let valid = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(byte);
    if !user.iter().all(valid) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let (name, password) = cut(user, b':');
    let name = unescape(name, Part::User)?;
    let password = password.map(|password| unescape(password, Part::User)).transpose()?;
    Ok((Some(User { name, password }), host))
}

fn parse_host(scheme: &[u8], host: &[u8]) -> Result<Vec<u8>, String> {
    let check_port = |port: &[u8]| match port {
        [] => Ok(()),
        [b':', digits @ ..] if digits.iter().all(u8::is_ascii_digit) => Ok(()),
        _ => Err(format!("invalid port {} after host", strconv::quote(port))),
    };
    match host.iter().rposition(|&byte| byte == b'[') {
        Some(0) => {
            let close = host
                .iter()
                .rposition(|&byte| byte == b']')
                .ok_or("missing ']' in host")?;
            let port = &host[close + 1..];
            check_port(port)?;
            let name = &host[1..close];
            let zone = strings::find(name, b"%25").unwrap_or(name.len());
            let mut literal = unescape(&name[..zone], Part::Host)?;
            literal.extend(unescape(&name[zone..], Part::Zone)?);
            address::check_v6(&literal)?;
            return Ok([b"[", literal.as_slice(), b"]", unescape(port, Part::Host)?.as_slice()].concat());
        }
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {}
    }
    if let Some(first) = host.iter().position(|&byte| byte == b':') {
        let last = host.iter().rposition(|&byte| byte == b':').unwrap_or(first);
        let web = scheme == b"http" || scheme == b"https";
        check_port(&host[if web { first } else { last }..])?;
    }
    unescape(host, Part::Host)
}

fn unescape(text: &[u8], part: Part) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let decoded = match byte {
            b'%' => {
                let escape = &rest[..rest.len().min(3)];
                let decoded = hexadecimal(escape);
                let fits = decoded.filter(|&decoded| {
                    escape == b"%25"
                        || match part {
                            Part::Host => decoded >= 0x80,
                            Part::Zone => decoded == b' ' || Part::Host.allows(decoded),
                            _ => true,
                        }
                });
                rest = rest.get(3..).unwrap_or_default();
                fits.ok_or_else(|| format!("invalid URL escape {}", strconv::quote(escape)))?
            }
            _ if matches!(part, Part::Host | Part::Zone) && byte.is_ascii() && !part.allows(byte) => {
                return Err(format!("invalid character {} in host name", strconv::quote(&[byte])));
            }
            _ => {
                rest = after;
                byte
            }
        };
        out.push(decoded);
    }
    Ok(out)
}

/// The byte of an escape such as `%41`.
fn hexadecimal(escape: &[u8]) -> Option<u8> {
    let [b'%', high, low] = escape else { return None };
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

fn escape(text: &[u8], part: Part) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        if part.allows(byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    out
}

impl User {
    /// The `String` method: the text before the `@`.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = escape(&self.name, Part::User);
        if let Some(password) = &self.password {
            out.push(b':');
            out.extend(escape(password, Part::User));
        }
        out
    }
}

impl Url {
    /// `Hostname`: the host without port and brackets.
    pub fn hostname(&self) -> &[u8] {
        let host = self.host.as_slice();
        let port = host.iter().rposition(|&byte| byte == b':');
        let port = port.filter(|&colon| host[colon + 1..].iter().all(u8::is_ascii_digit));
        let host = &host[..port.unwrap_or(host.len())];
        host.strip_prefix(b"[")
            .and_then(|host| host.strip_suffix(b"]"))
            .unwrap_or(host)
    }

    /// The `String` method, for a URL of decoded parts.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.scheme.is_empty() {
            out.extend_from_slice(&self.scheme);
            out.push(b':');
        }
        if self.opaque.is_empty() {
            self.write_hierarchy(&mut out);
        } else {
            out.extend_from_slice(&self.opaque);
        }
        if !self.query.is_empty() {
            out.push(b'?');
            out.extend_from_slice(&self.query);
        }
        if !self.fragment.is_empty() {
            out.push(b'#');
            out.extend(escape(&self.fragment, Part::Fragment));
        }
        out
    }

    fn write_hierarchy(&self, out: &mut Vec<u8>) {
        if !self.scheme.is_empty() || !self.host.is_empty() || self.user.is_some() {
            if !self.host.is_empty() || !self.path.is_empty() || self.user.is_some() {
                out.extend_from_slice(b"//");
            }
            if let Some(user) = &self.user {
                out.extend(user.to_bytes());
                out.push(b'@');
            }
            out.extend(escape(&self.host, Part::Host));
        }
        let path = if self.path == b"*" {
            self.path.clone()
        } else {
            escape(&self.path, Part::Path)
        };
        if !path.is_empty() && !path.starts_with(b"/") && !self.host.is_empty() {
            out.push(b'/');
        }
        // A colon in the first segment would look like a scheme.
        if out.is_empty() && cut(&path, b'/').0.contains(&b':') {
            out.extend_from_slice(b"./");
        }
        out.extend(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_decoded() {
        let url = parse(b"HTTPS://us%20er:p@example.com:8443/a%2Fb?q=%20#fr%20ag").expect("a URL");
        assert_eq!(
            (url.scheme.as_slice(), url.hostname()),
            (&b"https"[..], &b"example.com"[..])
        );
        assert_eq!(
            (url.path.as_slice(), url.query.as_slice()),
            (&b"/a/b"[..], &b"q=%20"[..])
        );
        assert_eq!(url.fragment, b"fr ag");
        assert_eq!(url.user.expect("a user").to_bytes(), b"us%20er:p");
        assert_eq!(parse(b"mailto:me@x.org").expect("a URL").opaque, b"me@x.org");
        assert_eq!(
            parse(b"http://[fe80::1%25en0]:80/").expect("a URL").hostname(),
            b"fe80::1%en0"
        );
    }

    #[test]
    fn problems_read_as_in_go() {
        for (raw, problem) in [
            (":x", "missing protocol scheme"),
            ("http://h:x/", "invalid port \":x\" after host"),
            ("http://a:b:1/", "invalid port \":b:1\" after host"),
            ("http://h/%zz", "invalid URL escape \"%zz\""),
            ("http://a b/", "invalid character \" \" in host name"),
            (
                "git@github.com:org/repo",
                "first path segment in URL cannot contain colon",
            ),
            ("http://[::1/", "missing ']' in host"),
            ("http://[1.2.3.4]/", "invalid IP-literal"),
            (
                "http://[1::2::3]/",
                "invalid host: ParseAddr(\"1::2::3\"): multiple :: in address (at \":3\")",
            ),
        ] {
            assert_eq!(parse(raw.as_bytes()), Err(format!("parse \"{raw}\": {problem}")));
        }
    }

    #[test]
    fn parts_are_put_together() {
        let url = |scheme: &str, host: &str, path: &str| Url {
            scheme: scheme.into(),
            host: host.into(),
            path: path.into(),
            ..Url::default()
        };
        assert_eq!(url("http", "h", "a b").to_bytes(), b"http://h/a%20b");
        assert_eq!(url("", "", "a:b/c").to_bytes(), b"./a:b/c");
        assert_eq!(url("file", "", "/x").to_bytes(), b"file:///x");
    }
}
