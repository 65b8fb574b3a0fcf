//! Cables of the topology file that no flow takes, as traces showed before anything was measured.

use super::analysis::RunAnalysis;
use super::detector::Detector;
use record::text;
use record::{Finding, FindingKind, Place, UnusedCableRecord};

/// At most one finding per run: what cuts off one cable often cuts off several.
pub(super) struct UnusedCable;

impl Detector for UnusedCable {
    fn question(&self) -> &'static str {
        "Does any flow take each cable of the topology file?"
    }

    fn find(&self, analysis: &RunAnalysis<'_>) -> Vec<Finding> {
        let unused = &analysis.run().unused;
        if unused.is_empty() {
            return Vec::new();
        }
        let names: Vec<String> = unused.iter().map(|one| one.cable.clone()).collect();
        let (what, them, are) = match names.as_slice() {
            [only] => (format!("no flow takes cable {only}"), "it", "it is"),
            _ => (
                format!("no flow takes cables {}", text::list(&names)),
                "them",
                "they are",
            ),
        };
        let each = if names.len() == 1 { "it" } else { "each" };
        let (fewest, flows) = fewest_expected(unused);
        let evidence = |one: &UnusedCableRecord| {
            format!(
                "{}: of {} traced flows that might take it, {:.0} were expected to",
                one.cable, one.flows, one.expected
            )
        };
        let place = Place {
            cables: names,
            ..Place::default()
        };
        let finding = Finding::new(FindingKind::UnusedCable, place)
            .with_sentence(format!(
                "{what}: of {flows} traced flows about {fewest:.0} should have taken {each}"
            ))
            .with_rule(
                "unused: no traced flow may have taken the cable in either direction, and in each the chance of that is below 0.001 \
                 over all links between switches, if every equal path is as likely",
            )
            .ambiguous_with(vec![
                format!("routing that leaves {them} out on purpose (drained, costed out)"),
                "cables that are swapped so that a switch is cut off".to_string(),
            ])
            .with_evidence(unused.iter().map(evidence).collect())
            .with_next_step(format!(
                "ask the switches at both ends whether {are} up, and which neighbours they see there; take {them} out of the topology file where that \
                 is meant, then repeat"
            ));
        vec![finding]
    }
}

/// The fewest flows that were expected on one of the cables, and of how many.
fn fewest_expected(unused: &[UnusedCableRecord]) -> (f64, u32) {
    let fewest = unused.iter().min_by(|a, b| a.expected.total_cmp(&b.expected));
    fewest.map_or((0.0, 0), |one| (one.expected, one.flows))
}
