//! How a matrix W is stored: exact sparse arithmetic on tall factors.
//!
//! A tall factor has a row for each feature and k columns. LORETA moves all of
//! its rows at every step, but all of them by the same k×k matrix, except those
//! where the example is non-zero. So W is kept as tall × small × tallᵀ: the
//! common motion goes into the small core, only the support is touched, and the
//! step is still exactly the dense one.

mod blend;
mod columns;
mod diagonal;
mod factored;
mod full;
mod gaussian;
mod groups;
mod newcomer;
mod orthonormal;
mod polar;
mod polar_psd;
mod product;
mod psd;
mod query;
mod resized;
mod signs;
mod tall;
mod upkeep;
mod zero;

pub(crate) use blend::blend;
pub use diagonal::Diagonal;
pub use factored::Factored;
pub(crate) use factored::Frame;
pub use full::Full;
pub use gaussian::Gaussian;
pub(crate) use gaussian::{Covariance, Waiting};
pub(crate) use groups::Groups;
pub(crate) use newcomer::Newcomer;
pub(crate) use orthonormal::Orthonormal;
pub use polar::Polar;
pub use polar_psd::PolarPsd;
pub use psd::Psd;
pub(crate) use query::Query;
pub(crate) use resized::{GROWN, grow_columns};
pub use tall::Tall;
pub(crate) use upkeep::{Health, MOST, Upkeep};
pub(crate) use zero::SparseSum;

use crate::kernel::padded;
use crate::linalg::Square;
use crate::{Error, Real, Result, Rows, SparseRow};

/// The kinds of [`Form`], one for each way to store W.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Two tall factors.
    Factored,
    /// One tall factor: W is symmetric.
    Psd,
    /// Two orthonormal tall factors and a positive definite core.
    Polar,
    /// One orthonormal tall factor and a positive definite core: W is symmetric.
    PolarPsd,
    /// All entries.
    Full,
    /// All entries, with a variance each.
    Diagonal,
    /// All entries, with a covariance of each side.
    Gaussian,
}

/// The balanced SVD gauge of W = P Σ Qᵀ: the maps that take projections on the
/// stored tall factors to coordinates Σ^½ Pᵀ left and Σ^½ Qᵀ right, which do not
/// depend on how W is stored.
#[derive(Debug, Clone)]
pub struct Gauge {
    /// T with Ã T = P Σ^½.
    pub left: Square,
    /// T with B̃ T = Q Σ^½.
    pub right: Square,
    /// Σ, falling.
    pub singular_values: Vec<f64>,
}

/// Any of the forms: a closed set. They differ in size, but there is one of
/// them in a model.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone)]
pub enum Form<R> {
    /// W = Ã K B̃ᵀ.
    Factored(Factored<R>),
    /// W = Ỹ K Ỹᵀ.
    Psd(Psd<R>),
    /// W = U B Vᵀ.
    Polar(Polar<R>),
    /// W = U B Uᵀ.
    PolarPsd(PolarPsd<R>),
    /// W, entry by entry.
    Full(Full<R>),
    /// W with a variance for each entry.
    Diagonal(Diagonal<R>),
    /// W with covariance Ω ⊗ Λ.
    Gaussian(Gaussian<R>),
}

impl<R: Real> PartialEq for Form<R> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Form::Factored(a), Form::Factored(b)) => a == b,
            (Form::Psd(a), Form::Psd(b)) => a == b,
            (Form::Polar(a), Form::Polar(b)) => a == b,
            (Form::PolarPsd(a), Form::PolarPsd(b)) => a == b,
            (Form::Full(a), Form::Full(b)) => a == b,
            (Form::Diagonal(a), Form::Diagonal(b)) => a == b,
            (Form::Gaussian(a), Form::Gaussian(b)) => a == b,
            _ => false,
        }
    }
}

impl<R: Real> Form<R> {
    /// The same W as a rule of this shape stores it, from plain factors.
    pub(crate) fn shaped(self, shape: Shape) -> Result<Self> {
        let shaped = match (self, shape) {
            (Form::Factored(form), Shape::Polar) => Polar::from_factored(form).map(Form::Polar),
            (Form::Psd(form), Shape::PolarPsd) => PolarPsd::from_psd(form).map(Form::PolarPsd),
            (form, _) => Some(form),
        };
        shaped.ok_or_else(|| Error::input("the start has lost rank to working precision"))
    }
}

impl<R> Form<R> {
    /// The borrowed form, which has the methods.
    pub fn view(&self) -> FormRef<'_, R> {
        match self {
            Form::Factored(form) => FormRef::Factored(form),
            Form::Psd(form) => FormRef::Psd(form),
            Form::Polar(form) => FormRef::Polar(form),
            Form::PolarPsd(form) => FormRef::PolarPsd(form),
            Form::Full(form) => FormRef::Full(form),
            Form::Diagonal(form) => FormRef::Diagonal(form),
            Form::Gaussian(form) => FormRef::Gaussian(form),
        }
    }
}

/// A form borrowed from wherever it lives: a model, or a learner at work.
#[derive(Debug)]
pub enum FormRef<'a, R> {
    /// W = Ã K B̃ᵀ.
    Factored(&'a Factored<R>),
    /// W = Ỹ K Ỹᵀ.
    Psd(&'a Psd<R>),
    /// W = U B Vᵀ.
    Polar(&'a Polar<R>),
    /// W = U B Uᵀ.
    PolarPsd(&'a PolarPsd<R>),
    /// W, entry by entry.
    Full(&'a Full<R>),
    /// W with a variance for each entry.
    Diagonal(&'a Diagonal<R>),
    /// W with covariance Ω ⊗ Λ.
    Gaussian(&'a Gaussian<R>),
}

impl<R> Copy for FormRef<'_, R> {}

impl<R> Clone for FormRef<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

/// The side of W that rows are meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Queries.
    Left,
    /// Candidates.
    Right,
}

impl<'a, R: Real> FormRef<'a, R> {
    /// An owned copy.
    pub fn to_form(self) -> Form<R> {
        match self {
            FormRef::Factored(form) => Form::Factored(form.clone()),
            FormRef::Psd(form) => Form::Psd(form.clone()),
            FormRef::Polar(form) => Form::Polar(form.clone()),
            FormRef::PolarPsd(form) => Form::PolarPsd(form.clone()),
            FormRef::Full(form) => Form::Full(form.clone()),
            FormRef::Diagonal(form) => Form::Diagonal(form.clone()),
            FormRef::Gaussian(form) => Form::Gaussian(form.clone()),
        }
    }

    /// Its name in model files.
    pub fn name(self) -> &'static str {
        match self {
            FormRef::Factored(_) => "factored",
            FormRef::Psd(_) => "psd",
            FormRef::Polar(_) => "polar",
            FormRef::PolarPsd(_) => "polar-psd",
            FormRef::Full(_) => "full",
            FormRef::Diagonal(_) => "diagonal-gaussian",
            FormRef::Gaussian(_) => "factored-gaussian",
        }
    }

    /// k; the smaller dimension where W is not of low rank.
    pub fn rank(self) -> usize {
        match self {
            FormRef::Factored(form) => form.rank(),
            FormRef::Psd(form) => form.rank(),
            FormRef::Polar(form) => form.rank(),
            FormRef::PolarPsd(form) => form.rank(),
            _ => self.shape().0.min(self.shape().1),
        }
    }

    /// Rows and columns of W.
    pub fn shape(self) -> (usize, usize) {
        match self {
            FormRef::Factored(form) => (form.left().rows(), form.right().rows()),
            FormRef::Psd(form) => (form.factor().rows(), form.factor().rows()),
            FormRef::Polar(form) => (form.left().rows(), form.right().rows()),
            FormRef::PolarPsd(form) => (form.factor().rows(), form.factor().rows()),
            FormRef::Full(form) => form.shape(),
            FormRef::Diagonal(form) => form.shape(),
            FormRef::Gaussian(form) => form.shape(),
        }
    }

    /// How many numbers the manifold of such matrices has.
    pub fn parameters(self) -> usize {
        let ((n, m), k) = (self.shape(), self.rank());
        match self {
            FormRef::Factored(_) | FormRef::Polar(_) => ((n + m) * k).saturating_sub(k * k),
            FormRef::Psd(_) | FormRef::PolarPsd(_) => (n * k).saturating_sub(k * (k - 1) / 2),
            FormRef::Full(_) => n * m,
            FormRef::Diagonal(_) => n.saturating_mul(m).saturating_mul(2),
            FormRef::Gaussian(_) => n * m + n * (n + 1) / 2 + m * (m + 1) / 2,
        }
    }

    /// `sparse` where only those entries of W are stored that an example has
    /// touched, else `dense`.
    pub fn storage(self) -> &'static str {
        match self {
            FormRef::Diagonal(form) if form.is_sparse() => "sparse",
            _ => "dense",
        }
    }

    /// How often a new gauge was chosen.
    pub fn refreshes(self) -> u64 {
        match self {
            FormRef::Factored(form) => form.refreshes(),
            FormRef::Psd(form) => form.refreshes(),
            FormRef::Polar(form) => form.refreshes(),
            FormRef::PolarPsd(form) => form.refreshes(),
            _ => 0,
        }
    }

    /// The balanced SVD gauge of W; `None` where W has lost rank to working
    /// precision, or has no factors.
    pub fn gauge(self) -> Option<Gauge> {
        match self {
            FormRef::Factored(form) => form.gauge(),
            FormRef::Psd(form) => form.gauge(),
            FormRef::Polar(form) => form.gauge(),
            FormRef::PolarPsd(form) => form.gauge(),
            _ => None,
        }
    }

    /// Tr W of a positive semi-definite matrix: ‖G‖² for any G with W = GGᵀ. At most k²
    /// numbers are added up where a learner of regression keeps W.
    pub fn trace(self) -> Option<f64> {
        match self {
            FormRef::Psd(form) => Some(form.trace()),
            FormRef::PolarPsd(form) => Some(form.trace()),
            _ => None,
        }
    }

    /// Whether W is symmetric because of how it is stored.
    pub fn is_symmetric(self) -> bool {
        matches!(self, FormRef::Psd(_) | FormRef::PolarPsd(_))
    }

    /// The variance of leftᵀ W right, where W is a distribution.
    pub fn variance(self, left: SparseRow<'_, R>, right: SparseRow<'_, R>) -> Option<f64> {
        match self {
            FormRef::Diagonal(form) => Some(form.score(left, right).1),
            FormRef::Gaussian(form) => Some(form.variance(left, right)),
            _ => None,
        }
    }

    /// Whether W is a distribution.
    pub fn is_gaussian(self) -> bool {
        matches!(self, FormRef::Diagonal(_) | FormRef::Gaussian(_))
    }

    /// leftᵀ W right.
    pub fn score(self, left: SparseRow<'_, R>, right: SparseRow<'_, R>) -> f64 {
        match self {
            FormRef::Factored(form) => form.score(left, right),
            FormRef::Psd(form) => form.score(left, right),
            FormRef::Polar(form) => form.score(left, right),
            FormRef::PolarPsd(form) => form.score(left, right),
            FormRef::Full(form) => form.score(left, right),
            FormRef::Diagonal(form) => form.score(left, right).0,
            FormRef::Gaussian(form) => form.score(left, right),
        }
    }

    /// The tall factors of the left and the right side, where W has them.
    pub fn factors(self) -> Option<(&'a Tall<R>, &'a Tall<R>)> {
        match self {
            FormRef::Factored(form) => Some((form.left(), form.right())),
            FormRef::Psd(form) => Some((form.factor(), form.factor())),
            FormRef::Polar(form) => Some((form.left(), form.right())),
            FormRef::PolarPsd(form) => Some((form.factor(), form.factor())),
            _ => None,
        }
    }

    /// Coordinates of rows in the balanced SVD gauge: one row of k numbers for
    /// each member. Dot products of left and right coordinates are scores.
    pub fn embed(self, gauge: &Gauge, rows: &Rows<R>, members: &[u32], side: Side) -> Vec<R> {
        let k = self.rank();
        let (left, right) = self.factors().expect("a gauge comes from factors");
        let (tall, map) = match side {
            Side::Left => (left, &gauge.left),
            Side::Right => (right, &gauge.right),
        };
        let mut projected = vec![0.0; padded(k)];
        let mut coordinates = vec![0.0; padded(k)];
        let mut out = Vec::with_capacity(members.len() * k);
        for &i in members {
            tall.project(&mut projected, rows.row(i as usize));
            map.multiply_transposed(&mut coordinates, &projected);
            out.extend(coordinates[..k].iter().map(|&c| R::from_f64(c)));
        }
        out
    }
}
