//! Two geometries and plain factors from a bad start: pairs with values y = zᵀ W x + ε, z of
//! 50 and x of 25 normal numbers, W of rank 5, ε of variance 0.01, and descent that starts
//! from factors of which one is five times as long as the other.
//!
//! `cargo run --release --example toys -- uneven SEED` prints the cost by iteration, as JSON.

use std::collections::BTreeMap;

use faer::Mat;
use rankfold::batch::{Armijo, Limits, Objective, Penalty, Regression, Solver, SparsePairs};
use rankfold::data::ValuedPair;
use rankfold::linalg::Retraction;
use rankfold::manifold::{Balanced, Factors, FixedRank, Polar};
use rankfold::random::normal_at;
use rankfold::{Rows, SparseVec};

const LEFT: usize = 50;
const RIGHT: usize = 25;
const RANK: usize = 5;
const ITERATIONS: usize = 100;

fn normal(rows: usize, columns: usize, seed: u64) -> Mat<f64> {
    Mat::from_fn(rows, columns, |i, j| normal_at(seed, 0, i as u64, j as u64))
}

/// Rows and pairs of a planted matrix: the t-th pair is of the t-th rows.
struct Toy {
    left: Rows<f64>,
    right: Rows<f64>,
    pairs: Vec<ValuedPair>,
}

impl Toy {
    fn new(count: usize, seed: u64) -> Self {
        let w = normal(LEFT, RANK, seed) * normal(RIGHT, RANK, seed + 1).transpose();
        let (z, x) = (
            normal(count, LEFT, seed + 2),
            normal(count, RIGHT, seed + 3),
        );
        let scores = &z * w;
        let value = |t: usize| {
            let score: f64 = (0..RIGHT).map(|j| scores[(t, j)] * x[(t, j)]).sum();
            score + 0.1 * normal_at(seed + 4, 0, t as u64, 0)
        };
        let pair = |t: usize| ValuedPair {
            left: t as u32,
            right: t as u32,
            value: value(t),
        };
        Toy {
            left: rows(&z),
            right: rows(&x),
            pairs: (0..count).map(pair).collect(),
        }
    }
}

fn rows(m: &Mat<f64>) -> Rows<f64> {
    let row = |i: usize| {
        let values: Vec<f64> = (0..m.ncols()).map(|j| m[(i, j)]).collect();
        SparseVec::from_dense(&values)
    };
    let rows: Vec<_> = (0..m.nrows()).map(row).collect();
    let mut rows: Rows<f64> = rows.iter().map(SparseVec::as_row).collect();
    rows.widen(m.ncols());
    rows
}

/// The cost after each iteration of Armijo descent from these factors.
fn descent<M: FixedRank>(
    problem: SparsePairs<'_, f64>,
    manifold: M,
    (g, h): (&Mat<f64>, &Mat<f64>),
) -> Vec<(usize, f64)> {
    let regression = Regression::new(problem, manifold, Penalty::Matrix(0.0));
    let start = regression.space.inner.point(g, h).expect("full rank");
    let armijo = Armijo {
        share: 0.5,
        longest: Some(100.0),
    };
    let limits = Limits {
        iterations: ITERATIONS,
        decrease: 0.0,
        ..Limits::default()
    };
    let mut points = vec![(0, regression.cost(&start))];
    let solver = Solver::Descent(armijo);
    solver.solve(&regression, start, limits, &mut |step| {
        points.push((step.number, step.cost));
        true
    });
    points
}

fn uneven(seed: u64) -> BTreeMap<&'static str, Vec<(usize, f64)>> {
    // Seeds of numbers that belong together are neighbors.
    let seed = 100 * seed + 21;
    let toy = Toy::new(3_000, seed);
    let problem = SparsePairs {
        left: &toy.left,
        right: &toy.right,
        pairs: &toy.pairs,
    };
    let (g, h) = (
        normal(LEFT, RANK, seed + 10),
        normal(RIGHT, RANK, seed + 11),
    );
    let ratio = 5.0 * h.norm_l2() / g.norm_l2();
    let g = faer::Scale(ratio.sqrt()) * g;
    let h = faer::Scale(ratio.sqrt().recip()) * h;
    let polar = Polar {
        retraction: Retraction::Uf,
    };
    BTreeMap::from([
        ("balanced", descent(problem, Balanced, (&g, &h))),
        ("MMMF", descent(problem, Factors, (&g, &h))),
        ("polar", descent(problem, polar, (&g, &h))),
    ])
}

fn main() {
    let seed = std::env::args().nth(2).and_then(|seed| seed.parse().ok());
    let found = uneven(seed.unwrap_or(0));
    println!("{}", serde_json::to_string(&found).expect("finite numbers"));
}
