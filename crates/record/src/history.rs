//! `history.json` and `railgauge trend --json`: what changed since earlier runs.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumIter, EnumString};

use crate::text::{counted, ordinal};

use super::{FindingKind, FindingSummary, PartKind, Quantity};

/// How loudly something is said.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumIter,
    EnumString,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Severity {
    /// For whoever looks.
    Info,
    /// Somebody should look in working hours.
    Ticket,
    /// Somebody should look now.
    Page,
}

/// Where an issue stands after the last run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "state")]
#[cfg_attr(feature = "schema", schemars(rename = "Standing"))]
pub enum IssueStatus {
    /// Seen for the first time.
    New,
    /// Seen tonight and before.
    Still {
        /// Which night it is in a row: 2 and up.
        night: u32,
    },
    /// Seen before, then not for some nights, and tonight again.
    Again {
        /// Nights since it was last seen.
        away: u32,
    },
    /// Seen last time, and not tonight although its part was measured.
    Gone {
        /// How many nights it was there.
        nights: u32,
    },
    /// Seen last time; tonight its part was not measured, so nothing is known.
    Unknown {
        /// How many nights it was there.
        nights: u32,
    },
}

impl IssueStatus {
    /// The status in a few words: `third night`.
    pub fn in_words(&self) -> String {
        let nights = |nights: u32| counted(nights as usize, "night");
        match self {
            IssueStatus::New => "new tonight".to_string(),
            IssueStatus::Still { night } => format!("{} night", ordinal(*night)),
            IssueStatus::Again { away } => format!("again, after {} without", nights(*away)),
            IssueStatus::Gone { nights: there } => format!("gone, after {}", nights(*there)),
            IssueStatus::Unknown { nights: there } => {
                format!("not measured tonight; there for {}", nights(*there))
            }
        }
    }
}

/// How a part's figures changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum ChangeShape {
    /// From one run to the next, and it stayed.
    Step,
    /// A little every run.
    Slope,
    /// One run only.
    Blip,
}

/// A change of one part against its own past, beyond chance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PartChange {
    /// What kind of part.
    pub kind: PartKind,
    /// Its name.
    pub part: String,
    /// What changed.
    pub quantity: Quantity,
    /// How.
    pub shape: ChangeShape,
    /// The first run that shows it, by name.
    pub since: String,
    /// Its start, RFC 3339 in UTC.
    pub since_at: String,
    /// How many runs show it.
    pub runs: u32,
    /// The usual figure before.
    pub before: f64,
    /// The figure since (a slope: in the last run).
    pub after: f64,
    /// `after` over `before`, less one: -0.05 is 5 % less.
    pub effect: f64,
    /// Interval of that.
    pub effect_interval: (f64, f64),
    /// How many standard deviations of what chance does.
    pub score: f64,
    /// Whether it is for the worse.
    pub is_worse: bool,
    /// Parts that changed at the same time and are likely the same issue (both ends of one cable, the rail end of a link).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<String>,
    /// The whole change in one sentence.
    pub sentence: String,
}

/// One issue over the nights: a finding, or a change against the past.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Matter"))]
pub struct Issue {
    /// What kind of finding; none for a change that only the history shows.
    pub kind: Option<FindingKind>,
    /// The part.
    pub part: String,
    /// Where it stands.
    #[serde(rename = "standing")]
    pub status: IssueStatus,
    /// How loudly it is said tonight.
    pub severity: Severity,
    /// Whether it is due to be told tonight: it has not been told before, or long ago.
    pub due: bool,
    /// First run that showed it.
    pub first: String,
    /// The whole issue in one sentence, with where it stands.
    pub sentence: String,
    /// The finding behind it, of tonight or of the last run that showed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<FindingSummary>,
    /// The change behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<PartChange>,
}

/// A part that is another one than before under the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Replaced {
    /// What kind of part.
    pub kind: PartKind,
    /// Its name.
    pub part: String,
    /// What it was made of.
    pub before: String,
    /// What it is made of now.
    pub after: String,
    /// The first run with the new one.
    pub since: String,
}

/// Tonight against the nights before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct History {
    /// Version of this format.
    pub schema: u32,
    /// Name of the suite.
    pub suite: String,
    /// The run that is looked at, by name.
    pub run: String,
    /// Its start, RFC 3339 in UTC.
    pub started: String,
    /// Earlier runs that it was compared with.
    pub nights: u32,
    /// Loudest and newest first.
    #[serde(rename = "matters")]
    pub issues: Vec<Issue>,
    /// Parts that begin a new history, because they were replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<Replaced>,
    /// Parts with too few nights to be compared with their own past.
    pub young: u32,
    /// Parts that were compared.
    pub compared: u32,
    /// Folders that could not be used, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<String>,
    /// One sentence for the person who reads nothing else.
    pub summary: String,
}

/// What is sent to whoever is to be told: one issue of one night. The schema is published in `docs/notify.schema.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Notice {
    /// Version of this format.
    pub schema: u32,
    /// How loudly it is said.
    pub severity: Severity,
    /// The same from night to night for as long as it is about the same issue: what a system of tickets joins them by.
    pub key: String,
    /// Name of the suite.
    pub suite: String,
    /// The run, by name.
    pub run: String,
    /// Its start, RFC 3339 in UTC.
    pub started: String,
    /// Where its report lies.
    pub folder: String,
    /// The issue in one sentence.
    pub sentence: String,
    /// All of it.
    #[serde(rename = "matter")]
    pub issue: Issue,
}

/// A notice that did not reach somebody, to be sent again in the next night. In `unsent.json` of its run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsent {
    /// Who was not reached, as far as that is not secret.
    pub target: String,
    /// What it is about.
    pub key: String,
    /// How loudly it was to be said.
    pub severity: Severity,
}

impl History {
    /// What is due tonight and at least as loud as `lowest`, loudest first.
    pub fn notices(&self, lowest: Severity, folder: &str) -> Vec<Notice> {
        let mut due: Vec<&Issue> = self
            .issues
            .iter()
            .filter(|issue| issue.due && issue.severity >= lowest)
            .collect();
        due.sort_by_key(|issue| std::cmp::Reverse(issue.severity));
        due.into_iter().map(|issue| self.notice(issue, folder)).collect()
    }

    /// What did not reach somebody the night before, as it stands tonight; none when it is gone, or due tonight anyway.
    pub fn notice_again(&self, unsent: &Unsent, folder: &str) -> Option<Notice> {
        let issue = self.issues.iter().find(|issue| issue.key() == unsent.key)?;
        let is_there = !matches!(issue.status, IssueStatus::Gone { .. });
        (is_there && !issue.due).then(|| Notice {
            severity: unsent.severity.max(issue.severity),
            ..self.notice(issue, folder)
        })
    }

    fn notice(&self, issue: &Issue, folder: &str) -> Notice {
        Notice {
            schema: self.schema,
            severity: issue.severity,
            key: issue.key(),
            suite: self.suite.clone(),
            run: self.run.clone(),
            started: self.started.clone(),
            folder: folder.to_string(),
            sentence: issue.sentence.clone(),
            issue: issue.clone(),
        }
    }

    /// The exit code that the history calls for by itself: 12 when a part got so much worse than it was that somebody should look now.
    /// What tonight's verdict accuses has its own.
    pub fn exit_code(&self) -> u8 {
        let pages = |issue: &&Issue| issue.severity == Severity::Page && issue.change.is_some();
        match self.issues.iter().find(pages) {
            Some(_) => 12,
            None => 0,
        }
    }
}

impl Issue {
    /// `slow-link: h2/rail1->leaf1/p0`, or `changed: ...` for a change that only the history shows.
    fn key(&self) -> String {
        match self.kind {
            Some(kind) => format!("{kind}: {}", self.part),
            None => format!("changed: {}", self.part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_reads_as_people_say_it() {
        let words = |status: IssueStatus| status.in_words();
        assert_eq!(words(IssueStatus::Still { night: 3 }), "third night");
        assert_eq!(words(IssueStatus::Still { night: 21 }), "21st night");
        assert_eq!(words(IssueStatus::Still { night: 112 }), "112th night");
        assert_eq!(words(IssueStatus::Gone { nights: 1 }), "gone, after 1 night");
        assert_eq!(
            words(IssueStatus::Again { away: 2 }),
            "again, after 2 nights without"
        );
    }
}
