//! What the learner is told of a digit: the coordinates of its stroke and all
//! their products, because a bilinear similarity of the bare coordinates cannot
//! see shapes such as "left of and then right of".

use rankfold::data::{Features, Labelled, Labels, RowIds};
use rankfold::{Rows, SparseVec};

use super::data::Digit;

/// Mean and spread of the coordinates of the training digits.
pub struct Basis {
    mean: [f64; 16],
    deviation: [f64; 16],
}

impl Basis {
    pub fn new(train: &[Digit]) -> Self {
        let n = train.len() as f64;
        let mean = std::array::from_fn(|j| train.iter().map(|d| d.points[j]).sum::<f64>() / n);
        let spread = |j: usize| {
            let squares = train.iter().map(|d| (d.points[j] - mean[j]).powi(2));
            (squares.sum::<f64>() / n).sqrt()
        };
        Basis {
            mean,
            deviation: std::array::from_fn(spread),
        }
    }

    /// The 16 coordinates on a common scale, then their 136 products.
    pub fn row(&self, digit: &Digit) -> SparseVec<f32> {
        let centered: [f64; 16] =
            std::array::from_fn(|j| (digit.points[j] - self.mean[j]) / self.deviation[j]);
        let length = centered.iter().map(|v| v * v).sum::<f64>().sqrt();
        let unit = centered.map(|v| v / length);
        let products = (0..16).flat_map(|i| (i..16).map(move |j| (i, j)));
        let all = unit
            .iter()
            .copied()
            .chain(products.map(|(i, j)| unit[i] * unit[j]));
        SparseVec::from_dense(&all.map(|v| v as f32).collect::<Vec<f32>>())
    }

    /// Digits as the library takes them.
    pub fn labelled(&self, digits: &[Digit]) -> Labelled<f32> {
        let mut rows = Rows::new();
        let mut labels = Labels::default();
        for digit in digits {
            rows.push(self.row(digit).as_row());
            labels.push([digit.label.to_string().as_str()]);
        }
        Labelled {
            rows,
            labels,
            ids: RowIds::Positions,
            features: Features::Numbered,
        }
    }
}
