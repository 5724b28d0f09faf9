//! `rankfold plot`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use minijinja::{Environment, context};
use rankfold::data::{Lines, write_atomically};
use rankfold::{Error, Result};
use serde_json::{Map, Value, json};

use crate::chart::scale::{Scale, Ticks, bounds};
use crate::chart::words::{place, tick};
use crate::chart::{COLORS, DASHES, path as line_path, spread};
use crate::output::Output;
use crate::paths;

/// Draw learning curves
///
/// Reads curves that `--curve` wrote and draws a panel for each number in them, over steps or
/// seconds. Several curves share the panels, a color each.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold plot curve.jsonl -o curve.svg
      a panel for each number of the curve
  rankfold plot rank-5.jsonl rank-20.jsonl -o ranks.svg --metric map --x seconds
      one panel, two lines
  rankfold plot run.jsonl -o loss.svg --metric loss --log
      a logarithmic axis, for a cost that falls by orders of magnitude")]
pub struct Plot {
    /// Curves of `--curve`, JSON lines; plain, .gz or .zst; `-` is stdin
    #[arg(required = true, value_name = "CURVE")]
    curves: Vec<PathBuf>,

    /// The picture to write, .svg; `-` is stdout
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// A number to draw, may be given again [default: all that a curve has but its counters]
    #[arg(long, value_name = "NAME")]
    metric: Vec<String>,

    /// What the lines go over
    #[arg(long, value_enum, default_value_t = Over::Steps)]
    x: Over,

    /// Draw values on a logarithmic axis; they must be above 0
    #[arg(long)]
    log: bool,

    /// The title [default: the names of the curves]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Over {
    /// Steps, iterations or slots
    Steps,
    /// Seconds of learning
    Seconds,
}

impl Over {
    fn key(self) -> &'static str {
        match self {
            Over::Steps => "steps",
            Over::Seconds => "seconds",
        }
    }
}

/// What a curve counts, and does not measure.
const COUNTERS: [&str; 4] = ["steps", "seconds", "updates", "refused"];

/// More lines than this cannot be told apart.
const MOST: usize = COLORS.len() * DASHES.len();

const WIDTH: f64 = 760.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 670.0;
const PANEL: f64 = 150.0;
const BETWEEN: f64 = 64.0;
const LEGEND_LINE: f64 = 20.0;

/// A curve: points in the order of the file.
struct Run {
    name: String,
    points: Vec<Map<String, Value>>,
}

impl Run {
    fn read(path: &Path) -> Result<Self> {
        let mut lines = Lines::open(path)?;
        let mut points = Vec::new();
        while let Some(line) = lines.next_line()? {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let point = serde_json::from_slice::<Map<String, Value>>(line);
            match point {
                Ok(point) if point.get("steps").is_some_and(Value::is_number) => points.push(point),
                _ => {
                    let expected =
                        "expected a point of --curve, such as {\"steps\":100,\"map\":0.5}";
                    return Err(lines.error(expected));
                }
            }
        }
        if points.is_empty() {
            return Err(Error::input("the curve has no points").in_file(path));
        }
        let name = path.file_name().unwrap_or(path.as_os_str());
        let name = name.to_string_lossy();
        let name = name.strip_suffix(".jsonl").unwrap_or(&name).to_owned();
        Ok(Run { name, points })
    }

    /// The values of a name where they are numbers, over steps or seconds.
    fn line(&self, over: Over, name: &str) -> Vec<(f64, f64)> {
        let number = |point: &Map<String, Value>, key: &str| {
            point.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN)
        };
        let points = self.points.iter();
        points
            .map(|p| (number(p, over.key()), number(p, name)))
            .collect()
    }
}

impl Plot {
    pub fn run(self, output: &Output) -> Result<()> {
        let inputs: Vec<Option<&Path>> = self.curves.iter().map(|c| Some(c.as_path())).collect();
        paths::check(&[Some(&self.output)], &inputs)?;
        let to_stdout = self.output == Path::new("-");
        let svg = self.output.extension().is_some_and(|e| e == "svg");
        if !svg && !to_stdout {
            return Err(Error::option("output", "must end in `.svg`").in_file(&self.output));
        }
        if self.curves.len() > MOST {
            let message = format!(
                "{} curves cannot be told apart: at most {MOST}",
                self.curves.len()
            );
            return Err(Error::input(message));
        }
        let runs = self.curves.iter().map(|path| Run::read(path));
        let runs: Vec<Run> = runs.collect::<Result<_>>()?;
        let names = self.names(&runs, output)?;
        let picture = self.draw(&runs, &names)?;
        if to_stdout {
            return output.raw(picture.as_bytes());
        }
        write_atomically(&self.output, |out| {
            std::io::Write::write_all(out, picture.as_bytes())
        })?;
        let points: usize = runs.iter().map(|run| run.points.len()).sum();
        let json = json!({
            "format": 1, "picture": self.output.to_string_lossy(), "curves": runs.len(),
            "points": points, "metrics": names,
        });
        output.result(&json, &self.output.to_string_lossy())
    }

    /// What is drawn: what was asked for, or all numbers that are measured.
    fn names(&self, runs: &[Run], output: &Output) -> Result<Vec<String>> {
        let points = || runs.iter().flat_map(|run| &run.points);
        let keys: BTreeSet<&String> = points().flat_map(|point| point.keys()).collect();
        let number = |key: &str| points().any(|p| p.get(key).is_some_and(Value::is_number));
        let measured: Vec<String> = keys
            .iter()
            .filter(|key| number(key) && !COUNTERS.contains(&key.as_str()))
            .map(|key| (*key).clone())
            .collect();
        let known = || measured.join("`, `");
        if let Some(name) = self.metric.iter().find(|name| !number(name)) {
            let message = format!("no curve has a number `{name}`; there are `{}`", known());
            return Err(Error::option("metric", message));
        }
        let others = keys.iter().filter(|key| {
            let there = points().any(|p| p.get(key.as_str()).is_some_and(|v| !v.is_null()));
            there && !number(key)
        });
        for key in others.filter(|_| self.metric.is_empty()) {
            output.note(&format!("`{key}` is not a number, and is not drawn"));
        }
        match self.metric.is_empty() {
            false => Ok(self.metric.clone()),
            true if measured.is_empty() => Err(Error::input("the curve measures nothing")),
            true => Ok(measured),
        }
    }

    fn draw(&self, runs: &[Run], names: &[String]) -> Result<String> {
        let over = self.x;
        let places = runs.iter().flat_map(|run| run.line(over, "steps"));
        let Some((_, last)) = bounds(places.map(|point| point.0)) else {
            let message = format!("no curve has `{}`", over.key());
            return Err(Error::option("x", message));
        };
        let end = if last > 0.0 { last } else { 1.0 };
        let x = Scale::new((0.0, end), (LEFT, RIGHT));
        let x_ticks = Ticks::around(0.0, end, 6);
        let legend_lines = if runs.len() > 1 { runs.len() } else { 0 };
        let first = 44.0 + LEGEND_LINE * legend_lines as f64;
        let mut panels = Vec::new();
        for (i, name) in names.iter().enumerate() {
            let top = first + 20.0 + i as f64 * (PANEL + BETWEEN);
            panels.push(self.panel(runs, name, top, &x)?);
        }
        let legend = runs.iter().enumerate().take(legend_lines).map(|(i, run)| {
            context! {
                x => LEFT, y => 46.0 + LEGEND_LINE * i as f64,
                color => COLORS[i % COLORS.len()], dashes => DASHES[i / COLORS.len()], name => run.name.as_str(),
            }
        });
        let title = self.title.clone().unwrap_or_else(|| {
            let all: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
            match all.len() {
                1 => all[0].to_owned(),
                n => format!("{n} curves"),
            }
        });
        let within = x_ticks.values.iter().filter(|v| **v <= end);
        let x_ticks = within.map(|v| {
            context! { at => place(x.at(*v)), text => tick(*v, x_ticks.decimals) }
        });
        let view = context! {
            title, width => WIDTH, left => LEFT, right => RIGHT, panels,
            height => first + 20.0 + names.len() as f64 * (PANEL + BETWEEN),
            legend => legend.collect::<Vec<_>>(), x_ticks => x_ticks.collect::<Vec<_>>(),
            x_name => over.key(),
        };
        let mut templates = Environment::new();
        // Names that end in .html are escaped, which SVG needs in the same way.
        let made = templates.add_template("plot.svg.html", include_str!("plot.svg.html"));
        let made = made.and_then(|()| templates.get_template("plot.svg.html")?.render(view));
        made.map_err(|e| Error::failure(e.to_string()))
    }

    /// One number of all curves.
    fn panel(&self, runs: &[Run], name: &str, top: f64, x: &Scale) -> Result<minijinja::Value> {
        let shown = |value: f64| if self.log { value.log10() } else { value };
        let lines: Vec<Vec<(f64, f64)>> = runs.iter().map(|run| run.line(self.x, name)).collect();
        let values = || lines.iter().flatten().map(|point| point.1);
        if self.log && values().any(|v| v <= 0.0) {
            let message = format!("`{name}` has values of 0 or below");
            return Err(Error::option("log", message));
        }
        let (low, high) = bounds(values().map(shown)).unwrap_or((0.0, 1.0));
        let ticks = Ticks::around(low, high, 4);
        let bottom = top + PANEL;
        let y = Scale::new(ticks.ends(), (bottom, top));
        let labels = ticks.values.iter().map(|v| {
            let text = match self.log {
                true => format!("1e{}", tick(*v, ticks.decimals)),
                false => tick(*v, ticks.decimals),
            };
            context! { at => place(y.at(*v)), text }
        });
        let last =
            |line: &[(f64, f64)]| line.iter().rev().find(|point| point.1.is_finite()).copied();
        let ends = lines
            .iter()
            .map(|line| last(line).map_or(f64::NAN, |p| y.at(shown(p.1))));
        let beside = spread(&ends.collect::<Vec<_>>());
        let drawn = lines.iter().enumerate().map(|(i, line)| {
            let end = last(line);
            context! {
                color => COLORS[i % COLORS.len()], dashes => DASHES[i / COLORS.len()],
                path => line_path(line.iter().map(|p| (x.at(p.0), y.at(shown(p.1))))),
                end => end.map(|p| context! {
                    x => place(x.at(p.0)), y => place(y.at(shown(p.1))),
                    text_x => place(x.at(p.0) + 8.0), text_y => place(beside[i] + 4.0),
                    text => crate::output::shown(p.1),
                }),
            }
        });
        Ok(context! {
            name, top, bottom, y_ticks => labels.collect::<Vec<_>>(),
            lines => drawn.collect::<Vec<_>>(),
        })
    }
}
