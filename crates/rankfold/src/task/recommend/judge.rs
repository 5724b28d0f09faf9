//! Judges models by choices that were held out.

use super::evaluation::{UserLists, list_metrics};
use super::{popularity, tall};
use crate::eval::{Lists, Wanted, lists};
use crate::form::{Factored, FormRef, Tall};
use crate::linalg::Square;
use crate::model::{Metrics, Own, RecommendCard, Recommended, Recommender, WeightScale};
use crate::random::splitmix64;
use crate::task::run::Baseline;
use crate::{Ids, Result, Rows, SparseVec};
use faer::Mat;

/// Users who are judged as if they had chosen few items, at most.
const FEW_USERS: usize = 1_000;

/// Judges by what was held out.
pub(super) struct Judge {
    known: Recommended,
    /// The number of each user who is judged.
    users: Vec<u32>,
    wanted: Vec<Wanted>,
    threads: usize,
}

impl Judge {
    /// Of users with these histories; those who want nothing are not looked at.
    pub fn new(rows: &Rows<f32>, wanted: Vec<Wanted>, threads: usize) -> Self {
        let is_judged = |user: &usize| !wanted[*user].items.is_empty() || wanted[*user].missing > 0;
        let judged: Vec<usize> = (0..rows.len()).filter(is_judged).collect();
        let card = RecommendCard {
            regularization: 0.0,
            damping: 0.0,
            weight_scale: 1.0,
            weights: WeightScale::Log,
            own: None,
            half_life: None,
            liked_from: None,
            columns: None,
        };
        let known = Recommended {
            card,
            users: Ids::new(),
            histories: rows.select(judged.iter().copied()),
            popularity: popularity(rows),
            prior: Vec::new(),
            beginnings: Vec::new(),
            grams: [Square::zero(1), Square::zero(1)],
        };
        let wanted = judged.iter().map(|&user| wanted[user].clone()).collect();
        Judge {
            known,
            users: judged.iter().map(|&user| user as u32).collect(),
            wanted,
            threads,
        }
    }

    /// Whether nobody wants anything.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// The same users as if they had chosen so few items; they look for all others.
    pub fn with_few(&self, count: usize) -> Self {
        let long = |user: &usize| self.known.histories.row(*user).len() > count;
        let users: Vec<usize> = (0..self.wanted.len())
            .filter(long)
            .take(FEW_USERS)
            .collect();
        let (mut histories, mut wanted) = (Rows::new(), Vec::new());
        let numbers = users.iter().map(|&user| self.users[user]).collect();
        for user in users {
            let row = self.known.histories.row(user);
            let mut entries: Vec<(u32, f32)> = row.iter().collect();
            entries.sort_by_key(|entry| splitmix64((user as u64) << 32 ^ u64::from(entry.0)));
            let rest = entries.split_off(count);
            let mut items = self.wanted[user].items.clone();
            items.extend(rest.iter().map(|entry| entry.0));
            items.sort_unstable();
            wanted.push(Wanted { items, missing: 0 });
            histories.push(SparseVec::from_entries(entries).as_row());
        }
        histories.widen(self.known.histories.columns());
        let known = Recommended {
            histories,
            ..self.known.clone()
        };
        Judge {
            known,
            users: numbers,
            wanted,
            threads: self.threads,
        }
    }

    pub fn measure(&self, (encoder, decoder): (Tall<f32>, Tall<f32>), own: Option<Own>) -> Metrics {
        let mut known = self.known.clone();
        known.card.own = own;
        known.grams[1] = decoder.gram_now().into_owned();
        let form = Factored::new(encoder, decoder);
        self.measure_form(&known, &form)
    }

    /// What the most chosen items reach, the same for all.
    pub fn popularity(&self) -> Result<Baseline> {
        let counts = &self.known.popularity;
        let all = Mat::from_fn(counts.len(), 1, |_, _| 1.0);
        let most = Mat::from_fn(counts.len(), 1, |item, _| counts[item]);
        let found = self.measure((tall(&all)?, tall(&most)?), None);
        Ok(Baseline::new("popularity", found))
    }

    fn measure_form(&self, known: &Recommended, form: &Factored<f32>) -> Metrics {
        let found = self.lists_of(known, form);
        found.map_or_else(Metrics::new, |found| list_metrics(&found, 10))
    }

    fn lists_of(&self, known: &Recommended, form: &Factored<f32>) -> Option<Lists> {
        let threads = self.threads;
        let recommender = Recommender::new(FormRef::Factored(form), known).ok()?;
        let number = |i: usize| Some(self.users[i]);
        let scorer = UserLists::new(
            &recommender,
            known,
            &number,
            &known.histories,
            true,
            threads,
        );
        lists(&scorer, &self.wanted, 10, threads, &|| true)
    }

    /// NDCG of each user who is judged; nothing where the factors have lost rank.
    pub fn each(
        &self,
        encoder: &Mat<f64>,
        decoder: &Mat<f64>,
        own: impl Fn(&Tall<f32>) -> Option<Own>,
    ) -> Vec<f64> {
        let (Ok(encoder), Ok(decoder)) = (tall(encoder), tall(decoder)) else {
            return Vec::new();
        };
        let own = own(&decoder);
        let form = Factored::new(encoder, decoder);
        self.each_beginning(&form, own, Vec::new(), Vec::new())
    }

    /// The same of a form where users begin with this, or with what features say of them.
    pub fn each_beginning(
        &self,
        form: &Factored<f32>,
        own: Option<Own>,
        prior: Vec<f64>,
        beginnings: Vec<f32>,
    ) -> Vec<f64> {
        let mut known = self.known.clone();
        known.card.own = own;
        known.grams[1] = form.right().gram_now().into_owned();
        (known.prior, known.beginnings) = (prior, beginnings);
        let found = self.lists_of(&known, form);
        let each = found.into_iter().flat_map(|found| found.ndcg_of);
        each.flatten().collect()
    }

    /// NDCG of a form.
    pub fn ndcg_of(&self, form: &Factored<f32>) -> f64 {
        ndcg(&self.measure_form(&self.known, form))
    }
}

fn ndcg(metrics: &Metrics) -> f64 {
    metrics.get("ndcg_at_10").copied().unwrap_or(f64::NAN)
}

/// Not a number where there are no values.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// How much better the first is for the same users, and the standard error of that.
pub(super) fn gain(first: &[f64], second: &[f64]) -> (f64, f64) {
    if first.len() != second.len() {
        return (f64::NAN, f64::NAN);
    }
    let gains: Vec<f64> = first.iter().zip(second).map(|(a, b)| a - b).collect();
    let gain = mean(&gains);
    let squares: Vec<f64> = gains.iter().map(|g| (g - gain).powi(2)).collect();
    (gain, (mean(&squares) / gains.len() as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_has_the_standard_error_of_paired_differences() {
        let (found, error) = gain(&[0.5, 0.7, 0.9], &[0.4, 0.7, 0.6]);
        assert!((found - 0.4 / 3.0).abs() < 1e-15);
        let variance = (0.1_f64.powi(2) + 0.3_f64.powi(2)) / 3.0 - found * found;
        assert!((error - (variance / 3.0).sqrt()).abs() < 1e-15);
        assert!(gain(&[], &[]).0.is_nan() && gain(&[1.0], &[]).0.is_nan());
    }
}
