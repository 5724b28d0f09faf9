//! `rankfold gossip`.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand, ValueEnum};
use indicatif::ProgressBar;
use rankfold::data::{RatingColumns, Ratings, TaskRows, read_edges};
use rankfold::gossip::{Schedule, Status};
use rankfold::options::OptionValue;
use rankfold::task::{Clip, Gossip, GossipEvent, GossipSteps, GossipTrial, Gossiped, GraphShape};
use rankfold::{Error, Result};
use serde_json::{Value, json};

use crate::interrupt::Interrupt;
use crate::output::{Output, shown};
use crate::paths;
use crate::shared_options::Precision;
use crate::task_columns::ColumnsOfTasks;
use crate::task_options::TaskOptions;

/// Lines that tell of a run where there is no terminal.
const LINES: u64 = 10;

/// Learn by agents that keep their data and agree on a subspace
#[derive(Args)]
pub struct GossipCommand {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    Run(Run),
}

/// Run all agents in this process
#[derive(Args)]
pub struct Run {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Completion(Box<RunCompletion>),
    Multitask(Box<RunMultitask>),
}

/// Ratings, with the users divided among agents
///
/// Each agent has the ratings of its users and a subspace of the items. Neighbours send
/// each other these subspaces, never ratings, until they agree. The mean of all subspaces
/// is the model; the model of each agent, for its own users, is written beside it. All that
/// agents know of each other before the run is the mean of all ratings.
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
      one edge a slot, with steps a/(1 + bk), as in the paper")]
struct RunCompletion {
    /// Ratings: .csv, .tsv, .jsonl, or .dat with `::`, tabs or spaces, plain, .gz or .zst; `-` is .dat
    /// from stdin
    data: PathBuf,

    #[command(flatten)]
    agents: Agents,

    /// λ, the penalty on what is predicted where nothing is known, from 0 to 1 [default: chosen by
    /// validation]
    #[arg(long, value_name = "L", allow_hyphen_values = true)]
    regularization: Option<f64>,

    /// What is subtracted from all ratings [default: their mean]
    #[arg(long, value_name = "C", allow_hyphen_values = true)]
    center: Option<f64>,

    /// The columns of users, items and ratings: names, or numbers where there is no header
    #[arg(
        long,
        value_name = "USER,ITEM,RATING",
        default_value = "user,item,rating"
    )]
    columns: RatingColumns,

    /// The range to which predictions are clipped: `auto` is that of the ratings, `none`, or LOW,HIGH
    #[arg(long, value_name = "RANGE", default_value = "auto", value_parser = Clip::parse,
        allow_hyphen_values = true)]
    clip: Clip,

    /// How the factors are stored; they are learned in double precision
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    precision: Precision,
}

/// Regression tasks, divided among agents
///
/// Each agent has the rows of its tasks and a subspace of the features. Neighbours send
/// each other these subspaces, never rows, until they agree. The mean of all subspaces is
/// the model; the model of each agent, for its own tasks, is written beside it. Before the
/// run, agents know what concerns all tasks: scales, the spread of biases, and common
/// weights.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold gossip run multitask pupils.csv --agents 6 --rank 3 -o m.safetensors \\
      --task-column school --target-column score
      six agents on a path; writes m.safetensors and m.agent-0.safetensors to m.agent-5.safetensors
  rankfold eval m.safetensors test.csv --train pupils.csv
      and `predict`, `info` and `update`, as for any model of tasks
  rankfold gossip run multitask tasks.csv --agents 6 --rank 5 --standardize none --no-bias \\
      --no-common --regularization 0.1 --rho 1e6 -o m.safetensors
      the plain problem of the paper: a subspace and nothing beside it")]
struct RunMultitask {
    /// Rows of all tasks: .csv, .tsv, or .jsonl with lines {\"task\":…,\"row\":{…},\"target\":…}, plain,
    /// .gz or .zst; `-` is .jsonl from stdin
    data: PathBuf,

    #[command(flatten)]
    agents: Agents,

    #[command(flatten)]
    columns: ColumnsOfTasks,

    /// λ of λ/2 ‖w‖² a task, beside half of its squared errors [default: chosen by validation, as
    /// `train multitask` does]
    #[arg(long, value_name = "L", allow_hyphen_values = true)]
    regularization: Option<f64>,

    #[command(flatten)]
    tasks: TaskOptions,
}

/// What agents have in common, whatever they learn.
#[derive(Args)]
struct Agents {
    /// How many agents there are
    #[arg(long, value_name = "N")]
    agents: usize,

    /// The model file to write; agents' are named after it
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,

    /// Write the model of the mean only
    #[arg(long)]
    mean_only: bool,

    /// Who talks to whom
    #[arg(long, value_enum, default_value_t = GraphName::Path)]
    graph: GraphName,

    /// A graph of your own: the numbers of two agents a line, from 0
    #[arg(long, value_name = "FILE", conflicts_with = "graph")]
    edges: Option<PathBuf>,

    /// The dimension of the subspace
    #[arg(long, value_name = "R", default_value_t = 5)]
    rank: usize,

    /// ρ of ρ/2 Σ dist² between neighbours [default: a tenth of the curvature that an agent would have
    /// if the subspace explained everything]
    #[arg(long, value_name = "RHO", allow_hyphen_values = true)]
    rho: Option<f64>,

    /// Which edges are used at a time
    #[arg(long, value_enum, default_value_t = ScheduleName::Parallel)]
    schedule: ScheduleName,

    /// a of steps a/(1 + bk) in slot k [default: agents choose their steps]
    #[arg(long, value_name = "A", allow_hyphen_values = true)]
    step_a: Option<f64>,

    /// b of these steps
    #[arg(
        long,
        value_name = "B",
        requires = "step_a",
        default_value_t = 0.0,
        allow_hyphen_values = true
    )]
    step_b: f64,

    /// Choose a and b by cross-validation with so many parts
    #[arg(long, value_name = "PARTS", num_args = 0..=1, default_missing_value = "5",
        conflicts_with = "step_a")]
    cross_validate: Option<usize>,

    /// Scale given steps by (WᵀW + ρI)⁻¹, for ill-conditioned data
    #[arg(long)]
    precondition: bool,

    /// How many slots the run has [default: each edge is used a hundred times]
    #[arg(long, value_name = "N")]
    slots: Option<u64>,

    /// Cost and consensus on the way, as JSON lines
    #[arg(long, value_name = "FILE")]
    curve: Option<PathBuf>,

    /// Slots between two points of the curve [default: fifty points]
    #[arg(long, value_name = "N", requires = "curve")]
    curve_every: Option<u64>,

    /// Seed of everything random; the same seed gives the same bytes
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Threads [default: all cores]; the result does not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

#[derive(Clone, Copy, ValueEnum)]
enum GraphName {
    /// 0 – 1 – 2 – …
    Path,
    /// A path whose ends are joined
    Ring,
    /// Rows of equal length
    Grid,
    /// Agent 0 in the middle
    Star,
    /// A random tree and some more edges
    Random,
}

#[derive(Clone, Copy, ValueEnum)]
enum ScheduleName {
    /// One random edge
    Stochastic,
    /// Random edges that share no agent: red or black on a path
    Parallel,
}

impl GossipCommand {
    pub fn run(self, output: &Output) -> Result<()> {
        let What::Run(Run { task }) = self.command;
        match task {
            Task::Completion(task) => task.run(output),
            Task::Multitask(task) => task.run(output),
        }
    }
}

impl RunCompletion {
    fn run(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        let mut options = self.agents.options()?.clip(self.clip);
        if let Some(lambda) = self.regularization {
            options = options.regularization(lambda);
        }
        if let Some(centre) = self.center {
            options = options.centre(centre);
        }
        options.check()?;
        self.agents.check_paths(&self.data)?;
        let ratings = Ratings::read(&self.data, &self.columns)?;
        let (users, items) = (ratings.users.len(), ratings.items.len());
        let (count, repeated) = (ratings.entries.count(), ratings.repeated);
        if repeated > 0 {
            output.note(&format!(
                "{repeated} ratings were replaced by later ones of the same user and item"
            ));
        }
        let mut watcher = self.agents.watcher(start, output)?;
        let mut watch = |event: GossipEvent<'_>| watcher.see(event);
        let found = match self.precision {
            Precision::F32 => options.completion::<f32>(ratings, &mut watch),
            Precision::F64 => options.completion::<f64>(ratings, &mut watch),
        };
        let found = watcher.finish(found, &self.data)?;
        let sizes = json!({"users": users, "items": items, "ratings": count, "repeated": repeated});
        let data = format!("{count} ratings of {items} items by {users} users");
        self.agents
            .finish(&found, "completion", (sizes, data), start, output)
    }
}

impl RunMultitask {
    fn run(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        let mut options = self.agents.options()?;
        if let Some(lambda) = self.regularization {
            options = options.regularization(lambda);
        }
        options.check()?;
        let tasks = self.tasks.multitask(self.agents.rank);
        tasks.check()?;
        self.agents.check_paths(&self.data)?;
        let columns = self.columns.or(None);
        let data = TaskRows::read(&self.data, &columns)?;
        let mut watcher = self.agents.watcher(start, output)?;
        let mut watch = |event: GossipEvent<'_>| watcher.see(event);
        let found = options.multitask(&data, &columns, &tasks, &mut watch);
        let found = watcher.finish(found, &self.data)?;
        let (names, features) = (data.names.len(), data.features.len());
        let sizes = json!({"tasks": names, "features": features, "rows": data.len()});
        let text = format!(
            "{} rows of {features} features in {names} tasks",
            data.len()
        );
        self.agents
            .finish(&found, "multitask", (sizes, text), start, output)
    }
}

impl Agents {
    fn options(&self) -> Result<Gossip> {
        let shape = match &self.edges {
            Some(path) => GraphShape::Edges(read_edges(path)?),
            None => match self.graph {
                GraphName::Path => GraphShape::Path,
                GraphName::Ring => GraphShape::Ring,
                GraphName::Grid => GraphShape::Grid,
                GraphName::Star => GraphShape::Star,
                GraphName::Random => GraphShape::Random,
            },
        };
        let mut options = Gossip::new(self.agents)
            .graph(shape)
            .rank(self.rank)
            .schedule(match self.schedule {
                ScheduleName::Stochastic => Schedule::Stochastic,
                ScheduleName::Parallel => Schedule::Parallel,
            })
            .steps(match (self.step_a, self.cross_validate) {
                (Some(a), _) => GossipSteps::Given { a, b: self.step_b },
                (None, Some(folds)) => GossipSteps::CrossValidated { folds },
                (None, None) => GossipSteps::Own,
            })
            .precondition(self.precondition)
            .seed(self.seed)
            .threads(crate::threads(self.threads));
        if let Some(rho) = self.rho {
            options = options.rho(rho);
        }
        if let Some(slots) = self.slots {
            options = options.slots(slots);
        }
        if let Some(every) = self.curve_every {
            options = options.report_every(every);
        }
        // What is wrong with the graph is wrong with its file.
        match &self.edges {
            Some(path) => options.check().map_err(|e| e.in_file(path))?,
            None => options.check()?,
        }
        Ok(options)
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
    fn agent_paths(&self) -> Vec<PathBuf> {
        match self.mean_only || self.output == Path::new("-") {
            true => Vec::new(),
            false => (0..self.agents).map(|i| self.agent_path(i)).collect(),
        }
    }

    fn check_paths(&self, data: &Path) -> Result<()> {
        let agents = self.agent_paths();
        let mut outputs = vec![Some(self.output.as_path()), self.curve.as_deref()];
        outputs.extend(agents.iter().map(|path| Some(path.as_path())));
        paths::check(&outputs, &[Some(data), self.edges.as_deref()])
    }

    fn watcher<'a>(&self, start: Instant, output: &'a Output) -> Result<Watcher<'a>> {
        let curve = match &self.curve {
            None => None,
            Some(path) => {
                let file = File::create(path).map_err(|e| Error::writing(path, &e))?;
                Some((path.clone(), file))
            }
        };
        Ok(Watcher {
            output,
            bar: output.progress("slots"),
            interrupt: Interrupt::watch(),
            curve,
            failed: None,
            start,
            points: 0,
        })
    }

    fn finish(
        &self,
        found: &Gossiped,
        task: &str,
        (sizes, data): (Value, String),
        start: Instant,
        output: &Output,
    ) -> Result<()> {
        if let Some(asked) = found.lost_rank {
            output.note(&format!(
                "the mean model has rank {} only, not {asked}",
                found.model.rank()
            ));
        }
        found.model.save(&self.output)?;
        let agents = self.agent_paths();
        for (path, model) in agents.iter().zip(&found.agents) {
            model.save(path)?;
        }
        let seconds = start.elapsed().as_secs_f64();
        let (card, status) = (&found.card, &found.status);
        let trial = |t: &GossipTrial| {
            json!({
                "regularization": t.regularization,
                "step_a": t.steps.map(|s| s.0),
                "step_b": t.steps.map(|s| s.1),
                "error": t.error,
            })
        };
        let names = agents.iter().map(|path| path.display().to_string());
        let mut report = json!({
            "format": 1,
            "task": task,
            "learner": found.model.card.learner,
            "solver": "gossip",
            "rank": found.model.rank(),
            "agents": card.agents,
            "graph": card.graph,
            "schedule": card.schedule,
            "rho": card.rho,
            "regularization": found.regularization,
            "step_a": card.steps.map(|s| s.0),
            "step_b": card.steps.map(|s| s.1),
            "step_size": null,
            "precondition": card.precondition,
            "slots": status.slots,
            "steps": status.counters.steps,
            "updates": status.counters.steps,
            "refused": status.counters.refused_steps,
            "cost": status.cost,
            "consensus": status.consensus,
            "messages": status.counters.sent,
            "bytes": status.counters.sent_bytes,
            "seed": self.seed,
            "stopped": if found.stopped { "interrupted" } else { "steps" },
            "trials": found.trials.iter().map(trial).collect::<Vec<_>>(),
            "seconds": seconds,
            "model": self.output.display().to_string(),
            "agent_models": names.collect::<Vec<_>>(),
            "metrics": {},
        });
        for (name, value) in sizes.as_object().into_iter().flatten() {
            report[name] = value.clone();
        }
        let mut text = format!(
            "{}{} agents agree on a subspace of dimension {}: {data}, {} slots, rho {}, \
             regularization {}, {seconds:.1} s\n\
             cost {:.6e}, largest distance between neighbours {:.2e}, {} messages of {}",
            if found.stopped { "interrupted: " } else { "" },
            card.agents,
            found.model.rank(),
            status.slots,
            shown(card.rho),
            shown(found.regularization),
            status.cost,
            status.consensus,
            status.counters.sent,
            readable(status.counters.sent_bytes),
        );
        if let Some((a, b)) = card.steps {
            text += &format!("\nsteps {} / (1 + {} k)", shown(a), shown(b));
        }
        text += &format!("\n{}", self.output.display());
        if let (Some(first), Some(last)) = (agents.first(), agents.last()) {
            text += &format!("\n{} to {}", first.display(), last.display());
        }
        output.learned(&self.output, &report, &text, found.stopped)
    }
}

/// Tells of a run while it goes on.
struct Watcher<'a> {
    output: &'a Output,
    bar: ProgressBar,
    interrupt: Interrupt,
    curve: Option<(PathBuf, File)>,
    failed: Option<Error>,
    start: Instant,
    points: u64,
}

impl Watcher<'_> {
    fn see(&mut self, event: GossipEvent<'_>) -> bool {
        match event {
            GossipEvent::Trying(status) => self.bar.set_position(status.slots),
            GossipEvent::Tried(trial) => {
                let steps = trial.steps.map_or(String::new(), |(a, b)| {
                    format!(", steps {} / (1 + {} k)", shown(a), shown(b))
                });
                let line = format!(
                    "regularization {}{steps}: error {:.4} on what was held out",
                    shown(trial.regularization),
                    trial.error
                );
                self.output.milestone(&self.bar, &line);
            }
            GossipEvent::Slot(status) => self.slot(status),
        }
        self.failed.is_none() && !self.interrupt.requested()
    }

    fn slot(&mut self, status: &Status) {
        self.bar.set_position(status.slots);
        // A few lines are enough where no bar shows them in one place.
        if !self.bar.is_hidden() || self.points.is_multiple_of(50 / LINES) {
            let line = format!(
                "slots, cost {:.6e}, largest distance between neighbours {:.2e}",
                status.cost, status.consensus
            );
            match self.bar.is_hidden() {
                true => self.output.note(&format!("{} {line}", status.slots)),
                false => self.bar.set_message(line),
            }
        }
        self.points += 1;
        let counters = status.counters;
        let point = json!({
            "slots": status.slots,
            "cost": status.cost,
            "consensus": status.consensus,
            "steps": counters.steps,
            "refused": counters.refused_steps,
            "messages": counters.sent,
            "bytes": counters.sent_bytes,
            "seconds": self.start.elapsed().as_secs_f64(),
        });
        if let Some((path, file)) = &mut self.curve
            && let Err(error) = writeln!(file, "{point}")
        {
            self.failed = Some(Error::writing(path, &error));
        }
    }

    fn finish(self, found: Result<Option<Gossiped>>, data: &Path) -> Result<Gossiped> {
        self.bar.finish_and_clear();
        if let Some(error) = self.failed {
            return Err(error);
        }
        match found.map_err(|e| e.in_file(data))? {
            Some(found) => Ok(found),
            None => {
                self.output
                    .note("interrupted while choosing: there is no model yet");
                Err(Error::interrupted(""))
            }
        }
    }
}

fn readable(bytes: u64) -> String {
    match bytes as f64 {
        b if b < 1e3 => format!("{b} bytes"),
        b if b < 1e6 => format!("{:.1} kB", b / 1e3),
        b if b < 1e9 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.1} GB", b / 1e9),
    }
}
