//! Measures the time from the start of an API server program to its first response.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use tokio::time::Instant;

use crate::connect::{Ask, Target};
use crate::process::Processes;
use crate::{Failure, Figures};

/// The pause between two connection attempts. It is short compared with the measured time.
const PAUSE: Duration = Duration::from_micros(200);
const PATIENCE: Duration = Duration::from_secs(30);

/// The API server program to start.
#[derive(Clone, Debug, Args)]
pub(crate) struct Start {
    /// The file with the CA certificate of the program; without it, the program must serve over plain HTTP.
    #[arg(long)]
    authority: Option<PathBuf>,
    /// The program and its arguments. `PORT` in an argument is replaced by a free port, on which the program
    /// must listen.
    #[arg(trailing_var_arg = true, required = true, allow_hyphen_values = true)]
    program: Vec<String>,
}

pub(crate) async fn measured(start: &Start) -> Result<Figures, Failure> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut words = start.program.iter().map(|word| word.replace("PORT", &port.to_string()));
    let program = words.next().unwrap_or_default();
    let authority = start.authority.as_deref();
    let scheme = if authority.is_some() { "https" } else { "http" };
    let target = Target::new(&format!("{scheme}://127.0.0.1:{port}"), authority, None)?;
    let began = Instant::now();
    let child = Command::new(program).args(words).stdout(Stdio::null()).spawn()?;
    let child = Ended(child);
    loop {
        if let Ok(mut connection) = target.connect().await {
            connection.read(Ask::get("/api/v1/namespaces/default"), Bytes::new()).await?;
            break;
        }
        if began.elapsed() > PATIENCE {
            return Err("the program does not respond".into());
        }
        tokio::time::sleep(PAUSE).await;
    }
    let mut figures = Figures::default();
    figures.put("start to the first response, ms", began.elapsed().as_secs_f64() * 1e3);
    let server = Processes { server: vec![child.0.id()], beside: Vec::new() };
    figures.put("empty server, RSS MB", server.resident());
    Ok(figures)
}

/// A process that is killed on drop.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Errors are ignored, because the process may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
