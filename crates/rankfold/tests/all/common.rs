//! What tests of several learners need.

use crate::oracle::{M, norm};
use rankfold::form::Tall;
use rankfold::online::{Rule, Step};
use rankfold::options::Options;
use rankfold::{Real, Similarity};

/// Sizes that break things: tall, wide, rank 1, rank of the smaller side.
pub const SIZES: [(usize, usize, usize); 6] = [
    (7, 6, 2),
    (5, 5, 1),
    (4, 9, 4),
    (12, 3, 3),
    (30, 20, 5),
    (9, 9, 8),
];

pub fn tall<R: Real>(m: &M) -> Tall<R> {
    Tall::from_fn(m.nrows(), m.ncols(), |i, j| m[(i, j)]).unwrap()
}

/// Every rule that a task learns by.
pub fn rules<O: Options>() -> Vec<Rule> {
    let learner = O::specs().iter().find(|spec| spec.name == "learner");
    let choices = learner.expect("a choice of learners").choices();
    let rules = choices.iter().map(|choice| choice.name.parse().unwrap());
    rules.collect()
}

/// Options of a rule, with a rank where it has one.
pub fn similarity(rule: Rule, rank: usize) -> Similarity {
    let options = Similarity::new(rule);
    match rule.is_low_rank() {
        true => options.rank(rank),
        false => options,
    }
}

/// Without the guard, as the papers have it, and with the usual one. Steps that are
/// short enough must not tell them apart.
pub const LIMITS: [f64; 2] = [f64::INFINITY, Step::LIMIT];

/// The paper's step: no limit.
pub fn paper(size: f64) -> Step {
    Step {
        size,
        limit: f64::INFINITY,
    }
}

#[track_caller]
pub fn close(what: &str, got: &M, want: &M, tolerance: f64) {
    let error = norm(&(got - want)) / norm(want).max(1.0);
    assert!(
        error <= tolerance,
        "{what}: relative error {error:e} above {tolerance:e}"
    );
}

/// The bytes of a model file with the checksum that they should have.
pub fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    use std::hash::Hasher;
    let end = bytes.len() - 8;
    let mut sum = twox_hash::XxHash64::with_seed(0);
    sum.write(&bytes[..end]);
    bytes[end..].copy_from_slice(&sum.finish().to_le_bytes());
    bytes
}
