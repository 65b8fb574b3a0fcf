//! The plotters backend of every figure: writes SVG, with dashes.
//!
//! Plotters' own SVG backend knows neither dashes nor names for screen readers. This one does, and it leaves out every attribute that
//! has its default value, so that thousands of marks stay small. Held true: the same calls give the same bytes; text is escaped here,
//! whoever draws it; there are no ids, so that any number of drawings share a page.

use std::convert::Infallible;
use std::fmt::Write;

use plotters::element::{Drawable, PointCollection};
use plotters::style::RGBColor;
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind, FontStyle,
    FontTransform,
};

use super::palette::hex;
use crate::escape;

/// Plotters' font sizes are line heights; SVG's are this many times smaller.
pub(super) const LINE_HEIGHT: f64 = 1.24;

/// Writing to memory does not fail.
type BackendResult = Result<(), DrawingErrorKind<Infallible>>;

/// How a line is drawn, with its width in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stroke {
    Solid(u32),
    Dashed(u32),
    Dotted(u32),
}

impl Stroke {
    fn width(self) -> u32 {
        match self {
            Stroke::Solid(width) | Stroke::Dashed(width) | Stroke::Dotted(width) => width,
        }
    }

    /// Lengths of dashes and gaps.
    fn dashes(self) -> Option<&'static str> {
        match self {
            Stroke::Solid(_) => None,
            Stroke::Dashed(_) => Some("6 4"),
            Stroke::Dotted(_) => Some("1 4"),
        }
    }
}

/// What a drawing is, apart from its marks.
pub(super) struct SvgHead<'a> {
    /// Width and height in pixels.
    pub(super) size: (u32, u32),
    /// Height at the top that is cut off.
    pub(super) cropped: u32,
    /// What screen readers call it.
    pub(super) name: &'a str,
    /// What it shows, in words.
    pub(super) description: Option<&'a str>,
}

/// Writes a drawing into a text.
pub(super) struct SvgBackend<'a> {
    svg: &'a mut String,
    size: (u32, u32),
    is_open: bool,
}

impl<'a> SvgBackend<'a> {
    /// Begins a drawing.
    pub(super) fn new(svg: &'a mut String, head: &SvgHead<'_>) -> SvgBackend<'a> {
        let (width, height) = head.size;
        let top = head.cropped.min(height);
        let shown = height - top;
        let name = escape::markup(head.name);
        svg.push_str("<svg");
        attribute(svg, "width", width);
        attribute(svg, "height", shown);
        attribute(svg, "viewBox", format_args!("0 {top} {width} {shown}"));
        attribute(svg, "role", "img");
        attribute(svg, "aria-label", &name);
        attribute(svg, "font-family", "sans-serif");
        attribute(svg, "xmlns", "http://www.w3.org/2000/svg");
        svg.push('>');
        if let Some(description) = head.description {
            let description = escape::markup(description);
            _ = write!(svg, "\n<title>{name}</title>\n<desc>{description}</desc>\n");
        }
        SvgBackend {
            svg,
            size: head.size,
            is_open: true,
        }
    }

    /// A line through these places.
    fn path(&mut self, places: impl Iterator<Item = BackendCoord>, color: BackendColor, stroke: Stroke) {
        self.begin("polyline", color);
        attribute(self.svg, "fill", "none");
        self.stroke(color, stroke.width());
        if let Some(dashes) = stroke.dashes() {
            attribute(self.svg, "stroke-dasharray", dashes);
        }
        self.points(places);
        self.end();
    }

    fn begin(&mut self, tag: &str, color: BackendColor) {
        self.svg.push('<');
        self.svg.push_str(tag);
        if color.alpha < 1.0 {
            attribute(self.svg, "opacity", color.alpha);
        }
    }

    fn end(&mut self) {
        self.svg.push_str("/>\n");
    }

    fn fill(&mut self, color: BackendColor) {
        attribute(self.svg, "fill", ink(color));
    }

    fn stroke(&mut self, color: BackendColor, width: u32) {
        attribute(self.svg, "stroke", ink(color));
        if width != 1 {
            attribute(self.svg, "stroke-width", width);
        }
    }

    fn fill_or_stroke(&mut self, style: &impl BackendStyle, is_filled: bool) {
        match is_filled {
            true => self.fill(style.color()),
            false => {
                attribute(self.svg, "fill", "none");
                self.stroke(style.color(), style.stroke_width());
            }
        }
    }

    fn points(&mut self, places: impl Iterator<Item = BackendCoord>) {
        self.svg.push_str(" points=\"");
        for (number, (x, y)) in places.enumerate() {
            let between = if number == 0 { "" } else { " " };
            _ = write!(self.svg, "{between}{x},{y}");
        }
        self.svg.push('"');
    }
}

fn attribute(svg: &mut String, key: &str, value: impl std::fmt::Display) {
    _ = write!(svg, " {key}=\"{value}\"");
}

fn ink(color: BackendColor) -> String {
    let (red, green, blue) = color.rgb;
    hex(RGBColor(red, green, blue))
}

fn is_invisible(color: BackendColor) -> bool {
    color.alpha <= 0.0
}

impl DrawingBackend for SvgBackend<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> BackendResult {
        Ok(())
    }

    fn present(&mut self) -> BackendResult {
        if std::mem::take(&mut self.is_open) {
            self.svg.push_str("</svg>\n");
        }
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> BackendResult {
        self.draw_rect((x, y), (x + 1, y + 1), &color, true)
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> BackendResult {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        (left, top): BackendCoord,
        (right, bottom): BackendCoord,
        style: &S,
        fill: bool,
    ) -> BackendResult {
        if is_invisible(style.color()) {
            return Ok(());
        }
        self.begin("rect", style.color());
        for (key, value) in [
            ("x", left),
            ("y", top),
            ("width", right - left),
            ("height", bottom - top),
        ] {
            attribute(self.svg, key, value);
        }
        self.fill_or_stroke(style, fill);
        self.end();
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> BackendResult {
        if !is_invisible(style.color()) {
            let stroke = Stroke::Solid(style.stroke_width());
            self.path(path.into_iter(), style.color(), stroke);
        }
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> BackendResult {
        if is_invisible(style.color()) {
            return Ok(());
        }
        self.begin("polygon", style.color());
        self.fill(style.color());
        self.points(corners.into_iter());
        self.end();
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        (x, y): BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> BackendResult {
        if is_invisible(style.color()) {
            return Ok(());
        }
        self.begin("circle", style.color());
        attribute(self.svg, "cx", x);
        attribute(self.svg, "cy", y);
        attribute(self.svg, "r", radius);
        self.fill_or_stroke(style, fill);
        self.end();
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        (x, y): BackendCoord,
    ) -> BackendResult {
        let color = style.color();
        if is_invisible(color) {
            return Ok(());
        }
        self.begin("text", color);
        attribute(self.svg, "x", x);
        attribute(self.svg, "y", y);
        let dy = match style.anchor().v_pos {
            VPos::Top => "0.76em",
            VPos::Center => "0.5ex",
            VPos::Bottom => "-0.5ex",
        };
        attribute(self.svg, "dy", dy);
        match style.anchor().h_pos {
            HPos::Left => {}
            HPos::Right => attribute(self.svg, "text-anchor", "end"),
            HPos::Center => attribute(self.svg, "text-anchor", "middle"),
        }
        // Sizes are multiplied and divided by the line height: round the error away.
        let size = (style.size() / LINE_HEIGHT * 100.0).round() / 100.0;
        attribute(self.svg, "font-size", size);
        self.fill(color);
        match style.style() {
            FontStyle::Normal => {}
            FontStyle::Bold => attribute(self.svg, "font-weight", "bold"),
            FontStyle::Italic | FontStyle::Oblique => {
                attribute(self.svg, "font-style", style.style().as_str());
            }
        }
        let degrees = match style.transform() {
            FontTransform::None => 0,
            FontTransform::Rotate90 => 90,
            FontTransform::Rotate180 => 180,
            FontTransform::Rotate270 => 270,
        };
        if degrees != 0 {
            attribute(self.svg, "transform", format_args!("rotate({degrees} {x} {y})"));
        }
        _ = writeln!(self.svg, ">{}</text>", escape::markup(text));
        Ok(())
    }
}

/// A line through places, in any stroke: plotters' own path elements are always solid.
pub(super) struct StrokedPath<'a> {
    /// Where it runs.
    pub(super) places: &'a [BackendCoord],
    /// Its colour.
    pub(super) ink: RGBColor,
    /// How it is drawn.
    pub(super) stroke: Stroke,
}

impl<'a> PointCollection<'a, BackendCoord> for &'a StrokedPath<'_> {
    type Point = &'a BackendCoord;
    type IntoIter = &'a [BackendCoord];

    fn point_iter(self) -> &'a [BackendCoord] {
        self.places
    }
}

impl Drawable<SvgBackend<'_>> for StrokedPath<'_> {
    fn draw<I: Iterator<Item = BackendCoord>>(
        &self,
        places: I,
        backend: &mut SvgBackend<'_>,
        _: (u32, u32),
    ) -> BackendResult {
        let RGBColor(red, green, blue) = self.ink;
        let color = BackendColor {
            alpha: 1.0,
            rgb: (red, green, blue),
        };
        backend.path(places, color, self.stroke);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use plotters::prelude::*;

    use super::*;

    fn drawn(paint: impl FnOnce(&DrawingArea<SvgBackend<'_>, plotters::coord::Shift>)) -> String {
        let mut svg = String::new();
        let head = SvgHead {
            size: (100, 50),
            cropped: 0,
            name: "n",
            description: None,
        };
        let area = SvgBackend::new(&mut svg, &head).into_drawing_area();
        paint(&area);
        area.present().unwrap();
        drop(area);
        svg
    }

    #[test]
    fn what_plotters_draws_is_xml_and_says_no_default_value() {
        let svg = drawn(|area| {
            area.draw(&Rectangle::new([(1, 2), (11, 22)], RED.filled()))
                .unwrap();
            area.draw(&Rectangle::new(
                [(1, 2), (11, 22)],
                Color::stroke_width(&RED.mix(0.5), 2),
            ))
            .unwrap();
            area.draw(&PathElement::new([(1, 1), (5, 5)], BLUE)).unwrap();
            area.draw(&Circle::new((5, 5), 3, BLACK.filled())).unwrap();
            area.draw(&Pixel::new((7, 7), BLACK)).unwrap();
            area.draw(&Rectangle::new([(0, 0), (9, 9)], TRANSPARENT.filled()))
                .unwrap();
            let style = TextStyle::from(
                ("sans-serif", 12.0 * LINE_HEIGHT)
                    .into_font()
                    .style(FontStyle::Bold),
            )
            .transform(FontTransform::Rotate270);
            area.draw(&Text::new("a<b", (9, 9), style)).unwrap();
        });
        roxmltree::Document::parse(&svg).unwrap();
        for part in [
            "<rect x=\"1\" y=\"2\" width=\"10\" height=\"20\" fill=\"#FF0000\"/>",
            "<rect opacity=\"0.5\" x=\"1\" y=\"2\" width=\"10\" height=\"20\" fill=\"none\" stroke=\"#FF0000\" stroke-width=\"2\"/>",
            "<polyline fill=\"none\" stroke=\"#0000FF\" points=\"1,1 5,5\"/>",
            "<circle cx=\"5\" cy=\"5\" r=\"3\" fill=\"#000000\"/>",
            "<rect x=\"7\" y=\"7\" width=\"1\" height=\"1\" fill=\"#000000\"/>",
            "font-size=\"12\" fill=\"#000000\" font-weight=\"bold\" transform=\"rotate(270 9 9)\">a&lt;b</text>",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert_eq!(
            svg.matches("<rect").count(),
            3,
            "what is transparent is not drawn: {svg}"
        );
    }

    #[test]
    fn a_dashed_line_is_one_element() {
        let line = |stroke| {
            drawn(|area| {
                let places = [(1, 1), (90, 1), (90, 40)];
                area.draw(&StrokedPath {
                    places: &places,
                    ink: BLACK,
                    stroke,
                })
                .unwrap();
            })
        };
        assert!(!line(Stroke::Solid(1)).contains("dasharray"));
        assert!(line(Stroke::Dashed(2)).contains(
            "<polyline fill=\"none\" stroke=\"#000000\" stroke-width=\"2\" stroke-dasharray=\"6 4\" points=\"1,1 90,1 90,40\"/>"
        ));
        assert!(line(Stroke::Dotted(1)).contains(" stroke-dasharray=\"1 4\""));
    }
}
