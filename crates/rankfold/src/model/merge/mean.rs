//! The mean of matrices of low rank in the quotient geometry.
//!
//! W = L Rᵀ is also (L Q)(R Q)ᵀ for any rotation Q, so factors of two models mean nothing to each
//! other. In the balanced gauge, L = P Σ^½ and R = Q Σ^½, each model is turned to the others by
//! the rotation that brings the rows of what they have in common nearest (Procrustes); then row i
//! of the mean is the mean of rows i, weighted by what each model learned it from. An id that one
//! model has keeps its row, and any two of its own ids their entry of W. An id of one model and
//! an id of another have a score too, which no mean of matrices W could give.
//!
//! The two factors are scaled to the same mean square of a row: users of one half are fewer than
//! users of all, and rows of items must not shrink for that.

use crate::linalg::svd;
use faer::Mat;

/// The rotation where models have hardly anything in common is this much that of the gauge.
const HOLD: f64 = 1e-9;

/// Rounds of turning each model to all others. Two models need one.
const ROUNDS: usize = 50;

/// One factor of one model.
pub(super) struct Factor {
    pub rows: Mat<f64>,
    /// Where its rows are in the union.
    pub at: Vec<u32>,
    /// What each row was learned from.
    pub weight: Vec<f64>,
}

/// One model: two factors, or one where W is symmetric.
pub(super) struct Part {
    pub factors: Vec<Factor>,
}

/// The mean of all models, and in how many groups they fall that have nothing in common.
pub(super) struct Mean {
    pub factors: Vec<Mat<f64>>,
    pub groups: usize,
    /// The fewest ids by which a model was turned to the others.
    pub common: usize,
}

impl Part {
    fn rank(&self) -> usize {
        self.factors[0].rows.ncols()
    }

    /// The same with two factors of the same mean square of a row.
    fn scaled(mut self) -> Self {
        if let [left, right] = &mut self.factors[..] {
            let size = |m: &Mat<f64>| {
                let used = (0..m.nrows()).filter(|&i| m.row(i).squared_norm_l2() > 0.0);
                m.squared_norm_l2() / used.count().max(1) as f64
            };
            let (l, r) = (size(&left.rows), size(&right.rows));
            if l > 0.0 && r > 0.0 {
                let scale = (r / l).powf(0.25);
                left.rows = faer::Scale(scale) * &left.rows;
                right.rows = faer::Scale(1.0 / scale) * &right.rows;
            }
        }
        self
    }

    /// The same with columns of zeros up to this rank.
    fn widened(mut self, rank: usize) -> Self {
        for factor in &mut self.factors {
            let old = &factor.rows;
            let entry = |i, j| if j < old.ncols() { old[(i, j)] } else { 0.0 };
            factor.rows = Mat::from_fn(old.nrows(), rank, entry);
        }
        self
    }
}

/// Sums of weighted rows over models.
struct Sums {
    rows: Vec<Mat<f64>>,
    weights: Vec<Vec<f64>>,
}

impl Sums {
    fn new(sizes: &[usize], rank: usize) -> Self {
        Sums {
            rows: sizes.iter().map(|&n| Mat::zeros(n, rank)).collect(),
            weights: sizes.iter().map(|&n| vec![0.0; n]).collect(),
        }
    }

    /// Adds a model as it is turned, or takes it away.
    fn add(&mut self, part: &Part, turn: &Mat<f64>, sign: f64) {
        for (side, factor) in part.factors.iter().enumerate() {
            let turned = &factor.rows * turn;
            for (i, &at) in factor.at.iter().enumerate() {
                let (at, weight) = (at as usize, sign * factor.weight[i]);
                self.weights[side][at] += weight;
                for j in 0..turn.ncols() {
                    self.rows[side][(at, j)] += weight * turned[(i, j)];
                }
            }
        }
    }

    /// Σ ω (row of the model)ᵀ (mean of the others), and over how many ids. ω is how well the
    /// difference of the two is known: a b / (a + b) for weights a and b.
    fn cross(&self, part: &Part) -> (Mat<f64>, usize) {
        let k = part.rank();
        let (mut sum, mut common) = (Mat::<f64>::zeros(k, k), 0);
        for (side, factor) in part.factors.iter().enumerate() {
            for (i, &at) in factor.at.iter().enumerate() {
                let (own, other) = (factor.weight[i], self.weights[side][at as usize]);
                if !(own > 0.0 && other > 0.0) {
                    continue;
                }
                common += 1;
                let share = own / (own + other);
                let theirs = self.rows[side].row(at as usize);
                for a in 0..k {
                    let x = share * factor.rows[(i, a)];
                    for b in 0..k {
                        sum[(a, b)] += x * theirs[b];
                    }
                }
            }
        }
        (sum, common)
    }

    fn mean(self) -> Vec<Mat<f64>> {
        let sides = self.rows.into_iter().zip(self.weights);
        let mean = |(rows, weights): (Mat<f64>, Vec<f64>)| {
            Mat::from_fn(rows.nrows(), rows.ncols(), |i, j| match weights[i] > 0.0 {
                true => rows[(i, j)] / weights[i],
                false => 0.0,
            })
        };
        sides.map(mean).collect()
    }
}

/// The rotation nearest to a matrix; `None` where that is not finite.
fn rotation(m: &Mat<f64>) -> Option<Mat<f64>> {
    let hold = HOLD * m.norm_l2().max(f64::MIN_POSITIVE);
    let held = Mat::from_fn(m.nrows(), m.ncols(), |i, j| {
        m[(i, j)] + if i == j { hold } else { 0.0 }
    });
    let (p, _, q) = svd(&held)?;
    Some(p * q.transpose())
}

/// The mean of models whose factors have these numbers of rows in the union. `None` where a
/// number is not finite.
pub(super) fn mean(parts: Vec<Part>, sizes: &[usize]) -> Option<Mean> {
    let groups = groups(&parts, sizes);
    let count = groups.iter().max().map_or(0, |g| g + 1);
    let mut members: Vec<Vec<Part>> = (0..count).map(|_| Vec::new()).collect();
    for (part, group) in parts.into_iter().zip(groups) {
        members[group].push(part.scaled());
    }
    let mut out: Option<Vec<Mat<f64>>> = None;
    let mut fewest = usize::MAX;
    for group in members {
        let (found, common) = mean_of_group(group, sizes)?;
        fewest = fewest.min(common);
        out = Some(match out {
            None => found,
            Some(out) => {
                let sides = out.iter().zip(&found);
                sides.map(|(a, b)| crate::linalg::beside(a, b)).collect()
            }
        });
    }
    Some(Mean {
        factors: out?,
        groups: count,
        common: fewest,
    })
}

fn mean_of_group(parts: Vec<Part>, sizes: &[usize]) -> Option<(Vec<Mat<f64>>, usize)> {
    let rank = parts.iter().map(Part::rank).max()?;
    let parts: Vec<Part> = parts.into_iter().map(|part| part.widened(rank)).collect();
    let mut sums = Sums::new(sizes, rank);
    let mut turns = vec![Mat::<f64>::identity(rank, rank); parts.len()];
    let mut fewest = usize::MAX;
    sums.add(&parts[0], &turns[0], 1.0);
    // A model goes in as soon as it has something in common with those that are.
    let mut waiting: Vec<usize> = (1..parts.len()).collect();
    while !waiting.is_empty() {
        let next = waiting.iter().position(|&i| sums.cross(&parts[i]).1 > 0);
        let i = waiting.remove(next.unwrap_or(0));
        let (cross, common) = sums.cross(&parts[i]);
        fewest = fewest.min(common);
        turns[i] = rotation(&cross)?;
        sums.add(&parts[i], &turns[i], 1.0);
    }
    for _ in 0..if parts.len() > 2 { ROUNDS } else { 0 } {
        let mut moved: f64 = 0.0;
        for (part, turn) in parts.iter().zip(&mut turns).skip(1) {
            sums.add(part, turn, -1.0);
            let better = rotation(&sums.cross(part).0)?;
            moved = moved.max((&better - &*turn).norm_max());
            *turn = better;
            sums.add(part, turn, 1.0);
        }
        if moved < 1e-12 {
            break;
        }
    }
    // Anew, without the rounding errors of what was added and taken away.
    let mut sums = Sums::new(sizes, rank);
    for (part, turn) in parts.iter().zip(&turns) {
        sums.add(part, turn, 1.0);
    }
    let mean = sums.mean();
    let sound = mean.iter().all(Mat::is_all_finite);
    sound.then_some((mean, fewest))
}

/// The number of the group of each model: models of two groups have no id in common.
fn groups(parts: &[Part], sizes: &[usize]) -> Vec<usize> {
    let mut group: Vec<usize> = (0..parts.len()).collect();
    for (side, &size) in sizes.iter().enumerate() {
        let mut owner: Vec<Option<usize>> = vec![None; size];
        for (p, part) in parts.iter().enumerate() {
            let factor = &part.factors[side];
            for (&at, &weight) in factor.at.iter().zip(&factor.weight) {
                if !(weight > 0.0) {
                    continue;
                }
                match owner[at as usize] {
                    None => owner[at as usize] = Some(p),
                    Some(other) if group[other] != group[p] => {
                        let (low, high) = (group[other].min(group[p]), group[other].max(group[p]));
                        group
                            .iter_mut()
                            .filter(|g| **g == high)
                            .for_each(|g| *g = low);
                    }
                    Some(_) => {}
                }
            }
        }
    }
    let mut numbers: Vec<usize> = group.clone();
    numbers.sort_unstable();
    numbers.dedup();
    let number = |g: &usize| numbers.binary_search(g).unwrap_or(0);
    group.iter().map(number).collect()
}
