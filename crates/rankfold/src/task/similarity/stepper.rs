//! One step of training: draws triplets, finds hard negatives, fits the length
//! of the step to its time, and lets the learner learn.

use super::{Negatives, Select, Similarity};
use crate::form::{Form, Query};
use crate::model::Distances;
use crate::online::{AnyLearner, InnerSteps, Learned, Learner, RankOne, Step};
use crate::sample::{Triplet, Triplets};
use crate::task::decayed;
use crate::task::triplet::{Examples, Sides, TripletRows};
use crate::{Loss, Real, Result, SparseVec};

/// A learner, and how it is fed.
#[derive(Debug, Clone)]
pub(super) struct Stepper<R> {
    pub learner: AnyLearner<R>,
    pub examples: Examples<R>,
    /// The step at the start.
    pub step: Step,
    /// The steps between full ones, of manifold identification.
    pub inner: InnerSteps,
    decay: Option<f64>,
    batch: usize,
    negatives: Negatives,
    select: Select,
    candidates: usize,
    query: Query,
    chosen: Vec<Triplet>,
    differences: Vec<SparseVec<R>>,
}

impl<R: Real> Stepper<R> {
    /// On a form that has seen so many triplets; the size of the step is open.
    pub fn new(
        options: &Similarity,
        form: Form<R>,
        seen: u64,
        distances: Option<Distances>,
    ) -> Result<Self> {
        let inner = options.inner(f64::NAN);
        let learner = AnyLearner::new(options.rule(), form, seen)?;
        Ok(Stepper {
            learner: learner.with_aroma(options.aroma()).with_inner_steps(inner),
            inner,
            examples: Examples::new(distances),
            step: Step {
                size: f64::NAN,
                limit: options.step_limit,
            },
            decay: options.decay,
            batch: options.batch,
            negatives: options.negatives,
            select: options.select,
            candidates: options.candidates_or_default(),
            query: Query::default(),
            chosen: Vec::new(),
            differences: Vec::new(),
        })
    }

    /// Sets the size of steps between full ones, as a multiple of that of full ones.
    pub fn set_inner_size(&mut self, size: f64) {
        self.inner.size = size;
        if let AnyLearner::ManifoldIdentification(learner) = &mut self.learner {
            learner.set_inner_steps(self.inner);
        }
    }

    /// Takes one step after `done` triplets. Says how many triplets it used, and
    /// what came of them.
    #[inline]
    pub fn take(&mut self, rows: Sides<'_, R>, source: &mut Triplets, done: u64) -> (u64, Learned) {
        let step = decayed(self.step, self.decay, done);
        if self.batch == 1 {
            let triplet = self.draw(rows, source);
            let rows = TripletRows::of(rows, triplet);
            return (1, self.examples.learn(&mut self.learner, rows, step));
        }
        let count = self.batch as u64;
        self.chosen.clear();
        for _ in 0..count {
            let triplet = self.draw(rows, source);
            self.chosen.push(triplet);
        }
        self.differences.resize(self.batch, SparseVec::new());
        for (difference, &triplet) in self.differences.iter_mut().zip(&self.chosen) {
            let rows = TripletRows::of(rows, triplet);
            difference.set_difference(rows.positive, rows.negative);
        }
        let examples = self.chosen.iter().zip(&self.differences);
        let examples: Vec<_> = examples
            .map(|(&triplet, difference)| {
                let example = RankOne {
                    left: rows.left.row(triplet.query as usize),
                    right: difference.as_row(),
                };
                (example, 1.0)
            })
            .collect();
        (
            count,
            self.learner.learn_batch(&examples, Loss::Hinge, step),
        )
    }

    /// A triplet: an uncertain one or one with a hard negative, if such are asked
    /// for.
    #[inline]
    pub fn draw(&mut self, rows: Sides<'_, R>, source: &mut Triplets) -> Triplet {
        match (self.select, self.negatives) {
            (Select::Uncertain, _) => return self.draw_uncertain(rows, source),
            (Select::Random, Negatives::Random) => return source.draw(),
            (Select::Random, Negatives::Hard) => {}
        }
        let candidates = self.candidates;
        let form = self.learner.form();
        let mut asked = None;
        source.draw_hard(candidates, |triplet| {
            let rows = TripletRows::of(rows, triplet);
            if asked != Some(triplet.query) {
                form.ask(&mut self.query, rows.query);
                asked = Some(triplet.query);
            }
            form.answer(&mut self.query, rows.negative)
        })
    }
}

impl<R: Real> Stepper<R> {
    /// Of so many triplets the one whose order is the least sure: its margin is the
    /// fewest standard deviations from zero. Of equal ones the first.
    fn draw_uncertain(&mut self, rows: Sides<'_, R>, source: &mut Triplets) -> Triplet {
        let form = self.learner.form();
        let mut best = source.draw();
        let mut least = f64::INFINITY;
        for n in 0..self.candidates {
            let triplet = if n == 0 { best } else { source.draw() };
            let example = self.examples.margin(TripletRows::of(rows, triplet));
            let margin = form.score(example.left, example.right);
            let variance = form.variance(example.left, example.right);
            let sureness = margin * margin / variance.unwrap_or(1.0);
            if sureness < least {
                (best, least) = (triplet, sureness);
            }
        }
        best
    }
}
