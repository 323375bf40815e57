//! An informer of objects that are not in Kubernetes: a directory of YAML manifests.
//! See `README.md` in this folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt, stream};
use informer::cache::{SharedInformer, Undecodable};
use informer::source::{
    ListEnd, ListPart, ListRequest, ListSource, ListStream, ListWatch, Listed, SourceError, SourceErrorKind,
    WatchEvent, WatchRequest, WatchSource, WatchStream,
};
use informer::{Header, Object, ObjectKey};
use informer_examples::{Error, PATIENCE, Result};
use parking_lot::Mutex;
use serde_json::Value;

struct Manifest {
    header: Header,
    content: Arc<Value>,
}

impl Object for Manifest {
    fn header(&self) -> &Header {
        &self.header
    }
}

/// A source of objects for an informer: the YAML manifests in a directory.
#[derive(Clone)]
struct Directory {
    path: PathBuf,
    seen: Arc<Mutex<DirectoryScan>>,
}

/// The files found by the last scan of the directory. `version` counts the changes, like a resourceVersion.
#[derive(Default)]
struct DirectoryScan {
    version: u64,
    files: BTreeMap<PathBuf, (Stamp, Read)>,
}

/// The modification time and the size of a file. If either differs from the last scan, the file has changed.
type Stamp = (SystemTime, u64);

/// The result of reading a manifest file. A file that cannot be parsed is quarantined (`Undecodable`); all
/// other files are delivered to handlers.
type Read = Result<Arc<Manifest>, Undecodable>;

fn read(path: &Path, version: u64) -> Read {
    let key = ObjectKey::explicit(path.file_name().unwrap_or_default().to_string_lossy());
    let content = fs::read_to_string(path).map_err(Error::from);
    let content: Result<Value> = content.and_then(|text| Ok(serde_norway::from_str(&text)?));
    let version = version.to_string();
    match content {
        Ok(content) => {
            let labels = content["metadata"]["labels"].as_object().into_iter().flatten();
            let labels = labels.filter_map(|(name, value)| Some((name, value.as_str()?)));
            let header = Header::new(key).with_version(version.as_str()).with_labels(labels);
            Ok(Arc::new(Manifest { header, content: Arc::new(content) }))
        }
        Err(error) => Err(Undecodable::new(Some(key), error).with_version("", version.as_str().into())),
    }
}

fn stamp(metadata: &fs::Metadata) -> Option<Stamp> {
    Some((metadata.modified().ok()?, metadata.len()))
}

impl Directory {
    /// Scans the directory and returns the changes since the last scan. (For a large directory, call this
    /// function with `spawn_blocking`.)
    fn look(&self) -> Result<Vec<WatchEvent<Manifest>>, SourceError> {
        let failed = |error| {
            SourceError::new(SourceErrorKind::Unavailable, format!("read {}", self.path.display()))
                .with_cause(error)
        };
        let DirectoryScan { version, files } = &mut *self.seen.lock();
        let (mut events, mut gone) = (Vec::new(), std::mem::take(files));
        let mut entries: Vec<_> = fs::read_dir(&self.path).and_then(Iterator::collect).map_err(failed)?;
        entries.sort_by_key(fs::DirEntry::path);
        for entry in entries {
            // A file that is deleted during this scan is skipped here. It is reported as deleted if an
            // earlier scan has found it.
            let (path, Ok(Some(stamp))) = (entry.path(), entry.metadata().map(|it| stamp(&it))) else {
                continue;
            };
            let file = match gone.remove(&path) {
                Some(known) if known.0 == stamp => known,
                known => {
                    *version += 1;
                    let now = read(&path, *version);
                    events.push(match (&now, known) {
                        (Ok(object), None) => WatchEvent::Added(Arc::clone(object)),
                        (Ok(object), Some(_)) => WatchEvent::Modified(Arc::clone(object)),
                        (Err(undecodable), _) => WatchEvent::Undecodable(undecodable.clone()),
                    });
                    (stamp, now)
                }
            };
            files.insert(path, file);
        }
        for (_, last) in gone.into_values() {
            *version += 1;
            events.push(match last {
                Ok(last) => {
                    let header = last.header.clone().with_version(version.to_string());
                    WatchEvent::Deleted(Arc::new(Manifest { header, content: Arc::clone(&last.content) }))
                }
                Err(last) => {
                    WatchEvent::DeletedUndecodable(last.with_version("", version.to_string().into()))
                }
            });
        }
        Ok(events)
    }
}

impl ListSource<Manifest> for Directory {
    async fn list(&self, _: ListRequest<Manifest>) -> Result<ListStream<Manifest>, SourceError> {
        self.look()?;
        let DirectoryScan { version, files } = &*self.seen.lock();
        let mut parts: Vec<_> = files
            .values()
            .map(|(_, read)| match read {
                Ok(object) => Ok(ListPart::Items(vec![Listed::Fresh(Arc::clone(object))])),
                Err(undecodable) => Ok(ListPart::Undecodable(undecodable.clone())),
            })
            .collect();
        parts.push(Ok(ListPart::End(ListEnd { version: version.to_string().into(), ..ListEnd::default() })));
        Ok(ListStream::new(stream::iter(parts)))
    }
}

impl WatchSource<Manifest> for Directory {
    async fn watch(&self, request: WatchRequest<Manifest>) -> Result<WatchStream<Manifest>, SourceError> {
        if request.version != self.seen.lock().version.to_string().as_str() {
            return Err(SourceError::new(
                SourceErrorKind::Expired,
                "watch: only the current version can be resumed",
            ));
        }
        let (directory, ticks) = (self.clone(), tokio::time::interval(Duration::from_millis(20)));
        let looks = stream::unfold(ticks, move |mut ticks| {
            let directory = directory.clone();
            async move {
                ticks.tick().await;
                let events = directory
                    .look()
                    .map_or_else(|error| vec![Err(error)], |events| events.into_iter().map(Ok).collect());
                Some((stream::iter(events), ticks))
            }
        });
        Ok(WatchStream::new(looks.flatten().take_until(tokio::time::sleep(request.timeout))))
    }
}

impl ListWatch<Manifest> for Directory {
    fn describe(&self) -> String {
        format!("manifests in {}", self.path.display())
    }
}

/// Demonstrates an informer of the manifests in a temporary directory.
#[tokio::main(flavor = "current_thread")]
pub async fn main() -> Result {
    let directory = tempfile::tempdir()?;
    let (outside, inside) = (directory.path().join("new"), directory.path().join("manifests"));
    fs::create_dir(&inside)?;
    // A manifest must be written outside of the directory and then renamed, so that the source never reads a
    // partially written file.
    let write = |name: &str, text: &str| {
        fs::write(&outside, text).and_then(|()| fs::rename(&outside, inside.join(name)))
    };
    write("web.yaml", "{metadata: {labels: {app: web}}, spec: {replicas: 3}}")?;
    write("broken.yaml", "metadata: {")?;

    let source = Directory { path: inside.clone(), seen: Arc::default() };
    let by_kind = |manifest: &Manifest| manifest.content["kind"].as_str().map(str::to_owned);
    let manifests = SharedInformer::builder(source).name("manifests").index("kind", by_kind).build();
    let mut events = manifests.events();
    let _run = manifests.start();
    manifests.wait_for_sync(PATIENCE).await?;
    println!("quarantined: {:?}", manifests.undecodable());

    write("api.yaml", "{kind: Deployment, metadata: {labels: {app: api}}}")?;
    write("broken.yaml", "{kind: Deployment, metadata: {labels: {app: mended}}}")?;
    fs::remove_file(inside.join("web.yaml"))?;
    while let Some(event) = tokio::time::timeout(PATIENCE, events.next()).await? {
        println!("  {event}");
        if event.is_deleted() {
            break;
        }
    }
    println!("app in (api, web): {} manifests", manifests.lister().list(&"app in (api, web)".parse()?).len());
    println!("deployments: {:?}", manifests.indexer().index_keys("kind", "Deployment")?);
    Ok(())
}
