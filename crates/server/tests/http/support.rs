//! An app of one's own, and a client that is short to write.

use std::future::{Future, IntoFuture};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, ETAG};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use clap::Parser;
use fleet::json::Json;
use flux_resourceset::app::App;
use flux_resourceset::app::backup;
use flux_resourceset::app::engine::{self, Engine};
use flux_resourceset::app::start::{self, StartError};
use flux_resourceset::app::templates::Templates;
use flux_resourceset::auth::Environment;
use flux_resourceset::commands::Cli;
use flux_resourceset::config::{Backend, Config, Mode, Seed, TokenSource};
use flux_resourceset::http::Api;
use flux_resourceset::metrics::Metrics;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use store::Store;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tower::ServiceExt;

pub const READ: &str = "read-token";
pub const WRITE: &str = "write-token";
pub const DEMO: &str = "demo-cluster-01";
pub const DEMO_DNS: &str = "demo-cluster-01.k8s.example.com";
/// The Flux paths of the built-in kinds.
pub const PATHS: [&str; 3] = ["platform-components", "namespaces", "rolebindings"];
/// The file of the chapter "Extending with New Resource Types", as it stands there.
pub const NETWORK_POLICY: &str = include_str!("data/network_policy.yaml");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What an app is made from. By default: crud, in memory, with the demo fleet.
pub struct Setup {
    pub config: Config,
    /// What OPENAPI_FILE would hold.
    pub openapi_file: Option<String>,
    folder: Arc<TempDir>,
    store: Option<Arc<dyn Store>>,
    stopping: Option<watch::Receiver<bool>>,
    read_deadline: Option<Duration>,
}

impl Default for Setup {
    fn default() -> Self {
        let mut config = Cli::parse_from(["flux-resourceset"])
            .options
            .read_without_tokens()
            .unwrap();
        // Whatever the environment of whoever runs the tests says.
        config.mode = Mode::Crud;
        config.backend = Backend::Memory;
        config.read_tokens = token(READ);
        config.write_tokens = Some(token(WRITE));
        config.seed = Seed::Named(root().join("data/seed.json"));
        config.resources_dir = None;
        config.openapi_file = None;
        Setup {
            config,
            openapi_file: None,
            folder: Arc::new(TempDir::new().unwrap()),
            store: None,
            stopping: None,
            read_deadline: None,
        }
    }
}

pub fn token(text: &str) -> TokenSource {
    TokenSource {
        token: Some(text.into()),
        file: None,
    }
}

impl Setup {
    pub fn read_only(mut self) -> Self {
        self.config.mode = Mode::ReadOnly;
        self
    }

    /// Kept in a file, so that a restart finds it again.
    pub fn sqlite(mut self) -> Self {
        self.config.backend = Backend::Sqlite;
        self.config.database_url = format!("sqlite://{}?mode=rwc", self.folder.path().join("fleet.db").display());
        self
    }

    /// The built-in kinds and no resources.
    pub fn empty(mut self) -> Self {
        self.config.seed = Seed::Default(self.folder.path().join("there-is-none.json"));
        self
    }

    pub fn seed(mut self, seed: &Value) -> Self {
        let path = self.file("seed.json", &seed.to_string());
        self.config.seed = Seed::Named(path);
        self
    }

    /// A file that lives as long as the app.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Puts a file into RESOURCES_DIR.
    pub fn resource(mut self, name: &str, text: &str) -> Self {
        let path = self.file(&format!("resources/{name}"), text);
        self.config.resources_dir = path.parent().map(Path::to_owned);
        self
    }

    /// Stops when this becomes true.
    pub fn stopped_by(mut self, stopping: watch::Receiver<bool>) -> Self {
        self.stopping = Some(stopping);
        self
    }

    /// How long heavy reads may take.
    pub fn read_deadline(mut self, deadline: Duration) -> Self {
        self.read_deadline = Some(deadline);
        self
    }

    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Starts on what a backup holds.
    pub async fn restored(self, copy: &Reply) -> TestApp {
        let setup = self.sqlite();
        let file = setup.file("backup.jsonl", copy.text());
        let store = start::open_store(&setup.config).await.unwrap();
        backup::restore(&*store, &file, backup::Terms::default()).await.unwrap();
        store.close().await;
        setup.start().await
    }

    pub async fn start(self) -> TestApp {
        self.try_start().await.unwrap_or_else(|error| panic!("{error}"))
    }

    pub async fn try_start(self) -> Result<TestApp, StartError> {
        let store = match &self.store {
            Some(store) => store.clone(),
            None => start::open_store(&self.config).await?,
        };
        let fleet = start::prepare(&self.config, &*store, true).await?;
        let recent = engine::recent_removals(&*store, self.config.budget).await?;
        let metrics = Arc::new(Metrics::default());
        let tokens = Arc::new(Environment::load(&self.config)?);
        let (engine, task) = Engine::start(store.clone(), fleet, metrics.clone(), self.config.budget, Ok(recent));
        let mut app = App::new(
            &self.config,
            engine,
            store.clone(),
            tokens,
            metrics,
            Arc::new(Templates::load(self.config.templates_dir.as_deref())?),
        );
        app.openapi_file = self.openapi_file.clone().map(Bytes::from);
        app.stopping = self.stopping.clone();
        app.read_deadline = self.read_deadline.unwrap_or(app.read_deadline);
        let app = Arc::new(app);
        Ok(TestApp {
            api: Api::new(app.clone()),
            app,
            store,
            setup: self,
            task,
        })
    }
}

pub struct TestApp {
    pub app: Arc<App>,
    pub store: Arc<dyn Store>,
    api: Api,
    setup: Setup,
    task: JoinHandle<()>,
}

impl TestApp {
    pub async fn start() -> TestApp {
        Setup::default().start().await
    }

    /// Stops, and gives back what it was made from, with everything that it kept.
    pub async fn stop(self) -> Setup {
        let TestApp {
            app,
            store,
            api,
            setup,
            task,
        } = self;
        drop((api, app));
        task.await.unwrap();
        store.close().await;
        setup
    }

    pub async fn restart(self) -> TestApp {
        self.stop().await.start().await
    }

    pub fn config(&self) -> &Config {
        &self.setup.config
    }

    pub fn revision(&self) -> u64 {
        self.app.fleet().revision().0
    }

    /// A request with the token that its method needs.
    pub fn call(&self, method: Method, path: impl AsRef<str>) -> Call {
        let token = match method {
            Method::GET | Method::HEAD => READ,
            _ => WRITE,
        };
        let uri: Uri = path.as_ref().parse().unwrap();
        let mut request = Request::new(Body::empty());
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        let call = Call {
            api: self.api.clone(),
            request,
        };
        call.token(token)
    }

    pub fn get(&self, path: impl AsRef<str>) -> Call {
        self.call(Method::GET, path)
    }

    pub fn post(&self, path: impl AsRef<str>, body: &Value) -> Call {
        self.call(Method::POST, path).json(body)
    }

    pub fn put(&self, path: impl AsRef<str>, body: &Value) -> Call {
        self.call(Method::PUT, path).json(body)
    }

    pub fn patch(&self, path: impl AsRef<str>, body: &Value) -> Call {
        self.call(Method::PATCH, path).json(body)
    }

    pub fn delete(&self, path: impl AsRef<str>) -> Call {
        self.call(Method::DELETE, path)
    }

    /// A batch that must be accepted; its reply.
    pub async fn batch(&self, operations: Value) -> Value {
        let reply = self.post("/batch", &json!({ "operations": operations })).await;
        reply.expect(200).json()
    }

    pub async fn put_kind(&self, name: &str, yaml: &str) -> Reply {
        self.call(Method::PUT, format!("/kinds/{name}")).yaml(yaml).await
    }

    pub async fn put_kind_as(&self, name: &str, yaml: &str, token: &str) -> Reply {
        self.call(Method::PUT, format!("/kinds/{name}"))
            .yaml(yaml)
            .token(token)
            .await
    }

    pub fn poll(&self, dns: &str, path: &str) -> Call {
        self.get(format!("/api/v2/flux/clusters/{dns}/{path}"))
    }

    /// The inputs of a poll that must succeed.
    pub async fn inputs(&self, dns: &str, path: &str) -> Vec<Value> {
        let mut body = self.poll(dns, path).await.expect(200).json();
        match body["inputs"].take() {
            Value::Array(inputs) => inputs,
            other => panic!("inputs of {dns}/{path} are {other}"),
        }
    }

    pub async fn input_ids(&self, dns: &str, path: &str) -> Vec<String> {
        let inputs = self.inputs(dns, path).await;
        ids(&inputs)
    }

    /// A resource that must be there.
    pub async fn read(&self, path: &str) -> Value {
        self.get(path).await.expect(200).json()
    }
}

pub fn ids(items: &[Value]) -> Vec<String> {
    let id = |item: &Value| item["id"].as_str().unwrap().to_owned();
    items.iter().map(id).collect()
}

/// A cluster of the environment `dev` with nothing on it.
pub fn bare(id: &str) -> Value {
    json!({"id": id, "cluster_name": id, "cluster_dns": format!("{id}.k8s.example.com"), "environment": "dev"})
}

/// A component of the catalog.
pub fn component(id: &str) -> Value {
    json!({"id": id, "component_path": id, "oci_url": "https://charts.example.com", "oci_tag": "1.0.0"})
}

/// A request that is being put together; awaiting it sends it.
#[must_use]
pub struct Call {
    api: Api,
    request: Request<Body>,
}

impl Call {
    pub fn token(self, token: &str) -> Self {
        self.header(AUTHORIZATION, &format!("Bearer {token}"))
    }

    pub fn without_token(mut self) -> Self {
        self.request.headers_mut().remove(AUTHORIZATION);
        self
    }

    pub fn header(self, name: impl TryInto<HeaderName>, value: &str) -> Self {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        self.raw_header(name, value)
    }

    pub fn raw_header(mut self, name: impl TryInto<HeaderName>, value: HeaderValue) -> Self {
        let Ok(name) = name.try_into() else {
            panic!("not the name of a header")
        };
        self.request.headers_mut().insert(name, value);
        self
    }

    pub fn json(self, body: &Value) -> Self {
        self.content("application/json", body.to_string())
    }

    pub fn yaml(self, body: &str) -> Self {
        self.content("application/yaml", body.to_owned())
    }

    pub fn content(mut self, kind: &str, body: impl Into<Body>) -> Self {
        *self.request.body_mut() = body.into();
        self.header(CONTENT_TYPE, kind)
    }

    /// The response with its body still to come.
    pub async fn response(self) -> axum::http::Response<Body> {
        self.api.oneshot(self.request).await.unwrap()
    }
}

impl IntoFuture for Call {
    type Output = Reply;
    type IntoFuture = Pin<Box<dyn Future<Output = Reply> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let what = format!("{} {}", self.request.method(), self.request.uri());
            let (parts, body) = self.response().await.into_parts();
            Reply {
                what,
                status: parts.status.as_u16(),
                headers: parts.headers,
                body: body.collect().await.unwrap().to_bytes(),
            }
        })
    }
}

#[derive(Clone, Debug)]
pub struct Reply {
    /// The request it answers.
    pub what: String,
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}: {}", self.what, self.text());
        self
    }

    /// The problem document of a refusal, whose class is the last segment of its type.
    #[track_caller]
    pub fn problem(self, status: u16, class: &str) -> Value {
        let reply = self.expect(status);
        assert_eq!(
            reply.header("content-type"),
            "application/problem+json",
            "{}",
            reply.what
        );
        let problem = reply.json();
        assert_eq!(
            problem["type"],
            format!("/problems/{class}"),
            "{}: {problem}",
            reply.what
        );
        assert_eq!(problem["status"], status, "{}", reply.what);
        problem
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap_or("(not UTF-8)")
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{}: {error}: {}", self.what, self.text()))
    }

    #[track_caller]
    pub fn array(&self) -> Vec<Value> {
        match self.json() {
            Value::Array(items) => items,
            other => panic!("{}: not an array: {other}", self.what),
        }
    }

    /// The value of a header; empty if it is not there.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    #[track_caller]
    pub fn etag(&self) -> String {
        let etag = self.header(ETAG.as_str());
        assert!(
            etag.starts_with('"') && etag.len() > 2,
            "{}: no strong ETag: {etag}",
            self.what
        );
        etag.to_owned()
    }
}

/// JSON as snapshots show it: keys sorted, whatever feature flags a dependency switches on.
pub fn pretty(value: &Value) -> String {
    let sorted: Value = serde_json::from_str(Json::new(value).as_str()).unwrap();
    serde_json::to_string_pretty(&sorted).unwrap()
}

/// The pointers of a problem's errors, in their order.
pub fn pointers(problem: &Value) -> Vec<&str> {
    let errors = problem["errors"].as_array().map(Vec::as_slice).unwrap_or_default();
    errors.iter().map(|error| error["pointer"].as_str().unwrap()).collect()
}

/// Waits until something holds that happens in its own time.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !holds() {
        assert!(std::time::Instant::now() < patience, "waited in vain: {what}");
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}
