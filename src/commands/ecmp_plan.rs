//! `railgauge ecmp-plan`: how many flows use all equal paths, and what a number of flows delivers over them.

use clap::Args;
use serde::Serialize;

use crate::error::CliError;
use crate::flags::share::parse_positive_share;
use crate::terminal;
use record::stats::hashing::flows_to_cover;
use record::stats::{MOST_FLOWS, Outlook, Shares, flows_for};

/// The default table ends at this many flows per path.
const TABLE_UP_TO: u32 = 64;
/// With more paths, no realistic number of flows would cover them.
const MOST_PATHS: i64 = 4096;

/// What to plan for.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: railgauge ecmp-plan --paths 16 --coverage 0.99 --goodput 0.9\n\nFlows are all flows for which one switch chooses among \
these paths: those of all its hosts and all their queue pairs. `independent`: no flow waits for another. `collective`: all wait for the \
slowest, as the steps of a ring or an all-to-all do."
)]
pub struct Arguments {
    /// Equal paths: uplinks of a leaf, or spines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_PATHS))]
    paths: u32,
    /// Probability that every path is used
    #[arg(long, value_name = "P", default_value = "0.99", value_parser = parse_positive_share)]
    coverage: f64,
    /// Show what this number of flows delivers; a list with commas [default: powers of two]
    #[arg(long, value_name = "F", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_FLOWS)))]
    flows: Vec<u32>,
    /// Show how many flows deliver this share of the paths' total rate
    #[arg(long, value_name = "SHARE", value_parser = parse_positive_share)]
    goodput: Option<f64>,
    /// Seed of the simulation
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print the answers as JSON
    #[arg(long)]
    json: bool,
}

/// All answers.
#[derive(Debug, Serialize)]
struct Answers {
    paths: u32,
    seed: u64,
    coverage: PathCoverage,
    outlook: Vec<OutlookRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    goodput: Option<FlowsForGoodput>,
}

#[derive(Debug, Serialize)]
struct PathCoverage {
    probability: f64,
    flows: Option<u32>,
}

#[derive(Debug, Serialize)]
struct OutlookRow {
    flows: u32,
    all_paths_used: f64,
    independent: DeliveredShare,
    collective: DeliveredShare,
}

/// Shares of the paths' total rate.
#[derive(Debug, Serialize)]
struct DeliveredShare {
    mean: f64,
    p5: f64,
    p1: f64,
}

/// Flows for a wanted share; none when more than [`MOST_FLOWS`] are needed.
#[derive(Debug, Serialize)]
struct FlowsForGoodput {
    share: f64,
    independent: FlowCount,
    collective: FlowCount,
}

#[derive(Debug, Serialize)]
struct FlowCount {
    /// Flows that deliver it on average.
    mean: Option<u32>,
    /// Flows that deliver it in 95 of 100 cases.
    p5: Option<u32>,
}

impl From<Shares> for DeliveredShare {
    fn from(shares: Shares) -> DeliveredShare {
        DeliveredShare {
            mean: shares.mean,
            p5: shares.p5,
            p1: shares.p1,
        }
    }
}

/// Prints the answers.
pub fn run(arguments: &Arguments) -> Result<u8, CliError> {
    let answers = answer(arguments);
    if arguments.json {
        let text = serde_json::to_string_pretty(&answers).map_err(std::io::Error::from);
        println!("{}", text.map_err(CliError::system("cannot print the answers"))?);
    } else {
        print(&answers);
    }
    Ok(0)
}

fn answer(arguments: &Arguments) -> Answers {
    let Arguments { paths, seed, .. } = *arguments;
    let row = |flows: u32| {
        let outlook = Outlook::of(flows, paths, seed);
        OutlookRow {
            flows,
            all_paths_used: outlook.all_used,
            independent: outlook.independent.into(),
            collective: outlook.collective.into(),
        }
    };
    let needed = |wanted: f64, of: fn(&Outlook) -> Shares| FlowCount {
        mean: flows_for(paths, wanted, seed, |outlook| of(outlook).mean),
        p5: flows_for(paths, wanted, seed, |outlook| of(outlook).p5),
    };
    let rows = match arguments.flows.is_empty() {
        false => arguments.flows.clone(),
        true => powers(paths),
    };
    Answers {
        paths,
        seed,
        coverage: PathCoverage {
            probability: arguments.coverage,
            flows: flows_to_cover(paths, arguments.coverage),
        },
        outlook: rows.into_iter().map(row).collect(),
        goodput: arguments.goodput.map(|share| FlowsForGoodput {
            share,
            independent: needed(share, |outlook| outlook.independent),
            collective: needed(share, |outlook| outlook.collective),
        }),
    }
}

/// Powers of two, from about as many flows as paths to 64 times as many.
fn powers(paths: u32) -> Vec<u32> {
    let most = paths.saturating_mul(TABLE_UP_TO).min(MOST_FLOWS);
    let powers = (0..=16).map(|power| 1u32 << power);
    powers
        .filter(|flows| 2 * flows > paths && *flows <= most)
        .collect()
}

fn print(answers: &Answers) {
    println!(
        "{} equal paths; a fair hash puts every flow on one of them",
        answers.paths
    );
    let flows =
        |flows: Option<u32>| flows.map_or(format!("more than {MOST_FLOWS}"), |flows| flows.to_string());
    println!(
        "all of them used with probability {}: {} flows",
        answers.coverage.probability,
        flows(answers.coverage.flows)
    );
    let mut table = terminal::table();
    table.set_header([
        "flows",
        "all paths used",
        "independent: mean",
        "95 of 100",
        "99 of 100",
        "collective: mean",
        "95 of 100",
        "99 of 100",
    ]);
    for row in &answers.outlook {
        let shares = [&row.independent, &row.collective].map(|of| [of.mean, of.p5, of.p1]);
        let mut cells = vec![row.flows.to_string(), percent(row.all_paths_used)];
        cells.extend(shares.as_flattened().iter().map(|share| percent(*share)));
        table.add_row(cells);
    }
    println!(
        "share of the paths' total rate that the flows deliver, on average and at least in 95 and 99 of 100 cases:\n{table}"
    );
    if let Some(needed) = &answers.goodput {
        for (who, of) in [
            ("independent flows", &needed.independent),
            ("a collective that waits for its slowest flow", &needed.collective),
        ] {
            println!(
                "{} for {who}: {} flows on average, {} in 95 of 100 cases",
                percent(needed.share),
                flows(of.mean),
                flows(of.p5)
            );
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_begins_where_every_path_could_have_a_flow() {
        assert_eq!(powers(16), [16, 32, 64, 128, 256, 512, 1024]);
        assert_eq!(powers(1)[..3], [1, 2, 4]);
        assert_eq!(powers(12)[..2], [8, 16]);
        assert_eq!(powers(4096).last(), Some(&MOST_FLOWS));
    }
}
