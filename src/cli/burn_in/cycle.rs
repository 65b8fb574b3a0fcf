//! One cycle of a burn-in: an ordinary run in a folder of its own, begun, or gone on with where it was cut off.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use super::Burning;
use crate::cli::CliError;
use crate::cli::conduct::room_for;
use crate::cli::gathering::Gathering;
use crate::cli::story::{Ended, Story};
use engine::measure::{Progress, RunFolder};
use judge::burn_in::{Doing, known};
use judge::findings::judge;
use plan::interleave::interleaved;
use plan::replan::LostParts;
use record::units::Nanos;
use record::{
    CounterDelta, EndReason, Event, FindingKind, Journal, Judgement, RankRecord, Recorded, Run, files,
    replace,
};
use report;

/// Counters of links whose movement between cycles counts, too.
const BETWEEN_CYCLES: &[&str] = &["carrier_changes", "link_downed", "link_down_events_phy"];

/// Which cycle, and with what.
pub struct Cycle {
    /// Its number, from 1.
    pub number: u32,
    /// Seed of its patterns.
    pub seed: u64,
    /// Whether it was begun before.
    pub is_resumed: bool,
}

/// What a cycle came to.
pub struct Outcome {
    /// Why it ended.
    pub reason: EndReason,
    /// Whether it had ended before this process began: then its end says nothing about who is there now.
    pub was_over: bool,
    /// What takes no part any more.
    pub lost: LostParts,
    /// Cells measured to their end.
    pub cells: u32,
}

impl Burning<'_> {
    /// Measures a cycle, judges it and writes it down. A cycle that was interrupted has no end: it can be gone on with.
    pub(super) fn cycle(
        &self,
        cycle: &Cycle,
        gathering: &mut Gathering,
        absent: &LostParts,
        earlier: &mut Vec<Event>,
        progress: &dyn Progress,
    ) -> Result<Outcome, CliError> {
        let path = self.folder.cycle(cycle.number);
        let load_before = self.board.load();
        let ended = self.measured(cycle, &path, gathering, absent, earlier, progress);
        self.board.load_ends();
        let (ended, was_over) = ended?;
        if ended.reason == EndReason::Interrupted && !was_over {
            return Ok(Outcome {
                reason: ended.reason,
                was_over,
                lost: ended.lost,
                cells: 0,
            });
        }
        self.board.note(|status| status.doing = Doing::Judging);
        let recorded = Recorded::read(&path)?;
        let judgement = judge(&recorded);
        write_down(&path, &recorded, &judgement)?;
        let known = known(&recorded.run, &judgement.coverage.links);
        self.folder.keep_known(&known)?;
        *earlier = last_of_links(&recorded);
        let took = self.taken_before(cycle) + self.board.load().since(load_before);
        self.write(Journal::CycleEnded {
            cycle: cycle.number,
            ended: ended.reason,
            exit_code: judgement.exit_code,
            cells: judgement.coverage.measured,
            samples: recorded.samples.len() as u64,
            took_ns: took,
        })?;
        Ok(Outcome {
            reason: ended.reason,
            was_over,
            lost: ended.lost,
            cells: judgement.coverage.measured,
        })
    }

    /// How it ended, and whether it had before.
    fn measured(
        &self,
        cycle: &Cycle,
        path: &Path,
        gathering: &mut Gathering,
        absent: &LostParts,
        earlier: &[Event],
        progress: &dyn Progress,
    ) -> Result<(Ended, bool), CliError> {
        let over = |reason| Ended {
            reason,
            lost: absent.clone(),
        };
        let resumed = match cycle.is_resumed {
            true => self.cut_off(path, gathering, progress)?,
            false => Resumed::Nothing,
        };
        let resumed = match resumed {
            Resumed::Ended(reason) => return Ok((over(reason), true)),
            Resumed::InventoryPart(recorded) => Some(recorded),
            Resumed::Nothing => None,
        };
        let inventory = gathering.inventory(self.flags, progress)?;
        let (mut plan, switches) = gathering.plan(self.suite, self.flags, progress)?;
        let folder = match &resumed {
            Some(_) => RunFolder::existing(path),
            None => RunFolder::create(path)?,
        };
        folder.check_space(room_for(&plan))?;
        let run = match &resumed {
            Some(recorded) => recorded.run.clone(),
            None => {
                gathering.keep(&folder, inventory.as_ref())?;
                Run {
                    pattern_seed: Some(cycle.seed),
                    ..gathering.record(self.suite, &plan, self.flags)
                }
            }
        };
        plan.cells = interleaved(&plan.cells, cycle.number - 1);
        progress.plan(plan.cells.len());
        let left = Duration::from(self.asked.wanted_ns.since(self.board.load()));
        let on_loss = |lost: &LostParts, reason: &str| self.lost(cycle.number, lost, reason);
        let story = Story {
            plan: &plan,
            run: &run,
            folder: &folder,
            until: Some(Instant::now() + left),
            keep_going: self.flags.keep_going,
            known: &gathering.choices.known,
            absent: absent.clone(),
            resumed: resumed.as_deref(),
            earlier,
            resumable: true,
            on_loss: &on_loss,
        };
        self.board.note(|status| status.doing = Doing::Measuring);
        self.board.load_begins();
        let ended = story.measure(&mut gathering.session, progress, switches)?;
        Ok((ended, false))
    }

    /// What there is of a cycle that was begun before.
    fn cut_off(
        &self,
        path: &Path,
        gathering: &Gathering,
        progress: &dyn Progress,
    ) -> Result<Resumed, CliError> {
        let begin_anew = |why: &str| -> Result<Resumed, CliError> {
            progress.note(&format!("the cycle that was cut off is begun anew: {why}"));
            match std::fs::remove_dir_all(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(CliError::system("cannot begin the cycle anew")(error))
                }
                _ => Ok(Resumed::Nothing),
            }
        };
        if !path.join(files::RUN).exists() {
            return begin_anew("nothing of it was recorded");
        }
        let recorded = Recorded::read(path)?;
        let end = recorded.events.iter().find_map(|event| match event {
            Event::End { reason, .. } => Some(*reason),
            _ => None,
        });
        if let Some(reason) = end {
            return Ok(Resumed::Ended(reason));
        }
        if recorded.samples.is_empty() {
            return begin_anew("nothing of it was measured");
        }
        if let Some(why) = other_fabric(&recorded.run, gathering) {
            progress.note(&format!("the cycle that was cut off stays as it is: {why}"));
            let mut sink = RunFolder::existing(path).resume()?;
            let reason = EndReason::Interrupted;
            sink.write(&Event::End {
                reason,
                at: crate::cli::conduct::now(),
            })?;
            sink.close()?;
            return Ok(Resumed::Ended(reason));
        }
        Ok(Resumed::InventoryPart(Box::new(recorded)))
    }

    /// Time under load of a cycle before it was cut off.
    fn taken_before(&self, cycle: &Cycle) -> Nanos {
        match cycle.is_resumed {
            true => self.load_at_start.since(self.load_when_cut_off_began),
            false => Nanos(0),
        }
    }
}

/// What there is of a cycle that was begun before.
enum Resumed {
    /// Nothing that could be gone on with.
    Nothing,
    /// It had ended, and was not judged yet.
    Ended(EndReason),
    /// Some of its cells.
    InventoryPart(Box<Recorded>),
}

/// How the ranks that have met differ from those of a recorded run; none when it can be gone on with by them.
fn other_fabric(run: &Run, gathering: &Gathering) -> Option<String> {
    let fabric = gathering.session.fabric();
    let is_alike = |before: &RankRecord, now: &RankRecord| {
        let ends = |record: &RankRecord| -> Vec<(String, String)> {
            let ends = record.rails.iter();
            ends.map(|end| (end.rail.clone(), end.address.clone())).collect()
        };
        before.rank == now.rank && before.host == now.host && ends(before) == ends(now)
    };
    let mut both = run.ranks.iter().zip(&fabric.ranks);
    if run.ranks.len() == fabric.ranks.len() && both.all(|(before, now)| is_alike(before, now)) {
        return None;
    }
    let hosts = |ranks: &[RankRecord]| -> BTreeSet<String> {
        ranks.iter().map(|record| record.host.clone()).collect()
    };
    let (before, now) = (hosts(&run.ranks), hosts(&fabric.ranks));
    let missing: Vec<String> = before.difference(&now).cloned().collect();
    let new: Vec<String> = now.difference(&before).cloned().collect();
    Some(match (missing.as_slice(), new.as_slice()) {
        ([], []) => "ranks or rails are placed otherwise now".to_string(),
        (missing, []) => format!("{} did not come back", missing.join(", ")),
        (_, new) => format!("{} were not part of it", new.join(", ")),
    })
}

/// Writes the judgement of a cycle: all reports when something was found, else only what later judgement needs.
fn write_down(path: &Path, recorded: &Recorded, judgement: &Judgement) -> Result<(), CliError> {
    let failed = || CliError::system("cannot write the cycle down");
    let counts = |kind: FindingKind| kind != FindingKind::IncompleteCoverage;
    if judgement.findings.iter().any(|finding| counts(finding.kind)) {
        report::write_all(path, recorded, judgement).map_err(failed())?;
    } else {
        for name in [files::FINDINGS, files::READINGS] {
            if let Some(writer) = report::writer_of(name) {
                let text = writer.render(recorded, judgement).map_err(failed())?;
                replace(&path.join(name), text.as_bytes()).map_err(failed())?;
            }
        }
    }
    Ok(())
}

/// The last readings of counters of links, so that what they do until the next cycle begins is seen.
pub fn last_of_links(recorded: &Recorded) -> Vec<Event> {
    let mut last: BTreeMap<(u32, &str, &str), &CounterDelta> = BTreeMap::new();
    for event in &recorded.events {
        if let Event::Counter(counter) = event
            && BETWEEN_CYCLES.contains(&counter.name.as_str())
            && counter.after.is_some()
        {
            last.insert((counter.rank, &counter.rail, &counter.name), counter);
        }
    }
    let again = |counter: &&CounterDelta| {
        Event::Counter(CounterDelta {
            round: 0,
            before: counter.after,
            ns: None,
            ..(*counter).clone()
        })
    };
    last.values().map(again).collect()
}
