//! A real OpenID provider: `scripts/oidc-provider`, which is built with Go when it is missing.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::client::Client;

/// The client of the provider: public, with PKCE, the device flow and refresh tokens.
const CLIENT: &str = "fleet";

/// Its users are `ann` (groups `staff`, `platform-admins`), `bob` (`staff`) and `eve` (those of ann, and 200 more), with the password
/// `password`. Its other client, `fleet-web`, is of the web, with the secret `s3cret: +/%`.
#[derive(Debug)]
pub struct OidcProvider {
    process: Child,
    issuer: String,
}

impl OidcProvider {
    /// A provider whose ID tokens live for so long, such as `1h`.
    pub fn start(lifetime: &str) -> OidcProvider {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/oidc-provider.sh");
        let built = Command::new(script).stderr(Stdio::inherit()).output().unwrap();
        assert!(built.status.success(), "{script} failed");
        let program = String::from_utf8(built.stdout).unwrap();
        let mut process = Command::new(program.trim())
            .env("LIFETIME", lifetime)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut issuer = String::new();
        let output = process.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut issuer).unwrap();
        OidcProvider {
            process,
            issuer: issuer.trim().to_owned(),
        }
    }

    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    pub fn client(&self) -> &'static str {
        CLIENT
    }

    /// What a person does at the provider: opens the page of a sign-in, fills in the form, and is led back. Returns the address there.
    pub fn sign_in(&self, page: &str, who: &str) -> String {
        let issuer = self.issuer.trim_end_matches('/');
        let address: SocketAddr = issuer.strip_prefix("http://").unwrap().parse().unwrap();
        let client = Client::new(address, None);
        // Where a request leads to.
        let send = |method: &str, path: &str, body: &str| {
            let form = [("content-type", "application/x-www-form-urlencoded")];
            let reply = client.send(method, path, &form, body.as_bytes());
            let place = reply.header("location");
            let place = place.unwrap_or_else(|| panic!("{path}: {} {}", reply.status, reply.text()));
            place.strip_prefix(issuer).unwrap_or(place).to_owned()
        };
        let form = send("GET", page.strip_prefix(issuer).expect("a page of the provider"), "");
        let (place, id) = form.split_once("?authRequestID=").expect("a form");
        let back = send("POST", place, &format!("id={id}&username={who}&password=password"));
        send("GET", &back, "")
    }
}

impl Drop for OidcProvider {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
