//! The state of the screen, and the effects of keys and the mouse on it.

use std::time::Duration;

use informer::runtime::console::KeyHistory;
use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::{Position, Rect};
use tokio::time::Instant;

use super::sample::Samples;
use super::table::{self, RowCache, Sort, TableRow};
use crate::live::LiveUpdate;

/// The number of rows of Ctrl-D and Ctrl-U, and of Page Down and Page Up.
const PAGE: usize = 10;
/// The number of rows of one step of the mouse wheel.
const WHEEL: usize = 3;
const MAX_FILTER: usize = 200;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Tab {
    #[default]
    Overview,
    Informers,
    Handlers,
    Queues,
    Controllers,
    Reconciles,
    Key,
}

impl Tab {
    pub(super) const ALL: [Self; 7] = [
        Self::Overview,
        Self::Informers,
        Self::Handlers,
        Self::Queues,
        Self::Controllers,
        Self::Reconciles,
        Self::Key,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Informers => "Informers",
            Self::Handlers => "Handlers",
            Self::Queues => "Queues",
            Self::Controllers => "Controllers",
            Self::Reconciles => "Reconciles",
            Self::Key => "Key",
        }
    }

    fn next(self, step: usize) -> Self {
        Self::ALL[(self as usize + step) % Self::ALL.len()]
    }
}

/// The state of one table.
#[derive(Debug, Default)]
pub(super) struct TableView {
    pub(super) filter: String,
    pub(super) sort: Option<Sort>,
    pub(super) selected: usize,
    /// The selected row of the last frame; `None` if the user has selected another one since.
    anchor: Option<String>,
    pub(super) offset: usize,
}

impl TableView {
    /// Selects a row by its number in the last frame.
    fn select(&mut self, row: usize) {
        (self.selected, self.anchor) = (row, None);
    }

    /// Keeps the selected row selected while other rows come and go. The first row stays the first one, so
    /// that a list of the newest rows follows them.
    pub(super) fn follow(&mut self, rows: &[TableRow]) {
        if let Some(anchor) = self.anchor.as_ref().filter(|_| self.selected > 0)
            && let Some(at) = rows.iter().position(|row| row.id == *anchor)
        {
            self.selected = at;
        }
        self.selected = self.selected.min(rows.len().saturating_sub(1));
        self.anchor = rows.get(self.selected).map(|row| row.id.clone());
    }
}

/// The areas of the last frame that react to the mouse.
#[derive(Debug, Default)]
pub(super) struct Areas {
    pub(super) tabs: Vec<(Rect, Tab)>,
    /// The headers of the columns, by their index.
    pub(super) headers: Vec<(Rect, usize)>,
    pub(super) rows: Rect,
}

#[derive(Default)]
pub(super) struct App {
    pub(super) samples: Samples,
    /// The reason why there is no new data.
    pub(super) lost: Option<String>,
    pub(super) tab: Tab,
    tables: [TableView; Tab::ALL.len()],
    /// The rows of the last frame of a table.
    pub(super) rows: RowCache,
    pub(super) areas: Areas,
    pub(super) is_filtering: bool,
    pub(super) shows_help: bool,
    pub(super) is_paused: bool,
    /// The key whose history is shown.
    pub(super) key: Option<String>,
    pub(super) history: Option<Result<KeyHistory, String>>,
    read_at: Option<Instant>,
    /// True while the history of a key is read.
    is_reading: bool,
    pub(super) quit: bool,
}

impl App {
    pub(super) fn table(&mut self) -> &mut TableView {
        &mut self.tables[self.tab as usize]
    }

    pub(super) fn update(&mut self, update: LiveUpdate, now: Instant) {
        match update {
            LiveUpdate::Event(event) => {
                self.lost = None;
                if self.is_paused {
                    self.samples.hold(*event, now);
                } else {
                    self.samples.add(*event, now);
                }
            }
            LiveUpdate::Disconnected(reason) => self.lost = Some(reason),
        }
    }

    /// Returns the key whose history must be read now.
    pub(super) fn history_due(&mut self, now: Instant, period: Duration) -> Option<String> {
        let is_early = self.read_at.is_some_and(|read| now - read < period);
        if self.tab != Tab::Key || self.is_paused || self.is_reading || is_early {
            return None;
        }
        self.is_reading = self.key.is_some();
        self.key.clone()
    }

    pub(super) fn set_history(&mut self, key: &str, read: Result<KeyHistory, String>, now: Instant) {
        self.is_reading = false;
        if self.key.as_deref() == Some(key) {
            (self.history, self.read_at) = (Some(read), Some(now));
        }
    }

    pub(super) fn input(&mut self, event: &Event) {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.on_key(*key),
            Event::Mouse(mouse) => self.on_mouse(*mouse),
            _ => {}
        }
    }

    fn on_key(&mut self, key: KeyEvent) {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if has_control && key.code == KeyCode::Char('c') {
            self.quit = true;
        } else if self.is_filtering {
            self.on_filter_key(key.code);
        } else if self.shows_help {
            self.shows_help = false;
            self.quit = key.code == KeyCode::Char('q');
        } else {
            match key.code {
                KeyCode::Char('d') if has_control => self.select_by(PAGE as isize),
                KeyCode::Char('u') if has_control => self.select_by(-(PAGE as isize)),
                code => self.on_command(code),
            }
        }
    }

    fn on_command(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char('q') => self.quit = true,
            KeyCode::Char('?') | KeyCode::F(1) => self.shows_help = true,
            KeyCode::Char('p' | ' ') => self.toggle_pause(),
            KeyCode::Char('/') => self.is_filtering = self.tab != Tab::Overview,
            KeyCode::Char(digit @ '1'..='7') => self.tab = Tab::ALL[digit as usize - '1' as usize],
            KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => self.tab = self.tab.next(1),
            KeyCode::BackTab | KeyCode::Left | KeyCode::Char('h') => {
                self.tab = self.tab.next(Tab::ALL.len() - 1)
            }
            KeyCode::Char('j') | KeyCode::Down => self.select_by(1),
            KeyCode::Char('k') | KeyCode::Up => self.select_by(-1),
            KeyCode::PageDown => self.select_by(PAGE as isize),
            KeyCode::PageUp => self.select_by(-(PAGE as isize)),
            KeyCode::Char('g') | KeyCode::Home => self.table().select(0),
            KeyCode::Char('G') | KeyCode::End => self.table().select(usize::MAX),
            KeyCode::Char('s') => self.sort_next(),
            KeyCode::Char('S') => {
                if let Some(sort) = &mut self.table().sort {
                    sort.descending = !sort.descending;
                }
            }
            KeyCode::Enter => self.open_selected(),
            KeyCode::Esc => self.escape(),
            _ => {}
        }
    }

    fn on_filter_key(&mut self, code: KeyCode) {
        let tab = self.tab;
        let table = self.table();
        match code {
            KeyCode::Char(character) if table.filter.len() < MAX_FILTER => table.filter.push(character),
            KeyCode::Backspace => drop(table.filter.pop()),
            KeyCode::Esc => {
                table.filter.clear();
                self.is_filtering = false;
            }
            KeyCode::Enter => {
                self.is_filtering = false;
                if tab == Tab::Key {
                    let key = std::mem::take(&mut self.table().filter);
                    self.open(key.trim().to_owned());
                }
            }
            _ => {}
        }
        self.table().select(0);
    }

    fn escape(&mut self) {
        if !self.table().filter.is_empty() {
            self.table().filter.clear();
        } else if self.tab == Tab::Key {
            self.tab = Tab::Reconciles;
        }
    }

    fn select_by(&mut self, step: isize) {
        let table = self.table();
        table.select(table.selected.saturating_add_signed(step));
    }

    fn open_selected(&mut self) {
        if let Some(key) = self.selected_key().map(str::to_owned) {
            self.open(key);
        }
    }

    /// Returns the key of the selected row of the last frame.
    pub(super) fn selected_key(&self) -> Option<&str> {
        let selected = self.tables[self.tab as usize].selected;
        self.rows.of(self.tab)?.get(selected)?.key.as_deref()
    }

    fn toggle_pause(&mut self) {
        self.is_paused = !self.is_paused;
        if !self.is_paused {
            self.samples.resume();
        }
    }

    fn open(&mut self, key: String) {
        if !key.is_empty() {
            (self.key, self.history, self.read_at) = (Some(key), None, None);
            self.tab = Tab::Key;
            self.table().select(0);
        }
    }

    /// Sorts by the next column; after the last one, in the natural order.
    fn sort_next(&mut self) {
        let columns = table::columns(self.tab).len();
        let next = self.table().sort.map_or(0, |sort| sort.column + 1);
        self.sort_by((next < columns).then_some(next));
    }

    fn sort_by(&mut self, column: Option<usize>) {
        let columns = table::columns(self.tab);
        let sort = column.map(|column| Sort { column, descending: columns[column].numeric });
        let table = self.table();
        table.sort = sort;
        table.select(0);
    }

    fn on_mouse(&mut self, mouse: MouseEvent) {
        let at = Position::new(mouse.column, mouse.row);
        match mouse.kind {
            MouseEventKind::ScrollDown => self.select_by(WHEEL as isize),
            MouseEventKind::ScrollUp => self.select_by(-(WHEEL as isize)),
            MouseEventKind::Down(MouseButton::Left) => self.on_click(at),
            _ => {}
        }
    }

    fn on_click(&mut self, at: Position) {
        if self.shows_help {
            self.shows_help = false;
        } else if let Some((_, tab)) = self.areas.tabs.iter().find(|(area, _)| area.contains(at)) {
            self.tab = *tab;
        } else if let Some(&(_, column)) = self.areas.headers.iter().find(|(area, _)| area.contains(at)) {
            match self.table().sort {
                Some(sort) if sort.column == column => {
                    self.table().sort = Some(Sort { descending: !sort.descending, ..sort });
                }
                _ => self.sort_by(Some(column)),
            }
        } else if self.areas.rows.contains(at) {
            let row = self.table().offset + usize::from(at.y - self.areas.rows.y);
            let is_selected = self.table().selected == row;
            self.table().select(row);
            if is_selected {
                self.open_selected();
            }
        }
    }
}
