//! How long it takes to judge the history of a fleet, and how well it is judged.
//!
//! `cargo bench --bench history` judges 60 nights of 128 hosts with 8 rails, every night as it came, and the last one again from files.
//! The aim is 5 s; the last line says whether it is met. `cargo bench --bench history -- --tally 50` judges fifty such histories with
//! known incidents, and as many of smaller fleets, and prints a table of `docs/detection.md`; `--wander 50` does so with hosts and
//! cables that wander from night to night. `ci/nights-report` puts both there.

mod oracle;
mod tally;
mod wander;

use std::time::Instant;

use judge::history::{Rule, alarms, since_earlier_runs};
use plan::twin::nights::{Nights, Wander};
use record::Readings;

const SECONDS: f64 = 5.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let after = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).map(String::as_str)
    };
    let wander = |name: &str| after(name).map_or(Ok(Wander::default()), parse_wander);
    match (after("--tally"), after("--wander")) {
        (Some(histories), _) => {
            let (hosts, cables) = (wander("--host-wander")?, wander("--cable-wander")?);
            tally::table(histories.parse()?, hosts, cables);
        }
        (None, Some(histories)) => {
            let series = after("--series").unwrap_or("counted");
            let rows = wander::Rows {
                fleet: after("--fleet"),
                wanders: after("--wanders"),
                correlation: after("--correlation").map(str::parse).transpose()?,
            };
            wander::table(histories.parse()?, series, &rows);
        }
        (None, None) => speed()?,
    }
    Ok(())
}

/// `0.015:0.8`: a standard deviation of 1.5 %, of which 0.8 lasts until the next night.
fn parse_wander(text: &str) -> Result<Wander, String> {
    let wrong = || format!("`{text}` is not a wander; write DEVIATION:CORRELATION, as in 0.015:0.8");
    let (deviation, correlation) = text.split_once(':').ok_or_else(wrong)?;
    let wander = Wander {
        deviation: deviation.parse().map_err(|_| wrong())?,
        correlation: correlation.parse().map_err(|_| wrong())?,
    };
    let is_wander = wander.deviation >= 0.0 && (0.0..1.0).contains(&wander.correlation);
    is_wander.then_some(wander).ok_or_else(wrong)
}

fn speed() -> Result<(), Box<dyn std::error::Error>> {
    let nights = Nights {
        incidents: tally::incidents(&Nights::healthy(1), 30),
        ..Nights::healthy(1)
    };
    let row = nights.nights();
    let texts: Vec<String> = row
        .iter()
        .map(|night| serde_json::to_string(&night.readings))
        .collect::<Result<_, _>>()?;
    let bytes: usize = texts.iter().map(String::len).sum();
    println!(
        "{} nights of {} parts, {} MB of readings.json",
        row.len(),
        nights.parts().len(),
        bytes / 1_000_000
    );

    let start = Instant::now();
    let parts: usize = texts
        .iter()
        .map(|text| serde_json::from_str::<Readings>(text).map(|readings| readings.parts.len()))
        .sum::<Result<_, _>>()?;
    let read = start.elapsed().as_secs_f64();
    println!("read                {read:.3} s: {parts} readings");

    let start = Instant::now();
    let found = alarms(&row, &Rule::default());
    let judged = start.elapsed().as_secs_f64();
    println!("every night judged  {judged:.3} s: {} changes", found.len());

    let start = Instant::now();
    let last = since_earlier_runs(&row);
    let told = start.elapsed().as_secs_f64();
    println!("tonight             {told:.3} s: {}", last.summary);

    let slowest = judged.max(told);
    let is_met = slowest < SECONDS;
    println!(
        "{}: {slowest:.3} s of {SECONDS} s",
        if is_met { "OK" } else { "MISSED" }
    );
    Ok(())
}
