//! `railgauge burn-in SUITE --for 24h`: the suite's cells under load, cycle after cycle for hours, then a decision.

pub mod certificate;
mod context;
mod cycle;
mod executor;
mod start;
mod status_board;

use std::cell::RefCell;

use self::context::BurnInContext;
pub use self::start::Arguments;
use self::start::{BurnInStart, load_at_start_of, progress_so_far, start_or_resume};
use self::status_board::{StatusBoard, StatusProgress, StatusWriter};
use crate::error::CliError;
use crate::launch::ranks::warn_of_separate_worlds;
use crate::launch::role::Role;
use crate::progress;
use judge::burn_in::BurnInPhase;

/// Base of the data ports without --data-port: below the ephemeral ports, above the ports of pinned flows.
const DATA_PORT: u16 = 28_000;

/// Measures until the time is over, then decides.
pub fn run(arguments: &Arguments) -> Result<u8, CliError> {
    let role = match arguments.flags.launch.role()? {
        Role::Follower(follower) => return follower.take_part(),
        role => role,
    };
    let BurnInStart {
        mut suite,
        flags,
        folder,
        request,
    } = start_or_resume(arguments)?;
    flags.apply_to(&mut suite, &role)?;
    // A budget limits one run; a burn-in ends when the time under load is reached.
    suite.run.budget = None;
    if role.world().is_some() {
        // A rank that rejoins must use the same ports: switches choose paths by them, and a cable is compared with itself.
        suite.run.data_port.get_or_insert(DATA_PORT);
    }
    let so_far = progress_so_far(&folder)?;
    let progress = progress::for_stderr(flags.quiet || flags.json);
    let board = StatusBoard::new(&request, so_far.load);
    let context = BurnInContext {
        suite: &suite,
        flags: &flags,
        journal: RefCell::new(folder.journal()?),
        board: &board,
        load_at_start: so_far.load,
        load_before_resumed_cycle: load_at_start_of(&folder, so_far.cut_off)?,
        ledger: RefCell::default(),
        folder,
        request,
    };
    let writer = StatusWriter::start(&board, &context.folder)?;
    let reporting = StatusProgress {
        display: progress.as_ref(),
        board: &board,
    };
    let separate_worlds = context.execute(role, so_far, &reporting)?;
    let certificate = certificate::write(
        &context.folder,
        &context.request,
        &mut context.ledger.borrow_mut(),
    )?;
    board.update(|status| status.doing = BurnInPhase::Ended);
    drop(writer);
    board.write(&context.folder)?;
    drop(progress);
    certificate::print(&certificate, &context.folder, flags.json, flags.quiet)?;
    Ok(certificate
        .exit_code
        .max(warn_of_separate_worlds(&separate_worlds)))
}
