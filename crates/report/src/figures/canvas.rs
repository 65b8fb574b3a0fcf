//! What figures are drawn with: lines, faces, markers and texts in pixels, each in an ink of the palette.
//!
//! The marks of all figures are defined here; [`super::svg`] writes them.

use std::convert::Infallible;
use std::io;

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::palette::{INK, MUTED, PAPER};
pub(super) use super::svg::Stroke;
use super::svg::{LINE_HEIGHT, StrokedPath, SvgBackend, SvgHead};
use crate::escape;

/// The outcome of drawing something.
pub(super) type DrawResult = Result<(), DrawingAreaErrorKind<Infallible>>;
/// A place in pixels.
pub(super) type Point = (i32, i32);

/// How a text looks and how it is aligned.
#[derive(Clone, Copy)]
pub(super) struct TextLook {
    size: f64,
    ink: RGBColor,
    side: HPos,
    bold: bool,
}

impl TextLook {
    /// Beginning at its place.
    pub(super) const LEFT: TextLook = TextLook {
        size: 12.0,
        ink: INK,
        side: HPos::Left,
        bold: false,
    };
    /// Ending at its place.
    pub(super) const RIGHT: TextLook = TextLook {
        side: HPos::Right,
        ..TextLook::LEFT
    };
    /// Around its place.
    pub(super) const MIDDLE: TextLook = TextLook {
        side: HPos::Center,
        ..TextLook::LEFT
    };
    /// What explains.
    pub(super) const NOTE: TextLook = TextLook {
        ink: MUTED,
        ..TextLook::LEFT
    };
    /// What a part of a drawing is about.
    pub(super) const HEAD: TextLook = TextLook {
        size: 14.0,
        bold: true,
        ..TextLook::LEFT
    };

    /// The same in another ink.
    pub(super) const fn ink(self, ink: RGBColor) -> TextLook {
        TextLook { ink, ..self }
    }

    /// The same in letters of another size.
    pub(super) const fn size(self, size: f64) -> TextLook {
        TextLook { size, ..self }
    }

    /// The same in bold letters.
    pub(super) const fn bold(self) -> TextLook {
        TextLook { bold: true, ..self }
    }
}

/// A drawing in progress, or a part of one with places of its own.
pub(super) struct Canvas<'a> {
    area: DrawingArea<SvgBackend<'a>, Shift>,
}

/// Height at the top of every drawing that is reserved for the title of a file.
pub(super) const HEAD_ROOM: u32 = 34;

/// A finished drawing of this size in pixels, called by this name. The room for a title is cut off: a page has its own.
pub(super) fn drawing(
    size: (u32, u32),
    name: &str,
    paint: impl FnOnce(&Canvas<'_>) -> DrawResult,
) -> io::Result<String> {
    let head = SvgHead {
        size,
        cropped: HEAD_ROOM,
        name,
        description: None,
    };
    painted(&head, paint)
}

/// The same with its title and what it shows in words, for a file of its own.
pub(super) fn titled(
    size: (u32, u32),
    title: &str,
    description: Option<&str>,
    paint: impl FnOnce(&Canvas<'_>) -> DrawResult,
) -> io::Result<String> {
    let head = SvgHead {
        size,
        cropped: 0,
        name: title,
        description,
    };
    painted(&head, |canvas| {
        canvas.text((16, 20), &clip(title, 110), TextLook::HEAD)?;
        paint(canvas)
    })
}

fn painted(head: &SvgHead<'_>, paint: impl FnOnce(&Canvas<'_>) -> DrawResult) -> io::Result<String> {
    let mut svg = String::new();
    let area = SvgBackend::new(&mut svg, head).into_drawing_area();
    let canvas = Canvas { area };
    let painted = canvas.area.fill(&PAPER).and_then(|()| paint(&canvas));
    let painted = painted.and_then(|()| canvas.area.present());
    drop(canvas);
    painted.map_err(|error| io::Error::other(error.to_string()))?;
    Ok(svg)
}

/// Inert text of at most so many characters.
pub(super) fn clip(text: &str, most: usize) -> String {
    let text = escape::line(text);
    match text.chars().count() > most {
        true => text
            .chars()
            .take(most.saturating_sub(1))
            .chain(['\u{2026}'])
            .collect(),
        false => text,
    }
}

impl<'a> Canvas<'a> {
    /// A part of it, whose places begin at this corner.
    pub(super) fn part(&self, corner: Point, size: Point) -> Canvas<'a> {
        let area = self.area.clone().shrink(corner, size);
        Canvas { area }
    }

    /// A text whose middle is as high as its place.
    pub(super) fn text(&self, at: Point, text: &str, look: TextLook) -> DrawResult {
        let font = ("sans-serif", look.size * LINE_HEIGHT).into_font();
        let font = match look.bold {
            true => font.style(FontStyle::Bold),
            false => font,
        };
        let style = TextStyle::from(font)
            .color(&look.ink)
            .pos(Pos::new(look.side, VPos::Center));
        self.area.draw(&Text::new(text.to_string(), at, style))
    }

    /// A line through these places.
    pub(super) fn line(&self, places: &[Point], ink: RGBColor, stroke: Stroke) -> DrawResult {
        match places {
            [] | [_] => Ok(()),
            places => self.area.draw(&StrokedPath { places, ink, stroke }),
        }
    }

    /// A face between two corners.
    pub(super) fn fill_rect(&self, corners: [Point; 2], face: RGBColor) -> DrawResult {
        self.area.draw(&Rectangle::new(corners, face.filled()))
    }

    /// A face around these corners.
    pub(super) fn polygon(&self, corners: &[Point], face: RGBColor) -> DrawResult {
        match corners.len() < 3 {
            true => Ok(()),
            false => self.area.draw(&Polygon::new(corners.to_vec(), face.filled())),
        }
    }

    /// The edge of a rectangle.
    pub(super) fn outline(
        &self,
        [(left, top), (right, bottom)]: [Point; 2],
        ink: RGBColor,
        width: u32,
    ) -> DrawResult {
        let around = [
            (left, top),
            (right, top),
            (right, bottom),
            (left, bottom),
            (left, top),
        ];
        self.line(&around, ink, Stroke::Solid(width))
    }

    /// An upright bar from one height to another with a cap at each end.
    pub(super) fn whisker(&self, x: i32, (from, to): (i32, i32), ink: RGBColor) -> DrawResult {
        let stroke = [
            (x - 3, from),
            (x + 3, from),
            (x, from),
            (x, to),
            (x - 3, to),
            (x + 3, to),
        ];
        self.line(&stroke, ink, Stroke::Solid(1))
    }

    /// The marker of the line with this number: four shapes, filled and hollow, that differ without colour.
    pub(super) fn marker(&self, (x, y): Point, number: usize, ink: RGBColor) -> DrawResult {
        let corners: &[Point] = match number % 4 {
            0 => &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
            1 => &[(0, -6), (5, 4), (-5, 4)],
            2 => &[(0, -6), (6, 0), (0, 6), (-6, 0)],
            _ => &[(0, 6), (5, -4), (-5, -4)],
        };
        let corners: Vec<Point> = corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
        if number % 8 < 4 {
            return self.polygon(&corners, ink);
        }
        self.polygon(&corners, PAPER)?;
        let outline: Vec<Point> = corners.iter().chain(corners.first()).copied().collect();
        self.line(&outline, ink, Stroke::Solid(2))
    }

    /// A small dot.
    pub(super) fn dot(&self, at: Point, ink: RGBColor) -> DrawResult {
        self.area.draw(&Circle::new(at, 2, ink.filled()))
    }

    /// A cross, for what is at fault.
    pub(super) fn cross(&self, (x, y): Point, ink: RGBColor) -> DrawResult {
        self.line(&[(x - 5, y - 5), (x + 5, y + 5)], ink, Stroke::Solid(2))?;
        self.line(&[(x - 5, y + 5), (x + 5, y - 5)], ink, Stroke::Solid(2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_ends_a_text_or_becomes_an_attribute() {
        let hostile = "</text><script>\u{1b}\u{202e}\n\" opacity=\"1\" onload=\"x\u{ffff}";
        let svg = drawing((100, 50), hostile, |canvas| {
            canvas.text((10, 10), hostile, TextLook::LEFT)
        })
        .unwrap();
        for live in ["<script", "\u{1b}", "\u{202e}", "\u{ffff}", "onload=\"x"] {
            assert!(!svg.contains(live), "{live:?}: {svg}");
        }
        assert_eq!(svg.matches("</text>").count(), 1, "{svg}");
        assert!(
            svg.contains("opacity=&quot;1&quot;"),
            "a text keeps its words: {svg}"
        );
    }

    #[test]
    fn a_drawing_scales_and_says_what_it_is() {
        let svg = drawing((640, 200), "a \"name\"", |canvas| {
            canvas.line(&[(1, 1), (9, 9)], INK, Stroke::Dashed(2))?;
            canvas.line(&[(1, 1), (9, 1)], INK, Stroke::Dotted(1))
        })
        .unwrap();
        assert!(
            svg.starts_with("<svg ") && svg.contains("viewBox=\"0 34 640 166\""),
            "{svg}"
        );
        assert!(
            svg.contains("role=\"img\" aria-label=\"a &quot;name&quot;\""),
            "{svg}"
        );
        assert!(
            svg.contains("stroke-width=\"2\" stroke-dasharray=\"6 4\""),
            "{svg}"
        );
        assert!(
            svg.contains("stroke=\"#000000\" stroke-dasharray=\"1 4\""),
            "{svg}"
        );
        assert!(!svg.contains(" id="), "{svg}");
    }

    #[test]
    fn a_name_without_an_end_is_cut() {
        assert_eq!(clip(&"x".repeat(5000), 10).chars().count(), 10);
        assert_eq!(clip("node07", 10), "node07");
    }
}
