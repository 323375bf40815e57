//! Measures what the console costs a program whose controller gets 10,000 events a second. Prints one line of
//! JSON: `{"CASE": FIGURE}`.
//!
//! The same controller runs without a console, with a console without clients, and with a console whose
//! events one client reads. The client is another process, so its processor time does not count.

use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand};
use informer::client::Client;
use informer::runtime::console::Console;
use informer::runtime::handler::enqueue_object;
use informer::runtime::{Controller, HttpServer, Manager, Outcome, source};
use informer::{Header, ObjectKey};
use informer_apiserver::ApiServer;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The number of objects that the events are about, in turn.
const OBJECTS: usize = 1_000;
/// Events are sent once per millisecond, this many at a time: 10,000 a second.
const EVENTS_PER_MS: usize = 10;
/// The measured time of each case in one round. The time before it, in which the controller starts and a
/// client connects, does not count.
const MEASURED: Duration = Duration::from_secs(4);
const START: Duration = Duration::from_secs(1);
/// The three cases alternate in each round. The median of each case is reported.
const ROUNDS: usize = 7;
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Subcommands>,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    /// Reads the events of a console until it is killed. The benchmark starts this itself.
    Read {
        /// The address of the console.
        address: String,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Without,
    Unread,
    Read,
}

fn main() -> ExitCode {
    // Spans are created and formatted as in a program that logs, but the output is discarded.
    tracing_subscriber::fmt().with_writer(std::io::sink).init();
    let command = Arguments::parse().command;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let done = runtime.map_err(Failure::from).and_then(|runtime| {
        runtime.block_on(async move {
            match command {
                Some(Subcommands::Read { address }) => read(&address).await,
                None => tokio::spawn(measure()).await?.map(|figures| println!("{}", Value::from(figures))),
            }
        })
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("not measured: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure() -> Result<Map<String, Value>, Failure> {
    let mut shares = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for (at, case) in [Case::Without, Case::Unread, Case::Read].into_iter().enumerate() {
            shares[at].push(measure_case(case).await?);
        }
    }
    let [without, unread, read] = shares.map(median);
    let figures = [
        ("10,000 events/s without a console, % of a core", without),
        ("console that nobody reads, added % of a core", unread - without),
        ("console with one page, added % of a core", read - without),
    ];
    Ok(figures.map(|(case, figure)| (case.to_owned(), figure.into())).into_iter().collect())
}

fn median(mut shares: Vec<f64>) -> f64 {
    shares.sort_by(f64::total_cmp);
    shares[shares.len() / 2]
}

/// Runs a controller with 10,000 events a second. Returns the processor time of this process, in percent of
/// the time.
async fn measure_case(case: Case) -> Result<f64, Failure> {
    let server = ApiServer::builder().build();
    let (sender, receiver) = mpsc::channel(OBJECTS);
    let channel = source::channel("events", receiver, enqueue_object());
    let controller =
        Controller::builder().named("console").source(channel).reconcile(|_, _| async { Ok(Outcome::Done) });
    let mut manager = Manager::new(Client::from_service(server.service(), "default")).controller(controller);
    let mut bound = None;
    if case != Case::Without {
        let http = HttpServer::at("127.0.0.1:0");
        bound = Some(http.bound());
        manager = manager.console(Console::from(http));
    }
    let stop = manager.handle();
    let running = tokio::spawn(manager.run_until(std::future::pending::<()>()));
    let sending = tokio::spawn(send(sender));
    let reader = match (case, &mut bound) {
        (Case::Read, Some(bound)) => {
            let found = timeout(TIMEOUT, bound.wait_for(Option::is_some)).await??;
            let address = found.ok_or("the console has no address")?;
            drop(found);
            Some(read_elsewhere(&address.to_string())?)
        }
        _ => None,
    };
    sleep(START).await;
    let (began, busy) = (Instant::now(), cpu());
    sleep(MEASURED).await;
    let share = (cpu() - busy).as_secs_f64() / began.elapsed().as_secs_f64() * 100.0;
    drop(reader);
    sending.abort();
    stop.stop();
    running.await??;
    Ok(share)
}

async fn send(sender: mpsc::Sender<Arc<Header>>) -> Result<(), Failure> {
    let object =
        |n| Ok::<_, Failure>(Arc::new(Header::new(format!("default/object-{n}").parse::<ObjectKey>()?)));
    let objects = (0..OBJECTS).map(object).collect::<Result<Vec<_>, _>>()?;
    let mut objects = objects.iter().cycle();
    let mut timer = interval(Duration::from_millis(1));
    timer.set_missed_tick_behavior(MissedTickBehavior::Burst);
    loop {
        timer.tick().await;
        for object in objects.by_ref().take(EVENTS_PER_MS) {
            sender.send(Arc::clone(object)).await?;
        }
    }
}

fn cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

/// Starts this program as a client of the console. The client ends when the returned handle is dropped.
fn read_elsewhere(address: &str) -> Result<Child, Failure> {
    let program = std::env::current_exe()?;
    let mut command = Command::new(program);
    command.args(["read", address]).stdin(Stdio::null()).kill_on_drop(true);
    Ok(command.spawn()?)
}

async fn read(address: &str) -> Result<(), Failure> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "GET /debug/informer/v1/events HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let mut buffer = vec![0; 1 << 16];
    let mut total = 0;
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Err(format!("the console ended the stream after {total} bytes").into()),
            count => total += count,
        }
    }
}
