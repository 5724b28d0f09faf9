//! How well the clusters of items agree with their labels, and the nearest items with
//! each other, under a learned kernel and under simple ones.

use super::KernelStart;
use super::fit::drawn;
use super::source::{Source, names};
use crate::data::{Constraint, Labelled, Labels, Relation};
use crate::eval::metrics::nmi;
use crate::eval::{self, Neighbors};
use crate::linalg::kmeans;
use crate::model::{Knowledge, Metrics, Model, Precise};
use crate::task::groups::Grouping;
use crate::task::run::{Baseline, Evaluation};
use crate::task::similarity::classes;
use crate::{Error, Real, Result};
use faer::Mat;

/// Runs of k-means, of which the best is taken.
const RUNS: usize = 10;

/// What clusters are compared with.
#[derive(Debug, Clone, Copy)]
pub struct KernelTruth<'a, R> {
    /// A label an item, in the order of the items.
    pub labels: &'a Labels,
    /// The rows of the items, in their order, where the kernel came from rows: what
    /// the baselines are made of.
    pub rows: Option<&'a Labelled<R>>,
    /// What training knew, where it did not draw it from these labels.
    pub constraints: Option<&'a [Constraint]>,
    /// How many clusters; without it, as many as there are classes.
    pub clusters: Option<usize>,
    /// How many nearest other items vote for the label of an item.
    pub neighbors: usize,
    /// Threads; the result does not depend on it.
    pub threads: usize,
}

impl<'a, R> KernelTruth<'a, R> {
    /// The labels of the rows that the kernel was learned from.
    pub fn of(rows: &'a Labelled<R>) -> Self {
        KernelTruth {
            labels: &rows.labels,
            rows: Some(rows),
            constraints: None,
            clusters: None,
            neighbors: 5,
            threads: 1,
        }
    }
}

impl Model {
    /// Clusters the items of a kernel by k-means, the best of ten runs, and compares
    /// the clusters with labels.
    pub fn evaluate_kernel<R: Real>(&self, truth: KernelTruth<'_, R>) -> Result<Evaluation> {
        let items = self.items()?;
        let n = items.len();
        if truth.labels.len() != n {
            return Err(Error::input(format!(
                "{} labels for {n} items",
                truth.labels.len()
            )));
        }
        let name = |i: usize| items.get(i as u32).to_owned();
        let found = classes(truth.labels, name)?;
        let mut different = found.clone();
        different.sort_unstable();
        different.dedup();
        let clusters = truth.clusters.unwrap_or(different.len());
        if clusters == 0 || clusters > n {
            return Err(Error::input(format!("{clusters} clusters of {n} items")));
        }
        let seed = self.card.seed;
        // Rounding may go beyond 1.
        let share = |of: &[u32]| nmi(of, &found).clamp(0.0, 1.0);
        let judged = |of: &[u32]| -> Metrics { [("nmi".to_owned(), share(of))].into() };
        let learned: Vec<f64> = match &self.form {
            Precise::F32(_) => wide(&self.item_coordinates::<f32>()?.values),
            Precise::F64(_) => self.item_coordinates::<f64>()?.values,
        };
        let voted = |values: &[f64], wrong: &mut Vec<Option<f64>>| {
            let items = Neighbors {
                values,
                classes: &found,
                rank: self.rank(),
            };
            wrong.resize(n, None);
            let votes = eval::votes_each(
                truth.neighbors,
                None,
                items,
                truth.threads,
                |item, right| {
                    wrong[item] = Some(f64::from(u8::from(!right)));
                },
            );
            ("knn_error".to_owned(), votes.wrong as f64 / n as f64)
        };
        let mut model = judged(&kmeans(&learned, self.rank(), None, clusters, RUNS, seed).of);
        let (mut wrong, mut plain) = (Vec::new(), Vec::new());
        model.extend([voted(&learned, &mut wrong)]);
        let card = match &self.knowledge {
            Knowledge::Kernel(card) => Some(card),
            _ => None,
        };
        let mut baselines = Vec::new();
        let started = card
            .zip(truth.rows)
            .filter(|(card, _)| card.function.is_some());
        if let Some((card, rows)) = started {
            if names(&rows.ids, rows.rows.len())?.iter().ne(items.iter()) {
                return Err(Error::input("the rows are not the items of the kernel"));
            }
            let function = card.function.unwrap_or(super::KernelFunction::Linear);
            let source = Source::new(KernelStart::Rows(rows), function, card.preprocess)?;
            let start = source.factor(Some(self.rank()), false, truth.threads)?;
            let start = by_rows(&start);
            let of = kmeans(&start, self.rank(), None, clusters, RUNS, seed).of;
            let mut metrics = judged(&of);
            metrics.extend([voted(&start, &mut plain)]);
            baselines.push(Baseline::new("start", metrics));
            let again;
            let known = match (truth.constraints, card.drawn) {
                (Some(given), _) => Some(given),
                (None, Some(count)) => {
                    again = drawn(&found, count, seed);
                    Some(&again[..])
                }
                (None, None) => None,
            };
            if let Some(known) = known {
                let of = must_link(&start, self.rank(), n, known, clusters, seed);
                baselines.push(Baseline::new("must-link", judged(&of)));
            }
        }
        let main = baselines.first().map(|one: &Baseline| &one.name[..]);
        let by_class = Grouping::new("label", "knn_error", "items", main);
        let plain = main.map(|_| &plain[..]);
        let by_class = by_class.by_class(&truth.labels.names, &found, &wrong, plain);
        Ok(Evaluation {
            groupings: vec![by_class],
            baselines,
            ..Evaluation::new(model, n, "items")
        }
        .with("clusters", clusters))
    }
}

/// Clusters of items where those that are known to be alike are one, at their mean.
fn must_link(
    points: &[f64],
    rank: usize,
    n: usize,
    known: &[Constraint],
    clusters: usize,
    seed: u64,
) -> Vec<u32> {
    let mut parent: Vec<usize> = (0..n).collect();
    fn root(parent: &mut [usize], mut i: usize) -> usize {
        while parent[i] != i {
            parent[i] = parent[parent[i]];
            i = parent[i];
        }
        i
    }
    for c in known.iter().filter(|c| c.relation == Relation::Same) {
        let (a, b) = (c.left as usize, c.right as usize);
        let (a, b) = (root(&mut parent, a), root(&mut parent, b));
        parent[a.max(b)] = a.min(b);
    }
    let mut group = vec![usize::MAX; n];
    let of: Vec<usize> = (0..n).map(|i| root(&mut parent, i)).collect();
    let mut weights: Vec<f64> = Vec::new();
    let mut means: Vec<f64> = Vec::new();
    for (i, &top) in of.iter().enumerate() {
        if group[top] == usize::MAX {
            group[top] = weights.len();
            weights.push(0.0);
            means.extend(std::iter::repeat_n(0.0, rank));
        }
        let at = group[top];
        weights[at] += 1.0;
        let mean = means[at * rank..][..rank].iter_mut();
        mean.zip(&points[i * rank..][..rank])
            .for_each(|(m, x)| *m += x);
    }
    for (mean, weight) in means.chunks_exact_mut(rank).zip(&weights) {
        mean.iter_mut().for_each(|m| *m /= weight);
    }
    let found = kmeans(&means, rank, Some(&weights), clusters, RUNS, seed).of;
    of.iter().map(|&top| found[group[top]]).collect()
}

fn by_rows(m: &Mat<f64>) -> Vec<f64> {
    let (n, k) = (m.nrows(), m.ncols());
    (0..n)
        .flat_map(|i| (0..k).map(move |j| m[(i, j)]))
        .collect()
}

fn wide<R: Real>(values: &[R]) -> Vec<f64> {
    values.iter().map(|v| v.to_f64()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_that_are_alike_are_one() {
        // Two heaps on a line, and an item far from its own heap that is linked to it.
        let points = [0.0, 0.1, 10.0, 10.1, 9.9];
        let link = Constraint {
            left: 0,
            right: 4,
            relation: Relation::Same,
        };
        let other = Constraint {
            relation: Relation::Different,
            ..link
        };
        let of = must_link(&points, 1, 5, &[other], 2, 1);
        assert_eq!(nmi(&of, &[0, 0, 1, 1, 1]), 1.0);
        let of = must_link(&points, 1, 5, &[link], 2, 1);
        assert_eq!(of[0], of[4]);
        assert_eq!(of[2], of[3]);
    }

    #[test]
    fn the_nearest_items_vote_as_a_plain_count_says() {
        let rows: Vec<[f64; 2]> = (0..30)
            .map(|i| {
                let x = |j: u64| crate::random::normal_at(3, 0, i, j) + f64::from(i as u32 % 3);
                [x(0), x(1)]
            })
            .collect();
        let mut data = Labelled::new(crate::Rows::from_dense(rows).unwrap());
        let labels = ["a", "b", "c"];
        data.labels = Labels::default();
        (0..30).for_each(|i| data.labels.push([labels[i % 3]]));
        let kernel = crate::Kernel::default().rank(2).constraints(40);
        let model = kernel.fit(&data).unwrap();
        let points = model.item_coordinates::<f32>().map(|c| wide(&c.values));
        let points = points.unwrap_or_else(|_| model.item_coordinates::<f64>().unwrap().values);
        let apart = |i: usize, j: usize| -> f64 {
            (0..2)
                .map(|a| (points[2 * i + a] - points[2 * j + a]).powi(2))
                .sum()
        };
        for k in [1, 4, 5] {
            let mut wrong = 0;
            for i in 0..30 {
                let mut others: Vec<usize> = (0..30).filter(|&j| j != i).collect();
                others.sort_by(|&a, &b| apart(i, a).total_cmp(&apart(i, b)));
                let votes = |class: usize| others[..k].iter().filter(|&&j| j % 3 == class).count();
                let winner = (0..3).rev().max_by_key(|&class| votes(class)).unwrap();
                wrong += usize::from(winner != i % 3);
            }
            let truth = KernelTruth {
                neighbors: k,
                ..KernelTruth::of(&data)
            };
            let found = model.evaluate_kernel(truth).unwrap();
            assert_eq!(
                found.metrics["knn_error"],
                f64::from(wrong as u32) / 30.0,
                "{k}"
            );
            assert!(found.baselines[0].metrics.contains_key("knn_error"));
        }
    }
}
