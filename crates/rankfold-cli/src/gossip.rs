//! `rankfold gossip`.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use rankfold::data::{RatingColumns, Ratings, TaskRows, read_edges};
use rankfold::options::Options;
use rankfold::task::{Divided, Fit, Gossip, GossipData, GossipTask, Run, TaskData};
use rankfold::{Error, Result};

use crate::drive::Drive;
use crate::output::Output;
use crate::paths;
use crate::shared_options::{Precision, RunFiles};
use crate::table::Table;
use crate::task_columns::ColumnsOfTasks;

/// The flags that apply to one kind of data only, beside those of the table.
const OF_TASKS: [&str; 3] = ["task_column", "target_column", "ignore_column"];
const OF_RATINGS: [&str; 2] = ["columns", "precision"];

/// Learn by agents that keep their data and agree on a subspace
#[derive(Args)]
pub struct GossipCommand {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    Run(Box<RunAgents>),
}

/// Run all agents in this process
///
/// Each agent has the ratings of its users and a subspace of the items, or the rows of its
/// tasks and a subspace of the features. Neighbors send each other these subspaces, never
/// data, until they agree. The mean of all subspaces is the model; the model of each agent,
/// for its own users or tasks, is written beside it. Before the run, agents know what
/// concerns all: the mean of the ratings, or the scales and common weights of the tasks.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold gossip run completion ratings.csv --agents 5 --rank 3 -o m.safetensors
      five agents on a path; writes m.safetensors and m.agent-0.safetensors to m.agent-4.safetensors
  rankfold eval m.safetensors test.csv
      and `predict`, `recommend`, `info` and `update`, as for any model of ratings
  rankfold gossip run completion ratings.csv --agents 9 --graph grid -o m.safetensors --curve c.jsonl
      on a grid, with cost and consensus slot by slot
  rankfold gossip run completion entries.csv --columns row,column,value --agents 6 --rank 5 \\
      --regularization 0 --center 0 --clip none -o m.safetensors
      fills the holes of a matrix that has exactly this rank
  rankfold gossip run completion ratings.csv --agents 6 --schedule stochastic --rho 1e5 \\
      --regularization 0.01 --step-a 1e-6 --step-b 0.01 -o m.safetensors
      one edge a slot, with steps a/(1 + bk), as in the paper
  rankfold gossip run multitask pupils.csv --agents 6 --rank 3 -o m.safetensors \\
      --task-column school --target-column score
      six agents learn regressions; all commands take the model as any model of tasks
  rankfold gossip run multitask tasks.csv --agents 6 --rank 5 --standardize none --no-bias \\
      --no-common --regularization 0.1 --rho 1e6 -o m.safetensors
      the plain problem of the paper: a subspace and nothing beside it")]
struct RunAgents {
    /// Ratings (.csv, .tsv, .jsonl, or .dat with `::`, tabs or spaces) or rows of tasks (.csv, .tsv, or
    /// .jsonl with lines {\"task\":…,\"row\":{…},\"target\":…}), plain, .gz or .zst; `-` is stdin: .dat for
    /// ratings, .jsonl for tasks
    #[arg(index = 2)]
    data: PathBuf,

    /// The model file to write; agents' are named after it
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,

    /// Write the model of the mean only
    #[arg(long)]
    mean_only: bool,

    /// A graph of your own: the numbers of two agents a line, from 0
    #[arg(long, value_name = "FILE", conflicts_with = "graph")]
    edges: Option<PathBuf>,

    /// The columns of users, items and ratings: names, or numbers where there is no header; applies to
    /// `completion` [default: user,item,rating]
    #[arg(long, value_name = "USER,ITEM,RATING")]
    columns: Option<RatingColumns>,

    #[command(flatten)]
    task_columns: ColumnsOfTasks,

    /// How the factors are stored, which are learned in double precision; applies to `completion`
    /// [default: f32]
    #[arg(long, value_enum)]
    precision: Option<Precision>,

    #[command(flatten)]
    files: RunFiles,

    #[command(flatten)]
    options: Table<Gossip>,
}

impl GossipCommand {
    pub fn run(self, output: &Output) -> Result<()> {
        let What::Run(run) = self.command;
        run.run(output)
    }
}

impl RunAgents {
    fn run(self, output: &Output) -> Result<()> {
        let drive = Drive::new(output, &self.output, &self.files, Gossip::TASK);
        let options = &self.options.0;
        let (elsewhere, flags) = match options.kind() {
            GossipTask::Completion => ("`multitask`", &OF_TASKS[..]),
            GossipTask::Multitask => ("`completion`", &OF_RATINGS[..]),
        };
        output.given.none_of(elsewhere, flags)?;
        if self.files.valid.is_some() {
            let message = "does not apply to gossip: agents hold out a part of their own data";
            return Err(Error::option("valid", message));
        }
        options.check()?;
        self.check_paths()?;
        let edges = self.edges.as_ref().map(read_edges).transpose()?;
        let (columns, ratings, tasks);
        let shared = match options.kind() {
            GossipTask::Completion => {
                let columns = self.columns.clone().unwrap_or_default();
                ratings = Ratings::read(&self.data, &columns)?;
                Divided::Ratings(Cow::Borrowed(&ratings))
            }
            GossipTask::Multitask => {
                columns = self.task_columns.or(None);
                tasks = TaskRows::read(&self.data, &columns)?;
                Divided::Tasks(TaskData {
                    rows: &tasks,
                    columns: Some(&columns),
                    valid: None,
                })
            }
        };
        let data = GossipData {
            shared,
            edges: edges.as_deref(),
        };
        drive.run(
            |run| self.learn(options, data, run),
            |e| match (e.about, &self.edges) {
                (Some("edges"), Some(path)) => Error { about: None, ..e }.in_file(path),
                _ => e.in_file(&self.data),
            },
        )
    }

    /// Learns, and writes the models of the agents.
    fn learn(&self, options: &Gossip, data: GossipData<'_>, run: Run<'_>) -> Result<Fit> {
        let found = match self.precision {
            Some(Precision::F64) => options.fit_agents::<f64>(data, run),
            _ => options.fit_agents::<f32>(data, run),
        };
        let found = found?;
        let paths = self.agent_paths(found.agents.len());
        for (path, model) in paths.iter().zip(&found.agents) {
            model.save(path)?;
        }
        let names: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
        let mut fit = found.fit;
        fit.report = fit.report.with("agent_models", names);
        Ok(fit)
    }

    /// Where the model of an agent goes: `m.safetensors` to `m.agent-0.safetensors`.
    fn agent_path(&self, agent: usize) -> PathBuf {
        let name = match (self.output.file_stem(), self.output.extension()) {
            (Some(stem), Some(extension)) => format!(
                "{}.agent-{agent}.{}",
                stem.to_string_lossy(),
                extension.to_string_lossy()
            ),
            (stem, _) => {
                let stem = stem.map(|s| s.to_string_lossy().into_owned());
                format!("{}.agent-{agent}", stem.unwrap_or_default())
            }
        };
        self.output.with_file_name(name)
    }

    /// The files of agents; none where the mean goes to stdout.
    fn agent_paths(&self, agents: usize) -> Vec<PathBuf> {
        match self.mean_only || self.output == Path::new("-") {
            true => Vec::new(),
            false => (0..agents).map(|i| self.agent_path(i)).collect(),
        }
    }

    fn check_paths(&self) -> Result<()> {
        let inputs = [Some(self.data.as_path()), self.edges.as_deref()];
        self.files.check(&self.output, &inputs)?;
        // A default number of agents is only ever lowered.
        let agents = self.agent_paths(self.options.0.agent_count());
        let mut outputs = vec![Some(self.output.as_path()), self.files.curve.as_deref()];
        outputs.push(self.files.checkpoint.as_deref());
        outputs.extend(agents.iter().map(|path| Some(path.as_path())));
        paths::check(&outputs, &inputs)
    }
}
