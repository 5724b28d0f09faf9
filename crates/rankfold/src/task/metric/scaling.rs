//! Whether columns are standardized, where that is not given: by how well starts do on held-out
//! rows with and without it. Starts from class means shrink the scatter inside classes towards
//! equal variances, which columns of different units do not have.

use super::fit::Setup;
use super::{Metric, MetricData};
use crate::model::{Normalize, Scaling, Weight};
use crate::task::preprocessing::is_table;
use crate::task::run::Run;
use crate::{Real, Result};

impl Metric {
    /// Rows as the model sees them, with the scaling that is given or does better.
    pub(super) fn scaled<'a, R: Real>(
        &self,
        data: MetricData<'a, R>,
        run: &mut Run<'_>,
    ) -> Result<Setup<'a, R>> {
        let with = |scaling| Setup::new(&self.clone().standardize(scaling), data);
        if self.standardize != Scaling::Auto {
            return with(self.standardize);
        }
        if let Some(earlier) = run.earlier_scaling(|options: &Metric| options.standardize)? {
            return with(earlier);
        }
        let plain = with(Scaling::None)?;
        let open = data.constraints.is_none()
            && self.uses_neighbors()
            && (self.weight, self.normalize) == (Weight::None, Normalize::None)
            && is_table(&data.rows.rows);
        let Some(without) = open.then(|| plain.promise(run)).flatten() else {
            return Ok(plain);
        };
        // A copy that there is no memory for is no reason to stop.
        let Ok(scaled) = with(Scaling::Global) else {
            return Ok(plain);
        };
        if scaled.promise(run).is_some_and(|found| found < without) {
            run.note("columns are standardized, which is better on held-out rows");
            return Ok(scaled);
        }
        Ok(plain)
    }

    /// The options with the scaling that the model of a start has, for runs that choose none.
    pub(super) fn scaled_as(&self, standardized: bool) -> Metric {
        let scaling = match (self.standardize, standardized) {
            (Scaling::Auto, true) => Scaling::Global,
            (Scaling::Auto, false) => Scaling::None,
            (given, _) => given,
        };
        self.clone().standardize(scaling)
    }
}
