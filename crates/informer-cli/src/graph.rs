//! `informer graph`: draws which kinds the controllers of running programs watch, own and write.

mod diagram;
mod dot;
mod mermaid;
mod model;
#[cfg(test)]
mod tests;
mod text;

use std::io::{self, Write as _};

use clap::{Args, ValueEnum};
use futures_util::future::try_join_all;
use informer::runtime::console::ConsoleSnapshot;

use self::diagram::Diagram;
use self::model::Graph;
use crate::failure::{Failure, plain};
use crate::live::AttachArguments;

/// Draw which kinds the controllers of a running program watch, own and write.
///
/// The program must serve the console. The writes are those that its reconciles have requested so far, so run
/// the command after each controller has done some work. Controllers of several programs are drawn in one
/// graph; replicas of a controller are merged.
#[derive(Debug, Clone, Args)]
#[command(mut_arg("attach", |attach| attach.required(true)))]
#[command(after_long_help = "\
Examples:
  informer graph --attach http://127.0.0.1:8082
      The controllers of an operator whose port is forwarded, as a tree.
  informer graph --attach http://127.0.0.1:8082 --format mermaid
      A diagram for Markdown on GitHub and GitLab, in a code block of the language `mermaid`.
  informer graph --attach http://127.0.0.1:8082 --format dot | dot -Tsvg > graph.svg
      An image, made by Graphviz.

A hint marks a kind that a controller writes and watches, and neither reconciles nor owns: each such write
can enqueue the controller again. It is no error.")]
pub(crate) struct GraphArguments {
    #[command(flatten)]
    attach: AttachArguments,
    /// The format of the graph.
    #[arg(long, value_enum, default_value_t = GraphFormat::Text, value_name = "FORMAT")]
    format: GraphFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GraphFormat {
    /// A tree for each controller, at most 80 columns wide.
    Text,
    /// A flowchart of Mermaid.
    Mermaid,
    /// A directed graph of Graphviz.
    Dot,
}

pub(crate) async fn run(arguments: GraphArguments) -> Result<(), Failure> {
    let clients = arguments.attach.clients()?;
    let programs: Vec<(String, ConsoleSnapshot)> = try_join_all(clients.iter().map(async |client| {
        let read = client.snapshot().await;
        let failed = |problem: String| Failure::new(format!("read {}: {}", client.name(), plain(&problem)));
        Ok::<_, Failure>((client.name().to_owned(), read.map_err(failed)?))
    }))
    .await?;
    for (name, snapshot) in &programs {
        let omitted = snapshot.omitted.controllers;
        if omitted > 0 {
            eprintln!("{name}: {omitted} controllers are not shown, because there are too many");
        }
    }
    let graph = Graph::of(&programs);
    if arguments.format != GraphFormat::Text {
        // The formats mark the edges of hints. The text of the hints does not belong to a diagram.
        graph.hints().for_each(|hint| eprintln!("hint: {hint}"));
    }
    print(&match arguments.format {
        GraphFormat::Text => text::draw(&graph),
        GraphFormat::Mermaid => mermaid::draw(&Diagram::of(&graph)),
        GraphFormat::Dot => dot::draw(&Diagram::of(&graph)),
    })
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader of the output, such as `head`, needs no more of it.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| Failure::io("write the graph", error)),
    }
}
