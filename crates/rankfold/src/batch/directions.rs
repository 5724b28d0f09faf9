//! Directions in which points differ most, and in which their classes do.

use super::points::Points;
use super::rowwise::Rowwise;
use crate::linalg::{qf, svd, symmetric};
use crate::random::normal_at;
use crate::{Error, Result, memory};
use faer::{ColRef, Mat};
use std::cell::OnceCell;

/// Features up to which a matrix of features by features is made.
const SMALL: usize = 2000;

/// Directions beside those asked for that make an iteration converge.
const BESIDE: usize = 10;

/// Principal directions to which points of many features are reduced before their
/// classes are told apart.
const REDUCED: usize = 300;

/// Eigenvalues of the scatter inside classes below this share of the largest are
/// none: nothing varies there.
const NOTHING: f64 = 1e-8;

/// The mean of the points.
fn mean(points: &Points, threads: usize) -> Vec<f64> {
    let n = points.len();
    let ones = Rowwise::from_mat(&Mat::from_fn(n, 1, |_, _| 1.0 / n as f64));
    let sum = points.back(&ones, 1, threads);
    (0..points.features()).map(|j| sum[(j, 0)]).collect()
}

/// (X − 1 mᵀ)ᵀ (X − 1 mᵀ) Y / n.
fn covariance_times(points: &Points, mean: &[f64], y: &Mat<f64>, threads: usize) -> Mat<f64> {
    let (n, k) = (points.len(), y.ncols());
    let shift: Vec<f64> = (0..k)
        .map(|c| mean.iter().enumerate().map(|(j, m)| m * y[(j, c)]).sum())
        .collect();
    let mut z = points.times(y, threads);
    let width = z.width;
    let mut total = vec![0.0; k];
    for row in z.data.chunks_exact_mut(width) {
        for c in 0..k {
            row[c] = (row[c] - shift[c]) / n as f64;
            total[c] += row[c];
        }
    }
    let back = points.back(&z, k, threads);
    Mat::from_fn(mean.len(), k, |j, c| back[(j, c)] - mean[j] * total[c])
}

/// The covariance of the points, where they have few features.
fn covariance(points: &Points, threads: usize) -> Mat<f64> {
    let (d, mean) = (points.features(), mean(points, threads));
    if let Some(sum) = points.centered_gram(&mean, threads) {
        return faer::Scale(1.0 / points.len() as f64) * sum;
    }
    let mut out = Mat::zeros(d, d);
    // In panels, so that products with sparse points stay small.
    for first in (0..d).step_by(64) {
        let count = 64.min(d - first);
        let unit = Mat::from_fn(d, count, |i, j| f64::from(u8::from(i == first + j)));
        let panel = covariance_times(points, &mean, &unit, threads);
        out.subcols_mut(first, count).copy_from(&panel);
    }
    symmetric::part(&out)
}

/// The leading eigenvectors of a symmetric matrix, signs fixed by the largest entry.
fn leading(s: &Mat<f64>, count: usize) -> Result<(Mat<f64>, Vec<f64>)> {
    let found = symmetric::eigen(s);
    let (values, vectors) = found.ok_or_else(|| Error::input("features that are not finite"))?;
    let d = values.len();
    let out = signed(d, count, |c| vectors.col(d - 1 - c));
    Ok((
        out,
        (0..count).map(|c| values[d - 1 - c].max(0.0)).collect(),
    ))
}

/// Columns whose largest entries are positive.
fn signed<'a>(rows: usize, count: usize, column: impl Fn(usize) -> ColRef<'a, f64>) -> Mat<f64> {
    let mut out = Mat::zeros(rows, count);
    for (out, column) in out.col_iter_mut().zip((0..count).map(column)) {
        let largest = column
            .iter()
            .copied()
            .fold(0.0, |a: f64, b| if b.abs() > a.abs() { b } else { a });
        let sign = if largest < 0.0 { -1.0 } else { 1.0 };
        let pairs = out.iter_mut().zip(column.iter());
        pairs.for_each(|(o, v)| *o = sign * v);
    }
    out
}

/// The leading left singular vectors of a matrix, signs fixed by the largest entry.
fn leading_left(m: &Mat<f64>, count: usize) -> Result<Mat<f64>> {
    // Narrow matrices have a cheap decomposition of their own.
    if 2 * m.ncols() > m.nrows() || count > m.ncols() {
        return Ok(leading(&symmetric::part(&(m * m.transpose())), count)?.0);
    }
    let (u, ..) = svd(m).ok_or_else(|| Error::input("features that are not finite"))?;
    Ok(signed(m.nrows(), count, |c| u.col(c)))
}

/// The principal directions of points, orthonormal, most variance first, with these
/// variances.
pub fn principal(points: &Points, count: usize, threads: usize) -> Result<(Mat<f64>, Vec<f64>)> {
    Directions::new(points, threads).principal(count)
}

/// The same for points of many features.
fn principal_of_many(
    points: &Points,
    count: usize,
    threads: usize,
) -> Result<(Mat<f64>, Vec<f64>)> {
    let d = points.features();
    // Subspace iteration, and the eigenvectors inside of the subspace at the end.
    let k = (count + BESIDE).min(d);
    memory::require(40 * d as u128 * k as u128, "principal directions")?;
    let mean = mean(points, threads);
    let start = Mat::from_fn(d, k, |i, j| normal_at(0, 1, i as u64, j as u64));
    let mut y = start;
    let mut before = f64::NAN;
    for _ in 0..200 {
        let q = qf(&y).ok_or_else(|| {
            Error::input(format!(
                "points that differ in fewer than {count} directions"
            ))
        })?;
        y = covariance_times(points, &mean, &q, threads);
        let inside = symmetric::part(&(q.transpose() * &y));
        let (turn, values) = leading(&inside, count)?;
        let sum: f64 = values.iter().sum();
        if (sum - before).abs() <= 1e-9 * sum.abs() {
            return Ok((q * turn, values));
        }
        before = sum;
    }
    let q = qf(&y).ok_or_else(|| Error::input("points that do not differ"))?;
    let inside = q.transpose() * covariance_times(points, &mean, &q, threads);
    let (turn, values) = leading(&symmetric::part(&inside), count)?;
    Ok((q * turn, values))
}

/// B with B Bᵀ the scatter between classes: the means of classes, weighted by the roots of their
/// shares.
fn scatter_between(points: &Points, classes: &[u32], threads: usize) -> Mat<f64> {
    let (n, d) = (points.len(), points.features());
    let mean = mean(points, threads);
    let many = classes.iter().max().map_or(0, |&c| c as usize + 1);
    let mut sizes = vec![0_usize; many];
    classes.iter().for_each(|&c| sizes[c as usize] += 1);
    let mut indicator = Rowwise::zero(n, many);
    let width = indicator.width;
    for (row, &c) in indicator.data.chunks_exact_mut(width).zip(classes) {
        row[c as usize] = 1.0 / (n as f64 * sizes[c as usize] as f64).sqrt();
    }
    let sums = points.back(&indicator, many, threads);
    Mat::from_fn(d, many, |j, c| {
        sums[(j, c)] - (sizes[c] as f64 / n as f64).sqrt() * mean[j]
    })
}

/// Replaces a share of a covariance by its mean in all directions.
fn shrink(covariance: &mut Mat<f64>, share: f64) {
    let d = covariance.nrows();
    let level = (0..d).map(|j| covariance[(j, j)]).sum::<f64>() / d as f64;
    *covariance *= faer::Scale(1.0 - share);
    (0..d).for_each(|j| covariance[(j, j)] += share * level);
}

/// How long directions are in which class means do not differ.
const BESIDE_MEANS: f64 = 0.2;

/// Directions of the same points. What they share is computed once.
#[derive(Debug)]
pub struct Directions<'a> {
    points: &'a Points,
    threads: usize,
    /// Where points have few features.
    covariance: OnceCell<Mat<f64>>,
}

impl<'a> Directions<'a> {
    /// Of these points.
    pub fn new(points: &'a Points, threads: usize) -> Self {
        Directions {
            points,
            threads,
            covariance: OnceCell::new(),
        }
    }

    /// The points.
    pub fn points(&self) -> &'a Points {
        self.points
    }

    fn covariance(&self) -> &Mat<f64> {
        let make = || covariance(self.points, self.threads);
        self.covariance.get_or_init(make)
    }

    /// See [`principal`].
    pub fn principal(&self, count: usize) -> Result<(Mat<f64>, Vec<f64>)> {
        let (points, d) = (self.points, self.points.features());
        if count == 0 || count > d || points.is_empty() {
            return Err(Error::input(format!(
                "{count} principal directions of {} points with {d} features",
                points.len()
            )));
        }
        match d <= SMALL {
            true => leading(self.covariance(), count),
            false => principal_of_many(points, count, self.threads),
        }
    }

    /// See [`class_means`].
    pub fn class_means(&self, classes: &[u32], count: usize) -> Result<ClassMeans> {
        let (points, threads) = (self.points, self.threads);
        if points.features() > SMALL {
            let most = points.len().saturating_sub(1);
            let (directions, _) = self.principal(REDUCED.max(count).min(most))?;
            let k = directions.ncols();
            let reduced = Points::dense(points.times(&directions, threads).to_mat(k));
            let inside = Directions::new(&reduced, threads);
            return Ok(ClassMeans {
                reduced: Some(directions),
                ..inside.class_means(classes, count.min(k))?
            });
        }
        let between = scatter_between(points, classes, threads);
        let all = self.covariance();
        let within = symmetric::part(&(all - &between * between.transpose()));
        let eigen = symmetric::eigen(&within);
        let (values, vectors) =
            eigen.ok_or_else(|| Error::input("features that are not finite"))?;
        Ok(ClassMeans {
            // It is needed for what class means leave over only.
            all: (count > between.ncols().saturating_sub(1)).then(|| all.clone()),
            between,
            values,
            vectors,
            count,
            reduced: None,
        })
    }
}

/// Starts from class means with any shrinkage.
#[derive(Debug)]
pub struct ClassMeans {
    count: usize,
    /// The principal directions of points with many features.
    reduced: Option<Mat<f64>>,
    all: Option<Mat<f64>>,
    between: Mat<f64>,
    /// Of the scatter inside of classes.
    values: Vec<f64>,
    vectors: Mat<f64>,
}

/// A start that knows the classes: rows are scaled to scatter alike inside of classes,
/// then seen along the directions in which class means differ, at most one fewer than
/// there are classes, and weakly along the principal directions of what is left.
/// `shrinkage` of the scatter inside classes is replaced by its mean in all directions.
pub fn class_means(
    points: &Points,
    classes: &[u32],
    count: usize,
    shrinkage: f64,
    threads: usize,
) -> Result<Mat<f64>> {
    let directions = Directions::new(points, threads);
    directions.class_means(classes, count)?.start(shrinkage)
}

impl ClassMeans {
    /// The start with this shrinkage, which moves eigenvalues and leaves eigenvectors as they are.
    pub fn start(&self, shrinkage: f64) -> Result<Mat<f64>> {
        let (d, v) = (self.values.len(), &self.vectors);
        let level = self.values.iter().sum::<f64>() / d as f64;
        let shrunk =
            (self.values.iter()).map(|value| (1.0 - shrinkage) * value + shrinkage * level);
        let mut roots: Vec<f64> = shrunk.map(|value| value.powf(-0.5)).collect();
        if !roots.iter().all(|root| root.is_finite()) {
            return Err(Error::input(
                "rows that do not differ inside of their classes",
            ));
        }
        let length = roots.iter().map(|root| root * root).sum::<f64>().sqrt();
        let scale = (d as f64).sqrt() / length;
        roots.iter_mut().for_each(|root| *root *= scale);
        // The root of the inverse scatter times a matrix.
        let root_times = |m: &Mat<f64>| {
            let mut inside = v.transpose() * m;
            for column in inside.col_iter_mut() {
                let pairs = column.iter_mut().zip(&roots);
                pairs.for_each(|(value, root)| *value *= root);
            }
            v * inside
        };
        let (between, count) = (&self.between, self.count);
        let many = between.ncols().saturating_sub(1).min(count);
        let w = leading_left(&root_times(between), many)?;
        let mut out = Mat::zeros(d, count);
        out.subcols_mut(0, many).copy_from(&w);
        if let Some(all) = self.all.as_ref().filter(|_| count > many) {
            let out_of = |m: &Mat<f64>| m - &w * (w.transpose() * m);
            let half = root_times(all).transpose().to_owned();
            let seen = symmetric::part(&root_times(&half));
            let rest = out_of(&out_of(&seen).transpose().to_owned());
            // Where nothing is left, the directions that were taken still come last.
            let taken = faer::Scale(1.0 + seen.norm_l2()) * (&w * w.transpose());
            let rest = rest - taken;
            let (f, _) = leading(&symmetric::part(&rest), count - many)?;
            let weak = faer::Scale(BESIDE_MEANS) * f;
            out.subcols_mut(many, count - many).copy_from(&weak);
        }
        let out = root_times(&out);
        Ok(match &self.reduced {
            Some(directions) => directions * out,
            None => out,
        })
    }
}

/// The map after which points scatter by one in all directions inside of their
/// classes, and in whose first columns the means of classes differ most: the
/// discriminant directions of Fisher. `shrinkage` of the scatter inside classes is
/// replaced by its mean in all directions. There are at most `count` columns, and
/// fewer where points do not vary in so many directions.
pub fn discriminant(
    points: &Points,
    classes: &[u32],
    count: usize,
    shrinkage: f64,
    threads: usize,
) -> Result<Mat<f64>> {
    let d = points.features();
    if d > SMALL {
        let (directions, _) = principal(points, REDUCED.min(points.len() - 1), threads)?;
        let k = directions.ncols();
        let reduced = Points::dense(points.times(&directions, threads).to_mat(k));
        let inside = discriminant(&reduced, classes, count, shrinkage, threads)?;
        return Ok(directions * inside);
    }
    let between = scatter_between(points, classes, threads);
    let all = covariance(points, threads);
    let mut within = symmetric::part(&(&all - &between * between.transpose()));
    shrink(&mut within, shrinkage);
    let (values, vectors) =
        symmetric::eigen(&within).ok_or_else(|| Error::input("features that are not finite"))?;
    let largest = values.last().copied().unwrap_or(0.0).max(0.0);
    let kept: Vec<usize> = (0..d)
        .rev()
        .filter(|&i| values[i] > NOTHING * largest)
        .collect();
    if kept.is_empty() {
        return Err(Error::input(
            "points that do not differ inside of their classes",
        ));
    }
    let whiten = Mat::from_fn(d, kept.len(), |j, c| {
        vectors[(j, kept[c])] / values[kept[c]].sqrt()
    });
    let inside = whiten.transpose() * &between;
    let (turn, _) = leading(&(&inside * inside.transpose()), count.min(kept.len()))?;
    Ok(whiten * turn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifold::tests::matrix;

    #[test]
    fn many_features_have_the_same_principal_directions_as_few() {
        // 2,100 features of which 30 vary, so that both ways can be gone.
        let (n, d, few) = (60, 2100, 30);
        let x = Mat::from_fn(n, few, |i, j| {
            matrix(n, few, 1)[(i, j)] * 0.7_f64.powi(j as i32) + 3.0
        });
        let wide = Mat::from_fn(n, d, |i, j| if j < few { x[(i, j)] } else { 0.0 });
        let (a, va) = principal(&Points::dense(x), 4, 1).unwrap();
        let (b, vb) = principal(&Points::dense(wide), 4, 2).unwrap();
        for c in 0..4 {
            assert!((va[c] - vb[c]).abs() < 1e-8 * va[0], "{va:?} {vb:?}");
            let along: f64 = (0..few).map(|i| a[(i, c)] * b[(i, c)]).sum();
            assert!((along.abs() - 1.0).abs() < 1e-5);
        }
        assert!(principal(&Points::dense(matrix(3, 2, 1)), 3, 1).is_err());
    }

    #[test]
    fn a_start_from_class_means_has_full_rank_where_features_are_constant() {
        let x = Mat::from_fn(12, 4, |i, j| match j {
            1 => 5.0,
            2 => 0.0,
            _ => matrix(12, 4, 1)[(i, j)] + (i % 2) as f64,
        });
        let classes: Vec<u32> = (0..12).map(|i| i % 2).collect();
        let g = class_means(&Points::dense(x), &classes, 4, 0.1, 1).unwrap();
        let (_, sigma, _) = crate::linalg::svd(&g).unwrap();
        assert!(sigma[3] > 1e-3 * sigma[0], "{sigma:?}");
    }

    #[test]
    fn discriminant_directions_whiten_classes_and_part_them() {
        let (n, d) = (90, 5);
        let classes: Vec<u32> = (0..n as u32).map(|i| i % 3).collect();
        let noise = matrix(n, d, 1);
        // Classes differ in the last two features; the first varies most.
        let x = Mat::from_fn(n, d, |i, j| {
            let apart = if j == 3 + i % 2 {
                2.0 * f64::from(classes[i])
            } else {
                0.0
            };
            noise[(i, j)] * [30.0, 1.0, 1.0, 0.1, 0.1][j] + apart * f64::from(u8::from(j > 2))
        });
        let g = discriminant(&Points::dense(x.clone()), &classes, 2, 0.0, 1).unwrap();
        assert_eq!(g.ncols(), 2);
        let z = &x * &g;
        // Inside of classes the coordinates are uncorrelated with variance one.
        let mut within = Mat::<f64>::zeros(2, 2);
        for c in 0..3 {
            let rows: Vec<usize> = (0..n).filter(|&i| classes[i] == c).collect();
            let middle =
                |j: usize| rows.iter().map(|&i| z[(i, j)]).sum::<f64>() / rows.len() as f64;
            let middle = [middle(0), middle(1)];
            for &i in &rows {
                for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                    within[(a, b)] += (z[(i, a)] - middle[a]) * (z[(i, b)] - middle[b]) / n as f64;
                }
            }
        }
        assert!((within - Mat::<f64>::identity(2, 2)).norm_max() < 1e-9);
    }
}
