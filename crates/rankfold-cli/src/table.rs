//! The options of a task as flags: made from the library's table, so that a flag, its
//! help and its check are written once.

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use rankfold::options::{Choice, Kind, OptionSpec, Options};

/// The option that is the first argument and not a flag.
const KIND: &str = "task";

/// The options of a task, as they were typed.
pub struct Table<T>(pub T);

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
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut table = Table(T::default());
        table.update_from_arg_matches(matches)?;
        Ok(table)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let refused = |text: String| clap::Error::raw(ErrorKind::ValueValidation, text + "\n");
        for spec in T::specs() {
            let text = match spec.kind {
                Kind::Flag => matches.get_flag(spec.name).then(|| "true".to_owned()),
                _ => matches.get_one::<String>(spec.name).cloned(),
            };
            let Some(text) = text else { continue };
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
