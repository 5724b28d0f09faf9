//! A ranking that goes on learning, one row at a time; new labels and new features
//! are added as they come.
//!
//! A new label has a column of zeros in W, and the bias of a label never seen: the
//! model is the one that had it from the start.

use super::session::draws;
use super::violation::Violations;
use crate::data::{Features, LabelName, StreamRow};
use crate::form::Side;
use crate::model::{Prior, Ranked};
use crate::online::{Learned, RankOne, Step};
use crate::task::course::count;
use crate::task::decayed;
use crate::task::online::Online;
use crate::{Error, Real, Result, Rows, SparseRow, SparseVec};

/// What a ranking learns beside W.
#[derive(Debug)]
pub(in crate::task) struct LabelLearner<R> {
    pub prior: Prior,
    violations: Violations<R>,
    positives: Vec<u32>,
    row: SparseVec<R>,
}

impl<R: Real> LabelLearner<R> {
    pub fn new(Ranked { prior, rule }: Ranked) -> Self {
        LabelLearner {
            prior,
            violations: Violations::new(rule),
            positives: Vec::new(),
            row: SparseVec::new(),
        }
    }

    /// What a model keeps of it.
    pub fn knowledge(&self) -> Ranked {
        Ranked {
            rule: self.violations.rule,
            prior: self.prior.clone(),
        }
    }
}

impl<R: Real> Online<R> {
    /// How many labels are ranked: 0 where the model ranks none.
    pub fn label_count(&self) -> usize {
        let labels = self.labels.as_ref();
        labels.map_or(0, |labels| labels.prior.bias.len())
    }

    /// The number of a label, by its name; a name that is not known becomes a new
    /// label.
    pub fn label(&mut self, name: &str) -> Result<u32> {
        self.labels_mut()?;
        self.column_of(Side::Right, name)
    }

    fn labels_mut(&mut self) -> Result<&mut LabelLearner<R>> {
        self.labels
            .as_mut()
            .ok_or_else(|| Error::input("the model ranks no labels"))
    }

    /// The number of a label as a line gives it.
    fn label_of(&mut self, label: &LabelName) -> Result<u32> {
        let numbered = self.labels_mut()?.prior.numbered;
        match (label, number_of(label)) {
            (_, Some(n)) if numbered > 0 => Ok(n as u32),
            (LabelName::Number(n), _) => self.label(&n.to_string()),
            (LabelName::Name(name), _) => self.label(name),
        }
    }

    /// Whether all numbers of labels have a label, where labels have numbers.
    fn check_labels(&mut self, labels: &[LabelName]) -> Result<()> {
        let numbered = self.labels_mut()?.prior.numbered as u64;
        if labels.contains(&LabelName::Name(String::new())) {
            return Err(Error::input(
                "expected the name of a label, found an empty text",
            ));
        }
        let mut numbers = labels.iter().filter_map(number_of);
        let beyond = numbers.find(|&n| numbered > 0 && n >= numbered);
        match beyond {
            None => Ok(()),
            Some(n) => Err(Error::input(format!(
                "label {n} has no name: expected a number from 0 to {}, or a text",
                numbered - 1
            ))),
        }
    }

    /// Learns a row of a stream; `rows` are those that its ids name, made ready by
    /// [`Online::prepare`]. `None` where there is nothing to learn, because the row
    /// has no labels, or all of them.
    pub fn learn_labelled(
        &mut self,
        row: StreamRow<'_, R>,
        labels: &[LabelName],
        rows: &Rows<R>,
    ) -> Result<Option<Learned>> {
        let mut positives = std::mem::take(&mut self.labels_mut()?.positives);
        let mut out = std::mem::take(&mut self.labels_mut()?.row);
        let learned = self.learn_stream_row(row, labels, rows, &mut positives, &mut out);
        let kept = self.labels_mut()?;
        (kept.positives, kept.row) = (positives, out);
        learned
    }

    fn learn_stream_row(
        &mut self,
        row: StreamRow<'_, R>,
        labels: &[LabelName],
        rows: &Rows<R>,
        positives: &mut Vec<u32>,
        out: &mut SparseVec<R>,
    ) -> Result<Option<Learned>> {
        // A line that is refused adds no features and no labels.
        self.check_labels(labels)?;
        let row = self.ready_row(row, rows, out)?;
        positives.clear();
        for label in labels {
            positives.push(self.label_of(label)?);
        }
        positives.sort_unstable();
        positives.dedup();
        Ok(self.learn_ready(row, positives))
    }

    /// Learns a raw row with labels by number, as [`Online::label`] gives them: the
    /// row is preprocessed as those of training were. `None` as in
    /// [`Online::learn_labelled`].
    pub fn learn_labels(
        &mut self,
        row: SparseRow<'_, R>,
        labels: &[u32],
    ) -> Result<Option<Learned>> {
        let count = self.label_count();
        if let Some(label) = labels.iter().find(|&&label| label as usize >= count) {
            return Err(no_label(*label, count));
        }
        if row.values.iter().any(|v| v.to_f64().is_infinite()) {
            return Err(Error::input("a value is infinite"));
        }
        let known: Vec<(u32, R)> = row.iter().collect();
        let mut out = SparseVec::new();
        let row = StreamRow::Features {
            known: &known,
            new: &[],
        };
        let no_rows = Rows::new();
        let row = self.ready_row(row, &no_rows, &mut out)?;
        let mut positives = labels.to_vec();
        positives.sort_unstable();
        positives.dedup();
        Ok(self.learn_ready(row, &positives))
    }

    /// One step, as in training.
    fn learn_ready(&mut self, row: SparseRow<'_, R>, positives: &[u32]) -> Option<Learned> {
        let mut labels = self.labels.take()?;
        let count_of = labels.prior.bias.len();
        let learned = (1..count_of).contains(&positives.len()).then(|| {
            let mut right = SparseVec::new();
            positives
                .iter()
                .for_each(|&y| right.push(y, R::from_f64(1.0)));
            self.seed(RankOne {
                left: row,
                right: right.as_row(),
            });
            let done = self.card.counters.steps;
            let step = Step {
                size: self.card.step_size,
                limit: self.card.step_limit.unwrap_or(f64::INFINITY),
            };
            let step = decayed(step, self.card.decay, done);
            let (learner, prior, seed) = (&mut self.learner, &mut labels.prior, self.card.seed);
            for &y in positives {
                prior.count[y as usize] = prior.count[y as usize].saturating_add(1);
            }
            let random = || draws(seed, done);
            let violations = &mut labels.violations;
            violations.learn(learner, prior, row, positives, step, random)
        });
        self.labels = Some(labels);
        if let Some(learned) = &learned {
            count(&mut self.card.counters, 1, learned);
        }
        learned
    }

    /// Labels whose score was computed in steps so far.
    pub fn labels_scored(&self) -> u64 {
        let labels = self.labels.as_ref();
        labels.map_or(0, |labels| labels.violations.scored)
    }

    /// Sets the bias of a label by number: a part of its score with every row.
    pub fn set_label_bias(&mut self, label: u32, bias: f64) -> Result<()> {
        let count = self.label_count();
        let place = self.labels_mut()?.prior.bias.get_mut(label as usize);
        match place {
            Some(place) if bias.is_finite() => *place = bias,
            Some(_) => return Err(Error::input(format!("a bias of {bias} is not finite"))),
            None => return Err(no_label(label, count)),
        }
        Ok(())
    }

    /// The names of the labels.
    pub fn label_names(&self) -> Option<&crate::Ids> {
        match self.features_of(Side::Right) {
            Features::Named(names) if self.labels.is_some() => Some(names),
            _ => None,
        }
    }
}

fn no_label(label: u32, count: usize) -> Error {
    Error::input(format!(
        "label {label} is none of the {count} that the model ranks"
    ))
}

/// The number that a label is, also as a text: rows in files have numbers as texts.
fn number_of(label: &LabelName) -> Option<u64> {
    match label {
        LabelName::Number(n) => Some(*n),
        LabelName::Name(text) => text.parse().ok(),
    }
}
