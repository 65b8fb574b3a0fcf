//! One cycle of a burn-in: a run in a folder of its own, started or resumed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use super::context::BurnInContext;
use crate::error::CliError;
use crate::execution::connected_run::ConnectedRun;
use crate::execution::executor::{RunEnd, RunExecutor};
use crate::execution::space_for_samples;
use crate::run_clock::now;
use engine::measure::{Progress, RunFolder};
use judge::burn_in::{BurnInPhase, part_catalog};
use judge::findings::judge;
use plan::interleave::interleaved;
use plan::replan::LostParts;
use record::units::Nanos;
use record::{
    CounterDelta, EndReason, Event, FindingKind, Journal, Judgement, RankRecord, Recorded, Run, files,
    replace,
};

/// Counters of links that are also compared between cycles.
const BETWEEN_CYCLES: &[&str] = &["carrier_changes", "link_downed", "link_down_events_phy"];

/// Which cycle.
pub struct Cycle {
    /// Its number, from 1.
    pub number: u32,
    /// Seed of its patterns.
    pub seed: u64,
    /// Whether an earlier process started it.
    pub is_resumed: bool,
}

/// The outcome of a cycle.
pub struct CycleOutcome {
    /// Why it ended.
    pub reason: EndReason,
    /// Whether it had ended before this process started: then its end says nothing about the ranks of now.
    pub was_over: bool,
    /// Parts that no longer take part.
    pub lost: LostParts,
    /// Cells that were finished.
    pub cells: u32,
}

impl BurnInContext<'_> {
    /// Measures a cycle, judges it and writes its reports. An interrupted cycle gets no end, so that it can be resumed.
    pub(super) fn execute_cycle(
        &self,
        cycle: &Cycle,
        connected: &mut ConnectedRun,
        absent: &LostParts,
        earlier: &mut Vec<Event>,
        progress: &dyn Progress,
    ) -> Result<CycleOutcome, CliError> {
        let path = self.folder.cycle(cycle.number);
        let load_before = self.board.load();
        let ended = self.measure_cycle(cycle, &path, connected, absent, earlier, progress);
        self.board.stop_load();
        let (ended, was_over) = ended?;
        if ended.reason == EndReason::Interrupted && !was_over {
            return Ok(CycleOutcome {
                reason: ended.reason,
                was_over,
                lost: ended.lost,
                cells: 0,
            });
        }
        self.board.update(|status| status.doing = BurnInPhase::Judging);
        let recorded = Recorded::read(&path)?;
        let judgement = judge(&recorded);
        write_reports(&path, &recorded, &judgement)?;
        let known = part_catalog(&recorded.run, &judgement.coverage.links);
        self.folder.keep_known(&known)?;
        *earlier = last_link_counters(&recorded);
        let took = self.load_before_resume(cycle) + self.board.load().since(load_before);
        self.write(Journal::CycleEnded {
            cycle: cycle.number,
            ended: ended.reason,
            exit_code: judgement.exit_code,
            cells: judgement.coverage.measured,
            samples: recorded.samples.len() as u64,
            took_ns: took,
        })?;
        Ok(CycleOutcome {
            reason: ended.reason,
            was_over,
            lost: ended.lost,
            cells: judgement.coverage.measured,
        })
    }

    /// How the cycle ended, and whether it had ended before this process started.
    fn measure_cycle(
        &self,
        cycle: &Cycle,
        path: &Path,
        connected: &mut ConnectedRun,
        absent: &LostParts,
        earlier: &[Event],
        progress: &dyn Progress,
    ) -> Result<(RunEnd, bool), CliError> {
        let over = |reason| RunEnd {
            reason,
            lost: absent.clone(),
        };
        let resumed = match cycle.is_resumed {
            true => self.unfinished(path, connected, progress)?,
            false => Resumed::Nothing,
        };
        let resumed = match resumed {
            Resumed::Ended(reason) => return Ok((over(reason), true)),
            Resumed::Part(recorded) => Some(recorded),
            Resumed::Nothing => None,
        };
        let inventory = connected.inventory(self.flags, progress)?;
        let (mut plan, switches) = connected.plan(self.suite, self.flags, progress)?;
        let folder = match &resumed {
            Some(_) => RunFolder::existing(path),
            None => RunFolder::create(path)?,
        };
        folder.check_space(space_for_samples(&plan))?;
        let run = match &resumed {
            Some(recorded) => recorded.run.clone(),
            None => {
                connected.write_inputs(&folder, inventory.as_ref())?;
                Run {
                    pattern_seed: Some(cycle.seed),
                    ..connected.run_record(self.suite, &plan, self.flags)
                }
            }
        };
        plan.cells = interleaved(&plan.cells, cycle.number - 1);
        progress.plan(plan.cells.len());
        let left = Duration::from(self.request.wanted_ns.since(self.board.load()));
        let on_loss = |lost: &LostParts, reason: &str| self.record_loss(cycle.number, lost, reason);
        let executor = RunExecutor {
            plan: &plan,
            run: &run,
            folder: &folder,
            until: Some(Instant::now() + left),
            keep_going: self.flags.keep_going,
            known: &connected.choices.known,
            absent: absent.clone(),
            resumed: resumed.as_deref(),
            earlier,
            resumable: true,
            on_loss: &on_loss,
        };
        self.board.update(|status| status.doing = BurnInPhase::Measuring);
        self.board.start_load();
        let ended = executor.measure(&mut connected.session, progress, switches)?;
        Ok((ended, false))
    }

    /// What there is of a cycle that an earlier process started.
    fn unfinished(
        &self,
        path: &Path,
        connected: &ConnectedRun,
        progress: &dyn Progress,
    ) -> Result<Resumed, CliError> {
        let restart = |why: &str| -> Result<Resumed, CliError> {
            progress.note(&format!("the interrupted cycle is started again: {why}"));
            match std::fs::remove_dir_all(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(CliError::system("cannot start the cycle again")(error))
                }
                _ => Ok(Resumed::Nothing),
            }
        };
        if !path.join(files::RUN).exists() {
            return restart("nothing of it was recorded");
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
            return restart("nothing of it was measured");
        }
        if let Some(why) = fabric_change(&recorded.run, connected) {
            progress.note(&format!("the interrupted cycle is not resumed: {why}"));
            let mut sink = RunFolder::existing(path).resume()?;
            let reason = EndReason::Interrupted;
            sink.write(&Event::End { reason, at: now() })?;
            sink.close()?;
            return Ok(Resumed::Ended(reason));
        }
        Ok(Resumed::Part(Box::new(recorded)))
    }

    /// Time under load of a resumed cycle in earlier processes.
    fn load_before_resume(&self, cycle: &Cycle) -> Nanos {
        match cycle.is_resumed {
            true => self.load_at_start.since(self.load_before_resumed_cycle),
            false => Nanos(0),
        }
    }
}

/// What there is of a cycle that an earlier process started.
enum Resumed {
    /// Nothing that could be resumed.
    Nothing,
    /// It had ended, but was not judged.
    Ended(EndReason),
    /// Some of its cells.
    Part(Box<Recorded>),
}

/// How the connected ranks differ from those of a recorded run; none when they can resume it.
fn fabric_change(run: &Run, connected: &ConnectedRun) -> Option<String> {
    let fabric = connected.session.fabric();
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
        ([], []) => "ranks or rails have changed places".to_string(),
        (missing, []) => format!("{} did not rejoin", missing.join(", ")),
        (_, new) => format!("{} took no part in it", new.join(", ")),
    })
}

/// Writes the reports of a cycle: all of them when there are findings, else only what the decision needs.
fn write_reports(path: &Path, recorded: &Recorded, judgement: &Judgement) -> Result<(), CliError> {
    let failed = || CliError::system("cannot write the cycle's reports");
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

/// The last values of link counters, so that changes until the next cycle are seen.
pub fn last_link_counters(recorded: &Recorded) -> Vec<Event> {
    let mut last: BTreeMap<(u32, &str, &str), &CounterDelta> = BTreeMap::new();
    for event in &recorded.events {
        if let Event::Counter(counter) = event
            && BETWEEN_CYCLES.contains(&counter.name.as_str())
            && counter.after.is_some()
        {
            last.insert((counter.rank, &counter.rail, &counter.name), counter);
        }
    }
    let as_baseline = |counter: &&CounterDelta| {
        Event::Counter(CounterDelta {
            round: 0,
            before: counter.after,
            ns: None,
            ..(*counter).clone()
        })
    };
    last.values().map(as_baseline).collect()
}
