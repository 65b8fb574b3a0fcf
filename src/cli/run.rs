//! `railgauge run SUITE`: the main job.

use clap::Args;

use super::conduct::conduct;
use super::launching::Role;
use super::nights::NightFlags;
use super::progress;
use super::shared::Shared;
use super::{CliError, report};
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
    /// A built-in suite (smoke, all-reduce, rails, links, ecmp, gpu, nightly, burn-in) or a suite file
    #[arg(value_name = "SUITE")]
    suite: String,
    #[command(flatten)]
    nights: NightFlags,
    #[command(flatten)]
    shared: Shared,
}

/// Plans, measures, judges, reports.
pub fn run(arguments: &Arguments) -> Result<u8, CliError> {
    let flags = &arguments.shared;
    let role = match flags.launching.role()? {
        Role::Follows(follow) => return follow.take_part(),
        role => role,
    };
    let mut suite = Suite::load(&arguments.suite)?;
    flags.settle(&mut suite)?;
    role.settle(&mut suite, flags)?;
    let out = flags
        .out
        .clone()
        .unwrap_or_else(|| arguments.nights.folder_of(&suite.name));
    let progress = progress::fitting(flags.quiet || flags.json);
    let conducted = conduct(
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
    let history = arguments.nights.conclude(&conducted);
    let (judgement, folder) = (&conducted.judgement, &conducted.folder);
    report::show_with_nights(judgement, history.as_ref(), folder, flags.json, flags.quiet);
    Ok(conducted
        .exit_code()
        .max(history.map_or(0, |history| history.exit_code())))
}
