//! Runs that start from the W of a model.
//!
//! Features and ids are matched by name. A model multiplies feature j by d_j before W sees it
//! (weights, standard deviations), so row j of a factor is multiplied by d_j of the model over
//! d_j of the run, and xᵀ W y stays what it was. Rows that the model does not know get small
//! normal entries: exact zeros on both sides would never move. Another rank cuts W off at its
//! largest singular values, or adds directions of relative size 1e-6. Costs (n + m) k².

use super::run::Run;
use crate::data::Features;
use crate::form::{Factored, Form, FormRef, Full, GROWN, Psd, Shape, Tall, grow_columns};
use crate::linalg::{svd, svd_of_product};
use crate::model::{Model, Normalize, Preprocess, Scaling, Steps, Weight, multiplier, with_form};
use crate::options::Options;
use crate::random::normal_at;
use crate::{Error, Real, Result, choices, memory};
use faer::Mat;
use std::path::{Path, PathBuf};

choices! {
    /// Where learning starts, for tasks with one start of their own.
    pub enum StartInit {
        /// As the learner starts by itself
        Own = "own",
        /// The W of a model: give its file
        Model = "model",
    }
}

/// The norm of a row that the model does not know, as a share of that of a usual row.
const NEW_ROW: f64 = 1e-2;

/// Singular values below this share of the largest are none: less than what growth adds.
const NONE: f64 = 0.1 * GROWN;

/// The streams of random numbers of new rows and of new directions.
const ROWS: [u64; 2] = [51, 53];
const DIRECTIONS: [u64; 2] = [55, 57];

/// A model that a run starts from: [`Run::start`] takes it, and the option `init` of the task
/// is `model`.
///
/// ```
/// use rankfold::data::{Labelled, Labels};
/// use rankfold::task::{Init, Run};
/// use rankfold::{Rows, Similarity};
///
/// let rows = [[0, 1], [0, 2], [3, 4], [3, 5]].map(|row| row.map(|j| (j, 1.0_f32)));
/// let rows = Labelled::new(Rows::from_sparse(rows)?);
/// let rows = rows.with_labels(Labels::single([0, 0, 1, 1]))?;
/// let task = Similarity::default().rank(2).steps(100);
/// let model = task.fit(&rows)?;
///
/// let task = task.init(Init::Model);
/// let fit = task.fit_with((&rows).into(), Run::default().start(model))?;
/// assert_eq!(fit.model.card.init, "model");
/// # Ok::<(), rankfold::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Start {
    model: Model,
    /// The rank that was asked for, where it may be the default of the task.
    rank: Option<usize>,
    file: Option<PathBuf>,
}

impl From<Model> for Start {
    fn from(model: Model) -> Self {
        Start {
            model,
            rank: None,
            file: None,
        }
    }
}

impl Start {
    /// Whether a value of `init` is a model file: it has a `.` or a `/`.
    pub fn is_file(text: &str) -> bool {
        text.contains(['.', '/'])
    }

    /// Reads the model from its file, which errors then name.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let model = Model::load(path)?;
        Ok(Start {
            file: Some(path.to_owned()),
            ..Start::from(model)
        })
    }

    /// Starts with this rank, also where it is the default of the task. Otherwise the rank
    /// of the task counts where it is not its default, and then that of the model.
    pub fn rank(mut self, rank: Option<usize>) -> Self {
        self.rank = rank;
        self
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// An error about the model.
    pub(super) fn error(&self, message: impl Into<String>) -> Error {
        self.placed(Error::input(message))
    }

    fn placed(&self, error: Error) -> Error {
        match &self.file {
            Some(file) if error.option.is_none() => error.in_file(file),
            _ => error,
        }
    }

    /// An error where the model is for another task.
    fn check_task(&self, task: &str) -> Result<()> {
        match self.model.knowledge.is_of(task) {
            true => Ok(()),
            false => Err(self.placed(self.model.knowledge.expected(task))),
        }
    }

    /// The rank of the run: the one asked for, or that of the model, lowered to W.
    pub(super) fn rank_of(&self, asked: Option<usize>, shape: (usize, usize)) -> Result<usize> {
        let most = shape.0.min(shape.1);
        match self.rank.or(asked) {
            Some(rank) if rank == 0 || rank > most => Err(Error::option(
                "rank",
                format!("is {rank}: expected 1 to {most}, the smaller side of W"),
            )),
            Some(rank) => Ok(rank),
            None => Ok(self.model.rank().min(most).max(1)),
        }
    }

    /// How rows are prepared: as asked for, or as the model does where that is left open.
    pub(super) fn steps(
        &self,
        weight: Weight,
        normalize: Normalize,
        standardize: Scaling,
    ) -> Result<Steps> {
        let theirs = self.model.preprocess.steps;
        let asked = Steps::of(weight, normalize, self.scaling(standardize));
        let steps = Steps {
            tfidf: asked.tfidf || weight == Weight::Auto && theirs.tfidf,
            normalize: asked.normalize || normalize == Normalize::Auto && theirs.normalize,
            ..asked
        };
        self.check_steps(steps)?;
        Ok(steps)
    }

    /// How columns are scaled: as asked for, or as the model does.
    pub(super) fn scaling(&self, asked: Scaling) -> Scaling {
        match (asked, self.model.preprocess.steps.standardize) {
            (Scaling::Auto, true) => Scaling::Global,
            (Scaling::Auto, false) => Scaling::None,
            (asked, _) => asked,
        }
    }

    /// An error where the run prepares rows in another way than the model.
    pub(super) fn check_steps(&self, steps: Steps) -> Result<()> {
        let theirs = self.model.preprocess.steps;
        if theirs == steps {
            return Ok(());
        }
        let shown = |steps: Steps| {
            let names = steps.names();
            names
                .map(|(option, value)| format!("--{option} {value}"))
                .join(" ")
        };
        Err(self.error(format!(
            "the model prepares rows by `{}`, this run by `{}`: expected the same",
            shown(theirs),
            shown(steps)
        )))
    }

    /// Where the rows of a side of the run are in the model.
    pub(super) fn found(&self, side: &Side<'_>) -> Result<Found> {
        let (features, preprocess) = self.model.side(side.side);
        let known = self.model.columns_of(side.side);
        let at = places(features, side.features, side.size).map_err(|e| self.placed(e))?;
        let at: Vec<Option<u32>> = at
            .into_iter()
            .map(|at| at.filter(|&at| (at as usize) < known))
            .collect();
        let scale = |(j, at): (usize, &Option<u32>)| {
            let own = at.map_or(1.0, |at| multiplier(preprocess, at as usize));
            match multiplier(side.preprocess, j) {
                0.0 => 1.0,
                here => own / here,
            }
        };
        let scale = at.iter().enumerate().map(scale).collect();
        let unknown = at.iter().filter(|at| at.is_none()).count();
        if unknown == at.len() {
            return Err(self.error(format!(
                "the model knows none of the {unknown} {} of this run: expected some in common",
                side.what
            )));
        }
        Ok(Found { at, scale, unknown })
    }

    /// An error where one of model and run has objects and the other has not.
    fn check_objects(&self, objects: bool) -> Result<()> {
        let shown = |objects: bool| if objects { "objects" } else { "no objects" };
        let theirs = self.model.objects.is_some();
        match theirs == objects {
            true => Ok(()),
            false => Err(self.error(format!(
                "the model has {} of other features, this run has {}: expected the same",
                shown(theirs),
                shown(objects)
            ))),
        }
    }

    /// The factors of W on the rows of a run, in the balanced gauge and of this rank, and
    /// what to tell of it.
    pub(super) fn factors(
        &self,
        left: &Side<'_>,
        right: Option<&Side<'_>>,
        rank: usize,
        seed: u64,
    ) -> Result<Factors> {
        self.check_objects(right.is_some())?;
        let found = with_form!(&self.model.form, form => form.view().balanced_factors());
        let Some([l, r]) = found else {
            return Err(self.error(format!(
                "`{}` learned W in full or with a variance for each entry: expected a model of low rank",
                self.model.card.learner
            )));
        };
        let symmetric = with_form!(&self.model.form, form => form.view().is_symmetric());
        let of_left = self.found(left)?;
        let of_right = match right {
            Some(right) => self.found(right)?,
            None => self.found(&Side {
                side: crate::form::Side::Right,
                ..*left
            })?,
        };
        let shape = (of_left.at.len(), of_right.at.len());
        let bytes = (shape.0 as u128 + shape.1 as u128) * (rank.max(l.ncols())) as u128 * 24;
        memory::require(bytes, "the start from a model")?;
        let mut note = of_left.note(left);
        if let Some(right) = right {
            note.extend(of_right.note(right));
        }
        let l = of_left.rows(&l, (seed, ROWS[0]));
        let r = match symmetric {
            true => l.clone(),
            false => of_right.rows(&r, (seed, ROWS[1])),
        };
        let factors = resized([l, r], symmetric, rank, seed)
            .ok_or_else(|| self.error("W is zero on what model and run have in common"))?;
        Ok(Factors {
            factors,
            symmetric,
            note,
        })
    }

    /// W on the rows of a run, entry by entry. What the model does not know is a diagonal.
    pub(super) fn full<R: Real>(
        &self,
        left: &Side<'_>,
        right: Option<&Side<'_>>,
        diagonal: f64,
    ) -> Result<(Full<R>, Vec<String>)> {
        self.check_objects(right.is_some())?;
        let of_left = self.found(left)?;
        let mut note = of_left.note(left);
        let of_right = match right {
            None => None,
            Some(right) => {
                let found = self.found(right)?;
                note.extend(found.note(right));
                Some(found)
            }
        };
        let of_right = of_right.as_ref().unwrap_or(&of_left);
        let (n, m) = (of_left.at.len(), of_right.at.len());
        let mut out = Full::diagonal(n, m, diagonal)?;
        let row_of = with_form!(&self.model.form, form => row_of(form.view()));
        let Some(row_of) = row_of else {
            return Err(self.error("W has lost rank: train the model again"));
        };
        for (i, at) in of_left.at.iter().enumerate() {
            let Some(at) = at else { continue };
            let row = row_of(*at as usize);
            for (j, entry) in out.row_mut(i).iter_mut().enumerate() {
                if let Some(column) = of_right.at[j] {
                    let scale = of_left.scale[i] * of_right.scale[j];
                    *entry = R::from_f64(scale * row[column as usize]);
                } else if right.is_some() || i != j {
                    *entry = R::default();
                }
            }
        }
        Ok((out, note))
    }

    /// W in the form of a learner.
    pub(super) fn form<R: Real>(
        &self,
        (shape, definite): (Shape, bool),
        (left, right): (&Side<'_>, Option<&Side<'_>>),
        rank: Option<usize>,
        seed: u64,
    ) -> Result<(Form<R>, Vec<String>)> {
        match shape {
            Shape::Diagonal | Shape::Gaussian => return Err(refused_for_aroma()),
            Shape::Full => {
                let full = self.model.storage().form == "full";
                let rule = self.model.card.learner.parse::<crate::online::Rule>();
                let theirs = rule.is_ok_and(|rule| full && rule.is_symmetric());
                if definite && !theirs {
                    return Err(self.error(format!(
                        "`{}` learned a matrix that need not be positive definite: expected a model of `lego` or of a cone",
                        self.model.card.learner
                    )));
                }
                let (form, note) = self.full(left, right, f64::from(u8::from(definite)))?;
                return Ok((Form::Full(form), note));
            }
            _ => {}
        }
        let rank = self.rank_of(rank, (left.size, right.unwrap_or(left).size))?;
        let found = self.factors(left, right, rank, seed)?;
        let tall = |m: &Mat<f64>| Tall::from_fn(m.nrows(), m.ncols(), |i, j| m[(i, j)]);
        let [l, r] = &found.factors;
        let form = match shape {
            Shape::Psd | Shape::PolarPsd if !found.symmetric => {
                return Err(self.error(format!(
                    "`{}` learned a matrix that need not be positive semi-definite: expected a model of `loreta-psd`, `flat` or another such learner",
                    self.model.card.learner
                )));
            }
            Shape::Psd | Shape::PolarPsd => Form::Psd(Psd::new(tall(l)?)),
            _ => Form::Factored(Factored::new(tall(l)?, tall(r)?)),
        };
        Ok((form.shaped(shape)?, found.note))
    }
}

/// An error for learners whose start is more than W.
pub(super) fn refused_for_aroma() -> Error {
    Error::option(
        "init",
        "cannot be a model for AROMA, whose start also says how sure it is: go on with `rankfold update`",
    )
}

impl Run<'_> {
    /// The model to start from, once: an error where `init` and the run disagree, or where the
    /// model is for another task. A run that is resumed has its start in the checkpoint.
    pub(super) fn started<O: Options>(&mut self, wanted: bool) -> Result<Option<Start>> {
        match (self.take_start(), wanted) {
            (None, false) => Ok(None),
            (Some(start), true) => start.check_task(O::TASK).map(|()| Some(start)),
            (None, true) => Err(Error::option(
                "init",
                "is `model`, but no model was given to start from: give its file, such as `model.safetensors`",
            )),
            (Some(_), false) => Err(Error::option(
                "init",
                "must be `model` for a run that starts from a model",
            )),
        }
    }
}

/// One side of a run.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub side: crate::form::Side,
    pub features: &'a Features,
    pub preprocess: &'a Preprocess,
    /// Rows of the factor.
    pub size: usize,
    /// What they are: `features`, `users`.
    pub what: &'static str,
}

/// Where the rows of a side are in a model.
pub(super) struct Found {
    pub at: Vec<Option<u32>>,
    /// By what these are multiplied.
    scale: Vec<f64>,
    unknown: usize,
}

impl Found {
    /// What the user should know of rows that the model does not.
    pub fn note(&self, side: &Side<'_>) -> Vec<String> {
        let (unknown, all, what) = (self.unknown, self.at.len(), side.what);
        match unknown {
            0 => Vec::new(),
            _ => vec![format!(
                "the model does not know {unknown} of {all} {what}: they start from small random numbers"
            )],
        }
    }

    /// By what the weight of this row is multiplied.
    pub fn scale_of(&self, i: usize) -> f64 {
        self.scale[i]
    }

    /// The rows of a factor, with small normal entries where there are none.
    pub fn rows(&self, factor: &Mat<f64>, (seed, stream): (u64, u64)) -> Mat<f64> {
        let k = factor.ncols();
        let mut out = Mat::from_fn(self.at.len(), k, |i, j| match self.at[i] {
            Some(at) => self.scale[i] * factor[(at as usize, j)],
            None => 0.0,
        });
        let known = (self.at.len() - self.unknown).max(1) as f64;
        let size = NEW_ROW * (out.squared_norm_l2() / known / k.max(1) as f64).sqrt();
        for i in (0..self.at.len()).filter(|&i| self.at[i].is_none()) {
            for j in 0..k {
                out[(i, j)] = size * normal_at(seed, stream, i as u64, j as u64);
            }
        }
        out
    }
}

/// The factors of a start.
pub(super) struct Factors {
    pub factors: [Mat<f64>; 2],
    /// Whether both are the same.
    pub symmetric: bool,
    /// What the user should know.
    pub note: Vec<String>,
}

/// The number in the model of each of these features.
fn places(known: &Features, theirs: &Features, size: usize) -> Result<Vec<Option<u32>>> {
    let names = match (known, theirs) {
        // A start may lack columns of a table, where rows to be scored must have them all.
        (Features::Columns(mine), Features::Columns(names)) => Some((mine, names)),
        _ => known.matched(theirs)?,
    };
    Ok(match names {
        None => (0..size as u32).map(Some).collect(),
        Some((mine, names)) => {
            let mut at: Vec<Option<u32>> = names.iter().map(|name| mine.find(name)).collect();
            at.resize(size, None);
            at
        }
    })
}

/// L Rᵀ in the balanced gauge with this rank; `None` where it is zero or not finite.
pub(super) fn resized(
    [left, right]: [Mat<f64>; 2],
    symmetric: bool,
    rank: usize,
    seed: u64,
) -> Option<[Mat<f64>; 2]> {
    let (p, sigma, q) = match symmetric {
        true => {
            let (p, sigma, _) = svd(&left)?;
            let squares = sigma.iter().map(|s| s * s).collect();
            (p.clone(), squares, p)
        }
        false => svd_of_product(&left, &right, left.ncols())?,
    };
    let largest = sigma.first().copied().filter(|s| *s > 0.0)?;
    let kept = sigma.iter().filter(|s| **s > NONE * largest).count();
    let kept = kept.min(rank);
    let side = |m: &Mat<f64>, stream: u64| {
        let column = |j: usize| -> Vec<f64> {
            let root = sigma[j].sqrt();
            (0..m.nrows()).map(|i| root * m[(i, j)]).collect()
        };
        let mut columns: Vec<Vec<f64>> = (0..kept).map(column).collect();
        let size = (GROWN * largest).sqrt();
        grow_columns(&mut columns, m.nrows(), rank, size, (seed, stream));
        Mat::from_fn(m.nrows(), rank, |i, j| columns[j][i])
    };
    let l = side(&p, DIRECTIONS[0]);
    let r = match symmetric {
        true => l.clone(),
        false => side(&q, DIRECTIONS[1]),
    };
    Some([l, r])
}

/// Gives the rows of W one by one; `None` where it has lost rank.
type RowOf<'a> = Box<dyn Fn(usize) -> Vec<f64> + 'a>;

fn row_of<R: Real>(form: FormRef<'_, R>) -> Option<RowOf<'_>> {
    if let FormRef::Full(full) = form {
        return Some(Box::new(move |i| {
            let row = full.row(i).iter();
            row.map(|v| full.weight(i) * v.to_f64()).collect()
        }));
    }
    let [left, right] = form.balanced_factors()?;
    Some(Box::new(move |i| {
        let entry = |j: usize| -> f64 {
            let terms = (0..left.ncols()).map(|c| left[(i, c)] * right[(j, c)]);
            terms.sum()
        };
        (0..right.nrows()).map(entry).collect()
    }))
}
