//! How sure a model is of its scores, where it learned a distribution over W.

use super::{Model, Prepared};
use crate::eval::Scorer;
use crate::form::{FormRef, Query};
use crate::{Error, Real, Result, Rows, SparseRow, SparseVec, normal};

/// A score that is known up to a normal error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The score itself.
    pub mean: f64,
    /// Its standard deviation.
    pub sd: f64,
}

impl Estimate {
    /// The interval around the score in which it is with this probability.
    pub fn interval(&self, probability: f64) -> (f64, f64) {
        let half = normal::two_sided(probability) * self.sd;
        (self.mean - half, self.mean + half)
    }

    /// The score in standard deviations; 0 where nothing at all is known.
    pub fn standard(&self) -> f64 {
        match self.mean == 0.0 {
            true => 0.0,
            false => self.mean / self.sd,
        }
    }

    /// The probability that the score is above 0. For a triplet, whose score is
    /// its margin, that the positive ranks above the negative.
    pub fn above_zero(&self) -> f64 {
        normal::below(self.standard())
    }
}

/// Rows made ready to ask how sure the model is.
#[derive(Debug, Clone)]
pub struct Confidence<'a, R> {
    form: FormRef<'a, R>,
    left: &'a Rows<R>,
    right: &'a Rows<R>,
    /// The factor on all variances.
    scale: f64,
}

impl Model {
    /// Whether it learned a distribution, and can say how sure it is.
    pub fn has_confidence(&self) -> bool {
        super::with_form!(&self.form, form => form.view().is_gaussian())
    }

    /// How sure the model is of the scores of rows that [`Model::prepare`] made
    /// ready, with each other or with objects from [`Model::prepare_side`]. The
    /// variances are multiplied by the factor that the model was calibrated with.
    pub fn confidence<'a, R: Real>(
        &'a self,
        rows: &'a Prepared<R>,
        objects: Option<&'a Prepared<R>>,
    ) -> Result<Confidence<'a, R>> {
        if !self.has_confidence() {
            return Err(Error::input(format!(
                "`{}` does not learn how sure it is: expected a model of `aroma-factored` or `aroma-diagonal`",
                self.card.learner
            )));
        }
        if objects.is_none() {
            self.check_one_kind()?;
        }
        let form = self.form.as_precision::<R>()?.view();
        let right = objects.map_or(&rows.rows, |objects| &objects.rows);
        let scale = self.card.variance_scale.unwrap_or(1.0);
        Ok(Confidence {
            form,
            left: &rows.rows,
            right,
            scale,
        })
    }
}

impl<'a, R: Real> Confidence<'a, R> {
    /// On rows as a form sees them, with variances as they are.
    pub(crate) fn raw(form: FormRef<'a, R>, left: &'a Rows<R>, right: &'a Rows<R>) -> Self {
        Confidence {
            form,
            left,
            right,
            scale: 1.0,
        }
    }

    fn sd(&self, left: SparseRow<'_, R>, right: SparseRow<'_, R>) -> f64 {
        let variance = self.form.variance(left, right).unwrap_or(0.0);
        (self.scale * variance).sqrt()
    }

    /// The standard deviation of the score of two rows, where the score is known.
    #[track_caller]
    pub fn deviation(&self, left: usize, right: usize) -> f64 {
        self.sd(self.left.row(left), self.right.row(right))
    }

    /// The score of two rows. The mean has the same bits as in a
    /// [`Projection`](super::Projection).
    #[track_caller]
    pub fn pair(&self, left: usize, right: usize) -> Estimate {
        let mut query = Query::default();
        self.form.ask(&mut query, self.left.row(left));
        Estimate {
            mean: self.form.answer(&mut query, self.right.row(right)),
            sd: self.deviation(left, right),
        }
    }

    /// How far the positive is above the negative for the query.
    #[track_caller]
    pub fn triplet(&self, query: usize, positive: usize, negative: usize) -> Estimate {
        let (positive, negative) = (self.right.row(positive), self.right.row(negative));
        let mut difference = SparseVec::new();
        difference.set_difference(positive, negative);
        let (query, difference) = (self.left.row(query), difference.as_row());
        Estimate {
            mean: self.form.score(query, difference),
            sd: self.sd(query, difference),
        }
    }

    /// Scores that favor what is not known yet: mean + `deviations` · standard
    /// deviation.
    pub fn upper(&self, deviations: f64) -> impl Scorer + '_ {
        Upper {
            of: self,
            deviations,
            candidates: self.form.candidate_variances(self.right),
        }
    }
}

struct Upper<'a, R> {
    of: &'a Confidence<'a, R>,
    deviations: f64,
    /// What each candidate brings to the variance, where that is a product.
    candidates: Option<Vec<f64>>,
}

impl<R: Real> Scorer for Upper<'_, R> {
    fn rows(&self) -> usize {
        self.of.left.len()
    }

    fn candidates(&self) -> usize {
        self.of.right.len()
    }

    fn scores(&self, out: &mut [f64], first: usize, queries: usize) {
        let Confidence {
            form,
            left,
            right,
            scale,
        } = self.of;
        let (mut mean, mut spread) = (Query::default(), Query::default());
        let out = out.chunks_exact_mut(right.len().max(1)).take(queries);
        for (i, out) in out.enumerate() {
            let query = left.row(first + i);
            form.ask(&mut mean, query);
            form.ask_variance(&mut spread, query);
            for (j, score) in out.iter_mut().enumerate() {
                let row = right.row(j);
                let variance = match &self.candidates {
                    Some(candidates) => spread.factor() * candidates[j],
                    None => form.answer_variance(&spread, row),
                };
                let sd = (scale * variance).sqrt();
                *score = form.answer(&mut mean, row) + self.deviations * sd;
            }
        }
    }
}
