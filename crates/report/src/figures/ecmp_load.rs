//! `ecmp-load.svg`: the load of each of several equal-cost paths against the band of a fair hash, a panel per group.
//!
//! Readable without colour: a bar has a thick edge where it lies outside its bracket and a thin one where it lies within; the bracket is
//! where 99 of 100 healthy fabrics lie; a diamond is what the switch's own counters say; the path that is named has an exclamation mark. What is wrong comes first; what is not drawn is counted.

use std::io;

use super::canvas::{Canvas, DrawResult, HEAD_ROOM, Stroke, TextLook, clip, drawing, titled};
use super::frame::{Frame, Scale};
use super::palette::{EDGE, INK, PALE, PAPER, WARM};
use crate::ecmp::groups::{MOST_PANELS, counted_shares, in_order, in_words, is_outside, p_text, port_of};
use crate::figure::{Figure, FigureKind};
use crate::writer::Writer;
use record::text::{counted, whole_percent};
use record::{EcmpVerdict, Judgement, MemberLoad, Recorded, files};

/// Most paths of a group drawn.
const MOST_BARS: usize = 32;
/// A panel, and the lines below all of them, in pixels.
const PANEL: (i32, i32) = (480, 224);
const FOOT: i32 = 46;
/// Widest step from one bar to the next.
const WIDEST: f64 = 120.0;
/// Room around the bars of a panel: left, top, right, bottom.
const MARGINS: (i32, i32, i32, i32) = (54, 46, 14, 24);

const TITLE: &str = "Load on equal-cost paths";

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
        let groups = compared(judgement);
        let panels = Panels::of(&groups);
        let title = match groups.len() - panels.groups.len() {
            0 => TITLE.to_string(),
            more => format!("{TITLE} ({more} more groups not drawn)"),
        };
        titled(panels.size(), &title, Some(&in_words(judgement)), |canvas| {
            panels.draw(canvas)
        })
    }
}

impl FigureKind for EcmpLoad {
    fn figures(&self, _: &Recorded, judgement: &Judgement) -> io::Result<Vec<Figure>> {
        let groups = compared(judgement);
        if groups.is_empty() {
            return Ok(Vec::new());
        }
        let panels = Panels::of(&groups);
        let faulty = groups.iter().filter(|group| group.cause.is_fault()).count();
        let left_out = match groups.len().saturating_sub(MOST_PANELS) {
            0 => String::new(),
            more => {
                format!(" {more} more groups are not drawn; those that differ from a fair hash come first.")
            }
        };
        Ok(vec![Figure {
            id: "ecmp-load".to_string(),
            svg: drawing(panels.size(), TITLE, |canvas| panels.draw(canvas))?,
            title: TITLE.to_string(),
            caption: format!(
                "Share of flows on each of several equal-cost paths. {faulty} of {} are not spread as a fair hash would. A bar outside its bracket has a thick edge; the path named by a finding has an exclamation mark.{left_out}",
                counted(groups.len(), "group")
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
            "{} {} (fair hash: {} to {})",
            member.link,
            whole_percent(member.share),
            whole_percent(low),
            whole_percent(high)
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
            p_text(group.p_value),
            group.sentence,
            outside.join(", ")
        )
    };
    let (faulty, others): (Vec<&&EcmpVerdict>, Vec<&&EcmpVerdict>) =
        groups.iter().partition(|group| group.cause.is_fault());
    let mut sentences: Vec<String> = faulty.iter().map(fault).collect();
    let shown = others.iter().take(MOST_PANELS).map(|group| {
        let shares: Vec<String> = group
            .members
            .iter()
            .take(MOST_BARS)
            .map(|member| whole_percent(member.share))
            .collect();
        format!(
            "{}: {}, {}: {}",
            who(group),
            group.cause,
            p_text(group.p_value),
            shares.join(", ")
        )
    });
    sentences.extend(shown);
    if others.len() > MOST_PANELS {
        sentences.push(format!(
            "{} more groups, none at fault",
            others.len() - MOST_PANELS
        ));
    }
    sentences.join("; ")
}

/// The groups that are drawn, in rows of panels.
struct Panels<'a> {
    groups: &'a [&'a EcmpVerdict],
    rows: i32,
    columns: i32,
}

impl<'a> Panels<'a> {
    fn of(groups: &'a [&'a EcmpVerdict]) -> Panels<'a> {
        let groups = &groups[..groups.len().min(MOST_PANELS)];
        let columns = groups.len().clamp(1, 2);
        Panels {
            groups,
            rows: groups.len().div_ceil(columns).max(1) as i32,
            columns: columns as i32,
        }
    }

    fn size(&self) -> (u32, u32) {
        // A single panel still has room for the lines below it.
        let width = (self.columns * PANEL.0).max(720);
        (width as u32, HEAD_ROOM + (self.rows * PANEL.1 + FOOT) as u32)
    }

    fn draw(&self, canvas: &Canvas<'_>) -> DrawResult {
        let (width, _) = self.size();
        let panel = (width as i32 / self.columns, PANEL.1);
        for (number, group) in (0..).zip(self.groups) {
            let (row, column) = (number / self.columns, number % self.columns);
            let corner = (column * panel.0, HEAD_ROOM as i32 + row * panel.1);
            draw_panel(&canvas.part(corner, panel), panel, group)?;
        }
        let legend = [
            "bar: share of all flows (thick edge: outside the bracket); bracket: 99 % of fair hashes;",
            "diamond: share of the bytes that the switch counted; x: no flow delivered anything; !: the path in the finding",
        ];
        let foot = HEAD_ROOM as i32 + self.rows * PANEL.1;
        for (line, text) in (0..).zip(legend) {
            canvas.text((16, foot + 12 + 17 * line), text, TextLook::NOTE.size(11.0))?;
        }
        Ok(())
    }
}

/// Where the bars of a panel are: a bar is one wide on the scale of the frame.
fn frame_of((width, height): (i32, i32), members: &[&MemberLoad], counted: &[Option<f64>]) -> Frame {
    let (left, top, right, bottom) = MARGINS;
    let shares = members.iter().flat_map(|member| [member.share, member.band.1]);
    let highest = shares
        .chain(counted.iter().flatten().copied())
        .filter(|share| share.is_finite())
        .fold(0.05, f64::max);
    let right = width - right;
    let room = f64::from(right - left);
    let step = (room / members.len().max(1) as f64).min(WIDEST);
    Frame {
        left,
        right,
        top,
        bottom: height - bottom,
        x: Scale::linear(0.0, room / step),
        y: Scale::linear(0.0, (highest * 1.1).min(1.05)),
    }
}

fn draw_panel(panel: &Canvas<'_>, size: (i32, i32), group: &EcmpVerdict) -> DrawResult {
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
        p_text(group.p_value)
    );
    panel.text((12, 14), &clip(&title, 72), TextLook::LEFT.bold())?;
    let frame = frame_of(size, &members, &counted);
    let ticks = frame
        .y
        .ticks(5)
        .into_iter()
        .map(|share| (share, whole_percent(share)));
    frame.draw(panel, &[], &ticks.collect::<Vec<_>>(), "share of flows")?;
    for (bar, (member, counted)) in members.iter().zip(&counted).enumerate() {
        let is_named = group.cause.is_fault() && group.part.as_ref() == Some(&member.link);
        draw_bar(panel, &frame, bar, member, is_named)?;
        if let Some(share) = counted {
            diamond(panel, frame.at(bar as f64 + 0.72, *share))?;
        }
    }
    Ok(())
}

fn draw_bar(
    panel: &Canvas<'_>,
    frame: &Frame,
    bar: usize,
    member: &MemberLoad,
    is_named: bool,
) -> DrawResult {
    let x = |part: f64| frame.x_of(bar as f64 + part);
    let (left, top) = (x(0.15), frame.y_of(member.share));
    let (right, bottom) = (x(0.6), frame.bottom);
    let (face, edge, width) = match is_outside(member) {
        true => (WARM, INK, 3),
        false => (PALE, EDGE, 1),
    };
    panel.fill_rect([(left, top), (right, bottom)], face)?;
    let outline = [(left, bottom), (left, top), (right, top), (right, bottom)];
    panel.line(&outline, edge, Stroke::Solid(width))?;
    let middle = x(0.375);
    let (low, high) = (frame.y_of(member.band.0), frame.y_of(member.band.1));
    for line in [
        [(middle, low), (middle, high)],
        [(x(0.22), low), (x(0.53), low)],
        [(x(0.22), high), (x(0.53), high)],
    ] {
        panel.line(&line, INK, Stroke::Solid(2))?;
    }
    if member.delivering == 0 && (member.flows > 0 || is_named) {
        panel.cross((middle, bottom - 8), INK)?;
    }
    let room = ((x(1.0) - x(0.0)) / 7) as usize;
    // Where labels would run into each other every fourth is enough to find one's way.
    let is_crowded = room < 3;
    let room = if is_crowded { 4 * room } else { room };
    let mark = if is_named { "! " } else { "" };
    let label = clip(&format!("{mark}{}", port_of(&member.link)), room.clamp(1, 12));
    if !is_crowded || is_named || bar.is_multiple_of(4) {
        panel.text((x(0.12), bottom + 12), &label, TextLook::LEFT.size(10.0))?;
    }
    Ok(())
}

fn diamond(panel: &Canvas<'_>, (x, y): (i32, i32)) -> DrawResult {
    let corners = [(x, y - 5), (x + 5, y), (x, y + 5), (x - 5, y), (x, y - 5)];
    panel.polygon(&corners, PAPER)?;
    panel.line(&corners, INK, Stroke::Solid(1))
}

/// The paths to draw, in their order: all, or those farthest outside their band.
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
