//! One program for all targets: `RANKFOLD_FUZZ_TARGET` names the one that is run, such as
//! `RANKFOLD_FUZZ_TARGET=npy cargo +nightly fuzz run any fuzz/corpus/npy`.

#![no_main]

#[path = "../targets.rs"]
mod targets;

use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

static NAME: OnceLock<String> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    let name = NAME.get_or_init(|| {
        std::env::var("RANKFOLD_FUZZ_TARGET").expect("RANKFOLD_FUZZ_TARGET names a target")
    });
    targets::run(name, bytes);
});
