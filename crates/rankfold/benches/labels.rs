//! A stream of rows with labels, up to a million labels and a million features:
//! labels scored and time a step with WARP, and the memory that it takes.
//!
//! `cargo bench --workspace --bench labels`

use rankfold::data::Features;
use rankfold::form::{Factored, Tall};
use rankfold::model::Prior;
use rankfold::model::{RankingRule, Sampler, Subgradient};
use rankfold::random::{Random, normal_at};
use rankfold::task::{Online, draws, warp};
use rankfold::{Ids, Model, SparseVec};
use std::time::Instant;

const RANK: usize = 50;
const NNZ: usize = 50;
const LABELS_A_ROW: usize = 3;
const STEPS: u64 = 1_000;
const ROUNDS: usize = 7;
const TRIALS: [usize; 3] = [1, 5, 20];
/// Labels that are not meant to violate the margin.
const LOW: f64 = -9.0;

struct Stream {
    size: usize,
    learner: Online<f32>,
    random: Random,
    /// For each number of trials: labels scored in a step, and seconds of each
    /// round.
    scored: [f64; 3],
    seconds: [Vec<f64>; 3],
}

impl Stream {
    /// As many labels as features.
    fn new(size: usize, sampler: Sampler) -> Self {
        let tall = |side: u64| {
            let entry = |i: usize, j: usize| 1e-2 * normal_at(1, side, i as u64, j as u64);
            Tall::from_fn(size, RANK, entry).expect("full rank")
        };
        let form = Factored::<f32>::new(tall(0), tall(1));
        let prior = Prior {
            bias: vec![LOW; size],
            ..Prior::new(vec![0; size], 1, 0.0)
        };
        let rule = RankingRule {
            sampler,
            gradient: Subgradient::Single,
            bias: 0.0,
        };
        let names: Ids = (0..size).map(|y| y.to_string()).collect();
        let model = Model::ranking(form, Features::Numbered, names, prior, rule, 1e-3);
        let learner = model.and_then(Model::into_learner);
        Stream {
            size,
            learner: learner.expect("a model at work"),
            random: Random::new(size as u64, 1),
            scored: [0.0; 3],
            seconds: Default::default(),
        }
    }

    /// A row, and labels that rise.
    fn example(&mut self) -> (SparseVec<f32>, Vec<u32>) {
        let scale = 1.0 / (NNZ as f32).sqrt();
        let entry = |random: &mut Random| (random.below(self.size) as u32, scale);
        let entries = (0..NNZ).map(|_| entry(&mut self.random)).collect();
        let row = SparseVec::from_entries(entries);
        let label = |_| self.random.below(self.size) as u32;
        let mut labels: Vec<u32> = (0..LABELS_A_ROW).map(label).collect();
        labels.sort_unstable();
        labels.dedup();
        (row, labels)
    }

    /// Steps whose first violation is found at this trial: the label that will be
    /// drawn then is known, and gets a bias that violates the margin.
    fn round(&mut self, which: usize) {
        let trials = TRIALS[which];
        let (mut seconds, mut scored, mut taken) = (0.0, 0, 0);
        while taken < STEPS {
            let (row, labels) = self.example();
            let step = self.learner.counters().steps;
            let mut asked = Vec::new();
            let last = warp(self.size, &labels, &mut draws(0, step), |label| {
                asked.push(label);
                match asked.len() {
                    1 => 0.0,
                    n if n == trials + 1 => -LOW,
                    _ => LOW,
                }
            });
            let last = last.expect("a violation").negative;
            let set = |learner: &mut Online<f32>, label, bias| {
                learner.set_label_bias(label, bias).expect("a label");
            };
            labels.iter().for_each(|&y| set(&mut self.learner, y, 0.0));
            // A label that comes twice would violate the margin too early.
            let twice = asked[..trials].contains(&last);
            if !twice {
                set(&mut self.learner, last, -LOW);
            }
            let before = self.learner.labels_scored();
            let start = Instant::now();
            let learned = self.learner.learn_labels(row.as_row(), &labels);
            let took = start.elapsed().as_secs_f64();
            assert!(learned.is_ok());
            if !twice {
                seconds += took;
                scored += self.learner.labels_scored() - before;
                taken += 1;
            }
            labels.iter().for_each(|&y| set(&mut self.learner, y, LOW));
            set(&mut self.learner, last, LOW);
        }
        self.scored[which] = scored as f64 / STEPS as f64;
        self.seconds[which].push(seconds / STEPS as f64);
    }

    fn median(&self, which: usize) -> f64 {
        let mut seconds = self.seconds[which].clone();
        seconds.sort_by(f64::total_cmp);
        seconds[seconds.len() / 2]
    }
}

/// The most memory the process has had, in MB, on Linux.
fn peak() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

fn main() {
    println!(
        "f32, rank {RANK}, {NNZ} non-zeros and {LABELS_A_ROW} labels a row, as many features as labels"
    );
    // The largest alone, for its memory.
    let mut streams = vec![Stream::new(1_000_000, Sampler::Warp)];
    (0..TRIALS.len()).for_each(|which| streams[0].round(which));
    let factors = 2.0 * 1e6 * RANK as f64 * 4.0 / 1e6;
    match peak() {
        Some(peak) => println!(
            "peak memory at 1000000: {peak:.0} MB; factors {factors:.0} MB, 1.2 times and 100 MB more {:.0} MB",
            1.2 * factors + 100.0
        ),
        None => println!("peak memory is not known here"),
    }
    streams.insert(0, Stream::new(100_000, Sampler::Warp));
    streams.insert(0, Stream::new(10_000, Sampler::Warp));
    for _ in 0..ROUNDS {
        for stream in &mut streams {
            (0..TRIALS.len()).for_each(|which| stream.round(which));
        }
    }
    println!(
        "{:>10} {:>16} {:>16} {:>10} {:>14}",
        "labels", "first violation", "labels scored", "µs/step", "of 10000"
    );
    for (which, trials) in TRIALS.into_iter().enumerate() {
        let base = streams[0].median(which);
        for stream in &streams {
            let (scored, median) = (stream.scored[which], stream.median(which));
            println!(
                "{:>10} {trials:>16} {scored:>16} {:>10.1} {:>14.2}",
                stream.size,
                1e6 * median,
                median / base
            );
        }
    }
    drop(streams);
    println!("all labels scored (`top`):");
    for size in [10_000, 100_000] {
        let mut stream = Stream::new(size, Sampler::Top);
        stream.round(0);
        println!(
            "{size:>10} {:>33} {:>10.1}",
            stream.scored[0],
            1e6 * stream.median(0)
        );
    }
}
