//! Tonight against the nights before.

use super::changes;
use super::dated_change::DatedChange;
use super::episode::Ending;
use super::finding_track::{self, FindingTrack};
use super::part_histories::PartHistories;
use super::rule::Rule;
use super::severity::SeverityRule;
use record::{History, Issue, IssueStatus, Night, SCHEMA, Severity};

/// Single runs that stand out, at most so many: a list of hundreds is not read.
const MOST_BLIPS: usize = 10;

/// The last of `nights` against the others, which are in the order of their start and of one suite.
pub fn since_earlier_runs(nights: &[Night]) -> History {
    since_earlier_runs_by(nights, &Rule::default(), &SeverityRule::default())
}

/// The same by other rules.
pub fn since_earlier_runs_by(nights: &[Night], rule: &Rule, severities: &SeverityRule) -> History {
    let histories = PartHistories::of(nights, rule);
    let last = nights.len().saturating_sub(1);
    let tracks = finding_track::of(nights, severities);
    let mut changes: Vec<(DatedChange, IssueStatus)> = changes::lasting(&histories, nights)
        .into_iter()
        .map(|dated| {
            let status = of_lasting(&dated, last, severities);
            (dated, status)
        })
        .collect();
    changes.extend(changes::over(&histories, nights).into_iter().filter_map(|dated| {
        let (run, ending) = dated.ended?;
        let nights = (run - dated.proved.min(run)) as u32;
        let is_tonight = run == last && ending == Ending::Gone;
        is_tonight.then_some((dated, IssueStatus::Gone { nights }))
    }));
    let mut issues: Vec<Issue> = Vec::new();
    for track in &tracks {
        let is_same = |(dated, _): &(DatedChange, IssueStatus)| is_one(track, dated);
        let with = changes.iter().position(is_same).map(|at| changes.remove(at));
        issues.push(issue(Some(track), with, nights, severities));
    }
    issues.extend(
        changes
            .into_iter()
            .map(|change| issue(None, Some(change), nights, severities)),
    );
    let blips = changes::blips(&histories, nights);
    let unnamed = blips.len().saturating_sub(MOST_BLIPS);
    for blip in blips.into_iter().take(MOST_BLIPS) {
        if !tracks.iter().any(|track| is_one(track, &blip)) {
            issues.push(Issue {
                due: false,
                ..issue(None, Some((blip, IssueStatus::New)), nights, severities)
            });
        }
    }
    issues.sort_by(|a, b| {
        let key = |issue: &Issue| (std::cmp::Reverse(issue.severity), rank(&issue.status));
        key(a).cmp(&key(b)).then_with(|| a.part.cmp(&b.part))
    });
    let tonight = nights.last();
    History {
        schema: SCHEMA,
        suite: tonight
            .map(|night| night.readings.suite.clone())
            .unwrap_or_default(),
        run: tonight.map(|night| night.name.clone()).unwrap_or_default(),
        started: tonight
            .map(|night| night.readings.started.clone())
            .unwrap_or_default(),
        nights: last as u32,
        summary: summary(&issues, &histories, last, unnamed),
        issues,
        replaced: histories
            .replaced
            .into_iter()
            .filter(|(run, _)| *run == last)
            .map(|(_, replaced)| replaced)
            .collect(),
        young: histories.young,
        compared: histories.compared,
        skipped: Vec::new(),
    }
}

fn of_lasting(dated: &DatedChange, last: usize, rule: &SeverityRule) -> IssueStatus {
    let nights = (last - dated.proved.min(last) + 1) as u32;
    match (dated.seen == last, dated.proved == last, dated.away) {
        (false, ..) => IssueStatus::Unknown { nights: nights - 1 },
        (true, true, Some(away)) if away <= rule.again_within as usize => {
            IssueStatus::Again { away: away as u32 }
        }
        (true, true, _) => IssueStatus::New,
        (true, false, _) => IssueStatus::Still { night: nights },
    }
}

/// Whether a change is about the part that a finding accuses, or seen at one of its places at the same time.
fn is_one(track: &FindingTrack, dated: &DatedChange) -> bool {
    let change = &dated.change;
    let is_gone = |status: &IssueStatus| matches!(status, IssueStatus::Gone { .. });
    if is_gone(&track.status) != dated.ended.is_some() || !change.is_worse && dated.ended.is_none() {
        return false;
    }
    let about = |part: &str| finding_track::is_about_part(&track.found, change.kind, part);
    !dated.is_common && about(&change.part) || change.with.contains(&track.found.part)
}

/// One issue from what a run found, what the past shows, or both. It is as old as the older of them, and as loud as the louder.
fn issue(
    track: Option<&FindingTrack>,
    change: Option<(DatedChange, IssueStatus)>,
    nights: &[Night],
    rule: &SeverityRule,
) -> Issue {
    let last = nights.len().saturating_sub(1);
    let by_change = change.as_ref().map(|(dated, status)| {
        // A part that joined tonight makes an old issue no newer, but it changed again.
        let is_news = dated.latest == last && dated.proved == last;
        let severity = rule.of_change(&dated.change, status);
        let due = match status {
            IssueStatus::New => is_news && severity > Severity::Info,
            IssueStatus::Again { .. } => false,
            IssueStatus::Still { .. } => severity > Severity::Info && rule.is_due_again(nights, dated.proved),
            IssueStatus::Gone { .. } => dated.change.is_worse,
            IssueStatus::Unknown { .. } => false,
        };
        (severity, due)
    });
    let severity = track
        .map(|track| track.severity)
        .max(by_change.map(|(severity, _)| severity));
    let due = track.is_some_and(|track| track.due) || by_change.is_some_and(|(_, due)| due);
    let first = [
        track.map(|track| track.first),
        change.as_ref().map(|(dated, _)| dated.proved),
    ];
    let first = first.into_iter().flatten().min().unwrap_or(last);
    let status = match (
        track.map(|track| &track.status),
        change.as_ref().map(|(_, status)| status),
    ) {
        (Some(a), Some(b)) => older(a, b).clone(),
        (Some(one), None) | (None, Some(one)) => one.clone(),
        (None, None) => IssueStatus::New,
    };
    let change = change.map(|(dated, _)| dated.change);
    let said = match (track, &change) {
        (Some(track), Some(change)) => format!("{} ({})", track.found.sentence, change.sentence),
        (Some(track), None) => track.found.sentence.clone(),
        (None, Some(change)) => change.sentence.clone(),
        (None, None) => String::new(),
    };
    let part = match (track, &change) {
        (Some(track), _) => track.found.part.clone(),
        (None, Some(change)) => change.part.clone(),
        (None, None) => String::new(),
    };
    Issue {
        kind: track.map(|track| track.found.kind),
        part,
        sentence: format!("{}: {said}", status.in_words()),
        status,
        severity: severity.unwrap_or(Severity::Info),
        due,
        first: nights
            .get(first)
            .map(|night| night.name.clone())
            .unwrap_or_default(),
        finding: track.map(|track| track.found.clone()),
        change,
    }
}

/// The status of an issue of which one part is new and another is not.
fn older<'a>(a: &'a IssueStatus, b: &'a IssueStatus) -> &'a IssueStatus {
    let nights = |status: &IssueStatus| match status {
        IssueStatus::New => 1,
        IssueStatus::Again { .. } => 2,
        IssueStatus::Still { night } => 1 + night,
        IssueStatus::Gone { nights } | IssueStatus::Unknown { nights } => 1 + nights,
    };
    if nights(b) > nights(a) { b } else { a }
}

fn rank(status: &IssueStatus) -> u8 {
    match status {
        IssueStatus::New => 0,
        IssueStatus::Again { .. } => 1,
        IssueStatus::Still { .. } => 2,
        IssueStatus::Unknown { .. } => 3,
        IssueStatus::Gone { .. } => 4,
    }
}

fn summary(issues: &[Issue], histories: &PartHistories, earlier: usize, unnamed: usize) -> String {
    let count = |wanted: fn(&Issue) -> bool| issues.iter().filter(|issue| wanted(issue)).count();
    let is_blip = |issue: &Issue| issue.severity == Severity::Info && issue.status == IssueStatus::New;
    let counts = [
        (
            count(|m| m.severity > Severity::Info && m.status == IssueStatus::New),
            "new",
        ),
        (
            count(|m| matches!(m.status, IssueStatus::Again { .. })),
            "back again",
        ),
        (
            count(|m| matches!(m.status, IssueStatus::Still { .. })),
            "still there",
        ),
        (
            count(|m| matches!(m.status, IssueStatus::Unknown { .. })),
            "not measured tonight",
        ),
        (count(|m| matches!(m.status, IssueStatus::Gone { .. })), "gone"),
        (
            issues.iter().filter(|issue| is_blip(issue)).count() + unnamed,
            "worth a look only",
        ),
    ];
    let said: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let what = match said.is_empty() {
        true => "nothing changed".to_string(),
        false => said.join(", "),
    };
    let runs = if earlier == 1 {
        "1 earlier run".to_string()
    } else {
        format!("{earlier} earlier runs")
    };
    match (histories.compared, histories.young) {
        (0, 0) => format!("{what}; no part was read"),
        (0, young) => format!("{what}; {young} readings have too short a past to be compared ({runs})"),
        (compared, 0) => format!("{what}; {compared} readings compared with {runs}"),
        (compared, young) => {
            format!("{what}; {compared} readings compared with {runs}, {young} have too short a past")
        }
    }
}
