//! The command `rankfold`: typed options to a library call, and its result to
//! people or to scripts.

mod chart;
mod cli;
mod convert;
mod curve;
mod demo;
mod drive;
mod edit;
mod eval;
mod follow;
mod given;
mod gossip;
mod info;
mod interrupt;
mod item_neighbors;
mod listed;
mod merge;
mod neighbors;
mod output;
mod page;
mod paths;
mod patient;
mod plot;
mod predict;
mod predict_choices;
mod predict_classes;
mod predict_labels;
mod predict_ratings;
mod predict_tasks;
mod rank;
mod reading;
mod recommend;
mod rows;
mod scores;
#[cfg(feature = "serve")]
mod serve;
mod shared_options;
mod split;
mod table;
mod task_columns;
mod train;
mod train_completion;
mod train_kernel;
mod train_metric;
mod train_multitask;
mod train_pairs;
mod train_ranking;
mod train_recommend;
mod train_similarity;
mod transform;
mod uncertainty;
mod unknown;
mod update;
mod update_choices;
mod update_map;
mod update_ratings;
mod update_tasks;
mod vectorize;

use std::ffi::OsString;

use clap::FromArgMatches;

pub use interrupt::leave;

/// Runs the command with these arguments, the name of the program first, and gives its
/// exit code.
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    interrupt::install();
    leave_decoders_silent();
    let args: Vec<OsString> = args.into_iter().collect();
    let mut command = cli::command();
    let parsed = command.try_get_matches_from_mut(&args);
    let parsed = parsed.and_then(|matches| {
        let cli = cli::Cli::from_arg_matches(&matches)?;
        let given = given::Given::new(&command, &matches);
        Ok((cli, given, reading::of(&matches)))
    });
    let (cli, given, reading) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return output::usage(&error, &args),
    };
    let (reading, wrong) = match reading {
        Ok(reading) => (reading, None),
        Err(error) => (Default::default(), Some(error)),
    };
    let output = output::Output::new(cli.json, cli.quiet, given, typed(&args), reading);
    let done = match wrong {
        Some(error) => Err(error),
        None => cli::run(cli.command, &output),
    };
    match done {
        Ok(()) => 0,
        Err(error) => output.fail(&error),
    }
}

/// Decoders of column files panic on some damaged ones. The library makes an error of it, which
/// says all there is to say.
fn leave_decoders_silent() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let file = panic.location().map_or("", |place| place.file());
        let of_decoder = |name: &str| file.contains(&format!("/{name}-"));
        if !["arrow", "parquet", "flatbuffers"]
            .into_iter()
            .any(of_decoder)
        {
            usual(panic);
        }
    }));
}

/// The command as a shell would take it again, by the name of the program alone.
fn typed(args: &[OsString]) -> String {
    let quoted = |arg: &OsString| {
        let text = arg.to_string_lossy();
        let plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+".contains(c);
        match !text.is_empty() && text.chars().all(plain) {
            true => text.into_owned(),
            false => format!("'{}'", text.replace('\'', "'\\''")),
        }
    };
    let rest = args.iter().skip(1).map(quoted);
    ["rankfold".to_owned()]
        .into_iter()
        .chain(rest)
        .collect::<Vec<_>>()
        .join(" ")
}

/// How many threads to use: all cores when the user does not say, or says 0.
fn threads(asked: Option<usize>) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    asked.filter(|&n| n > 0).unwrap_or_else(all)
}
