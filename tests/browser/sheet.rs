//! A page in a browser: opened one way, looked at, and everything it did noted.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::driver::Browser;

/// How a page is looked at.
#[derive(Debug, Clone, Copy)]
pub struct View {
    /// Size of the window.
    pub window: (u32, u32),
    /// Whether its scripts may run.
    pub scripts: bool,
    /// Whether the reader wants it dark.
    pub dark: bool,
    /// As it would be on paper.
    pub print: bool,
}

impl View {
    /// A usual window.
    pub const DESK: View = View {
        window: (1280, 800),
        scripts: true,
        dark: false,
        print: false,
    };

    /// A small phone.
    pub const PHONE: View = View {
        window: (360, 740),
        ..View::DESK
    };
}

/// An open page.
pub struct Sheet {
    browser: Browser,
    address: String,
}

impl Sheet {
    /// Opens the file and waits until it is loaded.
    pub fn open(file: &Path, view: View) -> Sheet {
        let file = file.canonicalize().unwrap();
        let mut browser = Browser::start();
        let (width, height) = view.window;
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        browser.ask("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = if view.dark { "dark" } else { "light" };
        let media = json!({
            "media": if view.print { "print" } else { "" },
            "features": [{"name": "prefers-color-scheme", "value": scheme}],
        });
        browser.ask("Emulation.setEmulatedMedia", media);
        browser.ask(
            "Emulation.setScriptExecutionDisabled",
            json!({"value": !view.scripts}),
        );
        let mut sheet = Sheet {
            browser,
            address: format!("file://{}", file.display()),
        };
        let answer = sheet.browser.ask("Page.navigate", json!({"url": sheet.address}));
        assert!(answer["errorText"].is_null(), "{}: {answer}", sheet.address);
        sheet.browser.wait_for("Page.loadEventFired");
        sheet
    }

    /// Opens everything that is folded and draws what is left undrawn until somebody scrolls to it.
    pub fn unfold(&mut self) {
        self.evaluate(
            "document.querySelectorAll('details').forEach(details => details.open = true), \
             document.querySelectorAll('section').forEach(section => section.style.contentVisibility = 'visible')",
        );
    }

    /// What an expression comes to.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        self.browser.evaluate(expression)
    }

    /// What an expression comes to, as text.
    pub fn text(&mut self, expression: &str) -> String {
        match self.evaluate(expression) {
            Value::String(text) => text,
            other => other.to_string(),
        }
    }

    /// Errors that the page's scripts or its loading came to: exceptions, and what was written to the console.
    pub fn complaints(&mut self) -> Vec<String> {
        let methods = [
            "Runtime.exceptionThrown",
            "Runtime.consoleAPICalled",
            "Log.entryAdded",
        ];
        let events = self.browser.take(&methods);
        events.iter().map(|event| event["params"].to_string()).collect()
    }

    /// Dialogs the page has opened: a sign that text was run.
    pub fn dialogs(&mut self) -> usize {
        self.browser.take(&["Page.javascriptDialogOpening"]).len()
    }

    /// Addresses that were asked for, other than the page itself.
    pub fn requests(&mut self) -> Vec<String> {
        let events = self
            .browser
            .take(&["Network.requestWillBeSent", "Network.webSocketCreated"]);
        let asked = events.iter().map(|event| {
            let request = &event["params"]["request"]["url"];
            let socket = &event["params"]["url"];
            request.as_str().or(socket.as_str()).unwrap_or("?").to_string()
        });
        let address = self.address.clone();
        asked
            .filter(|url| url.split('#').next() != Some(address.as_str()) && !url.starts_with("data:"))
            .collect()
    }

    /// Puts a text into a field as a keyboard would.
    pub fn type_into(&mut self, selector: &str, text: &str) {
        let field = format!("document.querySelector({})", json!(selector));
        self.evaluate(&format!("{field}.focus(), {field}.select && {field}.select()"));
        self.browser.ask("Input.insertText", json!({"text": text}));
    }

    /// Clicks in the middle of what the selector finds, as a mouse would.
    pub fn click(&mut self, selector: &str) {
        let find = format!("document.querySelector({})", json!(selector));
        let place = self.evaluate(&format!(
            "(() => {{ const found = {find}; found.scrollIntoView({{block: 'center', behavior: 'instant'}}); \
             const box = found.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event =
                json!({"type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1});
            self.browser.ask("Input.dispatchMouseEvent", event);
        }
    }

    /// The page on paper, as PDF.
    pub fn pdf(&mut self) -> Vec<u8> {
        let answer = self
            .browser
            .ask("Page.printToPDF", json!({"printBackground": true}));
        from_base64(answer["data"].as_str().unwrap())
    }

    /// Keeps a picture of the window as `target/browser/NAME.png`.
    pub fn picture(&mut self, name: &str) -> PathBuf {
        self.captured(name, json!({"format": "png"}))
    }

    /// The same of the whole page, or of as much as a picture can hold.
    pub fn whole_picture(&mut self, name: &str) -> PathBuf {
        let size = self.evaluate(
            "[document.documentElement.scrollWidth, Math.min(document.documentElement.scrollHeight, 16000)]",
        );
        let clip = json!({"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1});
        self.captured(
            name,
            json!({"format": "png", "captureBeyondViewport": true, "clip": clip}),
        )
    }

    fn captured(&mut self, name: &str, how: Value) -> PathBuf {
        let answer = self.browser.ask("Page.captureScreenshot", how);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/browser");
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{name}.png"));
        std::fs::write(&file, from_base64(answer["data"].as_str().unwrap())).unwrap();
        file
    }
}

/// The bytes that base64 text stands for.
fn from_base64(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => u32::from(letter - b'A'),
        b'a'..=b'z' => u32::from(letter - b'a') + 26,
        b'0'..=b'9' => u32::from(letter - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("not base64: {other}"),
    };
    let letters = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(letters.len() * 3 / 4);
    for group in letters.chunks(4) {
        let bits = group
            .iter()
            .enumerate()
            .fold(0, |bits, (at, letter)| bits | value(*letter) << (18 - 6 * at));
        bytes.extend(&bits.to_be_bytes()[1..group.len()]);
    }
    bytes
}

#[test]
fn pictures_are_decoded_to_the_byte() {
    for (text, bytes) in [
        ("", ""),
        ("Zg==", "f"),
        ("Zm8=", "fo"),
        ("Zm9v", "foo"),
        ("Zm9vYg==", "foob"),
    ] {
        assert_eq!(from_base64(text), bytes.as_bytes());
    }
}
