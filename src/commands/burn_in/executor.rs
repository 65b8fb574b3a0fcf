//! The cycles of a burn-in, one after the other until the time is over.

use std::collections::BTreeSet;
use std::time::Duration;

use super::certificate::decide;
use super::context::BurnInContext;
use super::cycle::{Cycle, last_link_counters};
use crate::error::CliError;
use crate::execution::connected_run::ConnectedRun;
use crate::flags::inventory::{InventoryInputs, InventorySources};
use crate::launch::role::Role;
use crate::run_clock::RunClock;
use crate::signals::interrupt_flag;
use engine::device::heap;
use engine::measure::Progress;
use judge::burn_in::{BurnInProgress, condense};
use judge::findings::judge;
use plan::replan::LostParts;
use probe::host;
use record::{EndReason, Event, FindingKind, Journal, Recorded, Ruling, files};

/// Pause before checking again whether a host rejoined, when nothing can be measured without it.
const REJOIN_POLL: Duration = Duration::from_secs(2);
/// Cycles in a row without a measured cell before the burn-in gives up.
const MAX_EMPTY_CYCLES: u32 = 150;
/// Cycles in a row that end with an unidentified loss before the burn-in gives up.
const MAX_UNCLEAR_LOSSES: u32 = 10;
/// Incidents listed in the status file.
const MAX_INCIDENTS: usize = 20;

impl BurnInContext<'_> {
    /// Connects the ranks and runs cycle after cycle until the time is over. Returns callers that prove that another world used the
    /// same token.
    pub(super) fn execute(
        &self,
        role: Role,
        so_far: BurnInProgress,
        progress: &dyn Progress,
    ) -> Result<Vec<String>, CliError> {
        let inputs = InventoryInputs::read(&InventorySources::of(
            &self.suite.run,
            self.flags.topology.as_deref(),
        ))?;
        let choices = self.flags.choices(self.suite)?;
        let interrupted = interrupt_flag()?;
        let clock = RunClock::start(&self.suite.run);
        let mut connected = ConnectedRun::connect(
            self.suite,
            role,
            self.flags,
            &choices,
            inputs,
            clock,
            interrupted,
            progress,
        )?;
        let result = self.run_cycles(&mut connected, &so_far, progress);
        let has_lost = !connected.session.absent().is_empty();
        let disconnected = connected.disconnect();
        let reason = result?;
        self.write(Journal::Ended { reason })?;
        self.board.update(|status| status.ended = Some(reason));
        if let Some(mpi) = disconnected.mpi {
            mpi.leave(!has_lost);
        }
        Ok(disconnected.separate_worlds)
    }

    fn run_cycles(
        &self,
        connected: &mut ConnectedRun,
        so_far: &BurnInProgress,
        progress: &dyn Progress,
    ) -> Result<EndReason, CliError> {
        let hosts = connected.session.fabric().hosts.iter();
        let hosts: Vec<String> = hosts.map(|host| host.name.clone()).collect();
        self.record_connected(&hosts, so_far)?;
        let mut next = match (so_far.cut_off, so_far.cut_off_seed) {
            (Some(number), Some(seed)) => Cycle {
                number,
                seed,
                is_resumed: true,
            },
            _ => self.new_cycle(so_far.next_cycle()),
        };
        let mut earlier = self.last_counters(so_far);
        let (mut absent, mut empty, mut unclear) = (LostParts::default(), 0, 0);
        while self.board.load() < self.request.wanted_ns {
            let is_any_back = self.readmit(connected, next.number, &mut absent, progress)?;
            if is_any_back {
                connected.rediscover_paths(self.suite, progress)?;
            }
            if !next.is_resumed {
                self.write(Journal::CycleBegan {
                    cycle: next.number,
                    seed: next.seed,
                })?;
            }
            self.board.update(|status| {
                (status.cycle, status.cells, status.cells_done) = (next.number, 0, 0);
            });
            let outcome = self.execute_cycle(&next, connected, &absent, &mut earlier, progress)?;
            if outcome.reason == EndReason::Interrupted && !outcome.was_over {
                return Ok(EndReason::Interrupted);
            }
            let is_lost = outcome.reason == EndReason::Lost && !outcome.was_over;
            if is_lost && (!self.flags.keep_going || outcome.lost.hosts.contains(&host::here().name)) {
                return Ok(EndReason::Lost);
            }
            let is_identified = outcome.lost.hosts != absent.hosts || !outcome.lost.rails.is_empty();
            absent.hosts = outcome.lost.hosts;
            unclear = match is_lost && !is_identified {
                true => unclear + 1,
                false => 0,
            };
            if unclear > MAX_UNCLEAR_LOSSES {
                progress.note("giving up: parts are lost in cycle after cycle, and none can be identified");
                return Ok(EndReason::Lost);
            }
            if unclear > 0 {
                self.drop_silent_hosts(next.number, connected, &mut absent)?;
            }
            self.update_decision(progress)?;
            empty = if outcome.cells == 0 { empty + 1 } else { 0 };
            if empty > MAX_EMPTY_CYCLES {
                progress.note("giving up: nothing could be measured for too long");
                return Ok(EndReason::Lost);
            }
            if empty > 0 {
                std::thread::sleep(REJOIN_POLL);
            }
            heap::give_back();
            // Clocks drift over hours.
            connected.session.compare_clocks()?;
            next = self.new_cycle(next.number + 1);
        }
        Ok(EndReason::Finished)
    }

    /// A new cycle with its own data pattern.
    fn new_cycle(&self, number: u32) -> Cycle {
        let step = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Cycle {
            number,
            seed: self.request.seed.wrapping_add(step),
            is_resumed: false,
        }
    }

    fn record_connected(&self, hosts: &[String], so_far: &BurnInProgress) -> Result<(), CliError> {
        let kept = so_far
            .cut_off
            .map(|cycle| Recorded::read(&self.folder.cycle(cycle)));
        let kept = kept
            .and_then(Result::ok)
            .map_or(0, |recorded| recorded.samples.len());
        self.board.update(|status| {
            status.hosts = hosts.to_vec();
            status.cycles_done = so_far.finished.len() as u32;
        });
        self.write(Journal::Met {
            hosts: hosts.to_vec(),
            resumes: so_far.cut_off,
            samples_kept: kept as u64,
        })
    }

    /// Readmits hosts that rejoined; whether there were any.
    fn readmit(
        &self,
        connected: &mut ConnectedRun,
        cycle: u32,
        absent: &mut LostParts,
        progress: &dyn Progress,
    ) -> Result<bool, CliError> {
        let Some(rendezvous) = connected.rendezvous.as_ref().filter(|_| !absent.hosts.is_empty()) else {
            return Ok(false);
        };
        let readmission = connected.session.rejoin(rendezvous)?;
        let fabric = connected.session.fabric();
        let host_of = |rank: u32| fabric.rank(rank).map(|record| record.host.clone());
        let back: BTreeSet<String> = readmission
            .rejoined
            .iter()
            .filter_map(|rank| host_of(*rank))
            .collect();
        for (rank, reason) in &readmission.refused {
            let hosts: Vec<String> = host_of(*rank).into_iter().collect();
            progress.note(&format!("{} is not readmitted: {reason}", hosts.join(", ")));
            let reason = reason.clone();
            self.write(Journal::Refused { hosts, reason })?;
        }
        let is_any_back = !back.is_empty();
        if is_any_back {
            absent.hosts.retain(|host| !back.contains(host));
            let hosts: Vec<String> = back.into_iter().collect();
            progress.note(&format!("{} rejoined", hosts.join(", ")));
            self.write(Journal::Returned { cycle, hosts })?;
        }
        let lost: Vec<String> = absent.hosts.iter().cloned().collect();
        self.board.update(|status| status.lost = lost);
        Ok(is_any_back)
    }

    /// After a loss that could not be identified: hosts that do not answer now are lost, and the others start over.
    fn drop_silent_hosts(
        &self,
        cycle: u32,
        connected: &mut ConnectedRun,
        absent: &mut LostParts,
    ) -> Result<(), CliError> {
        let left_out = connected.session.continue_without(&[])?.clone();
        let ranks = connected.session.fabric().ranks.iter();
        let hosts = ranks.filter(|record| left_out.contains(&record.rank));
        let hosts: BTreeSet<String> = hosts.map(|record| record.host.clone()).collect();
        let new = LostParts {
            hosts: hosts.difference(&absent.hosts).cloned().collect(),
            ..LostParts::default()
        };
        if new.hosts.is_empty() {
            return Ok(());
        }
        let theirs = new.ranks(&connected.session.fabric().ranks);
        connected.session.continue_without(&theirs)?;
        absent.hosts.extend(hosts);
        self.record_loss(cycle, &new, "it no longer answers")
    }

    /// Updates the decision on all cycles so far and shows new incidents; then condenses old cycles.
    fn update_decision(&self, progress: &dyn Progress) -> Result<(), CliError> {
        let certificate = decide(&self.folder, &self.request, &mut self.ledger.borrow_mut())?;
        let counting = certificate.incidents.iter().filter(|incident| incident.counts);
        let sentences: Vec<String> = counting.map(|incident| incident.sentence.clone()).collect();
        let all = [&certificate.nodes, &certificate.links, &certificate.gpus];
        let rejected = all.into_iter().flatten();
        let rejected = rejected.filter(|part| part.ruling == Ruling::Reject).count();
        self.board.update(|status| {
            for sentence in sentences
                .iter()
                .filter(|sentence| !status.incidents.contains(sentence))
            {
                progress.note(sentence);
            }
            status.cycles_done = certificate.cycles;
            status.ruling = Some(certificate.ruling);
            status.rejected = rejected as u32;
            status.incidents = sentences.iter().take(MAX_INCIDENTS).cloned().collect();
        });
        self.condense_old_cycles()
    }

    /// Condenses finished cycles that are older than the window of raw samples.
    fn condense_old_cycles(&self) -> Result<(), CliError> {
        let so_far = BurnInProgress::of(&self.folder.read_journal()?);
        let window = self.request.criteria.raw_cycles.value as usize;
        let old = so_far.finished.len().saturating_sub(window);
        let old = so_far.finished[..old].iter().map(|(cycle, _)| *cycle);
        for cycle in old.filter(|cycle| !so_far.condensed.contains(cycle)) {
            let folder = self.folder.cycle(cycle);
            if !folder.join(files::RUN).exists() {
                continue;
            }
            let recorded = Recorded::read(&folder)?;
            let failed = CliError::system(format!("cannot condense cycle {cycle}"));
            let done = condense(&folder, &recorded, &cells_of_findings(&recorded)).map_err(failed)?;
            self.write(Journal::Condensed {
                cycle,
                samples: done.samples,
                before: done.before,
                after: done.after,
            })?;
        }
        Ok(())
    }

    /// The last values of link counters, if the last cycle still has its samples.
    fn last_counters(&self, so_far: &BurnInProgress) -> Vec<Event> {
        let last = so_far.finished.last().map(|(cycle, _)| self.folder.cycle(*cycle));
        let last = last.filter(|folder| folder.join(files::RUN).exists());
        let recorded = last.and_then(|folder| Recorded::read(&folder).ok());
        recorded.map_or_else(Vec::new, |recorded| last_link_counters(&recorded))
    }
}

/// Cells that are evidence of a finding.
fn cells_of_findings(recorded: &Recorded) -> BTreeSet<u32> {
    let findings = judge(recorded).findings.into_iter();
    let counting = findings.filter(|finding| finding.kind != FindingKind::IncompleteCoverage);
    counting.flat_map(|finding| finding.cells).collect()
}
