//! A learner of your own: LORETA whose steps shrink where it has moved often,
//! feature by feature of the query. It is held to the laws of learners, then
//! trained, and saved as the form it works on: every command reads the file.
//!
//!     cargo run --release --example own_learner

use rankfold::data::Features;
use rankfold::form::{Form, Psd, Tall};
use rankfold::online::{Learned, Learner, LoretaPsd, Outcome, RankOne, Step};
use rankfold::random::Random;
use rankfold::{Loss, Model, Result, SparseVec, check};

/// Counts the moves of each feature and divides the step by their root.
struct Adaptive {
    inner: LoretaPsd<f32>,
    moves: Vec<f64>,
}

impl Adaptive {
    fn new(features: usize, rank: usize) -> Result<Self> {
        let factor = Tall::from_fn(features, rank, |i, j| f64::from(u8::from(i == j)))?;
        Ok(Adaptive {
            inner: LoretaPsd::new(Psd::new(factor)),
            moves: vec![0.0; features],
        })
    }
}

impl Learner<f32> for Adaptive {
    fn score(&mut self, example: RankOne<'_, f32>) -> f64 {
        self.inner.score(example)
    }

    fn learn(&mut self, example: RankOne<'_, f32>, target: f64, loss: Loss, step: Step) -> Learned {
        let features = example.left.indices.iter().map(|&i| i as usize);
        let most = features.clone().fold(0.0_f64, |m, i| m.max(self.moves[i]));
        let shorter = Step {
            size: step.size / (1.0 + most).sqrt(),
            ..step
        };
        let learned = self.inner.learn(example, target, loss, shorter);
        if learned.outcome == Outcome::Moved {
            features.for_each(|i| self.moves[i] += 1.0);
        }
        learned
    }

    fn grow(&mut self, left: usize, right: usize) -> Result<()> {
        self.moves.resize(left.max(self.moves.len()), 0.0);
        self.inner.grow(left, right)
    }
}

/// A row of one of five classes: a feature that tells the class, and noise.
fn row(class: usize, random: &mut Random) -> SparseVec<f32> {
    let mut features = vec![(class * 4 + random.below(4)) as u32];
    features.extend((0..5).map(|_| 20 + random.below(100) as u32));
    features.sort_unstable();
    features.dedup();
    SparseVec::from_entries(features.into_iter().map(|j| (j, 0.4)).collect())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut random = Random::new(1, 0);
    let pairs: Vec<_> = (0..30)
        .map(|i| (row(i % 5, &mut random), row((i + 1) % 5, &mut random)))
        .collect();
    let make = || Adaptive::new(120, 8).expect("a small learner");
    check::learner(make, &pairs, Step::new(1e-3))?;
    println!("it keeps the laws of learners");

    let mut learner = Adaptive::new(120, 8)?;
    let (mut wrong, mut difference) = ([0, 0], SparseVec::new());
    for step in 0..20_000 {
        let class = random.below(5);
        let (query, positive) = (row(class, &mut random), row(class, &mut random));
        let negative = row((class + 1 + random.below(4)) % 5, &mut random);
        difference.set_difference(positive.as_row(), negative.as_row());
        let example = RankOne {
            left: query.as_row(),
            right: difference.as_row(),
        };
        let learned = learner.learn(example, 1.0, Loss::Hinge, Step::new(30.0));
        wrong[usize::from(step >= 10_000)] += u32::from(learned.score <= 0.0);
    }
    println!(
        "triplets in the wrong order, of 10,000: first {}, then {}",
        wrong[0], wrong[1]
    );
    assert!(wrong[1] < wrong[0] / 2);

    let form = Form::Psd(learner.inner.into_form());
    let model = Model::new("adaptive-loreta", form, Features::Numbered);
    let path = std::env::temp_dir().join("own_learner.safetensors");
    model.save(&path)?;
    println!(
        "saved, and read back with rank {}",
        Model::load(&path)?.rank()
    );
    std::fs::remove_file(path)?;
    Ok(())
}
