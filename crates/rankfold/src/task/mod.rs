//! What users call: a task turns data into examples, and picks the loss, the
//! learner and the metrics.

mod average;
mod begin;
mod checkpoint;
mod completion;
mod course;
mod driver;
mod gossip;
mod groups;
mod hold_out;
mod inputs;
mod kernel;
pub(crate) mod laws;
mod metric;
mod multitask;
mod online;
mod pace;
mod pairs;
mod preprocessing;
mod questions;
mod rank;
mod ranking;
mod recommend;
mod run;
mod session;
mod similarity;
mod start;
mod stream;
mod triplet;

pub use checkpoint::Checkpoint;
pub use completion::{
    Clip, CompletedMatrix, Completion, CompletionEvent, CompletionInit, CompletionLearner,
    CompletionSolver, Ranks, RatingData, RatingLearner, RatingTrial, Recommendations,
};
pub use gossip::{
    Beside, Compared, Divided, Ending, Gossip, GossipData, GossipFit, GossipGeometry, GossipInit,
    GossipTask, GraphShape, Member, Plan, Site, SiteData, SiteState, Watch, join_ratings,
    join_tasks,
};
pub use groups::{COUNTS, Group, Grouping, name_of_part, part_of_count};
pub use inputs::TrainingData;
pub use kernel::{
    Kernel, KernelConstraints, KernelData, KernelInit, KernelName, KernelStart, KernelTruth, Map,
    MapData, MapUpdate,
};
pub use metric::{
    Classified, Metric, MetricData, MetricInit, MetricLearner, MetricSession, MetricShard,
    MetricSolver, PairsFrom, ShardedMetric, StepSchedule, squared_distance_levels,
};
pub use multitask::{
    Multitask, MultitaskLearner, MultitaskSolver, TaskData, TaskLearner, TaskShard,
};
pub use online::Online;
pub use pairs::{Pairs, PairsData, PairsSession, PairsSolver};
pub use questions::ShardQuestion;
pub use rank::Rank;
pub use ranking::{
    LabelScores, Order, Ranking, RankingData, RankingSession, Violation, WARP_TRIALS, draws,
    multilabel_hinge, warp,
};
pub use recommend::{
    ChoiceLearner, ListBaseline, Recommend, RecommendData, RecommendLearner, Teacher, UserLists,
};
pub use run::{Baseline, CurvePoint, Evaluation, Event, Fit, Report, Run, Stop, Trial, Unit};
pub use session::{Session, Snapshot, Validated, Work};
pub use similarity::{
    Calibration, Covariance, Evaluate, Init, Negatives, Select, Similarity, SimilarityData,
    SimilaritySession, evaluate,
};
pub use start::{Start, StartInit};
pub use stream::{ExampleStream, Growth, NamedSides};
pub use triplet::{Sides, TripletRows};

use crate::online::Step;
use crate::options::Options;
use crate::{Error, Result};

/// A task that learns from data of this kind: what [`check::task`](crate::check::task)
/// holds to its laws.
pub trait Learn<D>: Options {
    /// Learns a model, and tells the run what happens.
    fn learn(&self, data: D, run: Run<'_>) -> Result<Fit>;
}

/// The number of threads that an option asks for: all cores unless it says otherwise.
pub(crate) fn threads(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// The step after so many examples: half as long after `decay` of them.
fn decayed(step: Step, decay: Option<f64>, done: u64) -> Step {
    match decay {
        None => step,
        Some(examples) => Step {
            size: step.size / (1.0 + done as f64 / examples),
            ..step
        },
    }
}

/// The rank of W for so many features: the default is lowered to them, another rank is
/// an error.
fn rank_for<O: Options>(_: &O, rank: usize, features: usize) -> Result<usize> {
    let specs = O::specs().iter();
    let default = specs.filter(|spec| spec.name == "rank");
    let default = default.filter_map(|spec| (spec.default)()).next();
    if rank <= features {
        return Ok(rank);
    }
    match default == Some(rank.to_string()) && features > 0 {
        true => Ok(features),
        false => Err(Error::option(
            "rank",
            format!("is {rank}, above n_features = {features}"),
        )),
    }
}

/// The rank, where it is not the default.
fn rank_given<O: Options>(options: &O, rank: usize) -> Option<usize> {
    let usual = O::default().get("rank");
    (options.get("rank") != usual).then_some(rank)
}

/// The largest mini-batch: what the columns of a gradient do to each other costs their square.
const LARGEST_BATCH: usize = 1_024;

/// An error where the length of a run is given twice.
fn check_length(steps: Option<u64>, epochs: Option<u64>) -> Result<()> {
    match steps.is_some() && epochs.is_some() {
        true => Err(Error::option("epochs", "cannot be given beside `steps`")),
        false => Ok(()),
    }
}

/// The error of an evaluation that was stopped.
fn given_up() -> Error {
    Error::interrupted("interrupted before the evaluation was done")
}

/// An error where patience is asked of a run that is not validated.
fn check_patience(patience: Option<u32>, validated: bool) -> Result<()> {
    match patience.is_some() && !validated {
        true => Err(Error::option(
            "patience",
            "needs validation data: a share of the rows, or others",
        )),
        false => Ok(()),
    }
}

/// An error where validation data are given beside a share to hold out.
fn check_validation(given: bool, fraction: f64) -> Result<()> {
    match given && fraction > 0.0 {
        true => Err(Error::option(
            "valid_fraction",
            "cannot be given beside validation data",
        )),
        false => Ok(()),
    }
}
