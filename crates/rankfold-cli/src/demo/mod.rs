//! `rankfold demo`: the main job on data embedded in the binary.

mod data;
mod features;
#[cfg(feature = "serve")]
mod live;
mod recommend;
mod report;
mod search;
mod shop;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use rankfold::data::write_atomically;
use rankfold::eval::{Cosine, Retrieval, retrieval};
use rankfold::form::Side;
use rankfold::linalg::principal_coordinates;
use rankfold::model::{Normalize, Precise, Scaling};
use rankfold::task::{Event, evaluate};
use rankfold::{Error, Result, Similarity};
use serde_json::json;

use crate::output::Output;
use data::Digit;
use report::{Curve, CurvePoint, DigitPrecision, Example, MapPoint, Metrics, Report};
use search::Searches;

/// Learn a similarity of handwritten digits, and show the search before and after
///
/// 1,500 pen strokes from UCI Pendigits (Alpaydin and Alimoglu, CC BY 4.0) are
/// in the binary. From triplets "this 3 is more like that 3 than like this 8"
/// the demo learns a low-rank similarity in a few seconds, then every one of
/// 1,000 other strokes searches the rest: by plain cosine, and by what was
/// learned.
///
/// `rankfold demo recommend` learns what to show to the customers of a made-up shop.
#[derive(Args)]
#[cfg_attr(
    feature = "serve",
    command(after_help = "Examples:
  rankfold demo
  rankfold demo --report report.html
  rankfold demo --data digits.csv
      then rankfold split digits.csv -o d --where split=test
      and rankfold train metric d.train.csv -o m.safetensors
  rankfold demo recommend
      lists for customers of a made-up shop
  rankfold demo --serve
      in the browser, at http://127.0.0.1:8080: draw a digit, find its neighbors, and teach the
      model with a click what is more like it")
)]
#[cfg_attr(
    not(feature = "serve"),
    command(after_help = "Examples:
  rankfold demo
  rankfold demo --report report.html
  rankfold demo --data digits.csv
      then rankfold split digits.csv -o d --where split=test
      and rankfold train metric d.train.csv -o m.safetensors
  rankfold demo recommend
      lists for customers of a made-up shop")
)]
pub struct Demo {
    /// What to show
    #[arg(value_enum, default_value_t = What::Digits)]
    what: What,

    /// Also write the digits, or the choices of the made-up shop, here: a table to try commands on
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,

    /// Also write a page with pictures here
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Seed of everything random
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Threads [default: all cores]; the result does not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// Search and teach in the browser
    #[cfg(feature = "serve")]
    #[arg(long, conflicts_with = "report")]
    serve: bool,

    /// The address of the page, with --serve; port 0 takes any that is free, and prints it
    #[cfg(feature = "serve")]
    #[arg(
        long,
        value_name = "ADDRESS",
        requires = "serve",
        default_value = "127.0.0.1:8080"
    )]
    listen: std::net::SocketAddr,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// The search among handwritten digits
    Digits,
    /// Recommendations in a made-up shop
    Recommend,
}

const RANK: usize = 10;
const STEPS: u64 = 100_000;

impl Demo {
    pub fn run(self, output: &Output) -> Result<()> {
        let start = Instant::now();
        crate::paths::check(&[self.report.as_deref(), self.data.as_deref()], &[])?;
        let threads = crate::threads(self.threads);
        if self.what == What::Recommend {
            output.given.none_of("`digits`", &["serve", "listen"])?;
            let files = recommend::Files {
                data: self.data.as_deref(),
                report: self.report.as_deref(),
            };
            return recommend::run(&files, self.seed, threads, output);
        }
        if let Some(path) = &self.data {
            write_atomically(path, |out| out.write_all(data::CSV.as_bytes()))?;
        }
        let (train, test) = data::digits();
        let basis = features::Basis::new(&train);
        let (rows, held_out) = (basis.labelled(&train), basis.labelled(&test));

        let options = Similarity::default()
            .rank(RANK)
            .steps(STEPS)
            .seed(self.seed)
            .valid_fraction(0.2)
            .threads(threads)
            .standardize(Scaling::Global)
            .normalize(Normalize::L2);
        let mut session = options.session(&rows)?;
        let baseline = session.work().validation_baseline();
        let baseline = baseline.map_or(f64::NAN, |m| m["map"]);
        let bar = output.bar(STEPS);
        while !matches!(session.advance(1_000)?, Event::Finished(_)) {
            bar.set_position(session.counters().steps);
        }
        bar.finish_and_clear();
        let model = session.into_model()?;
        let learning = start.elapsed().as_secs_f64();
        #[cfg(feature = "serve")]
        if self.serve {
            return live::run(&model, basis, test, self.listen, threads, output);
        }

        let prepared = model.prepare(held_out.rows, &held_out.features)?.rows;
        let members: Vec<u32> = (0..test.len() as u32).collect();
        let classes: Vec<u32> = test.iter().map(|digit| u32::from(digit.label)).collect();
        let Precise::F32(form) = &model.form else {
            unreachable!("the demo trains in f32");
        };
        let never = "nobody stops it";
        let before = retrieval(&Cosine::new(&prepared), &classes, threads, &|_| true).expect(never);
        let after = evaluate(
            form.view(),
            &prepared,
            &members,
            &classes,
            model.reading(None)?,
            threads,
            &|_| true,
        )?
        .expect(never);

        if let Some(path) = &self.report {
            let gauge = form
                .view()
                .gauge()
                .ok_or_else(|| Error::failure("the model has lost rank"))?;
            let learned = form.view().embed(&gauge, &prepared, &members, Side::Left);
            let plain = Searches::new(&dense(&prepared), prepared.columns());
            let found = Searches::new(&learned, RANK);
            let page = report::render(&Report {
                version: env!("CARGO_PKG_VERSION").into(),
                command: format!("rankfold demo --report {}", path.display()),
                learner: model.card.learner.clone(),
                rank: RANK,
                steps: STEPS,
                seconds: learning,
                features: "the 16 coordinates of its pen stroke and their 136 products".into(),
                train_rows: train.len(),
                test_rows: test.len(),
                before: numbers(&before),
                after: numbers(&after),
                curve: Curve {
                    measured_on: "a fifth of the training digits, held out".into(),
                    before: baseline,
                    points: model
                        .card
                        .history
                        .iter()
                        .map(|p| CurvePoint {
                            steps: p.counters.steps,
                            loss: p.loss,
                            map: p.metrics.get("map").copied().unwrap_or(f64::NAN),
                        })
                        .collect(),
                },
                singular_values: model.singular_values()?.unwrap_or_default(),
                examples_note: "The first test digit of each second class is the query: 0, 2, 4, 6, 8, and then 9."
                    .into(),
                examples: examples(&test, &plain, &found),
                map_before: places(&test, plain.points(), prepared.columns())?,
                map_after: places(&test, found.points(), RANK)?,
                by_digit: by_digit(&test, &plain, &found),
            });
            let page = page.map_err(|e| Error::failure(format!("cannot make the report: {e}")))?;
            write_atomically(path, |out| out.write_all(page.as_bytes()))?;
        }

        let rows = [
            ("map", before.map, after.map),
            (
                "precision_at_1",
                before.precision_at_1,
                after.precision_at_1,
            ),
            (
                "precision_at_10",
                before.precision_at_10,
                after.precision_at_10,
            ),
        ];
        let values = |pick: fn(&(&str, f64, f64)) -> f64| -> serde_json::Value {
            rows.iter()
                .map(|row| (row.0.to_owned(), json!(pick(row))))
                .collect()
        };
        let seconds = start.elapsed().as_secs_f64();
        let json = json!({
            "format": 1,
            "task": "similarity",
            "before": values(|row| row.1),
            "after": values(|row| row.2),
            "steps": STEPS,
            "rank": RANK,
            "seconds": seconds,
            "data": self.data.as_ref().map(|path| path.display().to_string()),
            "report": self.report.as_ref().map(|path| path.display().to_string()),
        });
        let mut text = format!(
            "Search among {} handwritten digits, learned from {} others:\n\n{:<16} {:>9} {:>9}\n",
            test.len(),
            train.len(),
            "",
            "before",
            "after"
        );
        for (name, before, after) in rows {
            text += &format!("{name:<16} {before:>9.3} {after:>9.3}\n");
        }
        text += &format!(
            "\nbefore: cosine; after: {} of rank {RANK}, {STEPS} triplets, {seconds:.1} s\n",
            model.card.learner
        );
        if let Some(path) = &self.data {
            text += &format!("all digits: {}\n", path.display());
        }
        text += &match &self.report {
            Some(path) => format!("report: {}", path.display()),
            None => "for pictures: rankfold demo --report report.html".to_owned(),
        };
        if [&self.data, &self.report]
            .map(Option::as_deref)
            .contains(&Some(Path::new("-")))
        {
            output.result_beside_data(&json, &text);
            return Ok(());
        }
        output.result(&json, &text)
    }
}

fn numbers(found: &Retrieval) -> Metrics {
    Metrics {
        map: found.map,
        precision_at_1: found.precision_at_1,
        precision_at_10: found.precision_at_10,
    }
}

/// The prepared rows without gaps: standardized rows have no zeros anyway.
fn dense(rows: &rankfold::Rows<f32>) -> Vec<f32> {
    let mut out = vec![0.0; rows.len() * rows.columns()];
    for (row, place) in rows.iter().zip(out.chunks_exact_mut(rows.columns())) {
        row.iter().for_each(|(j, v)| place[j as usize] = v);
    }
    out
}

fn examples(test: &[Digit], plain: &Searches, found: &Searches) -> Vec<Example> {
    let digits = |nearest: &[usize]| nearest.iter().map(|&i| test[i]).collect();
    [0, 2, 4, 6, 8, 9]
        .into_iter()
        .filter_map(|label| test.iter().position(|digit| digit.label == label))
        .map(|query| Example {
            query: test[query],
            before: digits(&plain.nearest(query, 8)),
            after: digits(&found.nearest(query, 8)),
        })
        .collect()
}

fn places(test: &[Digit], points: &[f64], dimension: usize) -> Result<Vec<MapPoint>> {
    let plane = principal_coordinates(points, dimension, 2)
        .ok_or_else(|| Error::failure("the map of the digits has no principal directions"))?;
    let place = |(digit, p): (&Digit, &[f64])| MapPoint {
        x: p[0],
        y: p[1],
        label: digit.label,
    };
    Ok(test.iter().zip(plane.chunks_exact(2)).map(place).collect())
}

fn by_digit(test: &[Digit], plain: &Searches, found: &Searches) -> Vec<DigitPrecision> {
    let precision = |searches: &Searches, label: u8| {
        let queries: Vec<usize> = (0..test.len())
            .filter(|&i| test[i].label == label)
            .collect();
        let hits = |&query: &usize| {
            let nearest = searches.nearest(query, 10);
            nearest.iter().filter(|&&i| test[i].label == label).count()
        };
        queries.iter().map(hits).sum::<usize>() as f64 / (10 * queries.len()) as f64
    };
    (0..10)
        .map(|label| DigitPrecision {
            label,
            before: precision(plain, label),
            after: precision(found, label),
        })
        .collect()
}
