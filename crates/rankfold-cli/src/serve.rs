//! `rankfold serve`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use rankfold::{Error, Result};
use rankfold_serve::Running;
use rankfold_serve::options::{Access, Durability, IndexKind, Learning, Limits, Log, Options, Tls};
use serde_json::json;

use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::rows::Fields;

/// Answer from a model over HTTP, and learn from feedback while it answers
///
/// Listens on this machine only, and prints the address. The page at / searches, teaches and
/// shows what changes; /v1/openapi.json lists all that can be asked. Ctrl-C or SIGTERM ends the
/// service: open requests are answered, and all that was learned is written.
///
/// With --learn, POST /v1/feedback takes what `rankfold update` reads, and answers when it is in
/// the journal. MODEL itself is never written: DIR holds the journal and snapshots, and the
/// service comes back with all that was acknowledged, whatever happened to it.
///
/// Another address than this machine's needs TLS and tokens. A file of tokens has lines `TOKEN
/// read`, `TOKEN teach` or `TOKEN read,teach`; requests bring `Authorization: Bearer TOKEN`.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold serve news.safetensors --rows news.jsonl
      search by text or id at http://127.0.0.1:8080
  rankfold serve model.safetensors --rows rows.svm --learn --journal feedback
      the same, and learn: {\"query\":17,\"positive\":4,\"negative\":52} to /v1/feedback
  curl -H 'Content-Type: application/json' -d '{\"id\":\"17\",\"k\":5}' http://127.0.0.1:8080/v1/neighbors
  rankfold serve shop.safetensors --learn --journal clicks --item-names titles.csv
      recommendations, which need no rows
  rankfold serve model.safetensors --rows rows.svm --listen 0.0.0.0:8443 --tokens tokens.txt \\
      --tls-certificate site.pem --tls-key site.key
      for other machines")]
pub struct Serve {
    /// The model; it is never written
    model: PathBuf,

    /// The rows to look among, which ids name; not for ratings, recommendations and tasks
    #[arg(long, value_name = "DATA")]
    rows: Option<PathBuf>,

    /// The objects of a model that scores rows with objects
    #[arg(long, value_name = "FILE")]
    objects: Option<PathBuf>,

    #[command(flatten)]
    fields: Fields,

    /// Titles that stand beside ids: a table with the columns `item` and `title`
    #[arg(long, value_name = "FILE")]
    item_names: Option<PathBuf>,

    /// Learn from feedback; needs --journal
    #[arg(long, requires = "journal")]
    learn: bool,

    /// The folder of the journal and its snapshots; it is made where it is not there
    #[arg(long, value_name = "DIR", requires = "learn")]
    journal: Option<PathBuf>,

    /// When feedback is acknowledged: when the disk has it, or when the system has it
    #[arg(long, value_enum, default_value_t = DurabilityName::Fsync, requires = "learn")]
    durability: DurabilityName,

    /// Examples between two snapshots
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "learn",
        value_parser = clap::value_parser!(u64).range(1..))]
    snapshot_every: u64,

    /// Megabytes after which the journal goes on in a new file
    #[arg(long, value_name = "MB", default_value_t = 64.0, requires = "learn", value_parser = positive)]
    journal_file_size: f64,

    /// The address to listen on; port 0 takes any that is free, and prints it
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,

    /// Who may ask and teach, a token a line
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,

    /// The certificate of the service with its chain, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,

    /// The private key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,

    /// Listen to other machines without TLS or without tokens, such as behind a proxy that has them
    #[arg(long)]
    insecure: bool,

    /// A name that the service is called by, beside those of this machine; may be given again
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,

    /// How rows are searched: all of them, by an approximate index, or by an index above 200,000 rows
    #[arg(long, value_enum, default_value_t = IndexName::Auto)]
    index: IndexName,

    /// How soon answers know of what was learned, such as 100ms or 2s
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = time)]
    visible_within: Duration,

    /// Bytes of a request at most
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    max_body: usize,

    /// Results of a query at most
    #[arg(long, value_name = "K", default_value_t = 1000)]
    max_k: usize,

    /// Inputs or examples of one request at most
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_batch: usize,

    /// How long a request may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    max_time: Duration,

    /// Requests a second of one address at most; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 0.0, value_parser = at_least_zero)]
    max_rate: f64,

    /// Connections at a time at most
    #[arg(long, value_name = "N", default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: u32,

    /// Features, users, items, labels or tasks of the model at most; feedback that would add more is
    /// refused
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10_000_000,
        requires = "learn"
    )]
    max_size: usize,

    /// Threads that answer [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// What is told on stderr: lines of text, JSON objects, or nothing
    #[arg(long, value_enum, default_value_t = LogName::Text)]
    log: LogName,

    /// Tell of each request, too
    #[arg(long)]
    log_requests: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DurabilityName {
    /// The disk has it: it outlives the machine
    Fsync,
    /// The system has it: it outlives the service
    Os,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IndexName {
    /// All rows are scored
    Exact,
    /// A graph of near rows (HNSW), approximate
    Hnsw,
    /// Exact up to 200,000 rows
    Auto,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogName {
    Text,
    Json,
    None,
}

impl From<IndexName> for IndexKind {
    fn from(name: IndexName) -> Self {
        match name {
            IndexName::Exact => IndexKind::Exact,
            IndexName::Hnsw => IndexKind::Hnsw,
            IndexName::Auto => IndexKind::Auto,
        }
    }
}

fn positive(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|n| n.is_finite() && *n > 0.0);
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

fn at_least_zero(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|n| n.is_finite() && *n >= 0.0);
    number.ok_or_else(|| "expected a number of at least 0".to_owned())
}

/// A time with its unit.
fn time(text: &str) -> std::result::Result<Duration, String> {
    let bad = || "expected a time such as `100ms` or `2s`".to_owned();
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, Some(number)) => (number, 1.0),
        (None, None) => return Err(bad()),
    };
    let seconds = number.parse::<f64>().map_err(|_| bad())? * unit;
    match (1e-3..=86_400.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("expected a time from 1ms to 86400s".to_owned()),
    }
}

impl Serve {
    pub fn run(self, output: &Output) -> Result<()> {
        for path in [&self.rows, &self.objects].into_iter().flatten() {
            if path == Path::new("-") {
                return Err(Error::input("rows are read from a file, not from `-`"));
            }
        }
        let learning = self.journal.as_ref().map(|journal| Learning {
            journal: journal.clone(),
            durability: match self.durability {
                DurabilityName::Fsync => Durability::Fsync,
                DurabilityName::Os => Durability::Os,
            },
            snapshot_every: self.snapshot_every,
            segment_bytes: (self.journal_file_size * 1e6) as u64,
        });
        let tls = self.tls_certificate.clone().zip(self.tls_key.clone());
        let options = Options {
            model: self.model.clone(),
            rows: self
                .rows
                .as_deref()
                .map(|path| self.fields.of(path, output)),
            objects: self
                .objects
                .as_deref()
                .map(|path| self.fields.of_all(path, output)),
            names: self.item_names.clone(),
            learning,
            listen: self.listen,
            access: Access {
                tokens: self.tokens.clone(),
                tls: tls.map(|(certificate, key)| Tls { certificate, key }),
                insecure: self.insecure,
                hosts: self.host.clone(),
            },
            limits: Limits {
                body: self.max_body,
                k: self.max_k,
                batch: self.max_batch,
                time: self.max_time,
                rate: self.max_rate,
                connections: self.max_connections as usize,
                size: self.max_size,
            },
            index: self.index.into(),
            visible_within: self.visible_within,
            threads: crate::threads(self.threads),
            log: match self.log {
                LogName::Text => Log::Text,
                LogName::Json => Log::Json,
                LogName::None => Log::None,
            },
            log_requests: self.log_requests,
        };
        let secure = options.access.tls.is_some();
        let interrupt = Interrupt::watch();
        follow(rankfold_serve::start(&options)?, secure, &interrupt, output)
    }
}

/// Tells where a service listens, and waits until it is to end.
pub fn follow(
    running: Running,
    secure: bool,
    interrupt: &Interrupt,
    output: &Output,
) -> Result<()> {
    let scheme = if secure { "https" } else { "http" };
    let url = format!("{scheme}://{}", running.address);
    let report = json!({ "format": 1, "address": running.address.to_string(), "url": url });
    output.result(&report, &format!("listening on {url}"))?;
    while running.is_running() && !interrupt.requested() {
        std::thread::sleep(Duration::from_millis(50));
    }
    running.stop();
    Ok(())
}
