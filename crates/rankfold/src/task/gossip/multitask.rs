//! Regression tasks divided among agents: a subspace of the features is agreed on.

use super::choose::{Choice, Fold};
use super::{Gossip, GossipEvent, GossipSteps, GossipTrial, Gossiped, WatchGossip};
use crate::batch::Tasks;
use crate::data::{TaskColumns, TaskRows, split_key};
use crate::gossip::{Regressions, Steps};
use crate::model::Knowledge;
use crate::task::multitask::Shares;
use crate::task::{Multitask, MultitaskEvent};
use crate::{Error, Result};

impl Gossip {
    /// Learns tasks, divided among the agents in the order they first came. `options` say
    /// how rows are seen; rank, ridge, seed and threads are those of the gossip. `None`
    /// where `watch` stops it before the run.
    pub fn multitask(
        &self,
        data: &TaskRows,
        columns: &TaskColumns,
        options: &Multitask,
        watch: WatchGossip<'_>,
    ) -> Result<Option<Gossiped>> {
        self.check()?;
        let count = data.names.len();
        self.check_shares("tasks", count, (data.features.len(), "features"))?;
        let mut options = options
            .clone()
            .rank(self.rank)
            .seed(self.seed)
            .threads(self.threads);
        if let Some(lambda) = self.regularization {
            options = options.regularization(lambda);
        }
        let mut trials = Vec::new();
        let shares = Shares::new(&options, data, &mut |event| match event {
            MultitaskEvent::Iteration(..) | MultitaskEvent::Last => true,
            MultitaskEvent::Tried(trial) => {
                let trial = GossipTrial {
                    regularization: trial.regularization,
                    steps: None,
                    error: trial.nmse,
                };
                let go_on = watch(GossipEvent::Tried(&trial));
                trials.push(trial);
                go_on
            }
        })?;
        let Some(shares) = shares else {
            return Ok(None);
        };
        let lambda = shares.regularization;
        let tasks: Result<Vec<Tasks>> = (0..self.agents)
            .map(|i| shares.tasks(self.share(i, count)))
            .collect();
        let tasks = tasks?;
        let squares: f64 = tasks.iter().map(Tasks::squares).sum();
        if !(squares > 0.0) {
            return Err(Error::input(
                "the targets are all the same: there is nothing to learn",
            ));
        }
        let rho = self.usual_rho(squares);
        let works: Vec<Regressions> = tasks
            .into_iter()
            .map(|tasks| Regressions::new(tasks, lambda))
            .collect();
        let steps = match self.steps {
            GossipSteps::CrossValidated { .. } => {
                let choice = Choice {
                    ridges: vec![lambda],
                    rho,
                    fold: &mut |part, parts, lambda| self.task_fold(&works, part, parts, lambda),
                    trials: &mut trials,
                };
                match choice.make(self, watch)? {
                    Some((_, steps)) => steps,
                    None => return Ok(None),
                }
            }
            GossipSteps::Own => Steps::Own,
            GossipSteps::Given { a, b } => self.given((a, b)),
        };
        let (simulation, stopped) = self.run(works, rho, steps, watch)?;
        let status = simulation.status();
        let card = self.card(&status, rho, steps);
        let slots = status.slots as usize;
        let mean = simulation.mean()?;
        let whole = shares.model(&mean, 0..count, columns, slots)?;
        let mut models = vec![whole.model];
        for (i, agent) in simulation.agents().iter().enumerate() {
            let own = self.share(i, count);
            models.push(shares.model(agent.subspace(), own, columns, slots)?.model);
        }
        for (i, model) in models.iter_mut().enumerate() {
            if let Knowledge::Multitask(known) = &mut model.knowledge {
                known.card.solver = "gossip".into();
            }
            model.card.init = "random".into();
            let mut card = card.clone();
            card.agent = i.checked_sub(1).map(|i| i as u64);
            model.card.gossip = Some(card);
        }
        let model = models.remove(0);
        Ok(Some(Gossiped {
            model,
            agents: models,
            status,
            card,
            regularization: lambda,
            trials,
            stopped,
            lost_rank: whole.lost_rank,
        }))
    }

    /// The rows of all tasks, without and with one part of them.
    fn task_fold(
        &self,
        works: &[Regressions],
        part: usize,
        parts: usize,
        lambda: f64,
    ) -> Result<Fold<Regressions>> {
        let held = |row: usize| split_key(self.seed, row as u64) % parts as u64 == part as u64;
        let side = |wanted: bool| -> Result<Vec<Regressions>> {
            let some = |work: &Regressions| {
                let tasks = work.tasks().filtered(|row| held(row) == wanted)?;
                Ok(Regressions::new(tasks, lambda))
            };
            works.iter().map(some).collect()
        };
        Ok(Fold {
            works: side(false)?,
            held: side(true)?,
        })
    }
}
