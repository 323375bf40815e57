//! Draws benchmark figures as horizontal bars in an SVG picture, without dependencies.

use std::fmt::Write;

#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) bars: Vec<(String, f64)>,
}

const WIDTH: usize = 760;
const LABELS: usize = 170;
const BAR: usize = 18;
const HEAD: usize = 30;

/// Returns an SVG picture with the panels one below the other. The longest bar of each panel spans the
/// picture.
pub(crate) fn svg(title: &str, panels: &[Panel]) -> String {
    let height: usize = HEAD + panels.iter().map(|panel| HEAD + BAR * panel.bars.len() + 10).sum::<usize>();
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    put(&mut text, 10, 20, "font-size=\"15\" font-weight=\"bold\"", title);
    let mut top = HEAD;
    for panel in panels {
        put(&mut text, 10, top + 20, "font-weight=\"bold\"", &panel.title);
        top += HEAD;
        let greatest = panel.bars.iter().map(|bar| bar.1).fold(f64::MIN_POSITIVE, f64::max);
        for (name, value) in &panel.bars {
            let room = (WIDTH - LABELS - 90) as f64;
            let width = (value.max(0.0) / greatest * room).max(1.0);
            let colour = if name.starts_with("informer") { "#2a7f62" } else { "#9aa5b1" };
            put(&mut text, 10, top + 13, "", name);
            // The result of `writeln!` is ignored, because writing to a `String` cannot fail.
            let _ = writeln!(
                text,
                "<rect x=\"{LABELS}\" y=\"{}\" width=\"{width:.1}\" height=\"{}\" fill=\"{colour}\"/>",
                top + 2,
                BAR - 5
            );
            put(
                &mut text,
                LABELS + 6 + width.round() as usize,
                top + 13,
                "",
                &super::peers::rounded(*value).to_string(),
            );
            top += BAR;
        }
        top += 10;
    }
    text.push_str("</svg>\n");
    text
}

fn put(text: &mut String, x: usize, y: usize, style: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    // The result of `writeln!` is ignored, because writing to a `String` cannot fail.
    let _ = writeln!(text, "<text x=\"{x}\" y=\"{y}\" {style}>{words}</text>");
}

#[cfg(test)]
mod tests;
