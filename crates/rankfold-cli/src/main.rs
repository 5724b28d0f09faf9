//! The command `rankfold`: typed options to a library call, and its result to
//! people or to scripts.

mod cli;
mod output;
mod split;
mod vectorize;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return output::usage(&error),
    };
    let output = output::Output::new(cli.json, cli.quiet);
    match cli::run(cli.command, &output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output.fail(&error),
    }
}
