//! Simple recommenders that a model is measured beside.

use super::evaluation::list_metrics;
use super::fit::usual_penalty;
use crate::batch::{ease, nearest_items};
use crate::data::Choices;
use crate::eval::{Hidden, Popularity, Scorer, Wanted, lists};
use crate::task::given_up;
use crate::task::run::Baseline;
use crate::{Ids, Result, Rows, choices};

choices! {
    /// A recommender to compare with.
    pub enum ListBaseline {
        /// What was chosen most
        Popularity = "popularity",
        /// What was chosen most of late; --train must have times
        Recent = "recent",
        /// The items nearest to what a user chose, by cosine
        Neighbors = "neighbors",
        /// EASE: a ridge regression of every item on all others, of full rank
        Ease = "ease",
    }
}

/// Nearest items that count for an item.
const NEIGHBORS: usize = 100;

/// What choosing an item adds to the scores of others.
enum ItemWeights {
    Sparse(Rows<f32>),
    Dense(Vec<f32>),
}

/// Users as sums of what choices add.
struct Sums<'a> {
    weights: ItemWeights,
    histories: &'a Rows<f32>,
    hidden: Hidden,
}

impl Scorer for Sums<'_> {
    fn rows(&self) -> usize {
        self.histories.len()
    }

    fn candidates(&self) -> usize {
        self.histories.columns()
    }

    fn scores(&self, out: &mut [f64], first: usize, count: usize) {
        let items = self.candidates();
        out.fill(0.0);
        for (user, out) in (first..first + count).zip(out.chunks_exact_mut(items.max(1))) {
            for (item, strength) in self.histories.row(user).iter() {
                let strength = f64::from(strength);
                match &self.weights {
                    ItemWeights::Sparse(rows) => {
                        let others = rows.row(item as usize).iter();
                        others.for_each(|(j, w)| out[j as usize] += strength * f64::from(w));
                    }
                    ItemWeights::Dense(all) => {
                        let others = &all[item as usize * items..][..items];
                        for (out, w) in out.iter_mut().zip(others) {
                            *out += strength * f64::from(*w);
                        }
                    }
                }
            }
            self.hidden.hide(user, out);
        }
    }
}

/// What baselines are measured on.
pub(super) struct Measured<'a> {
    /// What users chose before, which is not shown to them.
    pub histories: &'a Rows<f32>,
    /// How often each item was chosen.
    pub popularity: &'a [f64],
    /// What they look for.
    pub wanted: &'a [Wanted],
    /// The length of the lists.
    pub top: usize,
    pub threads: usize,
    pub go_on: &'a (dyn Fn() -> bool + Sync),
}

impl Measured<'_> {
    /// A baseline with its ndcg of each user; `None` where it needs times and there are none.
    pub fn baseline(
        &self,
        which: ListBaseline,
        recent: Option<&[f64]>,
    ) -> Result<Option<(Baseline, Vec<Option<f64>>)>> {
        let hidden = || {
            Hidden::of(
                self.histories
                    .iter()
                    .map(|row| row.indices.to_vec())
                    .collect(),
            )
        };
        let counted = |counts: &[f64]| {
            let scorer = Popularity {
                counts,
                hidden: hidden(),
            };
            self.measure(&scorer)
        };
        let summed = |weights: ItemWeights| {
            self.measure(&Sums {
                weights,
                histories: self.histories,
                hidden: hidden(),
            })
        };
        let found = match which {
            ListBaseline::Popularity => counted(self.popularity),
            ListBaseline::Recent => match recent {
                None => return Ok(None),
                Some(recent) => counted(recent),
            },
            ListBaseline::Neighbors => {
                let near = nearest_items(self.histories, NEIGHBORS, self.threads, self.go_on);
                summed(ItemWeights::Sparse(near.ok_or_else(given_up)?))
            }
            ListBaseline::Ease => {
                let weights = ease(self.histories, usual_penalty(self.histories), self.threads)?;
                summed(ItemWeights::Dense(weights))
            }
        };
        let (metrics, each) = found?;
        Ok(Some((Baseline::new(which.name(), metrics), each)))
    }

    fn measure(&self, scorer: &impl Scorer) -> Result<(crate::model::Metrics, Vec<Option<f64>>)> {
        let found = lists(scorer, self.wanted, self.top, self.threads, self.go_on);
        let found = found.ok_or_else(given_up)?;
        Ok((list_metrics(&found, self.top), found.ndcg_of))
    }
}

/// How often the items of a model were chosen of late, by the choices of a file with times.
pub(super) fn recent_of(choices: &Choices, items: &Ids) -> Option<Vec<f64>> {
    let recent = choices.recent.as_ref()?;
    let of = |id: &str| choices.items.find(id).map_or(0.0, |i| recent[i as usize]);
    Some(items.iter().map(of).collect())
}
