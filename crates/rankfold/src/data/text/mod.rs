//! Text to sparse rows: tokens, stop words, information gain, tf-idf.
//!
//! Tokens are words of at least two letters, lower-cased, without stop words
//! and without stemming, or runs of words or letters. A [`Vocabulary`] is fitted once: the terms that occur
//! in enough documents, ordered by the information their presence gives about
//! the labels. A document is then its terms weighted by tf·ln(N/df), with
//! length 1.

mod documents;
mod fit;
mod stop_words;
mod strip;
mod tokens;
mod vocabulary;

pub use documents::{Documents, VectorizeSummary, fit_file, vectorize_file};
pub use fit::{FitOptions, Fitter};
pub use strip::Strip;
pub use tokens::{Alphabet, Lengths, StopWords, TermRules};
pub use vocabulary::{TermFrequency, Vocabulary};
