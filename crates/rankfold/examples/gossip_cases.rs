//! The planted problems of Mishra and others (2019), solved by agents: error on new entries and
//! consensus, slot by slot, as JSON lines.
//!
//! ```text
//! gossip_cases                                small sizes, a line for each method
//! gossip_cases run CASE METHOD SCHEDULE [SLOTS [A B]] [--share S] [--seed S]
//! gossip_cases grid CASE METHOD SCHEDULE [SLOTS]
//! ```
//!
//! CASE is 1, 2, 3, 4 or 6; METHOD `own`, `plain`, `scaled` or `euclidean`; SCHEDULE
//! `stochastic` or `parallel`; `--share S` makes all sizes smaller, 1 is those of the
//! paper; `--start own`, `shared` or `random` is where agents start: what they find alone,
//! which is usual with `own`, one random subspace for all, or one for each, which is usual
//! with the others.

use faer::Mat;
use rankfold::batch::{Observed, Part, Tasks};
use rankfold::gossip::{
    Columns, Euclidean, Graph, Regressions, Schedule, Settings, Simulation, Steps, Work, alone,
};
use rankfold::linalg::qf;
use rankfold::manifold::Grassmann;
use rankfold::random::{Random, normal_at};
use serde_json::json;
use std::time::Instant;

const AGENTS: usize = 6;
const RANK: usize = 5;

/// The share of a problem that each agent has, and other data to judge it by.
struct Problem<W> {
    works: Vec<W>,
    held: Vec<W>,
    rho: f64,
    /// The squares of all held data.
    scale: f64,
}

/// A matrix of rank 5 with noise 1e-6: singular values as Gaussian factors have them,
/// or falling to one part in `condition`.
fn planted(m: usize, n: usize, condition: Option<f64>, rho: f64, seed: u64) -> Problem<Columns> {
    let gaussian = |rows: usize, side: u64| {
        Mat::from_fn(rows, RANK, |i, a| normal_at(seed, side, i as u64, a as u64))
    };
    let (mut left, mut right) = (gaussian(m, 1), gaussian(n, 2));
    if let Some(condition) = condition {
        let fall = |a: usize| condition.powf(-(a as f64) / (RANK - 1) as f64);
        let squares: f64 = (0..RANK).map(|a| fall(a).powi(2)).sum();
        let size = ((m * n) as f64 / squares).sqrt();
        let basis = qf(&left).expect("full rank");
        left = Mat::from_fn(m, RANK, |i, a| basis[(i, a)] * fall(a) * size);
        right = qf(&right).expect("full rank");
    }
    let exact =
        |i: usize, j: usize| -> f64 { (0..RANK).map(|a| left[(i, a)] * right[(j, a)]).sum() };
    let mut random = Random::new(seed, 3);
    let mut draw = |count: usize, noise: f64| -> Observed {
        let entries = (0..count).map(|t| {
            let (i, j) = (random.below(m), random.below(n));
            let y = exact(i, j) + noise * normal_at(seed, 4, t as u64, 0);
            (i as u32, j as u32, y)
        });
        Observed::new((m, n), entries.collect()).expect("memory").0
    };
    let known = draw(6 * (m * RANK + n * RANK - RANK * RANK), 1e-6);
    let held = draw(20_000, 0.0);
    let share = |all: &Observed| -> Vec<Columns> {
        let part = |i: usize| i * n / AGENTS..(i + 1) * n / AGENTS;
        let columns = |i| Columns::new(all.part(Part::All), part(i), 0.0, 0.0);
        (0..AGENTS).map(|i| columns(i).expect("memory")).collect()
    };
    let view = held.part(Part::All);
    Problem {
        works: share(&known),
        scale: view.mean_square(0.0) * view.count as f64,
        held: share(&held),
        rho,
    }
}

/// The features and targets of each task of an agent.
type Rows = Vec<(Vec<f64>, Vec<f64>)>;

/// Tasks of 10 to 50 rows of 100 features, which share a subspace of five.
fn shared_tasks(count: usize, rho: f64, seed: u64) -> Problem<Regressions> {
    let m = 100;
    let normal = |side: u64, i: usize, j: usize| normal_at(seed, side, i as u64, j as u64);
    let u = qf(&Mat::from_fn(m, RANK, |i, a| normal(1, i, a))).expect("full rank");
    let mut random = Random::new(seed, 3);
    let mut row = 0;
    let mut scale = 0.0;
    let mut both: [Vec<Rows>; 2] = [Vec::new(), Vec::new()];
    for agent in 0..AGENTS {
        both.iter_mut().for_each(|side| side.push(Vec::new()));
        for t in agent * count / AGENTS..(agent + 1) * count / AGENTS {
            let w = Mat::from_fn(m, 1, |i, _| normal(2, t, i));
            let w = &u * (u.transpose() * w);
            let sizes = [10 + random.below(41), 5];
            for (side, size) in sizes.into_iter().enumerate() {
                let noise = if side == 0 { 1e-6 } else { 0.0 };
                let (mut x, mut y) = (Vec::new(), Vec::new());
                for _ in 0..size {
                    let features: Vec<f64> = (0..m).map(|j| normal(4, row, j)).collect();
                    let exact: f64 = (0..m).map(|j| features[j] * w[(j, 0)]).sum();
                    y.push(exact + noise * normal(5, row, 0));
                    if side == 1 {
                        scale += exact * exact;
                    }
                    x.extend(features);
                    row += 1;
                }
                both[side][agent].push((x, y));
            }
        }
    }
    let [works, held] = both.map(|side| -> Vec<Regressions> {
        let tasks = |tasks: &Rows| {
            let tasks = Tasks::new(m, tasks.iter().map(|(x, y)| (&x[..], &y[..])));
            Regressions::new(tasks.expect("memory"), 0.0)
        };
        side.iter().map(tasks).collect()
    });
    Problem {
        works,
        held,
        rho,
        scale,
    }
}

#[derive(Clone, Copy)]
enum Method {
    Own,
    Given { a: f64, b: f64, precondition: bool },
    Euclidean { a: f64, b: f64 },
}

#[derive(Clone, Copy)]
struct Run {
    schedule: Schedule,
    method: Method,
    slots: u64,
    seed: u64,
    threads: usize,
    start: Start,
}

/// Where agents start.
#[derive(Clone, Copy)]
enum Start {
    /// At what they find alone.
    Own,
    /// All at one random subspace.
    Shared,
    /// Each at a random subspace.
    Random,
}

/// What a slot came to.
struct Point {
    slot: u64,
    error: f64,
    consensus: f64,
}

impl<W: Work + Clone> Problem<W> {
    /// Where each agent starts.
    fn starts(&self, start: Start, seed: u64) -> Vec<Mat<f64>> {
        let m = self.works[0].dimension();
        let random = |side: u64| {
            qf(&Mat::from_fn(m, RANK, |i, j| {
                normal_at(seed, side, i as u64, j as u64)
            }))
        };
        let own = |i: usize| alone(&self.works[i], RANK, seed);
        let start = |i: usize| match start {
            Start::Own => own(i),
            Start::Shared => random(77),
            Start::Random => random(78 + i as u64),
        };
        (0..AGENTS).map(|i| start(i).expect("full rank")).collect()
    }

    /// Runs until `see` says that it is enough.
    fn run(&self, run: Run, see: &mut dyn FnMut(Point) -> bool) {
        let graph = Graph::path(AGENTS).expect("agents");
        match run.method {
            Method::Euclidean { a, b } => {
                let precondition = false;
                let steps = Steps::Given { a, b, precondition };
                self.run_plain(graph, steps, run, see);
            }
            Method::Own => self.run_agents(graph, Steps::Own, run, see),
            Method::Given { a, b, precondition } => {
                let steps = Steps::Given { a, b, precondition };
                self.run_agents(graph, steps, run, see);
            }
        }
    }

    fn settings(run: Run, steps: Steps) -> Settings {
        Settings {
            schedule: run.schedule,
            steps,
            seed: run.seed,
            threads: run.threads,
            ..Settings::default()
        }
    }

    fn run_agents(&self, graph: Graph, steps: Steps, run: Run, see: &mut dyn FnMut(Point) -> bool) {
        let settings = Self::settings(run, steps);
        let works = self.works.clone();
        let edges = graph.edges().to_vec();
        let starts = self.starts(run.start, run.seed);
        let simulation = Simulation::new(works, graph, self.rho, &starts, settings);
        let mut simulation = simulation.expect("a sound problem");
        for slot in 0..=run.slots {
            let agents = simulation.agents();
            let errors = agents.iter().zip(&self.held);
            let error: f64 = errors
                .map(|(agent, held)| agent.work().misfit(agent.local(), held).0)
                .sum();
            let apart = |&(i, j): &(usize, usize)| {
                Grassmann::distance(agents[i].subspace(), agents[j].subspace())
            };
            let point = Point {
                slot,
                error: (error / self.scale).sqrt(),
                consensus: edges.iter().map(apart).fold(0.0, f64::max),
            };
            if !see(point) || slot == run.slots {
                return;
            }
            simulation.slot().expect("no faults");
        }
    }

    fn run_plain(&self, graph: Graph, steps: Steps, run: Run, see: &mut dyn FnMut(Point) -> bool) {
        let settings = Self::settings(run, steps);
        let starts = self.starts(run.start, run.seed);
        let euclidean = Euclidean::new(self.works.clone(), graph, self.rho, &starts, settings);
        let mut euclidean = euclidean.expect("a sound problem");
        for slot in 0..=run.slots {
            // The weights of an agent do not depend on the basis of its columns.
            let bases: Vec<Option<Mat<f64>>> = euclidean.points().iter().map(qf).collect();
            let mut error = 0.0;
            for ((work, held), u) in self.works.iter().zip(&self.held).zip(&bases) {
                error += match u {
                    Some(u) => work.misfit(&work.local(u, None), held).0,
                    None => f64::INFINITY,
                };
            }
            let point = Point {
                slot,
                error: (error / self.scale).sqrt(),
                consensus: euclidean.status().consensus,
            };
            if !see(point) || slot == run.slots {
                return;
            }
            euclidean.slot();
        }
    }

    /// The largest weighted curvature of an agent, near the truth: what step sizes
    /// are measured in.
    fn curvature(&self) -> f64 {
        let run = Run {
            schedule: Schedule::Parallel,
            method: Method::Own,
            slots: 20,
            seed: 1,
            threads: 2,
            start: Start::Own,
        };
        let graph = Graph::path(AGENTS).expect("agents");
        let settings = Settings {
            threads: run.threads,
            ..Settings::default()
        };
        let works = self.works.clone();
        let starts = self.starts(run.start, run.seed);
        let simulation = Simulation::new(works, graph, self.rho, &starts, settings);
        let mut simulation = simulation.expect("a sound problem");
        for _ in 0..run.slots {
            simulation.slot().expect("no faults");
        }
        let largest = simulation.agents().iter().map(|agent| agent.curvature());
        largest.fold(0.0, f64::max)
    }

    /// The best of five sizes and five rates, by the slots to an error of 1e-3.
    fn grid(&self, case: &str, method: &str, run: Run) {
        let scale = match method {
            "scaled" => 1.0,
            _ => 1.0 / (self.curvature() + self.rho),
        };
        let factors: [f64; 5] = match method {
            "scaled" => [0.5, 2.0, 8.0, 32.0, 128.0],
            _ => [0.5, 1.0, 2.0, 4.0, 8.0],
        };
        let mut best = (run.slots, None);
        for factor in factors {
            for b in [0.0, 1e-3, 1e-2, 3e-2, 1e-1] {
                let a = factor * scale;
                let method = named(method, a, b);
                let (mut reached, mut last) = (None, f64::NAN);
                // More slots than the best so far tell nothing.
                let run = Run {
                    method,
                    slots: best.0,
                    ..run
                };
                self.run(run, &mut |point| {
                    last = point.error;
                    if point.error < 1e-3 {
                        reached = Some(point.slot);
                    }
                    reached.is_none() && point.error.is_finite()
                });
                if let Some(slot) = reached {
                    best = (slot, Some((a, b)));
                }
                let line = json!({"case": case, "a": a, "b": b, "factor": factor,
                    "slots": reached, "error": last, "limit": run.slots});
                println!("{line}");
            }
        }
        let line = json!({"case": case, "best": best.1.map(|_| best.0),
            "a": best.1.map(|(a, _)| a), "b": best.1.map(|(_, b)| b)});
        println!("{line}");
    }
}

fn named(method: &str, a: f64, b: f64) -> Method {
    match method {
        "own" => Method::Own,
        "plain" | "scaled" => Method::Given {
            a,
            b,
            precondition: method == "scaled",
        },
        "euclidean" => Method::Euclidean { a, b },
        other => panic!("expected own, plain, scaled or euclidean, found `{other}`"),
    }
}

/// What was asked for.
struct Asked {
    words: Vec<String>,
    share: f64,
    seed: u64,
    threads: usize,
    start: String,
}

fn carry_out<W: Work + Clone>(problem: &Problem<W>, asked: &Asked) {
    let word = |i: usize| asked.words.get(i).map(String::as_str);
    let number = |i: usize| word(i).map(|w| w.parse::<f64>().expect("a number"));
    let (case, method) = (word(1).unwrap_or("1"), word(2).unwrap_or("own"));
    let schedule = match word(3).unwrap_or("stochastic") {
        "stochastic" => Schedule::Stochastic,
        _ => Schedule::Parallel,
    };
    let run = Run {
        schedule,
        method: named(method, number(5).unwrap_or(0.0), number(6).unwrap_or(0.0)),
        slots: number(4).unwrap_or(1000.0) as u64,
        seed: asked.seed,
        threads: asked.threads,
        start: match (asked.start.as_str(), method) {
            ("own", _) | ("", "own") => Start::Own,
            ("shared", _) => Start::Shared,
            _ => Start::Random,
        },
    };
    if word(0) == Some("grid") {
        return problem.grid(case, method, run);
    }
    let started = Instant::now();
    problem.run(run, &mut |point| {
        let line = json!({"case": case, "method": method, "schedule": word(3),
            "seed": asked.seed, "slot": point.slot, "error": point.error,
            "consensus": point.consensus, "seconds": started.elapsed().as_secs_f64()});
        println!("{line}");
        point.error.is_finite()
    });
}

fn main() {
    let mut asked = Asked {
        words: Vec::new(),
        share: 1.0,
        seed: 0,
        threads: 2,
        start: String::new(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--start" {
            asked.start = arguments.next().expect("a value");
            continue;
        }
        let mut value = || {
            let value = arguments.next().expect("a value");
            value.parse::<f64>().expect("a number")
        };
        match argument.as_str() {
            "--share" => asked.share = value(),
            "--seed" => asked.seed = value() as u64,
            "--threads" => asked.threads = value() as usize,
            _ => asked.words.push(argument),
        }
    }
    if asked.words.is_empty() {
        asked.share = 0.01;
        let small = |case: &str| {
            ["run", case, "own", "parallel", "30"]
                .map(str::to_owned)
                .to_vec()
        };
        for case in ["1", "3", "6"] {
            asked.words = small(case);
            solve(&asked);
        }
        return;
    }
    solve(&asked);
}

fn solve(asked: &Asked) {
    let size = |full: usize| ((full as f64 * asked.share) as usize).max(60);
    let problem = |m, n, condition, rho: f64| {
        carry_out(
            &planted(size(m), size(n), condition, rho, asked.seed),
            asked,
        )
    };
    match asked.words.get(1).map_or("1", String::as_str) {
        "1" => problem(10_000, 100_000, None, 1e3 * asked.share),
        "2" => problem(10_000, 100_000, None, 1e10),
        "3" => problem(5_000, 50_000, Some(500.0), 1e3 * asked.share),
        "4" => problem(500, 12_000, None, 1e3 * asked.share),
        "6" => carry_out(&shared_tasks(size(1_000), 1e3, asked.seed), asked),
        other => panic!("expected case 1, 2, 3, 4 or 6, found `{other}`"),
    }
}
