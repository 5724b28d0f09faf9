//! How a matrix W is stored: exact sparse arithmetic on tall factors.
//!
//! A tall factor has a row for each feature and k columns. LORETA moves all of
//! its rows at every step, but all of them by the same k×k matrix, except those
//! where the example is non-zero. So W is kept as tall × small × tallᵀ: the
//! common motion goes into the small core, only the support is touched, and the
//! step is still exactly the dense one.

mod factored;
mod psd;
mod tall;
mod upkeep;

pub use factored::Factored;
pub use psd::Psd;
pub use tall::Tall;

use crate::linalg::Square;

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
