//! What can be typed.

use clap::{CommandFactory, Parser, Subcommand};
use rankfold::Result;

use crate::output::Output;
use crate::{
    demo, eval, gossip, info, neighbors, predict, rank, recommend, split, train, transform, update,
    vectorize,
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
    Gossip(gossip::GossipCommand),
    /// Print a script that completes commands and options in a shell
    #[command(
        after_help = "Example:\n  rankfold completions bash > ~/.local/share/bash-completion/completions/rankfold"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page of rankfold, or of one of its commands
    #[command(
        after_help = "Examples:\n  rankfold man > rankfold.1\n  rankfold man split | man -l -"
    )]
    Man {
        /// The command; without it the page of rankfold itself
        command: Option<String>,
    },
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
        Command::Gossip(gossip) => gossip.run(output),
        Command::Completions { shell } => {
            // Into memory first: the generator panics when the reader goes.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "rankfold", &mut script);
            output.raw(&script)
        }
        Command::Man { command } => output.raw(&man(command.as_deref())?),
    }
}

fn man(name: Option<&str>) -> Result<Vec<u8>> {
    let mut root = Cli::command();
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
