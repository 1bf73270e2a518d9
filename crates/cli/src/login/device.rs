//! The login in a browser of another machine (RFC 8628): a person types a code there, and this program asks until that is done.

use std::thread;
use std::time::{Duration, Instant};

use super::{Issuer, Tokens};
use crate::error::Failure;
use crate::output::Printer;
use crate::session::text;

const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// The time between two questions, unless the issuer names another; and what is added when it finds them too many.
const INTERVAL: u64 = 5;

pub(crate) fn log_in(issuer: &Issuer, client_id: &str, scopes: &str, printer: &Printer) -> Result<Tokens, Failure> {
    let begun = issuer.begin_device(client_id, scopes)?;
    let (device_code, user_code, page) = (
        text(&begun["device_code"]),
        text(&begun["user_code"]),
        text(&begun["verification_uri"]),
    );
    if device_code.is_empty() || user_code.is_empty() || page.is_empty() {
        return Err(Failure::refused("the issuer cannot be used: it sends no device code"));
    }
    printer.note(&format!(
        "To log in, open this page in a browser:\n\n  {page}\n\nand enter the code: {user_code}\n"
    ));
    let mut interval = Duration::from_secs(begun["interval"].as_u64().unwrap_or(INTERVAL));
    let deadline = Instant::now() + Duration::from_secs(begun["expires_in"].as_u64().unwrap_or(600));
    let form = [
        ("grant_type", GRANT),
        ("client_id", client_id),
        ("device_code", device_code),
    ];
    while Instant::now() < deadline {
        thread::sleep(interval);
        match issuer.tokens(&form)? {
            Ok(tokens) => return Ok(tokens),
            Err(error) if error.code == "authorization_pending" => {}
            Err(error) if error.code == "slow_down" => interval += Duration::from_secs(INTERVAL),
            Err(error) if error.code == "expired_token" => break,
            Err(error) => return Err(error.failure()),
        }
    }
    Err(Failure::refused("nobody entered the code in time"))
}
