//! The flags that the user typed, held against those that apply.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use rankfold::model::Knowledge;
use rankfold::{Error, Model, Result};

use crate::reading::OPTIONS;

/// The arguments that the user typed: flags by the names of their options, others by
/// their ids.
#[derive(Default)]
pub struct Given(Vec<String>);

impl Given {
    /// The arguments of the innermost command. Those of all commands, such as
    /// `--json`, apply to any model, and so do those of all that read data.
    pub fn new(mut command: &Command, mut matches: &ArgMatches) -> Self {
        while let Some((name, inner)) = matches.subcommand() {
            let found = command.find_subcommand(name);
            command = found.expect("the command that was parsed");
            matches = inner;
        }
        let typed = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let own = command.get_arguments().filter(|arg| !arg.is_global_set());
        let own = own.filter(|arg| !OPTIONS.contains(&arg.get_id().as_str()));
        let own = own.filter(|arg| typed(arg.get_id().as_str()));
        let name = |arg: &clap::Arg| match arg.get_long() {
            Some(flag) => flag.replace('-', "_"),
            None => arg.get_id().to_string(),
        };
        Given(own.map(name).collect())
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
        self.0.iter().any(|typed| typed == name)
    }

    /// An error for an option that is not in this list.
    pub fn only_for(&self, what: &str, applies: &[&str]) -> Result<()> {
        match self.0.iter().find(|name| !applies.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(Error::option(name, format!("does not apply to {what}"))),
        }
    }

    /// An error for an option that is in this list.
    pub fn none_of(&self, what: &str, names: &[&str]) -> Result<()> {
        match self.0.iter().find(|name| names.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(Error::option(name, format!("applies only to {what}"))),
        }
    }
}

/// The options of files of rows.
pub const FIELDS: [&str; 7] = [
    "where",
    "text",
    "label",
    "id",
    "drop",
    "categories",
    "no_header",
];

/// Those of them that a verb takes whose DATA or `--rows` are rows of the model.
pub fn fields_of(model: &Model) -> &'static [&'static str] {
    match &model.knowledge {
        Knowledge::Similarity(_)
        | Knowledge::Pairs { .. }
        | Knowledge::Metric
        | Knowledge::Ranking(_) => &FIELDS,
        Knowledge::Completion(_)
        | Knowledge::Recommend(_)
        | Knowledge::Multitask(_)
        | Knowledge::Kernel(_)
        | Knowledge::Map(_) => &[],
    }
}

/// What models of a task are called.
pub fn models(knowledge: &Knowledge) -> &'static str {
    match knowledge {
        Knowledge::Similarity(_) => "similarity models",
        Knowledge::Metric => "metrics",
        Knowledge::Ranking(_) => "models that rank labels",
        Knowledge::Pairs { .. } => "models of pairs",
        Knowledge::Completion(_) => "rating models",
        Knowledge::Recommend(_) => "models of recommendations",
        Knowledge::Kernel(_) => "kernels",
        Knowledge::Map(_) => "maps",
        Knowledge::Multitask(_) => "multitask models",
    }
}
