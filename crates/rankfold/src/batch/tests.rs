//! The law of states: n iterations and m more from the state are n + m at once, to the
//! bit, for every solver.

use super::problem::tests::observed;
use super::tasks::tests::planted;
use super::*;
use crate::Result;
use crate::linalg::{Retraction, qf};
use crate::manifold::tests::matrix;
use crate::manifold::{
    Affine, Balanced, Biased, Blocks, Embedded, Factors, FixedRank, Flat, LogEuclidean, Polar,
    PolarPsd, Semidefinite,
};
use faer::Mat;

/// A run from the start or from a state, with at most so many iterations.
type Run<'r, P, Q> = &'r dyn Fn(Option<&SolverState>, usize, Observer<'_, Q>) -> Result<Solved<P>>;

/// Numbers that are infinite, and absent, at times.
const OPTIONAL: [&str; 2] = ["previous", "radius"];

/// As a file would keep it: the numbers as JSON, the blocks as bytes.
fn stored(state: &SolverState) -> SolverState {
    let json = serde_json::to_string(state).unwrap();
    let bytes = |block: &Mat<f64>| -> Vec<u8> {
        let columns = block.col_iter().flat_map(|c| c.iter().copied());
        columns.flat_map(f64::to_le_bytes).collect()
    };
    let mut back: SolverState = serde_json::from_str(&json).unwrap();
    assert!(back.blocks.is_empty());
    for (name, block) in &state.blocks {
        let (rows, stored) = (block.nrows(), bytes(block));
        let value = |i: usize, j: usize| {
            let at = 8 * (j * rows + i);
            f64::from_le_bytes(stored[at..at + 8].try_into().unwrap())
        };
        let block = Mat::from_fn(rows, block.ncols(), value);
        back.blocks.insert(name.clone(), block);
    }
    back
}

/// All that a run came to, as bits.
fn end<P>(solved: &Solved<P>, bits: &dyn Fn(&P) -> Vec<u64>) -> (Vec<u64>, u64, usize, Ended) {
    let cost = solved.cost.to_bits();
    (bits(&solved.point), cost, solved.iterations, solved.ended)
}

fn resumes<P, Q>(what: &str, run: Run<'_, P, Q>, total: usize, bits: &dyn Fn(&P) -> Vec<u64>) {
    let mut states = Vec::new();
    let whole = run(None, total, &mut |step| {
        states.push(step.state());
        true
    });
    let whole = end(&whole.unwrap(), bits);
    let count = states.len();
    assert!(count > 2, "{what}: {count} iterations");
    for n in [1, 2, count / 2, count - 1, count] {
        let what = format!("{what}: {n} of {count}");
        let mut state = None;
        let part = run(None, total, &mut |step| {
            state = (step.number == n).then(|| step.state());
            step.number < n
        });
        assert_eq!(part.unwrap().iterations, n, "{what}");
        let state = stored(&state.unwrap());
        assert_eq!(state, states[n - 1], "{what}");
        let mut rest = Vec::new();
        let more = run(Some(&state), total, &mut |step| {
            rest.push(step.state());
            true
        });
        assert!(end(&more.unwrap(), bits) == whole, "{what}");
        assert!(rest == states[n..], "{what}");
        // A run that did all its iterations goes on with more of them.
        let mut last = None;
        run(None, n, &mut |step| {
            last = Some(step.state());
            true
        })
        .unwrap();
        assert_eq!(last, Some(state), "{what}");
    }
    refuses(what, run, &states[1]);
}

/// States that do not fit are refused.
fn refuses<P, Q>(what: &str, run: Run<'_, P, Q>, sound: &SolverState) {
    let refused = |state: &SolverState, how: &str| {
        let found = run(Some(state), sound.iteration, &mut |_| true);
        let error = found.err().unwrap_or_else(|| panic!("{what}: {how}"));
        assert!(error.message.contains("state"), "{what}: {}", error.message);
    };
    assert!(run(Some(sound), sound.iteration, &mut |_| true).is_ok());
    let mut other = sound.clone();
    other.solver = "gradient".into();
    refused(&other, "another solver");
    for name in sound.blocks.keys() {
        let mut less = sound.clone();
        let block = less.blocks.remove(name).unwrap();
        refused(&less, name);
        let (n, k) = (block.nrows(), block.ncols());
        for (rows, columns) in [(n + 1, k), (n, k + 1), (n, 0), (0, 0)] {
            let other = Mat::zeros(rows, columns);
            refused(&less.clone().with_block(name, other), name);
        }
        for value in [f64::NAN, f64::INFINITY] {
            let mut wrong = block.clone();
            wrong[(n / 2, k - 1)] = value;
            refused(&less.clone().with_block(name, wrong), name);
        }
        // What has the right shape but is no point may end anywhere, without a panic.
        for value in [0.0, -1.0, 1e300] {
            let wrong = Mat::full(n, k, value);
            let wrong = less.clone().with_block(name, wrong);
            let _ = run(Some(&wrong), sound.iteration + 2, &mut |_| true);
        }
    }
    for name in sound.numbers.keys() {
        let mut other = sound.clone();
        other.numbers.insert(name.clone(), f64::NAN);
        refused(&other, name);
        other.numbers.remove(name);
        if !OPTIONAL.contains(&&name[..]) {
            refused(&other, name);
        }
    }
}

fn bits_of(blocks: &[Mat<f64>]) -> Vec<u64> {
    let columns = blocks.iter().flat_map(|b| b.col_iter());
    columns
        .flat_map(|c| c.iter().map(|v| v.to_bits()))
        .collect()
}

fn fitted_bits(fitted: &Fitted) -> Vec<u64> {
    let mut out = bits_of(&[fitted.left.clone(), fitted.right.clone()]);
    let biases = fitted.biases.iter().flatten().flatten();
    out.extend(biases.map(|b| b.to_bits()));
    out.push(fitted.center.to_bits());
    out
}

const SOLVERS: [Solver; 4] = [
    Solver::Descent(Armijo {
        share: 0.5,
        longest: None,
    }),
    Solver::ConjugateGradient {
        precondition: false,
    },
    Solver::ConjugateGradient { precondition: true },
    Solver::TrustRegion,
];

/// Few iterations, and as many as it takes.
const TOTALS: [usize; 2] = [5, 2000];

fn limits(iterations: usize) -> Limits {
    Limits {
        iterations,
        decrease: 1e-4,
        ..Limits::default()
    }
}

fn objective_resumes<O: Objective>(what: &str, objective: &O, start: &Blocks) {
    let rank = start[0].ncols();
    for solver in SOLVERS {
        for total in TOTALS {
            let run = |state: Option<&SolverState>, iterations: usize, observer: Observer<'_>| {
                match state {
                    None => {
                        Ok(solver.solve(objective, start.clone(), limits(iterations), observer))
                    }
                    Some(state) => {
                        solver.resume(objective, rank, state, limits(iterations), observer)
                    }
                }
            };
            let what = format!("{what} {solver:?}");
            resumes(&what, &run, total, &|point: &Blocks| bits_of(point));
        }
    }
}

fn geometry_resumes<M: FixedRank>(what: &str, manifold: M) {
    let (n, m, k) = (20, 16, 2);
    let observed = observed(n, m);
    let mut start = manifold.point(&matrix(n, k, 1), &matrix(m, k, 2)).unwrap();
    start.extend([Mat::zeros(n, 1), Mat::zeros(m, 1)]);
    let regression = Regression {
        problem: Completion {
            entries: observed.part(Part::All),
            center: 0.1,
            threads: 2,
        },
        space: Biased {
            inner: manifold,
            weights: Some([vec![0.1; n], vec![0.1; m]]),
        },
        penalty: Penalty::Matrix(0.01),
        ridge: 0.1,
    };
    objective_resumes(what, &regression, &start);
}

#[test]
fn solvers_resume_on_every_geometry_of_fixed_rank() {
    geometry_resumes("balanced", Balanced);
    geometry_resumes("embedded", Embedded);
    geometry_resumes("factors", Factors);
    for retraction in [Retraction::Uf, Retraction::Qf] {
        geometry_resumes("polar", Polar { retraction });
    }
}

#[test]
fn solvers_resume_on_subspaces() {
    let observed = observed(20, 16);
    let entries = observed.part(Part::All);
    let basis = |n: usize, seed: usize| qf(&matrix(n, 2, seed)).unwrap();
    let subspace = Subspace {
        entries,
        center: 0.0,
        lambda: 0.1,
        ridge: Ridge::OffMask,
        threads: 2,
    };
    objective_resumes("subspace", &subspace, &vec![basis(20, 3)]);
    let problem = Completion {
        entries,
        center: 0.0,
        threads: 2,
    };
    let start = vec![basis(20, 3), basis(16, 4)];
    objective_resumes("optspace", &OptSpace { problem }, &start);
    let (tasks, _) = planted(&[4, 9, 12, 7, 3], 9, 2, 0.3);
    let common = tasks.common(0.5, 1).unwrap();
    for common in [None, Some(&common)] {
        let shared = SharedSubspace {
            tasks: &tasks,
            lambda: 0.3,
            common,
            threads: 2,
        };
        let mut start = vec![basis(9, 5)];
        start.extend(common.map(|_| Mat::zeros(9, 1)));
        objective_resumes("shared subspace", &shared, &start);
    }
}

/// Bounds of all kinds on distances of 12 points.
fn bounds(points: &Points) -> (Distances<'_>, Bounds) {
    let pair = |t: u32| Pair {
        left: (t * 7) % 12,
        right: (t * 5 + 1 + t / 12) % 12,
    };
    let distances = Distances::new(points, (0..60).map(pair).collect(), 2).unwrap();
    let other = distances.of(&distances.project(&matrix(points.features(), 3, 8)));
    let kinds = [Bound::Equal, Bound::AtMost, Bound::AtLeast];
    let list = other.iter().enumerate();
    let list = list.map(|(t, d)| (kinds[t % 3], *d)).collect();
    (distances, Bounds { list })
}

fn metric_resumes<M: Semidefinite + Copy>(what: &str, space: M, k: usize) {
    let points = Points::dense(matrix(12, 5, 1));
    let (distances, pair_loss) = bounds(&points);
    let regression = PsdRegression {
        distances,
        pair_loss,
        space,
    };
    let start = space.point(&matrix(5, k, 2)).unwrap();
    for solver in SOLVERS {
        // It ends by the cost, by how far G moves, or by the iterations.
        for (total, share) in [(5, 0.0), (2000, 0.0), (2000, 1e-2)] {
            let run = |state: Option<&SolverState>,
                       iterations: usize,
                       observer: Observer<'_, Mat<f64>>| {
                let (start, limits) = (start.clone(), limits(iterations));
                let (factor, solved) = match state {
                    None => regression.solve(solver, start, limits, share, observer),
                    Some(state) => regression.resume(solver, k, state, limits, share, observer)?,
                };
                Ok(Solved {
                    point: [vec![factor], solved.point].concat(),
                    cost: solved.cost,
                    iterations: solved.iterations,
                    ended: solved.ended,
                })
            };
            let what = format!("{what} {solver:?} {share}");
            resumes(&what, &run, total, &|point: &Blocks| bits_of(point));
        }
    }
}

#[test]
fn solvers_resume_on_every_semidefinite_geometry() {
    metric_resumes("flat", Flat, 2);
    metric_resumes("polar", PolarPsd::default(), 2);
    metric_resumes("affine", Affine::default(), 5);
    metric_resumes("logdet", Affine { first_order: true }, 5);
    metric_resumes("log", LogEuclidean, 5);
}

#[test]
fn alternating_least_squares_resume() {
    let observed = observed(20, 16);
    for biases in [false, true] {
        let als = Als {
            entries: observed.part(Part::All),
            lambda: 0.05,
            power: 0.5,
            threads: 2,
        };
        let mut start = Fitted::empty((20, 16), 0.2, biases);
        (start.left, start.right) = (matrix(20, 2, 1), matrix(16, 2, 2));
        for (total, decrease) in [(5, 0.0), (5, 1e-4), (2000, 1e-4)] {
            let run =
                |state: Option<&SolverState>, iterations: usize, observer: Observer<'_, Fitted>| {
                    let limits = Limits {
                        decrease,
                        ..limits(iterations)
                    };
                    match state {
                        None => Ok(als.solve(start.clone(), limits, observer)),
                        Some(state) => als.resume(2, state, limits, observer),
                    }
                };
            resumes("als", &run, total, &fitted_bits);
        }
    }
}

#[test]
fn variational_bayes_resumes() {
    bayes_resumes(observed(30, 24).part(Part::All));
}

fn bayes_resumes<'a>(entries: View<'a>) {
    for (biases, implicit) in [(false, false), (true, false), (true, true)] {
        let bayes = Bayes {
            entries,
            rank: 5,
            prune: biases,
            biases,
            implicit,
            seed: 1,
            threads: 2,
        };
        for total in [5, 400] {
            let run = |state: Option<&SolverState>,
                       sweeps: usize,
                       observer: Observer<'_, Posterior<'a>>| {
                match state {
                    None => Ok(bayes.solve(sweeps, 1e-2, observer)),
                    Some(state) => bayes.resume(state, sweeps, 1e-2, observer),
                }
            };
            resumes("bayes", &run, total, &|at: &Posterior<'_>| {
                fitted_bits(&at.model())
            });
        }
    }
}

#[test]
fn singular_value_projection_resumes() {
    let observed = observed(20, 16);
    let svp = Svp {
        problem: Completion {
            entries: observed.part(Part::All),
            center: 0.1,
            threads: 2,
        },
    };
    for total in TOTALS {
        let run = |state: Option<&SolverState>,
                   iterations: usize,
                   observer: Observer<'_, (Mat<f64>, Mat<f64>)>| {
            let start = (matrix(20, 2, 1), matrix(16, 2, 2));
            match state {
                None => Ok(svp.solve(start, limits(iterations), observer)),
                Some(state) => svp.resume(2, state, limits(iterations), observer),
            }
        };
        resumes("svp", &run, total, &|(l, r)| {
            bits_of(&[l.clone(), r.clone()])
        });
    }
}

#[test]
fn information_theoretic_metrics_resume() {
    let x = matrix(12, 5, 1);
    let points = Points::dense(x.clone());
    let (distances, Bounds { list }) = bounds(&points);
    let pairs = distances.pairs().iter();
    let bounds: Vec<_> = pairs.zip(list).map(|(p, (b, y))| (*p, b, y)).collect();
    for total in [5, 1000] {
        let run = |state: Option<&SolverState>, rounds: usize, observer: Observer<'_, Mat<f64>>| {
            let itml = Itml {
                rounds,
                ..Itml::default()
            };
            match state {
                None => itml.solve(&x, &bounds, observer),
                Some(state) => itml.resume(&x, &bounds, state, observer),
            }
        };
        resumes("itml", &run, total, &|w: &Mat<f64>| {
            bits_of(std::slice::from_ref(w))
        });
    }
}
