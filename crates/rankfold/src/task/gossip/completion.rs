//! Ratings divided among agents by users: a subspace of the items is agreed on.

use super::choose::{Choice, Fold};
use super::{Gossip, Gossiped, WatchGossip};
use crate::batch::{Ended, Fitted, Observed, Part};
use crate::data::{Ratings, split_key};
use crate::gossip::{Columns, Work};
use crate::model::{Knowledge, Model};
use crate::task::{CompletedMatrix, Completion, CompletionLearner, CompletionSolver};
use crate::{Error, Ids, Real, Result};
use faer::Mat;
use std::ops::Range;

/// λ's to choose from, of what is predicted where nothing is known.
const RIDGES: [f64; 6] = [0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001];

impl Gossip {
    /// Learns ratings, with users divided among the agents in the order they first came;
    /// `None` where `watch` stops it before the run.
    pub fn completion<R: Real>(
        &self,
        ratings: Ratings,
        watch: WatchGossip<'_>,
    ) -> Result<Option<Gossiped>> {
        self.check()?;
        if let Some(lambda) = self.regularization
            && lambda > 1.0
        {
            return Err(Error::input(format!(
                "the regularization must be a number from 0 to 1, found {lambda}"
            )));
        }
        let Ratings {
            users,
            items,
            mut entries,
            ..
        } = ratings;
        let (n, m) = entries.shape();
        self.check_shares("users", n, (m, "items"))?;
        let all = entries.part(Part::All);
        let centre = self.centre.unwrap_or_else(|| all.mean());
        let squares = all.mean_square(centre) * all.count as f64;
        if !(squares > 0.0) {
            return Err(Error::input(
                "the ratings are all the same: there is nothing to learn",
            ));
        }
        let rho = self.usual_rho(squares);
        let shares = |entries: &Observed, part: Part, lambda: f64| -> Result<Vec<Columns>> {
            let view = entries.part(part).transposed();
            let share = |i| Columns::new(view, self.share(i, n), centre, lambda);
            (0..self.agents).map(share).collect()
        };
        let mut trials = Vec::new();
        let choice = Choice {
            ridges: self.regularization.map_or(RIDGES.to_vec(), |l| vec![l]),
            rho,
            fold: &mut |part, parts, lambda| {
                let held =
                    |entry: usize| split_key(self.seed, entry as u64) % parts as u64 == part as u64;
                entries.hold_out(held);
                Ok(Fold {
                    works: shares(&entries, Part::Kept, lambda)?,
                    held: shares(&entries, Part::Held, lambda)?,
                })
            },
            trials: &mut trials,
        };
        let Some((lambda, steps)) = choice.make(self, watch)? else {
            return Ok(None);
        };
        let works = shares(&entries, Part::All, lambda)?;
        let (simulation, stopped) = self.run(works, rho, steps, watch)?;
        let status = simulation.status();
        let card = self.card(&status, rho, steps);
        let mean = simulation.mean()?;
        let maker = Maker {
            options: self,
            users: &users,
            items: &items,
            entries: &entries,
            centre,
            lambda,
            slots: status.slots,
            card: &card,
        };
        let works: Vec<&Columns> = simulation.agents().iter().map(|a| a.work()).collect();
        let (model, lost_rank) = maker.model::<R>(&mean, &works, 0..n, None)?;
        let mut agents = Vec::with_capacity(self.agents);
        for (i, agent) in simulation.agents().iter().enumerate() {
            let work = [agent.work()];
            let users = self.share(i, n);
            agents.push(maker.model::<R>(agent.subspace(), &work, users, Some(i))?.0);
        }
        Ok(Some(Gossiped {
            model,
            agents,
            status,
            card,
            regularization: lambda,
            trials,
            stopped,
            lost_rank,
        }))
    }
}

/// Makes models of subspaces.
struct Maker<'a> {
    options: &'a Gossip,
    users: &'a Ids,
    items: &'a Ids,
    entries: &'a Observed,
    centre: f64,
    lambda: f64,
    slots: u64,
    card: &'a crate::model::GossipCard,
}

impl Maker<'_> {
    /// The model of some users, whose columns these works have, in a subspace.
    fn model<R: Real>(
        &self,
        u: &Mat<f64>,
        works: &[&Columns],
        users: Range<usize>,
        agent: Option<usize>,
    ) -> Result<(Model, Option<usize>)> {
        let mut weights = Mat::zeros(users.len(), u.ncols());
        let mut at = 0;
        for work in works {
            let found = work.local(u, None).weights();
            weights.subrows_mut(at, found.nrows()).copy_from(&found);
            at += found.nrows();
        }
        let matrix = CompletedMatrix {
            fitted: Fitted {
                left: weights,
                right: u.clone(),
                biases: None,
                centre: self.centre,
            },
            learner: CompletionLearner::Grassmann,
            solver: CompletionSolver::Own,
            iterations: self.slots as usize,
            ended: Ended::Iterations,
            regularization: Some(self.lambda),
            trials: Vec::new(),
            noise: None,
            step_size: None,
        };
        let mut names = Ids::new();
        users.clone().for_each(|i| {
            names.intern(self.users.get(i as u32));
        });
        let own = match users.len() == self.users.len() {
            true => None,
            false => Some(rows_of(self.entries, users)?),
        };
        let options = Completion::new(CompletionLearner::Grassmann)
            .rank(self.options.rank)
            .clip(self.options.clip)
            .seed(self.options.seed)
            .threads(self.options.threads);
        let entries = own.as_ref().unwrap_or(self.entries);
        let (mut model, lost) =
            options.model_of::<R>(&matrix, (names, self.items.clone()), entries)?;
        if let Knowledge::Completion(known) = &mut model.knowledge {
            known.card.solver = "gossip".into();
        }
        model.card.init = "random".into();
        let mut card = self.card.clone();
        card.agent = agent.map(|i| i as u64);
        model.card.gossip = Some(card);
        Ok((model, lost))
    }
}

/// The entries of some rows.
fn rows_of(entries: &Observed, rows: Range<usize>) -> Result<Observed> {
    let all = entries.part(Part::All).rows;
    let columns = entries.shape().1;
    let first = rows.start;
    let kept = rows.clone().flat_map(|i| {
        let (index, value) = all.line(i);
        let entry = move |(&j, &y): (&u32, &f64)| ((i - first) as u32, j, y);
        index.iter().zip(value).map(entry)
    });
    let kept = kept.collect();
    Ok(Observed::new((rows.len(), columns), kept)?.0)
}
