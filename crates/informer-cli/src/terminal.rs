//! Colors of the output on a terminal.

use std::io::IsTerminal;

use anstyle::Style;

/// Returns `style` if stdout is a terminal and the environment variable `NO_COLOR` is not set. Otherwise
/// returns a style without colors.
pub(crate) fn style(style: Style) -> Style {
    let wanted =
        std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if wanted { style } else { Style::new() }
}
