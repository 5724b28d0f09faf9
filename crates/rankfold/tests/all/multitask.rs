//! Tasks that share a subspace, at the size of the published experiment.

use faer::Mat;
use rankfold::batch::{Limits, SharedSubspace, Solver, Tasks};
use rankfold::linalg::qf;
use rankfold::manifold::Grassmann;
use rankfold::random::normal_at;

const SEED: u64 = 6;

fn normal(n: usize, k: usize, purpose: u64) -> Mat<f64> {
    Mat::from_fn(n, k, |i, j| normal_at(SEED, purpose, i as u64, j as u64))
}

/// 1,000 tasks of 10 to 50 rows with 100 features; targets lie in a subspace of five
/// dimensions, but for noise of 1e-6.
fn thousand_tasks() -> (Tasks, Mat<f64>) {
    let (m, r) = (100, 5);
    let u = qf(&normal(m, r, 1)).unwrap();
    let data: Vec<_> = (0..1000u64)
        .map(|t| {
            let d = 10 + (t * 7919 % 41) as usize;
            let x = normal(d, m, 10 + t);
            let w = normal(m, 1, 5000 + t);
            let y = &x * (&u * (u.transpose() * w)) + faer::Scale(1e-6) * normal(d, 1, 9000 + t);
            let x: Vec<f64> = (0..d * m).map(|i| x[(i / m, i % m)]).collect();
            let y: Vec<f64> = (0..d).map(|i| y[(i, 0)]).collect();
            (x, y)
        })
        .collect();
    let tasks = Tasks::new(m, data.iter().map(|(x, y)| (&x[..], &y[..])));
    (tasks.unwrap(), u)
}

#[test]
fn the_subspace_of_a_thousand_tasks_is_found() {
    let (tasks, truth) = thousand_tasks();
    let problem = SharedSubspace {
        tasks: &tasks,
        lambda: 0.0,
        common: None,
        threads: 2,
    };
    let start = tasks.start(5, None).unwrap();
    assert!(Grassmann::distance(&start, &truth) > 0.1);
    for solver in [
        Solver::TrustRegion,
        Solver::ConjugateGradient { precondition: true },
    ] {
        let limits = Limits {
            iterations: 200,
            decrease: 1e-12,
            ..Limits::default()
        };
        let solved = solver.solve(&problem, vec![start.clone()], limits, &mut |_| true);
        let off = Grassmann::distance(&solved.point[0], &truth);
        assert!(off < 1e-5, "{solver:?}: {off:e} in {}", solved.iterations);
    }
}
