//! How well the neighbors of a row vote for its class, under a learned metric and
//! under simple ones.

use super::fit::SHRINKAGE;
use crate::batch::{Points, discriminant, principal};
use crate::data::Labelled;
use crate::eval::{Neighbors, Votes, elected, votes_each};
use crate::model::{Knowledge, Metrics, Model};
use crate::task::groups::Grouping;
use crate::task::inputs::renamed;
use crate::task::run::{Baseline, Evaluation};
use crate::task::similarity::classes;
use crate::{Error, Ids, Real, Result, Rows};
use faer::Mat;

/// Features up to which the baselines are computed that look at all of them together.
pub(super) const MOST_FEATURES: usize = 5000;

impl Model {
    /// Lets the `k` nearest training rows of each row vote for its class; without
    /// training rows, its nearest other rows.
    pub fn evaluate_metric<R: Real>(
        &self,
        data: Labelled<R>,
        train: Option<Labelled<R>>,
        k: usize,
        threads: usize,
    ) -> Result<Evaluation> {
        if self.knowledge != Knowledge::Metric {
            return Err(self.knowledge.expected("metric"));
        }
        let among = train.as_ref().map_or(data.rows.len(), |t| t.rows.len());
        let needed = k + usize::from(train.is_none());
        if k == 0 || among < needed {
            return Err(Error::input(format!(
                "{k} neighbors among {among} rows: give fewer neighbors or more rows"
            )));
        }
        let mut names = Ids::new();
        let mut unknown_entries = 0;
        let mut ready = |data: Labelled<R>, names: &mut Ids| -> Result<Judged<R>> {
            let found = classes(&data.labels, |i| data.ids.name(i).into_owned());
            let found = found?;
            let found = renamed(names, &data.labels, found);
            let prepared = self.prepare(data.rows, &data.features)?;
            unknown_entries += prepared.unknown_entries;
            // Rows of one part may end before those of another do, or after the model.
            let columns = self.columns();
            let known = prepared.rows.iter().map(|row| row.below(columns));
            let mut known: Rows<R> = known.collect();
            known.widen(columns);
            Ok(Judged {
                points: Points::new(&known)?,
                learned: self.embed(&prepared, crate::form::Side::Left)?.values,
                classes: found,
            })
        };
        let train = train.map(|train| {
            let found = ready(train, &mut names);
            found.map_err(|e| e.about("training rows"))
        });
        let mut train = train.transpose()?;
        let mut test = ready(data, &mut names)?;
        let ordered = order_by_name(&names, train.iter_mut().chain([&mut test]));
        let error = |found: Votes| -> Metrics {
            let share = found.wrong as f64 / test.classes.len() as f64;
            [("knn_error".to_owned(), share)].into()
        };
        // 1 for a row whose neighbors vote for another class.
        let share = |right: bool| f64::from(u8::from(!right));
        let mut wrong = vec![None; test.classes.len()];
        let mut plain = wrong.clone();
        let model = {
            let rank = self.rank();
            let among = train.as_ref().map(|t| t.as_seen(&t.learned, rank));
            let seen = test.as_seen(&test.learned, rank);
            error(votes_each(k, among, seen, threads, |row, right| {
                wrong[row] = Some(share(right));
            }))
        };
        let mut baselines = Vec::new();
        let d = test.points.features();
        if d <= MOST_FEATURES {
            let rank = self.rank();
            let from = train.as_ref().unwrap_or(&test);
            let mut maps = vec![("euclid", Mat::identity(d, d))];
            if rank < d
                && let Ok((directions, _)) = principal(&from.points, rank, threads)
            {
                maps.push(("pca", directions));
            }
            let several = from.classes.iter().any(|c| *c != from.classes[0]);
            if several {
                let many = from.classes.iter().max().map_or(0, |&c| c as usize);
                let count = rank.min(many).min(d);
                for (name, shrinkage) in [("lda", 0.0), ("shrunk_lda", SHRINKAGE)] {
                    let map = discriminant(&from.points, &from.classes, count, shrinkage, threads);
                    maps.extend(map.ok().map(|map| (name, map)));
                }
            }
            for (name, map) in maps {
                let rank = map.ncols();
                let projected = |judged: &Judged<R>| judged.points.embedded(&map, threads);
                let (a, b) = (train.as_ref().map(projected), projected(&test));
                let among = train.as_ref().zip(a.as_ref());
                let among = among.map(|(t, values)| t.as_seen(values, rank));
                let found = votes_each(k, among, test.as_seen(&b, rank), threads, |row, right| {
                    if baselines.is_empty() {
                        plain[row] = Some(share(right));
                    }
                });
                let metrics = error(found);
                baselines.push(Baseline::new(name, metrics));
            }
        }
        let main = baselines.first().map(|one: &Baseline| &one.name[..]);
        let by_class = Grouping::new("class", "knn_error", "rows", main);
        let plain = main.map(|_| &plain[..]);
        let by_class = by_class.by_class(&ordered, &test.classes, &wrong, plain);
        Ok(Evaluation {
            groupings: vec![by_class],
            baselines,
            ..Evaluation::new(model, test.classes.len(), "rows")
        }
        .unknown_entries(unknown_entries)
        .with("neighbors", k))
    }
}

/// Classes that were voted for.
#[derive(Debug, Clone, PartialEq)]
pub struct Classified {
    /// The names of classes.
    pub names: Ids,
    /// The class of each row, and the share of its neighbors that voted for it.
    pub rows: Vec<(u32, f64)>,
    /// Entries of features that the model does not know.
    pub unknown_entries: usize,
}

impl Model {
    /// The class that the `k` nearest training rows of each row vote for, as
    /// [`Model::evaluate_metric`] counts votes.
    pub fn classify<R: Real>(
        &self,
        data: Labelled<R>,
        train: Labelled<R>,
        k: usize,
        threads: usize,
    ) -> Result<Classified> {
        if self.knowledge != Knowledge::Metric {
            return Err(self.knowledge.expected("metric"));
        }
        if k == 0 || train.rows.len() < k {
            let among = train.rows.len();
            return Err(Error::input(format!(
                "{k} neighbors among {among} rows: give fewer neighbors or more rows"
            )));
        }
        let about_train = |e: Error| e.about("training rows");
        let mut names = Ids::new();
        let found = classes(&train.labels, |i| train.ids.name(i).into_owned());
        let found = renamed(&mut names, &train.labels, found.map_err(about_train)?);
        let order = ordered(&names);
        let mut place = vec![0; order.len()];
        for (new, old) in (0..).zip(&order) {
            place[*old as usize] = new;
        }
        let found: Vec<u32> = found.iter().map(|class| place[*class as usize]).collect();
        let names: Ids = order.iter().map(|&old| names.get(old)).collect();
        let side = crate::form::Side::Left;
        let among = self.prepare(train.rows, &train.features);
        let among = self.embed(&among.map_err(about_train)?, side)?;
        let prepared = self.prepare(data.rows, &data.features)?;
        let rows = self.embed(&prepared, side)?;
        let train = Neighbors {
            values: &among.values,
            classes: &found,
            rank: among.rank,
        };
        let elected = elected(k, train, &rows.values, threads);
        let share = |(class, votes): (u32, usize)| (class, votes as f64 / k as f64);
        Ok(Classified {
            names,
            rows: elected.into_iter().map(share).collect(),
            unknown_entries: prepared.unknown_entries,
        })
    }
}

/// Rows that are judged, or that vote.
struct Judged<R> {
    points: Points,
    /// In the learned space.
    learned: Vec<R>,
    classes: Vec<u32>,
}

impl<R> Judged<R> {
    /// The rows by some coordinates of theirs.
    fn as_seen<'a, V>(&'a self, values: &'a [V], rank: usize) -> Neighbors<'a, V> {
        Neighbors {
            values,
            classes: &self.classes,
            rank,
        }
    }
}

/// Numbers classes by the order of their names, so that ties go to the smallest:
/// numbers before other names, and by value. Gives the names in that order.
fn order_by_name<'a, R: 'a>(names: &Ids, judged: impl Iterator<Item = &'a mut Judged<R>>) -> Ids {
    let order = ordered(names);
    let named = order.iter().map(|&old| names.get(old)).collect();
    let mut place = vec![0; order.len()];
    for (new, old) in (0..).zip(order) {
        place[old as usize] = new;
    }
    for rows in judged {
        rows.classes
            .iter_mut()
            .for_each(|c| *c = place[*c as usize]);
    }
    named
}

/// The numbers of classes in that order.
fn ordered(names: &Ids) -> Vec<u32> {
    let mut order: Vec<(u32, &str)> = (0..).zip(names.iter()).collect();
    let key = |name: &str| name.parse::<f64>().ok().filter(|v| v.is_finite());
    order.sort_by(|(_, a), (_, b)| match (key(a), key(b)) {
        (Some(x), Some(y)) => x.total_cmp(&y).then(a.cmp(b)),
        (x, y) => x.is_none().cmp(&y.is_none()).then(a.cmp(b)),
    });
    order.into_iter().map(|(number, _)| number).collect()
}
