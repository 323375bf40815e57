use std::sync::Arc;
use std::time::Duration;

use informer::cache::Event;
use informer::client::ResourceKind;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{Event as Input, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use serde_json::{Value, json};
use tokio::time::{Instant, advance};

use super::changes::{ChangeLog, MAX_DELETED};
use super::screen_state::ScreenState;
use super::view::{FrameContext, Status, draw};
use crate::screen::{Theme, has_colors, key_event, text_of};
use crate::watch::{Text, ignore};

struct Screen {
    log: ChangeLog,
    state: ScreenState,
    terminal: Terminal<TestBackend>,
    status: Status,
}

fn pods() -> ResourceKind {
    ResourceKind::new("", "v1", "Pod", "pods")
}

fn secrets() -> ResourceKind {
    ResourceKind::new("", "v1", "Secret", "secrets")
}

fn object(name: &str, version: u64, content: Value) -> Arc<Text> {
    let mut object = content;
    object["metadata"] =
        json!({"namespace": "default", "name": name, "uid": name, "resourceVersion": version.to_string()});
    Arc::new(Text::from_json_of(pods(), &object.to_string()).expect("an object"))
}

fn phase(name: &str, version: u64, phase: &str) -> Arc<Text> {
    object(name, version, json!({"status": {"phase": phase}}))
}

impl Screen {
    fn new(width: u16, height: u16) -> Self {
        let terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        let log = ChangeLog::new(vec![ignore::parse("status.heartbeat").expect("a path")], false);
        let status = Status {
            title: "pods in all namespaces".to_owned(),
            state: "live",
            is_live: true,
            note: None,
            kind_width: None,
        };
        Self { log, state: ScreenState::default(), terminal, status }
    }

    /// Returns a screen of 80×24 with these pods, which were listed.
    fn with_pods(names: &[&str]) -> Self {
        Self::of_height(24, names)
    }

    fn of_height(height: u16, names: &[&str]) -> Self {
        let screen = Self::new(80, height);
        for name in names {
            screen.record(Event::Added { object: phase(name, 1, "Pending"), initial: true });
        }
        screen
    }

    fn record(&self, event: Event<Text>) {
        self.log.record(&pods(), &event);
    }

    fn update(&self, name: &str, version: u64, before: &str, after: &str) {
        let (old, new) = (phase(name, version, before), phase(name, version + 1, after));
        self.record(Event::Updated { old, new, resync: false });
    }

    fn keys(&mut self, keys: &str) -> String {
        for character in keys.chars() {
            self.input(&key_event(character));
        }
        self.text()
    }

    fn mouse(&mut self, kind: MouseEventKind, column: u16, row: u16) -> String {
        self.input(&Input::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }));
        self.text()
    }

    fn input(&mut self, input: &Input) {
        self.state.input(input, &self.log.lock());
        self.text();
    }

    fn text(&mut self) -> String {
        self.draw(&Theme::without_colors())
    }

    fn draw(&mut self, theme: &Theme) -> String {
        let (state, log, status) = (&mut self.state, &self.log, &self.status);
        let context = FrameContext { status, theme, now: Instant::now() };
        self.terminal.draw(|frame| draw(frame, state, log, &context)).expect("a test backend");
        text_of(&self.terminal)
    }

    /// Returns the keys of the shown rows, from the first one.
    fn rows(&mut self) -> Vec<String> {
        let text = self.text();
        let rows = text.lines().skip(2).take_while(|line| !line.starts_with('┌') && !line.is_empty());
        rows.filter_map(|row| row.split_whitespace().find(|word| word.contains('/')).map(str::to_owned))
            .collect()
    }

    fn selected(&mut self) -> String {
        let text = self.text();
        let title = text.lines().find_map(|line| line.strip_prefix("┌ ")).unwrap_or_default();
        title.split(' ').next().unwrap_or_default().to_owned()
    }
}

#[tokio::test(start_paused = true)]
async fn changed_object_moves_to_the_top_and_its_changes_are_shown() {
    let mut screen = Screen::with_pods(&["a", "b", "c"]);
    assert_eq!(screen.rows(), ["default/a", "default/b", "default/c"]);
    assert!(screen.text().contains("Unchanged since it was listed."));
    screen.update("b", 1, "Pending", "Running");
    advance(Duration::from_secs(5)).await;
    let text = screen.text();
    for part in [
        "pods in all namespaces  3 objects, 1 change",
        "~ default/b",
        "status.phase",
        "5 s ago",
        "@1 -> @2",
        r#"~ status.phase: "Pending" -> "Running""#,
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    assert_eq!(screen.rows(), ["default/b", "default/a", "default/c"]);
    assert_eq!(screen.keys("s").lines().nth(1).map(|header| header.contains("OBJECT▼")), Some(true));
    assert_eq!(screen.rows(), ["default/a", "default/b", "default/c"]);
}

#[tokio::test(start_paused = true)]
async fn resyncs_and_updates_of_ignored_fields_change_nothing() {
    let mut screen = Screen::of_height(40, &["a"]);
    let state = |version, heartbeat| object("a", version, json!({"status": {"heartbeat": heartbeat}}));
    screen.record(Event::Updated { old: state(1, 1), new: state(2, 2), resync: false });
    screen.record(Event::Updated { old: state(2, 2), new: state(2, 2), resync: true });
    let text = screen.text();
    assert!(text.contains("1 object, 0 changes"), "{text}");
    let yaml = screen.keys("\n");
    assert!(yaml.contains("heartbeat: 2"), "the object is current:\n{yaml}");
    screen.keys("\n");
    screen.record(Event::Updated { old: state(2, 2), new: state(3, 2), resync: false });
    let text = screen.text();
    assert!(text.contains("(only resourceVersion or managed fields changed)"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn deleted_objects_stay_until_others_are_deleted() {
    let mut screen = Screen::with_pods(&["a", "b"]);
    screen.record(Event::Deleted { last: phase("a", 1, "Pending"), stale: true });
    let text = screen.text();
    assert!(text.contains("1 object, 1 deleted, 1 change") && text.contains("- default/a"), "{text}");
    assert!(text.contains("@1 (last known)"), "{text}");
    screen.record(Event::Added { object: phase("a", 7, "Pending"), initial: false });
    assert!(screen.text().contains("2 objects, 2 changes") && screen.text().contains("+ default/a"));
    for number in 0..=MAX_DELETED {
        let name = format!("gone-{number}");
        screen.record(Event::Added { object: phase(&name, 8, "Pending"), initial: false });
        screen.record(Event::Deleted { last: phase(&name, 8, "Pending"), stale: false });
    }
    let text = screen.keys("/gone-0\n");
    assert!(text.contains("No object matches the filter."), "{text}");
    let text = screen.keys("\x1b/gone-1\n");
    assert!(text.contains("- default/gone-1"), "{text}");
    let text = screen.keys("\x1b/default/a\n");
    assert!(text.contains("+ default/a"), "the object that was created again is not forgotten:\n{text}");
}

#[tokio::test(start_paused = true)]
async fn selected_object_stays_selected_while_others_change() {
    let mut screen = Screen::with_pods(&["a", "b", "c"]);
    assert_eq!(screen.selected(), "default/a");
    screen.update("c", 1, "Pending", "Running");
    assert_eq!(screen.selected(), "default/c", "the first row follows the last change");
    screen.keys("j");
    assert_eq!(screen.selected(), "default/a");
    screen.update("b", 1, "Pending", "Running");
    assert_eq!(screen.selected(), "default/a");
    screen.keys("G");
    assert_eq!(screen.selected(), "default/a", "it is the last one");
    screen.keys("g");
    assert_eq!(screen.selected(), "default/b");
    screen.keys("/c\n");
    assert_eq!((screen.selected(), screen.rows()), ("default/c".to_owned(), vec!["default/c".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn footer_of_a_filter_shows_the_number_of_matching_objects() {
    let mut screen = Screen::with_pods(&["web-1", "web-2", "api"]);
    screen.keys("/");
    assert!(screen.keys("web").ends_with("/web   2 objects  Enter keep  Esc clear"), "{}", screen.text());
    assert!(screen.keys("\n").ends_with("filter: web  (2 objects; Esc clears it)"), "{}", screen.text());
    screen.keys("/-1\n");
    assert!(screen.text().ends_with("filter: web-1  (1 object; Esc clears it)"), "{}", screen.text());
    assert!(screen.keys("\x1b").ends_with("q quit"));
    screen.record(Event::Deleted { last: phase("web-1", 1, "Pending"), stale: false });
    assert!(
        screen.keys("/web\n").ends_with("filter: web  (1 object, 1 deleted; Esc clears it)"),
        "{}",
        screen.text()
    );
}

#[tokio::test(start_paused = true)]
async fn column_of_kinds_fits_their_names_and_the_title_of_the_detail_names_the_kind() {
    let mut screen = Screen::with_pods(&["web"]);
    screen.status.kind_width = Some(7);
    screen.log.record(&secrets(), &Event::Added { object: phase("s", 1, "-"), initial: false });
    let text = screen.text();
    for part in [
        "  KIND    OBJECT",
        "+ secrets default/s",
        "(added)",
        "  pods    default/web",
        "┌ secrets default/s (changes) ",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn border_of_the_yaml_shows_the_range_of_visible_lines() {
    let mut screen = Screen::of_height(16, &["a"]);
    let text = screen.keys("\n");
    assert!(text.contains(" lines 1-6 of 9 ┘"), "{text}");
    let below = screen.keys("JJ");
    assert!(below.contains(" lines 3-8 of 9 ┘"), "{below}");
    assert!(below.contains("Enter changes"), "{below}");
}

#[tokio::test(start_paused = true)]
async fn text_that_is_too_long_for_its_column_ends_with_an_ellipsis() {
    let mut screen = Screen::with_pods(&["web"]);
    let version = |version, node: &str| {
        object("web", version, json!({"status": {"aLongNameOfAField": {"node": node}}}))
    };
    screen.record(Event::Updated { old: version(1, "a"), new: version(2, "b"), resync: false });
    let text = screen.text();
    let row = text.lines().nth(2).expect("a row");
    assert!(row.contains("status.aLongNameOfAField.no… "), "{text}");
    screen.status.title = "x".repeat(100);
    let text = screen.text();
    assert!(text.lines().next().is_some_and(|title| title.ends_with("xxx… live")), "{text}");
}

#[tokio::test(start_paused = true)]
async fn enter_shows_the_object_and_values_of_secrets_are_hidden() {
    let mut screen = Screen::new(80, 40);
    let secret = |version, value: &str| object("s", version, json!({"data": {"password": value}}));
    screen.log.record(&secrets(), &Event::Added { object: secret(1, "b2xk"), initial: true });
    let changed = Event::Updated { old: secret(1, "b2xk"), new: secret(2, "bmV3"), resync: false };
    screen.log.record(&secrets(), &changed);
    let text = screen.text();
    assert!(text.contains("~ data.password: *** -> ***"), "{text}");
    let yaml = screen.keys("\n");
    assert!(yaml.contains("password: '***'") && yaml.contains("resourceVersion: '2'"), "{yaml}");
    assert!(!yaml.contains("bmV3"), "{yaml}");
}

#[tokio::test(start_paused = true)]
async fn control_characters_of_a_server_are_escaped() {
    let mut screen = Screen::of_height(40, &["a"]);
    let (old, new) = (phase("a", 1, "ok"), phase("a", 2, "\u{1b}[31mred"));
    screen.record(Event::Updated { old, new, resync: false });
    let (changes, yaml) = (screen.text(), screen.keys("\n"));
    assert!(changes.contains(r#""ok" -> "\u001b[31mred""#), "{changes}");
    assert!(yaml.contains(r#"phase: "\e[31mred""#), "{yaml}");
}

#[tokio::test(start_paused = true)]
async fn mouse_selects_objects_and_scrolls() {
    let mut screen = Screen::of_height(16, &["a", "b", "c"]);
    screen.text();
    screen.mouse(MouseEventKind::Down(MouseButton::Left), 5, 3);
    assert_eq!(screen.selected(), "default/b");
    screen.mouse(MouseEventKind::ScrollUp, 5, 3);
    assert_eq!(screen.selected(), "default/a");
    screen.mouse(MouseEventKind::Down(MouseButton::Left), 5, 8);
    assert_eq!(screen.selected(), "default/a", "there is no object in this line");
    let top = screen.keys("\n");
    assert!(top.contains("│apiVersion: v1"), "{top}");
    let below = screen.mouse(MouseEventKind::ScrollDown, 5, 12);
    assert!(!below.contains("apiVersion: v1") && below.contains("phase: Pending"), "{below}");
    assert_eq!(screen.mouse(MouseEventKind::ScrollUp, 5, 12), top);
    assert_eq!(screen.keys("JK"), top);
}

#[tokio::test(start_paused = true)]
async fn lost_connection_help_and_quit() {
    let mut screen = Screen::with_pods(&["a"]);
    screen.status.state = "reconnecting";
    screen.status.is_live = false;
    screen.status.note = Some("pods: watch: connection refused; trying again".to_owned());
    let text = screen.text();
    assert!(text.contains("reconnecting") && text.contains("q quit"), "{text}");
    assert!(text.contains("The objects may be outdated. pods: watch: connection refused"), "{text}");
    screen.status.note = Some("word ".repeat(100));
    let text = screen.text();
    assert!(text.lines().nth(22).is_some_and(|line| line.ends_with('…')), "{text}");
    assert!(screen.keys("?").contains("filter by kind, namespace and name"));
    screen.keys("x");
    assert!(!screen.state.quit);
    screen.keys("q");
    assert!(screen.state.quit);
}

#[tokio::test(start_paused = true)]
async fn small_and_large_terminals_do_not_panic() {
    for (width, height) in [(1, 1), (10, 3), (20, 5), (59, 10), (250, 80)] {
        let mut screen = Screen::new(width, height);
        screen.status.is_live = false;
        screen.status.note = Some("pods: watch: connection refused; trying again".repeat(5));
        screen.keys("?xjkGg/a\n\x1bsJK\n");
        for name in ["a", "b", "c"] {
            screen.record(Event::Added { object: phase(name, 1, "Pending"), initial: false });
        }
        screen.keys("?xjkGg/a\n\x1bsJK\nJJJ");
    }
}

#[tokio::test(start_paused = true)]
async fn no_color_draws_without_colors() {
    let mut screen = Screen::with_pods(&["a"]);
    screen.update("a", 1, "Pending", "Running");
    screen.draw(&Theme::with_colors());
    assert!(has_colors(&screen.terminal));
    for keys in ["", "\n"] {
        screen.keys(keys);
        assert!(!has_colors(&screen.terminal));
    }
}
