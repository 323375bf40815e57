//! Creates pods over several concurrent connections, each with one request at a time.

use bytes::Bytes;
use serde_json::json;
use tokio::time::Instant;

use crate::arguments::Kind;
use crate::connect::{Ask, Target};
use crate::process::Processes;
use crate::{Failure, Figures, Load, objects};

const SEED: u64 = 1;

pub(crate) async fn measure(
    target: &Target,
    server: &Processes,
    load: &Load,
    figures: &mut Figures,
) -> Result<(), Failure> {
    figures.put("empty server, RSS MB", server.resident());
    let mut connection = target.connect().await?;
    for namespace in namespaces(load.objects) {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        connection.read(Ask::post("/api/v1/namespaces"), body.to_string().into()).await?;
    }
    let mut parts: Vec<Vec<(String, Bytes)>> = vec![Vec::new(); load.writers];
    for n in 0..load.objects {
        let namespace = objects::namespace_of(Kind::Pod, n);
        parts[n % load.writers].push((format!("/api/v1/namespaces/{namespace}/pods"), pod(n)));
    }
    let mut connections = Vec::new();
    for part in parts {
        connections.push((target.connect().await?, part));
    }
    let (began, cpu) = (Instant::now(), server.cpu());
    let writers: Vec<_> = connections
        .into_iter()
        .map(|(mut connection, part)| {
            tokio::spawn(async move {
                for (path, body) in part {
                    connection.read(Ask::post(&path), body).await?;
                }
                Ok::<_, Failure>(())
            })
        })
        .collect();
    for writer in writers {
        writer.await??;
    }
    let count = load.objects as f64;
    figures.put("creates, a second", count / began.elapsed().as_secs_f64());
    figures.put("creates, server CPU us each", (server.cpu() - cpu) * 1e6 / count);
    figures.put("after the creates, RSS MB", server.resident());
    Ok(())
}

fn namespaces(objects: usize) -> Vec<String> {
    let mut all: Vec<_> = (0..objects).map(|n| objects::namespace_of(Kind::Pod, n)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns a pod as a client creates it: without a status and managed fields.
pub(crate) fn pod(n: usize) -> Bytes {
    let mut pod = objects::object(Kind::Pod, SEED, n);
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    if let Some(members) = pod.as_object_mut() {
        members.remove("status");
    }
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        metadata.remove("managedFields");
        metadata.remove("generation");
        // Owner references are removed, because the garbage collector deletes objects whose owners do not
        // exist.
        metadata.remove("ownerReferences");
    }
    pod.to_string().into()
}
