//! Ratings folded into a factorization by least squares.
//!
//! The row of a user who gave n ratings follows from a ridge regression on the items
//! rated, and one more rating changes it by a step of recursive least squares. What
//! that step needs of the n ratings is their Gram matrix; the model keeps only n, so
//! n times the Gram matrix of a usual rating stands for it. New rows move fast, old
//! ones slowly, and a stream can be interrupted and resumed at any rating.

use super::Outcome;
use crate::form::{Factored, Form, FormRef, Tall};
use crate::linalg::cholesky_upper;
use crate::linalg::{Square, solve_upper};
use crate::{Error, Real, Result, SparseRow};
use faer::Mat;

/// The ridge of biases, in ratings.
pub(crate) const BIAS_RIDGE: f64 = 4.0;

/// What a ridge regression for the row of one user or item goes by.
#[derive(Debug, Clone, PartialEq)]
pub struct Fold {
    /// E[x xᵀ], d×d row by row, for the rows x of the other side that ratings meet,
    /// with a 1 for the bias at last where there is one.
    pub usual: Vec<f64>,
    /// The ridge of the row.
    pub ridge: f64,
}

/// Factors that are folded in to, in any gauge.
pub(crate) struct FoldIn<R> {
    form: Factored<R>,
    folds: [Fold; 2],
}

impl Fold {
    /// The change of a row with n ratings for a residual at x: what is to be
    /// subtracted.
    fn change(&self, n: f64, x: &Mat<f64>, residual: f64, biased: bool) -> Option<Mat<f64>> {
        let d = x.nrows();
        let system = Square::from_fn(d, |i, j| {
            let ridge = match i == j {
                false => 0.0,
                true if biased && i + 1 == d => BIAS_RIDGE,
                true => self.ridge,
            };
            ridge + n * self.usual[i * d + j] + x[(i, 0)] * x[(j, 0)]
        });
        let r = cholesky_upper(&system)?;
        // Rᵀ R c = x.
        let mut c = x.clone();
        faer::linalg::triangular_solve::solve_lower_triangular_in_place(
            r.transpose(),
            c.as_mut(),
            faer::Par::Seq,
        );
        let c = faer::Scale(residual) * solve_upper(&r, &c);
        c.is_all_finite().then_some(c)
    }
}

impl<R: Real> FoldIn<R> {
    /// Of a form and what its model goes by.
    pub fn new(form: Form<R>, folds: [Fold; 2]) -> Result<Self> {
        let Form::Factored(mut form) = form else {
            return Err(Error::input(format!(
                "ratings cannot be folded into a matrix of the form `{}`",
                form.view().name()
            )));
        };
        form.make_plain();
        Ok(FoldIn { form, folds })
    }

    pub fn grow(&mut self, users: usize, items: usize) -> Result<()> {
        self.form.grow(users, items)
    }

    pub fn form(&self) -> FormRef<'_, R> {
        FormRef::Factored(&self.form)
    }

    pub fn into_form(self) -> Form<R> {
        Form::Factored(self.form)
    }

    /// Learns the value of a place. The row with fewer ratings moves first, and the
    /// other one explains what is left.
    pub fn learn(
        &mut self,
        (user, item): (u32, u32),
        value: f64,
        mut bias: Option<&mut [Vec<f64>; 2]>,
        counts: [f64; 2],
    ) -> (f64, Outcome) {
        let at = [user, item];
        let biased = bias.is_some();
        let residual = |form: &Factored<R>, bias: &Option<&mut [Vec<f64>; 2]>| {
            let (left, right) = (
                form.left().row(user as usize),
                form.right().row(item as usize),
            );
            let dot: f64 = left
                .iter()
                .zip(right)
                .map(|(a, b)| a.to_f64() * b.to_f64())
                .sum();
            let biases = bias
                .as_ref()
                .map_or(0.0, |[b, c]| b[user as usize] + c[item as usize]);
            dot + biases - value
        };
        let first = residual(&self.form, &bias);
        let loss = 0.5 * first * first;
        let mut outcome = Outcome::Idle;
        let order = if counts[0] <= counts[1] {
            [0, 1]
        } else {
            [1, 0]
        };
        for side in order {
            let error = residual(&self.form, &bias);
            let (own, other) = match side {
                0 => (&mut self.form.left, &self.form.right),
                _ => (&mut self.form.right, &self.form.left),
            };
            let x = row_of(other.row(at[1 - side] as usize), biased);
            let Some(change) = self.folds[side].change(counts[side], &x, error, biased) else {
                return (loss, Outcome::Refused);
            };
            let k = own.rank();
            let mut row = vec![R::default(); crate::kernel::row_width::<R>(k)];
            for j in 0..k {
                row[j] = R::from_f64(-change[(j, 0)]);
            }
            if row.iter().any(|v| !v.to_f64().is_finite()) {
                return (loss, Outcome::Refused);
            }
            let (index, one) = ([at[side]], [R::from_f64(1.0)]);
            let place = SparseRow {
                indices: &index,
                values: &one,
            };
            own.add_outer(place, &row);
            if let Some(bias) = &mut bias {
                bias[side][at[side] as usize] -= change[(k, 0)];
            }
            outcome = Outcome::Moved;
        }
        (loss, outcome)
    }
}

/// What folding goes by, for factors of a model with this root mean square of
/// residuals, where columns and rows have so many ratings.
pub(crate) fn folds<R: Real>(
    form: &Factored<R>,
    count: [&[u64]; 2],
    biased: bool,
    residual: f64,
) -> [Fold; 2] {
    let side = |own: &Tall<R>, other: &Tall<R>, count: &[u64]| {
        let d = own.rank() + usize::from(biased);
        let mut usual = vec![0.0; d * d];
        let total = count.iter().sum::<u64>().max(1) as f64;
        for (i, &n) in count.iter().enumerate().filter(|(_, n)| **n > 0) {
            let x = row_of(other.row(i), biased);
            let weight = n as f64 / total;
            for (at, sum) in usual.iter_mut().enumerate() {
                *sum += weight * x[(at / d, 0)] * x[(at % d, 0)];
            }
        }
        let square = |row: &[R]| row.iter().map(|v| v.to_f64().powi(2)).sum::<f64>();
        let spread: f64 = (0..own.rows()).map(|i| square(own.row(i))).sum();
        let spread = spread / (own.rows() * own.rank()).max(1) as f64;
        Fold {
            usual,
            // Also where there are no residuals, or nothing but residuals.
            ridge: (residual * residual / spread.max(f64::MIN_POSITIVE)).clamp(1e-9, 1e9),
        }
    };
    [
        side(form.left(), form.right(), count[1]),
        side(form.right(), form.left(), count[0]),
    ]
}

/// A row as a column, with a 1 for the bias at last where there is one.
fn row_of<R: Real>(row: &[R], biased: bool) -> Mat<f64> {
    Mat::from_fn(row.len() + usize::from(biased), 1, |i, _| {
        row.get(i).map_or(1.0, |v| v.to_f64())
    })
}
