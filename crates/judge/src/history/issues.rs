//! Tonight against the nights before.

use super::dated_change::{self, DatedChange};
use super::describe;
use super::episode::Ending;
use super::finding_track::{self, FindingTrack};
use super::part_histories::PartHistories;
use super::rule::Rule;
use super::severity::SeverityRule;
use record::{History, Issue, IssueStatus, Night, SCHEMA, Severity};

/// Single runs that stand out which are told of; nobody reads a list of hundreds.
const MOST_BLIPS: usize = 10;

/// The last of `nights` against the others, which are in the order of their start and of one suite.
pub fn since_earlier_runs(nights: &[Night]) -> History {
    since_earlier_runs_by(nights, &Rule::default(), &SeverityRule::default())
}

/// The same by other rules.
pub fn since_earlier_runs_by(nights: &[Night], rule: &Rule, severities: &SeverityRule) -> History {
    let course = PartHistories::of(nights, rule);
    let last = nights.len().saturating_sub(1);
    let tracks = finding_track::of(nights, severities);
    let mut changes: Vec<(DatedChange, IssueStatus)> = dated_change::lasting(&course, nights)
        .into_iter()
        .map(|told| {
            let standing = of_lasting(&told, last, severities);
            (told, standing)
        })
        .collect();
    changes.extend(
        dated_change::over(&course, nights)
            .into_iter()
            .filter_map(|told| {
                let (run, ending) = told.ended?;
                let nights = (run - told.proved.min(run)) as u32;
                let is_tonight = run == last && ending == Ending::Gone;
                is_tonight.then_some((told, IssueStatus::Gone { nights }))
            }),
    );
    let mut matters: Vec<Issue> = Vec::new();
    for track in &tracks {
        let is_same = |(told, _): &(DatedChange, IssueStatus)| is_one(track, told);
        let with = changes.iter().position(is_same).map(|at| changes.remove(at));
        matters.push(matter(Some(track), with, nights, severities));
    }
    matters.extend(
        changes
            .into_iter()
            .map(|change| matter(None, Some(change), nights, severities)),
    );
    let blips = dated_change::blips(&course, nights);
    let unnamed = blips.len().saturating_sub(MOST_BLIPS);
    for blip in blips.into_iter().take(MOST_BLIPS) {
        if !tracks.iter().any(|track| is_one(track, &blip)) {
            matters.push(Issue {
                due: false,
                ..matter(None, Some((blip, IssueStatus::New)), nights, severities)
            });
        }
    }
    matters.sort_by(|a, b| {
        let key = |matter: &Issue| (std::cmp::Reverse(matter.severity), rank(&matter.standing));
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
        summary: summary(&matters, &course, last, unnamed),
        matters,
        replaced: course
            .replaced
            .into_iter()
            .filter(|(run, _)| *run == last)
            .map(|(_, replaced)| replaced)
            .collect(),
        young: course.young,
        compared: course.compared,
        skipped: Vec::new(),
    }
}

fn of_lasting(told: &DatedChange, last: usize, rule: &SeverityRule) -> IssueStatus {
    let nights = (last - told.proved.min(last) + 1) as u32;
    match (told.seen == last, told.proved == last, told.away) {
        (false, ..) => IssueStatus::Unknown { nights: nights - 1 },
        (true, true, Some(away)) if away <= rule.again_within as usize => {
            IssueStatus::Again { away: away as u32 }
        }
        (true, true, _) => IssueStatus::New,
        (true, false, _) => IssueStatus::Still { night: nights },
    }
}

/// Whether a change is about the part that a finding accuses, or seen at one of its places at the same time.
fn is_one(track: &FindingTrack, told: &DatedChange) -> bool {
    let change = &told.change;
    let is_gone = |standing: &IssueStatus| matches!(standing, IssueStatus::Gone { .. });
    if is_gone(&track.standing) != told.ended.is_some() || !change.is_worse && told.ended.is_none() {
        return false;
    }
    let about = |part: &str| finding_track::is_about_part(&track.found, change.kind, part);
    !told.is_common && about(&change.part) || change.with.contains(&track.found.part)
}

/// One matter from what a run found, what the past shows, or both. It is as old as the older of them, and as loud as the louder.
fn matter(
    track: Option<&FindingTrack>,
    change: Option<(DatedChange, IssueStatus)>,
    nights: &[Night],
    rule: &SeverityRule,
) -> Issue {
    let last = nights.len().saturating_sub(1);
    let by_change = change.as_ref().map(|(told, standing)| {
        // A part that joined tonight makes an old matter no newer, but it changed again.
        let is_news = told.latest == last && told.proved == last;
        let severity = rule.of_change(&told.change, standing);
        let due = match standing {
            IssueStatus::New => is_news && severity > Severity::Info,
            IssueStatus::Again { .. } => false,
            IssueStatus::Still { .. } => severity > Severity::Info && rule.is_due_again(nights, told.proved),
            IssueStatus::Gone { .. } => told.change.is_worse,
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
        change.as_ref().map(|(told, _)| told.proved),
    ];
    let first = first.into_iter().flatten().min().unwrap_or(last);
    let standing = match (
        track.map(|track| &track.standing),
        change.as_ref().map(|(_, standing)| standing),
    ) {
        (Some(a), Some(b)) => older(a, b).clone(),
        (Some(one), None) | (None, Some(one)) => one.clone(),
        (None, None) => IssueStatus::New,
    };
    let change = change.map(|(told, _)| told.change);
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
        sentence: format!("{}: {said}", describe::standing(&standing)),
        standing,
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

/// The standing of a matter of which one part is new and another is not.
fn older<'a>(a: &'a IssueStatus, b: &'a IssueStatus) -> &'a IssueStatus {
    let nights = |standing: &IssueStatus| match standing {
        IssueStatus::New => 1,
        IssueStatus::Again { .. } => 2,
        IssueStatus::Still { night } => 1 + night,
        IssueStatus::Gone { nights } | IssueStatus::Unknown { nights } => 1 + nights,
    };
    if nights(b) > nights(a) { b } else { a }
}

fn rank(standing: &IssueStatus) -> u8 {
    match standing {
        IssueStatus::New => 0,
        IssueStatus::Again { .. } => 1,
        IssueStatus::Still { .. } => 2,
        IssueStatus::Unknown { .. } => 3,
        IssueStatus::Gone { .. } => 4,
    }
}

fn summary(matters: &[Issue], course: &PartHistories, earlier: usize, unnamed: usize) -> String {
    let count = |wanted: fn(&Issue) -> bool| matters.iter().filter(|matter| wanted(matter)).count();
    let is_blip = |matter: &Issue| matter.severity == Severity::Info && matter.standing == IssueStatus::New;
    let counts = [
        (
            count(|m| m.severity > Severity::Info && m.standing == IssueStatus::New),
            "new",
        ),
        (
            count(|m| matches!(m.standing, IssueStatus::Again { .. })),
            "back again",
        ),
        (
            count(|m| matches!(m.standing, IssueStatus::Still { .. })),
            "still there",
        ),
        (
            count(|m| matches!(m.standing, IssueStatus::Unknown { .. })),
            "not measured tonight",
        ),
        (count(|m| matches!(m.standing, IssueStatus::Gone { .. })), "gone"),
        (
            matters.iter().filter(|matter| is_blip(matter)).count() + unnamed,
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
    match (course.compared, course.young) {
        (0, 0) => format!("{what}; no part was read"),
        (0, young) => format!("{what}; {young} readings have too short a past to be compared ({runs})"),
        (compared, 0) => format!("{what}; {compared} readings compared with {runs}"),
        (compared, young) => {
            format!("{what}; {compared} readings compared with {runs}, {young} have too short a past")
        }
    }
}
