//! How much times differ where nothing is wrong, as recorded.
//!
//! Two kinds: iterations of one cell differ from its median, and medians of cells that measure the same differ from each
//! other. Both are kept as quantiles, so that long tails stay long. `railgauge simulate --noise-of RUN` makes the numbers
//! from the folder of a healthy run; those built in are in `recorded.json`, with where they come from. What hits several measurements
//! alike is in `parts`; noise by name is in `models`.

mod models;
mod parts;

pub use models::MODELS;
pub(super) use parts::FlowEnds;
pub use parts::{Neighbours, NoiseParts, OsJitter, SecondSpeed, Spreads, Tails};

use std::collections::BTreeMap;

use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};

use record::{Cell, Collective, Recorded};
use topology::Topology;
use topology::graph::Graph;

/// Iterations without which a cell's median says little.
const FEWEST: usize = 5;
/// Steps between the least and the most.
const STEPS: usize = 100;

/// How times differ from what the links alone would make them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// Where the numbers come from.
    pub source: String,
    /// What a flow gets of a link's rate, headers and pauses taken off.
    pub efficiency: f64,
    /// What an iteration takes however little it moves, in nanoseconds.
    pub fixed_ns: u64,
    /// Quantiles of an iteration's time over its cell's median, in even steps from the least to the most.
    pub within: Vec<f64>,
    /// Quantiles of a cell's median over that of all cells that measure the same.
    pub between: Vec<f64>,
    /// What is not drawn for every measurement by itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parts: NoiseParts,
}

fn is_default(parts: &NoiseParts) -> bool {
    *parts == NoiseParts::default()
}

impl Noise {
    /// As recorded in healthy runs of the lab.
    pub fn recorded() -> Noise {
        let text = include_str!("recorded.json");
        serde_json::from_str(text).unwrap_or_else(|_| Noise::none())
    }

    /// No noise at all: every link carries exactly what it should.
    pub fn none() -> Noise {
        Noise {
            source: "none".to_string(),
            efficiency: 1.0,
            fixed_ns: 0,
            within: vec![1.0],
            between: vec![1.0],
            parts: NoiseParts::default(),
        }
    }

    /// A model by its name; see [`MODELS`].
    pub fn named(name: &str) -> Option<Noise> {
        models::named(name)
    }

    /// Reads what [`Noise::of`] was written as.
    pub fn parse(text: &str) -> Result<Noise, String> {
        let noise: Noise = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let is_good = |ratios: &[f64]| {
            let are_ratios = ratios.iter().all(|ratio| (0.01..100.0).contains(ratio));
            !ratios.is_empty() && are_ratios && ratios.is_sorted()
        };
        if !is_good(&noise.within) || !is_good(&noise.between) {
            return Err("quantiles are ratios from 0.01 to 100, ascending".to_string());
        }
        if !(noise.efficiency > 0.01 && noise.efficiency <= 1.0) {
            return Err("the efficiency of a link is above 0.01 and at most 1".to_string());
        }
        match noise.parts.why_not() {
            Some(why_not) => Err(why_not.to_string()),
            None => Ok(noise),
        }
    }

    /// As a file, a line for each of its parts.
    pub fn to_json(&self) -> String {
        let line = |name: &str, value: serde_json::Value| format!("  \"{name}\": {value}");
        let mut lines = vec![
            line("source", self.source.as_str().into()),
            line("efficiency", self.efficiency.into()),
            line("fixed_ns", self.fixed_ns.into()),
            line("within", self.within.clone().into()),
            line("between", self.between.clone().into()),
        ];
        if let Ok(parts) = serde_json::to_value(&self.parts)
            && !is_default(&self.parts)
        {
            lines.push(line("parts", parts));
        }
        format!("{{\n{}\n}}", lines.join(",\n"))
    }

    /// What the pairs of healthy runs say.
    pub fn of(runs: &[Recorded], source: &str) -> Result<Noise, String> {
        let (mut within, mut between, mut efficiencies) = (Vec::new(), Vec::new(), Vec::new());
        for run in runs {
            let medians = medians_of_pairs(run, &mut within);
            let mut alike: BTreeMap<_, Vec<f64>> = BTreeMap::new();
            for (cell, _, median) in &medians {
                alike.entry(cell.peer_key()).or_default().push(*median);
            }
            for mut medians in alike.into_values().filter(|medians| medians.len() >= FEWEST) {
                medians.sort_by(f64::total_cmp);
                let middle = quantile(&medians, 0.5);
                between.extend(medians.iter().map(|median| median / middle));
            }
            efficiencies.extend(efficiency_of(run, &medians));
        }
        if within.len() < STEPS || between.len() < FEWEST {
            return Err("there are too few pairs that measure the same; take a run with more".to_string());
        }
        within.sort_by(f64::total_cmp);
        between.sort_by(f64::total_cmp);
        efficiencies.sort_by(f64::total_cmp);
        let steps = |sorted: &[f64]| {
            let step = |step: usize| quantile(sorted, step as f64 / STEPS as f64);
            (0..=STEPS).map(|at| (step(at) * 1e5).round() / 1e5).collect()
        };
        let efficiency = match efficiencies.as_slice() {
            [] => Noise::recorded().efficiency,
            known => (quantile(known, 0.5).min(1.0) * 1e4).round() / 1e4,
        };
        Ok(Noise {
            source: source.to_string(),
            efficiency,
            fixed_ns: Noise::recorded().fixed_ns,
            within: steps(&within),
            between: steps(&between),
            parts: NoiseParts::default(),
        })
    }

    /// An iteration's time over its cell's median.
    pub(super) fn within(&self, random: &mut impl Rng) -> f64 {
        drawn(&self.within, random) * self.parts.of_iteration(random)
    }

    /// A cell's median over that of its peers.
    pub(super) fn between(&self, random: &mut impl Rng) -> f64 {
        drawn(&self.between, random)
    }
}

/// A value between two neighbouring quantiles, every stretch being as likely as every other.
fn drawn(quantiles: &[f64], random: &mut impl Rng) -> f64 {
    let uniform = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    quantile(quantiles, uniform)
}

fn quantile(sorted: &[f64], fraction: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 1.0;
    };
    let at = fraction.clamp(0.0, 1.0) * last as f64;
    let low = at.floor() as usize;
    let high = (low + 1).min(last);
    sorted[low] + (sorted[high] - sorted[low]) * (at - low as f64)
}

/// Median time of every measurement of every one-way pair, and the ratios of its iterations to it.
fn medians_of_pairs<'r>(run: &'r Recorded, within: &mut Vec<f64>) -> Vec<(&'r Cell, u16, f64)> {
    let mut iterations: BTreeMap<(u32, u16, u32), u64> = BTreeMap::new();
    for sample in &run.samples {
        let longest = iterations
            .entry((sample.cell, sample.round, sample.iter))
            .or_default();
        *longest = sample.ns.max(*longest);
    }
    let mut times: BTreeMap<(u32, u16), Vec<f64>> = BTreeMap::new();
    for ((cell, round, _), time) in iterations {
        times.entry((cell, round)).or_default().push(time as f64);
    }
    let mut medians = Vec::new();
    for cell in &run.run.cells {
        if cell.collective != Collective::PointToPoint || cell.rails.len() != 1 {
            continue;
        }
        for ((_, round), times) in times.range_mut((cell.id, 0)..=(cell.id, u16::MAX)) {
            if times.len() < FEWEST {
                continue;
            }
            times.sort_by(f64::total_cmp);
            let median = quantile(times, 0.5);
            within.extend(times.iter().map(|time| time / median));
            medians.push((cell, *round, median));
        }
    }
    medians
}

/// What pairs got of the rate of the slower of their cables, where the run knows its cables.
fn efficiency_of(run: &Recorded, medians: &[(&Cell, u16, f64)]) -> Vec<f64> {
    let topology = run
        .topology
        .as_deref()
        .map(|text| Topology::parse("topology.toml", text));
    let Some(Ok(topology)) = topology else {
        return Vec::new();
    };
    let Ok(graph) = Graph::of(&topology, &run.run.ranks) else {
        return Vec::new();
    };
    let of = |(cell, _, median): &(&Cell, u16, f64)| {
        let [from, to] = cell.ranks[..] else { return None };
        let rail = cell.rails.first()?;
        let up = graph.link(graph.up(from, rail)?).rate.0;
        let down = graph.link(graph.down(to, rail)?).rate.0;
        let rate = cell.size.0 as f64 * 1e9 / median;
        Some(rate / up.min(down))
    };
    medians.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn what_is_built_in_is_readable_and_centred() {
        let noise = Noise::parse(include_str!("recorded.json")).unwrap();
        assert_eq!(noise, Noise::recorded());
        assert_eq!(Noise::parse(&noise.to_json()), Ok(noise.clone()));
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let mut drawn: Vec<f64> = (0..4000).map(|_| noise.within(&mut random)).collect();
        drawn.sort_by(f64::total_cmp);
        assert!((quantile(&drawn, 0.5) - 1.0).abs() < 0.01);
        for step in [5, 25, 75, 95] {
            let (known, found) = (noise.within[step], quantile(&drawn, step as f64 / 100.0));
            assert!(
                (known - found).abs() < 0.01,
                "quantile {step}: {known} and {found}"
            );
        }
    }

    #[test]
    fn every_model_is_read_as_it_is_written() {
        for (name, _) in MODELS {
            let noise = Noise::named(name).unwrap();
            assert_eq!(Noise::parse(&noise.to_json()), Ok(noise), "{name}");
        }
        assert_eq!(Noise::named("no such model"), None);
    }

    #[test]
    fn parts_that_are_no_noise_are_refused() {
        let text = |parts: &str| {
            format!(
                "{{\"source\": \"x\", \"efficiency\": 0.9, \"fixed_ns\": 0, \"within\": [1.0], \"between\": [1.0], \"parts\": {parts}}}"
            )
        };
        assert!(Noise::parse(&text("{\"drift\": 0.1}")).is_ok());
        for parts in [
            "{\"drift\": -1}",
            "{\"levels\": {\"nic\": -0.1}}",
            "{\"tails\": {\"scale\": 0.1, \"freedom\": 0}}",
            "{\"hosts_at\": {\"share\": 2, \"factor\": 1}}",
            "{\"neighbours\": {\"often\": 0.5, \"take\": 1}}",
            "{\"no such part\": 1}",
        ] {
            assert!(Noise::parse(&text(parts)).is_err(), "{parts}");
        }
    }

    #[test]
    fn numbers_that_are_no_noise_are_refused() {
        let text = |within: &str, efficiency: &str| {
            format!(
                "{{\"source\": \"x\", \"efficiency\": {efficiency}, \"fixed_ns\": 0, \"within\": {within}, \"between\": [1.0]}}"
            )
        };
        assert!(Noise::parse(&text("[0.9, 1.0]", "0.9")).is_ok());
        for (within, efficiency) in [
            ("[]", "0.9"),
            ("[1.1, 1.0]", "0.9"),
            ("[-1.0]", "0.9"),
            ("[1.0]", "2"),
        ] {
            assert!(Noise::parse(&text(within, efficiency)).is_err());
        }
    }
}
