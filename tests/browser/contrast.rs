//! Whether text stands out from what is behind it: WCAG 2's contrast ratio of computed colours.

use serde_json::Value;

use crate::sheet::Sheet;

/// The least ratio of text, after WCAG 2 AA; of large text less.
const TEXT: f64 = 4.5;
const LARGE_TEXT: f64 = 3.0;

/// Every piece of text with its colour, what is behind it, its size in pixels and weight. What is behind: the nearest ancestors with a
/// background, and in a drawing the filled shape that was painted last before the text, around its middle.
const PIECES: &str = r#"(() => {
  const canvas = document.createElement('canvas'); canvas.width = canvas.height = 1;
  const paint = canvas.getContext('2d', {willReadFrequently: true});
  const rgba = colour => { paint.clearRect(0, 0, 1, 1); paint.fillStyle = '#000'; paint.fillStyle = colour; paint.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = paint.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
  const layers = element => { const found = [];
    for (let at = element; at instanceof Element; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (!(at instanceof SVGElement) || at.tagName === 'svg') found.push(rgba(style.backgroundColor)); }
    return found; };
  const solid = shape => { const style = getComputedStyle(shape); const fill = style.fill;
    if (fill === 'none' || style.visibility === 'hidden' || fill.startsWith('url')) return null;
    const colour = rgba(fill); colour[3] *= parseFloat(style.fillOpacity) * parseFloat(style.opacity); return colour; };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), pieces = [];
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement, text = node.data.trim();
    if (!text || !parent || ['SCRIPT', 'STYLE', 'TITLE', 'DESC', 'title', 'desc', 'OPTION', 'NOSCRIPT'].includes(parent.tagName)) continue;
    if (!parent.checkVisibility({visibilityProperty: true, opacityProperty: true, contentVisibilityAuto: true})) continue;
    const range = document.createRange(); range.selectNodeContents(node);
    const box = range.getBoundingClientRect(); if (box.width < 2 || box.height < 2) continue;
    const style = getComputedStyle(parent), drawing = parent.closest('svg');
    let colour = rgba(style.color), behind = layers(parent);
    if (drawing) { colour = rgba(style.fill);
      const x = box.x + box.width / 2, y = box.y + box.height / 2;
      const shapes = drawing.__shapes || (drawing.__shapes = [...drawing.querySelectorAll('rect, circle, ellipse, polygon')]
        .map(shape => [shape, shape.getBoundingClientRect()]));
      const under = shapes.filter(([shape, of]) => of.left <= x && x <= of.right && of.top <= y && y <= of.bottom
        && shape.compareDocumentPosition(parent) & Node.DOCUMENT_POSITION_FOLLOWING).map(([shape]) => solid(shape)).filter(Boolean);
      behind = [...under.reverse(), ...behind]; }
    pieces.push([text.slice(0, 60), colour, behind, parseFloat(style.fontSize), parseFloat(style.fontWeight), (parent.closest('[id]') || {}).id || '']);
  }
  return pieces; })()"#;

/// The texts that are too faint, with their ratio.
pub fn too_faint(sheet: &mut Sheet) -> Vec<String> {
    sheet.unfold();
    let pieces = sheet.evaluate(PIECES);
    let mut faint: Vec<String> = pieces
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|piece| {
            let behind = stacked(piece[2].as_array().unwrap());
            let text = over(channels(&piece[1]), behind);
            let (size, weight) = (piece[3].as_f64().unwrap(), piece[4].as_f64().unwrap());
            let is_large = size >= 24.0 || (size >= 18.66 && weight >= 700.0);
            let least = if is_large { LARGE_TEXT } else { TEXT };
            let ratio = ratio(luminance(text), luminance(behind));
            // Computed colours are whole numbers: a ratio may be off by a hair.
            (ratio < least - 0.02).then(|| {
                format!(
                    "{} in #{}: {ratio:.2}, {:?} on {behind:?}",
                    piece[0],
                    piece[5].as_str().unwrap_or_default(),
                    piece[1]
                )
            })
        })
        .collect();
    faint.sort();
    faint.dedup();
    faint
}

fn channels(colour: &Value) -> [f64; 4] {
    [0, 1, 2, 3].map(|at| colour[at].as_f64().unwrap())
}

/// The colour of layers, the topmost first, on white paper.
fn stacked(layers: &[Value]) -> [f64; 3] {
    layers
        .iter()
        .rev()
        .fold([255.0; 3], |below, layer| over(channels(layer), below))
}

fn over([r, g, b, alpha]: [f64; 4], below: [f64; 3]) -> [f64; 3] {
    let mix = |above: f64, below: f64| alpha * above + (1.0 - alpha) * below;
    [mix(r, below[0]), mix(g, below[1]), mix(b, below[2])]
}

fn luminance(colour: [f64; 3]) -> f64 {
    let [r, g, b] = colour.map(|channel| {
        let part = channel / 255.0;
        match part <= 0.04045 {
            true => part / 12.92,
            false => ((part + 0.055) / 1.055).powf(2.4),
        }
    });
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

fn ratio(a: f64, b: f64) -> f64 {
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn black_on_white_has_the_most_contrast_and_known_greys_theirs() {
    let of = |a: [f64; 3], b: [f64; 3]| ratio(luminance(a), luminance(b));
    assert!((of([0.0; 3], [255.0; 3]) - 21.0).abs() < 1e-9);
    assert!((of([118.0; 3], [255.0; 3]) - 4.54).abs() < 0.01);
    assert_eq!(over([0.0, 0.0, 0.0, 0.5], [200.0; 3]), [100.0; 3]);
}
