//! Public checks: what a form claims about itself, measured, and what a loss,
//! a learner, a geometry or a task of your own must keep to.

pub use crate::manifold::laws::{geometry, semidefinite, subspaces};
pub use crate::task::laws::task;

use crate::form::{Factored, Orthonormal, Polar, PolarPsd, Psd, Tall};
use crate::linalg::Square;
use crate::online::{Learner, Outcome, RankOne, Step};
use crate::sample::TripletSource;
use crate::{Loss, Real, SparseVec};

/// How far the tracked small state is from the truth, as relative errors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StateReport {
    /// ‖S − ÃᵀÃ‖ / ‖S‖, the worse side.
    pub gram: f64,
    /// ‖S S⁻¹ − I‖, the worse side.
    pub gram_inverse: f64,
    /// ‖K K⁻¹ − I‖.
    pub core_inverse: f64,
}

/// Compares the tracked Gram matrices and inverses of a form with its rows.
pub fn factored<R: Real>(form: &Factored<R>) -> StateReport {
    let (left, right) = (tall(&form.left), tall(&form.right));
    StateReport {
        gram: left.0.max(right.0),
        gram_inverse: left.1.max(right.1),
        core_inverse: residual(&form.core, &form.core_inverse),
    }
}

/// Compares the tracked Gram matrix and inverses of a form with its rows.
pub fn psd<R: Real>(form: &Psd<R>) -> StateReport {
    let (gram, gram_inverse) = tall(&form.factor);
    StateReport {
        gram,
        gram_inverse,
        core_inverse: residual(&form.core, &form.core_inverse),
    }
}

/// How far the factors of a polar form are from orthonormal, and its tracked small
/// state from the truth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PolarReport {
    /// ‖UᵀU − I‖ and ‖VᵀV − I‖ from the rows, the worse side.
    pub orthonormal: f64,
    /// ‖G − ŨᵀŨ‖ / ‖G‖, the worse side.
    pub gram: f64,
    /// ‖C C⁻¹ − I‖, the worse side.
    pub inverse: f64,
}

/// Compares the tracked matrices of a polar form with its rows.
pub fn polar<R: Real>(form: &Polar<R>) -> PolarReport {
    let (left, right) = (orthonormal(&form.left), orthonormal(&form.right));
    PolarReport {
        orthonormal: left.orthonormal.max(right.orthonormal),
        gram: left.gram.max(right.gram),
        inverse: left.inverse.max(right.inverse),
    }
}

/// Compares the tracked matrices of a polar form of one factor with its rows.
pub fn polar_psd<R: Real>(form: &PolarPsd<R>) -> PolarReport {
    orthonormal(&form.factor)
}

fn orthonormal<R: Real>(side: &Orthonormal<R>) -> PolarReport {
    let off = side.gram.to_faer() - side.tall.gram_now().to_faer();
    PolarReport {
        orthonormal: side.skewness(),
        gram: off.norm_l2() / side.gram.norm(),
        inverse: residual(&side.map, &side.inverse),
    }
}

fn tall<R: Real>(tall: &Tall<R>) -> (f64, f64) {
    let mut fresh = tall.clone();
    fresh.recompute_gram();
    let off = tall.gram.to_faer() - fresh.gram.to_faer();
    (
        off.norm_l2() / tall.gram.norm(),
        residual(&tall.gram, &tall.gram_inverse),
    )
}

fn residual(a: &Square, inverse: &Square) -> f64 {
    let k = a.size();
    (a.to_faer() * inverse.to_faer() - faer::Mat::<f64>::identity(k, k)).norm_l2()
}

/// The largest difference between the slope of a loss and its finite
/// differences at these scores, relative to 1 + its value. Infinite where a
/// value is negative or not finite. Keep away from kinks.
pub fn loss(loss: Loss, target: f64, scores: &[f64]) -> f64 {
    let h = 1e-6;
    let off = |&score: &f64| {
        let (value, slope) = loss.at(score, target);
        let (ahead, behind) = (loss.at(score + h, target).0, loss.at(score - h, target).0);
        let difference = (ahead - behind) / (2.0 * h);
        let off = (slope - difference).abs() / (1.0 + value);
        if value >= 0.0 && off.is_finite() {
            off
        } else {
            f64::INFINITY
        }
    };
    scores.iter().map(off).fold(0.0, f64::max)
}

/// What any learner must keep to, tried on some examples of yours, each a left
/// and a right row: `make` gives a fresh learner, the same one each time.
///
/// - To score is to look: the same bits again, and the score that learning sees.
/// - A flat loss leaves W as it is.
/// - A step that moves W makes the loss of its example smaller, if it is small;
///   a step that does not, leaves its score as it was.
/// - Growth leaves all scores as they are.
/// - The same examples give the same learner.
///
/// Says the first law that is broken, and where.
pub fn learner<R: Real, L: Learner<R>>(
    make: impl Fn() -> L,
    examples: &[(SparseVec<R>, SparseVec<R>)],
    step: Step,
) -> std::result::Result<(), String> {
    let example = |i: usize| RankOne {
        left: examples[i].0.as_row(),
        right: examples[i].1.as_row(),
    };
    let all = |learner: &mut L| -> Vec<f64> {
        let scores = (0..examples.len()).map(|i| learner.score(example(i)));
        scores.collect()
    };
    let same = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
    let (mut one, mut other) = (make(), make());
    for i in 0..examples.len() {
        let before = all(&mut one);
        if !same(&before, &all(&mut one)) {
            return Err(format!("before example {i}, scoring changes scores"));
        }
        // A flat loss.
        let flat = one.learn(example(i), 0.0, Loss::Custom(|_, _| (0.0, 0.0)), step);
        if flat.outcome != Outcome::Idle || !same(&before, &all(&mut one)) {
            return Err(format!("example {i}: a flat loss moves W"));
        }
        other.learn(example(i), 0.0, Loss::Custom(|_, _| (0.0, 0.0)), step);
        let target = before[i] + 1.0;
        let learned = one.learn(example(i), target, Loss::Squared, step);
        let second = other.learn(example(i), target, Loss::Squared, step);
        if learned.score.to_bits() != before[i].to_bits() {
            return Err(format!(
                "example {i}: learning sees the score {}, scoring {}",
                learned.score, before[i]
            ));
        }
        let after = one.score(example(i));
        let off = (after - target).abs();
        match learned.outcome {
            Outcome::Moved if off >= 1.0 => {
                return Err(format!(
                    "example {i}: a step moves the score from {} to {after}, its target is {target}",
                    before[i]
                ));
            }
            Outcome::Idle | Outcome::Refused if after.to_bits() != before[i].to_bits() => {
                return Err(format!("example {i}: W moves, but the learner denies it"));
            }
            _ => {}
        }
        if learned != second || !same(&all(&mut one), &all(&mut other)) {
            return Err(format!("example {i}: two learners part that saw the same"));
        }
    }
    let before = all(&mut one);
    let beyond = |row: &SparseVec<R>| row.as_row().indices.last().map_or(0, |&i| i as usize + 1);
    let (mut left, mut right) = (3, 3);
    for (l, r) in examples {
        (left, right) = (left.max(beyond(l) + 3), right.max(beyond(r) + 3));
    }
    one.grow(left, right)
        .map_err(|e| format!("growth fails: {e}"))?;
    match same(&before, &all(&mut one)) {
        true => Ok(()),
        false => Err("growth changes scores".into()),
    }
}

/// What a source of triplets must keep to, over its first `draws` draws, for so
/// many rows (and objects, where positives and negatives are such): it names
/// rows there are, a copy draws the same, and from a place where it once stood it
/// draws what it drew then. Says the first law that is broken, and where.
pub fn source(
    source: &dyn TripletSource,
    rows: usize,
    objects: usize,
    draws: usize,
) -> std::result::Result<(), String> {
    let (mut one, mut copy) = (source.boxed(), source.boxed());
    let mut drawn = Vec::with_capacity(draws);
    for i in 0..draws {
        let place = one.position();
        let triplet = one.draw();
        let inside = (triplet.query as usize) < rows
            && (triplet.positive as usize) < objects
            && (triplet.negative as usize) < objects;
        if !inside {
            return Err(format!(
                "draw {i} names a row that is not there: {triplet:?}"
            ));
        }
        if copy.draw() != triplet {
            return Err(format!("draw {i}: a copy draws something else"));
        }
        drawn.push((place, triplet));
    }
    for (i, &(place, triplet)) in drawn.iter().enumerate().rev() {
        if !one.seek(place) {
            return Err(format!(
                "it cannot go back to where it stood before draw {i}"
            ));
        }
        let next = drawn.get(i + 1).map(|later| later.1);
        if one.draw() != triplet || next.is_some_and(|next| one.draw() != next) {
            return Err(format!(
                "from the place before draw {i} it draws something else"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::{Diagonal, Form, Full, Gaussian};
    use crate::online::{AnyLearner, Learned, Oasis, Rule, Shape};
    use crate::sample::Triplet;

    fn examples() -> Vec<(SparseVec<f64>, SparseVec<f64>)> {
        let row = |seed: usize| {
            let entries = (0..9).filter(|i| (i * seed + seed).is_multiple_of(3));
            let value = |i: usize| (((i + 1) * seed) as f64).sin();
            SparseVec::from_entries(entries.map(|i| (i as u32, value(i))).collect())
        };
        (2..20).map(|i| (row(i), row(i + 5))).collect()
    }

    fn make(rule: Rule) -> AnyLearner<f64> {
        let tall = |shift: usize| {
            Tall::from_fn(9, 3, |i, j| (((i + shift + 1) * (j + 2)) as f64).sin()).unwrap()
        };
        let form = match rule.shape() {
            Shape::Psd => Form::Psd(Psd::new(tall(0))),
            Shape::Factored => Form::Factored(Factored::new(tall(0), tall(4))),
            Shape::Polar => {
                let form = Factored::new(tall(0), tall(4));
                Form::Polar(Polar::from_factored(form).unwrap())
            }
            Shape::PolarPsd => Form::PolarPsd(PolarPsd::from_psd(Psd::new(tall(0))).unwrap()),
            Shape::Full => Form::Full(Full::diagonal(9, 9, 1.0).unwrap()),
            Shape::Diagonal => Form::Diagonal(Diagonal::new(9, 9, 1.0)),
            Shape::Gaussian => Form::Gaussian(Gaussian::new(9, 9, 1.0).unwrap()),
        };
        AnyLearner::new(rule, form, 0).unwrap()
    }

    /// Balanced factors that forget to scale their gradient.
    struct Forgetful;

    impl crate::manifold::Manifold for Forgetful {
        fn inner(&self, at: &[faer::Mat<f64>], a: &[faer::Mat<f64>], b: &[faer::Mat<f64>]) -> f64 {
            crate::manifold::Balanced.inner(at, a, b)
        }
        fn retract(
            &self,
            at: &[faer::Mat<f64>],
            along: &[faer::Mat<f64>],
        ) -> Option<Vec<faer::Mat<f64>>> {
            crate::manifold::Balanced.retract(at, along)
        }
        fn transport(
            &self,
            _: &[faer::Mat<f64>],
            _: &[faer::Mat<f64>],
            v: &[faer::Mat<f64>],
        ) -> Vec<faer::Mat<f64>> {
            v.to_vec()
        }
    }

    impl crate::manifold::FixedRank for Forgetful {
        fn shapes(&self, shape: (usize, usize), rank: usize) -> Vec<(usize, usize)> {
            crate::manifold::Factors.shapes(shape, rank)
        }
        fn factors(&self, at: &[faer::Mat<f64>]) -> (faer::Mat<f64>, faer::Mat<f64>) {
            crate::manifold::Factors.factors(at)
        }
        fn point(&self, l: &faer::Mat<f64>, r: &faer::Mat<f64>) -> Option<Vec<faer::Mat<f64>>> {
            crate::manifold::Factors.point(l, r)
        }
        fn gradient(
            &self,
            at: &[faer::Mat<f64>],
            er: &faer::Mat<f64>,
            el: &faer::Mat<f64>,
        ) -> Vec<faer::Mat<f64>> {
            crate::manifold::Factors.gradient(at, er, el)
        }
        fn ambient(
            &self,
            at: &[faer::Mat<f64>],
            v: &[faer::Mat<f64>],
        ) -> (faer::Mat<f64>, faer::Mat<f64>) {
            crate::manifold::Factors.ambient(at, v)
        }
    }

    #[test]
    fn a_wrong_geometry_is_found_out() {
        let shape = (7, 6, 2);
        assert_eq!(geometry(&crate::manifold::Balanced, shape), Ok(()));
        let message = geometry(&Forgetful, shape).unwrap_err();
        let law = "the gradient differs from differences";
        assert!(message.starts_with(law), "{message}");
    }

    #[test]
    fn all_learners_keep_the_laws() {
        // LEGO brings its own loss, so it is not one of the gradient's kind.
        for &rule in Rule::ALL.iter().filter(|&&rule| rule != Rule::Lego) {
            let found = learner(|| make(rule), &examples(), Step::new(1e-3));
            assert_eq!(found, Ok(()), "{}", rule.name());
        }
    }

    /// A learner with a fault.
    struct Faulty(Oasis<f64>, &'static str);

    impl Learner<f64> for Faulty {
        fn score(&mut self, example: RankOne<'_, f64>) -> f64 {
            if self.1 == "scoring" {
                self.0.learn(example, 1e9, Loss::Squared, Step::new(1e-9));
            }
            self.0.score(example)
        }

        fn learn(
            &mut self,
            example: RankOne<'_, f64>,
            target: f64,
            loss: Loss,
            step: Step,
        ) -> Learned {
            let loss = match self.1 {
                "flat" => Loss::Squared,
                _ => loss,
            };
            let far = Step::new(if self.1 == "far" { -50.0 } else { step.size });
            let mut learned = self.0.learn(example, target, loss, far);
            if self.1 == "denies" && learned.outcome == Outcome::Moved {
                learned.outcome = Outcome::Refused;
            }
            learned
        }

        fn grow(&mut self, left: usize, right: usize) -> crate::Result<()> {
            self.0.grow(left, right)?;
            if self.1 == "grow" {
                let row = SparseVec::from_entries(vec![(1, 1.0), (2, 1.0)]);
                self.score(RankOne {
                    left: row.as_row(),
                    right: row.as_row(),
                });
                *self = Faulty(Oasis::new(Full::diagonal(left, right, 2.0)?), "");
            }
            Ok(())
        }
    }

    #[test]
    fn faults_are_found() {
        for (fault, part) in [
            ("scoring", "scoring changes scores"),
            ("flat", "a flat loss moves W"),
            ("far", "its target is"),
            ("denies", "denies it"),
            ("grow", "growth changes scores"),
        ] {
            let make = || Faulty(Oasis::new(Full::diagonal(9, 9, 1.0).unwrap()), fault);
            let found = learner(make, &examples(), Step::new(1e-3)).unwrap_err();
            assert!(found.contains(part), "{fault}: {found}");
        }
    }

    /// A source that counts, with a fault.
    #[derive(Debug, Clone)]
    struct Counting(u64, &'static str);

    impl TripletSource for Counting {
        fn draw(&mut self) -> Triplet {
            self.0 += 1;
            let row = (self.0 % if self.1 == "range" { 6 } else { 5 }) as u32;
            Triplet {
                query: row,
                positive: (row + 1) % 5,
                negative: (row + 2) % 5,
            }
        }

        fn position(&self) -> u64 {
            if self.1 == "place" { 0 } else { self.0 }
        }

        fn seek(&mut self, position: u64) -> bool {
            self.0 = position;
            self.1 != "seek"
        }

        fn boxed(&self) -> Box<dyn TripletSource> {
            let shift = if self.1 == "copy" { self.0 + 1 } else { self.0 };
            // The second copy is shifted once more.
            static COPIES: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
            let more = COPIES.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 2;
            let shift = if self.1 == "copy" {
                shift + more
            } else {
                shift
            };
            Box::new(Counting(shift, self.1))
        }
    }

    #[test]
    fn faults_of_sources_are_found() {
        assert_eq!(source(&Counting(0, ""), 5, 5, 30), Ok(()));
        for (fault, part) in [
            ("range", "names a row that is not there"),
            ("copy", "a copy draws something else"),
            ("seek", "cannot go back"),
            ("place", "draws something else"),
        ] {
            let found = source(&Counting(0, fault), 5, 5, 30).unwrap_err();
            assert!(found.contains(part), "{fault}: {found}");
        }
        // Objects are counted apart.
        assert!(source(&Counting(0, ""), 5, 4, 30).is_err());
    }
}
