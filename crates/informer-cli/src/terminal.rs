//! Colors of the output on a terminal.

use std::borrow::Cow;
use std::io::{IsTerminal, stdout};

use anstream::adapter::strip_str;
use anstyle::Style;

/// Returns `style` if stdout is a terminal and the environment variable `NO_COLOR` is not set. Otherwise
/// returns a style without colors.
pub(crate) fn style(style: Style) -> Style {
    if has_colors(&stdout()) { style } else { Style::new() }
}

/// Removes colors and other escape sequences from a line that another program has printed. If `stream` is a
/// terminal and the environment variable `NO_COLOR` is not set, returns the line unchanged.
pub(crate) fn without_colors<'a>(line: &'a str, stream: &impl IsTerminal) -> Cow<'a, str> {
    if has_colors(stream) { line.into() } else { strip_str(line).to_string().into() }
}

fn has_colors(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
