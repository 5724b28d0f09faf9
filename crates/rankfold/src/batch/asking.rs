//! Sums over data that others hold: whoever has them all is asked, and the first answer that does
//! not come ends the search.

use crate::{Error, Result};
use faer::Mat;
use std::sync::Mutex;

/// Gives the answer to a question by its name, at some lists of matrices. Matrices of an answer
/// come column by column.
pub(super) type Ask<'s> = dyn FnMut(&'static str, &[&[Mat<f64>]]) -> Result<Vec<f64>> + Send + 's;

/// Who has the data, as a problem asks: by shared references.
pub(crate) struct Asking<'s> {
    ask: Mutex<&'s mut Ask<'s>>,
    failed: Mutex<Option<Error>>,
}

impl<'s> Asking<'s> {
    pub fn new(ask: &'s mut Ask<'s>) -> Self {
        Asking {
            ask: Mutex::new(ask),
            failed: Mutex::new(None),
        }
    }

    /// Why the search had to end.
    pub fn failure(&self) -> Option<Error> {
        let mut failed = self.failed.lock().unwrap_or_else(|e| e.into_inner());
        failed.take()
    }

    /// An answer of `count` numbers. They are NaN after a failure: a cost that is not finite ends
    /// the search.
    pub fn ask(&self, what: &'static str, at: &[&[Mat<f64>]], count: usize) -> Vec<f64> {
        let mut failed = self.failed.lock().unwrap_or_else(|e| e.into_inner());
        let missing = vec![f64::NAN; count];
        if failed.is_some() {
            return missing;
        }
        let mut ask = self.ask.lock().unwrap_or_else(|e| e.into_inner());
        match ask(what, at) {
            Ok(answer) if answer.len() == count => answer,
            Ok(answer) => {
                *failed = Some(Error::input(format!(
                    "an answer of {} numbers: expected {count}",
                    answer.len()
                )));
                missing
            }
            Err(error) => {
                *failed = Some(error);
                missing
            }
        }
    }
}

/// A matrix of an answer.
pub(super) fn matrix(numbers: &[f64], rows: usize, columns: usize) -> Mat<f64> {
    Mat::from_fn(rows, columns, |i, j| numbers[j * rows + i])
}
