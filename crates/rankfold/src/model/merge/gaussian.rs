//! Distributions over W with a covariance of each side (AROMA with factors), joined.
//!
//! W has the covariance Ω ⊗ Λ. Before the first example both are I, and an example adds to their
//! inverses. So Λ⁻¹ − I and Ω⁻¹ − I are what a model learned of its sides: these add up, and the
//! prior counts once. A direction that one model alone has met keeps its variance. The sum of
//! such distributions is none of their kind, and where several models know both sides of a score
//! well the merged one is too sure: of k equal models the standard deviation can be too small by √k.
//!
//! The mean solves Σ Δ_L W Δ_R = Σ Δ_L W_m Δ_R, where Δ_L = Λ⁻¹ − I and Δ_R = Ω⁻¹ − I are those of
//! model m: what a model learned of both directions is how much its entry counts. W is found by
//! conjugate gradients in the axes of ΣΔ_L and ΣΔ_R, where the system is about diagonal. In a
//! direction that no model has met W is the plain mean.
//!
//! An iteration costs O(nm(n + m)) a model, the axes O(n³ + m³).

use super::union::Union;
use crate::form::{FormRef, Full, Gaussian, Waiting};
use crate::linalg::symmetric;
use crate::{Error, Real, Result, memory};
use faer::Mat;

/// Iterations at most. Models without a common feature need one, models of the same features
/// some dozens.
const ITERATIONS: usize = 200;

/// The error of W at which to stop, as a share of its norm.
const TOLERANCE: f64 = 1e-13;

/// What one model learned: Δ_L and Δ_R times its weight, and W, on the union.
struct Learned {
    sides: [Mat<f64>; 2],
    mean: Mat<f64>,
    weight: f64,
}

/// The joined distribution. Models count by `weights` beside what they learned.
pub(super) fn joined<R: Real>(
    forms: &[FormRef<'_, R>],
    sides: [&Union; 2],
    weights: &[f64],
) -> Result<Gaussian<R>> {
    let failed = || Error::failure("the mean of the models is not finite");
    let (n, m) = (sides[0].size, sides[1].size);
    let (rows, columns) = (n as u128, m as u128);
    let each = rows * rows + columns * columns + rows * columns;
    let size = 8 * each * (2 * forms.len() as u128 + 4);
    memory::require(size, "the covariances of all models")?;
    let total: f64 = weights.iter().sum();
    let mut unlearned = 0.0;
    let mut all = Vec::with_capacity(forms.len());
    let (mut sum, mut count) = (Mat::<f64>::zeros(n, m), Mat::<f64>::zeros(n, m));
    for (at, (form, &weight)) in forms.iter().zip(weights).enumerate() {
        let FormRef::Gaussian(form) = form else {
            continue;
        };
        unlearned += weight / total * form.parts().0[0].unlearned();
        let learned = Learned::new(form, at, sides, weight).ok_or_else(failed)?;
        for &i in &sides[0].at[at] {
            for &j in &sides[1].at[at] {
                let (i, j) = (i as usize, j as usize);
                sum[(i, j)] += weight * learned.mean[(i, j)];
                count[(i, j)] += weight;
            }
        }
        all.push(learned);
    }
    let usual = |i: usize, j: usize| if i == j { unlearned } else { 0.0 };
    let start = Mat::from_fn(n, m, |i, j| match count[(i, j)] > 0.0 {
        true => sum[(i, j)] / count[(i, j)],
        false => usual(i, j),
    });
    let axes = [0, 1].map(|side| {
        let mut sum = Mat::<f64>::zeros(sides[side].size, sides[side].size);
        all.iter().for_each(|learned| sum += &learned.sides[side]);
        symmetric::eigen(&symmetric::part(&sum))
    });
    let [Some(left), Some(right)] = axes else {
        return Err(failed());
    };
    let mean = mean(&all, start, [&left.1, &right.1]);
    let covariance = |(values, v): &(Vec<f64>, Mat<f64>)| {
        let variance = |k: usize| 1.0 / (1.0 + values[k].max(0.0));
        Mat::from_fn(v.nrows(), values.len(), |i, k| v[(i, k)] * variance(k)) * v.transpose()
    };
    let matrices = [
        full(&mean, unlearned),
        full(&covariance(&left), 1.0),
        full(&covariance(&right), 1.0),
    ];
    let waiting = [n, m, n, m].map(|length| Waiting::from_parts(length, Vec::new()));
    let [Some(a), Some(b), Some(c), Some(d)] = waiting else {
        return Err(failed());
    };
    let found = Gaussian::from_parts(matrices, [a, b, c, d]);
    let found = found.filter(Gaussian::is_finite);
    found.ok_or_else(failed)
}

fn full<R: Real>(m: &Mat<f64>, diagonal: f64) -> Full<R> {
    let entries = (0..m.nrows()).flat_map(|i| (0..m.ncols()).map(move |j| R::from_f64(m[(i, j)])));
    Full::from_parts(m.ncols(), entries.collect(), diagonal)
}

impl Learned {
    fn new<R: Real>(
        form: &Gaussian<R>,
        model: usize,
        sides: [&Union; 2],
        weight: f64,
    ) -> Option<Self> {
        let [mean, left, right] = form.to_dense();
        let factor = |side: usize, i: usize| {
            let factors = sides[side].factors.as_ref();
            factors.map_or(1.0, |f| f[model][i])
        };
        // A feature in other units: what was learned of it has the inverse square of them.
        let learned = |side: usize, covariance: &[Vec<f64>]| {
            let (own, at) = (learned::<R>(covariance)?, &sides[side].at[model]);
            let mut out = Mat::<f64>::zeros(sides[side].size, sides[side].size);
            for (i, &to) in at.iter().enumerate() {
                for (j, &column) in at.iter().enumerate() {
                    let scale = factor(side, i) * factor(side, j);
                    let scale = weight / scale.max(f64::MIN_POSITIVE);
                    out[(to as usize, column as usize)] = scale * own[(i, j)];
                }
            }
            Some(out)
        };
        let both = [learned(0, &left)?, learned(1, &right)?];
        let mut out = Mat::<f64>::zeros(sides[0].size, sides[1].size);
        for (i, (row, &to)) in mean.iter().zip(&sides[0].at[model]).enumerate() {
            for (j, (v, &column)) in row.iter().zip(&sides[1].at[model]).enumerate() {
                out[(to as usize, column as usize)] = factor(0, i) * factor(1, j) * v;
            }
        }
        Some(Learned {
            sides: both,
            mean: out,
            weight,
        })
    }
}

/// Λ⁻¹ − I, where that is more than rounding.
fn learned<R: Real>(covariance: &[Vec<f64>]) -> Option<Mat<f64>> {
    let n = covariance.len();
    let rounding = 8.0 * (n as f64).sqrt() * R::EPSILON;
    let covariance = Mat::from_fn(n, n, |i, j| covariance[i][j]);
    symmetric::map(&symmetric::part(&covariance), |v| {
        match v < 1.0 - rounding {
            // Rounding may have taken the definiteness of a covariance.
            true => 1.0 / v.max(rounding) - 1.0,
            false => 0.0,
        }
    })
}

/// W of least Σ ‖W − W_m‖² in the norms of Δ_L ⊗ Δ_R, from a start that stays where these say
/// nothing.
fn mean(all: &[Learned], start: Mat<f64>, [v, z]: [&Mat<f64>; 2]) -> Mat<f64> {
    let turned = |m: &Mat<f64>, q: &Mat<f64>| q.transpose() * m * q;
    // Both sides have the weight of the model, which must count once.
    let sides = all.iter().map(|learned| {
        let left = turned(&learned.sides[0], v);
        let right = turned(&learned.sides[1], z);
        [faer::Scale(1.0 / learned.weight) * left, right]
    });
    let sides: Vec<[Mat<f64>; 2]> = sides.collect();
    let (n, m) = (start.nrows(), start.ncols());
    let applied = |y: &Mat<f64>| {
        let mut out = Mat::<f64>::zeros(n, m);
        sides.iter().for_each(|[a, b]| out += a * y * b);
        out
    };
    let mut residual = Mat::<f64>::zeros(n, m);
    for (learned, [a, b]) in all.iter().zip(&sides) {
        residual += a * (v.transpose() * (&learned.mean - &start) * z) * b;
    }
    let diagonal = Mat::from_fn(n, m, |i, j| {
        sides
            .iter()
            .map(|[a, b]| a[(i, i)] * b[(j, j)])
            .sum::<f64>()
    });
    let least = 1e-20 * diagonal.norm_max();
    let preconditioned = |r: &Mat<f64>| {
        Mat::from_fn(n, m, |i, j| match diagonal[(i, j)] > least {
            true => r[(i, j)] / diagonal[(i, j)],
            false => 0.0,
        })
    };
    let product = |a: &Mat<f64>, b: &Mat<f64>| -> f64 {
        let columns = a.col_iter().zip(b.col_iter());
        columns
            .map(|(a, b)| a.iter().zip(b.iter()).map(|(a, b)| a * b).sum::<f64>())
            .sum()
    };
    let mut y = Mat::<f64>::zeros(n, m);
    let mut step = preconditioned(&residual);
    let mut direction = step.clone();
    let mut before = product(&residual, &step);
    let norm = start.norm_l2().max(f64::MIN_POSITIVE);
    for _ in 0..ITERATIONS {
        if !(before > 0.0) || step.norm_l2() <= TOLERANCE * norm.max(y.norm_l2()) {
            break;
        }
        let moved = applied(&direction);
        let length = before / product(&direction, &moved);
        if !length.is_finite() {
            break;
        }
        y += faer::Scale(length) * &direction;
        residual -= faer::Scale(length) * moved;
        step = preconditioned(&residual);
        let after = product(&residual, &step);
        direction = &step + faer::Scale(after / before) * direction;
        before = after;
    }
    start + v * y * z.transpose()
}

#[cfg(test)]
mod tests {
    use super::super::MergeOptions;
    use crate::data::Labelled;
    use crate::form::Form;
    use crate::linalg::symmetric;
    use crate::model::{Model, Precise};
    use crate::options::Options;
    use crate::random::normal_at;
    use crate::{Rows, Similarity};
    use faer::Mat;

    /// Rows of two classes, of which the features from `from` on are not zero.
    fn model(from: usize, until: usize, seed: u64, init: &str) -> Model {
        let value = |i: usize, j: usize| {
            let noise = normal_at(seed, 0, i as u64, j as u64);
            match (from..until).contains(&j) {
                true => [1.0, -1.0][i % 2] * (1.0 + 0.3 * j as f64) + noise,
                false => 0.0,
            }
        };
        let rows = (0..30).map(|i| (0..6).map(|j| value(i, j)).collect::<Vec<f64>>());
        let mut rows = Labelled::new(Rows::<f64>::from_dense(rows).unwrap());
        rows.labels = Default::default();
        (0..30).for_each(|i| rows.labels.push([["a", "b"][i % 2]]));
        let mut task = Similarity::default().steps(40).seed(seed);
        task.set("learner", "aroma-factored").unwrap();
        task.set("init", init).unwrap();
        task.fit(&rows).unwrap()
    }

    /// W, Λ and Ω.
    fn parts(model: &Model) -> [Mat<f64>; 3] {
        match &model.form {
            Precise::F64(Form::Gaussian(form)) => form
                .to_dense()
                .map(|m| Mat::from_fn(m.len(), m[0].len(), |i, j| m[i][j])),
            _ => unreachable!("a covariance for each side"),
        }
    }

    fn merge(models: &[&Model], weights: Option<Vec<f64>>) -> Model {
        let options = MergeOptions::default().weights(weights);
        Model::merge(models, &options).unwrap().model
    }

    #[track_caller]
    fn near(a: &Mat<f64>, b: &Mat<f64>, tolerance: f64) {
        let off = (a - b).norm_max();
        assert!(off < tolerance * (1.0 + b.norm_max()), "{off}");
    }

    fn learned(covariance: &Mat<f64>) -> Mat<f64> {
        symmetric::power(covariance, -1.0).unwrap() - Mat::<f64>::identity(6, 6)
    }

    #[test]
    fn a_model_merged_with_itself_keeps_its_mean_and_is_surer() {
        for init in ["zero", "identity"] {
            let one = model(0, 6, 1, init);
            let [mean, left, right] = parts(&one);
            for count in [1, 2, 3] {
                let [found, a, b] = parts(&merge(&vec![&one; count], None));
                near(&found, &mean, 1e-12);
                let sum = faer::Scale(count as f64);
                near(&learned(&a), &(sum * learned(&left)), 1e-10);
                near(&learned(&b), &(sum * learned(&right)), 1e-10);
            }
        }
    }

    #[test]
    fn what_one_model_alone_has_met_stays_as_it_was() {
        let [one, two] = [model(0, 3, 1, "zero"), model(3, 6, 2, "zero")];
        let both = [merge(&[&one, &two], None), merge(&[&two, &one], None)];
        assert_eq!(parts(&both[0]), parts(&both[1]));
        let merged = parts(&both[0]);
        for (from, own) in [(0, parts(&one)), (3, parts(&two))] {
            for (found, own) in merged.iter().zip(&own) {
                let block = |m: &Mat<f64>| Mat::from_fn(3, 3, |i, j| m[(from + i, from + j)]);
                near(&block(found), &block(own), 1e-12);
            }
        }
        assert!(both[0].has_confidence());
        let bytes = both[0].to_bytes().unwrap();
        assert_eq!(Model::from_bytes(&bytes).unwrap(), both[0]);
    }

    #[test]
    fn the_mean_and_the_covariances_are_those_of_a_plain_program() {
        let models = [
            model(0, 6, 1, "zero"),
            model(0, 5, 2, "zero"),
            model(2, 6, 3, "zero"),
        ];
        let weights = [1.0, 2.0, 0.5];
        let order = |order: [usize; 3]| {
            let some = order.map(|i| &models[i]);
            parts(&merge(&some, Some(order.map(|i| weights[i]).to_vec())))
        };
        let [mean, left, right] = order([0, 1, 2]);
        for other in [[1, 2, 0], [2, 1, 0]] {
            let [a, b, c] = order(other);
            near(&a, &mean, 1e-9);
            near(&b, &left, 1e-12);
            near(&c, &right, 1e-12);
        }
        // All entries of W as one vector, and the Kronecker products as they are.
        let mut system = Mat::<f64>::zeros(36, 36);
        let mut target = Mat::<f64>::zeros(36, 1);
        let mut sides = [Mat::<f64>::identity(6, 6), Mat::<f64>::identity(6, 6)];
        for (model, weight) in models.iter().zip(weights) {
            let [own, l, r] = parts(model);
            let (l, r) = (learned(&l), learned(&r));
            let entry = |a: usize, b: usize| weight * l[(a / 6, b / 6)] * r[(a % 6, b % 6)];
            let kronecker = Mat::from_fn(36, 36, entry);
            target += &kronecker * Mat::from_fn(36, 1, |a, _| own[(a / 6, a % 6)]);
            system += kronecker;
            sides[0] += faer::Scale(weight) * l;
            sides[1] += faer::Scale(weight) * r;
        }
        let found = symmetric::power(&system, -1.0).unwrap() * target;
        near(
            &mean,
            &Mat::from_fn(6, 6, |i, j| found[(6 * i + j, 0)]),
            1e-8,
        );
        near(&left, &symmetric::power(&sides[0], -1.0).unwrap(), 1e-11);
        near(&right, &symmetric::power(&sides[1], -1.0).unwrap(), 1e-11);
        // Never less sure than one of the models.
        for model in &models[..1] {
            let [_, l, r] = parts(model);
            for (found, own) in [(&left, &l), (&right, &r)] {
                let (least, _) = symmetric::eigen(&(own - found)).unwrap();
                assert!(least[0] > -1e-12, "{least:?}");
            }
        }
    }

    #[test]
    fn features_in_other_units_say_the_same_of_raw_rows() {
        let mut one = model(0, 6, 1, "zero");
        let [mean, left, _] = parts(&one);
        let mut two = one.clone();
        let scale = |model: &mut Model, scale: f64| {
            model.preprocess.steps.standardize = true;
            model.preprocess.mean = Some(vec![0.0; 6]);
            model.preprocess.scale = Some(vec![scale; 6]);
        };
        scale(&mut one, 1.0);
        scale(&mut two, 1.0);
        let merged = merge(&[&one, &two], None);
        near(&parts(&merged)[0], &mean, 1e-12);
        // The same W on rows that are multiplied by 2 first is a fourth of it, and what was
        // learned of a side is four times as much.
        if let Precise::F64(Form::Gaussian(form)) = &mut two.form {
            let quarter = Mat::from_fn(6, 6, |i, j| 0.25 * mean[(i, j)]);
            let surer = faer::Scale(4.0) * learned(&left) + Mat::<f64>::identity(6, 6);
            let covariance = symmetric::power(&surer, -1.0).unwrap();
            let rows = |m: &Mat<f64>| super::full::<f64>(m, 0.0);
            let matrices = [rows(&quarter), rows(&covariance), rows(&covariance)];
            let waiting = [6; 4].map(|n| super::Waiting::from_parts(n, Vec::new()).unwrap());
            *form = super::Gaussian::from_parts(matrices, waiting).unwrap();
        }
        scale(&mut two, 2.0);
        let merged = merge(&[&two, &two], None);
        near(
            &parts(&merged)[0],
            &Mat::from_fn(6, 6, |i, j| 0.25 * mean[(i, j)]),
            1e-12,
        );
        let both = merge(&[&one, &two], None);
        let scale = both.preprocess.scale.as_ref().unwrap()[0];
        let [found, a, _] = parts(&both);
        near(&(faer::Scale(scale * scale) * found), &mean, 1e-10);
        let want = faer::Scale(2.0 * scale * scale) * learned(&left);
        near(&learned(&a), &want, 1e-10);
    }
}
