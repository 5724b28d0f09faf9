//! `--format` and `--on-bad-line`, which every command has that reads data.

use clap::{Arg, ArgMatches, Command, builder::PossibleValuesParser};
use rankfold::data::{OnBadLine, Reading};
use rankfold::{Error, Result};

/// The commands that read data, by their last word, and the one above it.
const READERS: [(&str, &str); 19] = [
    ("rankfold", "vectorize"),
    ("rankfold", "split"),
    ("rankfold", "update"),
    ("rankfold", "eval"),
    ("rankfold", "predict"),
    ("rankfold", "neighbors"),
    ("rankfold", "rank"),
    ("rankfold", "recommend"),
    ("rankfold", "transform"),
    ("rankfold", "serve"),
    ("train", "similarity"),
    ("train", "ranking"),
    ("train", "completion"),
    ("train", "recommend"),
    ("train", "pairs"),
    ("train", "metric"),
    ("train", "kernel"),
    ("train", "multitask"),
    ("gossip", "run"),
];

/// The names of the options.
pub const OPTIONS: [&str; 2] = ["format", "on_bad_line"];

/// Adds the options to all commands that read data.
pub fn add(command: Command) -> Command {
    let above = command.get_name().to_owned();
    let names: Vec<String> = command
        .get_subcommands()
        .map(|below| below.get_name().to_owned())
        .collect();
    names.into_iter().fold(command, |command, name| {
        let reads = READERS.contains(&(&above, &name)) || name == "agent";
        command.mut_subcommand(&name, |below| match reads {
            // Rows are copied there, not read.
            true if name == "split" => below.arg(format()),
            true => below.arg(format()).arg(on_bad_line()),
            false => add(below),
        })
    })
}

fn format() -> Arg {
    let help = "The format of data files, by the extension that names it, whatever they are called";
    Arg::new("format")
        .long("format")
        .value_name("EXT")
        .help(help)
}

fn on_bad_line() -> Arg {
    let help = "What is done with a line of data that cannot be read: `skip` leaves it out and counts \
        it [default: error]";
    Arg::new("on_bad_line")
        .long("on-bad-line")
        .value_name("WHAT")
        .value_parser(PossibleValuesParser::new(["error", "skip"]))
        .help(help)
}

/// How the innermost command reads its files.
pub fn of(mut matches: &ArgMatches) -> Result<Reading> {
    while let Some((_, inner)) = matches.subcommand() {
        matches = inner;
    }
    let typed = |name: &str| match matches.try_get_one::<String>(name) {
        Ok(Some(text)) => Some(text.as_str()),
        _ => None,
    };
    let bad: OnBadLine = typed("on_bad_line")
        .unwrap_or("error")
        .parse()
        .map_err(Error::input)?;
    Reading::new(typed("format"), bad)
}
