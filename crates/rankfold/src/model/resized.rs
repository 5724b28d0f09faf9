//! The same model with another rank.

use super::{Knowledge, Model, Precise, with_form};
use crate::form::{Factored, Form};
use crate::online::folds;
use crate::{Error, Result};

/// A model with another rank, and what that cost.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Resized {
    /// The model.
    pub model: Model,
    /// The distance of its W from that of before, as a share of the norm of W.
    pub lost: f64,
    /// What it no longer knows, in sentences.
    pub notes: Vec<String>,
}

impl Model {
    /// The best model of another rank: a lower one cuts W off at its largest singular values, a
    /// higher one keeps W and adds directions of relative size 1e-6, from which learning can go
    /// on. Nothing is learned.
    ///
    /// ```
    /// let factor = [2.0, 0.0, 0.0, 1.0, 0.0, 0.0];
    /// let model = rankfold::Model::from_metric_factor::<f64>(&factor, 2, None)?;
    /// let smaller = model.with_rank(1, 0)?;
    /// assert_eq!(smaller.model.rank(), 1);
    /// assert!((smaller.lost - (1.0_f64 / 17.0).sqrt()).abs() < 1e-12);
    /// # Ok::<(), rankfold::Error>(())
    /// ```
    pub fn with_rank(&self, rank: usize, seed: u64) -> Result<Resized> {
        let why = match &self.knowledge {
            Knowledge::Map(_) => Some("the coordinates of a map are its points"),
            Knowledge::Multitask(_) => Some("a model of tasks keeps its rows in its subspace"),
            Knowledge::Recommend(_) => Some("a model of choices keeps its users in its subspace"),
            _ => None,
        };
        if let Some(why) = why {
            let message = format!("{why}: train it again with another rank");
            return Err(Error::input(message));
        }
        let (form, lost) = with_form!(&self.form, form => {
            let (form, lost) = form.view().with_rank(rank, seed)?;
            (Precise::new(form), lost)
        });
        let mut out = Resized {
            model: Model {
                form,
                ..self.clone()
            },
            lost,
            notes: Vec::new(),
        };
        if let Knowledge::Completion(known) = &mut out.model.knowledge {
            let biases = &mut known.biases;
            let count = [&biases.count[0][..], &biases.count[1][..]];
            let (biased, residual) = (biases.bias.is_some(), known.card.residual);
            biases.folds = with_form!(&out.model.form, form => match form {
                Form::Factored(form) => folds(form, count, biased, residual),
                other => {
                    let ([left, right], _) = other.view().balanced(rank, seed)?;
                    folds(&Factored::new(left, right), count, biased, residual)
                }
            });
            if lost > 0.0 && biases.variances.take().is_some() {
                let note = "how sure ratings are is not known for a lower rank, and was left out";
                out.notes.push(note.into());
            }
        }
        Ok(out)
    }
}
