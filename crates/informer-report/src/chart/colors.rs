//! The colors of charts in a light color scheme. `page/style.css` names each of them, and sets the color of
//! the dark scheme.

use plotters::prelude::RGBColor;

pub(super) const BACKGROUND: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);
pub(super) const TEXT: RGBColor = RGBColor(0x1F, 0x29, 0x33);
pub(super) const GRID: RGBColor = RGBColor(0xD3, 0xD9, 0xE0);
/// The bars and lines of this library.
pub(super) const OURS: RGBColor = RGBColor(0x2A, 0x7F, 0x62);
/// The bars of other programs.
pub(super) const PEER: RGBColor = RGBColor(0x7A, 0x87, 0x94);
/// The bars of failures, and the lines of limits.
pub(super) const FAILED: RGBColor = RGBColor(0xB3, 0x26, 0x1E);
/// The lines of other programs, and of further programs of this library, in this order.
pub(super) const LINES: [RGBColor; 3] =
    [RGBColor(0xB4, 0x53, 0x09), RGBColor(0x2B, 0x6C, 0xB0), RGBColor(0x7B, 0x4F, 0xA3)];

/// All colors of charts. Bars use that of the background for the outline of lines.
#[cfg(test)]
pub(super) fn all() -> Vec<RGBColor> {
    [vec![BACKGROUND, TEXT, GRID, OURS, PEER, FAILED], LINES.to_vec()].concat()
}
