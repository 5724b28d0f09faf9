//! How well the neighbors of a row vote for its class, under a learned metric and
//! under simple ones.

use super::fit::SHRINKAGE;
use crate::batch::{Points, discriminant, principal};
use crate::data::Labelled;
use crate::eval::{Neighbors, Votes, votes_each};
use crate::model::{Knowledge, Metrics, Model};
use crate::task::groups::Grouping;
use crate::task::inputs::renamed;
use crate::task::run::{Baseline, Evaluation};
use crate::task::similarity::classes;
use crate::{Error, Ids, Real, Result, Rows};
use faer::Mat;

/// Features up to which the baselines are computed that look at all of them together.
const MOST_FEATURES: usize = 5000;

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
    let mut order: Vec<(u32, &str)> = (0..).zip(names.iter()).collect();
    let key = |name: &str| name.parse::<f64>().ok().filter(|v| v.is_finite());
    order.sort_by(|(_, a), (_, b)| match (key(a), key(b)) {
        (Some(x), Some(y)) => x.total_cmp(&y).then(a.cmp(b)),
        (x, y) => x.is_none().cmp(&y.is_none()).then(a.cmp(b)),
    });
    let ordered = order.iter().map(|(_, name)| *name).collect();
    let mut place = vec![0; order.len()];
    for (new, (old, _)) in (0..).zip(order) {
        place[old as usize] = new;
    }
    for rows in judged {
        rows.classes
            .iter_mut()
            .for_each(|c| *c = place[*c as usize]);
    }
    ordered
}
