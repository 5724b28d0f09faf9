//! Ratings divided among agents by users: a subspace of the items is agreed on.

use super::choose::{Choice, Fold};
use super::parts::Division;
use super::talk::Talk;
use super::watch::Watched;
use super::{Divided, Given, Gossip, GossipFit};
use crate::batch::{Ended, Fitted, Observed, Part};
use crate::data::{Ratings, split_key};
use crate::gossip::{Columns, Elsewhere, Work};
use crate::model::{GossipCard, Knowledge, Model};
use crate::task::completion::fingerprint;
use crate::task::run::{Fit, Run};
use crate::task::{CompletedMatrix, Completion, CompletionLearner, CompletionSolver};
use crate::{Error, Ids, Real, Result};
use faer::Mat;
use std::ops::Range;

/// λ's to choose from, of what is predicted where nothing is known.
pub(super) const RIDGES: [f64; 6] = [0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001];

impl Gossip {
    /// Learns ratings, with users divided among the agents in the order they first came.
    pub(super) fn completion<'r, R: Real>(
        &self,
        ratings: Ratings,
        given: Given<'_>,
        run: (Run<'r>, Option<&'r mut dyn Elsewhere>),
    ) -> Result<GossipFit> {
        let Ratings {
            users,
            items,
            mut entries,
            repeated,
            columns,
        } = ratings;
        let (n, m) = entries.shape();
        let options = &self.for_data((n, "users"), (m, "items"), given.parts.is_some())?;
        let division = Division::new(options.agents, n, given.parts);
        let all = entries.part(Part::All);
        let center = options.center.unwrap_or_else(|| all.mean());
        let squares = all.mean_square(center) * all.count as f64;
        if !(squares > 0.0) {
            return Err(Error::input(
                "the ratings are all the same: there is nothing to learn",
            ));
        }
        let rho = options.usual_rho(squares);
        let shares = |entries: &Observed, part: Part, lambda: f64| -> Result<Vec<Columns>> {
            let view = entries.part(part).transposed();
            let share = |i| Columns::new(view, division.share(i), center, lambda);
            (0..options.agents).map(share).collect()
        };
        let fingerprint = fingerprint((&users, &items), &entries);
        let (mut talk, decided) = Talk::new(options, self, given, fingerprint, run)?;
        let decided = match decided {
            Some(decided) => decided,
            None => Choice {
                talk: &mut talk,
                ridges: options.regularization.map_or(RIDGES.to_vec(), |l| vec![l]),
                rho,
                fold: &mut |part, parts, lambda| {
                    let held = |entry: usize| {
                        split_key(options.seed, entry as u64) % parts as u64 == part as u64
                    };
                    entries.hold_out(held);
                    Ok(Fold {
                        works: shares(&entries, Part::Kept, lambda)?,
                        held: shares(&entries, Part::Held, lambda)?,
                    })
                },
            }
            .make()?,
        };
        // In their own order, whatever was held out before.
        entries.hold_out(|_| false);
        let works = shares(&entries, Part::All, decided.regularization)?;
        let test = match &given.watch.test {
            None => None,
            Some(Divided::Ratings(test)) => Some(test.as_ref()),
            Some(Divided::Tasks(_)) => return Err(Error::input("are tasks").about("test")),
        };
        let watched = Watched::new(
            "rmse",
            test,
            given.watch.planted,
            (&users, &division, options.agents),
            (m, "items", options.rank),
        )?;
        let maker = |slots| Maker {
            options,
            users: &users,
            items: &items,
            columns: columns.as_deref(),
            entries: &entries,
            center,
            lambda: decided.regularization,
            slots,
        };
        let crowd = talk.run(works, rho, &decided, &|crowd| {
            let (slots, works) = (crowd.status().slots, crowd.works());
            let model = |i: usize, subspace: &Mat<f64>| {
                let users = division.share(i);
                Ok(maker(slots).model::<R>(subspace, &works[i..=i], users)?.0)
            };
            let error =
                |model: &Model, held: &Ratings| Ok(model.evaluate_ratings(held)?.metrics["rmse"]);
            watched.look(crowd, model, error)
        })?;
        let status = crowd.status();
        let card = talk.card(&status, rho, &decided);
        let mean = crowd.mean()?;
        let maker = maker(status.slots);
        let works = crowd.works();
        let (mut model, lost_rank) = maker.model::<R>(&mean, &works, 0..n)?;
        model.card.gossip = Some(card.clone());
        let mut agents = Vec::with_capacity(options.agents);
        let subspaces = crowd.subspaces()?;
        for (i, subspace) in subspaces.iter().enumerate() {
            let users = division.share(i);
            let (mut model, _) = maker.model::<R>(subspace, &works[i..=i], users)?;
            model.card.gossip = Some(GossipCard {
                agent: Some(i as u64),
                ..card.clone()
            });
            agents.push(model);
        }
        let report = talk
            .finish((&model, lost_rank), &status, &card, &decided)?
            .with("users", n)
            .with("items", m)
            .with("ratings", entries.count())
            .with("repeated", repeated)
            .noting(repeated, || {
                format!("{repeated} ratings were replaced by later ones of the same user and item")
            });
        let fit = Fit { model, report };
        Ok(GossipFit {
            fit,
            agents,
            distances: talk.distances(&subspaces),
        })
    }
}

/// Makes models of subspaces.
pub(super) struct Maker<'a> {
    pub options: &'a Gossip,
    pub users: &'a Ids,
    pub items: &'a Ids,
    pub columns: Option<&'a [String]>,
    pub entries: &'a Observed,
    pub center: f64,
    pub lambda: f64,
    pub slots: u64,
}

impl Maker<'_> {
    /// The model of some users, whose columns these works have, in a subspace. What it says of
    /// the run is added by whoever knows it.
    pub fn model<R: Real>(
        &self,
        u: &Mat<f64>,
        works: &[&Columns],
        users: Range<usize>,
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
                center: self.center,
            },
            learner: CompletionLearner::Grassmann,
            solver: CompletionSolver::Own,
            iterations: self.slots as usize,
            ended: Ended::Iterations,
            regularization: Some(self.lambda),
            trials: Vec::new(),
            noise: None,
            sureness: None,
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
            .threads(self.options.thread_count());
        let entries = own.as_ref().unwrap_or(self.entries);
        let (mut model, lost) =
            options.model_of::<R>(&matrix, (names, self.items.clone()), entries)?;
        if let Knowledge::Completion(known) = &mut model.knowledge {
            known.card.solver = "gossip".into();
            known.card.columns = self.columns.map(<[String]>::to_vec);
        }
        model.card.init = self.options.init.name().into();
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
