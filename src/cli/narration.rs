//! What a person is told while suspects are told apart.

use plan::diagnose::Step;

/// More parts than this in one line are counted, not named.
const MOST_NAMED: usize = 4;

/// A step in a few lines.
pub fn lines(step: &Step) -> Vec<String> {
    let (healthy, all) = step.healthy;
    let mut lines = vec![format!(
        "step {}: {} flows measured, {healthy} of {all} directed links carry what they should",
        step.number, step.measured
    )];
    if !step.ruled_out.is_empty() {
        lines.push(format!("  ruled out: {}", named(&step.ruled_out)));
    }
    for (parts, confirmed) in &step.suspects {
        let names: Vec<String> = parts
            .iter()
            .map(|(name, share)| format!("{name} ({share:.2})"))
            .collect();
        let word = if *confirmed { "confirmed" } else { "suspected" };
        lines.push(format!("  {word}: {}", named(&names)));
    }
    if step.transient > 0 {
        lines.push(format!(
            "  {} flow{} slow once and not again: everything on the way carried more at another time",
            step.transient,
            if step.transient == 1 { " was" } else { "s were" }
        ));
    }
    match step.next {
        Some((cells, slots)) => lines.push(format!(
            "  next: {cells} flows in {slots} slots, to tell them apart or make sure"
        )),
        None if step.suspects.is_empty() => lines.push("  nobody is suspected".to_string()),
        None => lines.push("  nothing is left that would tell more".to_string()),
    }
    lines
}

fn named(names: &[String]) -> String {
    match names.len() > MOST_NAMED {
        true => format!(
            "{} and {} more",
            names[..MOST_NAMED].join(", "),
            names.len() - MOST_NAMED
        ),
        false => names.join(", "),
    }
}
