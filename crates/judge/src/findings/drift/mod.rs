//! Who is made of something else than the others: parts that are alike, compared fact by fact.
//!
//! Pure functions from inventories. What is right is what the golden file says (`golden`); where it says nothing, what more than half of
//! the like parts say (`alike`), what the part itself could do (`capability`), and what the other end of its cable is set to
//! (`cables`). What is not known is not compared: unreadable is no drift. One who deviates among two is nobody's fault that could be
//! named, so ties are inconclusive. What changed since an earlier inventory (`changes`) is apart from what differs now.
//! In a run, every value that deviates is set against what was slow (`measured`, `effect`, `joined`).

mod alike;
mod cables;
mod capability;
mod changes;
mod detector;
mod effect;
mod golden;
mod joined;
mod ledger;
mod majority;
mod measured;
mod parts;
mod rules;
mod unreadable;
mod words;

pub(super) use changes::between as changes_between;
pub use changes::{IDENTITY, MAY_CHANGE};
pub(super) use detector::{FirmwareDrift, of_run};
pub(super) use joined::explain_slow;
pub use rules::{RULES, Rule, Scope};
pub use words::{basis_in_words, by_node, effect_of, exit_code, findings, of_trait, places};

use std::collections::BTreeSet;

use ledger::Ledger;
use parts::Parts;
use record::{Drift, Inventory};
use topology::suite::Golden;

/// What an inventory says: who deviates, where that cannot be told, what changed since `before`, what could not be read.
pub fn judge(inventory: &Inventory, golden: Option<&Golden>, before: Option<&Inventory>) -> Drift {
    let parts = Parts::of(inventory);
    let mut ledger = Ledger::default();
    let verdict = golden.map_or_else(golden::Verdict::default, |golden| {
        golden::compare(golden, &parts, &mut ledger)
    });
    if let Some(golden) = golden {
        golden::compatible(golden, &parts, &mut ledger);
    }
    for rule in RULES {
        alike::compare(rule, &parts, &verdict.settled, &mut ledger);
    }
    capability::compare(&parts, &verdict.settled, &mut ledger);
    cables::compare(inventory, &parts, &verdict.settled, &mut ledger);
    let (deviations, disagreements) = ledger.into_parts();
    let spoken_of = golden.map_or_else(BTreeSet::new, golden::facts);
    Drift {
        nodes: (inventory.nodes.len() + inventory.switches.len()) as u32,
        golden: golden.map(|golden| golden.origin.clone()),
        deviations,
        disagreements,
        since: before.map(|before| before.taken.clone()),
        changes: before.map_or_else(Vec::new, |before| changes::between(before, inventory)),
        unreadable: unreadable::of(&parts, &spoken_of),
        unused: verdict.unused,
        traits: Vec::new(),
        troubles: Vec::new(),
    }
}

#[cfg(any(test, feature = "fixtures"))]
pub mod fixture;
#[cfg(test)]
mod proofs;
