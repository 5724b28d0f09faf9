//! What the learning curve tells of each agent beside cost and consensus: its error on data
//! that nobody learns from, and how far its subspace is from a known one. Nothing that is
//! learned depends on it.

use super::Divided;
use super::beside::Parted;
use super::crowd::Crowd;
use super::parts::Division;
use crate::gossip::Work;
use crate::linalg::qf;
use crate::manifold::Grassmann;
use crate::model::{Metrics, Model};
use crate::{Error, Ids, Result};
use faer::Mat;

/// What agents are measured by along the way.
#[derive(Debug, Clone, Default)]
pub struct Watch<'a> {
    /// Ratings or rows of the same users or tasks, which nobody learns from. The curve has
    /// `rmse_0` or `nmse_0` for agent 0, and so on: each on its own users or tasks.
    pub test: Option<Divided<'a>>,
    /// A basis of the subspace that agents should find, a row for each item or feature in the
    /// order of the data. The curve has `angle_0` for agent 0: its distance in radians.
    pub planted: Option<&'a Mat<f64>>,
}

/// What agents are measured by, with the held-out data of each.
pub(super) struct Watched<D> {
    /// What the metric of held-out data is called.
    metric: &'static str,
    test: Vec<Option<D>>,
    planted: Option<Mat<f64>>,
}

impl<D: Parted> Watched<D> {
    /// `names` are those of all users or tasks, of which each agent has a share; subspaces
    /// are of `dimension`, the number of these things, and of this rank.
    pub fn new(
        metric: &'static str,
        test: Option<&D>,
        planted: Option<&Mat<f64>>,
        (names, division, agents): (&Ids, &Division, usize),
        (dimension, of, rank): (usize, &str, usize),
    ) -> Result<Self> {
        let test = match test {
            None => Vec::new(),
            Some(all) => {
                let parts = (0..agents).map(|i| {
                    let own = division.share(i).map(|one| names.get(one as u32));
                    all.named(&own.collect())
                });
                let parts = parts.collect::<Result<Vec<Option<D>>>>()?;
                if parts.iter().all(Option::is_none) {
                    let message = "none of its users or tasks is in the data of the agents";
                    return Err(Error::input(message).about("test"));
                }
                parts
            }
        };
        let planted = match planted {
            None => None,
            Some(basis) if basis.nrows() != dimension || basis.ncols() != rank => {
                let (rows, columns) = (basis.nrows(), basis.ncols());
                let message = format!(
                    "has {rows} rows and {columns} columns, expected {dimension}, one for each \
                     of the {of}, and {rank}, the rank"
                );
                return Err(Error::input(message).about("planted"));
            }
            Some(basis) => Some(qf(basis).ok_or_else(|| {
                Error::input("its columns depend on each other").about("planted")
            })?),
        };
        Ok(Watched {
            metric,
            test,
            planted,
        })
    }

    /// What is seen now: `model` makes the model of an agent, `error` measures it.
    pub fn look<W: Work + Clone>(
        &self,
        crowd: &Crowd<'_, W>,
        model: impl Fn(usize, &Mat<f64>) -> Result<Model>,
        error: impl Fn(&Model, &D) -> Result<f64>,
    ) -> Result<Metrics> {
        let mut found = Metrics::new();
        if self.test.is_empty() && self.planted.is_none() {
            return Ok(found);
        }
        for (i, subspace) in crowd.subspaces()?.iter().enumerate() {
            if let Some(Some(held)) = self.test.get(i) {
                let error = error(&model(i, subspace)?, held)?;
                found.insert(format!("{}_{i}", self.metric), error);
            }
            if let Some(planted) = &self.planted {
                let angle = Grassmann::distance(subspace, planted);
                found.insert(format!("angle_{i}"), angle);
            }
        }
        Ok(found)
    }
}
