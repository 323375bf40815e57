//! The control port of a server: each line that it receives is a command, and each response is a line.

use std::future::Future;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::arguments::Encoding;
use super::{BenchTarget, Failure};

pub(super) struct Control {
    responses: Lines<BufReader<OwnedReadHalf>>,
    commands: OwnedWriteHalf,
}

impl Control {
    pub(super) async fn connect(place: &BenchTarget) -> Result<Self, Failure> {
        let (read, commands) = TcpStream::connect(&place.control).await?.into_split();
        Ok(Self { responses: BufReader::new(read).lines(), commands })
    }

    pub(super) async fn ask(&mut self, command: &str) -> Result<String, Failure> {
        self.commands.write_all(format!("{command}\n").as_bytes()).await?;
        let response = self.responses.next_line().await?.ok_or("the server closed the control connection")?;
        match response.strip_prefix("error: ") {
            Some(error) => Err(format!("{command}: {error}").into()),
            None => Ok(response),
        }
    }

    /// Makes the server encode the initial list in advance. Returns the number of encoded bytes.
    pub(super) async fn prepare(
        &mut self,
        place: &BenchTarget,
        encoding: Encoding,
        metadata: bool,
    ) -> Result<f64, Failure> {
        let mut command = "prepare".to_owned();
        let words = [
            (!place.list, " streaming"),
            (encoding == Encoding::Protobuf, " protobuf"),
            (metadata, " metadata"),
        ];
        words.iter().filter(|word| word.0).for_each(|word| command.push_str(word.1));
        Ok(self.ask(&command).await?.parse()?)
    }

    /// Returns the processor time of the server, in seconds.
    pub(super) async fn cpu(&mut self) -> Result<f64, Failure> {
        Ok(self.ask("cpu").await?.parse::<f64>()? / 1e9)
    }
}

pub(super) async fn respond<F>(stream: TcpStream, command: impl Fn(String) -> F)
where
    F: Future<Output = Result<String, Failure>>,
{
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let response = command(line).await.unwrap_or_else(|error| format!("error: {error}"));
        if write.write_all(format!("{response}\n").as_bytes()).await.is_err() {
            break;
        }
    }
}
