//! `--uncertainty` of several commands: how sure a model of AROMA, or of ratings by `bayes`, is
//! of a score. `--rank-by upper` ranks by it.

use clap::{Args, ValueEnum};
use rankfold::model::Estimate;
use rankfold::{Error, Result as Checked};
use serde_json::Value;

#[derive(Args)]
pub struct Uncertainty {
    /// Add how sure the model is: standard deviation, the ends of an interval (see --level), and for
    /// triplets the probability of their order; for models of AROMA and ratings of `bayes`
    #[arg(long = "uncertainty")]
    pub wanted: bool,

    /// The probability with which the score is in its interval
    #[arg(long, value_name = "P", default_value_t = 0.95, value_parser = level)]
    level: f64,
}

fn level(text: &str) -> Result<f64, String> {
    let level = text.parse::<f64>().ok().filter(|p| *p > 0.0 && *p < 1.0);
    level.ok_or_else(|| "expected a probability above 0 and below 1".to_owned())
}

impl Uncertainty {
    /// The ends of the interval.
    pub fn interval(&self, estimate: &Estimate) -> (f64, f64) {
        estimate.interval(self.level)
    }

    /// What a line has after the score.
    pub fn columns(&self, estimate: &Estimate) -> String {
        let (low, high) = self.interval(estimate);
        format!("\t{}\t{low}\t{high}", estimate.sd)
    }

    /// The same by name, for entries of lists.
    pub fn fields(&self, estimate: &Estimate) -> [(&'static str, Value); 3] {
        let (low, high) = self.interval(estimate);
        [
            ("sd", estimate.sd.into()),
            ("low", low.into()),
            ("high", high.into()),
        ]
    }
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum RankBy {
    Score,
    Upper,
}

#[derive(Args)]
pub struct Exploration {
    /// Rank by the score, or by its upper bound, score + --explore · standard deviation, which favors
    /// what the model knows little of; for models that learn how sure they are
    #[arg(long, value_enum, default_value_t = RankBy::Score)]
    rank_by: RankBy,

    /// Standard deviations of the upper bound, with --rank-by upper
    #[arg(long, value_name = "C", default_value_t = 1.0, value_parser = deviations)]
    explore: f64,
}

fn deviations(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|c| c.is_finite() && *c >= 0.0);
    number.ok_or_else(|| "expected a number of at least 0".to_owned())
}

impl Exploration {
    /// The standard deviations of the upper bound, where that is what ranks.
    pub fn deviations(&self) -> Checked<Option<f64>> {
        match self.rank_by {
            RankBy::Upper => Ok(Some(self.explore)),
            RankBy::Score if self.explore != 1.0 => Err(Error::option(
                "explore",
                "applies only to `--rank-by upper`",
            )),
            RankBy::Score => Ok(None),
        }
    }
}
