use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use informer_runtime::{CancellationToken, LeaderElection, Leadership};
use parking_lot::Mutex;

use super::lease::{Board, client};
use super::{ElectionScript, ElectionVerb, Operation};

/// How often the script's task yields to other tasks after each operation. All tasks must have reacted to the
/// operation before the next one. Each task waits for only a few others, so this number is large enough.
const TURNS: u32 = 100;

/// Runs an election script on candidates of this library. Returns a line for each operation, with the
/// callbacks that it caused and the holder of the Lease after it.
pub fn run_our_election(script: &ElectionScript) -> std::io::Result<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    Ok(runtime.block_on(async {
        let board = Arc::new(Mutex::new(Board::new()));
        let mut run = Run { board, stops: HashMap::new(), said: Arc::default() };
        let mut lines = Vec::new();
        for operation in &script.operations {
            lines.push(run.line(operation).await);
        }
        lines
    }))
}

struct Run {
    board: Arc<Mutex<Board>>,
    stops: HashMap<String, CancellationToken>,
    /// The events that candidates have reported since the last operation: a new holder, the begin of a term,
    /// or the end of a candidate.
    said: Arc<Mutex<Vec<String>>>,
}

impl Run {
    async fn line(&mut self, operation: &Operation<ElectionVerb>) -> String {
        self.carry_out(operation).await;
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
        let mut said = std::mem::take(&mut *self.said.lock());
        // The reported events are sorted, because the order of tasks that wake at the same time is undefined.
        said.sort();
        let held = self.board.lock().line();
        [operation.to_string()].into_iter().chain(said).chain([held]).collect::<Vec<_>>().join("; ")
    }

    async fn carry_out(&mut self, operation: &Operation<ElectionVerb>) {
        match operation.verb {
            ElectionVerb::Start => self.start(&operation.whom),
            ElectionVerb::Stop => {
                self.stops.get(&operation.whom).into_iter().for_each(CancellationToken::cancel)
            }
            // The clock of the runtime is paused, so this sleep does not take real time. During the sleep,
            // each timer of the candidates fires at its own simulated time.
            ElectionVerb::Advance => tokio::time::sleep(Duration::from_millis(operation.milliseconds)).await,
            _ => self.board.lock().carry_out(operation),
        }
    }

    fn start(&mut self, who: &str) {
        let (said, name) = (Arc::clone(&self.said), who.to_owned());
        let seen = move |holder: &str| {
            let holder = if holder.is_empty() { "nobody" } else { holder };
            said.lock().push(format!("{name} sees {holder}"));
        };
        let election = LeaderElection::new("parity").namespace("default").identity(who).on_holder(seen);
        let elector = match election.elector(client(&self.board, who)) {
            Ok(elector) => elector,
            Err(error) => return self.said.lock().push(error.to_string()),
        };
        let stop = CancellationToken::new();
        self.stops.insert(who.to_owned(), stop.clone());
        let (mut leadership, said, name) = (elector.leadership(), Arc::clone(&self.said), who.to_owned());
        tokio::spawn(async move {
            if leadership.wait_for(Leadership::is_leading).await.is_ok() {
                said.lock().push(format!("{name} leads"));
            }
        });
        let (said, name) = (Arc::clone(&self.said), who.to_owned());
        tokio::spawn(async move {
            // The result of the candidate, which contains the reason for its end, is not compared, because
            // client-go reports no reason.
            let _ = elector.run(stop).await;
            said.lock().push(format!("{name} ends"));
        });
    }
}
