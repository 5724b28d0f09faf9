//! Items of kernels and maps: rows that are their own features.

use super::{Embedding, Knowledge, Model, Prepared, Steps};
use crate::data::{Features, RowIds};
use crate::form::{Form, Side};
use crate::{Error, Ids, Real, Result, Rows, SparseVec};
use serde::{Deserialize, Serialize};

/// A kernel of rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KernelFunction {
    /// x · y.
    Linear,
    /// exp(−γ ‖x − y‖²), centered. Without γ it is 1 over the mean squared distance.
    Gaussian {
        /// γ.
        gamma: Option<f64>,
    },
}

impl KernelFunction {
    /// Its name on the command line and in model files.
    pub fn name(self) -> &'static str {
        match self {
            KernelFunction::Linear => "linear",
            KernelFunction::Gaussian { .. } => "gaussian",
        }
    }
}

/// What a model says about how its kernel was learned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelCard {
    /// Whether it is a map of dissimilarities.
    #[serde(default)]
    pub map: bool,
    /// The kernel of rows that it started from, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<KernelFunction>,
    /// What was done to rows first.
    #[serde(default)]
    pub preprocess: Steps,
    /// α: by what share distances should shrink inside a class and grow between
    /// classes.
    #[serde(default)]
    pub alpha: f64,
    /// How many pairs were drawn from labels, where they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawn: Option<usize>,
    /// Constraints that were learned from, or dissimilarities.
    #[serde(default)]
    pub constraints: usize,
    /// Those that the kernel does not keep to; of a map none are counted.
    #[serde(default)]
    pub violated: usize,
    /// The cost at the end, where distances are scaled to a mean square of 1.
    #[serde(default)]
    pub cost: f64,
}

/// A row for each name, whose one feature is the name itself.
pub fn unit_rows<R: Real>(names: &Ids) -> (RowIds, Prepared<R>) {
    let mut rows = Rows::new();
    let mut one = SparseVec::new();
    for i in 0..names.len() as u32 {
        one.clear();
        one.push(i, R::from_f64(1.0));
        rows.push(one.as_row());
    }
    rows.widen(names.len());
    let prepared = Prepared {
        rows,
        unknown_entries: 0,
    };
    (
        RowIds::Named(names.iter().map(str::to_owned).collect()),
        prepared,
    )
}

impl Model {
    /// The names of the items of a kernel.
    pub fn items(&self) -> Result<&Ids> {
        match (&self.knowledge, &self.features) {
            (Knowledge::Kernel(_) | Knowledge::Map(_), Features::Named(items)) => Ok(items),
            _ => Err(Error::input(format!(
                "a model for {} has no items of its own",
                self.task()
            ))),
        }
    }

    /// The items of a kernel as rows, with their names.
    pub fn item_rows<R: Real>(&self) -> Result<(RowIds, Prepared<R>)> {
        Ok(unit_rows(self.items()?))
    }

    /// Coordinates of the items of a kernel: those of a map as they stand, so that
    /// two maps of one history can be laid over each other, and others along their
    /// principal axes.
    pub fn item_coordinates<R: Real>(&self) -> Result<Embedding<R>> {
        let (_, prepared) = self.item_rows::<R>()?;
        let Form::Psd(form) = self.form.as_precision::<R>()? else {
            return Err(Error::input("a kernel that is not stored by a factor"));
        };
        if !matches!(self.knowledge, Knowledge::Map(_)) {
            return self.embed(&prepared, Side::Left);
        }
        let (factor, rank) = (form.factor(), form.rank());
        let rows = (0..factor.rows()).flat_map(|i| factor.row(i)[..rank].iter().copied());
        Ok(Embedding {
            values: rows.collect(),
            rank,
        })
    }
}
