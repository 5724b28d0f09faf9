//! `rankfold gossip agent`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use rankfold::data::{Lines, Ratings, TaskRows};
use rankfold::task::{GossipTask, Site, SiteData, Stop};
use rankfold::{Error, Ids, Result};
use rankfold_agent::{LogFormat, Settings};

use super::run::{OF_RATINGS, OF_TASKS, ReadBy};
use super::status::Keyring;
use crate::drive::{Drive, save};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::paths;
use crate::rows::rating_columns;
use crate::shared_options::Precision;
use crate::table::Table;

/// How log lines look.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Log {
    /// For people
    Text,
    /// A JSON object a line
    Json,
}

/// Run one agent of a network
///
/// The agent keeps DATA, talks to its neighbors over TLS with certificates on both sides, and
/// ends with the model of its own users or tasks. It runs until `--rounds`, until neighbors are
/// within `--agreed`, or until Ctrl-C or SIGTERM, which leave a state and a model. After its
/// rounds it answers until its neighbors have made theirs or were silent for half a minute.
/// SIGHUP reads `--neighbors` and the keys again.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold gossip agent completion a.csv -o a.safetensors --name a --listen 127.0.0.1:7001 \\
      --neighbor b=127.0.0.1:7002 --authority keys/authority.pem --certificate keys/a.pem \\
      --key keys/a.key --state state-a --items items.txt --rank 5 --rounds 200
      agent a with the ratings of its users
  rankfold gossip agent multitask a.csv … --task-column ward --target-column stay --agreed 0.01
      regressions, until neighbors agree to a hundredth of a radian")]
pub struct RunAgent {
    /// The own ratings or rows of tasks, in the formats of `gossip run`
    #[arg(index = 2)]
    data: PathBuf,

    /// The model file to write: of the own users or tasks
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,

    /// The name of this agent, which its certificate bears
    #[arg(long, value_name = "NAME")]
    name: String,

    /// Where this agent answers
    #[arg(long, value_name = "HOST:PORT")]
    listen: String,

    /// A neighbor and where it answers; once for each
    #[arg(long, value_name = "NAME=HOST:PORT")]
    neighbor: Vec<String>,

    /// A file with a neighbor a line, NAME=HOST:PORT, read again on SIGHUP
    #[arg(long, value_name = "FILE")]
    neighbors: Option<PathBuf>,

    #[command(flatten)]
    keys: Keyring,

    /// The folder for the state of this agent, which goes on from there when it is started again
    #[arg(long, value_name = "DIR")]
    state: PathBuf,

    /// All items or features, one a line, the same file for all agents
    #[arg(long, value_name = "FILE", conflicts_with = "exchange_names")]
    items: Option<PathBuf>,

    /// Learn items or features of other agents by their names
    #[arg(long)]
    exchange_names: bool,

    /// The most names to learn from others
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        requires = "exchange_names"
    )]
    most_names: usize,

    /// Make this many rounds, a step each
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,

    /// End when all neighbors have been within this distance for a while, in radians
    #[arg(long, value_name = "E")]
    agreed: Option<f64>,

    /// Seconds that an exchange may take
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    deadline: f64,

    /// Seconds without a word of a neighbor after which others agree without it before the rounds
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    wait: f64,

    /// Seconds between two saved states
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    save_every: f64,

    /// Letters of one neighbor that are taken in a second
    #[arg(long, value_name = "N", default_value_t = 2000.0)]
    rate: f64,

    /// A name that may ask for the status and nothing else; once for each
    #[arg(long, value_name = "NAME")]
    observer: Vec<String>,

    /// Show metrics for Prometheus and health here, on a loopback address
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<SocketAddr>,

    /// Log to stderr [default: text, nothing with --json or --quiet]
    #[arg(long, value_enum)]
    log: Option<Log>,

    /// Log each exchange that failed and each letter that was refused
    #[arg(long)]
    log_details: bool,

    /// Milliseconds of sleep before each step, to try out slow agents
    #[arg(long, value_name = "MS", default_value_t = 0, hide = true)]
    slow: u64,

    #[command(flatten)]
    read: ReadBy,

    #[command(flatten)]
    options: Table<Site>,
}

/// Ends a thread that listens when it goes out of scope.
struct Over<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(false, std::sync::atomic::Ordering::SeqCst);
    }
}

/// The names of a file, one a line.
pub fn read_names(path: &Path) -> Result<Ids> {
    let mut lines = Lines::open(path)?;
    let mut names = Ids::new();
    while let Some(line) = lines.next_line()? {
        let name = match std::str::from_utf8(line) {
            Ok(name) => name.trim_end_matches(['\r', '\n']),
            Err(_) => return Err(lines.error("expected a name in UTF-8")),
        };
        if name.is_empty() {
            continue;
        }
        let (before, name) = (names.len(), name.to_owned());
        if (names.intern(&name) as usize) < before {
            return Err(lines.error(format!("`{name}` stands twice in the list")));
        }
    }
    match names.is_empty() {
        true => Err(Error::input("no names").in_file(path)),
        false => Ok(names),
    }
}

impl RunAgent {
    fn settings(&self) -> Result<Settings> {
        let seconds = |name: &str, value: f64| match (0.001..=1e6).contains(&value) {
            true => Ok(Duration::from_secs_f64(value)),
            false => {
                let message = format!("must be from 0.001 to 1000000, found {value}");
                Err(Error::option(name, message))
            }
        };
        let neighbor = |text: &String| {
            rankfold_agent::neighbor(text).map_err(|e| Error::option("neighbor", e.message))
        };
        if self.rounds == Some(0) {
            return Err(Error::option("rounds", "must be at least 1, found 0"));
        }
        Ok(Settings {
            name: self.name.clone(),
            listen: self.listen.clone(),
            neighbors: self.neighbor.iter().map(neighbor).collect::<Result<_>>()?,
            neighbors_file: self.neighbors.clone(),
            identity: self.keys.identity(),
            state: self.state.clone(),
            rounds: self.rounds,
            agreed: self.agreed,
            exchange_names: self.exchange_names,
            most_names: self.most_names,
            deadline: seconds("deadline", self.deadline)?,
            wait: seconds("wait", self.wait)?,
            silence: Duration::from_secs(30),
            save_every: seconds("save_every", self.save_every)?,
            rate: self.rate,
            observers: self.observer.clone(),
            metrics: self.metrics,
            slow: Duration::from_millis(self.slow),
        })
    }

    pub fn run(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        let options = &self.options.0;
        let (elsewhere, flags) = match options.kind() {
            GossipTask::Completion => ("`multitask`", &OF_TASKS[..]),
            GossipTask::Multitask => ("`completion`", &OF_RATINGS[..]),
        };
        output.given.none_of(elsewhere, flags)?;
        options.check()?;
        let settings = self.settings()?;
        settings.check()?;
        let keys = &self.keys;
        let inputs = [
            Some(self.data.as_path()),
            self.items.as_deref(),
            self.neighbors.as_deref(),
            Some(&keys.authority),
            Some(&keys.certificate),
            Some(&keys.key),
        ];
        paths::check(&[Some(self.output.as_path())], &inputs)?;
        let format = match (self.log, output.is_silent()) {
            (Some(Log::Json), _) => Some(LogFormat::Json),
            (Some(Log::Text), _) | (None, false) => Some(LogFormat::Text),
            (None, true) => None,
        };
        if let Some(format) = format {
            rankfold_agent::start_logs(format, self.log_details);
        }
        let list = self.items.as_deref().map(read_names).transpose()?;
        let (rows, columns);
        let data = match options.kind() {
            GossipTask::Completion => {
                let columns = rating_columns(self.read.columns.as_deref(), false, None, output)?;
                SiteData::Ratings(Ratings::read(&self.data, &columns)?)
            }
            GossipTask::Multitask => {
                columns = self.read.task_columns.or(None, output);
                rows = TaskRows::read(&self.data, &columns)?;
                SiteData::Tasks(&rows, &columns)
            }
        };
        #[cfg(unix)]
        crate::interrupt::spare_hangup();
        let interrupt = Interrupt::watch();
        let stop = || interrupt.requested();
        // A step may take longer than a signal waits to be heard.
        let listening = std::sync::atomic::AtomicBool::new(true);
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                while listening.load(std::sync::atomic::Ordering::SeqCst) {
                    interrupt.requested();
                    std::thread::sleep(Duration::from_millis(100));
                }
            });
            // Also where the agent panics: the thread above must not outlive it.
            let _over = Over(&listening);
            rankfold_agent::run(&settings, options, data, list, &stop)
        });
        let outcome = outcome.map_err(|e| match (&e.file, &e.option) {
            (None, None) if e.kind == rankfold::ErrorKind::Input => e.in_file(&self.data),
            _ => e,
        })?;
        let fit = match self.read.precision {
            Some(Precision::F64) => outcome.member.fit::<f64>(&outcome.ending)?,
            _ => outcome.member.fit::<f32>(&outcome.ending)?,
        };
        save(&self.output, |path| fit.model.save(path))?;
        let mut fit = fit;
        fit.report = fit.report.with("status", outcome.status);
        let files = Default::default();
        let drive = Drive::new(output, &self.output, &files, "gossip");
        let seconds = start.elapsed().as_secs_f64();
        drive.report(&fit, Some(&self.output), seconds)?;
        match fit.report.stopped == Stop::Interrupted {
            true => Err(Error::interrupted("")),
            false => Ok(()),
        }
    }
}
