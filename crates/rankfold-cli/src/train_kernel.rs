//! `rankfold train kernel`.

use std::path::{Path, PathBuf};

use clap::Args;
use rankfold::data::{
    Constraint, SquareMatrix, VectorFormat, read_constraints, read_dissimilarities, read_labels,
    write_vectors,
};
use rankfold::options::Options;
use rankfold::task::{KernelConstraints, KernelData, KernelStart, Map, MapData};
use rankfold::{Error, Ids, Kernel, Model, Real, Result};

use crate::drive::Drive;
use crate::given::FIELDS;
use crate::output::Output;
use crate::paths;
use crate::rows::{Fields, read_rows};
use crate::shared_options::{Precision, RunFiles};
use crate::table::Table;

/// Learn a kernel of items, or a map of them
///
/// Learns a low-rank matrix K of items by items, so that distances √(K_ii + K_jj − 2 K_ij)
/// keep to what is known of them: items of one class come nearer, items of two classes move
/// apart. It starts from a kernel of the rows of DATA, from a kernel matrix (--matrix), or from
/// nothing but the names in --pairs. What is known is drawn from labels (--constraints) or
/// read with --pairs.
///
/// With --mds it makes a map instead: points whose distances are as near as can be to the
/// dissimilarities of a file.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold train kernel digits.csv -o kernel.safetensors --rank 16 --standardize global --constraints 500
      500 random pairs of rows, by their labels
  rankfold train kernel digits.csv -o k.safetensors --kernel gaussian --gamma 0.004 --pairs known.txt
      lines `a b same`, `a c different`, `a d <= 2.5`, `b d >= 4` of row ids
  rankfold train kernel -o k.safetensors --matrix kernel.npy --labels labels.txt --constraints 1000
      a kernel matrix that is given
  rankfold train kernel -o k.safetensors --pairs known.txt --learner flat --rank 10
      items of which nothing is known but pairs
  rankfold train kernel --mds distances.txt -o map.safetensors --coordinates map.csv
      a map in the plane of lines `left right distance`, or of a square matrix (.csv, .npy)")]
pub struct TrainKernel {
    /// Rows, an item each: .svm, .csv, .tsv, .jsonl, .mtx, .npy (plain, .gz or .zst), .parquet, .arrow or .npz;
    /// `-` is svmlight from stdin
    #[arg(conflicts_with_all = ["matrix", "mds"])]
    data: Option<PathBuf>,

    /// The model file to write
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,

    /// A kernel matrix to start from: .npy, or .csv with the items as columns and in `id`
    #[arg(long, value_name = "FILE", conflicts_with = "mds")]
    matrix: Option<PathBuf>,

    /// Dissimilarities to make a map of: lines `left right value`, JSON lines, or a square
    /// symmetric matrix (.csv, .npy) in which an empty cell is not known; `-` is stdin. --rank is
    /// the number of dimensions [default: 2]
    #[arg(long, value_name = "FILE")]
    mds: Option<PathBuf>,

    /// Write the coordinates of the map here: .csv, .npy, .txt or .vec
    #[arg(long, value_name = "OUT", requires = "mds")]
    coordinates: Option<PathBuf>,

    /// The labels of the items, one a line or in an .npy array, instead of those in DATA
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,

    /// What is known of distances, instead of labels: lines `left right same`, `left right different`,
    /// `left right <= v`, `left right >= v` or `left right v` of item ids; `-` is stdin
    #[arg(long, value_name = "FILE", conflicts_with = "constraints")]
    pairs: Option<PathBuf>,

    #[command(flatten)]
    fields: Fields,

    /// How tall factors are stored [default: f64]
    #[arg(long, value_enum)]
    precision: Option<Precision>,

    #[command(flatten)]
    files: RunFiles,

    #[command(flatten)]
    options: Table<Kernel>,
}

/// Options of maps.
const OF_MAPS: [&str; 13] = [
    "output",
    "mds",
    "coordinates",
    "rank",
    "init",
    "seed",
    "threads",
    "curve",
    "curve_every",
    "report",
    "checkpoint",
    "checkpoint_every",
    "resume",
];

impl TrainKernel {
    pub fn run(self, output: &Output) -> Result<()> {
        if self.files.valid.is_some() {
            let message = "does not apply to kernels, which know their own items only";
            return Err(Error::option("valid", message));
        }
        let inputs = [
            self.data.as_deref(),
            self.matrix.as_deref(),
            self.mds.as_deref(),
            self.pairs.as_deref(),
            self.labels.as_deref(),
            self.options.start_file(),
        ];
        self.files.check(&self.output, &inputs)?;
        if let Some(mds) = &self.mds {
            output.given.only_for("maps", &OF_MAPS)?;
            return self.map(mds, output);
        }
        if self.data.is_none() {
            let without = [
                &FIELDS[..],
                &["kernel", "gamma", "weight", "normalize", "standardize"],
            ];
            output
                .given
                .none_of("rows: DATA is needed", &without.concat())?;
        }
        match self.precision {
            Some(Precision::F32) => self.train::<f32>(output),
            _ => self.train::<f64>(output),
        }
    }

    fn drive<'a>(&'a self, output: &'a Output) -> Drive<'a> {
        Drive::new(output, &self.output, &self.files, Kernel::TASK)
            .starting(self.options.1.as_ref())
    }

    fn train<R: Real>(&self, output: &Output) -> Result<()> {
        let (drive, options) = (self.drive(output), &self.options.0);
        options.check()?;
        let no_truth = || {
            Error::input(
                "nothing is known of distances: give labels with DATA or --labels, or --pairs FILE",
            )
        };
        let known =
            |items: &mut dyn FnMut(&str) -> Result<u32>| -> Result<Option<Vec<Constraint>>> {
                let pairs = self.pairs.as_ref();
                pairs.map(|path| read_constraints(path, items)).transpose()
            };
        let labels = |items: &Ids| {
            let read = |path| read_labels(path, items.len());
            self.labels.as_ref().map(read).transpose()
        };
        match (&self.data, &self.matrix) {
            (Some(data), _) => {
                let rows =
                    read_rows::<R>(&self.fields.of(data, output), None, self.labels.as_ref())?;
                let lookup = rows.lookup().of_items();
                let known = known(&mut |name| lookup.find(name).map(|row| row as u32))?;
                let start = KernelStart::Rows(&rows);
                let truth = match &known {
                    Some(known) => KernelConstraints::Given(known),
                    None => KernelConstraints::Labels(&rows.labels),
                };
                let data_of = KernelData { start, truth };
                drive.run(|run| options.fit_with(data_of, run), |e| e.in_file(data))
            }
            (None, Some(path)) => {
                let matrix = SquareMatrix::read(path)?;
                let found = |name: &str| {
                    let found = matrix.items.find(name);
                    found.ok_or_else(|| Error::input(format!("no item is called `{name}`")))
                };
                let known = known(&mut |name| found(name))?;
                let labels = labels(&matrix.items)?;
                let truth = match (&known, &labels) {
                    (Some(known), _) => KernelConstraints::Given(known),
                    (None, Some(labels)) => KernelConstraints::Labels(labels),
                    (None, None) => return Err(no_truth()),
                };
                let start: KernelStart<'_, R> = KernelStart::Matrix(&matrix);
                let data = KernelData { start, truth };
                drive.run(|run| options.fit_with(data, run), |e| e.in_file(path))
            }
            (None, None) => {
                let mut items = Ids::new();
                let Some(known) = known(&mut |name| Ok(items.intern(name)))? else {
                    return Err(no_truth());
                };
                let start: KernelStart<'_, R> = KernelStart::Identity(&items);
                let truth = KernelConstraints::Given(&known);
                let data = KernelData { start, truth };
                drive.run(|run| options.fit_with(data, run), |e| e)
            }
        }
    }

    fn map(&self, mds: &Path, output: &Output) -> Result<()> {
        let drive = self.drive(output);
        if let Some(path) = &self.coordinates {
            VectorFormat::of(path)?;
            paths::check(&[Some(path), Some(&self.output)], &[Some(mds)])?;
        }
        let given = &self.options.0;
        let mut map = Map::default();
        for name in ["seed", "threads", "curve_every"] {
            if let Some(value) = given.get(name) {
                map.set(name, &value)?;
            }
        }
        if let Some(init) = given.get("init") {
            map.set("init", &init)?;
        }
        if output.given.has("rank")
            && let Some(rank) = given.get("rank")
        {
            map.set("dimensions", &rank)?;
        }
        let mut items = Ids::new();
        let known = read_dissimilarities(mds, &mut items)?;
        let data = MapData {
            items: &items,
            known: &known,
        };
        drive.run(
            |run| {
                let fit = map.fit_with(data, run)?;
                if let Some(path) = &self.coordinates {
                    write_map(&fit.model, path)?;
                }
                Ok(fit)
            },
            |mut e| {
                // The command line calls the dimensions of a map its rank.
                if e.option.as_deref() == Some("dimensions") {
                    e.option = Some("rank".into());
                }
                e.in_file(mds)
            },
        )
    }
}

/// Writes the coordinates of the items.
fn write_map(model: &Model, path: &Path) -> Result<()> {
    let (ids, _) = model.item_rows::<f64>()?;
    let points = model.item_coordinates::<f64>()?;
    write_vectors(path, &ids, &points.values, points.rank)
}
