//! Batch learning of positive semi-definite matrices against reference cases.

use super::batch::{flat, mat};
use super::golden::Golden;
use faer::Mat;
use rankfold::batch::{
    Armijo, Bound, Bounds, Distances, Limits, Objective, Pair, Points, PsdRegression, Solver,
};
use rankfold::linalg::Retraction;
use rankfold::manifold::{Flat, PolarPsd, Semidefinite};
use rankfold::task::squared_distance_levels;

fn bound(kind: f64) -> Bound {
    match kind {
        0.0 => Bound::Equal,
        1.0 => Bound::AtMost,
        _ => Bound::AtLeast,
    }
}

fn bounds(kinds: &[f64], targets: &[f64]) -> Bounds {
    let list = kinds.iter().zip(targets);
    Bounds {
        list: list.map(|(kind, y)| (bound(*kind), *y)).collect(),
    }
}

/// Armijo descent as the paper has it; W and the costs along the way.
fn descend<M: Semidefinite>(
    regression: &PsdRegression<'_, M, Bounds>,
    start: Vec<Mat<f64>>,
    iterations: usize,
) -> (Mat<f64>, Vec<f64>) {
    let armijo = Armijo {
        share: 0.5,
        longest: Some(100.0),
    };
    let limits = Limits {
        iterations,
        cost: 1e-5,
        decrease: 1e-5,
        gradient: 0.0,
    };
    let mut costs = vec![regression.cost(&start)];
    let (g, _) = regression.solve(Solver::Descent(armijo), start, limits, 1e-5, &mut |step| {
        costs.push(step.cost);
        true
    });
    (&g * g.transpose(), costs)
}

#[test]
fn golden_psd_batch() {
    let golden = Golden::read("psd_batch");
    let input = |name: &str| mat(&golden.matrix(&format!("/inputs/{name}")));
    let points = Points::dense(input("x"));
    let count = points.len() as u32;
    let pair_loss = bounds(&golden.vector("/inputs/kind"), &golden.vector("/inputs/y"));
    let iterations = golden.number("/params/maxit") as usize;
    let same = |name: &str, (w, costs): (Mat<f64>, Vec<f64>)| {
        let want = |part: &str| format!("/outputs/{part}_{name}");
        golden.same(name, &flat(&w), &golden.matrix(&want("W")).concat());
        golden.same(name, &costs, &golden.vector(&want("hist")));
    };
    let distances = || {
        let pairs = (0..count).map(Pair::of_point).collect();
        Distances::new(&points, pairs, 1).unwrap()
    };
    let flat = PsdRegression {
        distances: distances(),
        pair_loss: pair_loss.clone(),
        space: Flat,
    };
    same("flat", descend(&flat, vec![input("G0")], iterations));
    for (name, subspace_weight) in [("polar", 0.5), ("polar_lam0", 0.0)] {
        let polar = PsdRegression {
            distances: distances(),
            pair_loss: pair_loss.clone(),
            space: PolarPsd {
                subspace_weight,
                retraction: Retraction::Qf,
            },
        };
        let r = input("R0");
        let start = vec![input("U0"), &r * r.transpose()];
        same(name, descend(&polar, start, iterations));
    }
}

/// Bounds from labels: percentiles of all distances under the identity, then some steps.
#[test]
fn golden_distance_learning_of_a_metric() {
    let golden = Golden::read("distance_learning");
    let x = mat(&golden.matrix("/inputs/X"));
    let labels = golden.vector("/inputs/labels");
    let points = Points::dense(x.clone());
    let d = x.ncols();
    let found = squared_distance_levels(&points, &Mat::identity(d, d), 0, 1).unwrap();
    let want = ["/outputs/l", "/outputs/u"].map(|path| golden.number(path));
    golden.same("percentiles", &[found.near, found.far], &want);
    let pairs: Vec<Pair> = golden
        .matrix("/inputs/pairs")
        .iter()
        .map(|pair| Pair {
            left: pair[0] as u32,
            right: pair[1] as u32,
        })
        .collect();
    let list: Vec<(Bound, f64)> = pairs
        .iter()
        .map(
            |pair| match labels[pair.left as usize] == labels[pair.right as usize] {
                true => (Bound::AtMost, found.near),
                false => (Bound::AtLeast, found.far),
            },
        )
        .collect();
    let kinds: Vec<f64> = list
        .iter()
        .map(|(bound, _)| if *bound == Bound::AtMost { 1.0 } else { -1.0 })
        .collect();
    golden.same("kinds", &kinds, &golden.vector("/outputs/maha_kinds"));
    let targets: Vec<f64> = list.iter().map(|(_, y)| *y).collect();
    golden.same("targets", &targets, &golden.vector("/outputs/maha_targets"));
    let regression = PsdRegression {
        distances: Distances::new(&points, pairs, 1).unwrap(),
        pair_loss: Bounds { list },
        space: Flat,
    };
    let iterations = golden.number("/params/maxit") as usize;
    // The case starts from as many columns of the identity as its kernel has.
    let rank = golden.matrix("/inputs/G0_kernel")[0].len();
    let start = vec![Mat::identity(d, rank)];
    let (w, costs) = descend(&regression, start, iterations);
    golden.same("W", &flat(&w), &golden.matrix("/outputs/maha_W").concat());
    golden.same("costs", &costs, &golden.vector("/outputs/maha_hist"));
}
