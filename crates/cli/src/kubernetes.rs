//! One Secret of the cluster that this program runs in, with the rights of its ServiceAccount.

use std::env;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::Response;

use crate::client::encode;
use crate::error::{Code, Failure};
use crate::tls::TlsFiles;

/// Where Kubernetes puts the token and the authority of a pod's ServiceAccount.
pub(crate) const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A Secret, by its namespace and name.
#[derive(Debug)]
pub(crate) struct Secret {
    agent: Agent,
    url: String,
    token: String,
    name: String,
}

/// What a Secret holds under one key, and its version.
pub(crate) struct Held {
    pub(crate) text: Option<String>,
    version: Value,
}

impl Secret {
    /// Finds the Kubernetes API as every client in a pod does.
    pub(crate) fn new(account: &Path, name: &str) -> Result<Secret, Failure> {
        let variable = |name: &str| {
            let value = env::var(name).ok().filter(|value| !value.is_empty());
            value.ok_or_else(|| {
                let failure = Failure::refused(format!("this is not a pod: {name} is not set"));
                failure.hint("--secret works in a pod of the cluster; use --token-file elsewhere")
            })
        };
        let (host, port) = (
            variable("KUBERNETES_SERVICE_HOST")?,
            variable("KUBERNETES_SERVICE_PORT")?,
        );
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let read = |file: &str| {
            let path = account.join(file);
            let text = fs::read_to_string(&path).map_err(|error| Failure::file(&path, &error))?;
            Ok::<_, Failure>(text.trim().to_owned())
        };
        let (namespace, secret) = match name.split_once('/') {
            Some((namespace, secret)) => (namespace.to_owned(), secret),
            None => (read("namespace")?, name),
        };
        let trust = TlsFiles {
            authority: Some(account.join("ca.crt")),
            ..TlsFiles::default()
        };
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(Duration::from_secs(30)))
            .tls_config(trust.load()?)
            .build()
            .new_agent();
        Ok(Secret {
            agent,
            url: format!(
                "https://{host}:{port}/api/v1/namespaces/{}/secrets/{}",
                encode(&namespace),
                encode(secret)
            ),
            token: read("token")?,
            name: format!("{namespace}/{secret}"),
        })
    }

    /// What it holds under the key.
    pub(crate) fn read(&self, key: &str) -> Result<Held, Failure> {
        let request = self.agent.get(&self.url).header("Accept", "application/json");
        let (status, secret) = self.answer(request.header("Authorization", self.bearer()).call())?;
        match status {
            200 => Ok(Held {
                text: secret["data"][key]
                    .as_str()
                    .map(decode)
                    .transpose()?
                    .filter(|text| !text.is_empty()),
                version: secret["metadata"]["resourceVersion"].clone(),
            }),
            _ => Err(self.refused(status, &secret)),
        }
    }

    /// Puts a text under the key, unless someone else has changed the Secret since it was read: then false.
    pub(crate) fn write(&self, key: &str, text: &str, held: &Held) -> Result<bool, Failure> {
        let patch = json!({"metadata": {"resourceVersion": held.version}, "stringData": {key: text}});
        let request = self.agent.patch(&self.url).header("Authorization", self.bearer());
        let request = request.header("Content-Type", "application/merge-patch+json");
        match self.answer(request.send(patch.to_string()))? {
            (200, _) => Ok(true),
            (409, _) => Ok(false),
            (status, body) => Err(self.refused(status, &body)),
        }
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    fn answer(&self, result: Result<Response<ureq::Body>, ureq::Error>) -> Result<(u16, Value), Failure> {
        let failed =
            |error: ureq::Error| Failure::new(Code::Unreachable, format!("cannot reach the Kubernetes API: {error}"));
        let mut response = result.map_err(failed)?;
        let status = response.status().as_u16();
        let body = response.body_mut().read_to_string().map_err(failed)?;
        Ok((status, serde_json::from_str(&body).unwrap_or_default()))
    }

    fn refused(&self, status: u16, body: &Value) -> Failure {
        let message = body["message"].as_str().unwrap_or("no message");
        let failure = Failure::refused(format!("the Secret {}: {status} {message}", self.name));
        match status {
            404 => failure
                .hint("create it empty first: the ServiceAccount may read and change this one Secret, and create none"),
            _ => failure,
        }
    }
}

/// Decodes base64, as the API has values of Secrets.
fn decode(text: &str) -> Result<String, Failure> {
    let wrong = || Failure::refused("the Secret holds something that is not text");
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        bits = (bits << 6) | u32::from(digit(byte).ok_or_else(wrong)?);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).unwrap_or_default());
        }
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secrets_are_decoded() {
        for (text, expected) in [
            ("", ""),
            ("YQ==", "a"),
            ("YWI=", "ab"),
            ("YWJj", "abc"),
            ("Pj4+Pz8/", ">>>???"),
        ] {
            assert_eq!(decode(text).unwrap(), expected);
        }
        // 0xFF is not UTF-8.
        assert!(decode("/w==").is_err());
        assert!(decode("a b").is_err());
    }
}
