//! The binary of the command.

mod memory;

use std::process::ExitCode;

fn main() -> ExitCode {
    memory::errors_as_json(std::env::args_os().any(|arg| arg == "--json"));
    ExitCode::from(rankfold_cli::run(std::env::args_os()))
}
