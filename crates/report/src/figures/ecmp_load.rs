//! `ecmp-load.svg`: the load of every one of several equal paths against what chance allows, a panel per group.
//!
//! Readable without colour: a bar has a thick edge where it lies outside its bracket and a thin one where it lies within; the bracket is
//! where 99 of 100 healthy fabrics lie; a diamond is what the switch's own counters say; the path that is named has an exclamation mark. What is wrong comes first; what is not drawn is counted.

use std::io;

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;

use super::canvas::{clip, finished};
use super::palette::{EDGE, GRID, INK, PALE, PAPER, WARM};
use super::percent;
use crate::ecmp::{chance, counted_shares, in_order, in_words, is_outside, short};
use crate::figure::{Drawing, Figure};
use crate::{Writer, escape};
use record::{EcmpVerdict, Judgement, MemberLoad, Recorded, files};

/// Most groups drawn.
pub(crate) const MOST_PANELS: usize = 8;
/// Most paths of a group drawn.
const MOST_BARS: usize = 32;
/// A panel, and the lines above and below all of them, in pixels.
const PANEL: (u32, u32) = (480, 210);
const HEAD: u32 = 34;
const FOOT: u32 = 46;
/// Widest step from one bar to the next.
const WIDEST: f64 = 120.0;
/// Room around the bars of a panel: left, top, right, bottom.
const MARGINS: (i32, i32, i32, i32) = (46, 30, 14, 24);

/// The picture of loads.
pub(crate) struct EcmpLoad;

impl Writer for EcmpLoad {
    fn file(&self) -> &'static str {
        files::ECMP
    }

    fn is_wanted(&self, judgement: &Judgement) -> bool {
        !judgement.ecmp.is_empty()
    }

    fn render(&self, _: &Recorded, judgement: &Judgement) -> io::Result<String> {
        Ok(with_words(&picture(judgement)?, &in_words(judgement)))
    }
}

impl Drawing for EcmpLoad {
    fn figures(&self, _: &Recorded, judgement: &Judgement) -> io::Result<Vec<Figure>> {
        let groups = compared(judgement);
        if groups.is_empty() {
            return Ok(Vec::new());
        }
        let title = "Load of equal paths".to_string();
        let faulty = groups.iter().filter(|group| group.cause.is_fault()).count();
        let left_out = match groups.len().saturating_sub(MOST_PANELS) {
            0 => String::new(),
            more => format!(" {more} more groups are not drawn; those that are not as by chance come first."),
        };
        Ok(vec![Figure {
            id: "ecmp-load".to_string(),
            svg: finished(&picture(judgement)?, &title),
            title,
            caption: format!(
                "Share of flows on each of several equal paths. {faulty} of {} are not spread as by chance. A bar outside of its bracket has a thick edge; the path that is named has an exclamation mark.{left_out}",
                super::count(groups.len(), "group")
            ),
            alternative: all_in_words(&groups),
        }])
    }
}

/// The groups with more than one path: a single path has nothing to be compared with.
fn compared(judgement: &Judgement) -> Vec<&EcmpVerdict> {
    let mut groups = in_order(judgement);
    groups.retain(|group| group.members.len() != 1);
    groups
}

/// Every group that is at fault with the paths that stand out, then how the others did.
fn all_in_words(groups: &[&EcmpVerdict]) -> String {
    let who = |group: &EcmpVerdict| group.switch.clone().unwrap_or_else(|| group.rail.clone());
    let member = |member: &MemberLoad| {
        let (low, high) = member.band;
        format!(
            "{} {} (by chance {} to {})",
            member.link,
            percent(member.share),
            percent(low),
            percent(high)
        )
    };
    let fault = |group: &&&EcmpVerdict| {
        let mut outside: Vec<&MemberLoad> =
            group.members.iter().filter(|member| is_outside(member)).collect();
        outside.truncate(MOST_BARS);
        let outside: Vec<String> = outside.into_iter().map(member).collect();
        format!(
            "{}: {}, {}. {} {}",
            who(group),
            group.cause,
            chance(group.p_value),
            group.sentence,
            outside.join(", ")
        )
    };
    let (faulty, others): (Vec<&&EcmpVerdict>, Vec<&&EcmpVerdict>) =
        groups.iter().partition(|group| group.cause.is_fault());
    let mut words: Vec<String> = faulty.iter().map(fault).collect();
    let shown = others.iter().take(MOST_PANELS).map(|group| {
        let shares: Vec<String> = group
            .members
            .iter()
            .take(MOST_BARS)
            .map(|member| percent(member.share))
            .collect();
        format!(
            "{}: {}, {}: {}",
            who(group),
            group.cause,
            chance(group.p_value),
            shares.join(", ")
        )
    });
    words.extend(shown);
    if others.len() > MOST_PANELS {
        words.push(format!(
            "{} more groups, none at fault",
            others.len() - MOST_PANELS
        ));
    }
    words.join("; ")
}

fn picture(judgement: &Judgement) -> io::Result<String> {
    let groups = compared(judgement);
    let drawn = &groups[..groups.len().min(MOST_PANELS)];
    let columns = drawn.len().clamp(1, 2) as u32;
    let rows = (drawn.len() as u32).div_ceil(columns).max(1);
    // A single panel still has room for the lines around it.
    let size = ((columns * PANEL.0).max(720), HEAD + rows * PANEL.1 + FOOT);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        draw(&area, drawn, groups.len(), (rows, columns))
            .map_err(|error| io::Error::other(error.to_string()))?;
    }
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;

fn draw(area: &Area<'_>, groups: &[&EcmpVerdict], all: usize, (rows, columns): (u32, u32)) -> Drawn {
    area.fill(&PAPER)?;
    let more = match all - groups.len() {
        0 => String::new(),
        more => format!(" ({more} more groups not drawn)"),
    };
    area.draw(&Text::new(
        format!("Share of flows on each of several equal paths{more}"),
        (16, 10),
        ("sans-serif", 18),
    ))?;
    let (_, rest) = area.split_vertically(HEAD);
    let (panels, foot) = rest.split_vertically(rows * PANEL.1);
    for (panel, group) in panels
        .split_evenly((rows as usize, columns as usize))
        .iter()
        .zip(groups)
    {
        draw_panel(panel, group)?;
    }
    let legend = [
        "bar: share of all flows (thick edge: outside the bracket); bracket: where 99 of 100 healthy fabrics lie;",
        "diamond: share of the bytes that the switch counted; x: no flow of it delivered anything; !: the path that is named",
    ];
    for (line, text) in (0..).zip(legend) {
        foot.draw(&Text::new(text, (16, 6 + 17 * line), ("sans-serif", 13)))?;
    }
    area.present()
}

/// Where things are in a panel.
struct Frame {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    highest: f64,
    step: f64,
}

impl Frame {
    fn of(panel: &Area<'_>, members: &[&MemberLoad], counted: &[Option<f64>]) -> Frame {
        let (width, height) = panel.dim_in_pixel();
        let (left, top, right, bottom) = MARGINS;
        let shares = members.iter().flat_map(|member| [member.share, member.band.1]);
        let highest = shares
            .chain(counted.iter().flatten().copied())
            .filter(|share| share.is_finite())
            .fold(0.05, f64::max);
        let right = width as i32 - right;
        Frame {
            left,
            right,
            top,
            bottom: height as i32 - bottom,
            highest: (highest * 1.1).min(1.05),
            step: (f64::from(right - left) / members.len().max(1) as f64).min(WIDEST),
        }
    }

    fn y(&self, share: f64) -> i32 {
        let part = (share / self.highest).clamp(0.0, 1.0);
        self.bottom - (part * f64::from(self.bottom - self.top)) as i32
    }

    fn x(&self, bar: usize, part: f64) -> i32 {
        self.left + ((bar as f64 + part) * self.step) as i32
    }
}

fn draw_panel(panel: &Area<'_>, group: &EcmpVerdict) -> Drawn {
    let all_counted = counted_shares(&group.members);
    let chosen = chosen(&group.members);
    let members: Vec<&MemberLoad> = chosen.iter().map(|at| &group.members[*at]).collect();
    let counted: Vec<Option<f64>> = chosen.iter().map(|at| all_counted[*at]).collect();
    let more = match group.members.len() - members.len() {
        0 => String::new(),
        more => format!(" ({more} paths not drawn)"),
    };
    let who = group.switch.as_deref().unwrap_or(&group.rail);
    let title = format!(
        "{}: {}, {}{more}",
        clip(who, 32),
        group.cause,
        chance(group.p_value)
    );
    panel.draw(&Text::new(clip(&title, 78), (12, 8), ("sans-serif", 14)))?;
    let frame = Frame::of(panel, &members, &counted);
    draw_axes(panel, &frame)?;
    for (bar, (member, counted)) in members.iter().zip(&counted).enumerate() {
        let is_named = group.cause.is_fault() && group.part.as_ref() == Some(&member.link);
        draw_bar(panel, &frame, bar, member, is_named)?;
        if let Some(share) = counted {
            diamond(panel, frame.x(bar, 0.72), frame.y(*share))?;
        }
    }
    Ok(())
}

fn draw_axes(panel: &Area<'_>, frame: &Frame) -> Drawn {
    for share in ticks(frame.highest) {
        let y = frame.y(share);
        panel.draw(&PathElement::new([(frame.left, y), (frame.right, y)], GRID))?;
        panel.draw(&Text::new(
            format!("{:.0} %", share * 100.0),
            (8, y - 6),
            ("sans-serif", 12),
        ))?;
    }
    panel.draw(&PathElement::new(
        [(frame.left, frame.bottom), (frame.right, frame.bottom)],
        INK,
    ))
}

fn draw_bar(panel: &Area<'_>, frame: &Frame, bar: usize, member: &MemberLoad, is_named: bool) -> Drawn {
    let corners = [
        (frame.x(bar, 0.15), frame.y(member.share)),
        (frame.x(bar, 0.6), frame.bottom),
    ];
    let (face, edge) = match is_outside(member) {
        true => (WARM, INK.stroke_width(3)),
        false => (PALE, EDGE.stroke_width(1)),
    };
    panel.draw(&Rectangle::new(corners, face.filled()))?;
    // Drawn as a line: rectangles have thin edges, whatever is asked for.
    let [(left, top), (right, bottom)] = corners;
    let outline = [(left, bottom), (left, top), (right, top), (right, bottom)];
    panel.draw(&PathElement::new(outline, edge))?;
    let (low, high) = (frame.y(member.band.0), frame.y(member.band.1));
    let middle = frame.x(bar, 0.375);
    let (from, to) = (frame.x(bar, 0.22), frame.x(bar, 0.53));
    for stroke in [
        [(middle, low), (middle, high)],
        [(from, low), (to, low)],
        [(from, high), (to, high)],
    ] {
        panel.draw(&PathElement::new(stroke, INK.stroke_width(2)))?;
    }
    let at = (frame.x(bar, 0.375), frame.bottom);
    if member.delivering == 0 && (member.flows > 0 || is_named) {
        for stroke in [
            [(at.0 - 6, at.1 - 14), (at.0 + 6, at.1 - 2)],
            [(at.0 - 6, at.1 - 2), (at.0 + 6, at.1 - 14)],
        ] {
            panel.draw(&PathElement::new(stroke, INK.stroke_width(2)))?;
        }
    }
    let room = (frame.step / 7.0) as usize;
    // Where labels would run into each other every fourth is enough to find one's way.
    let is_crowded = room < 3;
    let room = if is_crowded { 4 * room } else { room };
    let mark = if is_named { "! " } else { "" };
    let label = clip(&format!("{mark}{}", short(&member.link)), room.clamp(1, 12));
    if !is_crowded || is_named || bar.is_multiple_of(4) {
        panel.draw(&Text::new(
            label,
            (frame.x(bar, 0.12), at.1 + 5),
            ("sans-serif", 12),
        ))?;
    }
    Ok(())
}

fn diamond(panel: &Area<'_>, x: i32, y: i32) -> Drawn {
    let corners = [(x, y - 5), (x + 5, y), (x, y + 5), (x - 5, y), (x, y - 5)];
    panel.draw(&Polygon::new(corners, PAPER.filled()))?;
    panel.draw(&PathElement::new(corners, INK.stroke_width(1)))
}

/// A few round shares up to the highest.
fn ticks(highest: f64) -> Vec<f64> {
    let steps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.25];
    let step = steps
        .into_iter()
        .find(|step| highest / step <= 5.0)
        .unwrap_or(0.25);
    (0..=5)
        .map(|n| f64::from(n) * step)
        .filter(|share| *share <= highest)
        .collect()
}

/// The paths to draw, in their order: all, or those farthest outside of what chance allows.
fn chosen(members: &[MemberLoad]) -> Vec<usize> {
    let beyond = |member: &MemberLoad| {
        let (low, high) = member.band;
        (member.share - high).max(low - member.share)
    };
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by(|a, b| beyond(&members[*b]).total_cmp(&beyond(&members[*a])));
    order.truncate(MOST_BARS);
    order.sort_unstable();
    order
}

/// Puts what the picture shows into it as text, where readers of screens look for it.
fn with_words(svg: &str, words: &str) -> String {
    let words = escape::line(words)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    match svg.split_once('>') {
        Some((head, rest)) if head.starts_with("<svg") => {
            format!("{head} role=\"img\">\n<title>Load of equal paths</title>\n<desc>{words}</desc>{rest}")
        }
        _ => svg.to_string(),
    }
}
