//! `rankfold convert`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rankfold::data::{Lines, write_atomically, write_vectors};
use rankfold::model::exchange::{self, PlainFactors};
use rankfold::{Error, Ids, Model, Result};
use serde_json::json;

use crate::output::Output;
use crate::{paths, threads};

/// Read or write factors of other programs
///
/// From a model to factors, or from factors to a model: scores stay the same. LIBMF's text models
/// (.libmf) and archives of implicit (.npz) have users and items; .npy, .vec and .txt have one
/// side a file, users first. One file of word vectors becomes a model of similarity. A mean and
/// biases of ratings become two more columns.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold convert ratings.libmf -o model.safetensors
  rankfold convert als.npz --user-ids users.txt --item-ids items.txt -o model.safetensors
  rankfold convert vectors.vec -o words.safetensors
  rankfold convert model.safetensors -o users.npy items.npy")]
pub struct Convert {
    /// A model, or one or two files of factors
    #[arg(required = true, num_args = 1..=2, value_name = "FILE")]
    inputs: Vec<PathBuf>,

    /// The model to write, or one or two files of factors
    #[arg(short, long, required = true, num_args = 1..=2, value_name = "FILE")]
    output: Vec<PathBuf>,

    /// What the factors are, where the name does not say it
    #[arg(long, value_name = "FORMAT")]
    format: Option<FactorFormat>,

    /// Ids of users, one a line: read with factors that have none, written with such
    #[arg(long, value_name = "FILE")]
    user_ids: Option<PathBuf>,

    /// The same for items
    #[arg(long, value_name = "FILE")]
    item_ids: Option<PathBuf>,

    /// How a model stores its factors
    #[arg(long, value_name = "P", default_value = "f32", value_parser = ["f32", "f64"])]
    precision: String,
}

/// The formats of other programs.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum FactorFormat {
    /// LIBMF's text model
    Libmf,
    /// implicit's archive with `user_factors` and `item_factors`
    Implicit,
    /// Vectors as text, with their names
    Word2vec,
    /// Rows without names
    Npy,
}

impl FactorFormat {
    /// By the name of a file; nothing for a model.
    fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().to_lowercase();
        let plain = name.trim_end_matches(".gz").trim_end_matches(".zst");
        let ends = |end: &str| plain.ends_with(end);
        match () {
            () if ends(".libmf") => Some(FactorFormat::Libmf),
            () if ends(".npz") => Some(FactorFormat::Implicit),
            () if ends(".npy") => Some(FactorFormat::Npy),
            () if ends(".vec") || ends(".txt") => Some(FactorFormat::Word2vec),
            () => None,
        }
    }
}

impl Convert {
    pub fn run(self, output: &Output) -> Result<()> {
        let named = [&self.user_ids, &self.item_ids].map(Option::as_deref);
        let found = |files: &[PathBuf]| files.iter().find_map(|file| FactorFormat::of(file));
        let (from, to) = (found(&self.inputs), found(&self.output));
        match (from.is_some(), to.is_some()) {
            (true, true) => Err(Error::input(
                "expected a model on one side: convert to a model first, then to the other format",
            )),
            (true, false) => self.read(from, named, output),
            (false, true) => self.write(to, named, output),
            // One of the two has a name that says nothing: a model tells by its content.
            (false, false) => match (self.format, Model::load(&self.inputs[0]).is_ok()) {
                (Some(_), true) => self.write(self.format, named, output),
                (Some(_), false) => self.read(self.format, named, output),
                (None, _) => Err(Error::option(
                    "format",
                    "is needed where no file ends with .libmf, .npz, .npy, .vec or .txt",
                )),
            },
        }
    }

    fn read(
        &self,
        format: Option<FactorFormat>,
        ids: [Option<&Path>; 2],
        output: &Output,
    ) -> Result<()> {
        let [target] = &self.output[..] else {
            return Err(Error::option("output", "is one model file: found two"));
        };
        let inputs: Vec<&Path> = self.inputs.iter().map(PathBuf::as_path).collect();
        let all: Vec<Option<&Path>> = inputs.iter().copied().map(Some).chain(ids).collect();
        paths::check(&[Some(target)], &all)?;
        let mut factors = match (self.format.or(format), &inputs[..]) {
            (Some(FactorFormat::Libmf), [file]) => exchange::read_libmf(file)?,
            (Some(FactorFormat::Implicit), [file]) => exchange::read_implicit(file)?,
            (Some(FactorFormat::Npy), [users, items]) => exchange::read_npy_pair(users, items)?,
            (Some(FactorFormat::Npy), _) => {
                return Err(Error::input("expected two .npy files, users and items"));
            }
            (Some(FactorFormat::Word2vec), files) => {
                let (mut names, mut values, mut ranks) = (Vec::new(), Vec::new(), Vec::new());
                for file in files {
                    let (ids, rows, k) = exchange::read_word2vec(file)?;
                    names.push(ids);
                    values.push(rows);
                    ranks.push(k);
                }
                if ranks.iter().any(|k| *k != ranks[0]) {
                    let message = format!("vectors of {ranks:?} columns: expected the same");
                    return Err(Error::input(message).in_file(files[0]));
                }
                PlainFactors {
                    ids: names,
                    values,
                    rank: ranks[0],
                    mean: 0.0,
                    notes: Vec::new(),
                }
            }
            _ => return Err(Error::input("expected one file of factors, found two")),
        };
        for (side, file) in ids.iter().enumerate() {
            if let Some(file) = file {
                factors = factors
                    .named(side, read_ids(file)?)
                    .map_err(|e| e.in_file(file))?;
            }
        }
        let model = match &self.precision[..] {
            "f64" => factors.into_model::<f64>(),
            _ => factors.into_model::<f32>(),
        };
        let model = model.map_err(|e| e.in_file(inputs[0]))?;
        model.save(target)?;
        self.told(&model, &[], output)
    }

    fn write(
        &self,
        format: Option<FactorFormat>,
        ids: [Option<&Path>; 2],
        output: &Output,
    ) -> Result<()> {
        let [source] = &self.inputs[..] else {
            return Err(Error::input(
                "expected one model to convert, found two files",
            ));
        };
        let targets: Vec<Option<&Path>> = self.output.iter().map(|p| Some(p.as_path())).collect();
        let outputs: Vec<Option<&Path>> = targets.iter().copied().chain(ids).collect();
        paths::check(&outputs, &[Some(source)])?;
        let model = Model::load(source)?;
        let factors = model
            .plain_factors(threads(None))
            .map_err(|e| e.in_file(source))?;
        let format = self.format.or(format);
        let whole = matches!(format, Some(FactorFormat::Libmf | FactorFormat::Implicit));
        let wanted = if whole { 1 } else { factors.ids.len() };
        if self.output.len() != wanted {
            let message =
                format!("needs {wanted} files for this model and format, users or rows first");
            return Err(Error::option("output", message));
        }
        match format {
            Some(FactorFormat::Libmf) => exchange::write_libmf(&self.output[0], &factors)?,
            Some(FactorFormat::Implicit) => exchange::write_implicit(&self.output[0], &factors)?,
            _ => {
                for (side, file) in self.output.iter().enumerate() {
                    let (names, rows) = (factors.row_ids(side), &factors.values[side]);
                    match model.precision() {
                        "f32" => {
                            let rows: Vec<f32> = rows.iter().map(|v| *v as f32).collect();
                            write_vectors(file, &names, &rows, factors.rank)?;
                        }
                        _ => write_vectors(file, &names, rows, factors.rank)?,
                    }
                }
            }
        }
        let mut notes = factors.notes.clone();
        for (side, file) in ids.iter().enumerate() {
            match (file, factors.ids.get(side)) {
                (Some(file), Some(names)) => write_atomically(file, |out| {
                    names.iter().try_for_each(|name| writeln!(out, "{name}"))
                })?,
                (None, Some(names)) => {
                    let nameless = format != Some(FactorFormat::Word2vec);
                    let plain = (0..)
                        .zip(names.iter())
                        .all(|(i, name)| name == i.to_string());
                    if nameless && !plain {
                        let what = ["user", "item"][side];
                        notes.push(format!(
                            "ids of {what}s are not in the file: `--{what}-ids` keeps them"
                        ));
                    }
                }
                (Some(_), None) => {
                    return Err(Error::option(
                        "item_ids",
                        "does not apply to a model of one side",
                    ));
                }
                (None, None) => {}
            }
        }
        self.told(&model, &notes, output)
    }

    fn told(&self, model: &Model, notes: &[String], output: &Output) -> Result<()> {
        for note in notes {
            output.note(note);
        }
        let (rows, columns) = model.storage().shape;
        let files: Vec<_> = self.output.iter().map(|p| p.to_string_lossy()).collect();
        let json = json!({
            "format": 1, "task": model.task(), "rank": model.rank(), "rows": rows,
            "columns": columns, "notes": notes, "files": files,
        });
        let text = format!(
            "{} of {rows} by {columns}, rank {}\n{}",
            model.task(),
            model.rank(),
            files.join("\n")
        );
        output.result(&json, &text)
    }
}

/// Ids, one a line; all must differ.
fn read_ids(path: &Path) -> Result<Ids> {
    let mut lines = Lines::open(path)?;
    let mut out = Ids::new();
    while let Some(line) = lines.next_line()? {
        let text = String::from_utf8(line.to_vec()).map_err(|_| lines.error("expected UTF-8"))?;
        let count = out.len();
        if out.intern(&text) as usize != count {
            return Err(lines.error(format!("the id `{text}` stands twice")));
        }
    }
    Ok(out)
}
