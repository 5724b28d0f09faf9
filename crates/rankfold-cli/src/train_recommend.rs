//! `rankfold train recommend`.

use std::borrow::Cow;
use std::path::PathBuf;

use clap::Args;
use rankfold::data::{Choices, read_labelled};
use rankfold::options::Options;
use rankfold::task::RecommendData;
use rankfold::{Recommend, Result};

use crate::drive::Drive;
use crate::output::Output;
use crate::page::maps;
use crate::rows::choice_columns;
use crate::shared_options::RunFiles;
use crate::table::Table;

/// Learn what to show to whom, from clicks, plays or purchases
///
/// Every line of DATA is one choice: a user and an item, with a weight and a time where there
/// are such columns. Repeated choices add up. Learns a matrix W of items by items and of low
/// rank: the score of an item for a user is the sum of what their choices say about it, so
/// that a new user needs no training.
///
/// A column `rating` is not looked at unless --liked-from says from which rating on an item
/// counts as chosen.
#[derive(Args)]
#[command(after_help = "Examples:
  rankfold train recommend clicks.csv -o model.safetensors
      columns user and item, and weight and time where they are
  rankfold train recommend ratings.csv -o model.safetensors --liked-from 4
      what was rated 4 or better counts as chosen
  rankfold train recommend plays.tsv -o model.safetensors --columns listener,song,plays
  rankfold train recommend table.csv -o model.safetensors --wide
      a row for each user, a column for each item, 1 where it was chosen
  rankfold train recommend clicks.csv -o model.safetensors --learner als --rank 32
  rankfold train recommend clicks.csv -o model.safetensors --item-rows films.csv
      features of items: new films can be shown before anybody chose them
  rankfold train recommend clicks.csv -o model.safetensors --user-rows people.csv
      features of users: new people get a list before they chose anything
  rankfold train recommend clicks.csv -o model.safetensors --half-life 20
      what a user chose twenty choices ago counts half")]
pub struct TrainRecommend {
    /// Choices: .csv, .tsv, .jsonl, or .dat with `::`, tabs or spaces (also .data, .base, .txt, .inter),
    /// plain, .gz or .zst, .parquet or .arrow, or a matrix in .npz or .mtx; `-` is .dat from stdin
    data: PathBuf,

    /// The model file to write
    #[arg(short, long, value_name = "MODEL")]
    output: PathBuf,

    /// The columns of users and items, and of weights and times: names, or numbers where there is no
    /// header [default: those that are called as people call them; the model keeps them]
    #[arg(long, value_name = "USER,ITEM[,WEIGHT[,TIME]]")]
    columns: Option<String>,

    /// DATA is a table with a row for each user and a column for each item; cells that are empty or 0
    /// are not chosen
    #[arg(long)]
    wide: bool,

    /// Lines with a rating of at least this are choices, others are left out
    #[arg(long, value_name = "RATING")]
    liked_from: Option<f64>,

    /// Features of items, in any format of rows, with their ids: what nobody chose yet can then be
    /// shown, and what few chose is known better
    #[arg(long, value_name = "FILE")]
    item_rows: Option<PathBuf>,

    /// Features of users, in any format of rows, with their ids: who chose nothing yet then gets a list of
    /// their own, and who chose little is known better
    #[arg(long, value_name = "FILE")]
    user_rows: Option<PathBuf>,

    /// Titles of items for --report: a table with the columns `item` and `title`
    #[arg(long, value_name = "FILE", requires = "report")]
    item_names: Option<PathBuf>,

    #[command(flatten)]
    files: RunFiles,

    #[command(flatten)]
    options: Table<Recommend>,
}

impl TrainRecommend {
    pub fn run(self, output: &Output) -> Result<()> {
        let drive = Drive::new(output, &self.output, &self.files, Recommend::TASK)
            .starting(self.options.1.as_ref());
        let options = &self.options.0;
        self.files.check(
            &self.output,
            &[
                Some(&self.data),
                self.item_rows.as_deref(),
                self.user_rows.as_deref(),
                self.item_names.as_deref(),
                self.options.start_file(),
            ],
        )?;
        options.check()?;
        let titles = maps::read_titles(self.item_names.as_ref())?;
        let columns = choice_columns(self.columns.as_deref(), self.wide, None, output)?;
        let choices = Choices::read(&self.data, &columns, self.liked_from)?;
        if choices.ignores_ratings {
            output.note(
                "the column `rating` is not looked at: every line is a choice; \
                 --liked-from says from which rating on",
            );
        }
        if choices.disliked > 0 {
            let disliked = choices.disliked;
            output.note(&format!(
                "{disliked} lines have a lower rating and were left out"
            ));
        }
        let rows = |path: &Option<PathBuf>| {
            let path = path.as_ref();
            path.map(read_labelled::<f32>).transpose()
        };
        let (item_rows, user_rows) = (rows(&self.item_rows)?, rows(&self.user_rows)?);
        let valid = self.files.valid.as_ref();
        let valid = valid.map(|path| Choices::read(path, &columns, self.liked_from));
        let valid = valid.transpose()?;
        let data = RecommendData {
            choices: Cow::Owned(choices),
            valid: valid.as_ref(),
            item_rows: item_rows.as_ref(),
            user_rows: user_rows.as_ref(),
            liked_from: self.liked_from,
        };
        drive.run_showing(
            |run| options.fit_with(data, run),
            |e| e.in_file(&self.data),
            |model| Ok(vec![maps::of_model(model, titles.as_ref())?]),
        )
    }
}
