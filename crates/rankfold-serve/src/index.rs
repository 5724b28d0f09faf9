//! An approximate index of rows: a graph of near points (HNSW), of the crate `hnsw_rs`.
//!
//! The graph finds the nearest points. Distances of a metric are that already. For a dot product
//! every point x gets one coordinate more, √(M² − ‖x‖²) with M the largest norm, and a query gets
//! 0 there: all points then have the norm M, and the nearest is the one with the largest product.
//!
//! The graph gives candidates only; they are scored again with the model of today. As the model
//! moves the graph stays, with the model that it was built with to put queries among its points.
//! How many of the true ten best it still finds is measured, and told.
//!
//! Which rows are found may differ from build to build, because threads add points in any order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hnsw_rs::prelude::{DistL2, Hnsw};
use rankfold::eval::{Best, Panels};
use rankfold::form::Side;
use rankfold::model::Coordinates;
use rankfold::{Error, Model, Real, Result, Rows};

use crate::answer::project;

/// Links of a point, and how widely its place is searched.
const LINKS: usize = 16;
const BUILD_WIDTH: usize = 100;
/// How widely queries search, from narrow to wide: the first that finds enough is taken.
const WIDTHS: [usize; 5] = [32, 64, 128, 256, 512];
/// The recall that a width is taken for, with some room above what is promised.
const WANTED: f64 = 0.97;
/// Queries that recall is measured with.
const SAMPLE: usize = 100;
/// Ten is what recall counts.
const TEN: usize = 10;

/// A graph of the rows of one model.
pub struct Index {
    model: Arc<Model>,
    space: Coordinates,
    graph: Hnsw<'static, f32, DistL2>,
    width: usize,
    /// Examples that its model had learned.
    pub sequence: u64,
    /// The bits of the recall at ten that was measured last.
    recall: AtomicU64,
    /// How long it took to build.
    pub seconds: f64,
}

/// A number as the graph takes it.
pub fn float<R: Real>(value: R) -> f64 {
    value.to_f64()
}

impl Index {
    /// Builds the graph of the candidates of a model; `None` for a model without factors.
    pub fn build<R: Real>(
        model: Arc<Model>,
        (queries, rows): (&Rows<R>, &Rows<R>),
        sequence: u64,
    ) -> Result<Option<Self>> {
        let start = std::time::Instant::now();
        let Some(space) = model.coordinates()? else {
            return Ok(None);
        };
        let rank = space.rank();
        let points = project(&model, &space, rows, Side::Right)?;
        let largest = points.chunks_exact(rank).map(square).fold(0.0, f64::max);
        let spread = |row: &[R]| -> Vec<f32> {
            let mut point: Vec<f32> = row.iter().map(|v| v.to_f64() as f32).collect();
            if !space.is_distance() {
                point.push((largest - square(row)).max(0.0).sqrt() as f32);
            }
            point
        };
        let spread: Vec<Vec<f32>> = points.chunks_exact(rank).map(spread).collect();
        if spread.iter().flatten().any(|v| !v.is_finite()) {
            return Err(Error::failure("some rows have no finite coordinates"));
        }
        let layers = ((rows.len().max(2) as f64).ln() / (LINKS as f64).ln()).ceil() as usize;
        let layers = layers.clamp(2, 16);
        let graph = Hnsw::new(LINKS, rows.len().max(1), layers, BUILD_WIDTH, DistL2 {});
        let numbered: Vec<(&[f32], usize)> = spread
            .iter()
            .enumerate()
            .map(|(i, point)| (&point[..], i))
            .collect();
        graph.parallel_insert_slice(&numbered);
        let mut index = Index {
            model,
            space,
            graph,
            width: WIDTHS[0],
            sequence,
            recall: AtomicU64::new(0),
            seconds: 0.0,
        };
        let truth = index.truth(queries, &points)?;
        for width in WIDTHS {
            index.width = width;
            let recall = index.recall_of(queries, &truth)?;
            index.recall.store(recall.to_bits(), Ordering::Relaxed);
            if recall >= WANTED {
                break;
            }
        }
        index.seconds = start.elapsed().as_secs_f64();
        Ok(Some(index))
    }

    /// The recall at ten that was measured last.
    pub fn recall(&self) -> f64 {
        f64::from_bits(self.recall.load(Ordering::Relaxed))
    }

    /// Measures the recall anew, for a model that has moved on.
    pub fn measure<R: Real>(
        &self,
        model: &Model,
        queries: &Rows<R>,
        rows: &Rows<R>,
    ) -> Result<f64> {
        let Some(space) = model.coordinates()? else {
            return Ok(self.recall());
        };
        let points = project(model, &space, rows, Side::Right)?;
        let truth = best_of(model, &space, queries, &points)?;
        let recall = self.recall_of(queries, &truth)?;
        self.recall.store(recall.to_bits(), Ordering::Relaxed);
        Ok(recall)
    }

    fn truth<R: Real>(&self, queries: &Rows<R>, points: &[R]) -> Result<Vec<(usize, Vec<usize>)>> {
        best_of(&self.model, &self.space, queries, points)
    }

    fn recall_of<R: Real>(&self, queries: &Rows<R>, truth: &[(usize, Vec<usize>)]) -> Result<f64> {
        let (mut hits, mut all) = (0, 0);
        for (query, best) in truth {
            let row = queries.select([*query]);
            let found = self.candidates(&row, TEN)?;
            hits += best.iter().filter(|row| found.contains(row)).count();
            all += best.len();
        }
        Ok(if all == 0 {
            1.0
        } else {
            hits as f64 / all as f64
        })
    }

    /// Rows that may be among the `k` best of a query, the only one of `rows`.
    pub fn candidates<R: Real>(&self, rows: &Rows<R>, k: usize) -> Result<Vec<usize>> {
        let point = self
            .model
            .coordinates_of(&self.space, rows, &[0], Side::Left)?;
        let mut point: Vec<f32> = point.iter().map(|v| v.to_f64() as f32).collect();
        if !self.space.is_distance() {
            point.push(0.0);
        }
        if point.iter().any(|v| !v.is_finite()) {
            return Ok(Vec::new());
        }
        // One more than asked for: the query itself may be among them.
        let wanted = (k + 1).max(self.width.min(2 * k + 16));
        let found = self.graph.search(&point, wanted, self.width.max(wanted));
        Ok(found.into_iter().map(|found| found.d_id).collect())
    }
}

fn square<R: Real>(row: &[R]) -> f64 {
    row.iter().map(|v| v.to_f64() * v.to_f64()).sum()
}

/// The ten best rows of some queries, by scoring all of them.
fn best_of<R: Real>(
    model: &Model,
    space: &Coordinates,
    queries: &Rows<R>,
    points: &[R],
) -> Result<Vec<(usize, Vec<usize>)>> {
    let step = queries.len().div_ceil(SAMPLE).max(1);
    let sample: Vec<u32> = (0..queries.len() as u32).step_by(step).collect();
    let left = model.coordinates_of(space, queries, &sample, Side::Left)?;
    let panels = Panels::new(points, space.rank(), space.is_distance());
    let mut lists = vec![Best::new(TEN); sample.len()];
    panels.search(&left, 0..panels.parts(), &mut lists, |_, _| false);
    let rows = |list: Best| list.into_list().into_iter().map(|found| found.0).collect();
    Ok(sample
        .into_iter()
        .zip(lists)
        .map(|(query, list)| (query as usize, rows(list)))
        .collect())
}
