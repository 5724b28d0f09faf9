//! Scores of labels, and how good a ranking of them is.

use super::labels::{LabelNames, Positives};
use crate::batch::{LabelFit, LabelRidge, Shape};
use crate::data::Labelled;
use crate::eval::{self, Retrieval, Scorer};
use crate::form::{FormRef, Query};
use crate::model::{Knowledge, Prepared, Prior, Ranked};
use crate::task::given_up;
use crate::task::run::{Baseline, Evaluation};
use crate::task::similarity::metrics;
use crate::{Error, Ids, Model, Real, Result, Rows};
use faer::Mat;

/// Scores rows with all labels of a model: rowᵀ W e(label) + bias(label).
#[derive(Debug, Clone, Copy)]
pub struct LabelScores<'a, R> {
    form: FormRef<'a, R>,
    prior: &'a Prior,
    rows: &'a Rows<R>,
    /// The rows that ask; all where there is none.
    members: Option<&'a [u32]>,
    /// Labels behind those of the model, of which it knows nothing.
    unknown: usize,
}

impl<'a, R: Real> LabelScores<'a, R> {
    pub(super) fn new(
        form: FormRef<'a, R>,
        prior: &'a Prior,
        rows: &'a Rows<R>,
        members: Option<&'a [u32]>,
        unknown: usize,
    ) -> Self {
        LabelScores {
            form,
            prior,
            rows,
            members,
            unknown,
        }
    }

    /// The scores of one row with all labels.
    pub fn of(&self, row: usize, out: &mut [f64]) {
        let row = self.members.map_or(row, |members| members[row] as usize);
        let mut query = Query::default();
        self.form.ask(&mut query, self.rows.row(row));
        let (known, unknown) = out.split_at_mut(self.prior.bias.len());
        self.form.columns(&query, known);
        for (score, bias) in known.iter_mut().zip(&self.prior.bias) {
            *score += bias;
        }
        unknown.fill(self.prior.unseen);
    }

    /// The score of one row with one label; of a label that the model does not
    /// know, what it expects of such.
    pub fn one(&self, row: usize, label: Option<u32>) -> f64 {
        let Some(label) = label else {
            return self.prior.unseen;
        };
        let row = self.members.map_or(row, |members| members[row] as usize);
        let mut query = Query::default();
        self.form.ask(&mut query, self.rows.row(row));
        self.form.column(&query, label as usize) + self.prior.bias[label as usize]
    }
}

impl<R: Real> Scorer for LabelScores<'_, R> {
    fn rows(&self) -> usize {
        self.members.map_or(self.rows.len(), <[u32]>::len)
    }

    fn candidates(&self) -> usize {
        self.prior.bias.len() + self.unknown
    }

    fn scores(&self, out: &mut [f64], first: usize, queries: usize) {
        let lists = out.chunks_exact_mut(self.candidates());
        for (row, out) in (first..first + queries).zip(lists) {
            self.of(row, out);
        }
    }
}

/// Every row is scored with the same numbers: the baseline.
struct Constant<'a> {
    rows: usize,
    scores: &'a [f64],
}

impl Scorer for Constant<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn candidates(&self) -> usize {
        self.scores.len()
    }

    fn scores(&self, out: &mut [f64], _: usize, _: usize) {
        let lists = out.chunks_exact_mut(self.scores.len());
        lists.for_each(|list| list.copy_from_slice(self.scores));
    }
}

/// Measures a scorer on the labels of its rows. `None` when `progress` said to
/// stop.
pub(super) fn measure(
    scorer: &impl Scorer,
    positives: &Positives,
    threads: usize,
    progress: &(dyn Fn(usize) -> bool + Sync),
) -> Option<Retrieval> {
    let wanted = (0..scorer.rows()).map(|i| positives.of(i));
    eval::retrieval_listed(scorer, wanted, threads, progress)
}

/// Measures how well labels are ranked by how often they were learned from, for so many rows;
/// so many labels behind those of the model are not known. `None` when `progress` said to stop.
pub(super) fn popularity(
    prior: &Prior,
    (rows, unknown): (usize, usize),
    positives: &Positives,
    threads: usize,
    progress: &(dyn Fn(usize) -> bool + Sync),
) -> Option<Retrieval> {
    let mut counts: Vec<f64> = prior.count.iter().map(|&n| n as f64).collect();
    counts.resize(counts.len() + unknown, 0.0);
    let popular = Constant {
        rows,
        scores: &counts,
    };
    measure(&popular, positives, threads, progress)
}

impl Model {
    /// The names of the labels that the model ranks; an error where it ranks none.
    pub fn label_names(&self) -> Result<&Ids> {
        self.ranked_labels().map(|(names, _)| names.names)
    }

    pub(super) fn ranked_labels(&self) -> Result<(LabelNames<'_>, &Prior)> {
        use crate::data::Features;
        let features = self.objects.as_ref().map(|objects| &objects.features);
        match (features, &self.knowledge) {
            (Some(Features::Named(names)), Knowledge::Ranking(Ranked { prior, .. })) => {
                let numbered = prior.numbered;
                Ok((LabelNames { names, numbered }, prior))
            }
            _ => Err(Error::input(format!(
                "a model for {} ranks no labels: expected one for ranking",
                self.task()
            ))),
        }
    }

    /// The number of a label among [`Model::label_names`], as files call it: by
    /// name, or by number where labels were given so.
    pub fn find_label(&self, label: &str) -> Result<Option<u32>> {
        self.ranked_labels().map(|(names, _)| names.find(label))
    }

    /// The scores of rows, made ready by [`Model::prepare`], with all labels. The
    /// best labels of each are found by [`nearest_among`](crate::eval::nearest_among).
    pub fn label_scores<'a, R: Real>(
        &'a self,
        rows: &'a Prepared<R>,
    ) -> Result<LabelScores<'a, R>> {
        let (_, prior) = self.ranked_labels()?;
        let form = self.form.as_precision::<R>()?.view();
        Ok(LabelScores::new(form, prior, &rows.rows, None, 0))
    }

    /// The score of a row of which nothing is known: the bias of the label.
    pub fn label_bias(&self, label: Option<u32>) -> Result<f64> {
        let (_, prior) = self.ranked_labels()?;
        let bias = label.map(|label| prior.bias[label as usize]);
        Ok(bias.unwrap_or(prior.unseen))
    }

    /// Measures the model on rows with labels in its precision, with the popularity of
    /// labels beside it, and ridge regression where training rows are given. `progress`
    /// gets the number of rows done out of two or three times the rows; an error of the
    /// kind `Interrupted` where it said to stop.
    pub fn evaluate_labels<R: Real>(
        &self,
        data: Labelled<R>,
        train: Option<Labelled<R>>,
        threads: usize,
        progress: &(dyn Fn(usize) -> bool + Sync),
    ) -> Result<Evaluation> {
        let (names, prior) = self.ranked_labels()?;
        let form = self.form.as_precision::<R>()?.view();
        let (positives, unknown) = Positives::known(&data.labels, names);
        let prepared = self.prepare(data.rows, &data.features)?;
        let scorer = LabelScores::new(form, prior, &prepared.rows, None, unknown);
        let Some(found) = measure(&scorer, &positives, threads, progress) else {
            return Err(given_up());
        };
        if found.rows == found.skipped {
            return Err(Error::input(
                "no row has labels: there is nothing to measure",
            ));
        }
        let later = |done: usize| progress(found.rows + done);
        let shape = (prepared.rows.len(), unknown);
        let Some(popularity) = popularity(prior, shape, &positives, threads, &later) else {
            return Err(given_up());
        };
        let mut baselines = vec![Baseline::new("popularity", metrics(&popularity))];
        if let Some(train) = train {
            let ridge = self.ridge(train, &prepared.rows, unknown, threads);
            let ridge = ridge.map_err(|e| e.about("training rows"))?;
            let later = |done: usize| progress(2 * found.rows + done);
            let Some(ridge) = measure(&ridge, &positives, threads, &later) else {
                return Err(given_up());
            };
            baselines.push(Baseline::new("ridge", metrics(&ridge)));
        }
        let note = || {
            format!("{unknown} labels are not known to the model; they rank as labels never seen")
        };
        Ok(Evaluation {
            baselines,
            skipped: found.skipped,
            ..Evaluation::new(metrics(&found), found.rows - found.skipped, "rows")
        }
        .unknown_entries(prepared.unknown_entries)
        .with("unknown_labels", unknown)
        .noting(unknown, note))
    }

    /// Ridge regression of the labels on training rows, with the preprocessing of the
    /// model and the penalty of generalized cross-validation: a baseline.
    fn ridge<R: Real>(
        &self,
        train: Labelled<R>,
        rows: &Rows<R>,
        unknown: usize,
        threads: usize,
    ) -> Result<Regression> {
        let (names, _) = self.ranked_labels()?;
        let count = names.names.len();
        let (labels, _) = Positives::known(&train.labels, names);
        let mut known = Positives::default();
        for i in 0..train.labels.len() {
            let labels = labels.of(i).iter().copied();
            known.push(labels.filter(|&y| (y as usize) < count));
        }
        let prepared = self.prepare(train.rows, &train.features)?;
        let seed = self.card.seed;
        let ridge = LabelRidge::new(&prepared.rows, |i| known.of(i), count, 1.0, seed, threads)?;
        let fit = ridge.fit(ridge.penalty(), Shape::default());
        Ok(Regression {
            coordinates: ridge.coordinates(rows, threads)?,
            unseen: ridge.unseen(Shape::default()),
            fit,
            unknown,
        })
    }
}

/// Scores of rows by their coordinates: the baseline.
struct Regression {
    coordinates: Mat<f64>,
    fit: LabelFit,
    /// Labels behind those of the model, and what they score.
    unknown: usize,
    unseen: f64,
}

impl Scorer for Regression {
    fn rows(&self) -> usize {
        self.coordinates.nrows()
    }

    fn candidates(&self) -> usize {
        self.fit.offset.len() + self.unknown
    }

    fn scores(&self, out: &mut [f64], first: usize, queries: usize) {
        let rows = self.coordinates.subrows(first, queries);
        let scores = self.fit.coefficients.transpose() * rows.transpose();
        let lists = out.chunks_exact_mut(self.candidates());
        for (row, out) in scores.col_iter().zip(lists) {
            let (known, unknown) = out.split_at_mut(self.fit.offset.len());
            let scores = row.iter().zip(&self.fit.offset);
            let scores = known.iter_mut().zip(scores);
            scores.for_each(|(out, (score, offset))| *out = score + offset);
            unknown.fill(self.unseen);
        }
    }
}
