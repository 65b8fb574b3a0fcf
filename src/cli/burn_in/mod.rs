//! `railgauge burn-in SUITE --for 24h`: the suite's cells again and again under load, for hours, and a decision at the end.
//!
//! `begin` is a burn-in's beginning and how one is gone on with, `cycle` one cycle, `board` what a watchdog sees, `room` how
//! disk is kept free.

mod begin;
mod board;
mod cycle;
mod room;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use self::begin::Beginning;
use self::board::{Board, Pulse, Watching};
use self::cycle::{Cycle, last_of_links};
use super::conduct::{listen_for_signals, now};
use super::gathering::Gathering;
use super::inventory_flags::{Sources, Told};
use super::launching::Role;
use super::run_clock::RunClock;
use super::shared::Shared;
use super::{CliError, progress, say};
use engine::device::heap;
use engine::measure::Progress;
use judge::burn_in::{self, BurnInFolder, Doing, JournalFile, Ledger, SoFar};
use plan::replan::LostParts;
use probe::host;
use record::units::Nanos;
use record::{
    BurnIn, Certificate, EndReason, Event, Journal, JournalLine, Night, PartReading, Readings, Recorded,
    Ruling, burn_in_files, files,
};
use topology::suite::Suite;

/// How long to wait before looking again whether a host came back, when there is nothing to measure without it.
const UNTIL_NEXT_LOOK: Duration = Duration::from_secs(2);
/// How many times in a row nothing could be measured before the burn-in gives up.
const MOST_EMPTY_CYCLES: u32 = 150;
/// How many cycles in a row may be cut short by nobody knows what before the burn-in gives up.
const MOST_UNCLEAR_LOSSES: u32 = 10;
/// Where ranks listen for data, unless somebody says otherwise: below the ports that systems give away, beyond those that flows are pinned to.
const DATA_PORT: u16 = 28_000;
/// Incidents that stand in the status file.
const MOST_INCIDENTS: usize = 20;

/// What to burn in, and for how long.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  railgauge burn-in burn-in --for 24h --keep-going --topology fabric.toml --out /var/tmp/rack7\n  \
railgauge burn-in --resume /var/tmp/rack7        (after a kill, a crash or a power cut)\n  \
railgauge burn-in smoke --for 2m                 (a try on this machine)\n\n\
Ends with a decision on every node and cable: accept, reject or extend, in certificate.html, certificate.json and certificate.md. \
status.json and metrics.prom in its folder are written every two seconds. Exit code: 0 all accepted; 20 something must be loaded \
longer; 12, 21, 22 and others something is rejected."
)]
pub struct Arguments {
    /// A built-in suite (burn-in, rails, links, smoke, ...) or a suite file
    #[arg(value_name = "SUITE", required_unless_present = "resume")]
    suite: Option<String>,
    /// How long the fabric is to be under load; time in which nothing ran does not count [default: 24h]
    #[arg(long = "for", value_name = "DUR")]
    wanted: Option<Nanos>,
    /// Go on with the burn-in in this folder, with the settings it was begun with
    #[arg(long, value_name = "RUN", conflicts_with_all = ["suite", "out"])]
    resume: Option<PathBuf>,
    #[command(flatten)]
    shared: Shared,
}

/// Measures until the time is over, then decides.
pub fn run(arguments: &Arguments) -> Result<u8, CliError> {
    let role = match arguments.shared.launching.role()? {
        Role::Follows(follow) => return follow.take_part(),
        role => role,
    };
    let Beginning {
        mut suite,
        flags,
        folder,
        asked,
    } = begin::begin(arguments)?;
    flags.settle(&mut suite)?;
    role.settle(&mut suite, &flags)?;
    // A budget is that of one run; cycles follow each other until the time is over.
    suite.run.budget = None;
    if role.world().is_some() {
        // Whoever comes back must be found at the same ports: switches choose ways by them, and a cable is compared with itself.
        suite.run.data_port.get_or_insert(DATA_PORT);
    }
    let so_far = begin::so_far(&folder)?;
    let progress = progress::fitting(flags.quiet || flags.json);
    let board = Board::new(&asked, so_far.load);
    let burning = Burning {
        suite: &suite,
        flags: &flags,
        journal: RefCell::new(folder.journal()?),
        board: &board,
        load_at_start: so_far.load,
        load_when_cut_off_began: begin::load_at_beginning_of(&folder, so_far.cut_off)?,
        ledger: RefCell::default(),
        folder,
        asked,
    };
    let pulse = Pulse::start(&board, &burning.folder)?;
    let watching = Watching {
        person: progress.as_ref(),
        board: &board,
    };
    let separate = burning.burn(role, so_far, &watching)?;
    let certificate = write_decision(&burning.folder, &burning.asked, &mut burning.ledger.borrow_mut())?;
    board.note(|status| status.doing = Doing::Ended);
    drop(pulse);
    board.write(&burning.folder)?;
    drop(progress);
    show(&certificate, &burning.folder, flags.json, flags.quiet)?;
    for caller in &separate {
        say::complain(format_args!("separate worlds: {caller}"));
    }
    Ok(certificate.exit_code.max(if separate.is_empty() { 0 } else { 3 }))
}

/// A burn-in at work.
struct Burning<'a> {
    suite: &'a Suite,
    flags: &'a Shared,
    folder: BurnInFolder,
    asked: BurnIn,
    journal: RefCell<JournalFile>,
    board: &'a Arc<Board>,
    /// Time under load before this process began.
    load_at_start: Nanos,
    /// And before the cycle that was cut off.
    load_when_cut_off_began: Nanos,
    /// What is kept of cycles that are over.
    ledger: RefCell<Ledger>,
}

impl Burning<'_> {
    /// Ranks meet, and cycle follows cycle until the time is over. Returns callers that show that this was not the only world.
    fn burn(&self, role: Role, so_far: SoFar, progress: &dyn Progress) -> Result<Vec<String>, CliError> {
        let told = Told::read(&Sources::of(&self.suite.run, self.flags.topology.as_deref()))?;
        let choices = self.flags.choices(self.suite)?;
        let interrupted = listen_for_signals()?;
        let clock = RunClock::start(&self.suite.run);
        let mut gathering = Gathering::gather(
            self.suite,
            role,
            self.flags,
            &choices,
            told,
            clock,
            interrupted,
            progress,
        )?;
        let result = self.cycles(&mut gathering, &so_far, progress);
        let has_lost = !gathering.session.absent().is_empty();
        let parted = gathering.part();
        let reason = result?;
        self.write(Journal::Ended { reason })?;
        self.board.note(|status| status.ended = Some(reason));
        if let Some(mpi) = parted.mpi {
            mpi.leave(!has_lost);
        }
        Ok(parted.separate)
    }

    fn cycles(
        &self,
        gathering: &mut Gathering,
        so_far: &SoFar,
        progress: &dyn Progress,
    ) -> Result<EndReason, CliError> {
        let hosts = gathering.session.fabric().hosts.iter();
        let hosts: Vec<String> = hosts.map(|host| host.name.clone()).collect();
        self.met(&hosts, so_far)?;
        let mut next = match (so_far.cut_off, so_far.cut_off_seed) {
            (Some(number), Some(seed)) => Cycle {
                number,
                seed,
                is_resumed: true,
            },
            _ => self.fresh(so_far.next_cycle()),
        };
        let mut earlier = self.last_counters(so_far);
        let (mut absent, mut empty, mut unclear) = (LostParts::default(), 0, 0);
        while self.board.load() < self.asked.wanted_ns {
            let is_any_back = self.readmit(gathering, next.number, &mut absent, progress)?;
            if is_any_back {
                gathering.ask_for_ways(self.suite, progress)?;
            }
            if !next.is_resumed {
                self.write(Journal::CycleBegan {
                    cycle: next.number,
                    seed: next.seed,
                })?;
            }
            self.board.note(|status| {
                (status.cycle, status.cells, status.cells_done) = (next.number, 0, 0);
            });
            let outcome = self.cycle(&next, gathering, &absent, &mut earlier, progress)?;
            if outcome.reason == EndReason::Interrupted && !outcome.was_over {
                return Ok(EndReason::Interrupted);
            }
            let is_lost = outcome.reason == EndReason::Lost && !outcome.was_over;
            if is_lost && (!self.flags.keep_going || outcome.lost.hosts.contains(&host::here().name)) {
                return Ok(EndReason::Lost);
            }
            let is_known_who = outcome.lost.hosts != absent.hosts || !outcome.lost.rails.is_empty();
            absent.hosts = outcome.lost.hosts;
            unclear = match is_lost && !is_known_who {
                true => unclear + 1,
                false => 0,
            };
            if unclear > MOST_UNCLEAR_LOSSES {
                progress.note("something is lost cycle after cycle, and it cannot be told what");
                return Ok(EndReason::Lost);
            }
            if unclear > 0 {
                self.ask_who_is_left(next.number, gathering, &mut absent)?;
            }
            self.look_back(progress)?;
            empty = if outcome.cells == 0 { empty + 1 } else { 0 };
            if empty > MOST_EMPTY_CYCLES {
                progress.note("nothing could be measured for too long");
                return Ok(EndReason::Lost);
            }
            if empty > 0 {
                std::thread::sleep(UNTIL_NEXT_LOOK);
            }
            heap::give_back();
            // Clocks drift over hours.
            gathering.session.compare_clocks()?;
            next = self.fresh(next.number + 1);
        }
        Ok(EndReason::Finished)
    }

    /// A new cycle, with data of its own.
    fn fresh(&self, number: u32) -> Cycle {
        let step = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Cycle {
            number,
            seed: self.asked.seed.wrapping_add(step),
            is_resumed: false,
        }
    }

    fn met(&self, hosts: &[String], so_far: &SoFar) -> Result<(), CliError> {
        let kept = so_far
            .cut_off
            .map(|cycle| Recorded::read(&self.folder.cycle(cycle)));
        let kept = kept
            .and_then(Result::ok)
            .map_or(0, |recorded| recorded.samples.len());
        self.board.note(|status| {
            status.hosts = hosts.to_vec();
            status.cycles_done = so_far.finished.len() as u32;
        });
        self.write(Journal::Met {
            hosts: hosts.to_vec(),
            resumes: so_far.cut_off,
            samples_kept: kept as u64,
        })
    }

    /// Lets hosts in that have come back; whether any has.
    fn readmit(
        &self,
        gathering: &mut Gathering,
        cycle: u32,
        absent: &mut LostParts,
        progress: &dyn Progress,
    ) -> Result<bool, CliError> {
        let Some(door) = gathering.door.as_ref().filter(|_| !absent.hosts.is_empty()) else {
            return Ok(false);
        };
        let readmission = gathering.session.rejoin(door)?;
        let fabric = gathering.session.fabric();
        let host_of = |rank: u32| fabric.rank(rank).map(|record| record.host.clone());
        let back: BTreeSet<String> = readmission
            .back
            .iter()
            .filter_map(|rank| host_of(*rank))
            .collect();
        for (rank, reason) in &readmission.refused {
            let hosts: Vec<String> = host_of(*rank).into_iter().collect();
            progress.note(&format!("{} is not let in: {reason}", hosts.join(", ")));
            let reason = reason.clone();
            self.write(Journal::Refused { hosts, reason })?;
        }
        let is_any_back = !back.is_empty();
        if is_any_back {
            absent.hosts.retain(|host| !back.contains(host));
            let hosts: Vec<String> = back.into_iter().collect();
            progress.note(&format!("{} is back", hosts.join(", ")));
            self.write(Journal::Returned { cycle, hosts })?;
        }
        let lost: Vec<String> = absent.hosts.iter().cloned().collect();
        self.board.note(|status| status.lost = lost);
        Ok(is_any_back)
    }

    /// A cycle was cut short and nobody is known to be lost: whoever does not answer now is, and all others begin anew.
    fn ask_who_is_left(
        &self,
        cycle: u32,
        gathering: &mut Gathering,
        absent: &mut LostParts,
    ) -> Result<(), CliError> {
        let left_out = gathering.session.continue_without(&[])?.clone();
        let ranks = gathering.session.fabric().ranks.iter();
        let hosts = ranks.filter(|record| left_out.contains(&record.rank));
        let hosts: BTreeSet<String> = hosts.map(|record| record.host.clone()).collect();
        let new = LostParts {
            hosts: hosts.difference(&absent.hosts).cloned().collect(),
            ..LostParts::default()
        };
        if new.hosts.is_empty() {
            return Ok(());
        }
        let theirs = new.ranks(&gathering.session.fabric().ranks);
        gathering.session.continue_without(&theirs)?;
        absent.hosts.extend(hosts);
        self.lost(cycle, &new, "it does not answer any more")
    }

    /// Something was lost and is left out from here on.
    fn lost(&self, cycle: u32, lost: &LostParts, reason: &str) -> Result<(), CliError> {
        if lost.hosts.is_empty() {
            return Ok(());
        }
        let hosts: Vec<String> = lost.hosts.iter().cloned().collect();
        self.board
            .note(|status| status.lost.extend(hosts.iter().cloned()));
        self.write(Journal::Lost {
            cycle,
            hosts,
            reason: reason.to_string(),
        })
    }

    /// What all cycles so far come to, for whoever watches; then room is made.
    fn look_back(&self, progress: &dyn Progress) -> Result<(), CliError> {
        let certificate = decided(&self.folder, &self.asked, &mut self.ledger.borrow_mut())?;
        let counting = certificate.incidents.iter().filter(|incident| incident.counts);
        let sentences: Vec<String> = counting.map(|incident| incident.sentence.clone()).collect();
        let all = [&certificate.nodes, &certificate.links, &certificate.gpus];
        let rejected = all.into_iter().flatten();
        let rejected = rejected.filter(|part| part.ruling == Ruling::Reject).count();
        self.board.note(|status| {
            for sentence in sentences
                .iter()
                .filter(|sentence| !status.incidents.contains(sentence))
            {
                progress.note(sentence);
            }
            status.cycles_done = certificate.cycles;
            status.ruling = Some(certificate.ruling);
            status.rejected = rejected as u32;
            status.incidents = sentences.iter().take(MOST_INCIDENTS).cloned().collect();
        });
        self.make_room()
    }

    /// What counters of links said last, when the last cycle still has its samples.
    fn last_counters(&self, so_far: &SoFar) -> Vec<Event> {
        let last = so_far.finished.last().map(|(cycle, _)| self.folder.cycle(*cycle));
        let last = last.filter(|folder| folder.join(files::RUN).exists());
        let recorded = last.and_then(|folder| Recorded::read(&folder).ok());
        recorded.map_or_else(Vec::new, |recorded| last_of_links(&recorded))
    }

    fn write(&self, what: Journal) -> Result<(), CliError> {
        let line = JournalLine {
            at: now(),
            load_ns: self.board.load(),
            what,
        };
        Ok(self.journal.borrow_mut().write(&line)?)
    }
}

/// The decision so far, on what is kept of cycles; those that finished since the last time are read and kept, too.
fn decided(folder: &BurnInFolder, asked: &BurnIn, ledger: &mut Ledger) -> Result<Certificate, CliError> {
    let journal = folder.read_journal()?;
    for (cycle, took) in SoFar::of(&journal).finished {
        if !ledger.has(cycle) {
            ledger.add(&folder.night(cycle, took)?);
        }
    }
    let known = folder.known()?;
    Ok(burn_in::decide_on(asked, &journal, ledger, &known))
}

/// The decision, written down.
fn write_decision(
    folder: &BurnInFolder,
    asked: &BurnIn,
    ledger: &mut Ledger,
) -> Result<Certificate, CliError> {
    let certificate = decided(folder, asked, ledger)?;
    let mut drawn: Vec<Night> = Vec::new();
    for (cycle, took) in SoFar::of(&folder.read_journal()?).finished {
        let mut night = folder.night(cycle, took)?;
        only_rejected(&mut night.readings, &certificate);
        drawn.push(night);
    }
    ::report::certificate::write_all(folder.path(), &certificate, &drawn)
        .map_err(CliError::system("cannot write the certificate"))?;
    Ok(certificate)
}

/// Courses are drawn of rejected parts; of a day's cycles nothing else need be in memory at once.
fn only_rejected(readings: &mut Readings, certificate: &Certificate) {
    let all = [&certificate.nodes, &certificate.links, &certificate.gpus];
    let is_rejected = |reading: &PartReading| {
        let mut parts = all.into_iter().flatten();
        parts.any(|part| {
            part.ruling == Ruling::Reject && (part.kind, &part.part) == (reading.kind, &reading.part)
        })
    };
    readings.parts.retain(is_rejected);
    readings.parts.shrink_to_fit();
    (readings.loads, readings.findings, readings.untested) = Default::default();
    readings.counters = Vec::new();
}

/// Whether a folder is that of a burn-in.
pub fn is_one(folder: &Path) -> bool {
    folder.join(burn_in_files::BURN_IN).exists()
}

/// Decides again on what a burn-in recorded, and shows it; the exit code.
pub fn report(path: &Path, json: bool, quiet: bool) -> Result<u8, CliError> {
    let (folder, asked) = BurnInFolder::open(path)?;
    let certificate = write_decision(&folder, &asked, &mut Ledger::default())?;
    show(&certificate, &folder, json, quiet)?;
    Ok(certificate.exit_code)
}

/// Prints the decision the way it was asked for.
fn show(certificate: &Certificate, folder: &BurnInFolder, json: bool, quiet: bool) -> Result<(), CliError> {
    if json {
        let text = std::fs::read_to_string(folder.path().join(burn_in_files::CERTIFICATE));
        print!(
            "{}",
            text.map_err(CliError::system("cannot read the certificate"))?
        );
    } else if quiet {
        println!("{}", ::report::escape::line(&certificate.summary));
    } else {
        print!("{}", ::report::certificate::terminal(certificate));
        println!(
            "\n{}",
            folder.path().join(burn_in_files::CERTIFICATE_PAGE).display()
        );
    }
    Ok(())
}
