//! What a run of [`Similarity`] works on: rows as the model will see them,
//! which of them train and which judge, and where triplets come from.

use super::check_validation;
use super::hold_out::hold_out_some;
use super::similarity::{
    Classified, Negatives, Similarity, SimilarityData, classes, standard_margins,
};
use super::start::Side;
use super::triplet::Sides;
use crate::batch::{Points, class_ridge};
use crate::data::{Features, Labelled, Labels};
use crate::eval::calibration::variance_scale;
use crate::form::FormRef;
use crate::model::{ClassScore, Classes, Distances, Preprocess, Steps};
use crate::random::{Random, splitmix64};
use crate::sample::{Given, LabelTriplets, ListedTriplets, ObjectTriplets, Triplet, Triplets};
use crate::{Error, Ids, Real, Result, Rows, SparseVec};
use faer::Mat;
use hashbrown::HashSet;
use std::borrow::Cow;

/// The stream of random numbers that draws the triplets of training; other
/// purposes have other streams.
const TRIPLETS: u64 = 0;
const DISTANCES: u64 = 4;

/// Pairs of rows whose distances are looked at.
const DISTANCE_PAIRS: usize = 10_000;

/// What a run learns from: rows, and the objects that they are scored with where
/// these are other things.
#[derive(Debug, Clone, Copy)]
pub struct TrainingData<'a, R> {
    /// Queries; positives and negatives as well where there are no objects.
    pub rows: &'a Labelled<R>,
    /// Positives and negatives of another kind.
    pub objects: Option<&'a Labelled<R>>,
}

impl<'a, R> From<&'a Labelled<R>> for TrainingData<'a, R> {
    fn from(rows: &'a Labelled<R>) -> Self {
        TrainingData {
            rows,
            objects: None,
        }
    }
}

/// Things of one kind, as the model will see them.
#[derive(Debug)]
pub(super) struct Things<'a, R: Real> {
    pub rows: Cow<'a, Rows<R>>,
    pub features: &'a Features,
    pub preprocess: Preprocess,
    /// The class of each, where they have one.
    pub classes: Option<Vec<u32>>,
    /// Those that training may use.
    pub members: Vec<u32>,
}

impl<'a, R: Real> Things<'a, R> {
    pub fn new(
        steps: Steps,
        data: &'a Labelled<R>,
        classes: Option<Vec<u32>>,
        members: Vec<u32>,
    ) -> Result<Self> {
        // Only named columns can have missing cells, in this file or in a later one.
        let fill = matches!(data.features, Features::Named(_) | Features::Columns(_));
        let preprocess = Preprocess::fit(steps, fill, &data.rows, &members);
        let rows = if preprocess.passes(&data.rows) {
            Cow::Borrowed(&data.rows)
        } else {
            Cow::Owned(preprocess.apply(&data.rows, data.rows.columns())?)
        };
        Ok(Things {
            rows,
            features: &data.features,
            preprocess,
            classes,
            members,
        })
    }

    /// The features as a side of W, to be found in a model.
    pub fn side(&self, side: crate::form::Side, what: &'static str) -> Side<'_> {
        Side {
            side,
            features: self.features,
            preprocess: &self.preprocess,
            size: self.rows.columns(),
            what,
        }
    }

    /// All of them with their classes, where they have some.
    pub fn classified(&self) -> Option<Classified<'_, R>> {
        Some(Classified {
            rows: &self.rows,
            members: &self.members,
            classes: self.classes.as_deref()?,
        })
    }
}

/// Held-out rows with their classes.
#[derive(Debug)]
pub(super) struct Validation<R> {
    /// Rows as the model sees them; `None` when they are training rows held out.
    pub rows: Option<Rows<R>>,
    pub members: Vec<u32>,
    /// The class of each member.
    pub classes: Vec<u32>,
}

/// The data of a run, ready for it.
#[derive(Debug)]
pub(super) struct Inputs<'a, R: Real> {
    pub rows: Things<'a, R>,
    /// What the rows are scored with, where it is something else.
    pub objects: Option<Things<'a, R>>,
    /// The names of the classes of the rows.
    names: &'a Ids,
    pub validation: Option<Validation<R>>,
    pub triplets: Triplets,
    /// Triplets in one pass.
    pub epoch: u64,
    /// Changes when any of the data does, the objects apart.
    pub fingerprint: u64,
    /// Changes when the objects do.
    pub objects_fingerprint: Option<u64>,
}

impl<'a, R: Real> Inputs<'a, R> {
    pub fn new(
        options: &Similarity,
        SimilarityData {
            data,
            triplets: given,
            valid,
        }: SimilarityData<'a, R>,
    ) -> Result<Self> {
        let TrainingData {
            rows: data,
            objects,
        } = data;
        let steps = Steps::of(options.weight, options.normalize, options.standardize);
        if objects.is_some() {
            options.check_objects()?;
        }
        check_validation(valid.is_some(), options.valid_fraction)?;
        if given.is_some() && options.valid_fraction > 0.0 {
            return Err(Error::input(
                "listed triplets may name any row, so none can be held out: give validation rows in a file",
            ));
        }
        if given.is_some() && options.negatives != Negatives::Random {
            return Err(Error::input(
                "listed triplets bring their own negatives: hard ones are drawn from labels",
            ));
        }
        let known = if given.is_none() {
            Some(classes(&data.labels, |i| data.ids.name(i).into_owned())?)
        } else {
            // Labels are welcome here, but nothing depends on them.
            classes(&data.labels, |_| String::new()).ok()
        };
        let (members, held_out) = hold_out_some(
            "rows",
            data.rows.len(),
            known.as_deref(),
            options.valid_fraction,
            options.seed,
        )?;
        // Classes of several files find each other by name.
        let mut names = data.labels.names.clone();
        let objects = match objects {
            None => None,
            Some(objects) => {
                let needed = given.is_none() || valid.is_some();
                let found = classes(&objects.labels, |i| objects.ids.name(i).into_owned());
                let found = match needed {
                    true => Some(found.map_err(|e| e.about("objects"))?),
                    false => found.ok(),
                };
                let found = found.map(|found| renamed(&mut names, &objects.labels, found));
                let all = (0..objects.rows.len() as u32).collect();
                let things = Things::new(steps, objects, found, all);
                Some((objects, things.map_err(|e| e.about("objects"))?))
            }
        };
        let rows = Things::new(steps, data, known, members)?;
        let validation = match (valid, &rows.classes) {
            (Some(valid), _) => {
                let mut prepared = foreign(valid, &rows).map_err(|e| e.about("validation rows"))?;
                if objects.is_some() {
                    prepared.classes = renamed(&mut names, &valid.labels, prepared.classes);
                }
                Some(prepared)
            }
            (None, Some(known)) if !held_out.is_empty() => Some(Validation {
                classes: held_out.iter().map(|&i| known[i as usize]).collect(),
                members: held_out,
                rows: None,
            }),
            (None, _) => None,
        };
        let known = rows.classes.as_deref();
        let (objects_fingerprint, objects) = match objects {
            None => (None, None),
            Some((raw, things)) => {
                let mut hash = Fingerprint(0);
                hash.rows(&raw.rows);
                hash.names(&raw.features);
                let classes = things.classes.as_deref().unwrap_or_default();
                hash.numbers(classes.iter().copied());
                (Some(hash.0), Some(things))
            }
        };
        let of_objects = objects.as_ref().and_then(|o| o.classes.as_deref());
        if let Some(valid) = &validation {
            valid.check(of_objects)?;
        }
        let listed = match &given {
            Some(Given::List(list)) => &list[..],
            _ => &[],
        };
        let fingerprint = fingerprint(data, known, listed, &validation);
        let (triplets, epoch) = match (given, known) {
            (Some(Given::Source(source)), _) => (Triplets::Own(source), rows.members.len() as u64),
            (Some(Given::List(list)), _) => {
                let source = ListedTriplets::new(list)?;
                let epoch = source.len() as u64;
                (Triplets::Listed(source), epoch)
            }
            (None, known) => {
                let known = known.expect("classes were asked for");
                let random = Random::new(options.seed, TRIPLETS);
                let source = triplets(known, &rows.members, of_objects, random)?;
                (source, rows.members.len() as u64)
            }
        };
        Ok(Inputs {
            rows,
            objects,
            names: &data.labels.names,
            validation,
            triplets,
            epoch,
            fingerprint,
            objects_fingerprint,
        })
    }

    /// The classes of the rows that are learned from, to score by; `None` where rows have
    /// none, or too many.
    pub fn classes(&self) -> Result<Option<Classes>> {
        let rows = &self.rows;
        match &rows.classes {
            Some(known) if (1..=Classes::MOST).contains(&self.names.len()) => {
                let classes = Classes::of_rows(self.names, &rows.rows, &rows.members, known);
                classes.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The same, compared in this way; an error where there are none.
    pub fn scored_classes(&self, score: ClassScore) -> Result<Classes> {
        let message = format!(
            "must be dot or cosine: to score by classes rows need labels, of at most {} classes, and no objects",
            Classes::MOST
        );
        let classes = match self.objects {
            None => self.classes()?,
            Some(_) => None,
        };
        let mut classes = classes.ok_or_else(|| Error::option("score", message))?;
        classes.score = score;
        Ok(classes)
    }

    /// A start of d × k that tells classes apart.
    pub fn class_ridge(&self, k: usize, penalty: f64, threads: usize) -> Result<Mat<f64>> {
        let rows = &self.rows;
        let known = rows.classes.as_deref();
        let known = known.ok_or_else(|| {
            Error::option(
                "init",
                "cannot be ridge without labels: it tells classes apart",
            )
        })?;
        if self.objects.is_some() {
            let message = "cannot be ridge with objects, whose features are others";
            return Err(Error::option("init", message));
        }
        let classes: Vec<u32> = rows.members.iter().map(|&i| known[i as usize]).collect();
        let mut chosen = rows.rows.select(rows.members.iter().map(|&i| i as usize));
        chosen.widen(rows.rows.columns());
        class_ridge(&Points::new(&chosen)?, &classes, k, penalty, threads)
    }

    /// How many classes the rows have that are learned from.
    pub fn class_count(&self) -> usize {
        let rows = &self.rows;
        let known = rows.classes.as_deref().unwrap_or_default();
        let of = |&i: &u32| known.get(i as usize).copied();
        rows.members
            .iter()
            .filter_map(of)
            .collect::<HashSet<u32>>()
            .len()
    }

    /// What stands on the right of W.
    pub fn right(&self) -> &Things<'a, R> {
        self.objects.as_ref().unwrap_or(&self.rows)
    }

    /// The rows of both sides of W.
    pub fn sides(&self) -> Sides<'_, R> {
        Sides {
            left: &self.rows.rows,
            right: &self.right().rows,
        }
    }

    /// Triplets of a run that is not told how many.
    pub fn usual_steps(&self) -> u64 {
        match &self.triplets {
            Triplets::Listed(_) => self.epoch,
            _ => (50 * self.epoch).max(20_000),
        }
    }

    /// Triplets of a whole run.
    pub fn steps(&self, options: &Similarity) -> u64 {
        match (options.steps, options.epochs) {
            (Some(steps), _) => steps,
            (None, Some(epochs)) => epochs.saturating_mul(self.epoch),
            (None, None) => self.usual_steps(),
        }
    }
}

impl<R: Real> Inputs<'_, R> {
    /// The factor on the variances of a distribution that fits validation
    /// triplets; `None` where there are none.
    pub fn variance_scale(&self, form: FormRef<'_, R>, seed: u64) -> Option<f64> {
        if !form.is_gaussian() {
            return None;
        }
        let valid = self.validation.as_ref()?;
        let queries = Classified {
            rows: valid.rows.as_ref().unwrap_or(&self.rows.rows),
            members: &valid.members,
            classes: &valid.classes,
        };
        let objects = self.objects.as_ref().and_then(Things::classified);
        let margins = standard_margins(form, queries, objects, seed).ok()?;
        variance_scale(&margins)
    }

    /// What LEGO aims at: the 5th and the 95th percentile of the squared
    /// distances between rows as they are.
    pub fn distances(&self, seed: u64) -> Distances {
        let mut random = Random::new(seed, DISTANCES);
        let mut difference = SparseVec::new();
        let members = &self.rows.members;
        let mut row = || members[random.below(members.len())] as usize;
        let mut found: Vec<f64> = (0..DISTANCE_PAIRS)
            .map(|_| {
                let (a, b) = (row(), row());
                difference.set_difference(self.rows.rows.row(a), self.rows.rows.row(b));
                difference.as_row().squared_norm()
            })
            .filter(|d| *d > 0.0)
            .collect();
        found.sort_by(f64::total_cmp);
        let percentile = |share: f64| {
            let at = share * found.len().saturating_sub(1) as f64;
            found.get(at.round() as usize).copied().unwrap_or(1.0)
        };
        Distances {
            near: percentile(0.05),
            far: percentile(0.95),
        }
    }
}

/// Triplets from classes: among rows, or of rows with objects.
pub(super) fn triplets(
    classes: &[u32],
    members: &[u32],
    of_objects: Option<&[u32]>,
    random: Random,
) -> Result<Triplets> {
    match of_objects {
        None => LabelTriplets::new(classes, members, random).map(Triplets::Labels),
        Some(objects) => {
            ObjectTriplets::new(classes, members, objects, random).map(Triplets::Objects)
        }
    }
}

/// The same classes by the numbers that `names` gives to theirs.
pub(super) fn renamed(names: &mut Ids, labels: &Labels, classes: Vec<u32>) -> Vec<u32> {
    let numbers: Vec<u32> = labels.names.iter().map(|name| names.intern(name)).collect();
    let renamed = classes.into_iter().map(|class| numbers[class as usize]);
    renamed.collect()
}

impl<R> Validation<R> {
    /// Whether there is anything to find: among the rows, or among the objects.
    fn check(&self, of_objects: Option<&[u32]>) -> Result<()> {
        match of_objects {
            None => {
                let mut sorted = self.classes.clone();
                sorted.sort_unstable();
                if sorted.windows(2).all(|pair| pair[0] != pair[1]) {
                    return Err(Error::input(
                        "validation needs two rows of the same class at least, found none",
                    ));
                }
            }
            Some(objects) => {
                let known: HashSet<&u32> = objects.iter().collect();
                if !self.classes.iter().any(|class| known.contains(class)) {
                    return Err(Error::input(
                        "validation needs a row and an object of the same class, found none",
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Validation rows from another file, in the columns of the training rows.
fn foreign<R: Real>(valid: &Labelled<R>, training: &Things<'_, R>) -> Result<Validation<R>> {
    let preprocess = &training.preprocess;
    let rows = training
        .features
        .align(valid.rows.clone(), &valid.features)?;
    let rows = if preprocess.passes(&rows) {
        rows
    } else {
        preprocess.apply(&rows, training.rows.columns())?
    };
    let classes = classes(&valid.labels, |i| valid.ids.name(i).into_owned())?;
    Ok(Validation {
        members: (0..rows.len() as u32).collect(),
        rows: Some(rows),
        classes,
    })
}

/// A number that changes when any of the data of a run does.
fn fingerprint<R: Real>(
    data: &Labelled<R>,
    classes: Option<&[u32]>,
    listed: &[Triplet],
    validation: &Option<Validation<R>>,
) -> u64 {
    let mut hash = Fingerprint(0);
    hash.rows(&data.rows);
    hash.names(&data.features);
    hash.numbers(classes.unwrap_or_default().iter().copied());
    for t in listed {
        hash.numbers([t.query, t.positive, t.negative].into_iter());
    }
    if let Some(valid) = validation {
        valid.rows.iter().for_each(|rows| hash.rows(rows));
        hash.numbers(valid.classes.iter().copied());
    }
    hash.0
}

pub(super) struct Fingerprint(pub u64);

impl Fingerprint {
    fn mix(&mut self, value: u64) {
        self.0 = splitmix64(self.0 ^ value);
    }

    pub fn rows<R: Real>(&mut self, rows: &Rows<R>) {
        self.mix(rows.len() as u64);
        for row in rows.iter() {
            self.mix(row.len() as u64);
            for (j, v) in row.iter() {
                self.mix(v.to_f64().to_bits() ^ (u64::from(j) << 32));
            }
        }
    }

    pub fn value(&mut self, value: f64) {
        self.mix(value.to_bits());
    }

    /// Numbers and terms need none: the latter are compared by themselves.
    pub fn names(&mut self, features: &Features) {
        if let Features::Named(ids) | Features::Columns(ids) = features {
            self.ids(ids);
        }
    }

    pub fn ids(&mut self, ids: &Ids) {
        (0..ids.len() as u32).for_each(|i| self.mix(ids.hash_of(i)));
    }

    pub fn numbers(&mut self, numbers: impl ExactSizeIterator<Item = u32>) {
        self.mix(numbers.len() as u64);
        numbers.for_each(|n| self.mix(u64::from(n)));
    }
}
