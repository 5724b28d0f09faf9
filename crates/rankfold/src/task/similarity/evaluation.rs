//! A similarity model on held-out data, with plain cosine beside it.

use super::{
    Calibration, Classified, classes, evaluate_among, evaluate_at, metrics, standard_margins,
};
use crate::data::Labelled;
use crate::data::text::Documents;
use crate::eval::{self, Cosine};
use crate::form::{FormRef, Side};
use crate::model::{Knowledge, Precise};
use crate::task::given_up;
use crate::task::groups::Grouping;
use crate::task::inputs::renamed;
use crate::task::run::{Baseline, Evaluation};
use crate::{Error, Model, Real, Result, Score};
use std::path::Path;

/// How an evaluation is to be done.
#[derive(Clone, Copy)]
pub struct Evaluate<'a> {
    /// How scores are read; by default as the model says.
    pub score: Option<Score>,
    /// Numbers of best rows whose precision is wanted, beside 1 and 10; none is 0.
    pub precision_at: &'a [usize],
    /// Threads to use; the result is the same for any number.
    pub threads: usize,
    /// Called with the number of queries done out of twice the rows; says
    /// whether to go on.
    pub progress: &'a (dyn Fn(usize) -> bool + Sync),
}

impl Evaluate<'_> {
    /// Reads a file in the model's precision and evaluates the model on it.
    pub fn file(&self, model: &Model, path: impl AsRef<Path>) -> Result<Evaluation> {
        let path = path.as_ref();
        match &model.form {
            Precise::F32(_) => self.rows::<f32>(model, model.read(&Documents::new(path))?),
            Precise::F64(_) => self.rows::<f64>(model, model.read(&Documents::new(path))?),
        }
        .map_err(|e| e.in_file(path))
    }

    /// Evaluates the model on rows in its precision. An error of the kind
    /// `Interrupted` where `progress` said to stop.
    pub fn rows<R: Real>(&self, model: &Model, data: Labelled<R>) -> Result<Evaluation> {
        let form = model.form.as_precision::<R>()?;
        check_task(model)?;
        model.check_one_kind()?;
        let classes = classes(&data.labels, |i| data.ids.name(i).into_owned())?;
        let prepared = model.prepare(data.rows, &data.features)?;
        let members: Vec<u32> = (0..prepared.rows.len() as u32).collect();
        let reading = model.reading(self.score)?;
        let (rows, n) = (&prepared.rows, members.len());
        let queries = Classified {
            rows,
            members: &members,
            classes: &classes,
        };
        let (view, at) = (form.view(), self.precision_at);
        let found = evaluate_at(view, queries, reading, at, self.threads, self.progress)?;
        let later = |done: usize| (self.progress)(n + done);
        let cosine = Cosine::new(rows);
        let cosine = || eval::retrieval_at(&cosine, &classes, None, at, self.threads, &later);
        let Some((found, cosine)) = found.and_then(|found| Some((found, cosine()?))) else {
            return Err(given_up());
        };
        let by_class = by_class("cosine").by_class(
            &data.labels.names,
            &classes,
            &found.average_precision,
            Some(&cosine.average_precision),
        );
        Ok(Evaluation {
            groupings: vec![by_class],
            baselines: vec![Baseline::new("cosine", metrics(&cosine))],
            skipped: found.skipped,
            calibration: calibration(model, form.view(), queries, None),
            ..Evaluation::new(metrics(&found), found.rows - found.skipped, "queries")
        }
        .unknown_entries(prepared.unknown_entries))
    }

    /// Evaluates the model on rows that look for objects of their class; classes
    /// of both find each other by name. Where both sides of the model are the
    /// same, objects are other rows of that kind.
    pub fn rows_among<R: Real>(
        &self,
        model: &Model,
        data: Labelled<R>,
        objects: Labelled<R>,
    ) -> Result<Evaluation> {
        let form = model.form.as_precision::<R>()?;
        check_task(model)?;
        let known = classes(&data.labels, |i| data.ids.name(i).into_owned())?;
        let of_objects = classes(&objects.labels, |i| objects.ids.name(i).into_owned());
        let of_objects = of_objects.map_err(|e| e.about("objects"))?;
        let mut names = data.labels.names.clone();
        let of_objects = renamed(&mut names, &objects.labels, of_objects);
        let left = model.prepare(data.rows, &data.features)?;
        let right = model.prepare_side(objects.rows, &objects.features, Side::Right);
        let right = right.map_err(|e| e.about("objects"))?;
        let members = |count: usize| -> Vec<u32> { (0..count as u32).collect() };
        let (queries, candidates) = (members(known.len()), members(of_objects.len()));
        let queries = Classified {
            rows: &left.rows,
            members: &queries,
            classes: &known,
        };
        let candidates = Classified {
            rows: &right.rows,
            members: &candidates,
            classes: &of_objects,
        };
        let (form, reading) = (form.view(), model.reading(self.score)?);
        let found = evaluate_among(
            form,
            queries,
            candidates,
            reading,
            self.precision_at,
            self.threads,
            self.progress,
        )?;
        let Some(found) = found else {
            return Err(given_up());
        };
        let (mut baselines, mut plain) = (Vec::new(), None);
        if model.sides_share_features() {
            let later = |done: usize| (self.progress)(known.len() + done);
            let cosine = Cosine::between(&left.rows, &right.rows);
            let threads = self.threads;
            let (among, at) = (Some(&of_objects[..]), self.precision_at);
            match eval::retrieval_at(&cosine, &known, among, at, threads, &later) {
                None => return Err(given_up()),
                Some(found) => {
                    baselines.push(Baseline::new("cosine", metrics(&found)));
                    plain = Some(found.average_precision);
                }
            }
        }
        let by_class = by_class("cosine").by_class(
            &data.labels.names,
            &known,
            &found.average_precision,
            plain.as_deref(),
        );
        let unknown = left.unknown_entries.saturating_add(right.unknown_entries);
        Ok(Evaluation {
            groupings: vec![by_class],
            baselines,
            skipped: found.skipped,
            calibration: calibration(model, form, queries, Some(candidates)),
            ..Evaluation::new(metrics(&found), found.rows - found.skipped, "queries")
        }
        .unknown_entries(unknown))
    }
}

/// `None` where the model does not say how sure it is, or the classes make no
/// triplets.
fn calibration<R: Real>(
    model: &Model,
    form: FormRef<'_, R>,
    queries: Classified<'_, R>,
    objects: Option<Classified<'_, R>>,
) -> Option<Calibration> {
    if !form.is_gaussian() {
        return None;
    }
    let margins = standard_margins(form, queries, objects, model.card.seed).ok()?;
    Some(Calibration::new(&margins, model.card.variance_scale))
}

/// Mean average precision by the class of the query.
fn by_class(baseline: &str) -> Grouping {
    Grouping::new("class", "map", "queries", Some(baseline))
}

fn check_task(model: &Model) -> Result<()> {
    if !matches!(model.knowledge, Knowledge::Similarity(_)) {
        return Err(Error::input(format!(
            "cannot evaluate a model for {}",
            model.task()
        )));
    }
    Ok(())
}
