//! Whether colours can be told apart, for tests of what is drawn and written.

/// The contrast of two colours (red, green, blue), as WCAG 2 defines it: 1 to 21.
pub(super) fn between(a: [u8; 3], b: [u8; 3]) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

fn luminance(colour: [u8; 3]) -> f64 {
    let [red, green, blue] = colour.map(|part| match f64::from(part) / 255.0 {
        part if part <= 0.04045 => part / 12.92,
        part => ((part + 0.055) / 1.055).powf(2.4),
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

#[test]
fn black_on_white_has_the_most_and_a_colour_on_itself_the_least() {
    assert!((between([0; 3], [255; 3]) - 21.0).abs() < 1e-9);
    assert!((between([90, 12, 200], [90, 12, 200]) - 1.0).abs() < 1e-9);
}
