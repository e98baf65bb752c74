//! A headless Chromium, driven over the `WebDriver` protocol (W3C): as much of it as the test of the operator's page needs.

use std::{io, path::Path, process::Stdio, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::servers::require_program;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::patience::{TimedOut, eventually};

/// The program that speaks the protocol.
const DRIVER: &str = "chromedriver";
/// How long a page may take to become what it should be.
const PATIENCE: Duration = Duration::from_mins(1);
/// The property of an answer that holds a reference to an element, by the standard.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Why a browser does not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    /// None is installed. `cargo xtask check` knows the sentence.
    #[error("no Chromium can be had ({0}): install the packages chromium and chromium-driver")]
    Missing(String),
    /// Its driver does not start or stops answering.
    #[error("the driver of the browser does not work")]
    Io(#[from] io::Error),
    /// Its driver cannot be asked.
    #[error("the driver of the browser cannot be asked")]
    Http(#[from] reqwest::Error),
    /// Its driver refuses.
    #[error("the browser refuses `{command}`: {answer}")]
    Refused {
        /// What was asked.
        command: String,
        /// What it said.
        answer: Value,
    },
    /// The page is not what it should be in time.
    #[error("{late}; the page says: {page}")]
    TimedOut {
        /// What was waited for.
        #[source]
        late: TimedOut,
        /// The page's text.
        page: String,
    },
}

/// One window of a browser with a profile of its own; it must be told to quit, or it may outlive its driver.
#[derive(Debug)]
pub struct Browser {
    session: String,
    client: reqwest::Client,
    _driver: Child,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser without a window on a screen; installs it first where that may be done, as servers are.
    ///
    /// # Errors
    /// [`BrowserError::Missing`] if none is installed; other [`BrowserError`]s.
    pub async fn start() -> Result<Self, BrowserError> {
        require_program(DRIVER, &["chromium", "chromium-driver"]).await.map_err(BrowserError::Missing)?;
        let profile = tempfile::tempdir()?;
        let mut command = Command::new(DRIVER);
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut driver = command.spawn().map_err(|error| BrowserError::Missing(format!("chromedriver: {error}")))?;
        let port = port_of(&mut driver).await?;
        let client = reqwest::Client::builder().timeout(PATIENCE).build()?;
        let arguments = [
            "--headless=new".to_owned(),
            // Test machines run as root, where the sandbox does not.
            "--no-sandbox".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--window-size=1280,900".to_owned(),
            "--lang=en".to_owned(),
            format!("--user-data-dir={}", profile.path().display()),
        ];
        let capabilities = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        }}});
        let root = format!("http://127.0.0.1:{port}/session");
        let answer: Value = client.post(&root).json(&capabilities).send().await?.json().await?;
        let Some(id) = answer.pointer("/value/sessionId").and_then(Value::as_str) else {
            let why = answer.pointer("/value/message").unwrap_or(&answer);
            return Err(BrowserError::Missing(why.to_string()));
        };
        Ok(Self { session: format!("{root}/{id}"), client, _driver: driver, _profile: profile })
    }

    async fn command(&self, command: &str, body: Value) -> Result<Value, BrowserError> {
        let answer = self.client.post(format!("{}/{command}", self.session)).json(&body).send().await?;
        let (status, mut answer): (_, Value) = (answer.status(), answer.json().await?);
        if status.is_success() {
            return Ok(answer.get_mut("value").map(Value::take).unwrap_or_default());
        }
        Err(BrowserError::Refused { command: command.to_owned(), answer })
    }

    /// Opens an address.
    ///
    /// # Errors
    /// [`BrowserError`].
    pub async fn open(&self, url: &str) -> Result<(), BrowserError> {
        self.command("url", json!({ "url": url })).await.map(drop)
    }

    /// The value of a JavaScript expression in the page.
    ///
    /// # Errors
    /// [`BrowserError`].
    pub async fn value(&self, expression: &str) -> Result<Value, BrowserError> {
        self.command("execute/sync", json!({ "script": format!("return {expression};"), "args": [] })).await
    }

    /// Waits until a JavaScript expression is true.
    ///
    /// # Errors
    /// [`BrowserError::TimedOut`] with the text of the page.
    pub async fn until(&self, expression: &str) -> Result<(), BrowserError> {
        let look = || async { (self.value(expression).await.ok()? == Value::Bool(true)).then_some(()) };
        match eventually(expression, PATIENCE, look).await {
            Ok(()) => Ok(()),
            Err(late) => {
                let page = self.value("document.body.innerText").await.unwrap_or_default();
                Err(BrowserError::TimedOut { late, page: page.to_string() })
            }
        }
    }

    /// The path of the element that a selector finds, as soon as there is one.
    async fn element(&self, selector: &str) -> Result<String, BrowserError> {
        self.until(&format!("document.querySelector({}) !== null", json!(selector))).await?;
        let found = self.command("element", json!({ "using": "css selector", "value": selector })).await?;
        match found.get(ELEMENT).and_then(Value::as_str) {
            Some(id) => Ok(format!("element/{id}")),
            None => Err(BrowserError::Refused { command: selector.to_owned(), answer: found }),
        }
    }

    /// Clicks on an element.
    ///
    /// # Errors
    /// [`BrowserError`].
    pub async fn click(&self, selector: &str) -> Result<(), BrowserError> {
        self.command(&format!("{}/click", self.element(selector).await?), json!({})).await.map(drop)
    }

    /// Types into an element, or chooses of its options.
    ///
    /// # Errors
    /// [`BrowserError`].
    pub async fn fill(&self, selector: &str, text: &str) -> Result<(), BrowserError> {
        self.command(&format!("{}/value", self.element(selector).await?), json!({ "text": text })).await.map(drop)
    }

    /// Presses keys, one after the other, wherever the focus is; `\u{e004}` is Tab, `\u{e007}` Enter.
    ///
    /// # Errors
    /// [`BrowserError`].
    pub async fn press(&self, keys: &str) -> Result<(), BrowserError> {
        let strokes: Vec<_> = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key })))
            .collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strokes });
        self.command("actions", json!({ "actions": [keyboard] })).await.map(drop)
    }

    /// Lets the reader prefer `light` or `dark`.
    ///
    /// # Errors
    /// [`BrowserError`].
    pub async fn prefer(&self, scheme: &str) -> Result<(), BrowserError> {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        let command = json!({ "cmd": "Emulation.setEmulatedMedia", "params": { "features": features } });
        self.command("goog/cdp/execute", command).await.map(drop)
    }

    /// Writes what the window shows into a PNG file.
    ///
    /// # Errors
    /// [`BrowserError`].
    pub async fn screenshot(&self, file: &Path) -> Result<(), BrowserError> {
        let answer = self.client.get(format!("{}/screenshot", self.session)).send().await?;
        let answer: Value = answer.json().await?;
        let refused = || BrowserError::Refused { command: "screenshot".to_owned(), answer: Value::Null };
        let text = answer.get("value").and_then(Value::as_str);
        let bytes = text.and_then(|text| BASE64_STANDARD.decode(text).ok()).ok_or_else(refused)?;
        Ok(std::fs::write(file, bytes)?)
    }

    /// What the page has complained of since it was asked last.
    ///
    /// # Errors
    /// [`BrowserError`].
    pub async fn complaints(&self) -> Result<Vec<String>, BrowserError> {
        let entries = self.command("se/log", json!({ "type": "browser" })).await?;
        let entries = entries.as_array().into_iter().flatten();
        let severe = entries.filter(|entry| matches!(entry["level"].as_str(), Some("SEVERE" | "WARNING")));
        Ok(severe.filter_map(|entry| entry["message"].as_str().map(str::to_owned)).collect())
    }

    /// Ends the browser.
    ///
    /// # Errors
    /// [`BrowserError`].
    pub async fn quit(self) -> Result<(), BrowserError> {
        self.client.delete(&self.session).send().await?;
        Ok(())
    }
}

/// The driver says on which port it listens.
async fn port_of(driver: &mut Child) -> Result<u16, BrowserError> {
    let stdout = driver.stdout.take().ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
    let mut lines = BufReader::new(stdout).lines();
    while let Some(line) = lines.next_line().await? {
        let port = line.split("started successfully on port ").nth(1);
        if let Some(port) = port.and_then(|port| port.trim_end_matches('.').parse().ok()) {
            // Whatever else it writes is read, or it would stop at a full pipe.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Ok(port);
        }
    }
    Err(BrowserError::Missing("chromedriver ended without a port".to_owned()))
}
