//! The control port of the server, from the side of a peer.

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::{Encoding, Failure, Where};

pub(crate) struct Control {
    answers: Lines<BufReader<OwnedReadHalf>>,
    commands: OwnedWriteHalf,
}

impl Control {
    pub(crate) async fn connect(place: &Where) -> Result<Self, Failure> {
        let (read, commands) = TcpStream::connect(&place.control).await?.into_split();
        Ok(Self { answers: BufReader::new(read).lines(), commands })
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn ask(&mut self, command: &str) -> Result<String, Failure> {
        self.commands.write_all(format!("{command}\n").as_bytes()).await?;
        let answer = self.answers.next_line().await?.ok_or("the server has gone")?;
        match answer.strip_prefix("error: ") {
            Some(error) => Err(format!("{command}: {error}").into()),
            None => Ok(answer),
        }
    }

    /// Has the first list encoded, so that nobody waits for that.
    pub(crate) async fn prepare(&mut self, place: &Where) -> Result<f64, Failure> {
        let streaming = if place.list { "" } else { " streaming" };
        let protobuf = if place.encoding == Encoding::Protobuf { " protobuf" } else { "" };
        Ok(self.ask(&format!("prepare{streaming}{protobuf}")).await?.parse()?)
    }

    /// Processor seconds of the server.
    pub(crate) async fn cpu(&mut self) -> Result<f64, Failure> {
        Ok(self.ask("cpu").await?.parse::<f64>()? / 1e9)
    }
}
