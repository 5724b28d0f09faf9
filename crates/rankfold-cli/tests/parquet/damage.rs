//! Damaged files are errors: no panic, no abort, and no more memory than the files need.

use std::cell::Cell;

use super::support::Place;
use rankfold::data::{RatingColumns, Ratings, read_labelled};

/// The files that are damaged.
const FILES: [&str; 9] = [
    "rows-none.parquet",
    "rows-snappy.parquet",
    "rows-gzip.parquet",
    "rows-zstd.parquet",
    "rows-lz4.parquet",
    "rows-v2.parquet",
    "rows-lz4.feather",
    "rows-zstd.feather",
    "rows-stream.arrow",
];

fn read(place: &Place, name: &str, bytes: &[u8]) -> bool {
    place.write(name, bytes);
    let path = place.path(name);
    _ = Ratings::read(&path, &RatingColumns::default());
    read_labelled::<f32>(&path).is_ok()
}

#[test]
fn every_prefix_of_a_file_is_an_error() {
    let place = Place::new();
    for name in FILES {
        let bytes = std::fs::read(super::files().join(name)).expect("a file of the tests");
        assert!(read(&place, name, &bytes), "{name}");
        // The end of a stream may be missing: eight bytes say that nothing more comes.
        let least = if name.contains("stream") { 8 } else { 1 };
        for length in (0..=bytes.len() - least - 1).step_by(37) {
            let cut = read(&place, name, &bytes[..length]);
            assert!(!cut || name.contains("stream"), "{name}: {length} bytes");
        }
    }
}

thread_local! {
    static PANICKED: Cell<bool> = const { Cell::new(false) };
}

#[test]
fn changed_bytes_are_read_or_refused() {
    let place = Place::new();
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}");
        PANICKED.set(true);
    }));
    let mut worst = Vec::new();
    for name in FILES {
        let bytes = std::fs::read(super::files().join(name)).expect("a file of the tests");
        for at in (0..bytes.len()).step_by(17) {
            for change in [0x01, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= change;
                PANICKED.set(false);
                let is_read = read(&place, name, &damaged);
                if PANICKED.get() {
                    assert!(!is_read, "{name}: a panic is an error");
                    worst.push((name, damaged));
                }
            }
        }
    }
    // Where a decoder panics, the command has an error to tell, and nothing else.
    for (name, damaged) in worst.iter().step_by(worst.len().div_ceil(8).max(1)) {
        place.write(name, damaged);
        let said = place.run(&["train", "similarity", name, "-o", "out"]);
        assert_eq!(said.code, 2, "{}", said.stderr);
        let file = if name.ends_with("parquet") {
            "Parquet"
        } else {
            "Arrow"
        };
        let want = format!("error: {name}: cannot read this {file} file: it is damaged\n");
        assert_eq!(said.stderr, want);
    }
}
