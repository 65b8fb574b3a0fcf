//! What is left out for lack of time, grouped by test and reason instead of one line per cell.

use std::collections::BTreeSet;

use super::reach::ReachedPart;
use super::{Fitting, RESERVE, SlotCost, Step};
use crate::Plan;
use record::units::{Bytes, Nanos};
use record::{EndDirection, Untested};

/// So many of a kind are named.
const MOST_NAMED: usize = 6;

impl Fitting<'_> {
    /// What was left out, grouped by test and reason, and what nothing reaches any more.
    pub(super) fn untested(&self, plan: &Plan, budget: Nanos) -> Vec<Untested> {
        let because = |reason: &str| format!("does not fit into the budget of {budget}: {reason}");
        let mut untested = Vec::new();
        for (number, test) in self.tests.iter().enumerate() {
            let of_test: Vec<&SlotCost> = self.slots.iter().filter(|slot| slot.test == number).collect();
            let cells = |slots: &[&SlotCost]| slots.iter().map(|slot| slot.cells.len()).sum::<usize>();
            let all = cells(&of_test);
            if all > 0 && of_test.iter().all(|slot| slot.left_out.is_some()) {
                untested.push(Untested {
                    what: format!("test `{}`", test.name),
                    why: because("whole tests are left out from the last of the suite on"),
                });
                continue;
            }
            for (step, reason) in [
                (
                    Step::Size,
                    "sizes between the smallest and the largest are left out first",
                ),
                (Step::Crossed, "other cells of this test cross the same links"),
                (
                    Step::Rest,
                    "not even one measurement of everything fits; name fewer hosts or rails, or allow more time",
                ),
            ] {
                let gone = of_test.iter().copied().filter(|slot| slot.left_out == Some(step));
                let gone: Vec<&SlotCost> = gone.collect();
                if gone.is_empty() {
                    continue;
                }
                let mut what = format!("{} of {all} cells of test `{}`", cells(&gone), test.name);
                if step == Step::Size {
                    let sizes = gone
                        .iter()
                        .flat_map(|slot| &plan.cells[slot.cells.clone()])
                        .map(|cell| cell.size);
                    what.push_str(&format!(", of {}", sizes_in_words(&sizes.collect())));
                }
                untested.push(Untested {
                    what,
                    why: because(reason),
                });
            }
        }
        let (lost, of) = self.reaches.lost();
        if !lost.is_empty() {
            untested.push(Untested {
                what: format!("{} of {of} parts, such as {}", lost.len(), named(&lost)),
                why: because("no cell that is kept reaches them"),
            });
        }
        untested
    }
}

impl Plan {
    /// How much of the budget is planned, in a sentence; none without a budget.
    pub fn budget_in_words(&self) -> Option<String> {
        let budget = self.budget?;
        let planned = super::available(budget, Nanos(0));
        Some(format!(
            "budget {budget}: {planned} of it for cells, {:.0}% reserved for ranks to connect and for suspects to be measured again",
            RESERVE * 100.0
        ))
    }
}

fn sizes_in_words(sizes: &BTreeSet<Bytes>) -> String {
    let named: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    match named.as_slice() {
        [first, .., last] if named.len() > MOST_NAMED => {
            format!("{} sizes from {first} to {last}", named.len())
        }
        few => few.join(", "),
    }
}

fn named(parts: &[ReachedPart<'_>]) -> String {
    let name = |part: &ReachedPart<'_>| match part {
        ReachedPart::Host(host) => (*host).to_string(),
        ReachedPart::End(rank, rail, EndDirection::Out) => format!("rank {rank} sending on {rail}"),
        ReachedPart::End(rank, rail, EndDirection::In) => format!("rank {rank} receiving on {rail}"),
        ReachedPart::Link(link) => (*link).to_string(),
    };
    let names: Vec<String> = parts.iter().take(MOST_NAMED).map(name).collect();
    names.join(", ")
}
