//! The inks of every figure, on light and on dark paper.
//!
//! A drawing names the light ink only; a page turns it dark by the rules of [`dark_rules`], without touching the drawing. Held true (tests
//! compute it): texts have a contrast of 4.5 or more against their paper and every face they may stand on, marks of 3 or more, in
//! both lights. No two inks are the same, so that a rule never means another one.

use std::fmt::Write;

use plotters::style::RGBColor;

/// What is drawn on.
pub const PAPER: RGBColor = RGBColor(255, 255, 255);
/// Text, axes, and everything that must stand out.
pub const INK: RGBColor = RGBColor(0, 0, 0);
/// Text that explains, and marks of what is as it should be.
pub const MUTED: RGBColor = RGBColor(82, 88, 96);
/// What is at fault.
pub const FAULT: RGBColor = RGBColor(176, 0, 32);
/// Edges of bars and bands.
pub const EDGE: RGBColor = RGBColor(0, 70, 130);
/// Lines that only guide the eye.
pub const GRID: RGBColor = RGBColor(214, 219, 225);
/// The face of a band or a bar that is as it should be.
pub const PALE: RGBColor = RGBColor(205, 222, 240);
/// The face of a bar that is not.
pub const WARM: RGBColor = RGBColor(246, 185, 140);
/// One ink per line of a chart; each line has its own marker as well.
pub const LINES: [RGBColor; 8] = [
    RGBColor(0, 90, 160),
    RGBColor(190, 60, 0),
    RGBColor(0, 120, 80),
    RGBColor(130, 0, 130),
    RGBColor(90, 90, 0),
    RGBColor(0, 122, 140),
    RGBColor(160, 0, 60),
    RGBColor(70, 70, 70),
];
/// Faces for shares of what is expected: as expected, nearly, below, far below, a fraction. The share stands on them as text.
pub const LEVELS: [RGBColor; 5] = [
    RGBColor(232, 241, 250),
    RGBColor(216, 228, 238),
    RGBColor(252, 228, 200),
    RGBColor(247, 190, 130),
    RGBColor(238, 140, 104),
];

/// What an ink is used for, which decides the contrast it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Letters, on paper and faces.
    Text,
    /// Lines and markers that mean something.
    Mark,
    /// What texts and marks stand on.
    Face,
    /// Nothing is lost without it.
    Guide,
}

/// Every ink: what it is for, how it is drawn, how it looks on dark paper.
const INKS: [(Role, RGBColor, RGBColor); 21] = [
    (Role::Face, PAPER, RGBColor(20, 23, 28)),
    (Role::Text, INK, RGBColor(232, 237, 243)),
    (Role::Mark, MUTED, RGBColor(170, 179, 189)),
    (Role::Mark, FAULT, RGBColor(255, 140, 140)),
    (Role::Mark, EDGE, RGBColor(143, 196, 255)),
    (Role::Guide, GRID, RGBColor(51, 58, 66)),
    (Role::Face, PALE, RGBColor(32, 52, 74)),
    (Role::Face, WARM, RGBColor(107, 63, 29)),
    (Role::Mark, LINES[0], RGBColor(108, 182, 255)),
    (Role::Mark, LINES[1], RGBColor(255, 158, 100)),
    (Role::Mark, LINES[2], RGBColor(90, 212, 160)),
    (Role::Mark, LINES[3], RGBColor(226, 155, 255)),
    (Role::Mark, LINES[4], RGBColor(214, 208, 106)),
    (Role::Mark, LINES[5], RGBColor(95, 215, 230)),
    (Role::Mark, LINES[6], RGBColor(255, 143, 176)),
    (Role::Mark, LINES[7], RGBColor(192, 198, 206)),
    (Role::Face, LEVELS[0], RGBColor(26, 36, 48)),
    (Role::Face, LEVELS[1], RGBColor(36, 50, 64)),
    (Role::Face, LEVELS[2], RGBColor(70, 50, 26)),
    (Role::Face, LEVELS[3], RGBColor(106, 60, 20)),
    (Role::Face, LEVELS[4], RGBColor(132, 42, 24)),
];

/// Rules of CSS that turn every figure of a page dark: to be put where a page asks for dark colours.
pub fn dark_rules() -> String {
    let mut rules = String::new();
    for (_, light, dark) in INKS {
        for kind in ["fill", "stroke"] {
            _ = writeln!(rules, "svg [{kind}=\"{}\"]{{{kind}:{}}}", hex(light), hex(dark));
        }
    }
    rules
}

/// As SVG and CSS write it.
pub(super) fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// The face for a share of what is expected.
pub(super) fn level(share: f64) -> RGBColor {
    let steps = [0.98, 0.95, 0.90, 0.75];
    let step = steps.iter().position(|step| share >= *step);
    LEVELS[step.unwrap_or(steps.len())]
}

/// The faces of [`level`] with what they stand for.
pub(super) fn legend_of_levels() -> [(RGBColor, &'static str); 5] {
    let words = [
        "98 % and more",
        "95 % and more",
        "90 % and more",
        "75 % and more",
        "below 75 %",
    ];
    std::array::from_fn(|at| (LEVELS[at], words[at]))
}

/// Every ink that a drawing may have, as it is written there.
#[cfg(test)]
pub(super) fn all_hex() -> Vec<String> {
    INKS.iter().map(|(_, light, _)| hex(*light)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::contrast_tests;

    fn contrast(a: RGBColor, b: RGBColor) -> f64 {
        contrast_tests::between([a.0, a.1, a.2], [b.0, b.1, b.2])
    }

    #[test]
    fn whoever_needs_contrast_can_read_texts_and_tell_marks_from_the_paper_in_both_lights() {
        for side in [0, 1] {
            let of = |(_, light, dark): &(Role, RGBColor, RGBColor)| [*light, *dark][side];
            let faces: Vec<RGBColor> = INKS.iter().filter(|ink| ink.0 == Role::Face).map(of).collect();
            let paper = faces[0];
            for ink in &INKS {
                let on = |needed: f64, faces: &[RGBColor]| {
                    for face in faces {
                        let has = contrast(of(ink), *face);
                        assert!(has >= needed, "{ink:?} on {face:?}, side {side}: {has:.2}");
                    }
                };
                match ink.0 {
                    Role::Text => on(4.5, &faces),
                    // Marks are named in their own ink in legends, so they are readable on paper as well.
                    Role::Mark => {
                        on(4.5, &[paper]);
                        on(3.0, &faces[..2]);
                    }
                    Role::Face | Role::Guide => {}
                }
            }
        }
    }

    #[test]
    fn a_rule_for_dark_paper_means_one_ink_and_every_ink_has_one() {
        let lights: BTreeSet<String> = all_hex().into_iter().collect();
        assert_eq!(lights.len(), INKS.len());
        let rules = dark_rules();
        assert_eq!(rules.lines().count(), 2 * INKS.len());
        for ink in lights {
            assert!(rules.contains(&format!("[fill=\"{ink}\"]")), "{ink}");
            assert!(rules.contains(&format!("[stroke=\"{ink}\"]")), "{ink}");
        }
    }
}
