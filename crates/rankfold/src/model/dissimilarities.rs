//! The dissimilarities that a map was learned from: what it goes on with when some
//! of them change.

use super::file::{Tensor, TensorFile, Tensors};
use crate::Result;
use crate::data::Dissimilarity;

/// How unlike pairs of items are, each pair once, by the numbers of the items.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dissimilarities {
    /// All of them, by pairs with the smaller number first.
    pub list: Vec<Dissimilarity>,
}

impl Dissimilarities {
    pub(crate) fn tensors(&self) -> Tensors<'_> {
        let pairs = self.list.iter().flat_map(|d| [d.left, d.right]);
        let values = self.list.iter().map(|d| d.value);
        vec![
            (
                "dissimilarities.pairs".into(),
                Tensor::u64s(pairs.map(u64::from).collect()),
            ),
            (
                "dissimilarities.values".into(),
                Tensor::f64s(values.collect()),
            ),
        ]
    }

    /// Reads what [`Dissimilarities::tensors`] gave, for so many items.
    pub(crate) fn read(file: &TensorFile<'_>, items: usize) -> Result<Self> {
        let pairs = file.u64s("dissimilarities.pairs")?;
        let values = file.f64s("dissimilarities.values", pairs.len() / 2)?;
        let beyond = |i: &u64| usize::try_from(*i).is_err() || *i as usize >= items;
        let ordered = pairs
            .chunks(2)
            .all(|pair| pair.len() == 2 && pair[0] < pair[1]);
        if !ordered {
            return Err(file.error("dissimilarities that are not of two items in order"));
        }
        if pairs.iter().any(beyond) || !values.iter().all(|v| *v >= 0.0) {
            return Err(file.error("dissimilarities of items that are not there, or below 0"));
        }
        let list = pairs.chunks_exact(2).zip(values);
        let one = |(pair, value): (&[u64], f64)| Dissimilarity {
            left: pair[0] as u32,
            right: pair[1] as u32,
            value,
        };
        Ok(Dissimilarities {
            list: list.map(one).collect(),
        })
    }
}
