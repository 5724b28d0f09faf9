//! Simple models of many tasks, to compare with: one ridge regression for all tasks,
//! one for each, and the alternating minimization of [Argyriou2008]. All see rows on
//! the same scale as the model does, have biases, and choose their ridge by validation.
//!
//! Each is a linear map of the features, U, with a ridge regression behind it: nothing
//! beside common weights, the identity, and the root of the matrix D.

use super::evaluation::Judge;
use super::fit::Learned;
use super::frame::{Frame, Framing};
use super::{Multitask, Work, judge_rows};
use crate::batch::{Ended, Tasks};
use crate::data::{FeatureMap, TaskRows};
use crate::linalg::symmetric;
use crate::model::Standardize;
use crate::{Error, Result};
use faer::Mat;

/// Numbers up to which baselines are fitted that have weights of each task for all
/// features: tasks times features squared.
const MOST: usize = 2_000_000;

/// Ridges to choose from, for features of mean square one.
const RIDGES: [f64; 10] = [3000.0, 1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1];

/// Rounds of the alternating minimization, and the change that ends them. It creeps at
/// the end, where predictions do not change any more.
const ROUNDS: usize = 60;
const CHANGE: f64 = 1e-4;

/// What is added to W Wᵀ, as a share of its trace, so that its root can be inverted.
const EPSILON: f64 = 1e-6;

/// A baseline that was fitted.
pub(super) struct Control {
    pub name: &'static str,
    frame: Frame,
    learned: Learned,
}

impl Control {
    pub fn regularization(&self) -> f64 {
        self.learned.prior.ridge
    }

    /// Judges it by rows of another file.
    pub fn judge(&self, data: &TaskRows, train: &TaskRows, judge: &mut Judge) -> Result<()> {
        let mut map = FeatureMap::new(&train.features, &data.features, data.table)?;
        let (_, fits) = self.learned.tasks(&self.frame, 0..self.frame.tasks_count());
        let mut view = self.learned.view(&self.frame);
        for i in 0..data.len() {
            let name = data.names.get(data.task[i]);
            let task = train.names.find(name).map(|t| t as usize);
            let row = map.align(data.rows.row(i), &data.features);
            let factors = self.frame.factors_of(task);
            let coordinates = view.coordinates(row, factors);
            let fit = task.map(|t| (fits[t].scale, fits[t].bias, &fits[t].weights[..]));
            let found = self.learned.prior.target(&coordinates, fit);
            judge.add(data.task[i] as usize, data.targets[i], found);
        }
        Ok(())
    }
}

/// A way to a map of the features, from tasks and a ridge.
type Way = fn(&Tasks, f64, usize) -> Result<Option<Vec<Mat<f64>>>>;

fn pooled(tasks: &Tasks, lambda: f64, threads: usize) -> Result<Option<Vec<Mat<f64>>>> {
    let none = Mat::zeros(tasks.features(), 0);
    Ok(Some(vec![none, tasks.pooled_ridge(lambda, threads)?]))
}

fn each(tasks: &Tasks, _: f64, _: usize) -> Result<Option<Vec<Mat<f64>>>> {
    let m = tasks.features();
    Ok(Some(vec![Mat::identity(m, m)]))
}

/// D ← (W Wᵀ + εI)^½ / Tr(·), and each task a ridge regression with the metric D⁻¹:
/// the same as a plain ridge on features mapped by D^½.
fn alternating(tasks: &Tasks, lambda: f64, threads: usize) -> Result<Option<Vec<Mat<f64>>>> {
    Ok(alternate(tasks, lambda, threads))
}

fn alternate(tasks: &Tasks, lambda: f64, threads: usize) -> Option<Vec<Mat<f64>>> {
    let m = tasks.features();
    let mut root = Mat::<f64>::identity(m, m);
    root *= faer::Scale(1.0 / (m as f64).sqrt());
    for _ in 0..ROUNDS {
        let mapped = tasks.mapped(&root);
        let size = tasks.len().div_ceil(8);
        let blocks = crate::parallel::map_blocks(tasks.len(), size, threads, |range| {
            let mut sum = Mat::<f64>::zeros(m, m);
            for t in range {
                let w = &root * mapped.ridge(t, lambda);
                sum += &w * w.transpose();
            }
            sum
        });
        let mut sum = Mat::<f64>::zeros(m, m);
        blocks.into_iter().for_each(|part| sum += part);
        let trace = |s: &Mat<f64>| (0..m).map(|i| s[(i, i)]).sum::<f64>();
        let epsilon = EPSILON * trace(&sum);
        (0..m).for_each(|i| sum[(i, i)] += epsilon);
        let d = symmetric::power(&sum, 0.5)?;
        let next = symmetric::power(&(faer::Scale(1.0 / trace(&d)) * &d), 0.5)?;
        let change = (&next - &root).norm_l2() / root.norm_l2();
        root = next;
        if change < CHANGE {
            break;
        }
    }
    Some(vec![root])
}

/// All baselines, fitted to these rows.
pub(super) fn all(
    train: &TaskRows,
    standardize: Standardize,
    bias: bool,
    seed: u64,
    threads: usize,
) -> Result<Vec<Control>> {
    let framing = Framing {
        standardize,
        bias,
        common: None,
        threads,
    };
    let options = Multitask::new().seed(seed).threads(threads);
    let (kept, held) = Work::new(&options, train, &mut |_| true).split();
    let whole: Vec<u32> = (0..train.len() as u32).collect();
    let ways: [(&'static str, Way, bool); 3] = [
        ("pooled", pooled, false),
        ("ridge", each, true),
        ("alternating", alternating, true),
    ];
    let mut out = Vec::new();
    for (name, way, wide) in ways {
        if wide && train.names.len() * train.features.len().pow(2) > MOST {
            continue;
        }
        let framing = Framing {
            common: (name == "pooled").then_some(1.0),
            ..framing
        };
        let fit = |frame: &Frame, tasks: &Tasks, lambda: f64| {
            let at = way(tasks, lambda, threads)?;
            let mut prior = frame.prior;
            prior.ridge = lambda;
            Ok::<_, Error>(at.map(|at| Learned {
                at,
                prior,
                cost: f64::NAN,
                iterations: 0,
                ended: Ended::Converged,
            }))
        };
        // Where nothing can be held out, a ridge in the middle.
        let mut chosen = (f64::INFINITY, 30.0);
        if !held.is_empty() {
            let frame = Frame::new(train, &kept, framing)?;
            let (tasks, unit) = (frame.tasks()?, frame.usual_square());
            for ridge in RIDGES {
                let Some(learned) = fit(&frame, &tasks, unit * ridge)? else {
                    continue;
                };
                let nmse = judge_rows(&frame, &learned, train, &held).nmse();
                if nmse < chosen.0 {
                    chosen = (nmse, ridge);
                }
            }
        }
        let frame = Frame::new(train, &whole, framing)?;
        let tasks = frame.tasks()?;
        let learned = fit(&frame, &tasks, frame.usual_square() * chosen.1)?;
        let failed = || Error::failure(format!("the baseline `{name}` could not be fitted"));
        out.push(Control {
            name,
            learned: learned.ok_or_else(failed)?,
            frame,
        });
    }
    Ok(out)
}
