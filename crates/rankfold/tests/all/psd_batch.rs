//! Batch learning of positive semi-definite matrices against reference cases.

use super::batch::{flat, mat};
use super::golden::Golden;
use faer::Mat;
use rankfold::batch::{
    Armijo, Bound, Bounds, Distances, Limits, Objective, Pair, Points, PsdRegression, Solver,
};
use rankfold::linalg::Retraction;
use rankfold::manifold::{Flat, PolarPsd, Semidefinite};

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
    let (g, _) = regression.solve(
        Solver::Descent(armijo),
        start,
        limits,
        1e-5,
        &mut |progress, _| {
            costs.push(progress.cost);
            true
        },
    );
    (&g * g.transpose(), costs)
}

#[test]
fn golden_psd_batch() {
    let golden = Golden::read("psd_batch");
    let input = |name: &str| mat(&golden.matrix(&format!("/inputs/{name}")));
    let points = Points::dense(input("x"));
    let count = points.len() as u32;
    let wish = bounds(&golden.vector("/inputs/kind"), &golden.vector("/inputs/y"));
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
        wish: wish.clone(),
        space: Flat,
    };
    same("flat", descend(&flat, vec![input("G0")], iterations));
    for (name, subspace_weight) in [("polar", 0.5), ("polar_lam0", 0.0)] {
        let polar = PsdRegression {
            distances: distances(),
            wish: wish.clone(),
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
