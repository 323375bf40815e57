use std::time::Duration;

use informer::runtime::console::{ConsoleEvent, KeyHistory};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{Event, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::app::{App, Tab};
use super::sample::RecentFailures;
use super::view::draw;
use crate::live::LiveUpdate;
use crate::screen::{Theme, has_colors, key_event, text_of};

struct Screen {
    app: App,
    terminal: Terminal<TestBackend>,
    start: Instant,
    seconds: u64,
}

fn reconcile(number: u64, error: Option<&str>) -> Value {
    json!({
        "id": format!("a-{number}"), "controller": "website", "request": format!("default/shop-{number}"),
        "causes": [format!("updated Website.example.com default/shop-{number} (spec)")],
        "waitedSeconds": 0.004, "beganSecondsAgo": 1.5, "seconds": 0.02,
        "result": if error.is_some() { "error" } else { "success" }, "error": error,
    })
}

fn event(second: u64, reconciles: &[Value]) -> ConsoleEvent {
    let latency = json!([{"upToSeconds": 0.001, "calls": 8}, {"upToSeconds": null, "calls": 1}]);
    let handlers =
        json!([{"name": "website", "depth": 3, "calls": 9, "secondsTotal": 18.0, "latency": latency}]);
    let total = second * 40;
    serde_json::from_value(json!({
        "version": 1, "manager": "Running",
        "process": {"pid": 42, "uptimeSeconds": 100 + second, "tasks": 61, "threads": 4, "residentBytes": 61_000_000},
        "informers": [
            {"name": "websites.v1.example.com", "running": true, "synced": true, "phase": "Watching",
             "objects": 1000, "bytes": 840_000, "events": total, "relists": {"first": 1}, "handlers": handlers},
            {"name": "pods.v1 form=Metadata", "running": true, "synced": false, "phase": "BackingOff",
             "objects": 48_210, "bytes": 9_000_000, "failures": 4, "lastError": "list pods: 403 Forbidden"},
        ],
        "queues": [{"name": "website", "ready": 30, "oldestSeconds": 75.0, "waiting": 12, "processing": 3,
            "added": total}],
        "controllers": [{"name": "website", "kind": "Website.example.com", "phase": "Reconciling", "workers": 8,
            "active": 3, "results": {"success": total, "error": 2, "requeue": 0, "requeue_after": 1}}],
        "client": {"server": "10.96.0.1:443", "requests": []},
        "reconciles": reconciles, "dropped": if second == 1 { 120 } else { 0 },
    }))
    .expect("an event")
}

impl Screen {
    /// Returns a screen of this size that has received two events.
    fn new(width: u16, height: u16) -> Self {
        let terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        let mut screen = Self { app: App::default(), terminal, start: Instant::now(), seconds: 0 };
        screen.receive(&[reconcile(1, None), reconcile(2, Some("the vault is sealed"))]);
        screen.receive(&[reconcile(3, None)]);
        screen
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_secs(self.seconds)
    }

    fn receive(&mut self, reconciles: &[Value]) {
        let event = Box::new(event(self.seconds, reconciles));
        self.app.update(LiveUpdate::Event(event), self.now());
        self.seconds += 1;
    }

    fn keys(&mut self, keys: &str) -> String {
        for character in keys.chars() {
            self.app.input(&key_event(character));
            self.text();
        }
        self.text()
    }

    fn click(&mut self, column: u16, row: u16) -> String {
        let kind = MouseEventKind::Down(MouseButton::Left);
        self.app.input(&Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }));
        self.text()
    }

    fn text(&mut self) -> String {
        let (now, app) = (self.now(), &mut self.app);
        let theme = Theme::without_colors();
        self.terminal.draw(|frame| draw(frame, app, &theme, now)).expect("a test backend");
        text_of(&self.terminal)
    }
}

#[tokio::test(start_paused = true)]
async fn overview_shows_figures_and_problems_on_80_columns() {
    let text = Screen::new(80, 24).text();
    for part in [
        "1 of 2 synced",
        "40.0/s events",
        "30 ready",
        "12 delayed, 3 running",
        "3 of 8 busy",
        "pid 42, 61 tasks, 4 threads",
        "Reconciles: 40/s, max 40/s in 2 s",
        "1 failed in the last minute",
        "2 problems",
        "error informer pods.v1 form=Metadata has not synced: list pods: 403 Forbidden",
        "error controller website: 1 reconcile failed in the last minute; last error:",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    assert_eq!(text.lines().count(), 24);
}

#[tokio::test(start_paused = true)]
async fn failures_are_an_error_only_if_a_key_has_been_failing_for_ten_seconds() {
    let mut screen = Screen::new(100, 24);
    let mut uptime = 10.0;
    let mut receive = |failing: u64, failing_seconds: Option<f64>| {
        let mut event = event(screen.seconds, &[reconcile(9, Some("the vault is sealed"))]);
        uptime += 1.0;
        event.snapshot.process.uptime_seconds = uptime;
        event.snapshot.process.program = "website-operator".to_owned();
        event.snapshot.process.host = Some("node-1".to_owned());
        let controller = &mut event.snapshot.controllers[0];
        (controller.results.success, controller.results.error) = (75, 4);
        (controller.failing, controller.failing_seconds) = (Some(failing), failing_seconds);
        screen.app.update(LiveUpdate::Event(Box::new(event)), screen.now());
        screen.seconds += 1;
        screen.text().replace("│\n│", " ").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let healed = receive(0, None);
    assert!(healed.contains("informer top website-operator on node-1 10.96.0.1:443"), "{healed}");
    let text =
        "4 of 80 reconciles failed in the last minute (5.0 %); no key is failing now; last error: the vault";
    assert!(healed.contains(&format!("warn controller website: {text}")), "{healed}");
    let failing = receive(2, Some(9.9));
    assert!(failing.contains("warn controller website:"), "{failing}");
    assert!(failing.contains("2 keys are failing now, one of them for 9.9 s"), "{failing}");
    let long = receive(1, Some(10.0));
    assert!(long.contains("error controller website:"), "{long}");
    assert!(long.contains("1 key is failing now, for 10.0 s"), "{long}");
    let controllers = screen.keys("5");
    assert!(controllers.contains("4 (5.0 %)") && controllers.contains("FAILING"), "{controllers}");
}

#[test]
fn share_of_failures_has_a_decimal_below_ten_percent() {
    let share = |failed, finished| RecentFailures { failed, finished, error: None }.share();
    let shares =
        [share(0, Some(9)), share(1, None), share(1, Some(3_000)), share(9, Some(100)), share(1, Some(1))];
    assert_eq!(shares, ["", "", " (less than 0.1 %)", " (9.0 %)", " (100 %)"]);
}

#[tokio::test(start_paused = true)]
async fn failures_of_the_last_minute_follow_the_uptime_of_the_program() {
    let mut screen = Screen::new(100, 24);
    let mut receive = |uptime: f64, success: u64, error: u64| {
        let mut event = event(screen.seconds, &[]);
        event.snapshot.process.uptime_seconds = uptime;
        (event.snapshot.controllers[0].results.success, event.snapshot.controllers[0].results.error) =
            (success, error);
        // All events arrive at once, as after a pause of the network.
        screen.app.update(LiveUpdate::Event(Box::new(event)), screen.now());
        screen.app.samples.failures("website")
    };
    for second in 0..60_u32 {
        let recent = receive(200.0 + f64::from(second), 10, 2 + u64::from(second));
        assert_eq!(recent.finished.is_some(), second >= 59, "{second}");
    }
    let recent = receive(261.0, 30, 62);
    assert_eq!((recent.failed, recent.finished), (59, Some(79)), "of 60 s, from the second sample");
    assert_eq!(receive(270.0, 30, 62).finished, None, "a gap of 9 s");
}

#[tokio::test(start_paused = true)]
async fn error_from_before_a_restart_is_not_the_last_error() {
    let mut screen = Screen::new(100, 24);
    let mut restarted = event(0, &[]);
    restarted.snapshot.process.uptime_seconds = 1.0;
    screen.app.update(LiveUpdate::Event(Box::new(restarted)), screen.now());
    let recent = screen.app.samples.failures("website");
    assert_eq!((recent.failed, recent.error), (2, None));
}

#[tokio::test(start_paused = true)]
async fn error_of_the_selected_reconcile_is_shown_below_the_table() {
    let mut screen = Screen::new(80, 24);
    let error = "apply deployments.apps default/shop-4: the server responded with 409 Conflict: the server \
                 reported a conflict";
    screen.receive(&[reconcile(4, Some(error))]);
    let text = screen.keys("6");
    assert!(text.contains(" apply deployments.apps: 409 Confl"), "{text}");
    let below = text[text.find("default/shop-4: apply").expect("the detail")..].replace('\n', " ");
    assert!(below.contains("409 Conflict: the server reported a conflict"), "{text}");
    assert!(screen.keys("j").contains("default/shop-3: because updated Website (spec)"));
}

#[tokio::test(start_paused = true)]
async fn short_names_leave_their_width_to_longer_ones() {
    let mut screen = Screen::new(100, 24);
    let informers = screen.keys("2");
    assert!(informers.contains("websites.v1.example.com "), "{informers}");
    let reconciles = screen.keys("6");
    assert!(reconciles.contains("default/shop-3 website"), "{reconciles}");
    let narrow = Screen::new(80, 24).keys("2");
    assert!(narrow.contains("2 informers; 2 columns hidden"), "{narrow}");
}

#[tokio::test(start_paused = true)]
async fn tables_are_filtered_and_sorted() {
    let mut screen = Screen::new(80, 24);
    let all = screen.keys("2");
    assert!(all.contains("websites.v1.example.com") && all.contains("BackingOff"), "{all}");
    let filtered = screen.keys("/pods\n");
    assert!(filtered.contains("1 of 2 informers") && !filtered.contains("websites"), "{filtered}");
    let cleared = screen.keys("\x1b");
    assert!(cleared.contains("2 informers"), "{cleared}");
    let line = |text: &str, name: &str| text.lines().position(|line| line.contains(name)).expect("a row");
    let sorted = screen.keys("s");
    assert!(line(&sorted, "pods.v1") < line(&sorted, "websites"), "{sorted}");
    let reversed = screen.keys("S");
    assert!(line(&reversed, "pods.v1") > line(&reversed, "websites"), "{reversed}");
    let dropped = screen.keys("6");
    assert!(dropped.contains("3 reconciles; not listed: 120"), "{dropped}");
}

#[tokio::test(start_paused = true)]
async fn causes_repeat_no_key_of_their_row_and_fit_on_100_columns() {
    let reconciles = |screen: &mut Screen| {
        let mut own = reconcile(4, None);
        own["causes"] = json!([
            "updated Website.example.com default/shop-4 (spec)",
            "deleted Pod default/shop-4",
            "retry of failure 1"
        ]);
        let mut other = reconcile(5, None);
        other["causes"] = json!(["added Secret default/shop-5-tls"]);
        screen.receive(&[own, other]);
        screen.keys("6")
    };
    let narrow = reconciles(&mut Screen::new(100, 24));
    for part in ["updated Website (spec); deleted Pod; …", "added Secret default/shop-5-tls", "sealed"] {
        assert!(narrow.contains(part), "{part} is missing:\n{narrow}");
    }
    let wide = reconciles(&mut Screen::new(160, 24));
    assert!(wide.contains("updated Website (spec); deleted Pod; retry of failure 1\n"), "{wide}");
    // Without its group, the kind would be ambiguous.
    let mut both = reconcile(6, None);
    both["causes"] = json!(["updated Service default/a", "updated Service.serving.example.com default/b"]);
    let mut screen = Screen::new(160, 24);
    screen.receive(&[both]);
    let both = screen.keys("6");
    assert!(both.contains("Service default/a; updated Service.serving.example.com default/b"), "{both}");
}

#[tokio::test(start_paused = true)]
async fn latency_of_handlers_and_oldest_key_of_queues_are_shown() {
    let mut screen = Screen::new(80, 24);
    let handlers = screen.keys("3");
    for part in ["7 Key", "1 handler", "1.0 ms", "> 10 s", "PANICS"] {
        assert!(handlers.contains(part), "{part} is missing:\n{handlers}");
    }
    let queues = screen.keys("4");
    assert!(queues.contains("OLDEST") && queues.contains("1 min 15 s"), "{queues}");
    let mut wide = Screen::new(120, 24);
    let handlers = wide.keys("3");
    assert!(handlers.contains("MEAN") && handlers.contains("2.0 s"), "{handlers}");
}

#[tokio::test(start_paused = true)]
async fn enter_opens_the_history_of_a_key() {
    let mut screen = Screen::new(80, 24);
    let text = screen.keys("6/sealed\n\n");
    assert!(text.contains("Reading the history of default/shop-2"), "{text}");
    let now = screen.now();
    let key = screen.app.history_due(now, Duration::from_secs(1)).expect("a key");
    assert_eq!(screen.app.history_due(now, Duration::from_secs(1)), None, "it is read once a second");
    let history: KeyHistory = serde_json::from_value(json!({"version": 1, "key": key, "controllers": [{
        "controller": "website", "queued": {"ageSeconds": 3.2, "causes": ["retry of failure 4"]},
        "running": [], "reconciles": [reconcile(2, Some("the vault is \u{1b}[31msealed")), reconcile(7, None)],
    }]}))
    .expect("a history");
    screen.app.set_history(&key, Ok(history), now);
    let text = screen.text();
    for part in [
        "queued in website for 3.2 s: retry of failure 4",
        "failed   website",
        "because updated Website (spec)",
        "the vault is \\u{1b}[31msealed",
        "reconciled default/shop-7",
    ] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    assert!(screen.keys("\x1b").contains("3 reconciles"));
}

#[tokio::test(start_paused = true)]
async fn long_lines_of_a_history_continue_below_their_text() {
    let mut screen = Screen::new(80, 24);
    screen.keys("6/shop-2\n\n");
    let now = screen.now();
    let key = screen.app.history_due(now, Duration::from_secs(1)).expect("a key");
    let error = format!("apply deployments.apps {}: the server reported a conflict", "x".repeat(40));
    let history: KeyHistory = serde_json::from_value(json!({"version": 1, "key": key, "controllers": [{
        "controller": "website", "running": [], "reconciles": [reconcile(2, Some(&error))],
    }]}))
    .expect("a history");
    screen.app.set_history(&key, Ok(history), now);
    let text = screen.text();
    let start = text.find("apply deployments.apps").expect("the error");
    let lines: Vec<&str> = text[start..].lines().take(2).collect();
    let indent = " ".repeat(18);
    assert!(
        lines[1].contains(&format!("│{indent}xxxx")) || lines[1].contains(&format!("│{indent}the")),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn selected_row_stays_selected_while_newer_rows_arrive() {
    let mut screen = Screen::new(80, 24);
    screen.keys("6j");
    let key = |app: &mut App| app.selected_key().map(str::to_owned);
    assert_eq!(key(&mut screen.app).as_deref(), Some("default/shop-2"));
    screen.receive(&[reconcile(4, None), reconcile(5, None)]);
    screen.text();
    assert_eq!(key(&mut screen.app).as_deref(), Some("default/shop-2"));
    screen.keys("g");
    screen.receive(&[reconcile(6, None)]);
    screen.text();
    assert_eq!(key(&mut screen.app).as_deref(), Some("default/shop-6"), "the first row follows the newest");
}

#[tokio::test(start_paused = true)]
async fn rows_are_built_again_only_after_a_change_of_data_filter_or_order() {
    let mut screen = Screen::new(80, 24);
    screen.keys("6");
    let rows = |screen: &Screen| screen.app.rows.of(Tab::Reconciles).map(<[_]>::as_ptr);
    let first = rows(&screen);
    screen.keys("jkG");
    assert_eq!(rows(&screen), first, "keys that only select rows");
    screen.receive(&[reconcile(4, None)]);
    screen.text();
    let second = rows(&screen);
    assert_ne!(second, first);
    screen.keys("/shop");
    let third = rows(&screen);
    assert_ne!(third, second);
    screen.keys("\ns");
    assert_ne!(rows(&screen), third);
}

#[tokio::test(start_paused = true)]
async fn reconciles_received_while_paused_are_shown_on_resume() {
    let mut screen = Screen::new(80, 24);
    screen.keys("6p");
    screen.receive(&[reconcile(4, None)]);
    screen.receive(&[reconcile(4, None), reconcile(5, None)]);
    let paused = screen.text();
    assert!(paused.contains("3 reconciles"), "{paused}");
    let resumed = screen.keys("p");
    assert!(resumed.contains("5 reconciles; not listed: 120"), "{resumed}");
    screen.keys("p");
    let many: Vec<Value> = (100..20_200).map(|number| reconcile(number, None)).collect();
    screen.receive(&many);
    let resumed = screen.keys("p");
    assert!(resumed.contains("20000 reconciles; not listed: 220"), "{resumed}");
}

#[tokio::test(start_paused = true)]
async fn restart_during_a_pause_is_detected() {
    let mut screen = Screen::new(80, 24);
    screen.keys("6p");
    // The new process has another uptime, and its first reconcile has the id of an earlier one.
    let mut restarted = event(0, &[reconcile(1, None)]);
    restarted.snapshot.process.uptime_seconds = 1.0;
    screen.app.update(LiveUpdate::Event(Box::new(restarted.clone())), screen.now());
    let resumed = screen.keys("p");
    assert!(resumed.contains("4 reconciles"), "{resumed}");
    restarted.snapshot.process.uptime_seconds = 2.0;
    screen.app.update(LiveUpdate::Event(Box::new(restarted)), screen.now());
    assert!(screen.app.samples.rate(|_| Some(1)).is_none(), "the snapshots are of two processes");
}

#[tokio::test(start_paused = true)]
async fn mouse_selects_views_rows_and_sort_columns() {
    let mut screen = Screen::new(80, 24);
    screen.text();
    screen.click(14, 1);
    assert_eq!(screen.app.tab, Tab::Informers);
    let sorted = screen.click(40, 2);
    assert!(sorted.contains("OBJECTS▼") || sorted.contains("MEMORY▼"), "{sorted}");
    screen.click(5, 4);
    assert_eq!(screen.app.table().selected, 1);
}

#[tokio::test(start_paused = true)]
async fn lost_connection_pause_help_and_quit() {
    let mut screen = Screen::new(80, 24);
    screen.app.update(LiveUpdate::Disconnected("connection refused".to_owned()), screen.start);
    let text = screen.text();
    assert!(text.contains("reconnecting") && text.contains("no new data: connection refused"), "{text}");
    screen.receive(&[]);
    let text = screen.keys("p");
    screen.app.update(LiveUpdate::Disconnected("connection refused".to_owned()), screen.start);
    screen.receive(&[]);
    assert_eq!(screen.app.lost, None, "an event during a pause shows that the connection works");
    assert!(text.lines().next().is_some_and(|title| title.ends_with("paused")), "{text}");
    screen.keys("p");
    let help = screen.keys("?");
    assert!(help.contains("select a view"), "{help}");
    screen.keys("x");
    assert!(!screen.app.quit);
    screen.keys("q");
    assert!(screen.app.quit);
}

#[tokio::test(start_paused = true)]
async fn small_and_large_terminals_do_not_panic() {
    for (width, height) in [(1, 1), (10, 3), (20, 5), (79, 10), (250, 80)] {
        let mut screen = Screen::new(width, height);
        screen.keys("1234567?x1234jjGg");
    }
}

#[tokio::test(start_paused = true)]
async fn no_color_draws_without_colors() {
    let mut screen = Screen::new(80, 24);
    for tab in ["1", "2", "3", "4", "5", "6", "7"] {
        screen.keys(tab);
        assert!(!has_colors(&screen.terminal));
    }
}
