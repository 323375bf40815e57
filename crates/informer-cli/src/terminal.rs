//! Colours, and only where they are wanted.

use std::io::IsTerminal;

use anstyle::Style;

/// The style on a terminal, nothing elsewhere, and nothing where `NO_COLOR` is set.
pub(crate) fn style(style: Style) -> Style {
    let wanted =
        std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if wanted { style } else { Style::new() }
}
