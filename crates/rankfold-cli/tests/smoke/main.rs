//! Real data, in full. The data sets are in `$RANKFOLD_DATA`, by default
//! `../shared/data` beside the workspace. A test whose files are absent is
//! ignored; with `RANKFOLD_REQUIRE_DATA=1` it fails.

mod labels;
mod metrics;
mod newsgroups;
mod ratings;
#[path = "../support/mod.rs"]
mod support;
mod tasks;
mod whole;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// A test by the name of its function, on these files.
macro_rules! on {
    ($test:path, $($file:expr),+) => {
        on(stringify!($test), [$($file),+], $test)
    };
}

fn main() -> ExitCode {
    let news = "20newsgroups/20news-bydate.jsonl.gz";
    let mut trials = vec![
        on!(newsgroups::the_vocabulary_is_the_published_one, news),
        on!(
            newsgroups::the_default_is_ahead_of_a_linear_classifier,
            news
        ),
        on!(
            newsgroups::figures_are_the_known_ones_and_resumed_runs_give_the_same_bytes,
            news
        ),
        on!(
            metrics::isolet_metric_has_the_error_of_a_large_margin,
            "isolet/isolet.csv.gz"
        ),
        on!(
            labels::bibtex_is_ranked_after_one_pass_and_a_resumed_run_is_the_same,
            "bibtex/bibtex-train.svm.gz",
            "bibtex/bibtex-test.svm.gz",
            "bibtex/bibtex.labels.txt"
        ),
        on!(
            ratings::movielens_100k_is_split_as_published,
            "movielens/ml-100k.csv.gz"
        ),
        on!(
            ratings::movielens_1m_is_split_as_published,
            "movielens/ml-1m.csv.gz"
        ),
        on!(
            ratings::movielens_100k_is_predicted_better_than_by_biases,
            "movielens/ml-100k.csv.gz"
        ),
        on!(
            ratings::lists_of_movielens_100k_are_better_than_popularity,
            "movielens/ml-100k.csv.gz"
        ),
        on!(
            tasks::schools_share_more_than_a_pooled_ridge_knows,
            "school/school.csv.gz"
        ),
        on!(
            tasks::patients_are_as_well_known_as_by_their_own_regressions,
            "parkinsons/parkinsons_updrs.csv.gz"
        ),
    ];
    trials.extend(whole::SETS.map(|(file, size)| {
        on(&format!("whole::{file}"), [file], move |[path]| {
            whole::is_read(path, size)
        })
    }));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A test that gets the paths of its files, or is ignored.
fn on<const N: usize>(
    name: &str,
    files: [&'static str; N],
    test: impl FnOnce([&str; N]) + Send + 'static,
) -> Trial {
    Trial::ignorable_test(name, move || {
        let root = std::env::var_os("RANKFOLD_DATA").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
            PathBuf::from,
        );
        let paths = files.map(|file| root.join(file));
        if let Some(absent) = paths.iter().find(|path| !path.exists()) {
            let absent = format!("{} is absent", absent.display());
            return match std::env::var_os("RANKFOLD_REQUIRE_DATA") {
                Some(value) if value == "1" => Err(Failed::from(absent)),
                _ => Ok(Completion::ignored_with(absent)),
            };
        }
        // The binary runs in another directory.
        let paths = paths.map(|path| path.canonicalize().expect("a path that exists"));
        test(
            paths
                .each_ref()
                .map(|path| path.to_str().expect("a UTF-8 path")),
        );
        Ok(Completion::Completed)
    })
}
