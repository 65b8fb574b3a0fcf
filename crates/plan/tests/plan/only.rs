//! `--only`: what it keeps, and what it says about the rest.

use super::*;

/// Choices with this `--only`.
fn only(text: &str) -> Choices {
    Choices {
        only: Some(text.parse().unwrap()),
        ..threads()
    }
}

#[test]
fn only_keeps_what_it_names_with_ids_unchanged_and_says_what_it_left_out() {
    let suite = Suite::load("smoke").unwrap();
    let fabric = fabric(4, 2, None);
    let whole = Plan::new(&suite, &fabric, &threads()).unwrap();
    let part = Plan::new(&suite, &fabric, &only("test=pairs,pair=1:0")).unwrap();
    assert_sound(&part, &fabric);
    assert_eq!(part.cells.len(), 3);
    assert!(part.cells.iter().all(|cell| whole.cell(cell.id) == Some(cell)));
    assert_eq!(part.tests.len(), 1);
    assert!(
        untested(&part).contains("cells of test `rails`: left out by --only"),
        "{}",
        untested(&part)
    );
    let one = Plan::new(&suite, &fabric, &only(&format!("cell={}", part.cells[1].id))).unwrap();
    assert_eq!(one.cells, [part.cells[1].clone()]);
}

#[test]
fn only_one_rail_of_a_measurement_together_keeps_the_company_that_makes_it_one() {
    let suite = suite("kind = \"rails\"\nsizes = [\"1M\"]");
    let plan = Plan::new(&suite, &fabric(2, 2, None), &only("rail=rail1")).unwrap();
    let together: Vec<_> = plan
        .cells
        .iter()
        .filter(|cell| cell.load == Load::Together)
        .collect();
    assert_eq!((plan.cells.len(), together.len()), (3, 2));
}

#[test]
fn hosts_can_be_named_in_a_filter() {
    let suite = suite("kind = \"pairs\"\nsizes = [\"1M\"]\ndirections = \"one-way\"");
    let choices = Choices {
        only: "pair=node02:node01".parse().ok(),
        ..Default::default()
    };
    let plan = Plan::new(&suite, &cluster(3, 1), &choices).unwrap();
    assert_eq!(plan.cells.len(), 2);
    assert!(
        plan.cells
            .iter()
            .all(|cell| cell.ranks.contains(&1) && cell.ranks.contains(&2))
    );
}

#[test]
fn a_filter_that_matches_nothing_says_what_there_is() {
    let suite = Suite::load("smoke").unwrap();
    let cases = [
        ("rail=rail9", "rail=rail9: there is rail0, rail1"),
        ("size=3M", "size=3M: there is 1 KiB, "),
        ("cell=99999", "cell=99999: there is cell 0 to "),
        ("pair=0:9", "pair=0:9: there is 0:1, 0:2"),
        (
            "test=rails,transport=shm",
            "each of its conditions matches some cell, but no cell matches all",
        ),
    ];
    for (text, wanted) in cases {
        let error = Plan::new(&suite, &fabric(4, 2, None), &only(text)).unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}
