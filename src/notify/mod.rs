//! Telling somebody what is due tonight: a program that gets it on its standard input, or a webhook.
//!
//! Held true: nothing that goes wrong here changes a verdict or holds a run up for longer than [`Patience`] says; whoever is told gets one
//! notice at a time, loudest first; a webhook's address may be a secret, so it is never printed beyond its host.

mod webhook;

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use probe::command;
use record::{Notice, Unsent};

/// So many notices are sent one by one; the report has the others.
const MOST_NOTICES: usize = 50;
/// What a program may print; nobody reads it.
const MOST_PRINTED: u64 = 1 << 20;
/// What a program finds in its environment.
pub const SEVERITY: &str = "RAILGAUGE_SEVERITY";

/// Who is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A program and its arguments: one notice as JSON on its standard input.
    Program(Vec<String>),
    /// An address that takes one notice as the body of a POST.
    Webhook(String),
}

/// How long telling may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// One attempt.
    pub each: Duration,
    /// All notices to all targets.
    pub all: Duration,
    /// Between the first attempt and the second; twice as long before the third.
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

/// What telling came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// Notices that arrived, counted for every target.
    pub delivered: usize,
    /// What went wrong, one line each.
    pub troubles: Vec<String>,
    /// What did not arrive.
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
            (true, _) => Err("an address has a host, as in https://hooks.example/abc".to_string()),
            (false, Some((scheme, _))) if scheme.chars().all(|c| c.is_ascii_alphanumeric()) => Err(format!(
                "`{scheme}` is no way to tell anybody: use https://, http:// or a program"
            )),
            _ => command::words(text)
                .map(Target::Program)
                .ok_or_else(|| "a program with its arguments, or an address that takes a POST".to_string()),
        }
    }
}

impl fmt::Display for Target {
    /// Without what may be secret.
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

/// Host and port of an address without its scheme; who logs in there is nobody's business.
fn host_of(rest: &str) -> &str {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    authority.rsplit('@').next().unwrap_or(authority)
}

/// Tells every target every notice, as far as time allows.
pub fn tell(targets: &[Target], notices: &[Notice], patience: Patience) -> Told {
    let until = Instant::now() + patience.all;
    let mut told = Told::default();
    let (sent, left) = notices.split_at(notices.len().min(MOST_NOTICES));
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
                told.troubles
                    .push(format!("{target}: {count} not sent within {:?}", patience.all));
                told.unsent.extend(sent[number..].iter().map(unsent));
                break;
            }
            match one(
                target,
                notice,
                Patience {
                    all: rest,
                    ..patience
                },
            ) {
                Ok(()) => told.delivered += 1,
                Err(problem) => {
                    told.troubles.push(format!("{target}: {problem}: {}", notice.key));
                    told.unsent.push(unsent(notice));
                }
            }
        }
    }
    if !left.is_empty() && !targets.is_empty() {
        let most = MOST_NOTICES;
        told.troubles.push(format!(
            "only the first {most} were sent; {} more are in the report",
            left.len()
        ));
    }
    told
}

fn one(target: &Target, notice: &Notice, patience: Patience) -> Result<(), String> {
    let text = serde_json::to_vec(notice).map_err(|error| error.to_string())?;
    match target {
        Target::Program(words) => {
            let severity = notice.severity.to_string();
            let variables = [(SEVERITY, severity.as_str())];
            let longest = patience.each.min(patience.all);
            command::answer(words, text, &variables, MOST_PRINTED, longest).map(|_| ())
        }
        Target::Webhook(address) => webhook::post(address, &text, patience),
    }
}

#[cfg(test)]
mod tests;
