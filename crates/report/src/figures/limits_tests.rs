//! What figures do with names that are attacks, and with more failing parts than they have room for.

use super::all;
use super::tests::{check, find, runs, watched, with_links};
use crate::figure::Figure;
use judge::findings::fixture::{Fixture, HEALTHY, spec};
use judge::findings::judge;
use record::LinkCoverage;

#[test]
fn no_name_is_obeyed_in_any_figure() {
    let attacks = [
        "</text></svg><script>alert(1)</script><img src=x onerror=alert(1)>",
        "\"' onload=\"alert(1)\" opacity=\"1\" x='",
        "\u{1b}[2J\u{202e}\u{0}\u{200b}\u{ffff}\n# x",
        "->/->/",
        &"x".repeat(5000),
    ];
    for attack in attacks {
        for mut recorded in runs() {
            let mut judgement = with_links(&recorded);
            let hostile = |name: &mut String| *name = format!("{name}{attack}");
            recorded
                .run
                .hosts
                .iter_mut()
                .for_each(|host| hostile(&mut host.name));
            recorded
                .run
                .ranks
                .iter_mut()
                .for_each(|rank| hostile(&mut rank.host));
            recorded
                .run
                .tests
                .iter_mut()
                .for_each(|test| hostile(&mut test.name));
            for cell in recorded
                .run
                .cells
                .iter_mut()
                .chain(judgement.cells.iter_mut().map(|cell| &mut cell.cell))
            {
                hostile(&mut cell.test);
                cell.rails.iter_mut().for_each(hostile);
            }
            for link in &mut judgement.coverage.links {
                hostile(&mut link.link);
                hostile(&mut link.cable);
                link.rail.iter_mut().for_each(hostile);
            }
            for one in &mut judgement.interference {
                hostile(&mut one.rail);
                hostile(&mut one.test);
            }
            for gpu in &mut judgement.gpus {
                gpu.hosts.iter_mut().for_each(hostile);
            }
            let figures = all(&recorded, &judgement).unwrap();
            assert!(figures.len() >= 3, "{}", figures.len());
            check(&figures);
            for Figure { id, svg, .. } in &figures {
                let known = ["svg", "rect", "text", "polyline", "circle", "polygon"];
                for piece in svg.split('<').skip(1) {
                    let name = piece
                        .trim_start_matches('/')
                        .split([' ', '>', '/', '\n'])
                        .next()
                        .unwrap_or_default();
                    assert!(known.contains(&name), "{id}: <{piece}");
                }
                assert!(
                    !svg.contains(['\u{1b}', '\u{202e}', '\0', '\u{200b}', '\u{ffff}']),
                    "{id}"
                );
                assert!(!svg.contains("onload=\"") && !svg.contains("# x\n"), "{id}");
                assert!(svg.len() < 200_000, "{id}: {} bytes", svg.len());
            }
        }
    }
}

#[test]
fn what_fails_and_finds_no_room_in_a_picture_is_named_in_words() {
    // Ten rails, all of them slow at node02's cable.
    let recorded = Fixture::pairs(4).recorded();
    let mut judgement = with_links(&recorded);
    let links = std::mem::take(&mut judgement.coverage.links);
    for rail in 0..10 {
        judgement
            .coverage
            .links
            .extend(links.iter().map(|link| LinkCoverage {
                link: link.link.replace("/rail0", &format!("/rail{rail}")),
                rail: Some(format!("rail{rail}")),
                ..link.clone()
            }));
    }
    let figures = all(&recorded, &judgement).unwrap();
    let words: String = figures
        .iter()
        .filter(|figure| figure.id.starts_with("topology-"))
        .map(|figure| figure.alternative.as_str())
        .collect();
    for rail in 0..10 {
        assert!(
            words.contains(&format!("node02/rail{rail}->leaf1/p2 slow")),
            "{words}"
        );
    }
    assert!(
        find(&figures, "topology-7")
            .caption
            .contains("2 more rails not drawn")
    );
    // A dozen GPUs in trouble.
    let recorded = watched();
    let mut judgement = judge(&recorded);
    let hot = judgement
        .gpus
        .iter()
        .find(|gpu| gpu.ranks == [2])
        .unwrap()
        .clone();
    for rank in 10..22 {
        let mut gpu = hot.clone();
        (gpu.uuid, gpu.ranks) = (format!("GPU-{rank}"), vec![rank]);
        judgement.gpus.push(gpu);
    }
    let figures = all(&recorded, &judgement).unwrap();
    let gpus = find(&figures, "gpus");
    for rank in 10..22 {
        assert!(
            gpus.alternative.contains(&format!("(GPU-{rank})")),
            "{}",
            gpus.alternative
        );
    }
    assert!(
        gpus.caption.contains("Clocks of 13 GPUs were throttled"),
        "{}",
        gpus.caption
    );
    // Twelve rails below what a spec demands.
    let recorded = Fixture::rails(12)
        .references(vec![spec(HEALTHY, 0)])
        .speed(|_, _| 0.5 * HEALTHY)
        .recorded();
    let figures = all(&recorded, &judge(&recorded)).unwrap();
    let rates = find(&figures, "bandwidth-0");
    for rail in 0..12 {
        assert!(
            rates
                .alternative
                .contains(&format!("rail{rail}, 16 MiB, 4 ranks: 0.50 GB/s")),
            "{}",
            rates.alternative
        );
    }
    assert!(
        rates.caption.contains("4 more lines are not drawn"),
        "{}",
        rates.caption
    );
}
