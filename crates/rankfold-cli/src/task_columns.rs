//! The columns of tables of tasks.

use clap::Args;
use rankfold::data::TaskColumns;
use rankfold::model::MultitaskCard;

use crate::output::Output;

#[derive(Args)]
pub struct ColumnsOfTasks {
    /// The column with the task of each row [default: as the model says, or `task`]
    #[arg(long, value_name = "NAME")]
    task_column: Option<String>,

    /// The column with the number to learn [default: as the model says, or `target`]
    #[arg(long, value_name = "NAME")]
    target_column: Option<String>,

    /// A column that is not a feature; may be given several times
    #[arg(long, value_name = "NAME")]
    ignore_column: Vec<String>,
}

impl ColumnsOfTasks {
    /// The columns for a model; those of its training where nothing else is said.
    pub fn or(&self, card: Option<&MultitaskCard>, output: &Output) -> TaskColumns {
        let known = card.map_or_else(TaskColumns::default, MultitaskCard::columns);
        let asked = |own: &Option<String>, known: String| own.clone().unwrap_or(known);
        TaskColumns {
            task: asked(&self.task_column, known.task),
            target: asked(&self.target_column, known.target),
            lenient: known.lenient && self.ignore_column.is_empty(),
            ignored: match self.ignore_column.is_empty() {
                true => known.ignored,
                false => self.ignore_column.clone(),
            },
            reading: output.reading.clone(),
        }
    }
}

/// Says which features of a model a table does not have.
pub fn note_absent<'a>(output: &Output, absent: impl Iterator<Item = &'a str>) {
    let all: Vec<&str> = absent.collect();
    if let Some(first) = all.first() {
        let message = match all.len() {
            1 => format!("there is no column `{first}`"),
            n => format!("there are no columns for {n} features, such as `{first}`"),
        };
        output.note(&format!("{message}: the mean of training is taken"));
    }
}
