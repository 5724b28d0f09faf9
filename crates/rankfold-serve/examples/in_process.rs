//! The search of the service without HTTP, to compare it with: every row asks for its ten best.
//!
//!     cargo run --release -p rankfold-serve --example in_process -- MODEL ROWS

use std::time::Instant;

use rankfold::data::read_labelled;
use rankfold::eval::{Best, Panels, nearest};
use rankfold::form::Side;
use rankfold::{Error, Model, Result};

/// Queries that share the reading of the rows, as in the service.
const TOGETHER: usize = 16;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, rows] = &arguments[..] else {
        return Err(Error::input("expected MODEL ROWS"));
    };
    let model = Model::load(model)?;
    let data = read_labelled::<f32>(rows)?;
    let prepared = model.prepare(data.rows, &data.features)?;
    let count = prepared.rows.len();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);

    let space = model.coordinates()?;
    let space = space.ok_or_else(|| Error::input("expected a low-rank model"))?;
    let members: Vec<u32> = (0..count as u32).collect();
    let points = model.coordinates_of(&space, &prepared.rows, &members, Side::Right)?;
    let panels = Panels::new(&points, space.rank(), space.is_distance());
    let start = Instant::now();
    std::thread::scope(|scope| {
        for part in points.chunks(
            points
                .len()
                .div_ceil(threads)
                .next_multiple_of(space.rank()),
        ) {
            let panels = &panels;
            scope.spawn(move || {
                for queries in part.chunks(TOGETHER * panels.rank()) {
                    let mut lists = vec![Best::new(11); queries.len() / panels.rank()];
                    panels.search(queries, 0..panels.parts(), &mut lists, |_, _| false);
                    std::hint::black_box(lists);
                }
            });
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    println!("panels: {:.0} queries a second", count as f64 / seconds);

    let projection = model.project(&prepared, None)?;
    let queries: Vec<usize> = (0..count).collect();
    let start = Instant::now();
    nearest(&projection.scorer(), &queries, 10, threads, |_, found| {
        std::hint::black_box(found);
        Ok::<(), Error>(())
    })?;
    let seconds = start.elapsed().as_secs_f64();
    println!("nearest: {:.0} queries a second", count as f64 / seconds);
    Ok(())
}
