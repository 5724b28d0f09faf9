//! `rankfold gossip run`.

use std::borrow::Cow;
use std::cell::RefCell;
use std::path::{Path, PathBuf};

use clap::Args;
use rankfold::data::{Ratings, TaskRows, read_edges, read_npy};
use rankfold::faer::Mat;
use rankfold::gossip::Rehearsal;
use rankfold::options::Options;
use rankfold::task::{
    Divided, Fit, Gossip, GossipData, GossipFit, GossipTask, Run, TaskData, Watch, join_ratings,
    join_tasks,
};
use rankfold::{Error, Result};
use serde_json::Value;

use crate::drive::Drive;
use crate::interrupt::Interrupt;
use crate::output::{Output, shown};
use crate::page::{self, Section, maps};
use crate::paths;
use crate::rows::rating_columns;
use crate::shared_options::{Precision, RunFiles};
use crate::table::Table;
use crate::task_columns::ColumnsOfTasks;

/// The flags that apply to one kind of data only, beside those of the table.
pub(super) const OF_TASKS: [&str; 3] = ["task_column", "target_column", "ignore_column"];
pub(super) const OF_RATINGS: [&str; 2] = ["columns", "precision"];

/// The largest distance between neighbors, in radians, of agents that agree.
const AGREE: f64 = 0.1;

#[cfg(feature = "network")]
macro_rules! on_network {
    () => {
        "
  rankfold gossip run completion ratings.csv --agents 5 --rank 3 -o m.safetensors --network
      five processes that talk over TLS with trial keys"
    };
}

#[cfg(not(feature = "network"))]
macro_rules! on_network {
    () => {
        ""
    };
}

const EXAMPLES: &str = concat!(
    "Examples:
  rankfold gossip run completion ratings.csv --agents 5 --rank 3 -o m.safetensors
      five agents on a path; writes m.safetensors and m.agent-0.safetensors to m.agent-4.safetensors
  rankfold gossip run completion a.csv b.csv c.csv --rank 3 -o m.safetensors
      three agents, each with a file of its own
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
      the plain problem of the paper: a subspace and nothing beside it",
    on_network!()
);

/// What the columns of an agent's data mean, and how its factors are stored.
#[derive(Args)]
pub(super) struct ReadBy {
    /// The columns of users, items and ratings: names, or numbers where there is no header; applies to
    /// `completion` [default: user,item,rating]
    #[arg(long, value_name = "USER,ITEM,RATING")]
    pub columns: Option<String>,

    #[command(flatten)]
    pub task_columns: ColumnsOfTasks,

    /// How the factors are stored, which are learned in double precision; applies to `completion`
    /// [default: f32]
    #[arg(long, value_enum)]
    pub precision: Option<Precision>,
}

/// Run all agents in this process, or on this machine
///
/// Each agent has the ratings of its users and a subspace of the items, or the rows of its
/// tasks and a subspace of the features. Neighbors send each other these subspaces, never
/// data, until they agree. The mean of all subspaces is the model; the model of each agent,
/// for its own users or tasks, is written beside it. Before the run, agents know what
/// concerns all: the mean of the ratings, or the scales and common weights of the tasks.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct RunAgents {
    /// Ratings (.csv, .tsv, .jsonl, or .dat with `::`, tabs or spaces) or rows of tasks (.csv, .tsv, or
    /// .jsonl with lines {"task":…,"row":{…},"target":…}), plain, .gz or .zst; `-` is stdin: .dat for
    /// ratings, .jsonl for tasks
    ///
    /// With several files each agent has one: its users or tasks are in no other.
    #[arg(index = 2, required = true, num_args = 1.., value_name = "DATA")]
    data: Vec<PathBuf>,

    /// The model file to write; agents' are named after it
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,

    /// Write the model of the mean only
    #[arg(long)]
    mean_only: bool,

    /// Run each agent as a process of its own, over the network of this machine with trial keys
    #[cfg(feature = "network")]
    #[arg(long)]
    network: bool,

    /// A graph of your own: the numbers of two agents a line, from 0
    #[arg(long, value_name = "FILE", conflicts_with = "graph")]
    edges: Option<PathBuf>,

    /// Rehearse faults: a JSON file that says what goes wrong in the run
    ///
    /// For example {"loss": 0.1, "absent": [{"agent": 2, "from": 0.3, "until": 0.5}],
    /// "cut": [{"between": [0, 1], "from": 0.4, "until": 0.7}], "slow": [{"agent": 1, "times":
    /// 10}]}. Times are shares of the run; an agent that is absent from 0 comes late.
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,

    /// Data of the same users or tasks that nobody learns from: the curve tells the error of each agent on
    /// its own, as `rmse_0` or `nmse_0` of agent 0
    #[arg(long, value_name = "FILE", requires = "curve")]
    curve_test: Option<PathBuf>,

    /// A basis of the subspace that agents should find: the curve tells the distance of each agent in
    /// radians, as `angle_0` of agent 0
    ///
    /// An array (.npy) with a row for each item or feature, in the order in which they first come in DATA.
    #[arg(long, value_name = "FILE.npy", requires = "curve")]
    curve_subspace: Option<PathBuf>,

    #[command(flatten)]
    read: ReadBy,

    #[command(flatten)]
    files: RunFiles,

    #[command(flatten)]
    options: Table<Gossip>,
}

impl RunAgents {
    pub fn run(self, output: &Output) -> Result<()> {
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
        #[cfg(feature = "network")]
        if self.network {
            output
                .given
                .none_of("runs without `--network`", &super::processes::NOT_HERE)?;
        }
        self.check_paths()?;
        let edges = self.edges.as_ref().map(read_edges).transpose()?;
        let faults = self.faults.as_deref().map(read_faults).transpose()?;
        let subspace = self.curve_subspace.as_deref().map(read_basis);
        let subspace = subspace.transpose()?;
        let (columns, ratings, tasks, test_tasks);
        let mut watch = Watch {
            test: None,
            planted: subspace.as_ref(),
        };
        let (shared, parts) = match options.kind() {
            GossipTask::Completion => {
                let columns = rating_columns(self.read.columns.as_deref(), false, None, output)?;
                let read = |path: &PathBuf| Ratings::read(path, &columns);
                let all = self.data.iter().map(read).collect::<Result<Vec<_>>>()?;
                let (joined, parts) = match all.len() {
                    1 => (all.into_iter().next().expect("one of one"), None),
                    _ => {
                        let joined = join_ratings(all);
                        let (joined, parts) = joined.map_err(|e| self.placed(e))?;
                        (joined, Some(parts))
                    }
                };
                ratings = joined;
                if let Some(path) = &self.curve_test {
                    watch.test = Some(Divided::Ratings(Cow::Owned(read(path)?)));
                }
                (Divided::Ratings(Cow::Borrowed(&ratings)), parts)
            }
            GossipTask::Multitask => {
                columns = self.read.task_columns.or(None, output);
                let read = |path: &PathBuf| TaskRows::read(path, &columns);
                let all = self.data.iter().map(read).collect::<Result<Vec<_>>>()?;
                let (joined, parts) = match all.len() {
                    1 => (all.into_iter().next().expect("one of one"), None),
                    _ => {
                        let (joined, parts) = join_tasks(all).map_err(|e| self.placed(e))?;
                        (joined, Some(parts))
                    }
                };
                tasks = joined;
                if let Some(path) = &self.curve_test {
                    test_tasks = read(path)?;
                    watch.test = Some(Divided::Tasks(TaskData {
                        rows: &test_tasks,
                        columns: Some(&columns),
                        valid: None,
                    }));
                }
                let data = TaskData {
                    rows: &tasks,
                    columns: Some(&columns),
                    valid: None,
                };
                (Divided::Tasks(data), parts)
            }
        };
        if let Some(parts) = &parts
            && output.given.has("agents")
            && options.agent_count() != parts.len()
        {
            let message = format!(
                "is {}, and each of the {} files is an agent",
                options.agent_count(),
                parts.len()
            );
            return Err(Error::option("agents", message));
        }
        let data = GossipData {
            shared,
            edges: edges.as_deref(),
            parts: parts.as_deref(),
            faults: faults.as_ref(),
            watch,
        };
        let graph = RefCell::new(Section::default());
        let again = data.clone();
        drive.run_showing(
            |run| self.learn(options, data, run, &graph, output),
            |e| {
                let file = match e.about {
                    Some("edges") => &self.edges,
                    Some("faults") => &self.faults,
                    Some("test") => &self.curve_test,
                    Some("planted") => &self.curve_subspace,
                    _ => &None,
                };
                match file {
                    Some(path) => Error { about: None, ..e }.in_file(path),
                    None => e.in_file(&self.data[0]),
                }
            },
            |model| {
                let gained = self.gained(options, &again, output)?;
                Ok(vec![graph.take(), gained, maps::of_model(model, None)?])
            },
        )
    }

    /// The agents beside learning alone and in one place, for the page.
    fn gained(&self, options: &Gossip, data: &GossipData<'_>, output: &Output) -> Result<Section> {
        output.note("comparing with learning alone and in one place, for the report");
        let interrupt = Interrupt::watch();
        let stop = || interrupt.requested();
        let watched = || Run::default().stopped_by(&stop);
        let found = options.beside::<f64>(data, &watched)?;
        let what = match options.kind() {
            GossipTask::Completion => "ratings",
            GossipTask::Multitask => "rows",
        };
        Ok(match found {
            Some(found) => page::gossip::beside(&found, what),
            None => Section::new(
                "What agents gain by talking",
                format!("Too few {what} to hold some out and compare."),
            ),
        })
    }

    /// An error that names a part by its number, with the file that it is.
    fn placed(&self, error: Error) -> Error {
        let part = (1..=self.data.len()).rev();
        let found = part.filter(|i| error.message.contains(&format!(" of part {i} ")));
        match found.take(1).next() {
            Some(i) => error.in_file(&self.data[i - 1]),
            None => error,
        }
    }

    /// Learns, and writes the models of the agents.
    fn learn(
        &self,
        options: &Gossip,
        data: GossipData<'_>,
        run: Run<'_>,
        graph: &RefCell<Section>,
        output: &Output,
    ) -> Result<Fit> {
        let plan = match self.files.report {
            Some(_) => Some(options.plan(&data)?),
            None => None,
        };
        let double = self.read.precision == Some(Precision::F64);
        let found = match double {
            _ if self.on_network() => self.over_network(options, data, double, output),
            true => options.fit_agents::<f64>(data, run),
            false => options.fit_agents::<f32>(data, run),
        };
        let mut found = found?;
        if let Some(plan) = &plan
            && !found.distances.is_empty()
        {
            let what = match options.kind() {
                GossipTask::Completion => "users",
                GossipTask::Multitask => "tasks",
            };
            graph.replace(page::gossip::graph(&found, plan, what));
        }
        let consensus = found
            .fit
            .report
            .more
            .get("consensus")
            .and_then(Value::as_f64);
        if let Some(distance) = consensus {
            let agree = distance <= AGREE;
            let agreement = match agree {
                true => "agents agree".to_owned(),
                false => format!("agents do not agree yet: {}", shown(distance)),
            };
            found.fit.report = found.fit.report.with("agreement", agreement);
        }
        let paths = self.agent_paths(found.agents.len());
        for (path, model) in paths.iter().zip(&found.agents) {
            model.save(path)?;
        }
        let names: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
        let mut fit = found.fit;
        fit.report = fit.report.with("agent_models", names);
        Ok(fit)
    }

    #[cfg(feature = "network")]
    fn on_network(&self) -> bool {
        self.network
    }

    #[cfg(not(feature = "network"))]
    fn on_network(&self) -> bool {
        false
    }

    #[cfg(not(feature = "network"))]
    fn over_network(
        &self,
        _: &Gossip,
        _: GossipData<'_>,
        _: bool,
        _: &Output,
    ) -> Result<GossipFit> {
        unreachable!("there is no such flag")
    }

    /// The same with a process for each agent.
    #[cfg(feature = "network")]
    fn over_network(
        &self,
        options: &Gossip,
        data: GossipData<'_>,
        double: bool,
        output: &Output,
    ) -> Result<GossipFit> {
        use super::processes::{Whole, Wish, run};
        let plan = options.plan(&data)?;
        let gossip = &options.clone().rank(plan.rank);
        let faults = data.faults;
        let wish = Wish {
            gossip,
            plan,
            faults,
        };
        let usual = Default::default();
        let whole = match &data.shared {
            Divided::Ratings(ratings) => Whole::Ratings(ratings),
            Divided::Tasks(tasks) => Whole::Tasks(tasks.rows, tasks.columns.unwrap_or(&usual)),
        };
        match double {
            true => run::<f64>(&wish, &whole, output),
            false => run::<f32>(&wish, &whole, output),
        }
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
        let files = self.data.iter().map(|path| Some(path.as_path()));
        let scripts = [
            &self.edges,
            &self.faults,
            &self.curve_test,
            &self.curve_subspace,
        ];
        let scripts = scripts.map(|path| path.as_deref());
        let inputs: Vec<_> = files.chain(scripts).collect();
        self.files.check(&self.output, &inputs)?;
        // A default number of agents is only ever lowered.
        let agents = self.options.0.agent_count().max(self.data.len());
        let agents = self.agent_paths(agents);
        let mut outputs = vec![Some(self.output.as_path()), self.files.curve.as_deref()];
        outputs.push(self.files.checkpoint.as_deref());
        outputs.push(self.files.report.as_deref());
        outputs.extend(agents.iter().map(|path| Some(path.as_path())));
        paths::check(&outputs, &inputs)
    }
}

/// A matrix whose columns span a subspace.
fn read_basis(path: &Path) -> Result<Mat<f64>> {
    let rows = read_npy::<f64>(path)?.rows;
    let mut basis = Mat::zeros(rows.len(), rows.columns());
    for i in 0..rows.len() {
        for (j, value) in rows.row(i).iter() {
            basis[(i, j as usize)] = value;
        }
    }
    Ok(basis)
}

/// The script of a rehearsal.
fn read_faults(path: &Path) -> Result<Rehearsal> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::reading(path, &e))?;
    Rehearsal::parse(&text).map_err(|e| e.in_file(path))
}
