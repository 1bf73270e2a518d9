//! The issuer: where it is asked for tokens, and what it answers.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use ureq::Agent;
use ureq::http::{Response, Uri};

use crate::error::{Code, Failure, plain};
use crate::tls::TlsFiles;

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// An issuer, and its addresses.
#[derive(Debug)]
pub(crate) struct Issuer {
    agent: Agent,
    addresses: Addresses,
}

#[derive(Debug, Deserialize)]
struct Addresses {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    device_authorization_endpoint: Option<String>,
    revocation_endpoint: Option<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// What an issuer gives out.
#[derive(Debug)]
pub(crate) struct Tokens {
    pub(crate) id_token: String,
    pub(crate) refresh_token: Option<String>,
}

/// A refusal of an issuer: its code, and what it says about it.
#[derive(Debug)]
pub(super) struct OauthError {
    pub(super) code: String,
    description: Option<String>,
}

impl OauthError {
    fn read(reply: &Value) -> Option<OauthError> {
        Some(OauthError {
            code: reply["error"].as_str()?.to_owned(),
            description: reply["error_description"].as_str().map(str::to_owned),
        })
    }

    pub(super) fn new(code: &str, description: Option<&str>) -> OauthError {
        OauthError {
            code: code.to_owned(),
            description: description.map(str::to_owned),
        }
    }

    pub(super) fn failure(&self) -> Failure {
        let code = &self.code;
        Failure::refused(match &self.description {
            Some(description) => format!("the issuer refuses: {description} ({code})"),
            None => format!("the issuer refuses: {code}"),
        })
    }
}

impl Issuer {
    /// Reads the configuration of an issuer.
    pub(crate) fn discover(issuer: &str) -> Result<Issuer, Failure> {
        check_address(issuer)?;
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // A redirect would send a code or a refresh token to another server.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(PATIENCE))
            .user_agent(concat!("flux-resourceset-cli/", env!("CARGO_PKG_VERSION")));
        let agent = match issuer.starts_with("https:") {
            true => config.tls_config(TlsFiles::default().load()?).build().new_agent(),
            false => config.build().new_agent(),
        };
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let reply = read(&url, agent.get(&url).call())?;
        let addresses: Addresses =
            serde_json::from_value(reply).map_err(|error| foreign(&url, &format!("is no OpenID issuer: {error}")))?;
        if addresses.issuer != issuer {
            return Err(foreign(&url, &format!("it calls itself \"{}\"", addresses.issuer)));
        }
        for address in [&addresses.authorization_endpoint, &addresses.token_endpoint] {
            check_address(address)?;
        }
        Ok(Issuer { agent, addresses })
    }

    /// The page where people log in, with these parameters.
    pub(super) fn authorization_url(&self, parameters: &[(&str, &str)]) -> String {
        let address = &self.addresses.authorization_endpoint;
        let encoded = parameters.iter().map(|(name, value)| {
            let value = crate::client::encode(value);
            format!("{name}={value}")
        });
        let separator = if address.contains('?') { '&' } else { '?' };
        format!("{address}{separator}{}", encoded.collect::<Vec<_>>().join("&"))
    }

    /// The scopes to ask for. Some issuers refuse to be asked for a refresh token by a scope, and say so.
    pub(super) fn scopes(&self, wanted: &str) -> String {
        let supported = &self.addresses.scopes_supported;
        let knows = |scope: &&str| {
            *scope != "offline_access" || supported.is_empty() || supported.iter().any(|known| known == scope)
        };
        wanted.split_whitespace().filter(knows).collect::<Vec<_>>().join(" ")
    }

    /// Begins a login on another device.
    pub(super) fn begin_device(&self, client_id: &str, scopes: &str) -> Result<Value, Failure> {
        let address = self.addresses.device_authorization_endpoint.as_deref();
        let address = address.ok_or_else(|| {
            Failure::refused(format!("{} has no device flow", self.addresses.issuer)).hint("leave out --device")
        })?;
        check_address(address)?;
        let scopes = self.scopes(scopes);
        match self.post(address, &[("client_id", client_id), ("scope", &scopes)])? {
            Ok(reply) => Ok(reply),
            Err(error) => Err(error.failure()),
        }
    }

    /// Asks for tokens. The inner error is a refusal.
    pub(super) fn tokens(&self, form: &[(&str, &str)]) -> Result<Result<Tokens, OauthError>, Failure> {
        let address = &self.addresses.token_endpoint;
        let reply = match self.post(address, form)? {
            Ok(reply) => reply,
            Err(error) => return Ok(Err(error)),
        };
        let text = |name: &str| reply[name].as_str().map(str::to_owned);
        let id_token = text("id_token").ok_or_else(|| {
            Failure::refused(format!("{address}: the reply has no ID token")).hint("the scopes must have openid")
        })?;
        Ok(Ok(Tokens {
            id_token,
            refresh_token: text("refresh_token"),
        }))
    }

    /// New tokens for a refresh token.
    pub(super) fn refresh(&self, client_id: &str, refresh_token: &str) -> Result<Tokens, Failure> {
        let form = [
            ("grant_type", "refresh_token"),
            ("client_id", client_id),
            ("refresh_token", refresh_token),
        ];
        self.tokens(&form)?.map_err(|error| error.failure())
    }

    /// Withdraws a refresh token, if the issuer has a way to do that.
    pub(crate) fn revoke(&self, client_id: &str, refresh_token: &str) -> Result<(), Failure> {
        let Some(address) = self.addresses.revocation_endpoint.as_deref() else {
            return Ok(());
        };
        check_address(address)?;
        let form = [
            ("client_id", client_id),
            ("token", refresh_token),
            ("token_type_hint", "refresh_token"),
        ];
        let sent = self.agent.post(address).send_form(form);
        let status = sent.map_err(|error| unreachable(address, &error))?.status();
        match status.is_success() {
            true => Ok(()),
            false => Err(foreign(address, &status.to_string())),
        }
    }

    fn post(&self, address: &str, form: &[(&str, &str)]) -> Result<Result<Value, OauthError>, Failure> {
        let sent = self.agent.post(address).send_form(form.iter().copied());
        let mut response = sent.map_err(|error| unreachable(address, &error))?;
        let status = response.status();
        let reply = json(&mut response);
        match (status.is_success(), reply) {
            (true, Ok(reply)) => Ok(Ok(reply)),
            (true, Err(detail)) => Err(foreign(address, &detail)),
            (false, reply) => match reply.ok().as_ref().and_then(OauthError::read) {
                Some(error) => Ok(Err(error)),
                None => Err(foreign(address, &status.to_string())),
            },
        }
    }
}

fn json(response: &mut Response<ureq::Body>) -> Result<Value, String> {
    let body = response.body_mut().read_to_vec().map_err(|error| error.to_string())?;
    serde_json::from_slice(&body).map_err(|error| format!("the reply is not JSON: {error}"))
}

fn read(url: &str, reply: Result<Response<ureq::Body>, ureq::Error>) -> Result<Value, Failure> {
    let mut response = reply.map_err(|error| unreachable(url, &error))?;
    let status = response.status();
    let reply = json(&mut response);
    match reply {
        Ok(reply) if status.is_success() => Ok(reply),
        Ok(_) => Err(foreign(url, &status.to_string())),
        Err(_) => Err(foreign(url, &format!("is no OpenID issuer ({status})"))),
    }
}

/// What is sent to an issuer is worth a token, so it is encrypted, or does not leave this machine.
fn check_address(address: &str) -> Result<(), Failure> {
    let url: Option<Uri> = address.parse().ok();
    let local = ["localhost", "127.0.0.1", "[::1]"];
    let is_safe = |url: &Uri| match (url.scheme_str(), url.host()) {
        (Some("https"), Some(_)) => true,
        (Some("http"), Some(host)) => local.contains(&host),
        _ => false,
    };
    match url.as_ref().is_some_and(is_safe) {
        true => Ok(()),
        false => Err(foreign(address, "an issuer has an https:// address")),
    }
}

fn unreachable(url: &str, error: &ureq::Error) -> Failure {
    let detail = match error {
        ureq::Error::Io(error) => plain(error),
        other => other.to_string(),
    };
    Failure::new(Code::Unreachable, format!("cannot reach the issuer: {url}: {detail}"))
}

fn foreign(url: &str, detail: &str) -> Failure {
    Failure::new(Code::Unreachable, format!("the issuer cannot be used: {url}: {detail}"))
}
