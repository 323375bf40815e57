//! The full-screen terminal: keyboard and mouse input, and styles.
//!
//! # Threads
//!
//! Reading the keyboard blocks, so a thread of its own does it. It ends with the process.

use std::io::{IsTerminal, stdout};

use ratatui::crossterm::event::{self, DisableMouseCapture, EnableMouseCapture, Event, MouseEventKind};
use ratatui::crossterm::execute;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::{DefaultTerminal, Frame};
use tokio::sync::mpsc;

use crate::failure::Failure;

/// The capacity of the channel of input events. When it is full, the thread that reads them waits.
const MAX_INPUT: usize = 64;

/// Dim text. Dark gray is invisible in some palettes.
pub(crate) const MUTED: Style = Style::new().add_modifier(Modifier::DIM);
pub(crate) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
pub(crate) const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Draws the text of a cell of a table. Numbers are aligned right. A text that is too long ends with an
/// ellipsis.
pub(crate) fn draw_cell(frame: &mut Frame<'_>, text: &str, style: Style, is_numeric: bool, place: Rect) {
    let line = Line::from(Span::styled(text, style));
    // A line that is aligned right and too long would lose its beginning.
    let fits = line.width() <= usize::from(place.width);
    draw_line(frame, if is_numeric && fits { line.right_aligned() } else { line }, place);
}

/// Draws a line. A line that is too long ends with an ellipsis.
pub(crate) fn draw_line(frame: &mut Frame<'_>, line: Line<'_>, place: Rect) {
    let is_cut = line.width() > usize::from(place.width);
    frame.render_widget(line, place);
    if is_cut && !place.is_empty() {
        frame.buffer_mut()[(place.right() - 1, place.y)].set_symbol("…");
    }
}

/// Returns an error if stdout is not a terminal. `instead` says what the user can do then.
pub(crate) fn require_terminal(command: &str, instead: &str) -> Result<(), Failure> {
    if stdout().is_terminal() {
        return Ok(());
    }
    Err(Failure::new(format!("`{command}` needs a terminal; {instead}")))
}

/// The terminal of the process. Dropping it restores the terminal, also after an error or a panic.
pub(crate) struct Screen {
    terminal: DefaultTerminal,
    input: mpsc::Receiver<std::io::Result<Event>>,
}

impl Screen {
    pub(crate) fn open() -> Result<Self, Failure> {
        let terminal = ratatui::try_init().map_err(|error| {
            // The failed call may have changed the mode of the terminal.
            ratatui::restore();
            Failure::io("prepare the terminal", error)
        })?;
        let screen = Self { terminal, input: input() };
        execute!(stdout(), EnableMouseCapture).map_err(|error| Failure::io("enable the mouse", error))?;
        Ok(screen)
    }

    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        let drawn = self.terminal.draw(draw);
        drawn.map(drop).map_err(|error| Failure::io("write to the terminal", error))
    }

    /// Waits for the next key or mouse event. `None` means that the keyboard was closed. No event is lost if
    /// the future is dropped.
    pub(crate) async fn input(&mut self) -> Result<Option<Event>, Failure> {
        self.input.recv().await.transpose().map_err(|error| Failure::io("read the keyboard", error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A closed terminal needs no restoration.
        let _ = execute!(stdout(), DisableMouseCapture);
        ratatui::restore();
    }
}

fn input() -> mpsc::Receiver<std::io::Result<Event>> {
    let (sender, receiver) = mpsc::channel(MAX_INPUT);
    std::thread::spawn(move || {
        loop {
            let event = event::read();
            if event.as_ref().is_ok_and(is_ignored) {
                continue;
            }
            let failed = event.is_err();
            if sender.blocking_send(event).is_err() || failed {
                return;
            }
        }
    });
    receiver
}

/// Returns the text of a drawn screen, without spaces at the ends of its lines.
#[cfg(test)]
pub(crate) fn text_of(terminal: &ratatui::Terminal<ratatui::backend::TestBackend>) -> String {
    let buffer = terminal.backend().buffer();
    let rows = (0..buffer.area.height).map(|y| {
        let cells = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    });
    rows.collect::<Vec<_>>().join("\n")
}

/// Returns whether a drawn screen has colors.
#[cfg(test)]
pub(crate) fn has_colors(terminal: &ratatui::Terminal<ratatui::backend::TestBackend>) -> bool {
    let cells = &terminal.backend().buffer().content;
    cells.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
}

/// Returns the event of a key: a newline is Enter, and `\x1b` is Escape.
#[cfg(test)]
pub(crate) fn key_event(character: char) -> Event {
    let code = match character {
        '\n' => event::KeyCode::Enter,
        '\x1b' => event::KeyCode::Esc,
        other => event::KeyCode::Char(other),
    };
    Event::Key(event::KeyEvent::new(code, event::KeyModifiers::NONE))
}

/// Returns true for movements of the mouse, which have no effect. Each event draws the screen.
fn is_ignored(event: &Event) -> bool {
    let Event::Mouse(mouse) = event else { return false };
    matches!(mouse.kind, MouseEventKind::Moved | MouseEventKind::Drag(_) | MouseEventKind::Up(_))
}

/// The colors of the screen. Without colors, only bold, dim and reversed text is used.
pub(crate) struct Theme {
    has_colors: bool,
}

impl Theme {
    pub(crate) fn of_environment() -> Self {
        Self { has_colors: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) }
    }

    #[cfg(test)]
    pub(crate) fn without_colors() -> Self {
        Self { has_colors: false }
    }

    #[cfg(test)]
    pub(crate) fn with_colors() -> Self {
        Self { has_colors: true }
    }

    pub(crate) fn colored(&self, color: Color) -> Style {
        if self.has_colors { Style::new().fg(color) } else { Style::new() }
    }
}
