//! `railgauge run SUITE`: the main job.

use clap::Args;

use crate::error::CliError;
use crate::execution::execute_run;
use crate::flags::RunFlags;
use crate::history::HistoryFlags;
use crate::launch::role::Role;
use crate::progress;
use crate::terminal;
use record::exit_code;
use topology::suite::Suite;

/// What to run.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  railgauge run smoke\n  railgauge run rails --rails mlx5_0=10.0.0.1,mlx5_1=10.1.0.1\n  \
railgauge run rails --transport verbs --rails rail0=mlx5_0,rail1=mlx5_1 --traffic-class 106\n  \
railgauge run my-suite.toml --out /var/tmp/tonight --json\n  \
railgauge run nightly --topology fabric.toml --history /srv/nights --notify /usr/local/bin/open-ticket\n  \
railgauge run smoke --inject throttle:rail=loop1,rate=50MB/s   (a negative control: must exit 12)"
)]
pub struct Arguments {
    /// A built-in suite (smoke, all-reduce, rails, links, ecmp, probe, fairness, worst-traffic, congestion, gpu, nightly, burn-in) or a suite file
    #[arg(value_name = "SUITE")]
    suite: String,
    #[command(flatten)]
    history: HistoryFlags,
    #[command(flatten)]
    flags: RunFlags,
}

/// Plans, measures, judges, reports.
pub fn run(arguments: &Arguments) -> Result<u8, CliError> {
    let flags = &arguments.flags;
    let role = match flags.launch.role()? {
        Role::Follower(follower) => return follower.take_part(),
        role => role,
    };
    let mut suite = Suite::load(&arguments.suite)?;
    flags.apply_to(&mut suite, &role)?;
    let out = flags
        .out
        .clone()
        .unwrap_or_else(|| arguments.history.folder_of(&suite.name));
    let progress = progress::for_stderr(flags.quiet || flags.json);
    let executed = execute_run(
        &suite,
        role,
        flags,
        &flags.choices(&suite)?,
        &out,
        progress.as_ref(),
        &|plan| {
            progress.plan(plan.cells.len());
        },
    )?;
    drop(progress);
    let history = arguments.history.compare_and_notify(&executed);
    let (judgement, folder) = (&executed.judgement, &executed.folder);
    terminal::print_result(judgement, history.as_ref(), folder, flags.json, flags.quiet);
    let of_history = history.map_or(exit_code::PASS, |history| history.exit_code());
    Ok(exit_code::worst([executed.exit_code(), of_history]))
}
