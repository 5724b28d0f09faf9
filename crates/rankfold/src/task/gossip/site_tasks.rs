//! The tasks of one agent: features stand in a list that all agents share.

use super::site::{Site, SiteState};
use crate::data::{FeatureMap, TaskColumns, TaskRows};
use crate::gossip::{Agent, Regressions, Sums};
use crate::model::{GossipCard, Knowledge, Model};
use crate::task::multitask::Shares;
use crate::{Error, Ids, Result, Rows};
use serde_json::Value;
use std::borrow::Cow;

/// An agent with tasks.
pub(super) struct TaskSite<'a> {
    pub agent: Agent<Regressions>,
    pub shares: Shares<'a>,
    columns: &'a TaskColumns,
    tasks: usize,
    features: usize,
    rows: usize,
}

impl<'a> TaskSite<'a> {
    /// The agent, and ρ.
    pub fn new(
        options: &Site,
        id: u64,
        (rows, columns): (&'a TaskRows, &'a TaskColumns),
        list: &Ids,
        sums: &mut dyn Sums,
        state: Option<SiteState<'_>>,
    ) -> Result<(Self, f64)> {
        let data = placed(rows, list)?;
        let (tasks, features) = (data.names.len(), data.features.len());
        let count = data.len();
        let frame = options.of_run(2).frame();
        let shares = Shares::beyond(frame, data, sums)?;
        let own = shares.tasks(0..tasks)?;
        let rho = match options.rho {
            Some(rho) => rho,
            None => {
                let squares = sums.sum("squares of targets", 1, &mut || Ok(vec![own.squares()]))?;
                if !(squares[0] > 0.0) {
                    return Err(Error::input(
                        "the targets of all agents are the same: there is nothing to learn",
                    ));
                }
                options.usual_rho(squares[0], sums.agents())
            }
        };
        let work = Regressions::new(own, shares.regularization);
        let site = TaskSite {
            agent: options.agent(id, work, rho, state)?,
            shares,
            columns,
            tasks,
            features,
            rows: count,
        };
        Ok((site, rho))
    }

    /// Features cannot be added while agents learn: scales and common weights are made
    /// before.
    pub fn grow(&mut self, list: &Ids) -> Result<()> {
        match list.len() == self.features {
            true => Ok(()),
            false => Err(Error::failure(
                "a neighbor came with new features after the scales were agreed on",
            )),
        }
    }

    /// The model of its tasks, the rank where it lost some, and what there is to tell.
    #[allow(clippy::type_complexity)]
    pub fn model(
        &self,
        options: &Site,
        card: &GossipCard,
    ) -> Result<(Model, Option<usize>, Vec<(&'static str, Value)>)> {
        let u = self.agent.subspace();
        let slots = card.slots as usize;
        let found = self.shares.model(u, 0..self.tasks, self.columns, slots)?;
        let mut model = found.model;
        if let Knowledge::Multitask(known) = &mut model.knowledge {
            known.card.solver = "gossip".into();
        }
        model.card.init = options.init.name().into();
        model.card.gossip = Some(card.clone());
        let more = vec![
            ("tasks", self.tasks.into()),
            ("features", self.features.into()),
            ("rows", self.rows.into()),
            ("standardize", self.shares.standardize.name().into()),
        ];
        Ok((model, found.lost_rank, more))
    }
}

/// Rows with the features of a list: where a table lacks one of them, its cells are missing.
fn placed<'a>(rows: &'a TaskRows, list: &Ids) -> Result<Cow<'a, TaskRows>> {
    if let Some(name) = rows.features.iter().find(|name| list.find(name).is_none()) {
        let message = format!("feature `{name}` is not in the list of features");
        return Err(Error::input(message));
    }
    if rows.features.iter().eq(list.iter()) {
        return Ok(Cow::Borrowed(rows));
    }
    let mut map = FeatureMap::new(list, &rows.features, rows.table)?;
    let mut out = TaskRows {
        names: rows.names.clone(),
        features: list.clone(),
        task: rows.task.clone(),
        rows: Rows::new(),
        targets: rows.targets.clone(),
        table: rows.table,
    };
    for i in 0..rows.len() {
        let row = map.align(rows.rows.row(i), &rows.features);
        out.rows.push(row);
    }
    Ok(Cow::Owned(out))
}
