//! The lines that show each step of narrowing down suspects.

use plan::diagnose::Step;

/// Parts named on one line; the others are counted.
const MAX_NAMED: usize = 4;

/// A step in a few lines.
pub fn describe_step(step: &Step) -> Vec<String> {
    let (healthy, all) = step.healthy;
    let mut lines = vec![format!(
        "step {}: {} flows measured, {healthy} of {all} directed links are healthy",
        step.number, step.measured
    )];
    if !step.ruled_out.is_empty() {
        lines.push(format!("  ruled out: {}", list(&step.ruled_out)));
    }
    for (parts, confirmed) in &step.suspects {
        let names: Vec<String> = parts
            .iter()
            .map(|(name, share)| format!("{name} ({share:.2})"))
            .collect();
        let word = if *confirmed { "confirmed" } else { "suspected" };
        lines.push(format!("  {word}: {}", list(&names)));
    }
    if step.transient > 0 {
        lines.push(format!(
            "  {} flow{} slow once and not again: every link on the path carried more at another time",
            step.transient,
            if step.transient == 1 { " was" } else { "s were" }
        ));
    }
    match step.next {
        Some((cells, slots)) => lines.push(format!(
            "  next: {cells} flows in {slots} slots, to separate or confirm suspects"
        )),
        None if step.suspects.is_empty() => lines.push("  no part is suspected".to_string()),
        None => lines.push("  no further flow would tell more".to_string()),
    }
    lines
}

fn list(names: &[String]) -> String {
    match names.len() > MAX_NAMED {
        true => format!(
            "{} and {} more",
            names[..MAX_NAMED].join(", "),
            names.len() - MAX_NAMED
        ),
        false => names.join(", "),
    }
}
