//! The state of the screen of `informer watch --ui`, and the effects of keys and the mouse on it.

use std::sync::Arc;

use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::{Position, Rect};

use super::changes::{Changes, ObjectId, Order, WatchedObject};

/// The number of objects of Ctrl-D and Ctrl-U, and of Page Down and Page Up.
const PAGE: isize = 10;
/// The number of lines or objects of one step of the mouse wheel.
const WHEEL: isize = 3;
const MAX_FILTER: usize = 200;

/// Selects what is shown of the selected object in the lower half of the screen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Detail {
    #[default]
    Changes,
    Yaml,
}

#[derive(Debug, Default)]
pub(super) struct ScreenState {
    pub(super) order: Order,
    pub(super) filter: String,
    pub(super) is_filtering: bool,
    /// The selected object. `None` selects the first one, which may be another one in each frame.
    selected: Option<Arc<ObjectId>>,
    /// The numbers of objects that matched the filter in the last frame, as text.
    pub(super) matching: String,
    /// The position of the first row of the table among the objects that match the filter.
    offset: usize,
    pub(super) detail: Detail,
    /// The scroll position of the lower half of the screen, in lines.
    pub(super) scroll: usize,
    pub(super) shows_help: bool,
    pub(super) quit: bool,
    /// The areas of the last frame that react to the mouse.
    pub(super) rows_area: Rect,
    pub(super) detail_area: Rect,
}

/// The objects that are shown in the table.
pub(super) struct Shown<'a> {
    pub(super) rows: Vec<(&'a Arc<ObjectId>, &'a WatchedObject)>,
    /// The index of the selected object in `rows`.
    pub(super) selected: Option<usize>,
}

impl ScreenState {
    /// Returns the words of the filter in lower case.
    pub(super) fn words(&self) -> Vec<String> {
        self.filter.split_whitespace().map(str::to_lowercase).collect()
    }

    /// Returns the rows of a table with this height, scrolled so that the selected object is among them.
    pub(super) fn shown<'a>(
        &mut self,
        changes: &'a Changes,
        filter: &'a [String],
        height: usize,
    ) -> Shown<'a> {
        let selected = self.position(changes, filter);
        self.offset = self.offset.clamp((selected + 1).saturating_sub(height.max(1)), selected);
        self.matching = changes.matching(filter);
        let rows: Vec<_> = changes.objects(self.order, filter).skip(self.offset).take(height).collect();
        let selected = Some(selected - self.offset).filter(|at| *at < rows.len());
        Shown { rows, selected }
    }

    /// Returns the position of the selected object among those that match the filter. Selects the first one
    /// if the selected one is not among them.
    fn position(&mut self, changes: &Changes, filter: &[String]) -> usize {
        let selected = self.selected.clone();
        let at =
            selected.and_then(|id| changes.objects(self.order, filter).position(|(other, _)| *other == id));
        if at.is_none() {
            self.selected = None;
        }
        at.unwrap_or_default()
    }

    pub(super) fn selected_or_first(&self, changes: &Changes, filter: &[String]) -> Option<Arc<ObjectId>> {
        let first = || changes.objects(self.order, filter).next().map(|(id, _)| Arc::clone(id));
        self.selected.clone().or_else(first)
    }

    pub(super) fn input(&mut self, event: &Event, changes: &Changes) {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.on_key(*key, changes),
            Event::Mouse(mouse) => self.on_mouse(*mouse, changes),
            _ => {}
        }
    }

    fn on_key(&mut self, key: KeyEvent, changes: &Changes) {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if has_control && key.code == KeyCode::Char('c') {
            self.quit = true;
        } else if self.is_filtering {
            self.on_filter_key(key);
        } else if self.shows_help {
            self.shows_help = false;
            self.quit = key.code == KeyCode::Char('q');
        } else {
            match key.code {
                KeyCode::Char('d') if has_control => self.select_by(PAGE, changes),
                KeyCode::Char('u') if has_control => self.select_by(-PAGE, changes),
                code => self.on_command(code, changes),
            }
        }
    }

    fn on_command(&mut self, code: KeyCode, changes: &Changes) {
        match code {
            KeyCode::Char('q') => self.quit = true,
            KeyCode::Char('?') | KeyCode::F(1) => self.shows_help = true,
            KeyCode::Char('/') => self.is_filtering = true,
            KeyCode::Char('j') | KeyCode::Down => self.select_by(1, changes),
            KeyCode::Char('k') | KeyCode::Up => self.select_by(-1, changes),
            KeyCode::PageDown => self.select_by(PAGE, changes),
            KeyCode::PageUp => self.select_by(-PAGE, changes),
            KeyCode::Char('g') | KeyCode::Home => self.select(None),
            KeyCode::Char('G') | KeyCode::End => self.select_by(isize::MAX, changes),
            KeyCode::Char('J') => self.scroll_by(1),
            KeyCode::Char('K') => self.scroll_by(-1),
            KeyCode::Char('s') => {
                self.order = match self.order {
                    Order::Changed => Order::Name,
                    Order::Name => Order::Changed,
                };
            }
            KeyCode::Enter => {
                self.detail = match self.detail {
                    Detail::Changes => Detail::Yaml,
                    Detail::Yaml => Detail::Changes,
                };
                self.scroll = 0;
            }
            KeyCode::Esc if self.filter.is_empty() => self.select(None),
            KeyCode::Esc => self.filter.clear(),
            _ => {}
        }
    }

    fn on_filter_key(&mut self, key: KeyEvent) {
        let is_text = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        match key.code {
            KeyCode::Char('u') if !is_text => self.filter.clear(),
            KeyCode::Char(character) if is_text && self.filter.len() < MAX_FILTER => {
                self.filter.push(character);
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Esc => {
                self.filter.clear();
                self.is_filtering = false;
            }
            KeyCode::Enter => self.is_filtering = false,
            _ => {}
        }
    }

    fn select(&mut self, id: Option<Arc<ObjectId>>) {
        (self.selected, self.scroll) = (id, 0);
    }

    fn select_by(&mut self, step: isize, changes: &Changes) {
        let filter = self.words();
        let at = self.position(changes, &filter).saturating_add_signed(step);
        self.select_at(at, changes);
    }

    /// Selects the object at a position among those that match the filter, or the last one before it.
    fn select_at(&mut self, at: usize, changes: &Changes) {
        let filter = self.words();
        let id = changes.objects(self.order, &filter).take(at.saturating_add(1)).last();
        self.select(id.map(|(id, _)| Arc::clone(id)).filter(|_| at > 0));
    }

    fn scroll_by(&mut self, step: isize) {
        self.scroll = self.scroll.saturating_add_signed(step);
    }

    fn on_mouse(&mut self, mouse: MouseEvent, changes: &Changes) {
        let at = Position::new(mouse.column, mouse.row);
        let step = match mouse.kind {
            MouseEventKind::ScrollDown => WHEEL,
            MouseEventKind::ScrollUp => -WHEEL,
            MouseEventKind::Down(MouseButton::Left) => return self.on_click(at, changes),
            _ => return,
        };
        if self.detail_area.contains(at) {
            self.scroll_by(step);
        } else {
            self.select_by(step, changes);
        }
    }

    fn on_click(&mut self, at: Position, changes: &Changes) {
        if self.shows_help {
            self.shows_help = false;
        } else if self.rows_area.contains(at) {
            let (row, filter) = (self.offset + usize::from(at.y - self.rows_area.y), self.words());
            if changes.objects(self.order, &filter).nth(row).is_some() {
                self.select_at(row, changes);
            }
        }
    }
}
