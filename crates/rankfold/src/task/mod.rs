//! What users call: a task turns data into examples, and picks the loss, the
//! learner and the metrics.

mod average;
mod calibrate;
mod checkpoint;
mod completion;
mod course;
mod evaluation;
mod gossip;
mod informative;
mod inputs;
mod kernel;
mod metric;
mod multitask;
mod online;
mod pairs;
mod pretrain;
mod ranking;
mod session;
mod similarity;
mod step_size;
mod stepper;
mod triplet;

pub use calibrate::Calibration;
pub use checkpoint::{Checkpoint, TaskOptions};
pub use completion::{
    Clip, Completed, CompletedMatrix, Completion, CompletionEvent, CompletionLearner,
    CompletionSolver, CompletionStart, RatingEvaluation, RatingLearner, Recommendations, Trial,
};
pub use evaluation::{Evaluate, Evaluation};
pub use gossip::{
    Gossip, GossipEvent, GossipSteps, GossipTrial, Gossiped, GraphShape, WatchGossip,
};
pub use inputs::TrainingData;
pub use kernel::{
    Kernel, KernelConstraints, KernelEvaluation, KernelFit, KernelStart, KernelTruth, Map, MapFit,
    MapUpdate,
};
pub use metric::{
    Control, Metric, MetricEvaluation, MetricFit, MetricInit, MetricLearner, MetricSession,
    MetricSolver, PairsFrom, StepSchedule, squared_distance_levels,
};
pub use multitask::{
    Multitask, MultitaskEvent, MultitaskFit, MultitaskSolver, TaskControl, TaskEvaluation,
    TaskLearner, TaskScore, TaskTrial,
};
pub use online::Online;
pub use pairs::{Pairs, PairsBatch, PairsEvaluation, PairsSession, PairsSolver};
pub use pretrain::{ChosenStep, StepTrial, choose_step};
pub use ranking::{
    LabelEvaluation, LabelScores, Order, Ranking, RankingSession, Violation, WARP_TRIALS, draws,
    multilabel_hinge, warp,
};
pub use session::{CurvePoint, Event, Session, Stopped};
pub use similarity::{Init, Negatives, Select, Similarity, evaluate};
pub use triplet::{Sides, TripletRows};
