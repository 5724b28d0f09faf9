//! The options of a task as flags: made from the library's table, so that a flag, its
//! help and its check are written once.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use rankfold::options::{Choice, Kind, OptionSpec, Options};
use rankfold::task::Start;
use rankfold::{Error, Result};

/// The option that is the first argument and not a flag.
const KIND: &str = "task";

/// The option whose value may be a model file, and the value that stands for one.
const INIT: &str = "init";
const MODEL: &str = "model";

/// The options of a task, as they were typed, and the model file that `--init` names.
pub struct Table<T>(pub T, pub Option<StartFile>);

impl<T> Table<T> {
    /// The model file to start from.
    pub fn start_file(&self) -> Option<&Path> {
        self.1.as_ref().map(|start| start.path.as_path())
    }
}

/// A model file to start from.
pub struct StartFile {
    path: PathBuf,
    /// The rank, as it was typed.
    rank: Option<String>,
}

impl StartFile {
    /// Reads the model. A rank that was typed counts, also where it is the default.
    pub fn load(&self) -> Result<Start> {
        let whole = |text: &String| {
            let message = "must be a number with a start from a model, which has a rank of its own";
            text.parse().map_err(|_| Error::option("rank", message))
        };
        let rank = self.rank.as_ref().map(whole).transpose()?;
        Ok(Start::load(&self.path)?.rank(rank))
    }
}

/// Takes names, and model files beside them.
#[derive(Clone)]
struct NamesOrFile(PossibleValuesParser);

impl TypedValueParser for NamesOrFile {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> std::result::Result<String, clap::Error> {
        match value.to_str().filter(|text| Start::is_file(text)) {
            Some(file) => Ok(file.to_owned()),
            None => self.0.parse_ref(command, arg, value),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.0.possible_values()
    }
}

/// Whether an option may be a model file.
fn takes_file(spec: &OptionSpec) -> bool {
    let model = |choice: &Choice| choice.name == MODEL;
    spec.name == INIT && spec.choices().iter().any(model)
}

/// How an option is typed: words are joined by `-`.
pub fn flag(name: &str) -> String {
    match name.len() {
        1 => format!("-{name}"),
        _ => format!("--{}", name.replace('_', "-")),
    }
}

fn help(spec: &OptionSpec) -> String {
    let mut text = spec.text();
    if text.ends_with('.') {
        text.pop();
    }
    if takes_file(spec) {
        text += "; a value with `.` or `/` is a model file to start from";
    }
    if let Some(applies) = spec.applies_to {
        text += &format!("; applies to {applies}");
    }
    match (spec.default)() {
        Some(default) if spec.kind != Kind::Flag && !text.contains("[default") => {
            text += &format!(" [default: {default}]");
        }
        _ => {}
    }
    text
}

fn arg(spec: &'static OptionSpec) -> Arg {
    let long: &'static str = Box::leak(spec.name.replace('_', "-").into_boxed_str());
    let arg = Arg::new(spec.name).long(long).help(help(spec));
    let value = |name: &'static str| arg.clone().value_name(name).allow_hyphen_values(false);
    if spec.name == KIND {
        // The kind of learning is a word of its own: `gossip run completion`.
        return positional(spec);
    }
    match spec.kind {
        Kind::Flag => arg.action(ArgAction::SetTrue),
        Kind::Integer => value("N"),
        Kind::Number => value("X").allow_negative_numbers(true),
        Kind::Choice(_) if takes_file(spec) => {
            value("NAME|FILE").value_parser(NamesOrFile(values(spec)))
        }
        Kind::Choice(_) => value("NAME").value_parser(values(spec)),
        // Such as the range -1,1.
        _ => value("VALUE").allow_hyphen_values(true),
    }
}

fn values(spec: &OptionSpec) -> PossibleValuesParser {
    let value = |choice: Choice| PossibleValue::new(choice.name).help(choice.doc.trim());
    PossibleValuesParser::new(spec.choices().into_iter().map(value))
}

fn positional(spec: &'static OptionSpec) -> Arg {
    let mut help = spec.text();
    help.pop();
    let arg = Arg::new(spec.name).index(1).required(true);
    arg.value_name("TASK").help(help).value_parser(values(spec))
}

impl<T: Options> Args for Table<T> {
    fn augment_args(command: Command) -> Command {
        command.args(T::specs().iter().map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Options> FromArgMatches for Table<T> {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let mut table = Table(T::default(), None);
        table.update_from_arg_matches(matches)?;
        Ok(table)
    }

    fn update_from_arg_matches(
        &mut self,
        matches: &ArgMatches,
    ) -> std::result::Result<(), clap::Error> {
        let refused = |text: String| clap::Error::raw(ErrorKind::ValueValidation, text + "\n");
        for spec in T::specs() {
            let text = match spec.kind {
                Kind::Flag => matches.get_flag(spec.name).then(|| "true".to_owned()),
                _ => matches.get_one::<String>(spec.name).cloned(),
            };
            let Some(mut text) = text else { continue };
            if takes_file(spec) && Start::is_file(&text) {
                let path = std::mem::replace(&mut text, MODEL.to_owned()).into();
                let rank = T::specs().iter().any(|spec| spec.name == "rank");
                let rank = rank.then(|| matches.get_one::<String>("rank").cloned());
                let rank = rank.flatten();
                self.1 = Some(StartFile { path, rank });
            }
            self.0
                .set(spec.name, &text)
                .map_err(|error| refused(format!("{}: {}", flag(spec.name), error.message)))?;
        }
        // The library takes a value that equals the default for one that was not given.
        let typed = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
        for spec in T::specs().iter().filter(|spec| typed(spec.name)) {
            self.0
                .check_given(spec.name)
                .map_err(|error| refused(format!("{} {}", flag(spec.name), error.message)))?;
        }
        Ok(())
    }
}
