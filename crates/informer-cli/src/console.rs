//! `informer console`: serves the page that shows informers, queues, controllers and reconciles live.
//!
//! # Shutdown
//!
//! Ctrl-C drops the server, which closes its connections, and the informers.

mod events;
mod proxy;
mod routes;

use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;
use informer::runtime::HttpServer;
use informer::runtime::console::Console;

use crate::failure::{Failure, chain};
use crate::live::LiveArguments;

/// Serve a page that shows informers, queues, controllers and reconciles live in the browser.
///
/// With --attach, the page is that of a running program that serves the console; the command adds the bearer
/// token to its requests. Repeat the option to show the replicas of a program in one view. Without it, the
/// command runs an informer for each named kind of a cluster, caches the metadata of the objects, and records
/// their changes. It only reads the cluster, and listens on the loopback interface.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = "\
Examples:
  informer console pods deploy,rs -A
      Runs informers for three kinds in all namespaces.
  informer console --attach http://127.0.0.1:8082 --attach http://127.0.0.1:8083
      Two replicas of an operator in one view, with one forwarded port for each pod.
  informer console deploy -n shop --show-objects
      Also shows the Deployments as YAML, and what changed between their versions.
  INFORMER_TOKEN=$(kubectl create token viewer) informer console --attach https://operator.example.com
      The page of an operator that authorizes requests. Each program that can connect to the local port then
      reads it with this token.")]
pub(crate) struct ConsoleArguments {
    #[command(flatten)]
    live: LiveArguments,
    /// The port on 127.0.0.1; by default the system chooses a free one.
    #[arg(short, long, default_value_t = 0)]
    port: u16,
    /// Let the page requeue keys, relist informers and drop unused informers. With --attach, the program must
    /// allow actions, too, and the user of the token needs permission for them.
    #[arg(long)]
    allow_actions: bool,
    /// Let the page show the objects of own informers, which then cache whole objects instead of metadata.
    /// Values of Secrets are hidden. With --attach, the program determines whether it shows objects.
    #[arg(long, conflicts_with = "attach")]
    show_objects: bool,
}

pub(crate) async fn run(arguments: ConsoleArguments) -> Result<(), Failure> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
    let targets = arguments.live.attach.clients()?;
    if !targets.is_empty() {
        return proxy::serve(targets, address, arguments.allow_actions).await;
    }
    let manager = arguments.live.manager(arguments.show_objects).await?;
    let server = HttpServer::at(address.to_string());
    let mut bound = server.bound();
    // The command must not write to the cluster.
    let console = Console::from(server).allow_actions(arguments.allow_actions).record_events(false);
    let console = console.show_objects(arguments.show_objects);
    let running = manager.console(console).run_until(std::future::pending::<()>());
    let announced = async {
        if let Ok(address) = bound.wait_for(Option::is_some).await
            && let Some(address) = *address
        {
            println!("http://{address}/debug/informer/");
        }
        std::future::pending::<()>().await
    };
    tokio::select! {
        ended = running => ended.map_err(|error| Failure::new(chain(&error))),
        () = announced => Ok(()),
    }
}
