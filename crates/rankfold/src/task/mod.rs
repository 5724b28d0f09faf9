//! What users call: a task turns data into examples, and picks the loss, the
//! learner and the metrics.

mod evaluation;
mod informative;
mod session;
mod similarity;
mod step_size;

pub use evaluation::{Evaluate, Evaluation};
pub use session::{Checkpoint, CurvePoint, Event, Session, Stopped};
pub use similarity::{Init, Similarity, SimilarityLearner, Validation, evaluate};
