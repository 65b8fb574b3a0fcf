//! How loudly an issue is said, and when it is said again.
//!
//! A person is woken once, by what is new and proved. What is still there is a ticket, said again after some days; what is back
//! after a few nights without is not new. Nobody is woken by what got better, what is gone, or what was seen in one run only.

use record::{ChangeShape, FindingKind, IssueStatus, Night, PartChange, Quantity, Severity};

/// Who is woken by what, and how often others are reminded.
#[derive(Debug, Clone, PartialEq)]
pub struct SeverityRule {
    /// Findings that wake somebody when they are new; all others are tickets.
    pub pages: Vec<FindingKind>,
    /// Days after which an issue that is still there is said again.
    pub remind_after_days: u32,
    /// An issue that was away for no more nights than this is not new.
    pub again_within: u32,
}

impl Default for SeverityRule {
    fn default() -> Self {
        use FindingKind::{
            Corruption, GpuErrors, LostRank, SilentRail, SlowCollective, SlowLink, SlowPair, SlowRail,
        };
        SeverityRule {
            // Data is wrong, something is dead, or work is slower than it should be, and measuring again said so too.
            pages: vec![
                Corruption,
                LostRank,
                SilentRail,
                SlowLink,
                SlowRail,
                SlowPair,
                SlowCollective,
                GpuErrors,
            ],
            remind_after_days: 7,
            again_within: 3,
        }
    }
}

impl SeverityRule {
    /// How loudly a finding is said.
    pub fn of_finding(&self, kind: FindingKind, status: &IssueStatus) -> Severity {
        let wakes = self.pages.contains(&kind);
        self.of(wakes, status)
    }

    /// How loudly a change against the past is said.
    pub fn of_change(&self, change: &PartChange, status: &IssueStatus) -> Severity {
        if !change.is_worse || change.shape == ChangeShape::Blip {
            return Severity::Info;
        }
        let wakes = change.shape == ChangeShape::Step && change.quantity == Quantity::Bandwidth;
        self.of(wakes, status)
    }

    fn of(&self, wakes: bool, status: &IssueStatus) -> Severity {
        match status {
            IssueStatus::New if wakes => Severity::Page,
            IssueStatus::New | IssueStatus::Still { .. } | IssueStatus::Again { .. } => Severity::Ticket,
            IssueStatus::Gone { .. } | IssueStatus::Unknown { .. } => Severity::Info,
        }
    }

    /// Whether it is time to say again what was said in `told`.
    pub(super) fn is_time(&self, reported: &Night, now: &Night) -> bool {
        // A run that starts some hours earlier than it did a week ago is still a week later.
        const SLACK: i64 = 6 * 3600;
        now.at.saturating_sub(reported.at) >= i64::from(self.remind_after_days) * 86_400 - SLACK
    }

    /// Whether what was first said in run `first` is to be said again in the last of `nights`, when it is said again whenever it is time.
    pub(super) fn is_due_again(&self, nights: &[Night], first: usize) -> bool {
        let Some(last) = nights.len().checked_sub(1) else {
            return false;
        };
        let mut reported = first;
        for run in first..=last {
            if run > first && self.is_time(&nights[reported], &nights[run]) {
                reported = run;
            }
        }
        reported == last && last > first
    }
}
