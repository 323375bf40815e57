//! Measures the memory of a cache of Secrets of which the program refers to few: metadata only, metadata and
//! the bodies of the referenced Secrets, and all bodies.

use clap::{Args, ValueEnum};
use informer::ObjectKey;
use informer::client::Client;
use informer::runtime::Cache;
use k8s_openapi::api::core::v1::Secret;
use tokio::time::sleep;

use crate::caches::{PATIENCE, SETTLE, resident};
use crate::{Failure, Figures};

#[derive(Debug, Args)]
pub(crate) struct Secrets {
    /// The URL of the server.
    #[arg(long)]
    server: String,
    /// Number of Secrets on the server.
    #[arg(long)]
    objects: usize,
    /// Number of Secrets to which the program refers.
    #[arg(long, default_value_t = 500)]
    referenced: usize,
    /// The content of the cache.
    #[arg(long, value_enum)]
    form: CacheContent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CacheContent {
    /// The metadata of all Secrets.
    Metadata,
    /// The metadata of all Secrets, and the bodies of the referenced ones.
    Referenced,
    /// All Secrets.
    Whole,
}

pub(crate) async fn measure(secrets: Secrets) -> Result<Figures, Failure> {
    let cache = Cache::new(Client::new(kube_client::Config::new(secrets.server.parse()?))?);
    cache.start();
    let before = resident();
    let objects = match secrets.form {
        CacheContent::Metadata => {
            let informer = cache.metadata::<Secret>();
            informer.wait_for_sync(PATIENCE).await?;
            informer.len()
        }
        CacheContent::Whole => {
            let informer = cache.informer::<Secret>();
            informer.wait_for_sync(PATIENCE).await?;
            informer.len()
        }
        CacheContent::Referenced => {
            let cached = cache.referenced::<Secret>()?;
            cached.metadata().wait_for_sync(PATIENCE).await?;
            let references = cached.references();
            refer(&cached, &references, &secrets).await?;
            sleep(SETTLE).await;
            return figures(&secrets, resident() - before, cached.metadata().len());
        }
    };
    sleep(SETTLE).await;
    figures(&secrets, resident() - before, objects)
}

/// Refers to Secrets that are spread evenly over all, and waits until their bodies have arrived.
async fn refer(
    cached: &informer::runtime::Referenced<Secret>,
    references: &informer::runtime::ReferenceSet<Secret>,
    secrets: &Secrets,
) -> Result<(), Failure> {
    let every = (secrets.objects / secrets.referenced.max(1)).max(1);
    // The names are those that `informer-bench serve` generates.
    let key = |n: usize| format!("team-{:02}/object-{n:07}", n / 25 % 80).parse::<ObjectKey>();
    let keys: Vec<_> = (0..secrets.objects).step_by(every).take(secrets.referenced).map(key).collect();
    let keys = keys.into_iter().collect::<Result<Vec<_>, _>>()?;
    references.set(&"default/owner".parse()?, keys.iter().cloned());
    for key in &keys {
        cached.get(key).await?.ok_or_else(|| format!("{key} does not exist"))?;
    }
    let state = cached.state();
    if state.bodies != secrets.referenced || state.leased > 0 {
        return Err(format!("{state:?} instead of {} bodies", secrets.referenced).into());
    }
    Ok(())
}

fn figures(secrets: &Secrets, kilobytes: f64, objects: usize) -> Result<Figures, Failure> {
    if objects != secrets.objects {
        return Err(format!("{objects} objects of {}", secrets.objects).into());
    }
    let case = "cache of 100,000 Secrets of 4 KB, MB";
    Ok([(case.to_owned(), (kilobytes / 1024.0).into())].into_iter().collect())
}
