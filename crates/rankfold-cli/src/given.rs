//! The flags that the user typed, held against those that apply.

use clap::ArgMatches;
use clap::parser::ValueSource;
use rankfold::model::Knowledge;
use rankfold::{Error, Model, Result};

/// The flags that the user typed, by the names of their options.
#[derive(Default)]
pub struct Given(Vec<String>);

impl Given {
    /// The flags of the innermost command.
    pub fn new(mut matches: &ArgMatches) -> Self {
        while let Some((_, inner)) = matches.subcommand() {
            matches = inner;
        }
        // Groups of options stand among the ids, by the names of their types; flags of all
        // commands apply always.
        let typed = |id: &&str| {
            let option = !id.starts_with(char::is_uppercase) && !["json", "quiet"].contains(id);
            option && matches.value_source(id) == Some(ValueSource::CommandLine)
        };
        let ids = matches.ids().map(|id| id.as_str()).filter(typed);
        Given(ids.map(str::to_owned).collect())
    }

    /// An error for a flag that does not apply to such a model. `applies` lists the
    /// options that do; `always` those that apply to any model.
    pub fn only(&self, model: &Model, always: &[&str], applies: &[&str]) -> Result<()> {
        self.only_for(models(&model.knowledge), &[always, applies].concat())
    }
}

impl Given {
    /// Whether an option was typed.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|id| id == name)
    }

    /// An error for an option that is not in this list.
    pub fn only_for(&self, what: &str, applies: &[&str]) -> Result<()> {
        match self.0.iter().find(|id| !applies.contains(&id.as_str())) {
            None => Ok(()),
            Some(id) => Err(Error::option(
                flag_name(id),
                format!("does not apply to {what}"),
            )),
        }
    }

    /// An error for an option that is in this list.
    pub fn none_of(&self, what: &str, names: &[&str]) -> Result<()> {
        match self.0.iter().find(|id| names.contains(&id.as_str())) {
            None => Ok(()),
            Some(id) => Err(Error::option(
                flag_name(id),
                format!("applies only to {what}"),
            )),
        }
    }
}

/// The name of an option by its id: two flags are not called so.
fn flag_name(id: &str) -> &str {
    match id {
        "condition" => "where",
        "wanted" => "uncertainty",
        _ => id,
    }
}

/// The options of files of rows.
pub const FIELDS: [&str; 4] = ["condition", "text", "label", "id"];

/// What models of a task are called.
pub fn models(knowledge: &Knowledge) -> &'static str {
    match knowledge {
        Knowledge::Similarity => "similarity models",
        Knowledge::Metric => "metrics",
        Knowledge::Ranking(_) => "models that rank labels",
        Knowledge::Pairs { .. } => "models of pairs",
        Knowledge::Completion(_) => "rating models",
        Knowledge::Kernel(_) => "kernels",
        Knowledge::Map(_) => "maps",
        Knowledge::Multitask(_) => "multitask models",
    }
}
