//! Where a metric starts.

use super::MetricInit;
use crate::batch::{Points, class_means, principal};
use crate::{Error, Result};
use faer::Mat;

/// G of rank `k` at the start. The shrinkage is that of a start from class means.
pub(crate) fn start(
    init: MetricInit,
    points: &Points,
    classes: Option<&[u32]>,
    k: usize,
    shrinkage: f64,
    threads: usize,
) -> Result<Mat<f64>> {
    match init {
        MetricInit::Identity if k == points.features() => Ok(Mat::identity(k, k)),
        MetricInit::Identity => Ok(identity(points, k)),
        MetricInit::Pca => Ok(principal(points, k, threads)?.0),
        MetricInit::ClassMeans => {
            let classes = classes
                .ok_or_else(|| Error::input("a start from class means needs rows with labels"))?;
            class_means(points, classes, k, shrinkage, threads)
        }
    }
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
