//! How good a model is, measured over anything that can score.
//!
//! **Ties count against the model.** When a positive and a negative have the
//! same score, the negative ranks first. Data files are often sorted by class,
//! so an order by position would leak the labels, and a model that scores
//! everything alike would look good. A score that is not a number ranks below
//! every number.
//!
//! [`retrieval()`] asks each row for the rows of its class among all others. A
//! row that is alone in its class has nothing to find: it is no query, but it
//! stays a candidate, and the result counts it as skipped.
//!
//! Retrieval is exact and streamed: with n rows of rank k it holds the rows
//! themselves, O(n·k), and a few score buffers, O(threads·n), never n×n
//! numbers. The result has the same bits for any number of threads.
//!
//! [`nearest()`] lists the best candidates of each query in the same memory.
//! It has no labels to leak, so there ties go to the smaller row number.
//!
//! [`retrieval_among()`] and [`nearest_among()`] do the same with candidates that
//! are other things than the rows that ask; no candidate is left out there.
//! [`retrieval_listed()`] takes what each row looks for by number, such as labels.
//! [`retrieval_at()`] gives the precision among any numbers of best candidates.
//!
//! [`lists()`] judges lists of items for users: NDCG, recall and the like.
//!
//! [`votes()`] lets the nearest rows vote for a class.
//!
//! [`calibration`] measures whether a model that says how sure it is knows it.
//!
//! A metric over nothing (no rows, no positives) is NaN.
//!
//! ```
//! use rankfold::eval::{Embedded, retrieval};
//!
//! // Four points on a line, scored by the product of their coordinates.
//! let points = [3.0_f32, 2.0, 1.0, -1.0];
//! let classes = [7, 5, 7, 9];
//! let scorer = Embedded::new(&points, &points, 1);
//! let result = retrieval(&scorer, &classes, 1, &|_| true).unwrap();
//!
//! // Row 0 looks for row 2 and finds row 1 first, row 2 looks for row 0 and
//! // finds it first; rows 1 and 3 have nothing to look for.
//! assert_eq!((result.rows, result.skipped), (4, 2));
//! assert_eq!(result.map, (1.0 / 2.0 + 1.0) / 2.0);
//! assert_eq!(result.precision_at_1, 0.5);
//! ```

mod best;
pub mod calibration;
mod cosine;
mod embedded;
mod knn;
mod lists;
pub mod metrics;
mod nearest;
mod ranks;
mod retrieval;
mod rough;

pub use best::Best;
pub use cosine::Cosine;
pub use embedded::{Embedded, Panels};
pub use knn::{Neighbors, Votes, elected, votes, votes_each};
pub use lists::{Hidden, Lists, Popularity, Wanted, gain, lists};
pub use nearest::{nearest, nearest_among};
pub use retrieval::{
    Retrieval, Scorer, retrieval, retrieval_among, retrieval_at, retrieval_listed,
};
pub use rough::Rough;
