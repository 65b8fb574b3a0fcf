//! The order of a burn-in's cycle: tests take turns, so that collectives and pairs load the fabric in alternation.

use record::Cell;

/// `cells` slot by slot, tests taking turns as evenly as their numbers of slots allow, beginning `turn` slots later each time:
/// nothing that comes and goes by the clock meets the same cells in every cycle.
pub fn interleaved(cells: &[Cell], turn: u32) -> Vec<Cell> {
    let slots: Vec<&[Cell]> = cells.chunk_by(|a, b| a.slot == b.slot).collect();
    let count = |test: &str| slots.iter().filter(|slot| slot[0].test == test).count();
    let mut seen: Vec<(&str, usize, usize)> = Vec::new();
    let mut placed: Vec<(f64, usize, &[Cell])> = Vec::with_capacity(slots.len());
    for slot in &slots {
        let test = slot[0].test.as_str();
        let position = seen.iter().position(|(name, ..)| *name == test);
        let position = position.unwrap_or_else(|| {
            seen.push((test, 0, count(test)));
            seen.len() - 1
        });
        let (_, before, all) = &mut seen[position];
        let place = (*before as f64 + 0.5) / *all as f64;
        *before += 1;
        placed.push((place, position, slot));
    }
    placed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let first = turn as usize % placed.len().max(1);
    placed.rotate_left(first);
    placed
        .into_iter()
        .flat_map(|(.., slot)| slot.iter().cloned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Choices, Plan};
    use probe::rails;
    use record::DeviceKind;
    use topology::Fabric;
    use topology::suite::Suite;

    #[test]
    fn tests_take_turns_and_nothing_is_lost_or_torn_apart() {
        let mut suite = Suite::load("smoke").unwrap();
        suite.run.rails = None;
        let fabric = Fabric::local(
            record::HostRecord::named("node"),
            4,
            DeviceKind::Host,
            rails::loopback().unwrap(),
        );
        let choices = Choices {
            same_process: true,
            ..Choices::default()
        };
        let cells = Plan::new(&suite, &fabric, &choices).unwrap().cells;
        let slots = |cells: &[Cell]| cells.chunk_by(|a, b| a.slot == b.slot).count();
        for turn in [0, 1, 7, 1_000_003] {
            let order = interleaved(&cells, turn);
            assert_eq!(slots(&order), slots(&cells), "turn {turn}");
            let mut ids: Vec<u32> = order.iter().map(|cell| cell.id).collect();
            ids.sort_unstable();
            let mut all: Vec<u32> = cells.iter().map(|cell| cell.id).collect();
            all.sort_unstable();
            assert_eq!(ids, all);
        }
        let changes = |cells: &[Cell]| cells.windows(2).filter(|two| two[0].test != two[1].test).count();
        assert!(changes(&interleaved(&cells, 0)) > 2 * changes(&cells));
        assert_ne!(interleaved(&cells, 0), interleaved(&cells, 1));
        assert!(interleaved(&[], 3).is_empty());
    }
}
