//! What a reader would lose of the spread over equal paths, verdicts made by hand.

use std::path::Path;

use crate::terminal::{self, Page};
use crate::{WRITERS, write_all};
use judge::findings::fixture::Fixture;
use judge::findings::judge;
use record::units::{Bytes, Rate};
use record::{EcmpCause, EcmpVerdict, Judgement, MemberLoad, PairSpread, Recorded, files};

const HOSTILE: &str = "\u{1b}[2J<script>alert(1)</script>\n# pwned | [x](http://evil) `\u{202e}";

/// A group whose paths have these flows.
fn group(switch: &str, cause: EcmpCause, flows: &[u32]) -> EcmpVerdict {
    let all: u32 = flows.iter().sum();
    let member = |(index, flows): (usize, &u32)| MemberLoad {
        link: format!("{switch}/u{index}->rail0-spine{index}/d0"),
        flows: *flows,
        delivering: *flows,
        rate: Some(Rate(25e6)),
        expected: Some(Rate(26e6)),
        counted: Some(Bytes(u64::from(*flows) * 1000)),
        share: f64::from(*flows) / f64::from(all.max(1)),
        band: (0.4, 0.6),
    };
    EcmpVerdict {
        test: "spread".to_string(),
        rail: "rail0".to_string(),
        switch: Some(switch.to_string()),
        tier: 1,
        cause,
        part: None,
        sentence: format!("{switch} is {cause}"),
        flows: all,
        paths: flows.len() as u32,
        paths_used: flows.iter().filter(|flows| **flows > 0).count() as u32,
        statistic: "chi-square".to_string(),
        value: 12.5,
        null_median: 1.5,
        p_value: if cause.is_fault() { 1e-6 } else { 0.34 },
        lost: Some(0.12),
        max_over_mean: 1.21,
        counted_p_value: Some(0.5),
        members: flows.iter().enumerate().map(member).collect(),
        pairs: vec![PairSpread {
            from: "h0".to_string(),
            to: "h2".to_string(),
            flows: flows.to_vec(),
            unknown: 0,
            dead: 0,
        }],
        cells: vec![0],
        advice: "use more flows".to_string(),
    }
}

fn judged(groups: Vec<EcmpVerdict>) -> (Recorded, Judgement) {
    let recorded = Fixture::rails(2).recorded();
    let judgement = Judgement {
        ecmp: groups,
        ..judge(&recorded)
    };
    (recorded, judgement)
}

fn render(file: &str, (recorded, judgement): &(Recorded, Judgement)) -> String {
    let writer = WRITERS.iter().find(|writer| writer.file() == file).unwrap();
    writer.render(recorded, judgement).unwrap()
}

fn four_leaves() -> Vec<EcmpVerdict> {
    let healthy = |leaf: u32| {
        group(
            &format!("rail0-leaf{leaf}"),
            EcmpCause::ExpectedCollision,
            &[60, 68],
        )
    };
    (0..4).map(healthy).collect()
}

#[test]
fn healthy_leaves_are_one_line_and_one_example() {
    let scene = judged(four_leaves());
    let text = render(files::MARKDOWN, &scene);
    let line = "rail0, first tier: 4 switches, 512 flows over 2 paths each, as even as a fair hash: busiest 1.21 times the mean, p 0.34 or more";
    assert!(text.contains(line), "{text}");
    assert_eq!(text.matches("| h0 to h2 |").count(), 1, "{text}");
    assert!(
        text.contains(
            "| pair | u0 | u1 | unknown path | dead |\n|---|--:|--:|--:|--:|\n| h0 to h2 | 60 | 68 | 0 | 0 |"
        ),
        "{text}"
    );
    assert!(text.contains("(ecmp-load.svg)") && text.contains("expected-collision, the least even of 4\n"));
    assert_eq!(text.matches("use more flows").count(), 1, "said once: {text}");
}

#[test]
fn leaves_that_are_polarised_alike_are_one_line_with_the_worst_of_them() {
    let mut groups: Vec<EcmpVerdict> = (0..5)
        .map(|leaf| group(&format!("rail0-leaf{leaf}"), EcmpCause::Polarised, &[128, 0]))
        .collect();
    groups[3].lost = Some(0.4);
    let text = render(files::MARKDOWN, &judged(groups));
    let line = "- **polarised** (test spread, rail0): rail0-leaf0, rail0-leaf1, rail0-leaf2 and 2 more; the worst of them: rail0-leaf3 is polarised. *Next:* use more flows.";
    assert!(text.contains(line), "{text}");
}

#[test]
fn the_slow_path_is_marked_though_it_has_its_share_of_flows() {
    let mut groups = four_leaves();
    groups[1].cause = EcmpCause::SlowMember;
    groups[1].part = Some(groups[1].members[1].link.clone());
    assert!(render(files::ECMP, &judged(groups)).contains("! u1"));
    assert!(!render(files::ECMP, &judged(four_leaves())).contains("! u1"));
}

#[test]
fn a_polarised_leaf_comes_first_with_its_paths_its_flows_and_what_to_do() {
    let mut groups = four_leaves();
    groups[2] = group("rail0-leaf2", EcmpCause::Polarised, &[128, 0]);
    let scene = judged(groups);
    let text = render(files::MARKDOWN, &scene);
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}:\n{text}"));
    assert!(
        at("- **polarised** (test spread, rail0): rail0-leaf2 is polarised. *Next:* use more flows.")
            < at("3 switches, 384 flows")
    );
    assert!(
        at("| rail0-leaf2/u0-&gt;rail0-spine0/d0 | 128 | 128 | 100 % (!) | 40 % to 60 % | 125 KiB (100 %)")
            > 0
    );
    assert!(at("| h0 to h2 | 128 | 0 | 0 | 0 |") < at("| h0 to h2 | 60 | 68 | 0 | 0 |"));
    for page in [Page::terminal(false), Page::log()] {
        let shown = terminal::summary(&scene.1, Path::new("x"), page);
        let line = "ecmp       polarised: rail0-leaf2; 3 other groups with 384 flows as even as";
        assert!(shown.contains(line), "{shown}");
    }
}

#[test]
fn a_run_without_such_a_test_says_nothing_of_it_and_draws_nothing() {
    let scene = judged(Vec::new());
    assert!(!render(files::MARKDOWN, &scene).contains("equal paths"));
    assert!(!terminal::summary(&scene.1, Path::new("x"), Page::log()).contains("spread  "));
    let folder = tempfile::tempdir().unwrap();
    write_all(folder.path(), &scene.0, &scene.1).unwrap();
    assert!(!folder.path().join(files::ECMP).exists());
    write_all(folder.path(), &scene.0, &judged(four_leaves()).1).unwrap();
    assert!(folder.path().join(files::ECMP).exists());
}

#[test]
fn the_picture_shows_what_is_outside_without_colour_and_says_it_in_words() {
    let mut groups = four_leaves();
    groups[2] = group("rail0-leaf2", EcmpCause::Polarised, &[128, 0]);
    let svg = render(files::ECMP, &judged(groups));
    assert!(svg.contains("<desc>Share of flows on each path of 4 groups, with the 99 % band of a fair hash: rail0-leaf2 100 %, 0 %"), "{svg}");
    for part in [
        "role=\"img\"",
        "rail0-leaf2: polarised, p &lt; 0.001",
        "u1",
        "bracket: 99 % of fair hashes",
    ] {
        assert!(svg.contains(part), "{part}:\n{svg}");
    }
    assert_eq!(
        svg.matches("stroke-width=\"3\"").count(),
        2,
        "both of its paths are outside, and no other"
    );
    assert!(svg.find("rail0-leaf2:").unwrap() < svg.find("rail0-leaf0:").unwrap());
}

#[test]
fn a_path_on_which_everything_dies_is_crossed_out() {
    let healthy = render(files::ECMP, &judged(four_leaves()));
    let mut groups = four_leaves();
    groups[0].members[1].delivering = 0;
    let dead = render(files::ECMP, &judged(groups));
    assert_eq!(
        dead.matches("<polyline").count(),
        healthy.matches("<polyline").count() + 2
    );
}

#[test]
fn a_spine_with_paths_of_its_own_to_every_leaf_uses_no_more_than_it_has() {
    let mut spine = group("rail0-spine0", EcmpCause::PolarisedSecondTier, &[9, 0, 9, 0]);
    spine.paths = 2;
    spine.paths_used = 2;
    spine.tier = 2;
    let text = render(files::MARKDOWN, &judged(vec![spine]));
    assert!(text.contains("| polarised-second-tier | 18 | 2 of 4 |"), "{text}");
}

#[test]
fn unknown_counters_are_no_zeroes() {
    let mut groups = four_leaves();
    for member in &mut groups[0].members {
        member.counted = None;
    }
    groups[0].counted_p_value = None;
    groups.truncate(1);
    let scene = judged(groups);
    let text = render(files::MARKDOWN, &scene);
    assert!(text.contains("| 40 % to 60 % | - | 25.00 MB/s |"), "{text}");
    assert!(!render(files::ECMP, &scene).contains("<polygon"), "no diamonds");
}

#[test]
fn paths_that_nobody_knows_are_told_without_a_switch() {
    let mut unknown = group("x", EcmpCause::Unjudged, &[]);
    unknown.switch = None;
    unknown.pairs.clear();
    unknown.value = f64::NAN;
    let scene = judged(vec![unknown]);
    let text = render(files::MARKDOWN, &scene);
    assert!(
        text.contains("rail0, first tier: unknown paths, 0 flows over 0 paths, not judged: too few flows"),
        "{text}"
    );
    assert!(render(files::ECMP, &scene).contains("rail0: unjudged"));
}

#[test]
fn hostile_names_are_inert_in_every_writer() {
    let mut groups = vec![
        group(HOSTILE, EcmpCause::DeadMember, &[9, 1]),
        group(HOSTILE, EcmpCause::ExpectedCollision, &[5, 5]),
    ];
    for group in &mut groups {
        group.test = HOSTILE.into();
        group.rail = HOSTILE.into();
        group.part = Some(HOSTILE.into());
        group.sentence = HOSTILE.into();
        group.statistic = HOSTILE.into();
        group.advice = HOSTILE.into();
        group.pairs[0].from = HOSTILE.into();
        group.pairs[0].to = HOSTILE.into();
    }
    let scene = judged(groups);
    let (markdown, picture) = (render(files::MARKDOWN, &scene), render(files::ECMP, &scene));
    for live in ["<script", "[x](http", "pwned | ", " `"] {
        let outside_code: String = markdown.split("```").step_by(2).collect();
        assert!(!outside_code.contains(live), "{live:?}");
    }
    assert!(!picture.contains("<script"));
    for text in [
        &markdown,
        &picture,
        &terminal::summary(&scene.1, Path::new("x"), Page::log()),
    ] {
        for live in ["\u{1b}", "\n# pwned", "\u{202e}"] {
            assert!(!text.contains(live), "{live:?}");
        }
    }
    assert!(!render(files::FINDINGS, &scene).contains('\u{1b}'));
}

#[test]
fn a_fabric_of_512_leaves_with_32_paths_stays_small() {
    for cause in [EcmpCause::ExpectedCollision, EcmpCause::SlowMember] {
        let groups = (0..512).map(|leaf| {
            let mut group = group(&format!("leaf{leaf}"), cause, &[8; 40]);
            group.pairs = vec![group.pairs[0].clone(); 64];
            group
        });
        let scene = judged(groups.collect());
        let text = render(files::MARKDOWN, &scene);
        assert!(text.len() < 200_000, "{} bytes of Markdown", text.len());
        let svg = render(files::ECMP, &scene);
        assert!(svg.len() < 400_000, "{} bytes of picture", svg.len());
        assert!(
            svg.contains("504 more groups not drawn") && svg.contains("(8 paths not drawn)"),
            "{cause}"
        );
        assert!(text.contains("452 more in [findings.json]"), "{cause}");
        let shown = terminal::summary(&scene.1, Path::new("x"), Page::terminal(false));
        assert!(shown.lines().count() <= 24, "{shown}");
        let lines = shown.lines().skip_while(|line| !line.starts_with("ecmp"));
        let lines = lines.take_while(|line| !line.starts_with("coverage")).count();
        assert!((1..=2).contains(&lines), "{shown}");
    }
}
