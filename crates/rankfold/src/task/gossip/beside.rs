//! What agents gain by talking: the same held-out data, predicted by what they learned
//! together, by what each learns alone, and by what one learner finds who has all data.

use super::{Divided, Gossip, GossipData, Watch};
use crate::batch::Part;
use crate::data::{Ratings, TaskRows};
use crate::model::Model;
use crate::task::hold_out::hold_out;
use crate::task::run::Run;
use crate::task::{
    Clip, Completion, CompletionLearner, Multitask, MultitaskLearner, RatingData, TaskData,
};
use crate::{Ids, Real, Result};
use std::borrow::Cow;
use std::ops::Range;

/// The share of each user's ratings, or of each task's rows, that is held out.
const HELD: f64 = 0.1;

/// Agents beside learning alone and learning centrally, on data that none of them saw.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Beside {
    /// What was measured, `rmse` or `nmse`: less is better.
    pub metric: &'static str,
    /// For each agent, on its own held-out data.
    pub agents: Vec<Compared>,
}

/// Errors of three models on the same held-out data; not a number where there are none.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Compared {
    /// How many ratings or rows were held out.
    pub held: usize,
    /// Of what the agents learned together.
    pub together: f64,
    /// Of the same kind of model, learned from the data of this agent alone.
    pub alone: f64,
    /// Of the same kind of model, learned from all data in one place.
    pub central: f64,
}

/// Ratings or tasks, of which some can be taken.
pub(super) trait Parted: Sized {
    /// The names of all users or tasks.
    fn names(&self) -> &Ids;
    /// The number of the user or task of each rating or row.
    fn owners(&self) -> Vec<u32>;
    /// Some ratings or rows, with the names of all.
    fn some(&self, members: &[u32]) -> Result<Self>;
    /// The ratings or rows of some users or tasks, with their names alone.
    fn of(&self, owners: Range<usize>) -> Result<Self>;

    /// The ratings or rows of users or tasks with these names; `None` where there are none.
    fn named(&self, names: &Ids) -> Result<Option<Self>> {
        let wanted: Vec<bool> = self
            .names()
            .iter()
            .map(|n| names.find(n).is_some())
            .collect();
        let owners = self.owners();
        let members = (0..owners.len() as u32).filter(|&i| wanted[owners[i as usize] as usize]);
        let members: Vec<u32> = members.collect();
        let some = (!members.is_empty()).then(|| self.some(&members));
        some.transpose()
    }
}

impl Parted for Ratings {
    fn names(&self) -> &Ids {
        &self.users
    }

    fn owners(&self) -> Vec<u32> {
        entries(self).into_iter().map(|(user, ..)| user).collect()
    }

    fn some(&self, members: &[u32]) -> Result<Self> {
        let all = entries(self);
        let kept = members.iter().map(|&i| all[i as usize]).collect();
        Ratings::new(self.users.clone(), self.items.clone(), kept)
    }

    fn of(&self, owners: Range<usize>) -> Result<Self> {
        let own = entries(self).into_iter();
        let own = own.filter(|(user, ..)| owners.contains(&(*user as usize)));
        let named = |(user, item, rating)| (self.users.get(user), self.items.get(item), rating);
        Ratings::from_entries(own.map(named))
    }
}

impl Parted for TaskRows {
    fn names(&self) -> &Ids {
        &self.names
    }

    fn owners(&self) -> Vec<u32> {
        self.task.clone()
    }

    fn some(&self, members: &[u32]) -> Result<Self> {
        Ok(self.select(members))
    }

    fn of(&self, owners: Range<usize>) -> Result<Self> {
        let rows = 0..self.len() as u32;
        let own = rows.filter(|&i| owners.contains(&(self.task[i as usize] as usize)));
        let mut part = self.select(&own.collect::<Vec<u32>>());
        part.names = Ids::new();
        for task in owners.clone() {
            part.names.intern(self.names.get(task as u32));
        }
        let first = owners.start as u32;
        part.task.iter_mut().for_each(|task| *task -= first);
        Ok(part)
    }
}

/// All ratings, user by user.
fn entries(ratings: &Ratings) -> Vec<(u32, u32, f64)> {
    let rows = ratings.entries.part(Part::All).rows;
    let line = |user: usize| {
        let (items, values) = rows.line(user);
        let entry = move |(&item, &rating): (&u32, &f64)| (user as u32, item, rating);
        items.iter().zip(values).map(entry)
    };
    (0..rows.len()).flat_map(line).collect()
}

impl Gossip {
    /// Runs the agents on nine tenths of their data, learns the same kind of model from the
    /// nine tenths of each agent and of all, and measures all three on the rest. The other
    /// two are the batch learner `grassmann` of the same rank, which chooses its own penalty.
    /// `None` where the data are too few to hold out any. `run` makes what each run is
    /// watched by.
    pub fn beside<'r, R: Real>(
        &self,
        data: &GossipData<'_>,
        run: &dyn Fn() -> Run<'r>,
    ) -> Result<Option<Beside>> {
        let plan = self.plan(data)?;
        let threads = self.thread_count();
        let together = |options: &Gossip, shared: Divided<'_>| -> Result<Vec<Model>> {
            let given = GossipData {
                shared,
                edges: data.edges,
                parts: Some(&plan.parts),
                faults: data.faults,
                watch: Watch::default(),
            };
            Ok(options.fit_agents::<R>(given, run())?.agents)
        };
        match &data.shared {
            Divided::Ratings(ratings) => {
                // Agents know the mean beforehand, so the others are given it too.
                let all = ratings.entries.part(Part::All);
                let center = self.center.unwrap_or_else(|| all.mean());
                let moved = entries(ratings).into_iter();
                let moved = moved.map(|(user, item, rating)| (user, item, rating - center));
                let (users, items) = (ratings.users.clone(), ratings.items.clone());
                let moved = Ratings::new(users, items, moved.collect())?;
                let clip = match self.clip {
                    Clip::To(low, high) => Clip::To(low - center, high - center),
                    other => other,
                };
                let options = self.clone().rank(plan.rank).center(0.0).clip(clip);
                Trio {
                    metric: "rmse",
                    together: &|kept: &Ratings| {
                        together(&options, Divided::Ratings(Cow::Borrowed(kept)))
                    },
                    single: &|part: &Ratings| {
                        let most = part.users.len().min(part.items.len());
                        let learner = Completion::new(CompletionLearner::Grassmann)
                            .rank(plan.rank.min(most))
                            .no_bias(true)
                            .clip(clip)
                            .seed(self.seed)
                            .threads(threads);
                        let data = RatingData {
                            ratings: Cow::Borrowed(part),
                            valid: None,
                        };
                        Ok(learner.fit_with::<R>(data, run())?.model)
                    },
                    error: &|model: &Model, held: &Ratings| {
                        Ok(model.evaluate_ratings(held)?.metrics["rmse"])
                    },
                }
                .compare(&moved, &plan.parts, self.seed)
            }
            Divided::Tasks(tasks) => Trio {
                metric: "nmse",
                together: &|kept: &TaskRows| {
                    let data = TaskData {
                        rows: kept,
                        ..*tasks
                    };
                    together(&self.clone().rank(plan.rank), Divided::Tasks(data))
                },
                single: &|part: &TaskRows| {
                    let most = part.names.len().min(part.features.len());
                    let mut learner = Multitask::default()
                        .learner(MultitaskLearner::Grassmann)
                        .rank(plan.rank.min(most))
                        .no_bias(self.no_bias)
                        .no_common(self.no_common)
                        .seed(self.seed)
                        .threads(threads);
                    if let Some(standardize) = self.standardize {
                        learner = learner.standardize(standardize);
                    }
                    let data = TaskData {
                        rows: part,
                        ..*tasks
                    };
                    Ok(learner.fit_with(data, run())?.model)
                },
                error: &|model: &Model, held: &TaskRows| {
                    let found = model.evaluate_tasks(held, None, threads)?;
                    Ok(found.metrics["nmse"])
                },
            }
            .compare(tasks.rows, &plan.parts, self.seed),
        }
    }
}

/// Three ways to learn from the same data, and how they are measured.
struct Trio<'a, D> {
    metric: &'static str,
    /// The models of the agents.
    together: &'a dyn Fn(&D) -> Result<Vec<Model>>,
    /// A model of data in one place.
    single: &'a dyn Fn(&D) -> Result<Model>,
    error: &'a dyn Fn(&Model, &D) -> Result<f64>,
}

impl<D: Parted> Trio<'_, D> {
    fn compare(&self, data: &D, parts: &[usize], seed: u64) -> Result<Option<Beside>> {
        let owners = data.owners();
        let (kept, held) = hold_out(owners.len(), Some(&owners), HELD, seed);
        // Whoever has nothing left would be another division of the data.
        let most = owners.iter().max().map_or(0, |last| *last as usize + 1);
        let mut left = vec![false; most];
        kept.iter()
            .for_each(|&i| left[owners[i as usize] as usize] = true);
        if held.is_empty() || !left.iter().all(|has| *has) {
            return Ok(None);
        }
        let (kept, held) = (data.some(&kept)?, data.some(&held)?);
        let together = (self.together)(&kept)?;
        let central = (self.single)(&kept)?;
        let (mut agents, mut end) = (Vec::new(), 0);
        for (model, part) in together.iter().zip(parts) {
            let own = end..end + part;
            end = own.end;
            let count = held.owners();
            let count = count.iter().filter(|&&i| own.contains(&(i as usize)));
            let mut compared = Compared {
                held: count.count(),
                together: f64::NAN,
                alone: f64::NAN,
                central: f64::NAN,
            };
            if compared.held > 0 {
                let rest = held.of(own.clone())?;
                compared.together = (self.error)(model, &rest)?;
                compared.central = (self.error)(&central, &rest)?;
                compared.alone = (self.error)(&(self.single)(&kept.of(own)?)?, &rest)?;
            }
            agents.push(compared);
        }
        let metric = self.metric;
        Ok(Some(Beside { metric, agents }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::normal_at;

    /// Ratings of rank 1 that agents see so few of that none finds it alone.
    fn ratings() -> Ratings {
        let factor = |side, i| normal_at(7, side, i, 0);
        let entry = |i: u64| (i / 40, i % 40);
        let known = (0..60 * 40).map(entry).filter(|(u, i)| {
            let key = crate::random::splitmix64(u * 1_000 + i);
            key % 10 < 2
        });
        let rating = |(u, i)| (u, i, 3.0 + factor(0, u) * factor(1, i));
        Ratings::from_entries(known.map(rating)).unwrap()
    }

    #[test]
    fn talking_is_better_than_learning_alone_and_near_learning_in_one_place() {
        let ratings = ratings();
        let gossip = Gossip::new(6).rank(1).slots(200).threads(1);
        let found = gossip.beside::<f64>(&(&ratings).into(), &Run::default);
        let found = found.unwrap().unwrap();
        assert_eq!((found.metric, found.agents.len()), ("rmse", 6));
        let held: usize = found.agents.iter().map(|one| one.held).sum();
        assert_eq!(held, ratings.entries.count() / 10);
        let mean = |of: fn(&Compared) -> f64| found.agents.iter().map(of).sum::<f64>() / 6.0;
        let [together, alone] = [mean(|one| one.together), mean(|one| one.alone)];
        let central = mean(|one| one.central);
        assert!(together < 0.5 * alone, "{found:?}");
        assert!((together - central).abs() < 0.25 * alone, "{found:?}");
    }

    #[test]
    fn parts_are_those_of_the_agents_and_few_data_are_not_compared() {
        let ratings = ratings();
        let owners = ratings.owners();
        assert_eq!(owners.len(), ratings.entries.count());
        let first = ratings.of(0..10).unwrap();
        let second = ratings.of(10..60).unwrap();
        let both = first.entries.count() + second.entries.count();
        assert_eq!((first.users.len(), both), (10, owners.len()));
        assert_eq!(second.users.get(0), ratings.users.get(10));
        let few = (0..8_u32).map(|i| (i, i % 4, f64::from(i)));
        let few = Ratings::from_entries(few).unwrap();
        let gossip = Gossip::new(2).rank(1).slots(5);
        let found = gossip.beside::<f64>(&(&few).into(), &Run::default);
        assert_eq!(found.unwrap(), None);
    }
}
