//! Kernel learning against reference cases.

use super::batch::{flat, mat};
use super::golden::Golden;
use rankfold::batch::{
    Armijo, Bound, Bounds, Distances, Limits, Objective, Pair, Points, PsdRegression, Solver,
};
use rankfold::manifold::Flat;

#[test]
fn golden_kernel_constraints() {
    let golden = Golden::read("distance_learning");
    let alpha = golden.number("/params/alpha");
    let k = golden.matrix("/inputs/K");
    let labels = golden.vector("/inputs/labels");
    let pairs = golden.matrix("/inputs/pairs");
    let pairs: Vec<(usize, usize)> = pairs
        .iter()
        .map(|pair| (pair[0] as usize, pair[1] as usize))
        .collect();
    // α says how much nearer or farther two items should be than in the start.
    let (mut list, mut targets, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
    for &(i, j) in &pairs {
        let y = k[i][i] + k[j][j] - 2.0 * k[i][j];
        let (bound, kind, target) = match labels[i] == labels[j] {
            true => (Bound::AtMost, 1.0, y * (1.0 - alpha)),
            false => (Bound::AtLeast, -1.0, y * (1.0 + alpha)),
        };
        list.push((bound, target));
        targets.push(target);
        kinds.push(kind);
    }
    golden.same(
        "targets",
        &targets,
        &golden.vector("/outputs/kernel_targets"),
    );
    assert_eq!(kinds, golden.vector("/outputs/kernel_kinds"));

    let points = Points::unit(k.len());
    let pair = |&(i, j): &(usize, usize)| Pair {
        left: i as u32,
        right: j as u32,
    };
    let pairs = pairs.iter().map(pair).collect();
    let regression = PsdRegression {
        distances: Distances::new(&points, pairs, 1).unwrap(),
        pair_loss: Bounds { list },
        space: Flat,
    };
    let start = vec![mat(&golden.matrix("/inputs/G0_kernel"))];
    let armijo = Armijo {
        share: 0.5,
        longest: Some(100.0),
    };
    let limits = Limits {
        iterations: golden.number("/params/maxit") as usize,
        cost: 1e-5,
        decrease: 1e-5,
        gradient: 0.0,
    };
    let mut costs = vec![regression.cost(&start)];
    let (g, _) = regression.solve(Solver::Descent(armijo), start, limits, 1e-5, &mut |step| {
        costs.push(step.cost);
        true
    });
    let w = flat(&(&g * g.transpose()));
    golden.same("W", &w, &golden.matrix("/outputs/kernel_W").concat());
    golden.same("costs", &costs, &golden.vector("/outputs/kernel_hist"));
}
