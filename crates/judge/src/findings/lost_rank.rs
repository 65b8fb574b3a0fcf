//! A rank vanished, or all ranks wait: which rank was lost, which ranks waited for which, and where the waits end.

use std::collections::{BTreeMap, BTreeSet};

use super::analysis::RunAnalysis;
use super::detector::Detector;
use super::repeat;
use record::text;
use record::{DEVICE_GONE, EndReason, Event, Finding, FindingKind, LossCause, Lost, Place, Stalled};

/// One finding per lost rank; one for a hang in which none is known to be lost.
pub(super) struct LostRank;

impl Detector for LostRank {
    fn question(&self) -> &'static str {
        "Did a rank vanish, or did the ranks wait for each other for ever?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        let events = &analysis.recorded.events;
        let mut stalled: Vec<&Stalled> = Vec::new();
        let mut lost: BTreeMap<u32, &Lost> = BTreeMap::new();
        let mut ended_lost = false;
        for event in events {
            match event {
                Event::Stalled(stall) => stalled.push(stall),
                Event::Lost(loss) => _ = lost.entry(loss.rank).or_insert(loss),
                Event::End { reason, .. } => ended_lost = *reason == EndReason::Lost,
                _ => {}
            }
        }
        if !lost.is_empty() {
            return lost
                .values()
                .map(|loss| one_loss(analysis, loss, &stalled))
                .collect();
        }
        // Where a rail went silent all ranks wait for each other; the rail is the fault.
        let is_explained = !analysis.silent_rails.is_empty();
        match is_explained || stalled.is_empty() && !ended_lost {
            true => Vec::new(),
            false => vec![hang(analysis, &stalled)],
        }
    }
}

fn one_loss(analysis: &RunAnalysis<'_>, lost: &Lost, stalled: &[&Stalled]) -> Finding {
    let at = match lost.cell {
        Some(cell) => format!(
            " {}, {}",
            iteration(analysis, cell, lost.rank),
            describe(analysis, cell)
        ),
        None => " between cells".to_string(),
    };
    let waits = waits(stalled, Some(lost.rank));
    let sentence = format!(
        "rank {} ({}) lost{at}: {}{}",
        lost.rank,
        lost.host,
        lost.reason,
        waits.first().map(|wait| format!("; {wait}")).unwrap_or_default()
    );
    let host = match lost.host.is_empty() {
        true => analysis.hosts(&[lost.rank]),
        false => vec![lost.host.clone()],
    };
    let evidence = std::iter::once(format!("last task it was given: {}", lost.doing)).chain(waits);
    finding(analysis, host, vec![lost.rank], None)
        .with_sentence(sentence)
        .with_evidence(evidence.collect())
        .with_cells(lost.cell)
        .with_next_step(next_step(lost))
}

/// Where to look, by what the loss points to.
fn next_step(lost: &Lost) -> String {
    let (host, rank) = (&lost.host, lost.rank);
    match lost.cause {
        LossCause::Ended => format!(
            "look on {host} for why the process of rank {rank} ended: kernel log \
             (out of memory, device error), scheduler, reboot"
        ),
        LossCause::Frozen => format!(
            "look on {host} at the process of rank {rank}: stopped by a debugger or \
             a signal, stuck in the kernel (state D), or the machine is out of \
             memory"
        ),
        LossCause::ManagementCut => {
            format!("check the management link of {host}: cable, switch port, address, filters")
        }
        LossCause::Unreachable => {
            format!("check whether {host} has power, has crashed or is cut off; then its console")
        }
        LossCause::Unclear => {
            format!(
                "check whether {host} is up and reachable over the management network, \
                 then the process of rank {rank}"
            )
        }
    }
}

fn hang(analysis: &RunAnalysis<'_>, stalled: &[&Stalled]) -> Finding {
    let cells: BTreeSet<u32> = stalled.iter().map(|stall| stall.cell).collect();
    let broken = broken(stalled);
    let rail = broken.and_then(|stall| rail_of(analysis, stall));
    let cause = match broken {
        Some(stall) => what_broke(analysis, stall),
        None => waited_for(stalled),
    };
    let (sentence, ranks) = match cause {
        HangCause::Broken(ranks, what) => (what, ranks),
        HangCause::Rank(rank) => {
            let name = analysis.run().rank_name(rank);
            (
                format!("hang: all ranks waited for {name}, directly or through others"),
                vec![rank],
            )
        }
        HangCause::Circle(ranks) => (
            format!("hang: {} waited for each other in a circle", text::ranks(&ranks)),
            ranks,
        ),
        HangCause::Unclear(ranks) if ranks.is_empty() => (
            "a rank was lost or a step passed its deadline; the record does not say which".into(),
            ranks,
        ),
        HangCause::Unclear(ranks) => (format!("hang: the waits end at {}", text::ranks(&ranks)), ranks),
    };
    let waits = waits(stalled, None);
    let at = cells
        .first()
        .map(|cell| format!(" in {}", describe(analysis, *cell)))
        .unwrap_or_default();
    let sentence = [
        vec![format!("{sentence}{at}")],
        waits.iter().take(2).cloned().collect(),
    ]
    .concat()
    .join("; ");
    let next_step = match ranks.as_slice() {
        [] => "repeat with a shorter deadline and watch which rank stops answering".into(),
        ranks if broken.is_some() => format!(
            "look at {} first: kernel log, link and driver messages (`rdma link`, \
             `ip -s link`); then at the path between them",
            text::ranks(ranks)
        ),
        ranks => format!(
            "look at {} first: is {} alive, what does its stack show, can it reach the ranks it talks to",
            text::ranks(ranks),
            match ranks.len() {
                1 => "its process",
                _ => "every process",
            }
        ),
    };
    finding(analysis, analysis.hosts(&ranks), ranks, rail)
        .with_sentence(sentence)
        .with_evidence(waits)
        .with_cells(cells)
        .with_next_step(next_step)
}

fn finding(analysis: &RunAnalysis<'_>, hosts: Vec<String>, ranks: Vec<u32>, rail: Option<String>) -> Finding {
    let place = Place {
        hosts,
        ranks,
        rail,
        ..Place::default()
    };
    Finding::new(FindingKind::LostRank, place)
        .with_rule("lost: a rank stopped answering, or a step passed its deadline")
        .ambiguous_with(vec!["the network between it and the ranks that waited".into()])
        .with_repeat(repeat::command(analysis.run(), &[]))
}

fn describe(analysis: &RunAnalysis<'_>, cell: u32) -> String {
    analysis
        .cell(cell)
        .map_or(format!("cell {cell}"), |cell| cell.describe())
}

/// The iteration a rank was in: the one after its last sample of that cell.
fn iteration(analysis: &RunAnalysis<'_>, cell: u32, rank: u32) -> String {
    let samples = analysis
        .recorded
        .samples
        .iter()
        .filter(|sample| (sample.cell, sample.rank) == (cell, rank));
    match samples.map(|sample| (sample.round, sample.iter)).max() {
        Some((round, iter)) => format!("after iteration {iter} of round {round}"),
        None => "before its first recorded iteration".to_string(),
    }
}

/// `rank 1 waited for rank 2 in step 3 for 2.10 s`: waits for `lost` first, then the longest.
fn waits(stalled: &[&Stalled], lost: Option<u32>) -> Vec<String> {
    let mut stalled = stalled.to_vec();
    stalled.sort_by_key(|stall| {
        let waits_for_another = lost.is_some() && stall.waiting_for != lost;
        (waits_for_another, std::cmp::Reverse(stall.waited_ns), stall.rank)
    });
    let wait = |stall: &Stalled| match stall.waiting_for {
        Some(rank) => format!("waited for rank {rank}"),
        None => "was".to_string(),
    };
    let line = |stall: &&Stalled| {
        format!(
            "rank {} {} in {} for {}",
            stall.rank,
            wait(stall),
            stall.step,
            stall.waited_ns
        )
    };
    stalled.iter().map(line).collect()
}

/// Where following "waits for" leads in the end.
#[derive(Debug, PartialEq)]
enum HangCause {
    /// A connection between these ranks broke; the text says how.
    Broken(Vec<u32>, String),
    Rank(u32),
    Circle(Vec<u32>),
    Unclear(Vec<u32>),
}

/// Where a connection broke, if one did: all others waited because of that.
fn broken<'s>(stalled: &[&'s Stalled]) -> Option<&'s Stalled> {
    stalled.iter().copied().find(|stall| stall.broke.is_some())
}

/// Between which ranks, or at which end: a device that is gone concerns its own host only.
fn what_broke(analysis: &RunAnalysis<'_>, stall: &Stalled) -> HangCause {
    let what = stall.broke.as_deref().unwrap_or_default();
    if what.contains(DEVICE_GONE) {
        let host = analysis.run().rank_name(stall.rank);
        let sentence = format!("the RDMA device of {host} is gone: {what}");
        return HangCause::Broken(vec![stall.rank], sentence);
    }
    let ranks = [Some(stall.rank), stall.waiting_for];
    let ranks = ranks.into_iter().flatten().collect();
    HangCause::Broken(ranks, format!("a connection broke: {what}"))
}

/// The rail a broken connection was on: errors begin with it.
fn rail_of(analysis: &RunAnalysis<'_>, stall: &Stalled) -> Option<String> {
    let what = stall.broke.as_deref()?;
    let mut rails = analysis.cell(stall.cell)?.rails.iter();
    let rail = rails.find(|rail| what.starts_with(&format!("{rail} ")))?;
    Some(rail.clone())
}

/// Follows every stalled rank to one that waits for no other.
fn waited_for(stalled: &[&Stalled]) -> HangCause {
    let next: BTreeMap<u32, u32> = stalled
        .iter()
        .filter_map(|stall| Some((stall.rank, stall.waiting_for?)))
        .collect();
    let mut ends = BTreeSet::new();
    let mut circle = BTreeSet::new();
    for start in next.keys() {
        let (mut at, mut passed) = (*start, BTreeSet::new());
        while let Some(after) = next.get(&at).filter(|_| passed.insert(at)) {
            at = *after;
        }
        match next.contains_key(&at) {
            true => _ = circle.insert(at),
            false => _ = ends.insert(at),
        }
    }
    // A rank that a rank on the circle waits for is on it too.
    let mut on_circle = circle.clone();
    for start in &circle {
        let mut at = *start;
        while let Some(after) = next.get(&at).filter(|after| on_circle.insert(**after)) {
            at = *after;
        }
    }
    match (
        ends.into_iter().collect::<Vec<_>>().as_slice(),
        on_circle.is_empty(),
    ) {
        ([end], true) => HangCause::Rank(*end),
        ([], false) => HangCause::Circle(on_circle.into_iter().collect()),
        (ends, _) => HangCause::Unclear(ends.iter().copied().chain(on_circle).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::units::Nanos;

    fn cause(waits: &[(u32, Option<u32>)]) -> HangCause {
        let stalled: Vec<Stalled> = waits
            .iter()
            .map(|(rank, waiting_for)| Stalled {
                rank: *rank,
                cell: 0,
                step: "step 1".into(),
                waiting_for: *waiting_for,
                waited_ns: Nanos(1),
                stuck: Vec::new(),
                no_carrier: Vec::new(),
                broke: None,
            })
            .collect();
        waited_for(&stalled.iter().collect::<Vec<_>>())
    }

    #[test]
    fn the_rank_everybody_waits_for_is_found_through_others() {
        assert_eq!(
            cause(&[(0, Some(3)), (1, Some(0)), (2, Some(1))]),
            HangCause::Rank(3)
        );
        assert_eq!(cause(&[(0, Some(1)), (1, None)]), HangCause::Rank(1));
        assert_eq!(
            cause(&[(0, Some(1)), (1, Some(2)), (2, Some(0))]),
            HangCause::Circle(vec![0, 1, 2])
        );
        assert_eq!(
            cause(&[(5, Some(0)), (0, Some(1)), (1, Some(0))]),
            HangCause::Circle(vec![0, 1])
        );
        assert_eq!(cause(&[(0, Some(0))]), HangCause::Circle(vec![0]));
        assert_eq!(
            cause(&[(0, Some(4)), (1, Some(5))]),
            HangCause::Unclear(vec![4, 5])
        );
        assert_eq!(cause(&[(0, None)]), HangCause::Unclear(vec![]));
    }
}
