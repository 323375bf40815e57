//! Draws the screen.

use informer::runtime::console::{ConsoleSnapshot, KeyHistory, ReconcileSnapshot};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Clear, Paragraph, Sparkline, Wrap};
use tokio::time::Instant;

use super::app::{App, Tab};
use super::health::{Severity, problems};
use super::sample::finished;
use super::table::{self, Column, TableRow};
use crate::failure::plain;
use crate::format::{bytes, count, optional_seconds, plural, rate, seconds};
use crate::screen::{BOLD, MUTED, REVERSED, Theme, draw_cell};

const HELP: &[(&str, &str)] = &[
    ("1 to 7, Tab, h, l, arrows", "select a view"),
    ("j, k, arrows, g, G", "select a row"),
    ("Ctrl-D, Ctrl-U, Page keys", "scroll by ten rows"),
    ("/", "filter the rows; in the view Key, enter a key"),
    ("s, S", "sort by the next column; reverse the order"),
    ("Enter", "show the history of the key of the row"),
    ("Esc", "clear the filter; leave the view Key"),
    ("p", "pause and continue"),
    ("mouse", "select views, rows and sort columns; scroll"),
    ("q, Ctrl-C", "quit"),
];

fn style_of(theme: &Theme, level: Severity) -> Style {
    match level {
        Severity::Bad => theme.colored(Color::Red).add_modifier(Modifier::BOLD),
        Severity::Warn => theme.colored(Color::Yellow),
        Severity::Ok => theme.colored(Color::Green),
        Severity::Plain => Style::new(),
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, theme: &Theme, now: Instant) {
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ]);
    let [top, tabs, body, bottom] = rows.areas(frame.area());
    app.areas = super::app::Areas::default();
    draw_title(frame, app, theme, top);
    draw_tabs(frame, app, tabs);
    match app.tab {
        _ if app.samples.now.is_none() => {
            let text = app.lost.as_deref().map_or("Waiting for the first snapshot…".to_owned(), plain);
            frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), body);
        }
        Tab::Overview => draw_overview(frame, app, theme, body),
        Tab::Key => draw_key(frame, app, theme, body),
        _ => draw_table(frame, app, theme, body, now),
    }
    draw_footer(frame, app, theme, bottom);
    if app.shows_help {
        draw_help(frame);
    }
}

fn draw_title(frame: &mut Frame<'_>, app: &App, theme: &Theme, area: Rect) {
    let mut line = Line::from(Span::styled("informer top", BOLD));
    if let Some(snapshot) = &app.samples.now {
        line.push_span(format!("  {}", plain(&snapshot.client.server)));
        let uptime = seconds(snapshot.process.uptime_seconds);
        line.push_span(Span::styled(format!("  up {uptime}"), MUTED));
    }
    let (state, level) = match &app.lost {
        Some(_) => ("reconnecting", Severity::Bad),
        None if app.is_paused => ("paused", Severity::Warn),
        None if app.samples.now.is_none() => ("connecting", Severity::Warn),
        None => ("live", Severity::Ok),
    };
    frame.render_widget(line, area);
    let state = Line::from(Span::styled(format!("{state} "), style_of(theme, level))).right_aligned();
    frame.render_widget(state, area);
}

fn draw_tabs(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let mut x = area.x;
    for (number, tab) in (1..).zip(Tab::ALL) {
        // The titles of all views fit into 80 columns.
        let text = format!(" {number} {}", tab.title());
        let width = text.len() as u16;
        let place = Rect { x, width, ..area }.intersection(area);
        let style = if tab == app.tab { REVERSED } else { MUTED };
        frame.render_widget(Span::styled(text, style), place);
        app.areas.tabs.push((place, tab));
        x = x.saturating_add(width);
    }
}

fn draw_footer(frame: &mut Frame<'_>, app: &mut App, theme: &Theme, area: Rect) {
    let (tab, is_filtering) = (app.tab, app.is_filtering);
    let filter = plain(&app.table().filter);
    let line = if is_filtering {
        let prompt = if tab == Tab::Key { "key: " } else { "/" };
        Line::from(vec![Span::styled(prompt, BOLD), Span::raw(filter), Span::styled(" ", REVERSED)])
    } else if let Some(lost) = app.lost.as_ref().filter(|_| app.samples.now.is_some()) {
        let text = format!("no new data: {}", plain(lost));
        Line::from(Span::styled(text, style_of(theme, Severity::Bad)))
    } else if filter.is_empty() {
        Line::from(Span::styled("/ filter  s sort  Enter history  p pause  ? help  q quit", MUTED))
    } else {
        Line::from(format!("filter: {filter}   (Esc clears it)"))
    };
    frame.render_widget(line, area);
}

fn draw_overview(frame: &mut Frame<'_>, app: &App, theme: &Theme, area: Rect) {
    let samples = &app.samples;
    let Some(snapshot) = &samples.now else { return };
    let found = problems(snapshot, samples);
    let [figures, series, health] =
        Layout::vertical([Constraint::Length(8), Constraint::Length(6), Constraint::Min(3)]).areas(area);
    let block = Block::bordered().title(" Figures ").border_style(MUTED);
    frame.render_widget(Paragraph::new(overview_lines(app, snapshot)).block(block), figures);
    let title = format!(" Reconciles per second: {} ", samples.series.back().copied().unwrap_or_default());
    let block = Block::bordered().title(title).border_style(MUTED);
    let width = usize::from(block.inner(series).width);
    let data: Vec<u64> = samples.series.iter().rev().take(width).rev().copied().collect();
    let sparkline = Sparkline::default().data(data).style(theme.colored(Color::Cyan)).block(block);
    frame.render_widget(sparkline, series);
    let (title, level) = match found.len() {
        0 => (" Everything works ".to_owned(), Severity::Ok),
        1 => (" 1 problem ".to_owned(), found[0].level),
        number => (format!(" {number} problems "), found[0].level),
    };
    let lines: Vec<Line<'_>> = found
        .iter()
        .map(|one| {
            let mark = if one.level == Severity::Bad { "error " } else { "warn  " };
            Line::from(vec![
                Span::styled(mark, style_of(theme, one.level)),
                Span::styled(plain(&one.subject), BOLD),
                Span::raw(format!(" {}", plain(&one.text))),
            ])
        })
        .collect();
    let title = Span::styled(title, style_of(theme, level));
    let block = Block::bordered().title(title).border_style(MUTED);
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), health);
}

fn overview_lines(app: &App, snapshot: &ConsoleSnapshot) -> Vec<Line<'static>> {
    let ConsoleSnapshot { informers, queues, controllers, process, .. } = snapshot;
    let sum = |values: &mut dyn Iterator<Item = u64>| count(values.sum());
    let rate_of =
        |counter: &dyn Fn(&ConsoleSnapshot) -> u64| rate(app.samples.rate(|all| Some(counter(all))));
    let synced = informers.iter().filter(|one| one.synced).count();
    let events = rate_of(&|all| all.informers.iter().map(|one| one.events).sum());
    let done = rate_of(&|all| all.controllers.iter().map(finished).sum());
    let errors = rate_of(&|all| all.controllers.iter().map(|one| one.results.error).sum());
    let requests = rate_of(&|all| all.client.requests.iter().map(|one| one.count).sum());
    let leader = snapshot.leases.iter().find(|lease| lease.kind == "leader-election");
    let leader = match leader.map(|lease| lease.active) {
        None => "no election",
        Some(true) => "leader",
        Some(false) => "standby",
    };
    let line = |name: &str, value: String, detail: String| {
        Line::from(vec![
            Span::styled(format!(" {name:<14}"), MUTED),
            Span::styled(format!("{value:<18}"), BOLD),
            Span::raw(detail),
        ])
    };
    vec![
        line(
            "informers",
            format!("{synced} of {} synced", informers.len()),
            format!(
                "{} objects, {}, {events} events",
                sum(&mut informers.iter().map(|one| one.objects)),
                bytes(informers.iter().map(|one| one.bytes).sum()),
            ),
        ),
        line(
            "queues",
            format!("{} ready", sum(&mut queues.iter().map(|one| one.ready))),
            format!(
                "{} delayed, {} running, {} retries",
                sum(&mut queues.iter().map(|one| one.waiting)),
                sum(&mut queues.iter().map(|one| one.processing)),
                sum(&mut queues.iter().map(|one| one.retries)),
            ),
        ),
        line(
            "workers",
            format!(
                "{} of {} busy",
                sum(&mut controllers.iter().map(|one| one.active)),
                sum(&mut controllers.iter().map(|one| one.workers)),
            ),
            plural(controllers.len(), "controller"),
        ),
        line("reconciles", done, format!("{errors} errors")),
        line("API requests", requests, leader.to_owned()),
        line(
            "process",
            process.resident_bytes.map_or_else(|| format!("pid {}", process.pid), bytes),
            format!("pid {}, {} tasks, {} threads", process.pid, process.tasks, process.threads),
        ),
    ]
}

fn draw_table(frame: &mut Frame<'_>, app: &mut App, theme: &Theme, area: Rect, now: Instant) {
    let tab = app.tab;
    let view = app.table();
    let (filter, sort) = (view.filter.clone(), view.sort);
    // The rows are read while the state of the table changes.
    let mut cache = std::mem::take(&mut app.rows);
    let rows = cache.update(tab, &app.samples, &filter, sort, now);
    let columns = table::columns(tab);
    let shown: Vec<(usize, &Column)> =
        columns.iter().enumerate().filter(|(_, column)| area.width >= column.from).collect();
    let widths = shown.iter().map(|(_, column)| column.width);
    let layout = Layout::horizontal(widths).spacing(1);
    let [header, body, note] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)]).areas(area);
    let cells = layout.split(header);
    for ((index, column), place) in shown.iter().zip(cells.iter()) {
        let mark = match sort.filter(|sort| sort.column == *index) {
            Some(sort) if sort.descending => "▼",
            Some(_) => "▲",
            None => "",
        };
        let line = Line::from(Span::styled(format!("{}{mark}", column.title), BOLD));
        frame.render_widget(if column.numeric { line.right_aligned() } else { line }, *place);
        app.areas.headers.push((*place, *index));
    }
    app.areas.rows = body;
    let height = usize::from(body.height);
    let view = app.table();
    view.follow(rows);
    view.offset = view.offset.clamp((view.selected + 1).saturating_sub(height.max(1)), view.selected);
    let (selected, offset) = (view.selected, view.offset);
    for (at, row) in rows.iter().enumerate().skip(offset).take(height) {
        let place = Rect { y: body.y + (at - offset) as u16, height: 1, ..body };
        draw_row(frame, row, &shown, &layout, theme, place);
        if at == selected {
            frame.buffer_mut().set_style(place, REVERSED);
        }
    }
    let shown = rows.len();
    let total = cache.total;
    app.rows = cache;
    let all = plural(total, tab.title().to_lowercase().trim_end_matches('s'));
    let mut text = if shown == total { all } else { format!("{shown} of {all}") };
    if tab == Tab::Reconciles && app.samples.dropped > 0 {
        text += &format!("; {} more ended and are not listed", count(app.samples.dropped));
    }
    frame.render_widget(Line::from(Span::styled(text, MUTED)), note);
}

fn draw_row(
    frame: &mut Frame<'_>,
    row: &TableRow,
    shown: &[(usize, &Column)],
    layout: &Layout,
    theme: &Theme,
    place: Rect,
) {
    let cells = layout.split(place);
    for ((index, column), place) in shown.iter().zip(cells.iter()) {
        let style = style_of(theme, row.level);
        draw_cell(frame, &row.cells[*index].text, style, column.numeric, *place);
    }
}

fn draw_key(frame: &mut Frame<'_>, app: &mut App, theme: &Theme, area: Rect) {
    let lines = match (&app.key, &app.history) {
        (None, _) => {
            vec![Line::from("Press / and enter a key such as default/web, or press Enter on a reconcile.")]
        }
        (Some(key), None) => vec![Line::from(format!("Reading the history of {}…", plain(key)))],
        (Some(_), Some(Err(problem))) => {
            let text = format!("The history cannot be read: {}", plain(problem));
            vec![Line::from(Span::styled(text, style_of(theme, Severity::Bad)))]
        }
        (Some(_), Some(Ok(history))) => history_lines(history, theme),
    };
    let title = app.key.as_deref().map_or(" Key ".to_owned(), |key| format!(" {} ", plain(key)));
    let block = Block::bordered().title(Span::styled(title, BOLD)).border_style(MUTED);
    let view = app.table();
    view.selected = view.selected.min(lines.len().saturating_sub(1));
    let scroll = u16::try_from(view.selected).unwrap_or(u16::MAX);
    let text = Paragraph::new(lines).wrap(Wrap { trim: false }).scroll((scroll, 0)).block(block);
    frame.render_widget(text, area);
}

fn history_lines(history: &KeyHistory, theme: &Theme) -> Vec<Line<'static>> {
    if history.controllers.is_empty() {
        let text = "Nothing is known about this key. The last 1,000 reconciles of each controller are kept.";
        return vec![Line::from(text)];
    }
    let mut lines = Vec::new();
    for of in &history.controllers {
        if let Some(queued) = &of.queued {
            let (age, causes) = (seconds(queued.age_seconds), plain(&queued.causes.join("; ")));
            let text = format!("queued in {} for {age}: {causes}", plain(&of.controller));
            lines.push(Line::from(Span::styled(text, style_of(theme, Severity::Warn))));
        }
    }
    let all = |of: &'_ informer::runtime::console::ControllerHistory| -> Vec<(String, ReconcileSnapshot)> {
        let reconciles = of.running.iter().chain(&of.reconciles);
        reconciles.map(|one| (of.controller.clone(), one.clone())).collect()
    };
    let mut reconciles: Vec<(String, ReconcileSnapshot)> = history.controllers.iter().flat_map(all).collect();
    reconciles.sort_by(|(_, a), (_, b)| a.began_seconds_ago.total_cmp(&b.began_seconds_ago));
    for (controller, one) in &reconciles {
        reconcile_lines(controller, one, &history.key, theme, &mut lines);
    }
    lines
}

fn reconcile_lines(
    controller: &str,
    one: &ReconcileSnapshot,
    key: &str,
    theme: &Theme,
    lines: &mut Vec<Line<'static>>,
) {
    let (result, level) = match one.result.as_deref() {
        None => ("running", Severity::Warn),
        Some("error") => ("failed", Severity::Bad),
        Some("success") => ("ok", Severity::Ok),
        Some(_) => ("requeued", Severity::Ok),
    };
    let mut head = vec![
        Span::styled(format!("{:>10} ago  ", seconds(one.began_seconds_ago)), MUTED),
        Span::styled(format!("{result:<9}"), style_of(theme, level)),
        Span::styled(plain(controller), BOLD),
    ];
    if one.request != key {
        head.push(Span::raw(format!(" reconciled {}", plain(&one.request))));
    }
    let took = optional_seconds(one.seconds);
    let waited = one.waited_seconds.map(|waited| format!(", {} after its first cause", seconds(waited)));
    head.push(Span::styled(format!("  took {took}{}", waited.unwrap_or_default()), MUTED));
    lines.push(Line::from(head));
    for cause in &one.causes {
        lines.push(Line::from(format!("                because {}", plain(cause))));
    }
    if one.omitted > 0 {
        lines.push(Line::from(format!("                and {} more causes", one.omitted)));
    }
    if let Some(error) = &one.error {
        let text = format!("                {}", plain(error));
        lines.push(Line::from(Span::styled(text, style_of(theme, Severity::Bad))));
    }
}

fn draw_help(frame: &mut Frame<'_>) {
    let keys = HELP.iter().map(|(keys, _)| keys.len()).max().unwrap_or_default();
    let lines: Vec<Line<'_>> = HELP
        .iter()
        .map(|(name, does)| {
            Line::from(vec![Span::styled(format!(" {name:<keys$}  "), BOLD), Span::raw(*does)])
        })
        .collect();
    let area = frame.area();
    let (width, height) = (area.width.min(78), (lines.len() as u16 + 2).min(area.height));
    let place = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(Text::from(lines)).block(Block::bordered().title(" Keys ")), place);
}
