//! Learning from all data at once: problems, and solvers that work on any
//! manifold.
//!
//! A [`Problem`] is a cost of W that sees factors only. A [`Regression`] puts it
//! on a geometry of fixed rank, with a penalty and biases; [`Subspace`] and
//! [`OptSpace`] leave a part of W to least squares, and [`SharedSubspace`] the
//! weights of many regressions. A [`PsdRegression`] is about
//! distances under a symmetric positive semi-definite W. All are an
//! [`Objective`], which a [`Solver`] lowers. [`Als`], [`Bayes`], [`Svp`] and [`Itml`]
//! are solvers of their own.
//!
//! Every solver shows each [`Iteration`] to an [`Observer`]. It can be interrupted there,
//! saved as a [`SolverState`], and resumed with the same bits.

mod als;
mod asking;
mod bayes;
mod chosen;
mod classical;
mod conjugate_gradient;
mod core_equations;
mod descent;
mod directions;
mod distances;
mod fitted;
mod implicit;
mod item_baselines;
mod item_regression;
mod itml;
mod label_logistic;
mod label_ridge;
mod lifted;
mod margins;
mod moments;
mod nearby;
pub(crate) mod normal;
mod opt_space;
mod pairs;
pub(crate) mod pass;
mod pattern;
mod points;
mod problem;
mod regression;
mod ridge;
pub(crate) mod rowwise;
mod seen_pairs;
mod semidefinite;
pub mod sharded;
mod shared_subspace;
mod singles;
mod solve;
mod spectral;
mod state;
mod summed_psd;
mod summed_subspace;
mod svp;
mod tasks;
mod taught;
#[cfg(test)]
mod tests;
mod trust_region;
mod variable_projection;
mod variances;

pub use als::Als;
pub(crate) use asking::Asking;
pub use bayes::{Bayes, Posterior};
pub use chosen::Chosen;
pub(crate) use classical::classical;
pub use descent::Armijo;
pub use directions::{ClassMeans, Directions, class_means, discriminant, principal};
pub use distances::{Bound, Bounds, Distances, Pair, PairLoss};
pub use fitted::Fitted;
pub use implicit::{FoldIn, Implicit, ImplicitFactors};
pub use item_baselines::{ease, nearest_items};
pub use item_regression::{ItemFactors, ItemRegression};
pub use itml::Itml;
pub use label_ridge::{LabelFit, LabelRidge, Reduced, Shape};
pub use lifted::{Lifted, LocalLifted};
pub use margins::{Margins, Star};
pub(crate) use nearby::{nearby, star};
pub use opt_space::{LocalOptSpace, OptSpace};
pub use pairs::SparsePairs;
pub use points::Points;
pub use problem::{Completion, Examples, Problem, Slope};
pub use regression::{LocalRegression, Penalty, Regression};
pub use ridge::{class_ridge, ridge};
pub(crate) use seen_pairs::SeenPairs;
pub(crate) use semidefinite::on_geometry;
pub use semidefinite::{LocalPsd, PsdRegression};
pub(crate) use shared_subspace::Seen;
pub use shared_subspace::{LocalTasks, SharedSubspace};
pub(crate) use singles::singles;
pub use solve::{Ended, Iteration, Limits, Local, Objective, Observer, Solved, Solver};
pub use spectral::{grow, trimmed_start};
pub use state::SolverState;
pub(crate) use summed_psd::SummedPsd;
pub(crate) use summed_subspace::SummedSubspace;
pub use svp::Svp;
pub use tasks::{Common, Tasks};
pub(crate) use tasks::{TaskParts, from_upper, leading, solve_with_ridge};
pub use taught::Taught;
pub use variable_projection::{LocalSubspace, Ridge, Subspace};
pub use variances::{Sureness, Variances};

pub use crate::sparse::{Lines, Observed, Part, Repeated, View};
