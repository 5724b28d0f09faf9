//! `rankfold train`.

use clap::{Args, Subcommand};
use rankfold::Result;

use crate::output::Output;
use crate::train_completion::TrainCompletion;
use crate::train_kernel::TrainKernel;
use crate::train_metric::TrainMetric;
use crate::train_multitask::TrainMultitask;
use crate::train_pairs::TrainPairs;
use crate::train_ranking::TrainRanking;
use crate::train_recommend::TrainRecommend;
use crate::train_similarity::TrainSimilarity;

/// Learn a model from data
#[derive(Args)]
pub struct Train {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Similarity(Box<TrainSimilarity>),
    Ranking(Box<TrainRanking>),
    Completion(Box<TrainCompletion>),
    Recommend(Box<TrainRecommend>),
    Pairs(Box<TrainPairs>),
    Metric(Box<TrainMetric>),
    Kernel(Box<TrainKernel>),
    Multitask(Box<TrainMultitask>),
}

impl Train {
    pub fn run(self, output: &Output) -> Result<()> {
        match self.task {
            Task::Similarity(train) => train.run(output),
            Task::Ranking(train) => train.run(output),
            Task::Completion(train) => train.run(output),
            Task::Recommend(train) => train.run(output),
            Task::Pairs(train) => train.run(output),
            Task::Metric(train) => train.run(output),
            Task::Kernel(train) => train.run(output),
            Task::Multitask(train) => train.run(output),
        }
    }
}
