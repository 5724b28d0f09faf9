//! What an agent finds by itself, before its first message: directions one after the
//! other, each the leading one of what is left, with a few steps on the own cost in
//! between. Subspaces of badly conditioned data are found like this and not from a
//! random start.

use super::own::Course;
use super::work::{Local, Work};
use crate::linalg::qf;
use crate::manifold::beside;
use crate::random::normal_at;
use faer::Mat;

/// The side of random numbers that power iterations start from.
const START: u64 = 0x6765;

/// Power iterations for a direction: it is wanted, not its digits.
const POWERS: usize = 8;

/// Steps after each direction but the last.
const STEPS: usize = 4;

/// A subspace that the data of one agent points to; random in directions that it says
/// nothing of. `None` where a number is not finite.
pub fn alone<W: Work>(work: &W, rank: usize, seed: u64) -> Option<Mat<f64>> {
    let mut local: Option<Local> = None;
    let mut u = Mat::zeros(work.dimension(), 0);
    for s in 0..rank {
        u = qf(&beside(&u, &direction(work, local.as_ref(), &u, seed)))?;
        if s + 1 < rank {
            let mut there = work.local(&u, None);
            let mut course = Course::default();
            for _ in 0..STEPS {
                course.step(work, &mut there, &[], 0.0, f64::INFINITY);
            }
            u = there.u.clone();
            local = Some(there);
        }
    }
    Some(u)
}

/// The leading direction of what is left, orthogonal to U.
fn direction(work: &impl Work, at: Option<&Local>, u: &Mat<f64>, seed: u64) -> Mat<f64> {
    let m = u.nrows();
    let apart = |v: Mat<f64>| -> Mat<f64> {
        let v = &v - u * (u.transpose() * &v);
        let v = &v - u * (u.transpose() * &v);
        faer::Scale(1.0 / v.norm_l2()) * v
    };
    let entry = |i, _| normal_at(seed, START, i as u64, u.ncols() as u64);
    let random = apart(Mat::from_fn(m, 1, entry));
    let mut v = random.clone();
    for _ in 0..POWERS {
        let numbers: Vec<f64> = (0..m).map(|i| v[(i, 0)]).collect();
        let next = work.left_over(at, &numbers);
        let next = Mat::from_fn(m, 1, |i, _| next[i]);
        let size = next.norm_l2();
        let next = apart(next);
        // Nothing is left to explain.
        if !(size > 0.0) || !next.is_all_finite() {
            return random;
        }
        v = next;
    }
    v
}
