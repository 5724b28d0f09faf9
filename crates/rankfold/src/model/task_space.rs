//! What a model of many regression tasks knows beside their shared subspace: what
//! all tasks have in common, where each stands, and what is needed to go on with it.
//!
//! y = μ + sₜ (b + βₜ + xᵀ(c + U wₜ)) for a row x of task t. The subspace U and the
//! common weights c stay as they were learned. The scale sₜ, bias βₜ and weights wₜ of
//! a task follow from the moments of its rows in the subspace, which the model keeps:
//! so rows that come later count as much as those of training, and a new task needs
//! only a few.

use super::file::{Tensor, TensorFile, Tensors};
use super::{Knowledge, Model, Objects, Precise, Preprocess, Tasked};
use crate::batch::normal::Normal;
use crate::data::{Features, TaskColumns};
use crate::form::{Factored, Form, Health, Tall, Upkeep};
use crate::linalg::{Square, svd};
use crate::{Error, Ids, Result, SparseRow, SparseVec, choices};
use faer::Mat;
use serde::{Deserialize, Serialize};

choices! {
    /// How features and targets are brought to one scale.
    pub enum Standardize {
        /// As they are
        None = "none",
        /// Each feature to mean 0 and deviation 1 over all rows, the targets of each
        /// task to deviation 1
        Global = "global" (default),
        /// As `global`, and then each feature to deviation 1 within each task
        Task = "task",
    }
}

/// What multitask learning says about itself in the card.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MultitaskCard {
    /// How it was solved.
    pub solver: String,
    /// The columns of its tables.
    pub task_column: String,
    /// The column with the number to learn.
    pub target_column: String,
    /// Columns that are not used.
    pub ignored_columns: Vec<String>,
    /// How features and targets were scaled.
    pub standardize: Standardize,
    /// The ridge of the common weights, where there are some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common_ridge: Option<f64>,
    /// What is known of a task before its first row.
    #[serde(flatten)]
    pub prior: TaskPrior,
}

impl MultitaskCard {
    /// The columns of its tables; those to be ignored may be missing.
    pub fn columns(&self) -> TaskColumns {
        TaskColumns {
            reading: Default::default(),
            lenient: true,
            task: self.task_column.clone(),
            target: self.target_column.clone(),
            ignored: self.ignored_columns.clone(),
        }
    }
}

/// What is known of a task before its first row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TaskPrior {
    /// λ, the ridge of the weights.
    pub ridge: f64,
    /// κ, the ridge of the bias, in rows; without it there is no bias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bias_ridge: Option<f64>,
    /// The mean of all targets.
    pub target_mean: f64,
    /// The usual bias, on the scale of a task.
    pub offset: f64,
    /// The usual variance of the targets of a task, and how many rows it counts for;
    /// without it targets are not scaled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variance: Option<(f64, f64)>,
}

impl TaskPrior {
    /// The scale of a task with so many targets of this variance.
    pub fn scale(&self, count: f64, variance: f64) -> f64 {
        match self.variance {
            None => 1.0,
            Some((usual, weight)) => {
                let rows = weight + (count - 1.0).max(0.0);
                ((weight * usual + count * variance) / rows).sqrt()
            }
        }
    }

    /// Scale, bias and weights of a task from the moments of (z, q, y) over its rows,
    /// where z = Uᵀx and q = cᵀx: those with the least squared error and ridges.
    pub fn fit(&self, moments: &Moments) -> TaskFit {
        let (d, n) = (moments.mean.len(), moments.count);
        let r = d - 2;
        let scale = self.scale(n, moments.variance(d - 1));
        let (q, y) = (r, r + 1);
        let mean = (moments.mean[y] - self.target_mean) / scale - self.offset - moments.mean[q];
        // Rows lie around their mean; what the ridge of the bias leaves of the mean
        // counts as one more row.
        let share = match self.bias_ridge {
            None => n,
            Some(kappa) if n > 0.0 => n * kappa / (n + kappa),
            Some(_) => 0.0,
        };
        let products = |i: usize, j: usize| moments.products[i * d + j];
        let mut normal = Normal::new(r);
        for i in 0..r {
            for j in i..r {
                normal.a[i * r + j] = products(i, j) + share * moments.mean[i] * moments.mean[j];
            }
            normal.a[i * r + i] += self.ridge;
            normal.b[i] = products(i, y) / scale - products(i, q) + share * moments.mean[i] * mean;
        }
        normal.solve_least(r, false);
        let weights = normal.b;
        let explained: f64 = weights.iter().zip(&moments.mean).map(|(w, z)| w * z).sum();
        let bias = match self.bias_ridge {
            Some(kappa) if n > 0.0 => n * (mean - explained) / (n + kappa),
            _ => 0.0,
        };
        TaskFit {
            scale,
            bias,
            weights,
        }
    }
}

/// What is known of one task.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskFit {
    /// sₜ.
    pub scale: f64,
    /// βₜ.
    pub bias: f64,
    /// wₜ.
    pub weights: Vec<f64>,
}

/// The number of some vectors, their mean, and the sum of the products of their
/// deviations from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    /// How many vectors.
    pub count: f64,
    /// Their mean.
    pub mean: Vec<f64>,
    /// d×d, row by row.
    pub products: Vec<f64>,
}

impl Moments {
    /// Of no vectors of d numbers.
    pub fn new(d: usize) -> Self {
        Moments {
            count: 0.0,
            mean: vec![0.0; d],
            products: vec![0.0; d * d],
        }
    }

    /// One vector more [Welford 1962].
    pub fn add(&mut self, vector: &[f64]) {
        let d = self.mean.len();
        self.count += 1.0;
        let share = 1.0 / self.count;
        let before: Vec<f64> = vector.iter().zip(&self.mean).map(|(v, m)| v - m).collect();
        for (mean, off) in self.mean.iter_mut().zip(&before) {
            *mean += share * off;
        }
        let weight = 1.0 - share;
        for i in 0..d {
            for j in 0..d {
                self.products[i * d + j] += weight * before[i] * before[j];
            }
        }
    }

    /// The variance of one number, over the count.
    pub fn variance(&self, i: usize) -> f64 {
        self.products[i * self.mean.len() + i] / self.count.max(1.0)
    }

    pub(crate) fn is_finite(&self) -> bool {
        let all = self.mean.iter().chain(&self.products);
        self.count.is_finite() && all.into_iter().all(|v| v.is_finite())
    }
}

/// What a model of tasks keeps beside its form, whose left factor is U and whose
/// right one has the weights.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskSpace {
    /// c, where there is one.
    pub common: Option<Vec<f64>>,
    /// βₜ.
    pub bias: Vec<f64>,
    /// sₜ.
    pub scale: Vec<f64>,
    /// Of (Uᵀx, cᵀx, y) over the rows of each task.
    pub moments: Vec<Moments>,
    /// By what each feature is multiplied in each task, task by task, where they are
    /// standardized within tasks.
    pub factors: Option<Vec<f64>>,
    /// The same for a task that is not known.
    pub usual_factors: Option<Vec<f64>>,
}

impl TaskSpace {
    /// By what the features of rows of a task are multiplied.
    pub fn factors_of(&self, task: Option<usize>) -> Option<&[f64]> {
        let usual = self.usual_factors.as_deref()?;
        match (task, &self.factors) {
            (Some(t), Some(all)) => Some(&all[t * usual.len()..][..usual.len()]),
            _ => Some(usual),
        }
    }

    pub(crate) fn tensors(&self) -> Tensors<'_> {
        let mut out = Tensors::new();
        let mut add = |name: &str, values: Vec<f64>| {
            out.push((format!("tasks.{name}"), Tensor::f64s(values)));
        };
        if let Some(common) = &self.common {
            add("common", common.clone());
        }
        add("bias", self.bias.clone());
        add("scale", self.scale.clone());
        add("count", self.moments.iter().map(|m| m.count).collect());
        let flat = |part: fn(&Moments) -> &Vec<f64>| {
            let all = self.moments.iter().flat_map(part);
            all.copied().collect::<Vec<f64>>()
        };
        add("mean", flat(|m| &m.mean));
        add("products", flat(|m| &m.products));
        if let Some(factors) = &self.factors {
            add("factors", factors.clone());
        }
        if let Some(factors) = &self.usual_factors {
            add("usual_factors", factors.clone());
        }
        out
    }

    /// Reads what [`TaskSpace::tensors`] gave, for so many features and tasks.
    pub(crate) fn read(
        file: &TensorFile<'_>,
        (features, tasks): (usize, usize),
        rank: usize,
        card: &MultitaskCard,
    ) -> Result<Self> {
        let vector = |name: &str, size: usize| file.f64s(&format!("tasks.{name}"), size);
        let d = rank + 2;
        let (count, mean) = (vector("count", tasks)?, vector("mean", tasks * d)?);
        let products = vector("products", tasks * d * d)?;
        let moments = (0..tasks).map(|t| Moments {
            count: count[t],
            mean: mean[t * d..][..d].to_vec(),
            products: products[t * d * d..][..d * d].to_vec(),
        });
        let moments: Vec<Moments> = moments.collect();
        if count.iter().any(|&n| !(n >= 0.0)) || !moments.iter().all(Moments::is_finite) {
            return Err(file.error("the moments of the tasks are damaged"));
        }
        let optional = |name: &str, size: usize, wanted: bool| match wanted {
            true => vector(name, size).map(Some),
            false => Ok(None),
        };
        let within = card.standardize == Standardize::Task;
        let scale = vector("scale", tasks)?;
        let prior = &card.prior;
        let sound = scale.iter().all(|&s| s > 0.0 && s.is_finite())
            && prior.ridge >= 0.0
            && prior.bias_ridge.is_none_or(|kappa| kappa >= 0.0)
            && prior
                .variance
                .is_none_or(|(usual, rows)| usual > 0.0 && rows > 0.0);
        if !sound {
            return Err(file.error("a scale or a ridge of the tasks is not possible"));
        }
        Ok(TaskSpace {
            common: optional("common", features, card.common_ridge.is_some())?,
            bias: vector("bias", tasks)?,
            scale,
            moments,
            factors: optional("factors", tasks * features, within)?,
            usual_factors: optional("usual_factors", features, within)?,
        })
    }
}

/// A learned subspace, by which rows of any task are seen.
#[derive(Debug, Clone)]
pub struct TaskView {
    /// U, row by row.
    u: Vec<f64>,
    rank: usize,
    common: Option<Vec<f64>>,
    preprocess: Preprocess,
    features: usize,
    /// Scratch.
    row: SparseVec<f64>,
    wide: Vec<f64>,
}

impl TaskView {
    pub(crate) fn new(u: &Mat<f64>, common: Option<Vec<f64>>, preprocess: Preprocess) -> Self {
        let (m, r) = (u.nrows(), u.ncols());
        TaskView {
            u: (0..m * r).map(|i| u[(i / r, i % r)]).collect(),
            rank: r,
            common,
            preprocess,
            features: m,
            row: SparseVec::new(),
            wide: Vec::new(),
        }
    }

    /// (Uᵀx, cᵀx) of a row of the model's features, with one place more for a target.
    /// `factors` are those of its task, where it has some.
    pub fn coordinates(&mut self, row: SparseRow<'_, f64>, factors: Option<&[f64]>) -> Vec<f64> {
        let (r, m) = (self.rank, self.features);
        self.preprocess
            .apply_row(&mut self.row, row, m, &mut self.wide);
        let mut out = vec![0.0; r + 2];
        for (j, value) in self.row.as_row().iter() {
            let j = j as usize;
            let value = value * factors.map_or(1.0, |factors| factors[j]);
            for (out, u) in out.iter_mut().zip(&self.u[j * r..][..r]) {
                *out += value * u;
            }
            out[r] += value * self.common.as_ref().map_or(0.0, |common| common[j]);
        }
        out
    }
}

impl TaskPrior {
    /// The target of a row with these coordinates; of a task that is not known, what is
    /// usual.
    pub fn target(&self, coordinates: &[f64], fit: Option<(f64, f64, &[f64])>) -> f64 {
        let r = coordinates.len() - 2;
        let usual = self.variance.map_or(1.0, |(usual, _)| usual.sqrt());
        let (scale, bias, weights) = fit.unwrap_or((usual, 0.0, &[]));
        let own: f64 = weights.iter().zip(coordinates).map(|(w, z)| w * z).sum();
        self.target_mean + scale * (self.offset + bias + coordinates[r] + own)
    }
}

/// Predicts targets of rows.
pub struct TaskPredictor<'a> {
    view: TaskView,
    space: &'a TaskSpace,
    prior: TaskPrior,
    /// The weights of all tasks.
    weights: Vec<f64>,
}

impl TaskPredictor<'_> {
    /// The target of a row of the model's features, in a task.
    pub fn target(&mut self, task: Option<u32>, row: SparseRow<'_, f64>) -> f64 {
        let factors = self.space.factors_of(task.map(|t| t as usize));
        let coordinates = self.view.coordinates(row, factors);
        let r = coordinates.len() - 2;
        let fit = task.map(|t| {
            let t = t as usize;
            let weights = &self.weights[t * r..][..r];
            (self.space.scale[t], self.space.bias[t], weights)
        });
        self.prior.target(&coordinates, fit)
    }
}

/// A subspace and its weights in the axes of the weights, by falling use, without
/// those that no task uses.
pub(crate) fn principal(u: &Mat<f64>, weights: &Mat<f64>) -> Option<(Mat<f64>, usize)> {
    let (_, sigma, q) = svd(weights)?;
    let largest = sigma.first().copied().unwrap_or(0.0);
    let kept = sigma.iter().filter(|&&s| s > 1e-7 * largest).count();
    Some((u * q.subcols(0, kept), kept))
}

impl Model {
    /// A model of regression tasks: rows of W are features, columns are tasks.
    pub fn multitask(
        u: &Mat<f64>,
        weights: &Mat<f64>,
        (features, tasks): (Ids, Ids),
        preprocess: Preprocess,
        space: TaskSpace,
        card: MultitaskCard,
    ) -> Result<Self> {
        let sizes = [features.len(), tasks.len(), tasks.len()];
        if [u.nrows(), weights.nrows(), space.moments.len()] != sizes {
            return Err(Error::input(format!(
                "{} features and {} tasks for factors of {} and {} rows",
                features.len(),
                tasks.len(),
                u.nrows(),
                weights.nrows()
            )));
        }
        // Weights may have any rank: tasks come and go, the subspace stays.
        let tall = |m: &Mat<f64>| {
            let k = m.ncols();
            let rows: Vec<f64> = (0..m.nrows() * k).map(|i| m[(i / k, i % k)]).collect();
            Tall::from_parts(&rows, k, None)
        };
        let unit = || Square::identity(u.ncols());
        let upkeep = Upkeep::new(Health {
            condition: 1.0,
            size: 1.0,
        });
        let form = Factored::from_parts(tall(u)?, tall(weights)?, unit(), unit(), upkeep);
        let form = Form::Factored(form);
        let mut model = Model::new("grassmann", form, Features::Columns(features));
        model.card.regularization = Some(card.prior.ridge);
        model.preprocess = preprocess;
        model.objects = Some(Objects {
            features: Features::Named(tasks),
            preprocess: Preprocess::default(),
        });
        model.knowledge = Knowledge::Multitask(Tasked { card, space });
        Ok(model)
    }

    /// What a model of tasks has beside its form.
    pub fn task_parts(&self) -> Result<(&TaskSpace, &MultitaskCard)> {
        match &self.knowledge {
            Knowledge::Multitask(known) => Ok((&known.space, &known.card)),
            other => Err(other.expected("multitask")),
        }
    }

    /// The names of features and of tasks.
    pub fn task_ids(&self) -> Result<(&Ids, &Ids)> {
        self.task_parts()?;
        match (&self.features, self.objects.as_ref().map(|o| &o.features)) {
            (Features::Columns(features), Some(Features::Named(tasks))) => Ok((features, tasks)),
            _ => Err(Error::input("features and tasks have no names")),
        }
    }

    /// U, and the weights of all tasks.
    pub fn task_factors(&self) -> Result<(Mat<f64>, Mat<f64>)> {
        match &self.form {
            Precise::F64(Form::Factored(form)) => {
                let whole = |tall: &Tall<f64>| {
                    Mat::from_fn(tall.rows(), tall.rank(), |i, j| tall.row(i)[j])
                };
                Ok((whole(form.left()), whole(form.right())))
            }
            _ => Err(Error::input(
                "expected the factors of a subspace in double precision",
            )),
        }
    }

    /// How rows of any task are seen.
    pub fn task_view(&self) -> Result<TaskView> {
        let (space, _) = self.task_parts()?;
        let (u, _) = self.task_factors()?;
        let common = space.common.clone();
        Ok(TaskView::new(&u, common, self.preprocess.clone()))
    }

    /// Makes a predictor of targets.
    pub fn task_predictor(&self) -> Result<TaskPredictor<'_>> {
        let (space, card) = self.task_parts()?;
        let (_, weights) = self.task_factors()?;
        let (tasks, r) = (weights.nrows(), weights.ncols());
        Ok(TaskPredictor {
            view: self.task_view()?,
            space,
            prior: card.prior,
            weights: (0..tasks * r).map(|i| weights[(i / r, i % r)]).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::symmetric;
    use crate::random::normal_at;

    fn prior(bias_ridge: Option<f64>) -> TaskPrior {
        TaskPrior {
            ridge: 0.7,
            bias_ridge,
            target_mean: 2.0,
            offset: 0.3,
            variance: Some((1.7, 4.0)),
        }
    }

    /// The weights by plain least squares with a column of ones.
    fn plain(prior: &TaskPrior, rows: &[Vec<f64>], scale: f64) -> Vec<f64> {
        let r = rows[0].len() - 2;
        let ones = usize::from(prior.bias_ridge.is_some());
        let x = Mat::from_fn(rows.len(), r + ones, |i, j| match j < r {
            true => rows[i][j],
            false => 1.0,
        });
        let y = Mat::from_fn(rows.len(), 1, |i, _| {
            (rows[i][r + 1] - prior.target_mean) / scale - prior.offset - rows[i][r]
        });
        let mut system = x.transpose() * &x;
        for i in 0..r {
            system[(i, i)] += prior.ridge;
        }
        if let Some(kappa) = prior.bias_ridge {
            system[(r, r)] += kappa;
        }
        let w = symmetric::power(&system, -1.0).unwrap() * (x.transpose() * y);
        (0..r + ones).map(|i| w[(i, 0)]).collect()
    }

    #[test]
    fn moments_give_the_fit_of_their_rows() {
        for count in [1, 2, 5, 40] {
            for kappa in [None, Some(0.0), Some(2.5)] {
                let prior = prior(kappa);
                let rows: Vec<Vec<f64>> = (0..count)
                    .map(|i| (0..5).map(|j| 1.0 + normal_at(1, 0, i, j)).collect())
                    .collect();
                let mut moments = Moments::new(5);
                rows.iter().for_each(|row| moments.add(row));
                let fit = prior.fit(&moments);
                if kappa == Some(0.0) && count == 1 {
                    // One row with a free bias says nothing of weights.
                    assert!(fit.weights.iter().all(|w| w.abs() < 1e-12));
                    continue;
                }
                let want = plain(&prior, &rows, fit.scale);
                let mut found = fit.weights.clone();
                if kappa.is_some() {
                    found.push(fit.bias);
                }
                for (found, want) in found.iter().zip(&want) {
                    assert!((found - want).abs() < 1e-11, "{count} {kappa:?}");
                }
            }
        }
    }

    #[test]
    fn a_task_without_rows_is_a_usual_one() {
        let prior = prior(Some(2.0));
        let fit = prior.fit(&Moments::new(4));
        assert_eq!(fit.weights, [0.0, 0.0]);
        assert_eq!(fit.bias, 0.0);
        assert!(fit.scale.is_finite() && fit.scale > 0.0);
        let usual = prior.target(&[1.0, 1.0, 0.5, 0.0], None);
        assert!((usual - (2.0 + 1.7f64.sqrt() * 0.8)).abs() < 1e-12);
    }

    #[test]
    fn scales_move_from_the_usual_to_their_own() {
        let prior = prior(None);
        assert!((prior.scale(1e9, 5.0) - 5f64.sqrt()).abs() < 1e-6);
        let (one, many) = (prior.scale(1.0, 0.0), prior.scale(30.0, 0.0));
        assert!(one > many && many > 0.0);
    }
}
