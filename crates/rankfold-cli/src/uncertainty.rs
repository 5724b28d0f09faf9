//! `--uncertainty` of several commands: how sure a model of AROMA, or of ratings by `bayes`, is
//! of a score.

use clap::Args;
use rankfold::model::Estimate;
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
