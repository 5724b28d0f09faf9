//! Batch learning against reference cases.

use faer::Mat;
use rankfold::batch::{
    Armijo, Examples, Limits, Local, Objective, Observed, Part, Penalty, Regression, Ridge, Solver,
    Subspace,
};
use rankfold::linalg::Retraction;
use rankfold::manifold::{Balanced, Factors, FixedRank, Grassmann, Polar, balance};

use super::golden::Golden;

pub fn mat(rows: &[Vec<f64>]) -> Mat<f64> {
    Mat::from_fn(rows.len(), rows[0].len(), |i, j| rows[i][j])
}

pub fn flat(m: &Mat<f64>) -> Vec<f64> {
    let rows = 0..m.nrows();
    rows.flat_map(|i| (0..m.ncols()).map(move |j| m[(i, j)]))
        .collect()
}

#[test]
fn golden_balance_step() {
    let golden = Golden::read("balance_step");
    let input = |name: &str| mat(&golden.matrix(&format!("/inputs/{name}")));
    let (g, h) = balance(&input("G"), &input("H")).unwrap();
    golden.same("G", &flat(&g), &golden.matrix("/outputs/G").concat());
    golden.same("H", &flat(&h), &golden.matrix("/outputs/H").concat());
}

fn descends<M: FixedRank>(golden: &Golden, name: &str, manifold: M, start: Vec<Mat<f64>>) {
    let (x, z) = (golden.matrix("/inputs/x"), golden.matrix("/inputs/z"));
    let y = golden.vector("/inputs/y");
    let column = |v: &Vec<f64>| Mat::from_fn(v.len(), 1, |i, _| v[i]);
    let pairs = x.iter().zip(&z).zip(&y);
    let examples = Examples {
        shape: (z[0].len(), x[0].len()),
        data: pairs
            .map(|((x, z), &y)| (column(z), column(x), y))
            .collect(),
    };
    let lambda = golden.number("/params/lam");
    let penalty = match name {
        "mmmf" => Penalty::Factors(lambda),
        _ => Penalty::Matrix(lambda),
    };
    let regression = Regression::new(examples, manifold, penalty);
    let armijo = Armijo {
        share: golden.number("/params/c"),
        longest: Some(golden.number("/params/s0")),
    };
    let limits = Limits {
        iterations: golden.number("/params/iters") as usize,
        decrease: 0.0,
        ..Limits::default()
    };
    let mut costs = vec![regression.cost(&start)];
    let solved = Solver::Descent(armijo).solve(&regression, start, limits, &mut |step| {
        costs.push(step.cost);
        true
    });
    let (left, right) = regression.space.inner.factors(&solved.point);
    let w = golden.matrix(&format!("/outputs/W_{name}")).concat();
    golden.same(name, &flat(&(left * right.transpose())), &w);
    let history = golden.vector(&format!("/outputs/hist_{name}"));
    golden.same(&format!("costs of {name}"), &costs, &history);
}

#[test]
fn golden_batch_armijo() {
    let golden = Golden::read("batch_armijo");
    let input = |name: &str| mat(&golden.matrix(&format!("/inputs/{name}")));
    let factors = || vec![input("G0"), input("H0")];
    descends(&golden, "balanced", Balanced, factors());
    descends(&golden, "mmmf", Factors, factors());
    let polar = Polar {
        retraction: Retraction::Qf,
    };
    let start = vec![input("U0"), input("B0"), input("V0")];
    descends(&golden, "polar", polar, start);
}

#[test]
fn golden_completion_cost() {
    let golden = Golden::read("completion_cost");
    let (u, y) = (mat(&golden.matrix("/inputs/U")), golden.matrix("/inputs/Y"));
    let mask = golden.matrix("/inputs/mask");
    let places = (0..y.len()).flat_map(|i| (0..y[0].len()).map(move |j| (i, j)));
    let known = places.filter(|&(i, j)| mask[i][j] != 0.0);
    let entries = known.map(|(i, j)| (i as u32, j as u32, y[i][j]));
    let (observed, _) = Observed::new((y.len(), y[0].len()), entries.collect()).unwrap();
    let outputs = golden.at("/outputs").as_object().expect("cases");
    for name in outputs.keys() {
        let (kind, lambda) = name.split_once("_lam").expect("a kind and a weight");
        let problem = Subspace {
            entries: observed.part(Part::All),
            center: 0.0,
            lambda: lambda.parse().unwrap(),
            ridge: match kind {
                "offmask" => Ridge::OffMask,
                _ => Ridge::Full,
            },
            threads: 1,
        };
        let local = problem.local(std::slice::from_ref(&u));
        let want = |part: &str| golden.matrix(&format!("/outputs/{name}/{part}")).concat();
        let cost = golden.number(&format!("/outputs/{name}/cost"));
        golden.same(name, &[local.cost()], &[cost]);
        golden.same(name, &flat(&local.gradient()[0]), &want("rgrad"));
        golden.same(name, &flat(local.weights()), &want("W"));
    }
}

#[test]
fn golden_grassmann() {
    let golden = Golden::read("grassmann");
    let input = |name: &str| mat(&golden.matrix(&format!("/inputs/{name}")));
    let want = |name: &str| golden.matrix(&format!("/outputs/{name}")).concat();
    let projector = |u: &Mat<f64>| flat(&(u * u.transpose()));
    let u = input("U");
    let exp = Grassmann::exp(&u, &input("xi")).unwrap();
    golden.same("Exp", &flat(&exp), &want("exp"));
    golden.same("Exp", &projector(&exp), &want("exp_projector"));
    let t = input("T");
    let log = Grassmann::log(&u, &t).unwrap();
    golden.same("Log", &flat(&log), &want("log"));
    let distance = golden.number("/outputs/dist");
    golden.same("distance", &[Grassmann::distance(&u, &t)], &[distance]);
    let count = golden.at("/inputs/points").as_array().unwrap().len();
    let point = |i: usize| mat(&golden.matrix(&format!("/inputs/points/{i}")));
    let points: Vec<_> = (0..count).map(point).collect();
    let mean = Grassmann::mean(&points).unwrap();
    golden.same("mean", &projector(&mean), &want("mean_projector"));
}

#[test]
fn paths_between_subspaces_keep_their_laws() {
    for shape in [(1, 1), (2, 1), (5, 5), (7, 2), (40, 9), (300, 20), (12, 8)] {
        rankfold::check::subspaces(shape).unwrap();
    }
}
