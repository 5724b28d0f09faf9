//! AROMA at sparse cost against plain dense updates, in one program and one
//! thread: f64, 1,000 features on each side, 27 non-zeros a row.
//!
//! `cargo bench --workspace --bench aroma`, or with `-- 'blocks of 64'` what has
//! that in its name.

use rankfold::form::{Diagonal, Gaussian};
use rankfold::online::{AromaDiagonal, AromaFactored, AromaOptions, Learner, RankOne, Step};
use rankfold::random::{Random, normal_at};
use rankfold::{Loss, SparseVec};
use std::hint::black_box;
use std::time::Instant;

const N: usize = 1_000;
const NNZ: usize = 27;
const ROUNDS: usize = 15;
const SPARSE_STEPS: usize = 1_024;
const DENSE_STEPS: usize = 30;
const BLOCKS: [usize; 8] = [1, 4, 16, 32, 64, 128, 256, 512];
const R: f64 = 1.0;

fn rows(seed: u64) -> Vec<SparseVec<f64>> {
    let mut random = Random::new(seed, 0);
    let scale = 1.0 / (NNZ as f64).sqrt();
    let mut row = |i: usize| {
        let mut entries = std::collections::BTreeMap::new();
        while entries.len() < NNZ {
            let value = scale * normal_at(seed, 0, i as u64, entries.len() as u64);
            entries.insert(random.below(N) as u32, value);
        }
        SparseVec::from_entries(entries.into_iter().collect())
    };
    (0..SPARSE_STEPS).map(&mut row).collect()
}

/// Every example has the same loss, so that each step moves.
fn loss() -> Loss {
    Loss::Custom(|_, _| (1.0, -1.0))
}

/// `y += c x`.
#[inline(always)]
fn add_scaled(y: &mut [f64], c: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += c * x;
    }
}

/// W, Λ and Ω as plain matrices, updated in place row by row, each in one pass.
struct Dense {
    w: Vec<f64>,
    lambda: Vec<f64>,
    omega: Vec<f64>,
    x: Vec<f64>,
    y: Vec<f64>,
}

impl Dense {
    fn new() -> Self {
        let identity = || (0..N * N).map(|i| f64::from(u8::from(i % (N + 1) == 0)));
        Dense {
            w: vec![0.0; N * N],
            lambda: identity().collect(),
            omega: identity().collect(),
            x: vec![0.0; N],
            y: vec![0.0; N],
        }
    }

    /// The margin has no part in what a step costs, so it is not computed.
    fn step(&mut self, q: &SparseVec<f64>, p: &SparseVec<f64>) {
        fn spread(out: &mut [f64], matrix: &[f64], x: &SparseVec<f64>) -> f64 {
            out.fill(0.0);
            for (i, v) in x.as_row().iter() {
                add_scaled(out, v, &matrix[i as usize * N..][..N]);
            }
            x.as_row().iter().map(|(i, v)| v * out[i as usize]).sum()
        }
        fn outer(matrix: &mut [f64], c: f64, left: &[f64], right: &[f64]) {
            for (row, l) in matrix.chunks_exact_mut(N).zip(left) {
                add_scaled(row, c * l, right);
            }
        }
        let a = spread(&mut self.x, &self.lambda, q);
        let b = spread(&mut self.y, &self.omega, p);
        let n = N as f64;
        outer(&mut self.w, 1.0 / (R + a * b), &self.x, &self.y);
        outer(&mut self.omega, -a / (n * R + a * b), &self.y, &self.y);
        outer(&mut self.lambda, -b / (n * R + a * b), &self.x, &self.x);
    }
}

/// The diagonal Gaussian with all entries touched: one pass to sum, one to move.
struct DenseDiagonal {
    w: Vec<f64>,
    sigma: Vec<f64>,
    q: Vec<f64>,
    p: Vec<f64>,
}

impl DenseDiagonal {
    fn new() -> Self {
        DenseDiagonal {
            w: vec![0.0; N * N],
            sigma: vec![1.0; N * N],
            q: vec![0.0; N],
            p: vec![0.0; N],
        }
    }

    fn step(&mut self, q: &SparseVec<f64>, p: &SparseVec<f64>) {
        for (dense, row) in [(&mut self.q, q), (&mut self.p, p)] {
            dense.fill(0.0);
            row.as_row().iter().for_each(|(i, v)| dense[i as usize] = v);
        }
        let mut d = R;
        for (sigma, q) in self.sigma.chunks_exact(N).zip(&self.q) {
            let mut sums = [0.0; 8];
            for (sigma, p) in sigma.chunks_exact(8).zip(self.p.chunks_exact(8)) {
                for j in 0..8 {
                    sums[j] += sigma[j] * p[j] * p[j];
                }
            }
            d += q * q * sums.iter().sum::<f64>();
        }
        let c = 1.0 / d;
        let rows = self
            .w
            .chunks_exact_mut(N)
            .zip(self.sigma.chunks_exact_mut(N));
        for ((w, sigma), q) in rows.zip(&self.q) {
            for ((w, sigma), p) in w.iter_mut().zip(sigma).zip(&self.p) {
                let step = *sigma * q * p;
                *w += c * step;
                *sigma -= c * step * step;
            }
        }
    }
}

/// A step on an example.
type TakeStep = dyn FnMut(&SparseVec<f64>, &SparseVec<f64>);

/// Seconds a step, the median of the rounds.
struct Measured {
    name: String,
    steps: usize,
    run: Box<TakeStep>,
    seconds: Vec<f64>,
}

impl Measured {
    fn new(
        name: &str,
        steps: usize,
        run: impl FnMut(&SparseVec<f64>, &SparseVec<f64>) + 'static,
    ) -> Self {
        Measured {
            name: name.into(),
            steps,
            run: Box::new(run),
            seconds: Vec::new(),
        }
    }

    fn learner(name: &str, mut learner: impl Learner<f64> + 'static) -> Self {
        Self::new(name, SPARSE_STEPS, move |q, p| {
            let example = RankOne {
                left: q.as_row(),
                right: p.as_row(),
            };
            black_box(learner.learn(example, 1.0, loss(), Step::new(R)));
        })
    }

    fn round(&mut self, q: &[SparseVec<f64>], p: &[SparseVec<f64>]) {
        let start = Instant::now();
        for (q, p) in q.iter().zip(p).take(self.steps) {
            (self.run)(q, p);
        }
        let seconds = start.elapsed().as_secs_f64() / self.steps as f64;
        self.seconds.push(seconds);
    }

    fn median(&self) -> f64 {
        let mut seconds = self.seconds.clone();
        seconds.sort_by(f64::total_cmp);
        seconds[seconds.len() / 2]
    }
}

fn main() {
    let (q, p) = (rows(1), rows(2));
    let factored = |block: usize| {
        let form = Gaussian::new(N, N, 0.0).expect("it fits");
        AromaFactored::new(form.with_block(block), AromaOptions::default())
    };
    let diagonal = |form| AromaDiagonal::new(form, AromaOptions::default());
    let (mut dense, mut plain) = (Dense::new(), DenseDiagonal::new());
    let (mut from, mut to) = (vec![1.0; 3 * N * N], vec![0.0; 3 * N * N]);
    let mut all = vec![
        Measured::new("streaming y += c x over 24 MB", 10, move |_, _| {
            add_scaled(&mut to, 1e-3, &from);
            from[0] = black_box(to[1]);
        }),
        Measured::new("factored, dense in place", DENSE_STEPS, move |q, p| {
            dense.step(q, p);
        }),
        Measured::new("diagonal, dense in place", DENSE_STEPS, move |q, p| {
            plain.step(q, p);
        }),
        Measured::learner(
            "diagonal, dense storage",
            diagonal(Diagonal::new(N, N, 0.0)),
        ),
        Measured::learner(
            "diagonal, touched entries only",
            diagonal(Diagonal::sparse(N, N, 0.0)),
        ),
    ];
    for block in BLOCKS {
        let name = format!("factored, blocks of {block}");
        all.push(Measured::learner(&name, factored(block)));
    }
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    all.retain(|one| {
        wanted
            .as_ref()
            .is_none_or(|text| one.name.contains(text.as_str()))
    });
    for _ in 0..ROUNDS {
        all.iter_mut().for_each(|one| one.round(&q, &p));
    }
    println!("f64, {N} × {N}, {NNZ} non-zeros a row, one thread");
    println!("{:<34} {:>12}", "", "µs a step");
    for one in &all {
        println!("{:<34} {:>12.2}", one.name, 1e6 * one.median());
    }
    if wanted.is_some() {
        return;
    }
    let of = |name: &str| {
        let found = all.iter().find(|one| one.name == name);
        found.expect("measured").median()
    };
    let size = (N * N * 8) as f64;
    let speed = |bytes: f64, name: &str| bytes / of(name) / 1e9;
    println!(
        "streaming: {:.1} GB/s read and written",
        speed(9.0 * size, "streaming y += c x over 24 MB")
    );
    println!(
        "dense in place: factored {:.1} GB/s (three matrices read and written), diagonal {:.1} GB/s (five passes)",
        speed(6.0 * size, "factored, dense in place"),
        speed(5.0 * size, "diagonal, dense in place")
    );
    println!(
        "factored: {:.1} times faster than dense in place; diagonal: {:.0} times",
        of("factored, dense in place") / of("factored, blocks of 64"),
        of("diagonal, dense in place") / of("diagonal, dense storage")
    );
}
