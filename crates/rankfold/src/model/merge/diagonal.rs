//! Distributions over W with a variance for each entry (AROMA with a diagonal), joined.
//!
//! Before its first example an entry has the variance 1, and what an example says of it adds to the
//! precision 1/σ². So 1/σ² − 1 is what a model learned of an entry. These add up, and the mean is
//! that of the models, each weighted by what it learned: an entry that one model alone has met
//! keeps its mean and its variance. The means of a model merged with itself stay; it is surer of
//! them, as if the data had come twice.

use super::union::Union;
use crate::form::{Diagonal, FormRef};
use crate::{Real, Result, memory};

/// The place of an entry, what was learned of it, and that times its mean.
type Learned = (u64, f64, f64);

/// The joined distribution. Models count by `weights` beside what they learned.
pub(super) fn joined<R: Real>(
    forms: &[FormRef<'_, R>],
    sides: [&Union; 2],
    weights: &[f64],
) -> Result<Diagonal<R>> {
    let mut all: Vec<Learned> = Vec::new();
    let (mut unlearned, mut sparse) = (0.0, false);
    let total: f64 = weights.iter().sum();
    for (at, (form, weight)) in forms.iter().zip(weights).enumerate() {
        let FormRef::Diagonal(form) = form else {
            continue;
        };
        unlearned += weight / total * form.unlearned();
        sparse |= form.is_sparse();
        let touched = form.touched();
        let size = 2 * (all.len() + touched.len()) * size_of::<Learned>();
        memory::require(size as u128, "what all models learned of entries")?;
        let factor = |side: &Union, i: usize| side.factors.as_ref().map_or(1.0, |f| f[at][i]);
        for (place, mean, variance) in touched {
            let learned = 1.0 / variance.to_f64() - 1.0;
            if !(learned > 0.0) {
                continue;
            }
            let (i, j) = ((place >> 32) as usize, place as u32 as usize);
            // An entry in other units: its variance has the square of them.
            let scale = factor(sides[0], i) * factor(sides[1], j);
            let learned = weight * learned / (scale * scale).max(f64::MIN_POSITIVE);
            let (i, j) = (sides[0].at[at][i], sides[1].at[at][j]);
            let place = u64::from(i) << 32 | u64::from(j);
            all.push((place, learned, learned * scale * mean.to_f64()));
        }
    }
    all.sort_by_key(|entry| entry.0);
    let entries = all.chunk_by(|a, b| a.0 == b.0).map(|same| {
        let learned: f64 = same.iter().map(|e| e.1).sum();
        let mean = same.iter().map(|e| e.2).sum::<f64>() / learned;
        let variance = 1.0 / (1.0 + learned);
        (same[0].0, R::from_f64(mean), R::from_f64(variance))
    });
    let shape = (sides[0].size, sides[1].size);
    let touched = Diagonal::from_touched(shape, unlearned, entries);
    Ok(match sparse {
        true => touched,
        false => stored(&touched),
    })
}

/// The same with all entries stored, where they fit in memory.
fn stored<R: Real>(touched: &Diagonal<R>) -> Diagonal<R> {
    let (n, m) = touched.shape();
    let room = 2 * n as u128 * m as u128 * size_of::<(R, R)>() as u128;
    if memory::require(room, "").is_err() {
        return touched.clone();
    }
    let places = (0..n as u32).flat_map(|i| (0..m as u32).map(move |j| (i, j)));
    let entries = places.map(|(i, j)| touched.entry(i, j)).collect();
    Diagonal::from_all(m, touched.unlearned(), entries)
}

#[cfg(test)]
mod tests {
    use super::super::MergeOptions;
    use crate::data::Labelled;
    use crate::form::Form;
    use crate::model::{Model, Precise};
    use crate::random::normal_at;
    use crate::{Rows, Similarity};

    /// Rows of two classes, of which the features from `from` on are not zero.
    fn model(from: usize, until: usize, learner: &str) -> Model {
        let value = |i: usize, j: usize| {
            let known = (from..until).contains(&j);
            let side = [1.0, -1.0][i % 2];
            let noise = normal_at(3, 0, i as u64, j as u64);
            if known {
                side * (1.0 + j as f64) + noise
            } else {
                0.0
            }
        };
        let rows: Vec<Vec<f64>> = (0..30)
            .map(|i| (0..6).map(|j| value(i, j)).collect())
            .collect();
        let mut rows = Labelled::new(Rows::<f64>::from_dense(&rows).unwrap());
        rows.labels = crate::data::Labels::default();
        (0..30).for_each(|i| rows.labels.push([["a", "b"][i % 2]]));
        let mut task = Similarity::default().steps(40);
        crate::options::Options::set(&mut task, "learner", learner).unwrap();
        task.fit(&rows).unwrap()
    }

    fn entries(model: &Model) -> [Vec<Vec<f64>>; 2] {
        match &model.form {
            Precise::F64(Form::Diagonal(form)) => form.to_dense(),
            _ => unreachable!("a variance for each entry"),
        }
    }

    fn merge(models: &[&Model]) -> Model {
        Model::merge(models, &MergeOptions::default())
            .unwrap()
            .model
    }

    #[test]
    fn means_stay_and_precisions_add_up() {
        let one = model(0, 6, "aroma-diagonal");
        let [mean, variance] = entries(&one);
        for count in [2, 3] {
            let [found, sure] = entries(&merge(&vec![&one; count]));
            for (i, j) in (0..6).flat_map(|i| (0..6).map(move |j| (i, j))) {
                let (a, b) = (found[i][j], mean[i][j]);
                assert!((a - b).abs() < 1e-12 * (1.0 + b.abs()), "{a} {b}");
                let want = 1.0 / (1.0 + count as f64 * (1.0 / variance[i][j] - 1.0));
                assert!((sure[i][j] - want).abs() < 1e-12);
            }
        }
        let [two, three] = [model(0, 3, "aroma-diagonal"), model(3, 6, "aroma-diagonal")];
        let both = [merge(&[&two, &three]), merge(&[&three, &two])].map(|m| entries(&m));
        assert_eq!(both[0], both[1]);
        for (part, own) in [(0..3, entries(&two)), (3..6, entries(&three))] {
            for (i, j) in part.clone().flat_map(|i| part.clone().map(move |j| (i, j))) {
                // What only one model has met stays as it is.
                assert!((both[0][0][i][j] - own[0][i][j]).abs() < 1e-12);
                assert!((both[0][1][i][j] - own[1][i][j]).abs() < 1e-12);
                assert!(own[1][i][j] < 1.0);
            }
        }
        let merged = merge(&[&two, &three]);
        assert!(merged.has_confidence());
        let bytes = merged.to_bytes().unwrap();
        assert_eq!(
            Model::from_bytes(&bytes).unwrap().to_bytes().unwrap(),
            bytes
        );
    }

    #[test]
    fn other_distributions_and_ranks_are_refused() {
        let (one, two) = (model(0, 6, "aroma-diagonal"), model(0, 6, "aroma-factored"));
        let error = Model::merge(&[&one, &two], &MergeOptions::default()).unwrap_err();
        assert!(error.to_string().contains("factored-gaussian"), "{error}");
        let options = MergeOptions::default().rank(Some(2));
        for model in [&one, &two] {
            let error = Model::merge(&[model, model], &options).unwrap_err();
            assert!(error.to_string().contains("full matrix"), "{error}");
        }
    }
}
