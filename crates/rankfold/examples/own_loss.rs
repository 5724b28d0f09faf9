//! A loss of your own: the logistic loss ln(1 + e^(−margin)) in place of the
//! hinge, with its slope held against finite differences first.
//!
//!     cargo run --release --example own_loss

use rankfold::form::{Form, Psd, Tall};
use rankfold::online::{Learner, LoretaPsd, RankOne, Step};
use rankfold::random::Random;
use rankfold::{Loss, SparseVec, check};

/// Value and slope. Far out on either side nothing overflows.
fn logistic(score: f64, target: f64) -> (f64, f64) {
    let margin = target * score;
    let value = (-margin.abs()).exp().ln_1p() + (-margin).max(0.0);
    (value, -target / (1.0 + margin.exp()))
}

/// A row of one of two classes: a feature that tells the class, and noise.
fn row(class: usize, random: &mut Random) -> SparseVec<f32> {
    let mut features = vec![(class * 10 + random.below(10)) as u32];
    features.extend((0..5).map(|_| 20 + random.below(100) as u32));
    features.sort_unstable();
    features.dedup();
    SparseVec::from_entries(features.into_iter().map(|j| (j, 0.4)).collect())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let loss = Loss::Custom(logistic);
    let off = check::loss(loss, 1.0, &[-30.0, -1.0, 0.0, 0.5, 3.0, 40.0]);
    println!("slope against finite differences: off by {off:.1e}");
    assert!(off < 1e-6);

    // Start with the identity on the first features.
    let factor = Tall::<f32>::from_fn(120, 8, |i, j| f64::from(u8::from(i == j)))?;
    let mut learner = LoretaPsd::new(Psd::new(factor));
    let mut random = Random::new(1, 0);
    let (mut wrong, mut difference) = ([0, 0], SparseVec::new());
    for step in 0..20_000 {
        let class = random.below(2);
        let (query, positive) = (row(class, &mut random), row(class, &mut random));
        let negative = row(1 - class, &mut random);
        difference.set_difference(positive.as_row(), negative.as_row());
        let example = RankOne {
            left: query.as_row(),
            right: difference.as_row(),
        };
        let learned = learner.learn(example, 1.0, loss, Step::new(3.0));
        wrong[usize::from(step >= 10_000)] += u32::from(learned.score <= 0.0);
    }
    println!(
        "triplets in the wrong order, of 10,000: first {}, then {}",
        wrong[0], wrong[1]
    );
    assert!(wrong[1] < wrong[0] / 2);

    let form = Form::Psd(learner.into_form());
    let largest = form.view().gauge().ok_or("full rank")?.singular_values[0];
    println!("the largest singular value of W: {largest:.2}");
    Ok(())
}
