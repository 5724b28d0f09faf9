//! Lists of items for users, and how good they are.

use super::baselines::{ListBaseline, Measured, recent_of};
use super::{strengths, wanted_of};
use crate::data::Choices;
use crate::eval::{Embedded, Hidden, Lists, Rough, Scorer, Wanted, lists};
use crate::model::{Metrics, Model, Recommended, Recommender};
use crate::parallel::map_blocks;
use crate::task::groups::{COUNTS, Grouping, name_of_part, part_of_count};
use crate::task::run::Evaluation;
use crate::task::{given_up, threads};
use crate::{Error, Result, Rows, SparseRow};

/// Why what was chosen lately is not known.
const NO_TIMES: &str = "`recent` needs a time for each choice of --train";

/// Users of a block of work.
const BLOCK: usize = 64;

/// Scores of all items for some users.
#[derive(Debug)]
pub struct UserLists<'a> {
    scores: Embedded<'a, f32>,
    popularity: &'a [f64],
    /// Users of whom nothing is known.
    unknown: Vec<bool>,
    hidden: Hidden,
}

impl<'a> UserLists<'a> {
    /// Of users with these histories; what they chose is left out where `seen` says so. `number`
    /// has the number of each in the model, where they have one.
    pub fn new(
        recommender: &Recommender<'_>,
        known: &'a Recommended,
        number: &(dyn Fn(usize) -> Option<u32> + Sync),
        histories: &Rows<f32>,
        seen: bool,
        threads: usize,
    ) -> Self {
        let rank = recommender.rank();
        let blocks = map_blocks(histories.len(), BLOCK, threads, |range| {
            let users = range.map(|i| recommender.user(number(i), histories.row(i)));
            users.collect::<Vec<_>>()
        });
        let vectors: Vec<Vec<f64>> = blocks.into_iter().flatten().collect();
        let unknown = vectors.iter().map(|user| user.iter().all(|v| *v == 0.0));
        let unknown = unknown.collect();
        let left = vectors.iter().flatten().map(|v| *v as f32).collect();
        let right: Vec<f32> = (0..recommender.items() as u32)
            .flat_map(|item| recommender.item(item).iter().copied())
            .collect();
        let left_out = histories.iter().map(|row| match seen {
            true => row.indices.to_vec(),
            false => Vec::new(),
        });
        UserLists {
            scores: Embedded::owning(left, &right, rank),
            popularity: &known.popularity,
            unknown,
            hidden: Hidden::of(left_out.collect()),
        }
    }

    /// Leaves an item out of the list of a user.
    pub fn leave_out(&mut self, user: usize, item: u32) {
        self.hidden.leave_out(user, item);
    }

    /// Shows no other items than these.
    pub fn only(&mut self, items: impl IntoIterator<Item = u32>) {
        self.hidden.all_but(self.scores.candidates(), items);
    }
}

impl Scorer for UserLists<'_> {
    fn rows(&self) -> usize {
        self.unknown.len()
    }

    fn candidates(&self) -> usize {
        self.scores.candidates()
    }

    fn scores(&self, out: &mut [f64], first: usize, count: usize) {
        self.scores.scores(out, first, count);
        let items = self.candidates();
        for (user, out) in (first..first + count).zip(out.chunks_exact_mut(items.max(1))) {
            if self.unknown[user] {
                out.copy_from_slice(self.popularity);
            }
            self.hidden.hide(user, out);
        }
    }

    fn rough(&self, first: usize, count: usize) -> Option<Rough<'_>> {
        let known = self.unknown[first..first + count]
            .iter()
            .all(|unknown| !unknown);
        self.scores.rough(first, count).filter(|_| known)
    }

    fn score_one(&self, user: usize, item: usize) -> f64 {
        match self.hidden.hides(user, item) {
            true => f64::NAN,
            false if self.unknown[user] => self.popularity[item],
            false => self.scores.score_one(user, item),
        }
    }
}

/// Metrics by their names, for lists of this length.
pub(in crate::task) fn list_metrics(found: &Lists, k: usize) -> Metrics {
    let at = |name: &str, value: f64| (format!("{name}_at_{k}"), value);
    Metrics::from([
        at("ndcg", found.ndcg),
        at("recall", found.recall),
        at("precision", found.precision),
        at("hit_rate", found.hit_rate),
        at("coverage", found.coverage),
        ("map".into(), found.map),
        ("auc".into(), found.auc),
    ])
}

impl Model {
    /// The histories of users as this model sees them: by its items, with strengths. Items
    /// that it does not know are left out, and counted.
    pub fn histories_of(&self, choices: &Choices) -> Result<(Rows<f32>, usize)> {
        let (known, items) = (self.recommended()?, self.recommended_items()?);
        let strong = strengths(choices, known.card.weights, known.card.half_life);
        let number: Vec<Option<u32>> = choices.items.iter().map(|id| items.find(id)).collect();
        let (mut out, mut unknown) = (Rows::new(), 0);
        for row in strong.iter() {
            let entry = |(item, s): (u32, f32)| number[item as usize].map(|item| (item, s));
            let entries: Vec<(u32, f32)> = row.iter().filter_map(entry).collect();
            unknown += row.len() - entries.len();
            out.push(crate::SparseVec::from_entries(entries).as_row());
        }
        out.widen(items.len());
        Ok((out, unknown))
    }

    /// Judges lists of the `k` best items by what users chose in `test`. Users have the
    /// histories of `train`, or those that the model knows, and these are left out of their
    /// lists. Users of whom nothing is known get what was chosen most. Baselines are measured in
    /// the order in which they are asked for; `recent` needs times in `train`.
    pub fn evaluate_lists(
        &self,
        test: &Choices,
        train: Option<&Choices>,
        baselines: &[ListBaseline],
        k: usize,
        thread_count: Option<usize>,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Evaluation> {
        let threads = threads(thread_count);
        let known = self.recommended()?;
        let (histories, users, unknown) = match train {
            None => (known.histories.clone(), &known.users, 0),
            Some(train) => {
                let (histories, unknown) = self.histories_of(train)?;
                (histories, &train.users, unknown)
            }
        };
        let mut wanted = wanted_of(test, users, self.recommended_items()?);
        // Users who are in the test part alone have no history.
        let mut all = histories;
        let mut numbers: Vec<Option<u32>> = users.iter().map(|id| known.users.find(id)).collect();
        let (mut strangers, mut described) = (0, 0);
        for (user, row) in test.users.iter().zip(test.weights.iter()) {
            if let Some(user) = users.find(user) {
                let empty = all.row(user as usize).is_empty();
                described += usize::from(empty && known.is_described(numbers[user as usize]));
                continue;
            }
            let number = known.users.find(user);
            match known.is_described(number) {
                true => described += 1,
                false => strangers += 1,
            }
            numbers.push(number);
            all.push(SparseRow {
                indices: &[],
                values: &[],
            });
            let items = self.recommended_items()?;
            let found = row
                .indices
                .iter()
                .map(|&item| items.find(test.items.get(item)));
            let found: Vec<Option<u32>> = found.collect();
            let mut wants: Vec<u32> = found.iter().flatten().copied().collect();
            wants.sort_unstable();
            wanted.push(Wanted {
                missing: found.len() - wants.len(),
                items: wants,
            });
        }
        all.widen(known.popularity.len());
        let recommender = self.recommender()?;
        let number = |i: usize| numbers[i];
        let scorer = UserLists::new(&recommender, known, &number, &all, true, threads);
        let found = lists(&scorer, &wanted, k, threads, go_on).ok_or_else(given_up)?;
        let mut out = Evaluation::new(list_metrics(&found, k), found.rows, "users");
        let measured = Measured {
            histories: &all,
            popularity: &known.popularity,
            wanted: &wanted,
            top: k,
            threads,
            go_on,
        };
        let items = self.recommended_items()?;
        let recent = train.and_then(|train| recent_of(train, items));
        let mut main: Option<(String, Vec<Option<f64>>)> = None;
        for &which in baselines {
            match measured.baseline(which, recent.as_deref())? {
                Some((baseline, each)) => {
                    main.get_or_insert((baseline.name.clone(), each));
                    out.baselines.push(baseline);
                }
                None => return Err(Error::option("baselines", NO_TIMES)),
            }
        }
        let parts: Vec<u32> = all
            .iter()
            .map(|row| part_of_count(row.len() as u64) as u32)
            .collect();
        let names: crate::Ids = (0..COUNTS).map(name_of_part).collect();
        let by = Grouping::new(
            "choices of the user before",
            &format!("ndcg_at_{k}"),
            "users",
            main.as_ref().map(|main| &main.0[..]),
        );
        let baseline = main.as_ref().map(|main| &main.1[..]);
        out.groupings = vec![by.by_class(&names, &parts, &found.ndcg_of, baseline)];
        out.skipped = found.skipped;
        let missing: usize = wanted.iter().map(|wanted| wanted.missing).sum();
        let shown = self.popularity_shown(&scorer, &wanted, k, threads);
        Ok(out
            .with("users_without_history", strangers)
            .with("users_by_features", described)
            .with("unknown_items", missing + unknown)
            .with("popularity_shown", shown)
            .noting(strangers, || {
                format!("{strangers} users have no history: they are shown what was chosen most")
            })
            .noting(missing, || {
                format!("{missing} choices are of items that the model does not know: never found")
            }))
    }

    /// How often the items that are shown were chosen, as a share of the users, in the mean.
    fn popularity_shown(
        &self,
        scorer: &UserLists<'_>,
        wanted: &[Wanted],
        k: usize,
        threads: usize,
    ) -> f64 {
        let Ok(known) = self.recommended() else {
            return f64::NAN;
        };
        let judged = wanted.iter().enumerate();
        let judged = judged.filter(|(_, w)| !w.items.is_empty() || w.missing > 0);
        let queries: Vec<usize> = judged.map(|(user, _)| user).collect();
        let (mut sum, mut count) = (0.0, 0.0);
        let all = known.users.len().max(1) as f64;
        let each = |_: usize,
                    found: &[(usize, f64)]|
         -> std::result::Result<(), std::convert::Infallible> {
            for (item, _) in found.iter().filter(|(_, score)| !score.is_nan()) {
                sum += known.popularity[*item] / all;
                count += 1.0;
            }
            Ok(())
        };
        let Ok(()) = crate::eval::nearest_among(scorer, &queries, k, threads, each);
        sum / count
    }
}
