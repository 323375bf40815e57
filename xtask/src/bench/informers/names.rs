//! Names of the programs that the informer benchmarks measure, and of their cases. The name of a case is the
//! key of its figure in the JSON output of the programs.

pub(super) const OURS: &str = "informer";
pub(super) const JSON: &str = "informer, JSON";
pub(super) const LIST: &str = "informer, list";
pub(super) const SPLIT: &str = "informer, by namespaces";
pub(super) const TYPED: &str = "informer, typed";
pub(super) const PACKED: &str = "informer, packed";
pub(super) const METADATA: &str = "informer, metadata";
pub(super) const DYNAMIC: &str = "informer, dynamic";
pub(super) const CLIENT_GO: &str = "client-go 0.37.2";
pub(super) const CLIENT_GO_JSON: &str = "client-go, JSON";
pub(super) const CLIENT_GO_DYNAMIC: &str = "client-go, dynamic";
pub(super) const CLIENT_GO_METADATA: &str = "client-go, metadata";
pub(super) const KUBE_RS: &str = "kube-rs 5.0.0";
pub(super) const KUBE_RS_DYNAMIC: &str = "kube-rs, dynamic";
pub(super) const DRAIN: &str = "HTTP alone, JSON";
pub(super) const DRAIN_PROTOBUF: &str = "HTTP alone, protobuf";
pub(super) const DRAIN_STREAM: &str = "HTTP alone, JSON, watched";
pub(super) const DRAIN_PROTOBUF_STREAM: &str = "HTTP alone, protobuf, watched";

pub(super) const PEERS: [&str; 6] =
    [CLIENT_GO, CLIENT_GO_JSON, CLIENT_GO_DYNAMIC, CLIENT_GO_METADATA, KUBE_RS, KUBE_RS_DYNAMIC];

pub(super) const SYNC: &str = "initial sync, s";
pub(super) const SYNC_CPU: &str = "initial sync, client CPU s";
pub(super) const SYNC_CPU_EACH: &str = "initial sync, client CPU us an object";
pub(super) const SYNC_AND_READ: &str = "sync and every object read typed, s";
pub(super) const READ_HOT: &str = "typed read, hot, us";
pub(super) const READ_COLD: &str = "typed read, cold, us";
pub(super) const PEAK: &str = "peak RSS, MB";
pub(super) const PEAK_EACH: &str = "peak RSS an object, KB";
pub(super) const STEADY: &str = "steady RSS an object, KB";
pub(super) const RELIST: &str = "relist, nothing changed, client CPU s";
pub(super) const RELIST_PEAK: &str = "relist, nothing changed, peak above before, %";
pub(super) const EVENTS: &str = "events through one handler, a second";
pub(super) const EVENTS_TYPED: &str = "events through one handler, read typed, a second";
pub(super) const DELAY: &str = "event to handler, 1 handler, p50 us";
pub(super) const DELAY_P99: &str = "event to handler, 1 handler, p99 us";
pub(super) const DELAY_OF_TEN: &str = "event to handler, 10 handlers, p50 us";
pub(super) const DELAY_OF_TEN_P99: &str = "event to handler, 10 handlers, p99 us";
pub(super) const ACKNOWLEDGED: &str = "write to acknowledgement, 1 handler, p50 us";
pub(super) const LOOKUP: &str = "lookup, ns";
pub(super) const LOOKUP_BUSY: &str = "lookup beside a busy writer, ns";
pub(super) const NAMESPACE: &str = "list of a namespace, ns an object";
pub(super) const SNAPSHOT: &str = "snapshot, us";
