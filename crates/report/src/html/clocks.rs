//! How well the clocks of ranks are known, in words.

use record::text::counted;
use record::units::Nanos;
use record::{ClockComparison, Event, Recorded, Run};

/// What the comparison at the start gave.
pub(super) fn at_start(run: &Run) -> String {
    let worst = run.clocks.iter().max_by_key(|clock| clock.uncertainty_ns);
    match worst {
        None => "one clock for all ranks, or clocks not compared".to_string(),
        Some(worst) if worst.uncertainty_ns == 0 => "all ranks have the coordinator's".to_string(),
        Some(worst) => format!(
            "{} compared with the coordinator's; offsets are known to {} or better (worst: rank {})",
            run.clocks.len(),
            Nanos(worst.uncertainty_ns),
            worst.rank
        ),
    }
}

/// What comparisons during the run gave, and what remains unknown of when ranks started; none where clocks were not compared again.
pub(super) fn during_run(recorded: &Recorded) -> Option<String> {
    let comparisons = recorded.events.iter().filter_map(|event| match event {
        Event::Clock(comparison) => Some(comparison),
        _ => None,
    });
    let comparisons: Vec<&ClockComparison> = comparisons.collect();
    let fastest = comparisons
        .iter()
        .filter(|comparison| comparison.drift_uncertainty_ppb < comparison.drift_ppb.unsigned_abs())
        .max_by_key(|comparison| comparison.drift_ppb.unsigned_abs());
    let took: Nanos = comparisons.iter().map(|comparison| comparison.took_ns).sum();
    let unseen = recorded.events.iter().filter_map(|event| match event {
        Event::CellDone(done) => done.unseen_skew_ns,
        _ => None,
    });
    let mut parts = vec![format!("compared {}, in {took}", times(comparisons.len()))];
    if let Some(fastest) = fastest {
        let ppm = fastest.drift_ppb as f64 / 1e3;
        let (uncertainty, rank) = (fastest.drift_uncertainty_ppb as f64 / 1e3, first(fastest));
        parts.push(format!("drift up to {ppm:.2} +- {uncertainty:.2} ppm ({rank})"));
    }
    if let Some(unseen) = unseen.max() {
        parts.push(format!(
            "ranks started at most {unseen} further apart than recorded"
        ));
    }
    let jumps: Vec<&&ClockComparison> = comparisons
        .iter()
        .filter(|comparison| comparison.jump_ns.is_some())
        .collect();
    if let Some(jump) = jumps.first() {
        let by = Nanos(jump.jump_ns.unwrap_or(0).unsigned_abs());
        parts.push(format!(
            "{}, the first by {by} ({})",
            counted(jumps.len(), "jump"),
            first(jump)
        ));
    }
    (!comparisons.is_empty()).then(|| parts.join("; "))
}

fn times(count: usize) -> String {
    match count {
        1 => "once".to_string(),
        2 => "twice".to_string(),
        more => format!("{more} times"),
    }
}

fn first(comparison: &ClockComparison) -> String {
    match comparison.ranks.first() {
        Some(rank) => format!("rank {rank}"),
        None => "no rank".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(rank: u32, drift_ppb: i64, jump_ns: Option<i64>) -> Event {
        Event::Clock(ClockComparison {
            ranks: vec![rank, rank + 1],
            at_ns: Nanos(5),
            offset_ns: 12,
            uncertainty_ns: 20_000,
            took_ns: Nanos(400_000),
            drift_ppb,
            drift_uncertainty_ppb: 400,
            jump_ns,
        })
    }

    #[test]
    fn a_report_says_what_clocks_did_while_it_was_measured() {
        let mut recorded = judge::findings::fixture::Fixture::rails(2).recorded();
        assert_eq!(during_run(&recorded), None);
        recorded.events.push(comparison(2, 90, None));
        assert_eq!(during_run(&recorded).unwrap(), "compared once, in 400 us");
        recorded.events.push(comparison(4, -2_340, Some(-2_000_000)));
        for event in &mut recorded.events {
            if let Event::CellDone(done) = event {
                done.unseen_skew_ns = Some(Nanos(41_000));
            }
        }
        assert_eq!(
            during_run(&recorded).unwrap(),
            "compared twice, in 800 us; drift up to -2.34 +- 0.40 ppm (rank 4); ranks started at most 41.0 us further apart \
             than recorded; 1 jump, the first by 2.00 ms (rank 4)"
        );
    }
}
