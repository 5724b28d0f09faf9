//! The ratings of one agent: its users are columns, and items stand in a list that all
//! agents share.

use super::completion::{Maker, RIDGES};
use super::site::{Site, SiteState};
use crate::batch::{Observed, Part};
use crate::data::{Ratings, split_key};
use crate::gossip::{Agent, Columns, Sums, Work, alone};
use crate::model::{GossipCard, Model};
use crate::{Error, Ids, Real, Result};
use serde_json::Value;

/// One of so many ratings is held out to choose λ.
const PARTS: u64 = 10;

/// Own steps of a trial of λ.
const TRIAL_STEPS: usize = 40;

/// An agent with ratings.
pub(super) struct RatingSite {
    pub agent: Agent<Columns>,
    pub lambda: f64,
    users: Ids,
    items: Ids,
    columns: Option<Vec<String>>,
    entries: Observed,
    center: f64,
    repeated: usize,
}

impl RatingSite {
    /// The agent, and ρ.
    pub fn new(
        options: &Site,
        id: u64,
        ratings: Ratings,
        list: &Ids,
        sums: &mut dyn Sums,
        state: Option<SiteState<'_>>,
    ) -> Result<(Self, f64)> {
        let entries = placed(&ratings, list)?;
        let all = entries.part(Part::All);
        // What the mean and ρ need, in one piece: ratings, their sum and their squares.
        let (center, rho) = match (options.center, options.rho) {
            (Some(center), Some(rho)) => (center, rho),
            _ => {
                let found = sums.sum("the number, sum and squares of ratings", 3, &mut || {
                    let count = all.count as f64;
                    Ok(vec![
                        count,
                        all.mean() * count,
                        all.mean_square(0.0) * count,
                    ])
                })?;
                let mean = found[1] / found[0].max(1.0);
                let center = options.center.unwrap_or(mean);
                let squares = found[2] - 2.0 * center * found[1] + center * center * found[0];
                if !(squares > 1e-9 * found[2].abs()) && options.rho.is_none() {
                    return Err(Error::input(
                        "the ratings of all agents are the same: there is nothing to learn",
                    ));
                }
                (center, options.usual_rho(squares, sums.agents()))
            }
        };
        check_center(center, all.mean(), &entries)?;
        let view = |entries: &Observed, part: Part, lambda: f64| {
            let users = 0..entries.shape().0;
            Columns::new(entries.part(part).transposed(), users, center, lambda)
        };
        let lambda = match options.regularization {
            Some(lambda) => lambda,
            None => {
                let votes = sums.sum(
                    "errors of penalties on held-out ratings",
                    2 * RIDGES.len(),
                    &mut || {
                        let mut entries = entries.clone();
                        entries
                            .hold_out(|i| split_key(options.seed, i as u64).is_multiple_of(PARTS));
                        let mut own = Vec::with_capacity(2 * RIDGES.len());
                        for lambda in RIDGES {
                            let kept = view(&entries, Part::Kept, lambda)?;
                            let held = view(&entries, Part::Held, lambda)?;
                            let (squares, count) = try_alone(options, kept, &held)?;
                            own.extend([squares, count]);
                        }
                        Ok(own)
                    },
                )?;
                let error = |k: usize| votes[2 * k] / votes[2 * k + 1].max(1.0);
                let best = (0..RIDGES.len()).min_by(|&a, &b| error(a).total_cmp(&error(b)));
                RIDGES[best.unwrap_or(0)]
            }
        };
        let agent = options.agent(id, view(&entries, Part::All, lambda)?, rho, state)?;
        let site = RatingSite {
            agent,
            lambda,
            users: ratings.users,
            items: list.clone(),
            columns: ratings.columns.clone(),
            entries,
            center,
            repeated: ratings.repeated,
        };
        Ok((site, rho))
    }

    /// Goes on with more items.
    pub fn grow(&mut self, list: &Ids) -> Result<()> {
        let more = (self.entries.shape().0, list.len());
        let entries = entries_of(&self.entries, |item| item);
        self.entries = Observed::new(more, entries)?.0;
        self.items = list.clone();
        let part = self.entries.part(Part::All).transposed();
        let work = Columns::new(part, 0..more.0, self.center, self.lambda)?;
        self.agent.grow(work)
    }

    /// The model of its users, the rank where it lost some, and what there is to tell.
    #[allow(clippy::type_complexity)]
    pub fn model<R: Real>(
        &self,
        options: &Site,
        card: &GossipCard,
    ) -> Result<(Model, Option<usize>, Vec<(&'static str, Value)>)> {
        let run = options.of_run(2);
        let maker = Maker {
            columns: self.columns.as_deref(),
            options: &run,
            users: &self.users,
            items: &self.items,
            entries: &self.entries,
            center: self.center,
            lambda: self.lambda,
            slots: card.slots,
        };
        let (n, m) = self.entries.shape();
        let work = self.agent.work();
        let (mut model, lost) = maker.model::<R>(self.agent.subspace(), &[work], 0..n)?;
        model.card.gossip = Some(GossipCard {
            agent: None,
            ..card.clone()
        });
        let more = vec![
            ("users", n.into()),
            ("items", m.into()),
            ("ratings", self.entries.count().into()),
            ("repeated", self.repeated.into()),
            ("center", self.center.into()),
        ];
        Ok((model, lost, more))
    }
}

/// All entries, with items numbered anew.
fn entries_of(entries: &Observed, item: impl Fn(u32) -> u32) -> Vec<(u32, u32, f64)> {
    let rows = entries.part(Part::All).rows;
    let mut out = Vec::with_capacity(entries.count());
    for i in 0..rows.len() {
        let (index, value) = rows.line(i);
        out.extend(
            index
                .iter()
                .zip(value)
                .map(|(&j, &y)| (i as u32, item(j), y)),
        );
    }
    out
}

/// Ratings with the items of a list.
fn placed(ratings: &Ratings, list: &Ids) -> Result<Observed> {
    let place = |name: &str| {
        list.find(name)
            .ok_or_else(|| Error::input(format!("item `{name}` is not in the list of items")))
    };
    let place = ratings
        .items
        .iter()
        .map(place)
        .collect::<Result<Vec<u32>>>()?;
    let entries = entries_of(&ratings.entries, |item| place[item as usize]);
    Ok(Observed::new((ratings.users.len(), list.len()), entries)?.0)
}

/// A mean of all ratings that has nothing to do with the own ones comes from somebody who
/// cannot be trusted, or whose ratings have another scale.
fn check_center(center: f64, own: f64, entries: &Observed) -> Result<()> {
    let all = entries.part(Part::All);
    let deviation = all.mean_square(own).sqrt();
    let far = 10.0 * deviation + 1e-6 * own.abs() + f64::MIN_POSITIVE;
    // Equal ratings tell nothing of the scale.
    match deviation > 0.0 && (center - own).abs() > far {
        true => Err(Error::input(format!(
            "the mean of all agents' ratings, {center}, is far from that of the own ones, {own}: \
             give --center, or look at what the neighbors have"
        ))),
        false => Ok(()),
    }
}

/// What the subspace that an agent finds by itself leaves of held-out ratings.
fn try_alone(options: &Site, kept: Columns, held: &Columns) -> Result<(f64, f64)> {
    let start = alone(&kept, options.rank, options.seed)
        .ok_or_else(|| Error::failure("no subspace to start from was found"))?;
    let mut agent = Agent::new(0, kept, &[], 0.0, &start)?;
    for _ in 0..TRIAL_STEPS {
        if !agent.own_step() {
            break;
        }
    }
    let work = agent.work();
    let (squares, count) = work.misfit(&work.local(agent.subspace(), None), held);
    Ok(match squares.is_finite() {
        true => (squares, count as f64),
        false => (0.0, 0.0),
    })
}
