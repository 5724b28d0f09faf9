//! What can be typed.

use clap::{CommandFactory, Parser, Subcommand};
use rankfold::Result;
use serde_json::{Value, json};

use crate::output::Output;
use crate::{
    convert, demo, edit, eval, gossip, info, merge, neighbors, plot, predict, rank, reading,
    recommend, split, train, transform, update, vectorize,
};

/// Learns low-rank similarities, rankings of labels, ratings and values of pairs: online
/// at a cost that does not depend on the number of features, or in batch.
#[derive(Parser)]
#[command(name = "rankfold", version, about, max_term_width = 100)]
pub struct Cli {
    /// Print exactly one JSON object to stdout, and errors as JSON to stderr
    #[arg(long, global = true)]
    pub json: bool,

    /// Print no progress and no notes
    #[arg(long, short, global = true)]
    pub quiet: bool,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    Demo(demo::Demo),
    Vectorize(vectorize::Vectorize),
    Split(split::Split),
    Train(train::Train),
    Update(update::Update),
    Eval(eval::Eval),
    Predict(predict::Predict),
    Neighbors(neighbors::Neighbors),
    Rank(rank::Rank),
    Recommend(recommend::Recommend),
    Transform(transform::Transform),
    Info(info::Info),
    Edit(edit::Edit),
    Merge(merge::Merge),
    Convert(convert::Convert),
    Plot(plot::Plot),
    Gossip(gossip::GossipCommand),
    #[cfg(feature = "serve")]
    Serve(Box<crate::serve::Serve>),
    /// Print a script that completes commands and options in a shell
    #[command(
        after_help = "Example:\n  rankfold completions bash > ~/.local/share/bash-completion/completions/rankfold"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print all commands with their options, as JSON
    #[command(hide = true)]
    Commands,
    /// Print the manual page of rankfold, or of one of its commands
    #[command(
        after_help = "Examples:\n  rankfold man > rankfold.1\n  rankfold man split | man -l -"
    )]
    Man {
        /// The command; without it the page of rankfold itself
        command: Option<String>,
    },
}

/// All that can be typed.
pub fn command() -> clap::Command {
    reading::add(Cli::command())
}

pub fn run(command: Command, output: &Output) -> Result<()> {
    match command {
        Command::Demo(demo) => demo.run(output),
        Command::Vectorize(vectorize) => vectorize.run(output),
        Command::Split(split) => split.run(output),
        Command::Train(train) => train.run(output),
        Command::Update(update) => update.run(output),
        Command::Eval(eval) => eval.run(output),
        Command::Predict(predict) => predict.run(output),
        Command::Neighbors(neighbors) => neighbors.run(output),
        Command::Rank(rank) => rank.run(output),
        Command::Recommend(recommend) => recommend.run(output),
        Command::Transform(transform) => transform.run(output),
        Command::Info(info) => info.run(output),
        Command::Edit(edit) => edit.run(output),
        Command::Merge(merge) => merge.run(output),
        Command::Convert(convert) => convert.run(output),
        Command::Plot(plot) => plot.run(output),
        Command::Gossip(gossip) => gossip.run(output),
        #[cfg(feature = "serve")]
        Command::Serve(serve) => serve.run(output),
        Command::Completions { shell } => {
            // Into memory first: the generator panics when the reader goes.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut self::command(), "rankfold", &mut script);
            output.raw(&script)
        }
        Command::Commands => {
            let mut root = self::command();
            root.build();
            let mut all = Vec::new();
            list(&root, "", &mut all);
            output.raw(format!("{}\n", json!({ "format": 1, "commands": all })).as_bytes())
        }
        Command::Man { command } => output.raw(&man(command.as_deref())?),
    }
}

/// Adds all commands below one that do something themselves.
fn list(command: &clap::Command, prefix: &str, all: &mut Vec<Value>) {
    let own = command.get_subcommands();
    for below in own.filter(|below| below.get_name() != "help") {
        let name = format!("{prefix}{}", below.get_name());
        if below.has_subcommands() {
            list(below, &format!("{name} "), all);
            continue;
        }
        let value = |arg: &clap::Arg| {
            let names = arg.get_value_names().unwrap_or_default();
            let takes = arg.get_action().takes_values();
            takes.then(|| names.first().map_or("VALUE".into(), ToString::to_string))
        };
        let option = |arg: &clap::Arg| {
            let choices = arg.get_possible_values();
            json!({
                "flag": arg.get_long().map(|long| format!("--{long}"))
                    .or_else(|| arg.get_short().map(|short| format!("-{short}"))),
                "short": arg.get_short().map(|short| format!("-{short}")),
                "value": value(arg),
                "choices": choices.iter().map(|one| one.get_name()).collect::<Vec<_>>(),
                "required": arg.is_required_set(),
            })
        };
        let argument = |arg: &&clap::Arg| {
            let choices = arg.get_possible_values();
            json!({
                "name": value(arg),
                "choices": choices.iter().map(|one| one.get_name()).collect::<Vec<_>>(),
                "required": arg.is_required_set(),
            })
        };
        let mut arguments: Vec<&clap::Arg> = below.get_positionals().collect();
        arguments.sort_by_key(|arg| arg.get_index());
        all.push(json!({
            "name": name,
            "arguments": arguments.iter().map(argument).collect::<Vec<_>>(),
            "options": below.get_opts().chain(below.get_arguments().filter(|arg| {
                !arg.is_positional() && !arg.get_action().takes_values()
            })).map(option).collect::<Vec<_>>(),
        }));
    }
}

fn man(name: Option<&str>) -> Result<Vec<u8>> {
    let mut root = self::command();
    root.build();
    let command = match name {
        None => root,
        Some(name) => match root.find_subcommand(name) {
            Some(command) => command.clone(),
            None => {
                let message = format!("no command is called `{name}`");
                return Err(rankfold::Error::input(message));
            }
        },
    };
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(command).render(&mut page);
    rendered.map_err(|e| rankfold::Error::failure(e.to_string()))?;
    Ok(page)
}
