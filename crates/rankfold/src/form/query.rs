//! A query that is scored with many candidates: what depends on the query alone is
//! done once. The same for the variances of its scores, where W is a distribution.

use super::{Covariance, FormRef};
use crate::kernel::{dot, padded};
use crate::{Real, Rows, SparseRow};

/// A query made ready to be scored with many candidates.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query {
    pub(super) u: Vec<f64>,
    pub(super) w: Vec<f64>,
    work: Vec<f64>,
    /// The query itself, where W is not stored by rows.
    entries: Vec<(u32, f64)>,
}

impl Query {
    /// What the query brings to the variance of its scores, where that is a product
    /// of two sides.
    pub(crate) fn factor(&self) -> f64 {
        self.u[0]
    }

    /// The query in the coordinates of the right factor, padded: its product with a row of
    /// that is the score.
    pub(crate) fn projected(&self) -> &[f64] {
        &self.w
    }
}

/// The product of Wᵀ left with a row; features beyond W weigh nothing.
fn answered<R: Real>(w: &[f64], right: SparseRow<'_, R>) -> f64 {
    let products = right.below(w.len()).iter();
    let products = products.map(|(j, v)| w[j as usize] * v.to_f64());
    products.fold(0.0, |sum, product| sum + product)
}

impl<R: Real> FormRef<'_, R> {
    /// Wᵀ left as far as scores of this query need it: see [`Query`].
    pub(crate) fn ask(self, query: &mut Query, left: SparseRow<'_, R>) {
        let Query {
            u,
            w,
            work,
            entries,
        } = query;
        match self {
            FormRef::Full(form) => {
                w.resize(form.shape().1, 0.0);
                form.project(w, left);
            }
            FormRef::Gaussian(form) => {
                w.resize(form.shape().1, 0.0);
                form.project(w, left);
            }
            FormRef::Diagonal(form) => {
                entries.clear();
                let known = left.below(form.shape().0);
                entries.extend(known.iter().map(|(i, v)| (i, v.to_f64())));
                form.sum_rows(w, entries, |entry| entry.0);
            }
            FormRef::Factored(form) => {
                u.resize(padded(form.rank()), 0.0);
                w.resize(padded(form.rank()), 0.0);
                form.left.project(u, left);
                form.core.multiply_transposed(w, u);
            }
            FormRef::Psd(form) => {
                u.resize(padded(form.rank()), 0.0);
                w.resize(padded(form.rank()), 0.0);
                form.factor.project(u, left);
                form.core.multiply_transposed(w, u);
            }
            FormRef::Polar(form) => {
                let width = padded(form.rank());
                u.resize(width, 0.0);
                w.resize(width, 0.0);
                work.resize(width, 0.0);
                form.left.tall.project(u, left);
                form.ask(w, u, work);
            }
            FormRef::PolarPsd(form) => {
                let width = padded(form.rank());
                u.resize(width, 0.0);
                w.resize(width, 0.0);
                work.resize(width, 0.0);
                form.factor.tall.project(u, left);
                form.ask(w, u, work);
            }
        }
    }

    /// The score of a candidate with the query that was asked.
    pub(crate) fn answer(self, query: &mut Query, right: SparseRow<'_, R>) -> f64 {
        let Query { u, w, entries, .. } = query;
        let tall = match self {
            FormRef::Full(_) | FormRef::Gaussian(_) => return answered(w, right),
            FormRef::Diagonal(form) => {
                let right = right.iter().map(|(j, v)| (j, v.to_f64()));
                return form.sum_pairs((w, entries), right, |entry| entry.0);
            }
            FormRef::Factored(form) => &form.right,
            FormRef::Psd(form) => &form.factor,
            FormRef::Polar(form) => form.right(),
            FormRef::PolarPsd(form) => form.factor(),
        };
        tall.project(u, right);
        dot(u, w)
    }

    /// What each row brings to the variance of its scores, where that is a product
    /// of two sides.
    pub(crate) fn candidate_variances(self, rows: &Rows<R>) -> Option<Vec<f64>> {
        let FormRef::Gaussian(form) = self else {
            return None;
        };
        let variance = |row| form.variance_of(Covariance::Right, row).max(0.0);
        Some(rows.iter().map(variance).collect())
    }

    /// The same as [`FormRef::ask`] for the variance of scores.
    pub(crate) fn ask_variance(self, query: &mut Query, left: SparseRow<'_, R>) {
        let Query { u, w, entries, .. } = query;
        match self {
            FormRef::Gaussian(form) => {
                u.clear();
                u.push(form.variance_of(Covariance::Left, left).max(0.0));
            }
            FormRef::Diagonal(form) => {
                entries.clear();
                let known = left.below(form.shape().0);
                entries.extend(known.iter().map(|(i, v)| (i, v.to_f64().powi(2))));
                form.sum_rows(w, entries, |entry| entry.1);
            }
            _ => {}
        }
    }

    /// The variance of a score, as far as it was not asked by
    /// [`FormRef::candidate_variances`].
    pub(crate) fn answer_variance(self, query: &Query, right: SparseRow<'_, R>) -> f64 {
        let FormRef::Diagonal(form) = self else {
            return 0.0;
        };
        let squares = right.iter().map(|(j, v)| (j, v.to_f64().powi(2)));
        form.sum_pairs((&query.w, &query.entries), squares, |entry| entry.1)
    }
}
