//! Compiles and runs the Rust code of the book in `docs/book` as documentation tests.
//!
//! The test `code_of_every_page_is_tested` fails if a page with Rust code is not listed here.

#[doc = include_str!("../../docs/book/src/concepts/delivery.md")]
pub struct Delivery;

#[doc = include_str!("../../docs/book/src/concepts/representations.md")]
pub struct Representations;

#[doc = include_str!("../../docs/book/src/guides/clusters.md")]
pub struct ManyClusters;

#[doc = include_str!("../../docs/book/src/guides/client.md")]
pub struct LiveRequests;

#[doc = include_str!("../../docs/book/src/guides/console.md")]
pub struct Console;

#[doc = include_str!("../../docs/book/src/guides/debugging.md")]
pub struct Debugging;

#[doc = include_str!("../../docs/book/src/guides/explore.md")]
pub struct Exploration;

#[doc = include_str!("../../docs/book/src/guides/faults.md")]
pub struct Faults;

#[doc = include_str!("../../docs/book/src/guides/index-by-field.md")]
pub struct Indexes;

#[doc = include_str!("../../docs/book/src/guides/informers.md")]
pub struct InformerOptions;

#[doc = include_str!("../../docs/book/src/guides/memory.md")]
pub struct Memory;

#[doc = include_str!("../../docs/book/src/guides/metrics.md")]
pub struct Metrics;

#[doc = include_str!("../../docs/book/src/guides/namespaces.md")]
pub struct Namespaces;

#[doc = include_str!("../../docs/book/src/guides/newer-server.md")]
pub struct NewerServer;

#[doc = include_str!("../../docs/book/src/guides/read-your-writes.md")]
pub struct ReadYourWrites;

#[doc = include_str!("../../docs/book/src/guides/replicas.md")]
pub struct Replicas;

#[doc = include_str!("../../docs/book/src/guides/start-a-project.md")]
pub struct NewProject;

#[doc = include_str!("../../docs/book/src/guides/status-and-events.md")]
pub struct StatusAndEvents;

#[doc = include_str!("../../docs/book/src/guides/testing.md")]
pub struct Testing;

#[doc = include_str!("../../docs/book/src/guides/webhooks.md")]
pub struct Webhooks;

#[doc = include_str!("../../docs/book/src/introduction.md")]
pub struct Introduction;

#[doc = include_str!("../../docs/book/src/reference/compiler-errors.md")]
pub struct CompilerErrors;

#[doc = include_str!("../../docs/book/src/reference/faults.md")]
pub struct FaultRules;

#[doc = include_str!("../../docs/apiserver.md")]
pub struct EmbeddedServer;
