//! `--switch-counters`: reading the counters of switches while streams are measured.

use std::time::{Duration, Instant};

use crate::error::CliError;
use engine::measure::SwitchWatch;
use plan::Plan;
use probe::switches::Source;
use record::{Collective, Untested};
use topology::graph::Graph;
use topology::suite::RunSettings;

/// The longest one reading may take.
const LONGEST: Duration = Duration::from_secs(10);

/// The source of counters, if one is named. A source that does not exist is refused before ranks connect.
pub fn parse_source(settings: &RunSettings) -> Result<Option<Source>, CliError> {
    let Some(text) = &settings.switch_counters else {
        return Ok(None);
    };
    let refuse = |problem: String| CliError::Usage(format!("--switch-counters {text}: {problem}"));
    let source: Source = text.parse().map_err(refuse)?;
    match &source {
        Source::Path(path) if !path.exists() => Err(refuse("no such file or folder".to_string())),
        _ => Ok(Some(source)),
    }
}

/// The reader of counters around the slots of this plan, until `last_moment`. A source that cannot be read is listed as untested.
pub fn watch(
    settings: &RunSettings,
    plan: &mut Plan,
    graph: Option<&Graph>,
    last_moment: Option<Instant>,
) -> Result<SwitchWatch, CliError> {
    let has_streams = plan
        .cells
        .iter()
        .any(|cell| cell.collective == Collective::Streams);
    let Some(source) = parse_source(settings)?.filter(|_| has_streams) else {
        return Ok(SwitchWatch::default());
    };
    let patience = Duration::from(settings.deadline()) / 2;
    let mut watch = SwitchWatch::new(source, graph, patience.min(LONGEST)).until(last_moment);
    match watch.test_read() {
        Ok(()) => Ok(watch),
        Err(why) => {
            let what = "counters of switches".to_string();
            plan.untested.push(Untested { what, why });
            Ok(SwitchWatch::default())
        }
    }
}
