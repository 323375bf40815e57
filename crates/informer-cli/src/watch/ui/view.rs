//! Draws the screen of `informer watch --ui`.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use tokio::time::Instant;

use super::changes::{Change, ChangeKind, ChangeLog, Changes, ObjectId, Order, WatchedObject};
use super::screen_state::{Detail, ScreenState};
use crate::failure::plain;
use crate::format::{NONE, count, plural, seconds};
use crate::screen::{BOLD, MUTED, REVERSED, Theme, draw_cell, draw_line};

/// Objects that changed within this time are shown in color.
const RECENT: Duration = Duration::from_secs(3);

const MINUTE: Duration = Duration::from_secs(60);

/// The maximum height of the message about a connection that does not work.
const MAX_PROBLEM_LINES: usize = 4;

/// The width of the terminal from which the changed fields are shown.
const MIN_FIELDS_WIDTH: u16 = 60;

const HELP: &[(&str, &str)] = &[
    ("j, k, arrows, g, G", "select an object"),
    ("Ctrl-D, Ctrl-U, Page keys", "scroll by ten objects"),
    ("Enter", "switch between the changes and the YAML"),
    ("J, K", "scroll the changes or the YAML"),
    ("/", "filter by kind, namespace and name"),
    ("s", "sort by the last change, or by name"),
    ("Esc", "clear the filter; select the first object"),
    ("mouse", "select an object; scroll"),
    ("q, Ctrl-C", "quit"),
    ("", ""),
    ("+  ~  -", "added, updated, deleted"),
    ("bold, in color", "changed within the last 3 seconds"),
    ("CHANGES", "number since the start of this command"),
    ("@11 -> @164", "resource versions before and after"),
];

/// The texts of the screen that do not come from the objects.
pub(super) struct Status {
    /// The names of the kinds and of the namespace.
    pub(super) title: String,
    /// The state of the informers, such as `live`.
    pub(super) state: &'static str,
    pub(super) is_live: bool,
    /// The last message about the connection.
    pub(super) note: Option<String>,
    /// The length of the longest name of a kind; `None` for a single kind, which the title names.
    pub(super) kind_width: Option<u16>,
}

impl Status {
    /// Returns the lines of the message about the connection if it does not work now. A message that is too
    /// long ends with an ellipsis.
    fn problem(&self, width: u16) -> Vec<Line<'static>> {
        let Some(note) = self.note.as_deref().filter(|_| !self.is_live) else { return Vec::new() };
        let text = format!("The objects may be outdated. {}", plain(note));
        let width = usize::from(width).max(1);
        let mut lines: Vec<String> = textwrap::wrap(&text, width).into_iter().map(Cow::into_owned).collect();
        let is_cut = lines.len() > MAX_PROBLEM_LINES;
        lines.truncate(MAX_PROBLEM_LINES);
        if let Some(last) = lines.last_mut().filter(|_| is_cut) {
            *last = textwrap::wrap(last, width - 1)[0].to_string() + "…";
        }
        lines.into_iter().map(Line::from).collect()
    }
}

/// Everything that a frame shows besides the objects and the state of the screen.
pub(super) struct FrameContext<'a> {
    pub(super) status: &'a Status,
    pub(super) theme: &'a Theme,
    pub(super) now: Instant,
}

/// Draws a frame. The log is locked while the rows and the detail are collected, not while the detail is
/// formatted.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    state: &mut ScreenState,
    log: &ChangeLog,
    context: &FrameContext<'_>,
) {
    let (table, detail) = match state.detail {
        Detail::Changes => (3, 2),
        Detail::Yaml => (2, 3),
    };
    let problem = context.status.problem(frame.area().width);
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(table),
        Constraint::Fill(detail),
        Constraint::Length(problem.len() as u16),
        Constraint::Length(1),
    ]);
    let [top, header, table, detail, message, bottom] = rows.areas(frame.area());
    let table = TableArea { header, body: table, kind_width: context.status.kind_width };
    let selected = {
        let changes = log.lock();
        draw_title(frame, &changes, context, top);
        draw_table(frame, state, &changes, &table, context);
        selected_object(state, &changes)
    };
    draw_detail(frame, state, selected, context, detail);
    frame.render_widget(Paragraph::new(problem), message);
    draw_footer(frame, state, bottom);
    if state.shows_help {
        draw_help(frame);
    }
}

fn draw_title(frame: &mut Frame<'_>, changes: &Changes, context: &FrameContext<'_>, area: Rect) {
    let FrameContext { status, theme, .. } = context;
    let figures = format!("  {}, {}", changes.matching(&[]), plural(changes.total as usize, "change"));
    let line = Line::from(vec![
        Span::styled("informer watch", BOLD),
        Span::raw(format!("  {}", plain(&status.title))),
        Span::styled(figures, MUTED),
    ]);
    let color = if status.is_live { Color::Green } else { Color::Yellow };
    let style = theme.colored(color).patch(if status.is_live { Style::new() } else { BOLD });
    let state = Span::styled(format!(" {} ", status.state), style);
    let columns = Layout::horizontal([Constraint::Fill(1), Constraint::Length(state.width() as u16)]);
    let [left, right] = columns.areas(area);
    draw_line(frame, line, left);
    frame.render_widget(state, right);
}

struct TableArea {
    header: Rect,
    body: Rect,
    kind_width: Option<u16>,
}

fn sign(change: ChangeKind) -> &'static str {
    match change {
        ChangeKind::Listed => " ",
        ChangeKind::Added => "+",
        ChangeKind::Updated => "~",
        ChangeKind::Deleted => "-",
    }
}

fn color(change: ChangeKind) -> Color {
    match change {
        ChangeKind::Listed => Color::Reset,
        ChangeKind::Added => Color::Green,
        ChangeKind::Updated => Color::Yellow,
        ChangeKind::Deleted => Color::Red,
    }
}

fn draw_table(
    frame: &mut Frame<'_>,
    state: &mut ScreenState,
    changes: &Changes,
    area: &TableArea,
    context: &FrameContext<'_>,
) {
    let FrameContext { theme, now, .. } = context;
    let columns = columns(area);
    let layout = Layout::horizontal(columns.iter().map(|column| column.width())).spacing(1);
    for (column, place) in columns.iter().zip(layout.split(area.header).iter()) {
        let is_sorted = matches!(
            (column, state.order),
            (TableColumn::Object, Order::Name) | (TableColumn::Last, Order::Changed)
        );
        let title = format!("{}{}", column.title(), if is_sorted { "▼" } else { "" });
        column.draw(frame, &title, BOLD, *place);
    }
    let height = usize::from(area.body.height);
    state.rows_area = area.body;
    let filter = state.words();
    let shown = state.shown(changes, &filter, height);
    for (at, (id, object)) in shown.rows.iter().enumerate() {
        let place = Rect { y: area.body.y + at as u16, height: 1, ..area.body };
        let ago = now.saturating_duration_since(object.changed);
        let is_recent = ago < RECENT && object.change != ChangeKind::Listed;
        let style = match object.change {
            ChangeKind::Deleted => theme.colored(Color::Red).patch(MUTED),
            change if is_recent => theme.colored(color(change)).patch(BOLD),
            _ => Style::new(),
        };
        for (column, place) in columns.iter().zip(layout.split(place).iter()) {
            column.draw(frame, &column.text(id, object, ago), style, *place);
        }
        if shown.selected == Some(at) {
            frame.buffer_mut().set_style(place, REVERSED);
        }
    }
    if shown.rows.is_empty() {
        let text = if filter.is_empty() { "No object." } else { "No object matches the filter." };
        frame.render_widget(Line::from(Span::styled(text, MUTED)), area.body);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TableColumn {
    Sign,
    /// The kind, in a column of this width.
    Kind(u16),
    Object,
    Fields,
    Changes,
    Last,
}

fn columns(area: &TableArea) -> Vec<TableColumn> {
    let mut columns = vec![TableColumn::Sign];
    columns.extend(area.kind_width.map(TableColumn::Kind));
    columns.push(TableColumn::Object);
    if area.body.width >= MIN_FIELDS_WIDTH {
        columns.push(TableColumn::Fields);
    }
    columns.extend([TableColumn::Changes, TableColumn::Last]);
    columns
}

impl TableColumn {
    fn width(self) -> Constraint {
        match self {
            Self::Sign => Constraint::Length(1),
            Self::Kind(width) => Constraint::Length(width),
            Self::Object | Self::Fields => Constraint::Fill(1),
            Self::Changes => Constraint::Length(7),
            Self::Last => Constraint::Length(12),
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Sign => "",
            Self::Kind(_) => "KIND",
            Self::Object => "OBJECT",
            Self::Fields => "CHANGED FIELDS",
            Self::Changes => "CHANGES",
            Self::Last => "LAST",
        }
    }

    fn text(self, id: &ObjectId, object: &WatchedObject, ago: Duration) -> String {
        match self {
            Self::Sign => sign(object.change).to_owned(),
            Self::Kind(_) => id.kind.clone(),
            Self::Object => id.key.clone(),
            Self::Fields => match object.change {
                ChangeKind::Added => "(added)".to_owned(),
                ChangeKind::Deleted => "(deleted)".to_owned(),
                ChangeKind::Listed | ChangeKind::Updated => object.fields.clone(),
            },
            Self::Changes => count(object.changes),
            Self::Last if object.change == ChangeKind::Listed => NONE.to_owned(),
            Self::Last if ago < MINUTE => format!("{} s ago", ago.as_secs()),
            Self::Last => format!("{} ago", seconds(ago.as_secs() as f64)),
        }
    }

    fn draw(self, frame: &mut Frame<'_>, text: &str, style: Style, place: Rect) {
        draw_cell(frame, text, style, matches!(self, Self::Changes | Self::Last), place);
    }
}

/// The content of the lower half of the screen.
struct SelectedObject {
    id: Arc<ObjectId>,
    content: DetailContent,
}

enum DetailContent {
    /// The changes of the object that are kept, newest first.
    Changes(Vec<Change>),
    Yaml(WatchedObject),
}

fn selected_object(state: &ScreenState, changes: &Changes) -> Option<SelectedObject> {
    let id = state.selected_or_first(changes, &state.words())?;
    let content = match state.detail {
        Detail::Changes => DetailContent::Changes(changes.of(&id).cloned().collect()),
        Detail::Yaml => DetailContent::Yaml(changes.object(&id)?.clone()),
    };
    Some(SelectedObject { id, content })
}

fn draw_detail(
    frame: &mut Frame<'_>,
    state: &mut ScreenState,
    selected: Option<SelectedObject>,
    context: &FrameContext<'_>,
    area: Rect,
) {
    state.detail_area = area;
    let Some(SelectedObject { id, content }) = selected else {
        return frame.render_widget(Block::bordered().border_style(MUTED), area);
    };
    let (lines, what) = match content {
        DetailContent::Changes(changes) => (change_lines(&changes, context.theme), "changes"),
        DetailContent::Yaml(object) => {
            (object.yaml().lines().map(|line| Line::from(line.to_owned())).collect(), "YAML")
        }
    };
    let kind = if context.status.kind_width.is_some() { format!("{} ", id.kind) } else { String::new() };
    let title = Span::styled(format!(" {kind}{} ({what}) ", id.key), BOLD);
    let mut block = Block::bordered().title(title).border_style(MUTED);
    let height = usize::from(block.inner(area).height);
    state.scroll = state.scroll.min(lines.len().saturating_sub(height));
    if lines.len() > height {
        let last = (state.scroll + height).min(lines.len());
        let position = format!(" lines {}-{last} of {} ", state.scroll + 1, lines.len());
        block = block.title_bottom(Line::from(position).right_aligned());
    }
    let lines: Vec<Line<'_>> = lines.into_iter().skip(state.scroll).take(height).collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn change_lines(changes: &[Change], theme: &Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for change in changes {
        lines.push(Line::from(vec![
            Span::styled(format!("{} ", sign(change.kind)), theme.colored(color(change.kind)).patch(BOLD)),
            Span::styled(change.time.clone(), BOLD),
            Span::styled(format!("  {}", change.versions), MUTED),
        ]));
        lines.extend(change.lines.iter().map(|line| {
            let color = match line.trim_start().chars().next() {
                Some('+') => Color::Green,
                Some('-') => Color::Red,
                Some('~') => Color::Yellow,
                _ => Color::Reset,
            };
            Line::from(Span::styled(line.clone(), theme.colored(color)))
        }));
    }
    if lines.is_empty() {
        lines.push(Line::from(Span::styled("Unchanged since it was listed.", MUTED)));
    }
    lines
}

fn draw_footer(frame: &mut Frame<'_>, state: &ScreenState, area: Rect) {
    let filter = plain(&state.filter);
    let line = if state.is_filtering {
        let cursor = Span::styled(" ", REVERSED);
        let keys = Span::styled(format!("  {}  Enter keep  Esc clear", state.matching), MUTED);
        Line::from(vec![Span::styled("/", BOLD), Span::raw(filter), cursor, keys])
    } else if filter.is_empty() {
        let other = match state.detail {
            Detail::Changes => "YAML",
            Detail::Yaml => "changes",
        };
        let keys = format!("/ filter  s sort  Enter {other}  J K scroll  ? help  q quit");
        Line::from(Span::styled(keys, MUTED))
    } else {
        Line::from(format!("filter: {filter}  ({}; Esc clears it)", state.matching))
    };
    frame.render_widget(line, area);
}

fn draw_help(frame: &mut Frame<'_>) {
    let height = HELP.len() as u16 + 2;
    let area = frame.area();
    let area =
        area.centered(Constraint::Length(72.min(area.width)), Constraint::Length(height.min(area.height)));
    let lines: Vec<Line<'_>> = HELP
        .iter()
        .map(|(keys, what)| Line::from(vec![Span::styled(format!(" {keys:<27}"), BOLD), Span::raw(*what)]))
        .collect();
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" Keys ")), area);
}
