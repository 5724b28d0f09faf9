//! Where a metric starts.

use super::fit::Setup;
use super::{Metric, MetricInit};
use crate::batch::{ClassMeans, Directions, Points};
use crate::form::Side;
use crate::linalg::{svd, symmetric};
use crate::model::Distances as Levels;
use crate::task::rank_given;
use crate::task::start::Start;
use crate::{Error, Real, Result};
use faer::Mat;

/// G and the distances to aim at, as a model has them.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub factor: Mat<f64>,
    pub levels: Option<Levels>,
}

impl Given {
    /// As a checkpoint keeps it.
    pub fn to_blocks(&self) -> Vec<Mat<f64>> {
        let levels = self.levels.map(|Levels { near, far }| [near, far]);
        let levels = levels.map(|levels| Mat::from_fn(2, 1, |i, _| levels[i]));
        [self.factor.clone()].into_iter().chain(levels).collect()
    }

    pub fn from_blocks(blocks: Vec<Mat<f64>>) -> Option<Self> {
        let mut blocks = blocks.into_iter();
        let factor = blocks.next()?;
        let levels = blocks.next().filter(|m| m.nrows() == 2 && m.ncols() == 1);
        Some(Given {
            factor,
            levels: levels.map(|m| Levels {
                near: m[(0, 0)],
                far: m[(1, 0)],
            }),
        })
    }
}

impl<R: Real> Setup<'_, R> {
    /// W of a model as G Gᵀ on these features, and what to tell of it.
    pub(super) fn started_from(&self, start: &Start) -> Result<(Given, Vec<String>)> {
        start.check_steps(self.things.preprocess.steps)?;
        let options: &Metric = &self.options;
        let side = self.things.side(Side::Left, "features");
        let d = side.size;
        let asked = rank_given(options, options.rank).filter(|_| !options.learner.is_cone());
        let rank = start.rank_of(asked, (d, d))?;
        let (factor, notes) = match start.model().storage().form == "full" {
            false => {
                let found = start.factors(&side, None, rank, options.seed)?;
                let [factor, _] = found.factors;
                (factor, found.note)
            }
            true => {
                let (full, notes) = start.full::<f64>(&side, None, 1.0)?;
                let w = symmetric::part(&full.to_faer());
                let root = symmetric::map(&w, |v| v.max(0.0).sqrt());
                let found = root.and_then(|root| svd(&root));
                let found = found.ok_or_else(|| start.error("W is not finite"))?;
                let (p, sigma, _) = found;
                (Mat::from_fn(d, rank, |i, j| p[(i, j)] * sigma[j]), notes)
            }
        };
        if options.learner.is_cone() && rank < d {
            return Err(start.error(format!(
                "the model has rank {rank}: `{}` expects a matrix of full rank, {d} here",
                options.learner
            )));
        }
        let levels = start.model().card.distances;
        Ok((Given { factor, levels }, notes))
    }
}

/// G of rank `k` at the start. The shrinkage is that of a start from class means.
pub(super) fn start(
    init: MetricInit,
    directions: &Directions<'_>,
    classes: Option<&[u32]>,
    k: usize,
    shrinkage: f64,
) -> Result<Mat<f64>> {
    let points = directions.points();
    match init {
        MetricInit::Model => Err(Error::input("no model was given to start from")),
        MetricInit::Identity if k == points.features() => Ok(Mat::identity(k, k)),
        MetricInit::Identity => Ok(identity(points, k)),
        MetricInit::Pca => Ok(directions.principal(k)?.0),
        MetricInit::ClassMeans => means(directions, classes, k)?.start(shrinkage),
    }
}

/// The starts from class means, with any shrinkage.
pub(super) fn means(
    directions: &Directions<'_>,
    classes: Option<&[u32]>,
    k: usize,
) -> Result<ClassMeans> {
    let classes =
        classes.ok_or_else(|| Error::input("a start from class means needs rows with labels"))?;
    directions.class_means(classes, k)
}

/// The columns of I for the `k` features that vary most.
fn identity(points: &Points, k: usize) -> Mat<f64> {
    let variance = points.variances();
    let mut order: Vec<usize> = (0..variance.len()).collect();
    order.sort_by(|&a, &b| variance[b].total_cmp(&variance[a]).then(a.cmp(&b)));
    let mut out = Mat::zeros(points.features(), k);
    for (c, &j) in order.iter().take(k).enumerate() {
        out[(j, c)] = 1.0;
    }
    out
}
