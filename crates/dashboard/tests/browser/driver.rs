//! ChromeDriver, and the browsers that tests share.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};

use axum::http::Method;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use url::Url;

/// Clients of browsers live longer than a test, so that all tests run on one runtime.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
});

/// Browsers that no test uses now.
static IDLE: Mutex<Vec<Client>> = Mutex::new(Vec::new());

/// A browser that is like new.
pub(crate) async fn take() -> Client {
    let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
    match idle {
        Some(browser) => browser,
        None => start().await,
    }
}

/// Keeps a browser for the next test, without anything that the test left in it.
pub(crate) async fn give_back(browser: Client) {
    // What is emulated belongs to the window, so that a new window has none of it.
    let old = browser.window().await.unwrap();
    let new = browser.new_window(false).await.unwrap();
    browser.switch_to_window(old).await.unwrap();
    devtools(&browser, "Network.clearBrowserCookies", json!({})).await;
    browser.close_window().await.unwrap();
    browser.switch_to_window(new.handle).await.unwrap();
    for name in ["browser", "performance"] {
        log(&browser, name).await;
    }
    IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(browser);
}

async fn start() -> Client {
    static DRIVER: LazyLock<Driver> = LazyLock::new(Driver::start);
    let capabilities = json!({
        "goog:chromeOptions": {"args": [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,900",
            "--force-device-scale-factor=1", "--disable-background-networking", "--disable-component-update", "--no-first-run",
        ]},
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        "goog:perfLoggingPrefs": {"enableNetwork": true, "enablePage": false},
    });
    let Value::Object(capabilities) = capabilities else {
        unreachable!()
    };
    let mut builder = ClientBuilder::new(HttpConnector::new());
    builder.capabilities(capabilities);
    let browser = builder.connect(&DRIVER.address).await;
    browser.unwrap_or_else(|error| panic!("Chromium does not start, see scripts/chromium.sh: {error}"))
}

/// A running ChromeDriver. It ends, with its browsers, when this process does, however that ends: it waits for the end of a pipe.
struct Driver {
    address: String,
    _process: Child,
    _output: BufReader<ChildStdout>,
}

const RUN: &str = "chromedriver --port=0 & cat >/dev/null; kill 0";

impl Driver {
    fn start() -> Driver {
        for program in ["chromium", "chromedriver"] {
            assert!(
                is_installed(program),
                "{program} is missing: run scripts/chromium.sh, which installs it"
            );
        }
        let mut command = Command::new("setsid");
        command.args(["sh", "-c", RUN]).stdin(Stdio::piped());
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("successfully on port") {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "chromedriver does not start");
        }
        let port: String = line.chars().filter(char::is_ascii_digit).collect();
        Driver {
            address: format!("http://127.0.0.1:{port}"),
            _process: process,
            _output: output,
        }
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

/// axe-core, which scripts/chromium.sh fetches.
pub(crate) fn axe() -> &'static str {
    static AXE: LazyLock<String> = LazyLock::new(|| {
        let root: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "target", "axe-core"]
            .iter()
            .collect();
        let file = newest(&root).map(|version| version.join("axe.min.js"));
        let text = file.and_then(|file| std::fs::read_to_string(file).ok());
        text.expect("axe-core is missing: scripts/chromium.sh fetches it")
    });
    &AXE
}

fn newest(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    entries.filter_map(|entry| Some(entry.ok()?.path())).max()
}

/// A command of Chrome's DevTools protocol.
pub(crate) async fn devtools(browser: &Client, name: &str, parameters: Value) -> Value {
    let body = json!({"cmd": name, "params": parameters});
    let command = Vendor {
        path: "goog/cdp/execute",
        body,
    };
    browser
        .issue_cmd(command)
        .await
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What was logged since the last call: `browser` is the console, `performance` has the requests.
pub(crate) async fn log(browser: &Client, name: &str) -> Vec<Value> {
    let command = Vendor {
        path: "se/log",
        body: json!({ "type": name }),
    };
    match browser.issue_cmd(command).await.unwrap() {
        Value::Array(entries) => entries,
        other => panic!("no log: {other}"),
    }
}

/// A command of a session that is not in the standard.
#[derive(Debug)]
struct Vendor {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Vendor {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}
