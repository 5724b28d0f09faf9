//! A model of tasks that goes on: more rows of its tasks, and new tasks from a few.
//!
//! The subspace and the common part stay as they are. The moments of a task take each
//! row in, and the fit of the task follows from them, so that rows count the same
//! whether they came in training or later, and in any order.

use crate::model::{Card, Counters, Knowledge, Model, TaskView};
use crate::{Ids, Result, SparseRow};
use faer::Mat;
use std::path::Path;

/// Learns more rows of tasks.
pub struct TaskLearner {
    model: Model,
    view: TaskView,
    u: Mat<f64>,
    /// The weights of all tasks, task by task.
    weights: Vec<f64>,
    tasks: Ids,
}

impl Model {
    /// Goes on learning.
    pub fn into_task_learner(self) -> Result<TaskLearner> {
        let (u, weights) = self.task_factors()?;
        let r = u.ncols();
        Ok(TaskLearner {
            view: self.task_view()?,
            tasks: self.task_ids()?.1.clone(),
            weights: (0..weights.nrows() * r)
                .map(|i| weights[(i / r, i % r)])
                .collect(),
            u,
            model: self,
        })
    }
}

impl TaskLearner {
    /// Learns the target of a row of the model's features; gives what was predicted
    /// before.
    pub fn learn(&mut self, task: &str, row: SparseRow<'_, f64>, target: f64) -> Result<f64> {
        let known = self.tasks.find(task);
        let r = self.u.ncols();
        let (space, card) = parts(&mut self.model)?;
        let factors = space.factors_of(known.map(|t| t as usize));
        let mut vector = self.view.coordinates(row, factors);
        let prior = card.prior;
        let fit = known.map(|t| {
            let t = t as usize;
            (space.scale[t], space.bias[t], &self.weights[t * r..][..r])
        });
        let before = prior.target(&vector, fit);
        vector[r + 1] = target;
        let mut moments = match known {
            Some(t) => space.moments[t as usize].clone(),
            None => crate::model::Moments::new(r + 2),
        };
        moments.add(&vector);
        let fit = prior.fit(&moments);
        let numbers = fit.weights.iter().chain([&fit.bias, &fit.scale, &before]);
        let counters = &mut self.model.card.counters;
        counters.steps += 1;
        if numbers.into_iter().any(|v| !v.is_finite()) || !moments.is_finite() {
            counters.refused += 1;
            return Ok(before);
        }
        counters.updates += 1;
        counters.add_loss(0.5 * (before - target) * (before - target));
        let t = match known {
            Some(t) => t as usize,
            None => {
                counters.new_object_features += 1;
                let (space, _) = parts(&mut self.model)?;
                if let (Some(all), Some(usual)) = (&mut space.factors, &space.usual_factors) {
                    all.extend_from_slice(usual);
                }
                space.scale.push(0.0);
                space.bias.push(0.0);
                space.moments.push(moments.clone());
                self.weights.extend(vec![0.0; r]);
                self.tasks.intern(task) as usize
            }
        };
        let (space, _) = parts(&mut self.model)?;
        space.scale[t] = fit.scale;
        space.bias[t] = fit.bias;
        space.moments[t] = moments;
        self.weights[t * r..][..r].copy_from_slice(&fit.weights);
        Ok(before)
    }

    /// The names of features.
    pub fn features(&self) -> Result<&Ids> {
        Ok(self.model.task_ids()?.0)
    }

    /// How many tasks there are.
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// What the model says about itself.
    pub fn card(&self) -> &Card {
        &self.model.card
    }

    /// What learning has done so far.
    pub fn counters(&self) -> Counters {
        self.model.card.counters
    }

    /// The model as it is now.
    pub fn to_model(&self) -> Result<Model> {
        let r = self.u.ncols();
        let weights = Mat::from_fn(self.tasks.len(), r, |t, k| self.weights[t * r + k]);
        let (space, card) = self.model.task_parts()?;
        let names = (self.features()?.clone(), self.tasks.clone());
        let preprocess = self.model.preprocess.clone();
        let (space, own) = (space.clone(), card.clone());
        let mut model = Model::multitask(&self.u, &weights, names, preprocess, space, own)?;
        model.card = self.model.card.clone();
        Ok(model)
    }

    /// Writes the model as it is now.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.to_model()?.save(path)
    }
}

fn parts(
    model: &mut Model,
) -> Result<(&mut crate::model::TaskSpace, &crate::model::MultitaskCard)> {
    match &mut model.knowledge {
        Knowledge::Multitask(known) => Ok((&mut known.space, &known.card)),
        other => Err(other.expected("multitask")),
    }
}
