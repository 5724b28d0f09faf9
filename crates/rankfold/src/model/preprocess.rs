//! What is done to rows before a model sees them, learned from the training
//! rows and kept with the model.

use crate::sparse::all_of;
use crate::{Error, Real, Result, Rows, SparseRow, SparseVec, choices, memory};
use serde::{Deserialize, Serialize};

choices! {
    /// How features are weighted.
    pub enum Weight {
        /// As they are
        None = "none",
        /// By ln(N / df), how rare they are
        Tfidf = "tfidf",
        /// As does best on held-out training rows
        Auto = "auto",
    }
}

choices! {
    /// How rows are scaled.
    pub enum Normalize {
        /// As they are
        None = "none",
        /// To length one
        L2 = "l2",
        /// As does best on held-out training rows
        Auto = "auto",
    }
}

choices! {
    /// How columns are scaled.
    pub enum Scaling {
        /// As they are
        None = "none",
        /// To mean 0 and standard deviation 1 over all rows
        Global = "global",
        /// As does best on held-out training rows
        Auto = "auto",
    }
}

/// Which steps to learn; they are applied in this order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    /// Multiply column j by ln(N / df_j).
    pub tfidf: bool,
    /// Subtract each column's mean and divide by its standard deviation.
    pub standardize: bool,
    /// Scale each row to length one.
    pub normalize: bool,
}

impl Steps {
    /// The steps that options of a task ask for, without those that are to be chosen.
    pub fn of(weight: Weight, normalize: Normalize, standardize: Scaling) -> Self {
        Steps {
            tfidf: weight == Weight::Tfidf,
            standardize: standardize == Scaling::Global,
            normalize: normalize == Normalize::L2,
        }
    }

    /// The values of the options that ask for these steps.
    pub fn names(self) -> [(&'static str, &'static str); 3] {
        let name = |on: bool, name: &'static str| if on { name } else { "none" };
        [
            ("weight", name(self.tfidf, Weight::Tfidf.name())),
            ("normalize", name(self.normalize, Normalize::L2.name())),
            (
                "standardize",
                name(self.standardize, Scaling::Global.name()),
            ),
        ]
    }
}

/// Learned preprocessing. Missing cells (NaN inside, never from a file) are
/// filled with the column's training mean first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Preprocess {
    /// Which steps are applied.
    pub steps: Steps,
    pub(crate) fill: Option<Vec<f64>>,
    pub(crate) weight: Option<Vec<f64>>,
    pub(crate) mean: Option<Vec<f64>>,
    pub(crate) scale: Option<Vec<f64>>,
}

/// Makes sums over all who have rows of what one of them has.
type Summed<'a> = &'a mut dyn FnMut(Vec<f64>) -> Result<Vec<f64>>;

impl Preprocess {
    /// Fills and scales of rows that several owners have: each knows its own, and sums
    /// over all. Columns without any entry count as zero.
    pub(crate) fn fit_summed<R: Real>(
        standardize: bool,
        columns: usize,
        rows: &Rows<R>,
        sum: Summed<'_>,
    ) -> Result<Self> {
        let entries = || (0..rows.len()).flat_map(|i| rows.row(i).iter());
        let mut out = Preprocess {
            steps: Steps {
                standardize,
                ..Steps::default()
            },
            ..Preprocess::default()
        };
        // Sums, cells that are missing, and the number of rows.
        let mut own = vec![0.0; 2 * columns + 1];
        own[2 * columns] = rows.len() as f64;
        for (j, v) in entries() {
            match v.to_f64().is_nan() {
                true => own[columns + j as usize] += 1.0,
                false => own[j as usize] += v.to_f64(),
            }
        }
        let all = sum(own)?;
        let count = all[2 * columns].round().max(1.0);
        let mean = |j: usize| all[j] / (count - all[columns + j].round()).max(1.0);
        let fill: Vec<f64> = (0..columns).map(mean).collect();
        out.fill = Some(fill.clone());
        if standardize {
            // Filled cells leave the mean of a column as it is, and deviate by nothing.
            let mean: Vec<f64> = (0..columns)
                .map(|j| (all[j] + all[columns + j].round() * fill[j]) / count)
                .collect();
            let mut own = vec![0.0; columns];
            let mut stored = vec![0usize; columns];
            for (j, v) in entries() {
                let (j, v) = (j as usize, v.to_f64());
                let v = if v.is_nan() { fill[j] } else { v };
                own[j] += (v - mean[j]).powi(2);
                stored[j] += 1;
            }
            for j in 0..columns {
                own[j] += (rows.len() - stored[j]) as f64 * mean[j] * mean[j];
            }
            let scale = |(square, mean): (f64, &f64)| {
                let deviation = (square / count).max(0.0).sqrt();
                // Sums over a network are exact to nine digits.
                match deviation > 1e-6 * mean.abs() {
                    true => 1.0 / deviation,
                    false => 1.0,
                }
            };
            let squares = sum(own)?;
            out.scale = Some(squares.into_iter().zip(&mean).map(scale).collect());
            out.mean = Some(mean);
        }
        Ok(out)
    }

    /// Learns from the training rows: those named in `members`. `fill` says
    /// whether cells may be missing, now or in later files.
    pub fn fit<R: Real>(steps: Steps, fill: bool, rows: &Rows<R>, members: &[u32]) -> Self {
        let columns = rows.columns();
        let count = members.len();
        let entries = || members.iter().flat_map(|&i| rows.row(i as usize).iter());
        let mut out = Preprocess {
            steps,
            ..Preprocess::default()
        };
        if fill {
            let mut sum = vec![0.0; columns];
            let mut absent = vec![0usize; columns];
            for (j, v) in entries() {
                if v.to_f64().is_nan() {
                    absent[j as usize] += 1;
                } else {
                    sum[j as usize] += v.to_f64();
                }
            }
            let mean = |(s, a): (f64, usize)| s / (count - a).max(1) as f64;
            out.fill = Some(sum.into_iter().zip(absent).map(mean).collect());
        }
        if steps.tfidf {
            let mut frequency = vec![0usize; columns];
            for (j, v) in entries() {
                frequency[j as usize] += usize::from(v != R::default());
            }
            let n = count as f64;
            let weight = |df: usize| if df == 0 { 0.0 } else { (n / df as f64).ln() };
            out.weight = Some(frequency.into_iter().map(weight).collect());
        }
        if steps.standardize {
            let n = count as f64;
            let value = |j: u32, v: R| out.weighted(j, v);
            let mut mean = vec![0.0; columns];
            for (j, v) in entries() {
                mean[j as usize] += value(j, v) / n;
            }
            // Two passes: the sum of squares alone loses digits when the mean is large.
            let mut variance: Vec<f64> = vec![0.0; columns];
            let mut stored = vec![0usize; columns];
            for (j, v) in entries() {
                let j = j as usize;
                variance[j] += (value(j as u32, v) - mean[j]).powi(2) / n;
                stored[j] += 1;
            }
            let scale = (0..columns)
                .map(|j| {
                    let zeros = (count - stored[j]) as f64 / n;
                    let deviation = (variance[j] + zeros * mean[j] * mean[j]).sqrt();
                    // A constant column carries nothing; leave it at zero.
                    if deviation > 1e-12 * mean[j].abs() {
                        1.0 / deviation
                    } else {
                        1.0
                    }
                })
                .collect();
            out.mean = Some(mean);
            out.scale = Some(scale);
        }
        out
    }

    /// Whether these rows pass unchanged.
    pub fn passes<R: Real>(&self, rows: &Rows<R>) -> bool {
        let whole = |row: SparseRow<'_, R>| all_of(row.values, |v| !v.to_f64().is_nan());
        self.steps == Steps::default() && rows.iter().all(whole)
    }

    /// Whether every step has the numbers it needs.
    pub(crate) fn is_consistent(&self) -> bool {
        self.steps.tfidf == self.weight.is_some()
            && self.steps.standardize == self.mean.is_some()
            && self.steps.standardize == self.scale.is_some()
            // Deviations are above 0; of numbers near the end of what a double holds
            // their inverse may be 0.
            && self.scale.iter().flatten().all(|scale| *scale >= 0.0)
    }

    /// Filled and weighted, before any centring.
    fn weighted(&self, column: u32, value: impl Real) -> f64 {
        let j = column as usize;
        let mut x = value.to_f64();
        if x.is_nan() {
            x = self
                .fill
                .as_ref()
                .and_then(|fill| fill.get(j).copied())
                .unwrap_or(0.0);
        }
        match &self.weight {
            // A column that training never saw has no weight.
            Some(weight) => x * weight.get(j).copied().unwrap_or(0.0),
            None => x,
        }
    }

    /// The rows as the model sees them. `columns` is what the model knows:
    /// entries beyond it are dropped.
    pub fn apply<R: Real>(&self, rows: &Rows<R>, columns: usize) -> Result<Rows<R>> {
        if self.mean.is_some() {
            let entries = rows.len() as u128 * columns as u128;
            memory::require(
                entries * (4 + size_of::<R>() as u128),
                "standardizing, which leaves no zeros,",
            )?;
        }
        let mut out = Rows::new();
        out.widen(columns);
        let (mut row, mut wide) = (SparseVec::new(), Vec::new());
        for raw in rows.iter() {
            self.apply_row(&mut row, raw, columns, &mut wide);
            out.push(row.as_row());
        }
        out.shrink();
        Ok(out)
    }

    /// One row as the model sees it; `wide` is scratch. Standardizing leaves no
    /// zeros, so the row has all columns then.
    pub(crate) fn apply_row<R: Real>(
        &self,
        out: &mut SparseVec<R>,
        row: SparseRow<'_, R>,
        columns: usize,
        wide: &mut Vec<f64>,
    ) {
        let known = || row.iter().filter(|&(j, _)| (j as usize) < columns);
        let centered = self.mean.as_ref().zip(self.scale.as_ref());
        wide.clear();
        match centered {
            Some((mean, scale)) => {
                wide.extend(mean.iter().zip(scale).map(|(m, s)| -m * s));
                for (j, v) in known() {
                    wide[j as usize] += self.weighted(j, v) * scale[j as usize];
                }
            }
            None => wide.extend(known().map(|(j, v)| self.weighted(j, v))),
        }
        if self.steps.normalize {
            normalize(wide);
        }
        out.clear();
        let values = wide.iter().map(|&v| R::from_f64(v));
        if centered.is_some() {
            (0..).zip(values).for_each(|(j, v)| out.push(j, v));
        } else {
            known().zip(values).for_each(|((j, _), v)| out.push(j, v));
        }
    }

    /// The weight of the rarest feature, with tf-idf: that of a term seen once.
    pub(crate) fn largest_weight(&self) -> f64 {
        let weights = self.weight.iter().flatten();
        weights.fold(0.0, |largest, &w| largest.max(w))
    }

    /// What is kept for each feature, and what a new one gets, of which training
    /// knew nothing: a missing cell is 0, the weight is that of the rarest known
    /// feature, mean 0, scale 1.
    fn vectors(&mut self, largest_weight: f64) -> impl Iterator<Item = (&mut Vec<f64>, f64)> {
        let all = [
            (&mut self.fill, 0.0),
            (&mut self.weight, largest_weight),
            (&mut self.mean, 0.0),
            (&mut self.scale, 1.0),
        ];
        let kept = |(values, new): (_, _)| Option::as_mut(values).map(|values| (values, new));
        all.into_iter().filter_map(kept)
    }

    /// Makes room for features up to this number.
    pub(crate) fn reserve(&mut self, columns: usize) -> Result<()> {
        for (values, _) in self.vectors(0.0) {
            if columns > values.capacity() {
                let what = format!("preprocessing of {columns} features");
                // Room doubles, so that growth one by one is cheap.
                memory::require(columns as u128 * 16, &what)?;
                let more = columns - values.len();
                let reserved = memory::fallibly(|| values.try_reserve(more));
                reserved.map_err(|_| Error::failure(format!("no memory for {what}")))?;
            }
        }
        Ok(())
    }

    /// Adds new features up to this number.
    pub(crate) fn grow(&mut self, columns: usize, largest_weight: f64) {
        for (values, new) in self.vectors(largest_weight) {
            values.resize(columns.max(values.len()), new);
        }
    }
}

/// Scales a vector to length one; zero stays zero.
pub(crate) fn normalize(values: &mut [f64]) {
    // By the largest entry first: squares of large or small ones leave the range.
    let largest = values.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
    if largest > 0.0 && largest.is_finite() {
        values.iter_mut().for_each(|v| *v /= largest);
        let length = values.iter().map(|v| v * v).sum::<f64>().sqrt();
        values.iter_mut().for_each(|v| *v /= length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(dense: &[&[f64]]) -> Rows<f64> {
        let mut out = Rows::new();
        for row in dense {
            out.push(SparseVec::from_dense(row).as_row());
            out.widen(row.len());
        }
        out
    }

    fn dense(rows: &Rows<f64>) -> Vec<Vec<f64>> {
        let full = |row: SparseRow<'_, f64>| {
            let mut out = vec![0.0; rows.columns()];
            row.iter().for_each(|(j, v)| out[j as usize] = v);
            out
        };
        rows.iter().map(full).collect()
    }

    #[test]
    fn standardized_columns_have_mean_zero_and_deviation_one() {
        let data = rows(&[&[1.0, 0.0, 7.0], &[3.0, 2.0, 7.0], &[5.0, 0.0, 7.0]]);
        let steps = Steps {
            standardize: true,
            ..Steps::default()
        };
        let out = dense(
            &Preprocess::fit(steps, false, &data, &[0, 1, 2])
                .apply(&data, 3)
                .unwrap(),
        );
        for j in 0..3 {
            let mean: f64 = out.iter().map(|r| r[j]).sum::<f64>() / 3.0;
            let variance: f64 = out.iter().map(|r| r[j] * r[j]).sum::<f64>() / 3.0;
            assert!(mean.abs() < 1e-15);
            let want = if j == 2 { 0.0 } else { 1.0 };
            assert!((variance - want).abs() < 1e-14, "column {j}: {variance}");
        }
    }

    #[test]
    fn missing_cells_get_the_training_mean() {
        let data = rows(&[&[1.0, 2.0], &[f64::NAN, 0.0], &[3.0, 1.0]]);
        let preprocess = Preprocess::fit(Steps::default(), true, &data, &[0, 1, 2]);
        assert!(!preprocess.passes(&data));
        assert_eq!(dense(&preprocess.apply(&data, 2).unwrap())[1], [2.0, 0.0]);
    }

    #[test]
    fn tfidf_and_normalization_come_in_order() {
        let data = rows(&[&[3.0, 4.0], &[0.0, 4.0], &[0.0, 0.0]]);
        let steps = Steps {
            tfidf: true,
            normalize: true,
            ..Steps::default()
        };
        let out = dense(
            &Preprocess::fit(steps, false, &data, &[0, 1, 2])
                .apply(&data, 2)
                .unwrap(),
        );
        let (a, b) = (3.0 * 3f64.ln(), 4.0 * 1.5f64.ln());
        let length = a.hypot(b);
        assert!((out[0][0] - a / length).abs() < 1e-15);
        assert!((out[1][1] - 1.0).abs() < 1e-15);
        assert_eq!(out[2], [0.0, 0.0]);
    }

    #[test]
    fn new_features_are_taken_as_rare_and_centered() {
        let data = rows(&[&[1.0, 2.0], &[0.0, 4.0], &[0.0, 6.0]]);
        let steps = Steps {
            tfidf: true,
            standardize: true,
            ..Steps::default()
        };
        let mut preprocess = Preprocess::fit(steps, true, &data, &[0, 1, 2]);
        let largest = preprocess.largest_weight();
        assert_eq!(largest, 3f64.ln());
        let before = dense(&preprocess.apply(&data, 2).unwrap());
        preprocess.reserve(4).unwrap();
        preprocess.grow(4, largest);
        let wide = rows(&[&[1.0, 2.0, 0.0, 5.0], &[0.0, 4.0, f64::NAN, 0.0]]);
        let after = dense(&preprocess.apply(&wide, 4).unwrap());
        assert_eq!(after[0][..2], before[0]);
        assert_eq!(after[0][2..], [0.0, 5.0 * largest]);
        assert_eq!(after[1][2..], [0.0, 0.0]);
        assert!(preprocess.reserve(usize::MAX / 64).is_err());
    }

    #[test]
    fn columns_unknown_to_the_model_are_dropped() {
        let data = rows(&[&[1.0, 2.0, 3.0]]);
        let narrow = Preprocess::default().apply(&data, 2).unwrap();
        assert_eq!((narrow.columns(), narrow.nnz()), (2, 2));
    }
}
