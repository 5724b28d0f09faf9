//! Fuzzing on stable: inputs from the corpus are changed at random and given to every
//! reader. A run of a number of inputs is the same each time; `--minutes N` goes on with
//! other seeds until the time is over. What breaks a target is kept in `fuzz/artifacts`.

#[path = "../../../../fuzz/targets.rs"]
mod targets;

mod mutate;

use mutate::{Random, mutate};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use targets::{TARGETS, Target};

/// Inputs for each target of a bounded run.
const INPUTS: u64 = 3_000;

/// No input of a few kilobytes may take longer. The machine may be busy.
const SLOWEST: Duration = Duration::from_secs(20);

struct Asked {
    /// How long to run; without it the run is bounded.
    minutes: Option<f64>,
    seed: u64,
    only: Option<String>,
    inputs: u64,
    /// An input to run once.
    replay: Option<PathBuf>,
}

fn asked() -> Asked {
    let mut asked = Asked {
        minutes: None,
        seed: 1,
        only: None,
        inputs: INPUTS,
        replay: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .unwrap_or_else(|| panic!("{word} needs a value"))
        };
        match word.as_str() {
            "--minutes" => asked.minutes = Some(value().parse().expect("minutes")),
            "--seed" => asked.seed = value().parse().expect("a seed"),
            "--inputs" => asked.inputs = value().parse().expect("a number of inputs"),
            "--target" => asked.only = Some(value()),
            "--replay" => asked.replay = Some(value().into()),
            // What cargo hands on to all tests, such as a filter.
            _ => {}
        }
    }
    asked
}

/// The inputs that changes start from.
fn corpus(target: &Target) -> Vec<Vec<u8>> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = vec![repository.join("fuzz/corpus").join(target.name)];
    if ["model", "checkpoint"].contains(&target.name) {
        folders.push(repository.join("crates/rankfold/tests/models"));
    }
    let mut paths: Vec<PathBuf> = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten())
        .map(|entry| entry.expect("an entry of the corpus").path())
        .collect();
    // Folders come in any order, and runs are to be the same.
    paths.sort();
    let of_models = |path: &PathBuf| path.extension().is_some_and(|e| e == "safetensors");
    if ["model", "checkpoint"].contains(&target.name) {
        paths.retain(of_models);
    }
    if target.name == "checkpoint" {
        paths.retain(|path| path.to_string_lossy().contains("checkpoint"));
    }
    let read = |path: &PathBuf| std::fs::read(path).expect("a file of the corpus");
    let found: Vec<Vec<u8>> = paths.iter().map(read).collect();
    assert!(
        !found.is_empty(),
        "the corpus of `{}` is empty",
        target.name
    );
    found
}

fn main() {
    let asked = asked();
    let started = Instant::now();
    if let Some(path) = &asked.replay {
        let only = asked.only.as_deref().expect("--replay needs --target");
        targets::run(only, &std::fs::read(path).expect("the input"));
        return;
    }
    // The library makes errors of panics in these decoders: they are no finds.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let file = panic.location().map_or("", |place| place.file());
        if !["/arrow-", "/parquet-"].iter().any(|of| file.contains(of)) {
            usual(panic);
        }
    }));
    let end = asked
        .minutes
        .map(|m| started + Duration::from_secs_f64(60.0 * m));
    let chosen = |target: &&Target| asked.only.as_ref().is_none_or(|only| only == target.name);
    let chosen: Vec<&Target> = TARGETS.iter().filter(chosen).collect();
    assert!(!chosen.is_empty(), "no target is called so");
    let corpora: Vec<Vec<Vec<u8>>> = chosen.iter().map(|target| corpus(target)).collect();
    watch();
    // Panics are told below, with their input.
    let mut found = 0;
    let mut counts = vec![0_u64; chosen.len()];
    let mut round = 0;
    loop {
        for ((target, corpus), count) in chosen.iter().zip(&corpora).zip(&mut counts) {
            for (i, input) in corpus.iter().enumerate().filter(|_| round == 0) {
                found += u64::from(!holds(target, input, &format!("corpus {i}")));
                *count += 1;
            }
            let until = Instant::now() + Duration::from_secs(2);
            for i in 0..asked.inputs {
                if end.is_some() && Instant::now() > until {
                    break;
                }
                let seed = asked.seed << 40 ^ round << 24 ^ i;
                let mut random = Random::new(seed ^ hash(target.name));
                let input = mutate(corpus, &mut random);
                found += u64::from(!holds(target, &input, &format!("seed {seed}")));
                *count += 1;
            }
        }
        round += 1;
        if end.is_none_or(|end| Instant::now() > end) {
            break;
        }
    }
    let _ = std::fs::remove_dir_all(targets::folder());
    for (target, count) in chosen.iter().zip(&counts) {
        println!("{:<12} {count:>9} inputs", target.name);
    }
    let (all, seconds) = (counts.iter().sum::<u64>(), started.elapsed().as_secs_f64());
    println!("{all} inputs, {found} found, {seconds:.0} s");
    assert_eq!(found, 0, "inputs that break a target are in fuzz/artifacts");
}

fn hash(text: &str) -> u64 {
    text.bytes().fold(7, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Milliseconds since the start at which the present input was given; 0 between inputs.
static GIVEN: AtomicU64 = AtomicU64::new(0);

/// Ends the process where one input takes for ever; the input is on the disk.
fn watch() {
    let start = Instant::now();
    CLOCK.set(start).expect("one clock");
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let given = GIVEN.load(Ordering::SeqCst);
            let now = start.elapsed().as_millis() as u64;
            if given > 0 && now > given + 3 * SLOWEST.as_millis() as u64 {
                eprintln!("an input hangs: it is in {}", targets::folder().display());
                std::process::abort();
            }
        }
    });
}

static CLOCK: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();

/// Whether a target holds out against an input.
fn holds(target: &Target, input: &[u8], name: &str) -> bool {
    let started = Instant::now();
    let clock = CLOCK.get().expect("a clock");
    GIVEN.store(clock.elapsed().as_millis() as u64 + 1, Ordering::SeqCst);
    // An input that aborts is found here.
    let current = targets::folder().join("current");
    std::fs::write(&current, input).expect("the input is written");
    let ran = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    GIVEN.store(0, Ordering::SeqCst);
    let slow = started.elapsed() > SLOWEST;
    if ran.is_ok() && !slow {
        return true;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/artifacts");
    std::fs::create_dir_all(&folder).expect("a folder for what is found");
    let path = folder.join(format!("{}-{:016x}", target.name, content_hash(input)));
    std::fs::write(&path, input).expect("what is found is written");
    let what = if slow { "slow" } else { "panic" };
    eprintln!("{}: {what} with {name}: {}", target.name, path.display());
    false
}

fn content_hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
