//! Judges models by choices that were held out.

use super::evaluation::{UserLists, list_metrics};
use super::{popularity, tall};
use crate::eval::{Wanted, lists};
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

    /// How many users are judged.
    pub fn len(&self) -> usize {
        self.wanted.len()
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
        let threads = self.threads;
        let Ok(recommender) = Recommender::new(FormRef::Factored(form), known) else {
            return Metrics::new();
        };
        let number = |i: usize| Some(self.users[i]);
        let scorer = UserLists::new(
            &recommender,
            known,
            &number,
            &known.histories,
            true,
            threads,
        );
        let found = lists(&scorer, &self.wanted, 10, threads, &|| true);
        found.map_or_else(Metrics::new, |found| list_metrics(&found, 10))
    }

    /// NDCG; not a number where the factors have lost rank.
    pub fn ndcg(
        &self,
        encoder: &Mat<f64>,
        decoder: &Mat<f64>,
        own: impl Fn(&Tall<f32>) -> Option<Own>,
    ) -> f64 {
        let (Ok(encoder), Ok(decoder)) = (tall(encoder), tall(decoder)) else {
            return f64::NAN;
        };
        let own = own(&decoder);
        ndcg(&self.measure((encoder, decoder), own))
    }

    /// The same of a form where users begin with this, or with what features say of them.
    pub fn ndcg_beginning(
        &self,
        form: &Factored<f32>,
        own: Option<Own>,
        prior: Vec<f64>,
        beginnings: Vec<f32>,
    ) -> f64 {
        let mut known = self.known.clone();
        known.card.own = own;
        known.grams[1] = form.right().gram_now().into_owned();
        (known.prior, known.beginnings) = (prior, beginnings);
        ndcg(&self.measure_form(&known, form))
    }

    /// The same of a form.
    pub fn ndcg_of(&self, form: &Factored<f32>) -> f64 {
        ndcg(&self.measure_form(&self.known, form))
    }
}

fn ndcg(metrics: &Metrics) -> f64 {
    metrics.get("ndcg_at_10").copied().unwrap_or(f64::NAN)
}
