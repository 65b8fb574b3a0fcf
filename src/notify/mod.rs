//! Notifications: a program that gets a notice on its standard input, or a webhook.
//!
//! A failure here never changes a verdict, nor delays a run for longer than [`Patience`]. A target gets one notice at a time, the
//! most severe first. A webhook's address may be a secret: only its host is ever printed.

mod webhook;

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use probe::command;
use record::{Notice, Unsent};

/// Notices sent to a target; the report has the others.
const MAX_NOTICES: usize = 50;
/// Bytes a program may print; they are discarded.
const MAX_OUTPUT: u64 = 1 << 20;
/// The environment variable that tells a program the severity.
pub const SEVERITY: &str = "RAILGAUGE_SEVERITY";

/// Where notices go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A program with its arguments; it gets a notice as JSON on standard input.
    Program(Vec<String>),
    /// A URL that gets a notice as the body of a POST.
    Webhook(String),
}

/// How long sending may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// One attempt.
    pub each: Duration,
    /// All notices to all targets.
    pub all: Duration,
    /// Pause between the first and the second attempt; twice as long before the third.
    pub pause: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            each: Duration::from_secs(10),
            all: Duration::from_secs(60),
            pause: Duration::from_secs(1),
        }
    }
}

/// The outcome of sending notices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Notices that arrived, summed over targets.
    pub delivered: usize,
    /// Failures, one line each.
    pub troubles: Vec<String>,
    /// Notices that did not arrive.
    pub unsent: Vec<Unsent>,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        let text = text.trim();
        let is_web = ["https://", "http://"]
            .iter()
            .any(|scheme| text.starts_with(scheme));
        match (is_web, text.split_once("://")) {
            (true, Some((_, rest))) if !host_of(rest).is_empty() => Ok(Target::Webhook(text.to_string())),
            (true, _) => Err("the URL has no host; write it as https://hooks.example/abc".to_string()),
            (false, Some((scheme, _))) if scheme.chars().all(|c| c.is_ascii_alphanumeric()) => Err(format!(
                "`{scheme}://` is not supported; use https://, http:// or a program"
            )),
            _ => command::words(text)
                .map(Target::Program)
                .ok_or_else(|| "write a program with its arguments, or a URL that takes a POST".to_string()),
        }
    }
}

impl fmt::Display for Target {
    /// Without the parts that may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Program(words) => f.write_str(words.first().map_or("", String::as_str)),
            Target::Webhook(address) => {
                let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
                write!(f, "{scheme}://{}/...", host_of(rest))
            }
        }
    }
}

/// Host and port of a URL without its scheme, and without user and password.
fn host_of(rest: &str) -> &str {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    authority.rsplit('@').next().unwrap_or(authority)
}

/// Sends every notice to every target, as far as time allows.
pub fn send(targets: &[Target], notices: &[Notice], patience: Patience) -> Delivery {
    let until = Instant::now() + patience.all;
    let mut delivery = Delivery::default();
    let (sent, left) = notices.split_at(notices.len().min(MAX_NOTICES));
    for target in targets {
        let unsent = |notice: &Notice| Unsent {
            target: target.to_string(),
            key: notice.key.clone(),
            severity: notice.severity,
        };
        for (number, notice) in sent.iter().enumerate() {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                let count = sent.len() - number;
                delivery
                    .troubles
                    .push(format!("{target}: {count} not sent within {:?}", patience.all));
                delivery.unsent.extend(sent[number..].iter().map(unsent));
                break;
            }
            match send_one(
                target,
                notice,
                Patience {
                    all: rest,
                    ..patience
                },
            ) {
                Ok(()) => delivery.delivered += 1,
                Err(problem) => {
                    delivery
                        .troubles
                        .push(format!("{target}: {problem}: {}", notice.key));
                    delivery.unsent.push(unsent(notice));
                }
            }
        }
    }
    if !left.is_empty() && !targets.is_empty() {
        let most = MAX_NOTICES;
        delivery.troubles.push(format!(
            "only the first {most} were sent; {} more are in the report",
            left.len()
        ));
    }
    delivery
}

fn send_one(target: &Target, notice: &Notice, patience: Patience) -> Result<(), String> {
    let text = serde_json::to_vec(notice).map_err(|error| error.to_string())?;
    match target {
        Target::Program(words) => {
            let severity = notice.severity.to_string();
            let variables = [(SEVERITY, severity.as_str())];
            let longest = patience.each.min(patience.all);
            command::answer(words, text, &variables, MAX_OUTPUT, longest).map(|_| ())
        }
        Target::Webhook(address) => webhook::post(address, &text, patience),
    }
}

/// A command line with the addresses of webhooks reduced to their hosts, for the record.
pub fn redacted_command(words: impl Iterator<Item = String>) -> Vec<String> {
    const FLAG: &str = "--notify";
    let redacted = |text: &str| match text.parse::<Target>() {
        Ok(target @ Target::Webhook(_)) => target.to_string(),
        _ => text.to_string(),
    };
    let mut is_value = false;
    words
        .map(|word| {
            let was_value = std::mem::replace(&mut is_value, word == FLAG);
            match (was_value, word.strip_prefix("--notify=")) {
                (true, _) => redacted(&word),
                (false, Some(value)) => format!("{FLAG}={}", redacted(value)),
                (false, None) => word,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
