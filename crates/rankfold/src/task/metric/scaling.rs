//! Whether columns are standardized, where that is not given: by how well starts do on held-out
//! rows with and without it. Starts from class means shrink the scatter inside classes towards
//! equal variances, which columns of different units do not have.

use super::fit::Setup;
use super::{Metric, MetricData, MetricInit};
use crate::Real;
use crate::Result;
use crate::data::Features;
use crate::model::{Normalize, Scaling, Weight};
use crate::task::run::Run;

impl Metric {
    /// Rows as the model sees them, with the scaling that is given or does better.
    pub(super) fn scaled<'a, R: Real>(
        &self,
        data: MetricData<'a, R>,
        run: &mut Run<'_>,
    ) -> Result<Setup<'a, R>> {
        let with = |scaling| Setup::new(&self.clone().standardize(scaling), data);
        let open = self.standardize == Scaling::Auto
            && data.constraints.is_none()
            && self.uses_neighbors()
            && self.init != Some(MetricInit::Model)
            && (self.weight, self.normalize) == (Weight::None, Normalize::None)
            && matches!(data.rows.features, Features::Columns(_));
        if !open {
            return with(match self.standardize {
                Scaling::Auto => Scaling::None,
                given => given,
            });
        }
        let plain = with(Scaling::None)?;
        let Some(without) = plain.promise() else {
            return Ok(plain);
        };
        let scaled = with(Scaling::Global)?;
        if scaled.promise().is_none_or(|found| found >= without) {
            return Ok(plain);
        }
        run.note("columns are standardized, which is better on held-out rows");
        Ok(scaled)
    }
}
