//! Draws the screen.

use std::collections::{HashSet, VecDeque};

use informer::runtime::console::{
    ConsoleSnapshot, ControllerHistory, KeyHistory, LeaseSnapshot, ProcessSnapshot, ReconcileSnapshot,
};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Clear, Paragraph, Sparkline, Wrap};
use tokio::time::Instant;

use super::app::{App, Tab};
use super::health::{Severity, problems};
use super::sample::{RecentFailures, Samples, finished};
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

/// The maximum number of reconciles in the history of a key.
const MAX_HISTORY: usize = 200;

/// The height of the text about the selected reconcile.
const DETAIL_LINES: u16 = 3;

/// The columns that the border of a block takes.
const BORDERS: u16 = 2;

/// The indentation of the causes and the error of a reconcile, below its result.
const INDENT: &str = "                ";

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
        Tab::Key => draw_key(frame, app, theme, body, now),
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
        for part in [identity(snapshot), plain(&snapshot.client.server)] {
            line.push_span(if part.is_empty() { part } else { format!("  {part}") });
        }
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

/// Returns the name of the program and its identity in its leases, which is usually the name of its Pod;
/// without a lease, the name of its host.
fn identity(snapshot: &ConsoleSnapshot) -> String {
    let ProcessSnapshot { program, host, .. } = &snapshot.process;
    let identity = leader_election(snapshot).or(snapshot.leases.first()).map(|lease| lease.identity.as_str());
    match identity.or(host.as_deref()).unwrap_or_default() {
        "" => plain(program),
        identity if identity.starts_with(program.as_str()) => plain(identity),
        identity => format!("{} on {}", plain(program), plain(identity)),
    }
}

fn leader_election(snapshot: &ConsoleSnapshot) -> Option<&LeaseSnapshot> {
    snapshot.leases.iter().find(|lease| lease.kind == "leader-election")
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
    } else if tab == Tab::Key {
        Line::from(Span::styled("j k scroll  / another key  Esc back  p pause  ? help  q quit", MUTED))
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
    let [ended, failed] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(series);
    draw_series(frame, "Reconciles", &samples.series, theme.colored(Color::Cyan), ended);
    draw_series(frame, "Failures", &samples.failed_series, theme.colored(Color::Red), failed);
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

/// Draws a sparkline of the newest values that fit into the area. The title has the newest value and the
/// maximum.
fn draw_series(frame: &mut Frame<'_>, name: &str, series: &VecDeque<u64>, style: Style, area: Rect) {
    let width = usize::from(area.width.saturating_sub(BORDERS));
    let data: Vec<u64> = series.iter().rev().take(width).rev().copied().collect();
    let (last, max) =
        (data.last().copied().unwrap_or_default(), data.iter().max().copied().unwrap_or_default());
    let title = format!(" {name}: {last}/s, max {max}/s in {} s ", data.len());
    let block = Block::bordered().title(title).border_style(MUTED);
    frame.render_widget(Sparkline::default().data(data).style(style).block(block), area);
}

fn overview_lines(app: &App, snapshot: &ConsoleSnapshot) -> Vec<Line<'static>> {
    let ConsoleSnapshot { informers, queues, controllers, process, .. } = snapshot;
    let sum = |values: &mut dyn Iterator<Item = u64>| count(values.sum());
    let rate_of =
        |counter: &dyn Fn(&ConsoleSnapshot) -> u64| rate(app.samples.rate(|all| Some(counter(all))));
    let synced = informers.iter().filter(|one| one.synced).count();
    let events = rate_of(&|all| all.informers.iter().map(|one| one.events).sum());
    let done = rate_of(&|all| all.controllers.iter().map(finished).sum());
    let recent =
        controllers.iter().map(|one| app.samples.failures(&one.name)).fold(None, RecentFailures::add);
    let (failed, share) = recent.map_or((0, String::new()), |recent| (recent.failed, recent.share()));
    let requests = rate_of(&|all| all.client.requests.iter().map(|one| one.count).sum());
    let leader = match leader_election(snapshot).map(|lease| lease.active) {
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
                "{} delayed, {} running; {} retries since the start",
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
        line("reconciles", done, format!("{} failed in the last minute{share}", count(failed))),
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
    let layout = Layout::horizontal(table::widths(&shown, rows, area.width)).spacing(1);
    let details = if tab == Tab::Reconciles { DETAIL_LINES } else { 0 };
    let rows_of_screen = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(details),
        Constraint::Length(1),
    ]);
    let [header, body, detail, note] = rows_of_screen.areas(area);
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
    if let Some(row) = rows.get(selected).filter(|_| details > 0) {
        let of_row = app.samples.reconciles.iter().rev().find(|one| one.reconcile.id == row.id);
        let text = of_row.map(|one| table::detail(&one.reconcile)).unwrap_or_default();
        let text = Paragraph::new(text).style(style_of(theme, row.level));
        frame.render_widget(text.wrap(Wrap { trim: false }), detail);
    }
    let hidden = columns.len() - shown.len();
    let shown = rows.len();
    let total = cache.total;
    app.rows = cache;
    let all = plural(total, tab.title().to_lowercase().trim_end_matches('s'));
    let mut text = if shown == total { all } else { format!("{shown} of {all}") };
    if tab == Tab::Reconciles && app.samples.dropped > 0 {
        text += &format!("; not listed: {}", count(app.samples.dropped));
    }
    if matches!(tab, Tab::Queues | Tab::Controllers) {
        text += "; totals and means since the start";
    }
    if hidden > 0 {
        text += &format!("; {} hidden", plural(hidden, "column"));
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

fn draw_key(frame: &mut Frame<'_>, app: &mut App, theme: &Theme, area: Rect, now: Instant) {
    let lines = match (&app.key, &app.history) {
        (None, _) => {
            vec![Line::from("Press / and enter a key such as default/web, or press Enter on a reconcile.")]
        }
        (Some(key), None) => vec![Line::from(format!("Reading the history of {}…", plain(key)))],
        (Some(_), Some(Err(problem))) => {
            let text = format!("The history cannot be read: {}", plain(problem));
            vec![Line::from(Span::styled(text, style_of(theme, Severity::Bad)))]
        }
        (Some(_), Some(Ok(history))) => {
            let width = area.width.saturating_sub(BORDERS).into();
            history_lines(history, &app.samples, theme, width, now)
        }
    };
    let title = app.key.as_deref().map_or(" Key ".to_owned(), |key| format!(" {} ", plain(key)));
    let mut block = Block::bordered().title(Span::styled(title, BOLD)).border_style(MUTED);
    let view = app.table();
    view.selected = view.selected.min(lines.len().saturating_sub(1));
    let last = (view.selected + usize::from(area.height.saturating_sub(BORDERS))).min(lines.len());
    if last - view.selected < lines.len() {
        let position = format!(" lines {}-{last} of {} ", view.selected + 1, lines.len());
        block = block.title_bottom(Line::from(position).right_aligned());
    }
    let scroll = u16::try_from(view.selected).unwrap_or(u16::MAX);
    let text = Paragraph::new(lines).wrap(Wrap { trim: false }).scroll((scroll, 0)).block(block);
    frame.render_widget(text, area);
}

/// Returns the lines of a history. Causes and errors are wrapped to `width`.
fn history_lines(
    history: &KeyHistory,
    samples: &Samples,
    theme: &Theme,
    width: usize,
    now: Instant,
) -> Vec<Line<'static>> {
    let reconciles = known_reconciles(history, samples, now);
    if history.controllers.is_empty() && reconciles.is_empty() {
        let text = "Nothing is known about this key. The last 1,000 reconciles of each controller are kept.";
        return vec![Line::from(text)];
    }
    let mut lines = Vec::new();
    for of in &history.controllers {
        if let Some(queued) = &of.queued {
            let (age, causes) = (seconds(queued.age_seconds), plain(&queued.causes.join("; ")));
            let text = format!("queued in {} for {age}: {causes}", plain(&of.controller));
            push_wrapped(&text, "", style_of(theme, Severity::Warn), width, &mut lines);
        }
    }
    let own = reconciles.iter().filter(|one| one.request == history.key && one.result.is_some());
    let failed: Vec<&ReconcileSnapshot> = own.clone().filter(|one| one.error.is_some()).collect();
    if let Some(oldest) = own.clone().next_back() {
        let (number, since) = (plural(own.count(), "known reconcile"), seconds(oldest.began_seconds_ago));
        let text = format!("{} of {number} failed in the last {since}", failed.len());
        lines.push(Line::styled(text, BOLD));
    }
    for one in reconciles.iter().take(MAX_HISTORY) {
        lines.push(head_of_reconcile(one, &history.key, theme));
        for cause in table::causes(one) {
            push_wrapped(&format!("because {}", plain(&cause)), INDENT, Style::new(), width, &mut lines);
        }
        if one.omitted > 0 {
            lines.push(Line::from(format!("{INDENT}and {} more causes", one.omitted)));
        }
        if let Some(error) = &one.error {
            push_wrapped(&plain(error), INDENT, style_of(theme, Severity::Bad), width, &mut lines);
        }
    }
    lines
}

/// Returns the reconciles of a key, newest first: those of the history, and older ones that were received
/// before.
fn known_reconciles(history: &KeyHistory, samples: &Samples, now: Instant) -> Vec<ReconcileSnapshot> {
    let of_controller = |of: &ControllerHistory| -> Vec<ReconcileSnapshot> {
        let mut all: Vec<ReconcileSnapshot> = of.running.iter().chain(&of.reconciles).cloned().collect();
        all.iter_mut().for_each(|one| one.controller.clone_from(&of.controller));
        all
    };
    let mut all: Vec<ReconcileSnapshot> = history.controllers.iter().flat_map(of_controller).collect();
    let known: HashSet<String> = all.iter().map(|one| one.id.clone()).collect();
    let received = samples.reconciles.iter().filter(|one| one.reconcile.request == history.key);
    let received = received.filter(|one| !known.contains(&one.reconcile.id)).map(|one| {
        let mut reconcile = one.reconcile.clone();
        reconcile.began_seconds_ago = (now - one.began).as_secs_f64();
        reconcile
    });
    all.extend(received);
    all.sort_by(|a, b| a.began_seconds_ago.total_cmp(&b.began_seconds_ago));
    all
}

/// Adds a text that is indented by `indent`, and the lines after its first one by two columns more.
fn push_wrapped(text: &str, indent: &str, style: Style, width: usize, lines: &mut Vec<Line<'static>>) {
    let further = format!("{indent}  ");
    let options = textwrap::Options::new(width).initial_indent(indent).subsequent_indent(&further);
    lines.extend(textwrap::wrap(text, options).iter().map(|line| Line::styled(line.to_string(), style)));
}

fn head_of_reconcile(one: &ReconcileSnapshot, key: &str, theme: &Theme) -> Line<'static> {
    let (result, level) = match one.result.as_deref() {
        None => ("running", Severity::Warn),
        Some("error") => ("failed", Severity::Bad),
        Some("success") => ("ok", Severity::Ok),
        Some(_) => ("requeued", Severity::Ok),
    };
    let mut head = vec![
        Span::styled(format!("{:>10} ago  ", seconds(one.began_seconds_ago)), MUTED),
        Span::styled(format!("{result:<9}"), style_of(theme, level)),
        Span::styled(plain(&one.controller), BOLD),
    ];
    if one.request != key {
        head.push(Span::raw(format!(" reconciled {}", plain(&one.request))));
    }
    let took = optional_seconds(one.seconds);
    let waited = one.waited_seconds.map(|waited| format!(", {} after its first cause", seconds(waited)));
    head.push(Span::styled(format!("  took {took}{}", waited.unwrap_or_default()), MUTED));
    Line::from(head)
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
