//! Regression tasks divided among agents: a subspace of the features is agreed on.

use super::choose::{Choice, Fold};
use super::parts::Division;
use super::talk::Talk;
use super::watch::Watched;
use super::{Divided, Given, Gossip, GossipFit};
use crate::batch::Tasks;
use crate::data::{TaskColumns, TaskRows, split_key};
use crate::gossip::{Elsewhere, Regressions};
use crate::model::{Knowledge, Model};
use crate::task::multitask::{MultitaskEvent, Shares, fingerprint};
use crate::task::run::{Fit, Run};
use crate::task::{Multitask, TaskData};
use crate::{Error, Result};
use faer::Mat;

impl Gossip {
    /// Learns tasks, divided among the agents in the order they first came.
    pub(super) fn multitask<'r>(
        &self,
        data: TaskData<'_>,
        given: Given<'_>,
        run: (Run<'r>, Option<&'r mut dyn Elsewhere>),
    ) -> Result<GossipFit> {
        if data.valid.is_some() {
            return Err(Error::option("valid", "does not apply to gossip"));
        }
        let usual = TaskColumns::default();
        let (data, columns) = (data.rows, data.columns.unwrap_or(&usual));
        let count = data.names.len();
        let features = (data.features.len(), "features");
        let options = &self.for_data((count, "tasks"), features, given.parts.is_some())?;
        let division = Division::new(options.agents, count, given.parts);
        let (mut talk, decided) = Talk::new(options, self, given, fingerprint(data), run)?;
        let mut frame = options.frame();
        if let Some(decided) = &decided {
            frame.regularization = Some(decided.regularization);
            frame.standardize = decided.standardize;
        }
        let shares = Shares::new(&frame, data, &mut |event| match event {
            MultitaskEvent::Iteration { .. } | MultitaskEvent::Last(_) => talk.driver.goes_on(),
            MultitaskEvent::Tried(trial) => talk.driver.tried(trial.into()),
        })?;
        let Some(shares) = shares else {
            return Err(talk.driver.run.no_model());
        };
        let lambda = shares.regularization;
        let tasks: Result<Vec<Tasks>> = (0..options.agents)
            .map(|i| shares.tasks(division.share(i)))
            .collect();
        let tasks = tasks?;
        let squares: f64 = tasks.iter().map(Tasks::squares).sum();
        if !(squares > 0.0) {
            return Err(Error::input(
                "the targets are all the same: there is nothing to learn",
            ));
        }
        let rho = options.usual_rho(squares);
        let works: Vec<Regressions> = tasks
            .into_iter()
            .map(|tasks| Regressions::new(tasks, lambda))
            .collect();
        let mut decided = match decided {
            Some(decided) => decided,
            None => Choice {
                talk: &mut talk,
                ridges: vec![lambda],
                rho,
                fold: &mut |part, parts, lambda| options.task_fold(&works, part, parts, lambda),
            }
            .make()?,
        };
        decided.standardize = Some(shares.standardize);
        let test = match &given.watch.test {
            None => None,
            Some(Divided::Tasks(test)) => Some(test.rows),
            Some(Divided::Ratings(_)) => return Err(Error::input("are ratings").about("test")),
        };
        let watched = Watched::new(
            "nmse",
            test,
            given.watch.planted,
            (&data.names, &division, options.agents),
            (data.features.len(), "features", options.rank),
        )?;
        let threads = options.thread_count();
        let crowd = talk.run(works, rho, &decided, &|crowd| {
            let slots = crowd.status().slots as usize;
            let model = |i: usize, subspace: &Mat<f64>| {
                Ok(shares
                    .model(subspace, division.share(i), columns, slots)?
                    .model)
            };
            let error = |model: &Model, held: &TaskRows| {
                let found = model.evaluate_tasks(held, None, threads)?;
                Ok(found.metrics["nmse"])
            };
            watched.look(crowd, model, error)
        })?;
        let status = crowd.status();
        let card = talk.card(&status, rho, &decided);
        let slots = status.slots as usize;
        let mean = crowd.mean()?;
        let whole = shares.model(&mean, 0..count, columns, slots)?;
        let mut models = vec![whole.model];
        let subspaces = crowd.subspaces()?;
        for (i, subspace) in subspaces.iter().enumerate() {
            let own = division.share(i);
            models.push(shares.model(subspace, own, columns, slots)?.model);
        }
        for (i, model) in models.iter_mut().enumerate() {
            if let Knowledge::Multitask(known) = &mut model.knowledge {
                known.card.solver = "gossip".into();
            }
            model.card.init = options.init.name().into();
            let mut card = card.clone();
            card.agent = i.checked_sub(1).map(|i| i as u64);
            model.card.gossip = Some(card);
        }
        let model = models.remove(0);
        let report = talk
            .finish((&model, whole.lost_rank), &status, &card, &decided)?
            .with("tasks", count)
            .with("features", data.features.len())
            .with("rows", data.len());
        let fit = Fit { model, report };
        let agents = models;
        Ok(GossipFit {
            fit,
            agents,
            distances: talk.distances(&subspaces),
        })
    }

    /// How rows of regressions are seen, as in batch.
    pub(super) fn frame(&self) -> Multitask {
        Multitask {
            rank: Some(self.rank),
            regularization: self.regularization,
            standardize: self.standardize,
            no_bias: self.no_bias,
            no_common: self.no_common,
            common_ridge: self.common_ridge,
            seed: self.seed,
            threads: self.threads,
            ..Multitask::default()
        }
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
