//! What a service is started with.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use rankfold::data::text::Documents;

pub use crate::journal::Durability;

/// How rows are searched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IndexKind {
    /// All rows are scored.
    Exact,
    /// A graph of near rows; approximate.
    Hnsw,
    /// Exact up to [`Options::AUTO_ROWS`] rows, then a graph.
    #[default]
    Auto,
}

impl IndexKind {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            IndexKind::Exact => "exact",
            IndexKind::Hnsw => "hnsw",
            IndexKind::Auto => "auto",
        }
    }
}

/// What is asked of all who ask.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of a request.
    pub body: usize,
    /// Results of a query.
    pub k: usize,
    /// Inputs of a prediction, examples of one feedback.
    pub batch: usize,
    /// How long a request may take, its body included.
    pub time: Duration,
    /// Requests a second of one address; 0 is no limit.
    pub rate: f64,
    /// Connections at a time.
    pub connections: usize,
    /// Features, users, items, labels or tasks on a side of the model; a feedback that would
    /// make it larger is refused.
    pub size: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body: 1 << 20,
            k: 1000,
            batch: 1000,
            time: Duration::from_secs(10),
            rate: 0.0,
            connections: 1024,
            size: 10_000_000,
        }
    }
}

/// Where feedback goes.
#[derive(Debug, Clone)]
pub struct Learning {
    /// The folder of journal and snapshots.
    pub journal: PathBuf,
    pub durability: Durability,
    /// Examples between two snapshots.
    pub snapshot_every: u64,
    /// Bytes after which the journal goes on in a new file.
    pub segment_bytes: u64,
}

/// A certificate and its key, both PEM.
#[derive(Debug, Clone)]
pub struct Tls {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// How a service is told apart from other sites.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// The file of tokens; without one everybody who can connect may ask and teach.
    pub tokens: Option<PathBuf>,
    pub tls: Option<Tls>,
    /// Whether another address than that of this machine may be served without TLS.
    pub insecure: bool,
    /// Names that the service is called by, beside those of this machine.
    pub hosts: Vec<String>,
}

/// What is logged, to stderr.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Log {
    /// Nothing.
    None,
    /// One line of text for each event.
    #[default]
    Text,
    /// One JSON object for each event.
    Json,
}

/// All of it.
#[derive(Debug, Clone)]
pub struct Options {
    pub model: PathBuf,
    pub rows: Option<Documents>,
    pub objects: Option<Documents>,
    /// A table with the columns `item` and `title`.
    pub names: Option<PathBuf>,
    pub learning: Option<Learning>,
    pub listen: SocketAddr,
    pub access: Access,
    pub limits: Limits,
    pub index: IndexKind,
    /// How soon new steps are seen.
    pub visible_within: Duration,
    pub threads: usize,
    pub log: Log,
    /// Whether each request is logged, too.
    pub log_requests: bool,
}

impl Options {
    /// Rows above which `auto` builds an index.
    pub const AUTO_ROWS: usize = 200_000;
}
