//! The toy experiments of "Linear regression under fixed-rank constraints": pairs with
//! values y = zᵀ W x + ε, z of 50 and x of 25 normal numbers, W of rank 5, ε of
//! variance 0.01. Writes a table for each, and a picture.
//!
//! `cargo run --release --example toys -- docs/results/toys.svg`
//!
//! A second argument is the number of partitions of (b), by default 10. Without a
//! picture to write it does a tenth of the work, which takes seconds.

use faer::Mat;
use rankfold::batch::{Armijo, Limits, Objective, Penalty, Regression, Solver, SparsePairs};
use rankfold::data::{Features, Labelled, Labels, RowIds, ValuedPair};
use rankfold::manifold::{Balanced, Factors, FixedRank, Polar};
use rankfold::online::Rule;
use rankfold::random::normal_at;
use rankfold::task::{Event, Pairs, PairsData, TrainingData};
use rankfold::{Result, Rows, SparseVec};

const LEFT: usize = 50;
const RIGHT: usize = 25;
const RANK: usize = 5;

fn normal(rows: usize, columns: usize, seed: u64) -> Mat<f64> {
    Mat::from_fn(rows, columns, |i, j| normal_at(seed, 0, i as u64, j as u64))
}

/// Rows and pairs of a planted matrix: the t-th pair is of the t-th rows.
struct Toy {
    left: Labelled<f64>,
    right: Labelled<f64>,
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
            left: labelled(&z),
            right: labelled(&x),
            pairs: (0..count).map(pair).collect(),
        }
    }

    fn data(&self) -> TrainingData<'_, f64> {
        TrainingData {
            rows: &self.left,
            objects: Some(&self.right),
        }
    }
}

fn labelled(m: &Mat<f64>) -> Labelled<f64> {
    let row = |i: usize| {
        let values: Vec<f64> = (0..m.ncols()).map(|j| m[(i, j)]).collect();
        SparseVec::from_dense(&values)
    };
    let rows: Vec<_> = (0..m.nrows()).map(row).collect();
    let mut rows: Rows<f64> = rows.iter().map(SparseVec::as_row).collect();
    rows.widen(m.ncols());
    Labelled {
        rows,
        labels: Labels::default(),
        ids: RowIds::Positions,
        features: Features::Numbered,
    }
}

/// A line of a picture.
struct Line {
    name: &'static str,
    points: Vec<(f64, f64)>,
}

/// (a) Online: test error over steps, 40,000 pairs to learn from and 10,000 to judge.
fn online(whole: bool) -> Result<Vec<Line>> {
    let (train, test) = if whole {
        (40_000, 10_000)
    } else {
        (5_000, 1_000)
    };
    let toy = Toy::new(train + test, 1);
    let (train, test) = toy.pairs.split_at(train);
    let mut lines = Vec::new();
    for (name, rule) in [
        ("balanced", Rule::Balanced),
        ("polar", Rule::Polar),
        ("gradient (MMMF)", Rule::Gradient),
        ("loreta", Rule::Loreta),
    ] {
        let options = Pairs::new(rule)
            .rank(RANK)
            .epochs(1)
            .curve_every(1_000)
            .seed(1);
        let mut session = options.session(PairsData {
            data: toy.data(),
            pairs: train,
            valid: Some(test),
        })?;
        let mut points = Vec::new();
        loop {
            match session.advance(u64::MAX)? {
                Event::Measured(point) => {
                    points.push((point.counters.steps as f64, point.metrics["rmse"]));
                }
                Event::Finished(_) => break,
                _ => {}
            }
        }
        lines.push(Line { name, points });
    }
    Ok(lines)
}

/// (b) Batch: mean test error against the rank, over partitions of 3,000 pairs into
/// nine tenths and one.
fn ranks(whole: bool, parts: usize) -> Result<Vec<Line>> {
    let ranks = if whole { 1..=10 } else { 4..=6 };
    let toy = Toy::new(3_000, 11);
    let mut lines = Vec::new();
    for (name, rule) in [("balanced", Rule::Balanced), ("polar", Rule::Polar)] {
        let mut points = Vec::new();
        for rank in ranks.clone() {
            let mut sum = 0.0;
            for part in 0..parts {
                let (test, train): (Vec<ValuedPair>, Vec<ValuedPair>) = toy
                    .pairs
                    .iter()
                    .partition(|pair| pair.left as usize % 10 == part);
                let options = Pairs::new(rule)
                    .solver(rankfold::task::PairsSolver::Cg)
                    .rank(rank)
                    .iterations(if whole { 300 } else { 60 })
                    .step_size(1e-4)
                    .seed(part as u64);
                let model = options.fit(toy.data(), &train)?;
                let found = model.evaluate_pairs(&toy.left, Some(&toy.right), &test, None)?;
                sum += found.metrics["rmse"] / parts as f64;
            }
            points.push((rank as f64, sum));
        }
        lines.push(Line { name, points });
    }
    Ok(lines)
}

/// (c) Batch from uneven factors, ‖G₀‖ = 5‖H₀‖: cost over iterations of Armijo descent.
fn uneven() -> Vec<Line> {
    let toy = Toy::new(3_000, 21);
    let problem = SparsePairs {
        left: &toy.left.rows,
        right: &toy.right.rows,
        pairs: &toy.pairs,
    };
    let (g, h) = (normal(LEFT, RANK, 31), normal(RIGHT, RANK, 32));
    let ratio = 5.0 * h.norm_l2() / g.norm_l2();
    let g = faer::Scale(ratio.sqrt()) * g;
    let h = faer::Scale(ratio.sqrt().recip()) * h;
    fn run<M: FixedRank>(
        name: &'static str,
        problem: SparsePairs<'_, f64>,
        manifold: M,
        (g, h): (&Mat<f64>, &Mat<f64>),
    ) -> Line {
        let regression = Regression::new(problem, manifold, Penalty::Matrix(0.0));
        let start = regression.space.inner.point(g, h).expect("full rank");
        let armijo = Armijo {
            share: 0.5,
            longest: Some(100.0),
        };
        let limits = Limits {
            iterations: 100,
            decrease: 0.0,
            ..Limits::default()
        };
        let mut points = vec![(0.0, regression.cost(&start))];
        let solver = Solver::Descent(armijo);
        solver.solve(&regression, start, limits, &mut |step| {
            points.push((step.number as f64, step.cost));
            true
        });
        Line { name, points }
    }
    let polar = Polar {
        retraction: rankfold::linalg::Retraction::Uf,
    };
    vec![
        run("balanced", problem, Balanced, (&g, &h)),
        run("gradient (MMMF)", problem, Factors, (&g, &h)),
        run("polar", problem, polar, (&g, &h)),
    ]
}

fn table(title: &str, lines: &[Line], rows: impl Fn(f64) -> bool) {
    println!("\n{title}");
    print!("{:>10}", "");
    lines.iter().for_each(|line| print!(" {:>16}", line.name));
    println!();
    let longest = lines.iter().max_by_key(|line| line.points.len());
    let Some(longest) = longest else { return };
    for (i, &(x, _)) in longest.points.iter().enumerate() {
        if rows(x) {
            print!("{x:>10}");
            for line in lines {
                let y = line.points.get(i).or(line.points.last());
                print!(" {:>16.4}", y.map_or(f64::NAN, |point| point.1));
            }
            println!();
        }
    }
}

const COLORS: [&str; 4] = ["#1b6ca8", "#c0392b", "#2e8b57", "#8e6bbf"];

/// One plot with a logarithmic vertical axis.
fn plot(out: &mut String, (dx, title, across): (f64, &str, &str), lines: &[Line]) {
    let all = || lines.iter().flat_map(|line| line.points.iter().copied());
    let fold = |f: fn(f64, f64) -> f64, start: f64, pick: fn((f64, f64)) -> f64| {
        all().map(pick).filter(|v| v.is_finite()).fold(start, f)
    };
    let (x0, x1) = (
        fold(f64::min, f64::INFINITY, |p| p.0),
        fold(f64::max, 0.0, |p| p.0),
    );
    let low = fold(f64::min, f64::INFINITY, |p| p.1).log10().floor();
    let high = fold(f64::max, 0.0, |p| p.1).log10().ceil().max(low + 1.0);
    let (width, height) = (240.0, 180.0);
    let at = |(x, y): (f64, f64)| {
        let across = dx + 45.0 + width * (x - x0) / (x1 - x0);
        let down = 40.0 + height * (high - y.log10()) / (high - low);
        (across, down)
    };
    *out += &format!(
        "<text x=\"{}\" y=\"22\" class=\"t\">{title}</text>\n",
        dx + 45.0
    );
    for power in low as i32..=high as i32 {
        let (x, y) = at((x0, 10_f64.powi(power)));
        *out += &format!(
            "<path d=\"M{x:.1} {y:.1}h{width}\" class=\"g\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">1e{power}</text>\n",
            x - 5.0,
            y + 4.0
        );
    }
    for x in [x0, x1] {
        let (px, _) = at((x, 1.0));
        *out += &format!("<text x=\"{px:.1}\" y=\"236\" text-anchor=\"middle\">{x}</text>\n");
    }
    *out += &format!(
        "<text x=\"{:.1}\" y=\"236\" text-anchor=\"middle\">{across}</text>\n",
        dx + 45.0 + width / 2.0
    );
    for (i, line) in lines.iter().enumerate() {
        let path: Vec<String> = line
            .points
            .iter()
            .filter(|p| p.1.is_finite())
            .map(|&p| at(p))
            .map(|(x, y)| format!("{x:.1} {y:.1}"))
            .collect();
        *out += &format!(
            "<path d=\"M{}\" stroke=\"{}\" class=\"l\"/>\n",
            path.join("L"),
            COLORS[i]
        );
        let y = 254.0 + 15.0 * i as f64;
        *out += &format!(
            "<path d=\"M{:.1} {:.1}h18\" stroke=\"{}\" class=\"l\"/><text x=\"{:.1}\" y=\"{y}\">{}</text>\n",
            dx + 45.0,
            y - 4.0,
            COLORS[i],
            dx + 68.0,
            line.name
        );
    }
}

fn main() -> Result<()> {
    let picture = std::env::args().nth(1);
    let a = online(picture.is_some())?;
    table(
        "(a) online, test RMSE over steps (noise 0.1)",
        &a,
        |steps| [1e3, 5e3, 1e4, 2e4, 4e4].contains(&steps),
    );
    let parts = std::env::args().nth(2).and_then(|parts| parts.parse().ok());
    let parts = parts.unwrap_or(if picture.is_some() { 10 } else { 1 });
    let b = ranks(picture.is_some(), parts)?;
    table(
        "(b) batch, mean test RMSE over partitions, by rank",
        &b,
        |_| true,
    );
    let c = uneven();
    table(
        "(c) batch from uneven factors, cost over iterations",
        &c,
        |i| [0.0, 1.0, 5.0, 10.0, 20.0, 50.0, 100.0].contains(&i),
    );
    if let Some(path) = picture {
        let mut svg = String::from(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 930 320\" font-family=\"sans-serif\" font-size=\"11\">\n<style>.t{font-size:13px;font-weight:bold}.g{stroke:#ddd}.l{fill:none;stroke-width:1.6}</style>\n<rect width=\"930\" height=\"320\" fill=\"white\"/>\n",
        );
        plot(&mut svg, (0.0, "online: test RMSE", "steps"), &a);
        plot(&mut svg, (310.0, "batch: test RMSE", "rank"), &b);
        plot(
            &mut svg,
            (620.0, "batch from ‖G‖ = 5‖H‖: cost", "iterations"),
            &c,
        );
        svg += "</svg>\n";
        std::fs::write(&path, svg).map_err(|e| rankfold::Error::failure(format!("{path}: {e}")))?;
    }
    Ok(())
}
