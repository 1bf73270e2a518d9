//! A real OpenID provider: `scripts/oidc-provider`, which is built with Go when it is missing.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// The client of the provider: public, with PKCE, the device flow and refresh tokens.
const CLIENT: &str = "fleet";

/// Its users are `ann` (groups `staff`, `platform-admins`) and `bob` (`staff`), with the password `password`.
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
}

impl Drop for OidcProvider {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
