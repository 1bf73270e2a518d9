//! The login in a browser of this machine: the issuer redirects it to a port that this program listens on (RFC 8252), with a code that only
//! this program can redeem (PKCE, RFC 7636).

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use percent_encoding::percent_decode_str;
use sha2::{Digest as _, Sha256};

use super::issuer::OauthError;
use super::{Issuer, Tokens, browser, jwt};
use crate::error::Failure;
use crate::output::Printer;

/// How long a person may take.
const PATIENCE: Duration = Duration::from_secs(300);
const PATH: &str = "/callback";

/// What to ask for, and how.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) client_id: &'a str,
    pub(crate) scopes: &'a str,
    /// 0: any port.
    pub(crate) port: u16,
    /// Whether to open a browser.
    pub(crate) opens: bool,
}

pub(crate) fn log_in(issuer: &Issuer, request: &Request<'_>, printer: &Printer) -> Result<Tokens, Failure> {
    let cannot_listen =
        |error: std::io::Error| Failure::refused(format!("cannot listen on 127.0.0.1:{}: {error}", request.port));
    let listener = TcpListener::bind(("127.0.0.1", request.port)).map_err(cannot_listen)?;
    let port = listener.local_addr().map_err(cannot_listen)?.port();
    let redirect = format!("http://localhost:{port}{PATH}");
    let (state, nonce, verifier) = (random()?, random()?, random()?);
    let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
    let scopes = issuer.scopes(request.scopes);
    let url = issuer.authorization_url(&[
        ("response_type", "code"),
        ("client_id", request.client_id),
        ("redirect_uri", &redirect),
        ("scope", &scopes),
        ("state", &state),
        ("nonce", &nonce),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
    ]);
    printer.note(&format!(
        "To log in, open this page in a browser on this machine:\n\n  {url}\n"
    ));
    if request.opens {
        browser::open(&url);
    }
    let code = receive(listener, &state)?.map_err(|error| error.failure())?;
    let tokens = issuer.tokens(&[
        ("grant_type", "authorization_code"),
        ("client_id", request.client_id),
        ("code", &code),
        ("redirect_uri", &redirect),
        ("code_verifier", &verifier),
    ])?;
    let tokens = tokens.map_err(|error| error.failure())?;
    let claims = jwt::claims(&tokens.id_token).unwrap_or_default();
    match claims["nonce"].as_str() == Some(nonce.as_str()) {
        true => Ok(tokens),
        false => Err(Failure::refused("the ID token is not the one of this login (nonce)")),
    }
}

/// 256 random bits as text.
fn random() -> Result<String, Failure> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| Failure::refused(format!("no random numbers: {error}")))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

type Answer = Result<String, OauthError>;

/// Waits until the browser is redirected to us, with a code or an error.
fn receive(listener: TcpListener, state: &str) -> Result<Answer, Failure> {
    let (sender, answers) = mpsc::channel();
    let state = state.to_owned();
    thread::spawn(move || {
        // Each connection has its own thread: browsers open some that they never use.
        for connection in listener.incoming().flatten() {
            let (sender, state) = (sender.clone(), state.clone());
            thread::spawn(move || serve(&connection, &state, &sender));
        }
    });
    answers.recv_timeout(PATIENCE).map_err(|_| {
        let minutes = PATIENCE.as_secs() / 60;
        Failure::refused(format!("nobody logged in within {minutes} minutes"))
            .hint("`login --device` lets you use a browser elsewhere")
    })
}

fn serve(connection: &TcpStream, state: &str, sender: &Sender<Answer>) {
    const MOST: u64 = 64 << 10;
    let _ = connection.set_read_timeout(Some(Duration::from_secs(10)));
    let mut lines = BufReader::new(connection.take(MOST)).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    // The rest of the request: closing a connection with unread bytes resets it.
    let _ = lines.take_while(|line| !line.is_empty()).count();
    let target = first.strip_prefix("GET ").and_then(|rest| rest.split(' ').next());
    let answer = target.and_then(|target| answer(target, state));
    let (status, text) = match &answer {
        Some(Ok(_)) => ("200 OK", "You are logged in. You can close this page."),
        Some(Err(_)) => ("403 Forbidden", "The login failed. The terminal says why."),
        None => ("404 Not Found", "This is not the page that the login ends on."),
    };
    let mut connection = connection;
    let _ = connection.write_all(
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}\n",
            text.len() + 1
        )
        .as_bytes(),
    );
    if let Some(answer) = answer {
        let _ = sender.send(answer);
    }
}

/// The code, or the error, in the address that the browser was redirected to. None if it is not for this login: whoever made up that address does
/// not know the state.
fn answer(target: &str, state: &str) -> Option<Answer> {
    let query = target.strip_prefix(PATH)?.strip_prefix('?')?;
    let value = |wanted: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let (_, value) = pairs.find(|(name, _)| *name == wanted)?;
        let value = value.replace('+', " ");
        Some(percent_decode_str(&value).decode_utf8_lossy().into_owned())
    };
    if value("state").as_deref() != Some(state) {
        return None;
    }
    match (value("code"), value("error")) {
        (_, Some(error)) => Some(Err(OauthError::new(&error, value("error_description").as_deref()))),
        (Some(code), None) => Some(Ok(code)),
        (None, None) => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_to_this_login_counts() {
        let code = |target: &str| answer(target, "s/1").map(|answer| answer.map_err(|error| error.failure().message));
        assert_eq!(code("/callback?code=a%2Bb+c&state=s%2F1"), Some(Ok("a+b c".to_owned())));
        let refused = "the issuer refuses: not today (access_denied)";
        assert_eq!(
            code("/callback?error=access_denied&error_description=not+today&state=s%2F1"),
            Some(Err(refused.to_owned()))
        );
        for other in [
            "/callback?code=a",
            "/callback?code=a&state=other",
            "/callback?state=s%2F1",
            "/callback",
            "/favicon.ico",
            "/?code=a&state=s%2F1",
        ] {
            assert_eq!(code(other), None, "{other}");
        }
    }

    #[test]
    fn connections_that_are_never_used_are_not_in_the_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let idle = TcpStream::connect(address).unwrap();
        let browser = thread::spawn(move || {
            let mut reply = String::new();
            for path in ["/favicon.ico", "/callback?code=c&state=s"] {
                let mut connection = TcpStream::connect(address).unwrap();
                write!(connection, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
                connection.read_to_string(&mut reply).unwrap();
            }
            reply
        });
        assert_eq!(receive(listener, "s").unwrap().unwrap(), "c");
        let reply = browser.join().unwrap();
        assert!(
            reply.contains("404 Not Found") && reply.contains("You are logged in."),
            "{reply}"
        );
        drop(idle);
    }
}
