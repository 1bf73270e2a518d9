//! A page of the dashboard in a browser: what a person sees and does.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use fantoccini::error::CmdError;
use fantoccini::{Client, Locator};
use serde_json::{Value, json};
use testkit::{PATIENCE, Server};

use crate::driver::{self, RUNTIME, devtools};

const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// A browser that visits one server.
pub(crate) struct Page {
    pub(crate) browser: Client,
    server: String,
    /// Parts of messages that the console may have.
    tolerated: RefCell<Vec<&'static str>>,
}

/// Runs a test in a browser. Nothing may be left on the console, and no request may go anywhere else.
pub(crate) fn visit(server: &Server, test: impl AsyncFnOnce(&Page)) {
    let page = Page {
        browser: RUNTIME.block_on(driver::take()),
        server: server.url(),
        tolerated: RefCell::default(),
    };
    let run = async {
        test(&page).await;
        page.check_console().await;
        page.check_requests().await;
    };
    let result = catch_unwind(AssertUnwindSafe(|| RUNTIME.block_on(run)));
    match result {
        Ok(()) => RUNTIME.block_on(driver::give_back(page.browser)),
        Err(panic) => {
            RUNTIME.block_on(page.report());
            resume_unwind(panic)
        }
    }
}

impl Page {
    pub(crate) async fn open(&self, path: &str) {
        self.browser.goto(&format!("{}{path}", self.server)).await.unwrap();
    }

    /// Signs in, and goes to a page.
    pub(crate) async fn sign_in(&self, token: &str, path: &str) {
        self.open("/ui/login").await;
        self.fill("#token", token).await;
        self.press("Sign in").await;
        self.at("/ui").await;
        if path != "/ui" {
            self.open(path).await;
        }
    }

    /// The path of the page, with its query.
    pub(crate) async fn path(&self) -> String {
        let url = self.browser.current_url().await.unwrap();
        url.as_str().strip_prefix(&self.server).unwrap_or_default().to_owned()
    }

    /// Waits until this page is shown.
    pub(crate) async fn at(&self, path: &str) {
        self.wait(&format!("the page {path}"), async || self.path().await == path)
            .await;
    }

    /// What a person reads in an element; empty if there is none.
    pub(crate) async fn text_of(&self, selector: &str) -> String {
        let script = "const found = document.querySelector(arguments[0]); return found ? found.innerText : ''";
        let text = self.run(script, vec![selector.into()]).await;
        text.as_str().unwrap_or_default().to_owned()
    }

    pub(crate) async fn count(&self, selector: &str) -> u64 {
        let script = "return document.querySelectorAll(arguments[0]).length";
        self.run(script, vec![selector.into()]).await.as_u64().unwrap()
    }

    /// Waits until the page has so many of these elements.
    pub(crate) async fn see_count(&self, selector: &str, number: u64) {
        let what = format!("{number} of {selector}");
        self.wait(&what, async || self.count(selector).await == number).await;
    }

    /// Waits until a text is on the page.
    pub(crate) async fn see(&self, text: &str) {
        self.see_in("body", text).await;
    }

    pub(crate) async fn see_in(&self, selector: &str, text: &str) {
        let what = format!("{text:?} in {selector}");
        self.wait(&what, async || self.text_of(selector).await.contains(text))
            .await;
    }

    /// Replaces what is in a field.
    pub(crate) async fn fill(&self, selector: &str, text: &str) {
        let fill = async || {
            let field = self.browser.find(Locator::Css(selector)).await?;
            field.clear().await?;
            field.send_keys(text).await
        };
        self.until_done(&format!("fill {selector}"), fill).await;
    }

    /// Clicks an element that is not named by a text of its own.
    pub(crate) async fn click_at(&self, selector: &str) {
        let click = async || self.browser.find(Locator::Css(selector)).await?.click().await;
        self.until_done(&format!("click {selector}"), click).await;
    }

    /// Clicks a button.
    pub(crate) async fn press(&self, name: &str) {
        self.click(&format!("//button[normalize-space()='{name}']")).await;
    }

    /// Clicks a link.
    pub(crate) async fn follow(&self, name: &str) {
        self.click(&format!("//a[normalize-space()='{name}']")).await;
    }

    pub(crate) async fn click(&self, path: &str) {
        let click = async || self.browser.find(Locator::XPath(path)).await?.click().await;
        self.until_done(&format!("click {path}"), click).await;
    }

    /// Tries until it succeeds: after a click, the browser may still show the page before, or replace it at any moment.
    async fn until_done<T>(&self, what: &str, mut attempt: impl AsyncFnMut() -> Result<T, CmdError>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match attempt().await {
                Ok(done) => return done,
                Err(error) if Instant::now() > deadline => panic!("{what}: {error}"),
                Err(_) => tokio::time::sleep(BETWEEN_LOOKS).await,
            }
        }
    }

    /// Whether there is such a button.
    pub(crate) async fn offers(&self, name: &str) -> bool {
        let path = format!("//button[normalize-space()='{name}']");
        !self.browser.find_all(Locator::XPath(&path)).await.unwrap().is_empty()
    }

    /// Confirms the plan that is shown, and waits for the page that says that it was made.
    pub(crate) async fn confirm(&self, reason: &str) {
        self.fill("#reason", reason).await;
        self.press("Make this change").await;
        self.see_in(".done", "The change is made").await;
    }

    /// The result of a script in the page.
    pub(crate) async fn run(&self, script: &str, arguments: Vec<Value>) -> Value {
        let run = async || self.browser.execute(script, arguments.clone()).await;
        self.until_done(script, run).await
    }

    pub(crate) async fn devtools(&self, name: &str, parameters: Value) -> Value {
        devtools(&self.browser, name, parameters).await
    }

    pub(crate) async fn colours(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": features }))
            .await;
    }

    /// Turns the scripts of pages off, from the next page on.
    pub(crate) async fn without_script(&self) {
        self.devtools("Emulation.setScriptExecutionDisabled", json!({"value": true}))
            .await;
    }

    /// Asks again and again, because a browser tells nobody what its page shows.
    pub(crate) async fn wait(&self, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so().await {
            if Instant::now() > deadline {
                panic!(
                    "never: {what}. {} shows:\n{}",
                    self.path().await,
                    self.text_of("body").await
                );
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    /// Says that the console may have messages with this text, such as the refusal of a request.
    pub(crate) fn tolerate(&self, text: &'static str) {
        self.tolerated.borrow_mut().push(text);
    }

    async fn check_console(&self) {
        let tolerated = self.tolerated.borrow().clone();
        let messages = driver::log(&self.browser, "browser").await;
        let unexpected: Vec<_> = messages
            .iter()
            .filter_map(|entry| entry["message"].as_str())
            .filter(|message| !tolerated.iter().any(|text| message.contains(text)))
            .collect();
        assert!(
            unexpected.is_empty(),
            "messages on the console: {}",
            unexpected.join("\n")
        );
    }

    async fn check_requests(&self) {
        let mut number = 0;
        for entry in driver::log(&self.browser, "performance").await {
            let entry: Value = serde_json::from_str(entry["message"].as_str().unwrap()).unwrap();
            let message = &entry["message"];
            if message["method"] == "Network.requestWillBeSent" {
                let url = message["params"]["request"]["url"].as_str().unwrap();
                assert!(url.starts_with(&format!("{}/", self.server)), "a request to {url}");
                number += 1;
            }
        }
        assert!(number > 0, "no request was logged");
    }

    /// Says where a test failed, and ends its browser.
    async fn report(self) {
        let path = self.path().await;
        let file = std::env::temp_dir().join(format!("dashboard-{}.png", std::process::id()));
        let shot = self.browser.screenshot().await.unwrap_or_default();
        let _ = std::fs::write(&file, shot);
        eprintln!("the browser was at {path}; {} shows it", file.display());
        let _ = self.browser.close().await;
    }
}
