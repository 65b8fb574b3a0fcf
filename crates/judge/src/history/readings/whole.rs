//! Whole rails, collectives and GPUs.

use record::TestKind;
use std::collections::BTreeMap;

use super::{ReadingSet, reading};
use record::stats;
use record::units::Bytes;
use record::{
    CellVerdict, Engine, Event, Interval, Judgement, Load, PartKind, PartReading, Quantity, Recorded,
};

/// Adds what is said of whole rails, of collectives and by the sensors of GPUs.
pub(super) fn read(recorded: &Recorded, judgement: &Judgement, kept: &mut ReadingSet) {
    rails(recorded, judgement, kept);
    collectives(recorded, judgement, kept);
    gpus(recorded, judgement, kept);
}

/// Rails alone, each at the largest size that it was measured at.
fn rails(recorded: &Recorded, judgement: &Judgement, kept: &mut ReadingSet) {
    let mut largest: BTreeMap<&str, (Bytes, Vec<&CellVerdict>)> = BTreeMap::new();
    for verdict in &judgement.cells {
        let cell = &verdict.cell;
        let [rail] = cell.rails.as_slice() else { continue };
        let is_about_rails = recorded
            .run
            .test_of(cell)
            .is_some_and(|test| test.kind == TestKind::Rails);
        let is_measured = verdict.wire_rate.is_some();
        if !is_about_rails || !is_measured || cell.load != Load::Alone {
            continue;
        }
        let (size, cells) = largest.entry(rail).or_insert((cell.size, Vec::new()));
        if cell.size > *size {
            (*size, *cells) = (cell.size, Vec::new());
        }
        if cell.size == *size {
            cells.push(verdict);
        }
    }
    for (rail, (_, cells)) in largest {
        for verdict in cells {
            if let Some(rate) = rate(verdict) {
                kept.add(reading(
                    PartKind::Rail,
                    rail.to_string(),
                    Quantity::Bandwidth,
                    rate,
                ));
            }
        }
    }
}

/// Collectives that are about no single part: all that all ranks of the run take part in.
fn collectives(recorded: &Recorded, judgement: &Judgement, kept: &mut ReadingSet) {
    for verdict in &judgement.cells {
        let cell = &verdict.cell;
        let is_about_rails = recorded
            .run
            .test_of(cell)
            .is_some_and(|test| test.kind == TestKind::Rails);
        let is_whole =
            cell.ranks.len() > 1 && cell.ranks.len() == recorded.run.ranks.len() && cell.group.is_none();
        if cell.collective.is_pairwise()
            || !cell.collective.is_scheduled()
            || is_about_rails
            || !is_whole
            || cell.load != Load::Alone
        {
            continue;
        }
        let engine = match cell.engine {
            Engine::Ours => "",
            Engine::Nccl => " by NCCL",
        };
        let rails = match cell.rails.as_slice() {
            [rail] => format!(" on {rail}"),
            _ => String::new(),
        };
        let name = format!(
            "{} {} {} {}{engine}{rails}",
            cell.test, cell.algorithm, cell.collective, cell.size
        );
        if let Some(rate) = rate(verdict) {
            kept.add(reading(
                PartKind::Collective,
                name.clone(),
                Quantity::Bandwidth,
                rate,
            ));
        }
        if let Some(times) = verdict.percentiles {
            let tail = exactly(times.p99.0 as f64);
            kept.add(reading(PartKind::Collective, name, Quantity::Tail, tail));
        }
    }
}

/// The hottest a GPU was, and its clock under load: of each cell the middle between the least and the most, of these the median.
fn gpus(recorded: &Recorded, judgement: &Judgement, kept: &mut ReadingSet) {
    let mut clocks: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for event in &recorded.events {
        let Event::Gpu(seen) = event else { continue };
        if let Some(clock) = seen.during.sm_mhz {
            // In half MHz, so that the middle is a whole number.
            let twice = u64::from(clock.least) + u64::from(clock.most);
            clocks.entry(&seen.uuid).or_default().push(twice);
        }
    }
    for gpu in &judgement.gpus {
        if let Some(celsius) = gpu.celsius {
            let most = exactly(f64::from(celsius.most));
            let of = reading(PartKind::Gpu, gpu.uuid.clone(), Quantity::Temperature, most);
            kept.add(PartReading {
                cells: gpu.cells,
                ..of
            });
        }
        let known = clocks.get(gpu.uuid.as_str());
        if let (Some(range), Some(twice)) = (gpu.sm_mhz, known.and_then(|known| stats::median(known))) {
            let clock = Interval {
                median: twice / 2.0,
                lower: f64::from(range.least),
                upper: f64::from(range.most),
            };
            let of = reading(PartKind::Gpu, gpu.uuid.clone(), Quantity::Clock, clock);
            kept.add(PartReading {
                cells: gpu.cells,
                ..of
            });
        }
    }
}

fn exactly(value: f64) -> Interval<f64> {
    Interval {
        median: value,
        lower: value,
        upper: value,
    }
}

fn rate(verdict: &CellVerdict) -> Option<Interval<f64>> {
    verdict.wire_rate.map(|rate| Interval {
        median: rate.median.0,
        lower: rate.lower.0,
        upper: rate.upper.0,
    })
}
