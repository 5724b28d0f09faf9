//! Files, limits and signals that do harm: nothing breaks, and everything is told.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::Place;

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../rankfold/tests/models")
        .join(name)
}

/// A place with copies of kept files.
fn with(files: &[&str]) -> Place {
    let place = Place::new();
    for file in files {
        std::fs::copy(kept(file), place.path(file)).unwrap();
    }
    place
}

/// A kept model with another text in its header, at a length of its own.
fn edited(place: &Place, name: &str, from: &str, to: &str) {
    let bytes = std::fs::read(kept(name)).unwrap();
    let length = u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
    let header = std::str::from_utf8(&bytes[8..8 + length]).unwrap();
    assert!(header.contains(from), "{from} in {header}");
    let mut header = header.replace(from, to);
    header += &" ".repeat(header.len().next_multiple_of(8) - header.len());
    let mut out = (header.len() as u64).to_le_bytes().to_vec();
    out.extend(header.bytes());
    out.extend(&bytes[8 + length..]);
    place.write("damaged.safetensors", out);
}

fn words() -> String {
    let line = |i: usize| format!("{}:{} {}:1\n", 1 + i % 7, 1 + i % 3, 8 + i % 5);
    (0..400).map(|i| format!("{} {}", i % 4, line(i))).collect()
}

#[test]
fn cards_that_are_not_possible_are_refused_by_every_command() {
    let place = with(&["kept.svm", "kept-ratings.csv", "kept-tasks.csv"]);
    place.write("pairs.txt", "0 1\n");
    let rank = |rank: &str| (r#"\"rank\":3"#.to_owned(), format!(r#"\"rank\":{rank}"#));
    for impossible in ["0", "65536", "1048576", "2147483648", "4294967296"] {
        let (from, to) = rank(impossible);
        edited(&place, "similarity-polar-psd-f64.safetensors", &from, &to);
        for command in [
            &["info", "damaged.safetensors"][..],
            &["eval", "damaged.safetensors", "kept.svm"],
            &[
                "predict",
                "damaged.safetensors",
                "pairs.txt",
                "--rows",
                "kept.svm",
            ],
            &["neighbors", "damaged.safetensors", "kept.svm"],
            &[
                "transform",
                "damaged.safetensors",
                "kept.svm",
                "-o",
                "t.csv",
            ],
            &["update", "damaged.safetensors", "pairs.txt", "-o", "u"],
        ] {
            let said = place.run(command);
            assert_eq!(
                (said.code, said.stdout.as_str()),
                (2, ""),
                "{command:?}: {}",
                said.stderr
            );
            assert!(
                said.stderr.starts_with("error: damaged.safetensors: "),
                "{}",
                said.stderr
            );
        }
    }
    let (from, to) = (r#"\"rank\":2"#, r#"\"rank\":1048576"#);
    edited(&place, "multitask-f64.safetensors", from, to);
    for command in [
        &["info", "damaged.safetensors"][..],
        &["eval", "damaged.safetensors", "kept-tasks.csv"],
        &["predict", "damaged.safetensors", "kept-tasks.csv"],
    ] {
        let said = place.run(command);
        assert_eq!(said.code, 2, "{command:?}: {}", said.stderr);
    }
    edited(
        &place,
        "completion-als-f32.safetensors",
        "[1.5,5.0]",
        "[5.0,1.5]",
    );
    for command in [
        &["predict", "damaged.safetensors", "kept-ratings.csv"][..],
        &["eval", "damaged.safetensors", "kept-ratings.csv"],
        &["recommend", "damaged.safetensors"],
    ] {
        place
            .run(command)
            .refused("damaged.safetensors: ratings from 5 to 1.5 are not possible");
    }
}

#[test]
fn a_flipped_bit_anywhere_in_the_numbers_is_noticed() {
    let place = with(&["kept.svm"]);
    place.run(&[
        "train",
        "similarity",
        "kept.svm",
        "--rank",
        "2",
        "--steps",
        "300",
        "-o",
        "m",
    ]);
    let whole = std::fs::read(place.path("m")).unwrap();
    let header = 8 + u64::from_le_bytes(*whole.first_chunk().unwrap()) as usize;
    for at in (header..whole.len()).step_by(1 + (whole.len() - header) / 40) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        place.write("d", &damaged);
        place
            .run(&["info", "d"])
            .refused("d: the file is damaged: its checksum is another");
    }
}

/// A model that has lost rank, which its file says of itself.
#[test]
fn defects_of_a_model_are_told_with_its_own_name() {
    let place = with(&["kept.csv", "kept-pairs.tsv"]);
    let mut bytes = std::fs::read(kept("pairs-polar-f32.safetensors")).unwrap();
    let length = u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let place_of = |i: usize| header["root"]["data_offsets"][i].as_u64().unwrap() as usize;
    bytes[8 + length..][place_of(0)..place_of(1)].fill(0);
    place.write("lost", bytes);
    place
        .run(&["eval", "lost", "kept.csv", "--pairs", "kept-pairs.tsv"])
        .told(1, "lost: the model has lost rank to working precision, so its singular values are not known");
}

/// A file without a checksum whose Gram matrix was changed.
#[test]
fn gram_matrices_are_those_of_their_factors() {
    let place = Place::new();
    let bytes = std::fs::read(kept("similarity-polar-psd-f64.safetensors")).unwrap();
    let length = u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let start = header["factor.gram"]["data_offsets"][0].as_u64().unwrap() as usize;
    for entry in 0..9 {
        let mut damaged = bytes.clone();
        let at = 8 + length + start + 8 * entry;
        let value = f64::from_le_bytes(*damaged[at..].first_chunk().unwrap());
        damaged[at..at + 8].copy_from_slice(&(value + 1e-3).to_le_bytes());
        place.write("d", damaged);
        place
            .run(&["info", "d"])
            .refused("d: the Gram matrix of `factor` is not that of its rows");
    }
}

#[test]
fn scores_that_are_not_finite_are_refused_and_json_is_whole_or_absent() {
    let place = with(&["kept-ratings.csv", "kept-tasks.csv"]);
    let row = |label: &str, value: &str| format!("{label},{}\n", [value; 12].join(","));
    let names: String = (0..12).map(|i| format!(",a{i}")).collect();
    let head = format!("label{names}\n");
    let rows = |one: &str, other: &str| {
        let rows = [
            row("x", one),
            row("x", one),
            row("y", other),
            row("y", other),
        ];
        format!("{head}{}", rows.concat())
    };
    place.write("train.csv", rows("1.5", "-1"));
    // Each value fits, but not their sum.
    place.write("huge.csv", rows("3.4e38", "-3.4e38"));
    place.write("pairs.txt", "0 1\n0 3\n");
    let train = [
        "train",
        "similarity",
        "train.csv",
        "--rank",
        "2",
        "--steps",
        "50",
        "--init",
        "gaussian",
        "-o",
        "m",
    ];
    assert_eq!(place.run(&train).code, 0);
    for json in [false, true] {
        for command in [
            &["predict", "m", "pairs.txt", "--rows", "huge.csv"][..],
            &["neighbors", "m", "huge.csv", "--score", "dot"],
            &["eval", "m", "huge.csv", "--score", "dot"],
        ] {
            let mut command = command.to_vec();
            if json {
                command.push("--json");
            }
            let said = place.run(&command);
            let printed = said.stdout.to_lowercase();
            assert!(
                !printed.contains("nan") && !printed.contains("inf"),
                "{command:?}: {printed}"
            );
            if json && said.code == 0 {
                serde_json::from_str::<serde_json::Value>(&said.stdout).unwrap();
            } else if json {
                assert_eq!(said.stdout, "", "{command:?}");
            }
        }
    }
    place
        .run(&[
            "predict",
            "m",
            "pairs.txt",
            "--rows",
            "huge.csv",
            "--score",
            "dot",
        ])
        .refused(
            "pairs.txt:1: the score of this line is not a finite number: some values are too large",
        );

    // No row has another of its label.
    place.write(
        "alone.csv",
        format!("{head}{}{}", row("x", "1"), row("y", "2")),
    );
    let said = place.run(&["eval", "m", "alone.csv"]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(
        !said.stdout.contains("NaN") && said.stdout.contains("none"),
        "{}",
        said.stdout
    );
    assert!(
        said.stderr
            .contains("is not known: nothing could be measured"),
        "{}",
        said.stderr
    );
    let said = place.run(&["eval", "m", "alone.csv", "--json"]);
    assert!(said.json()["metrics"]["map"].is_null());

    // A bad line leaves no part of a JSON object.
    place.write("bad.csv", "user,item,rating\nu0,i0,4\nu0\n");
    let model = kept("completion-als-f32.safetensors");
    let model = model.to_str().unwrap();
    let said = place.run(&["predict", model, "bad.csv", "--json"]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
    place.write(
        "bad-tasks.csv",
        "task,a,b,c,target\nt0,0,0,0,0\nt0,x,0,0,0\n",
    );
    let model = kept("multitask-f64.safetensors");
    let said = place.run(&[
        "predict",
        model.to_str().unwrap(),
        "bad-tasks.csv",
        "--json",
    ]);
    assert_eq!((said.code, said.stdout.as_str()), (2, ""));
}

#[test]
fn two_updates_of_one_model_do_not_lose_one() {
    let place = with(&["completion-als-f32.safetensors"]);
    let update = ["update", "completion-als-f32.safetensors", "-", "-o", "m"];
    let mut first = place
        .command(&update)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It says what it does after it has the lock.
    let mut said = String::new();
    BufReader::new(first.stderr.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    let second = place.run(&update);
    assert_eq!(
        (second.code, second.stderr.as_str()),
        (
            1,
            "error: m: another `rankfold update` is writing this model: wait until it ends\n"
        )
    );
    let mut stdin = first.stdin.take().unwrap();
    stdin
        .write_all(b"{\"user\":\"u1\",\"item\":\"i2\",\"rating\":4}\n")
        .unwrap();
    drop(stdin);
    assert!(first.wait().unwrap().success());
    assert_eq!(place.names(), ["completion-als-f32.safetensors", "m"]);

    // A killed one leaves its lock, and the next takes it.
    let mut killed = place
        .command(&update)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    BufReader::new(killed.stderr.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(place.names()[0], ".rankfold-lock-m");
    let next = place.run_with(&update, "{\"user\":\"u1\",\"item\":\"i2\",\"rating\":4}\n");
    assert_eq!(next.code, 0, "{}", next.stderr);
    assert_eq!(place.names(), ["completion-als-f32.safetensors", "m"]);
}

#[test]
fn a_wild_rating_does_not_cost_the_model() {
    for (name, rating) in [
        ("completion-als-f32.safetensors", "1e10"),
        ("completion-polar-f64.safetensors", "1e13"),
        ("gossip-completion.safetensors", "1e30"),
    ] {
        let place = with(&[name]);
        let line = format!("{{\"user\":\"zz\",\"item\":\"i1\",\"rating\":{rating}}}\n");
        let said = place.run_with(&["update", name, "-o", name], &line.repeat(3));
        assert!(said.code == 0 || said.code == 1, "{}", said.stderr);
        assert_eq!(place.run(&["info", name]).code, 0);
        let asked = place.run_with(&["predict", name, "-"], "u1 i1\n");
        assert_eq!(asked.code, 0, "{}", asked.stderr);
    }
}

/// Runs a command under `ulimit`, in the shell that every system has.
fn limited(place: &Place, limit: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let script = format!("ulimit {limit}; exec \"$0\" \"$@\"");
    let out = Command::new("sh")
        .current_dir(place.path(""))
        .args(["-c", &script, env!("CARGO_BIN_EXE_rankfold")])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (out.status.code(), String::from_utf8(out.stderr).unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn limits_of_memory_end_a_run_with_words() {
    let place = Place::new();
    let rows: String = (0..30_000)
        .map(|i| format!("{} {}:1\n", i % 3, 1 + i))
        .collect();
    place.write("wide.svm", rows);
    let train = [
        "train",
        "similarity",
        "wide.svm",
        "--rank",
        "500",
        "--steps",
        "9",
        "-o",
        "m",
    ];
    let told = |(code, stderr): (Option<i32>, String)| {
        assert_eq!(code, Some(1), "{stderr}");
        assert!(stderr.contains("memory"), "{stderr}");
    };
    told(limited(&place, "-v 120000", &train));
    told(limited(&place, "-d 100000", &train));
    // So little that the program just starts, and not even the data can be read.
    let starts = |kib: &usize| limited(&place, &format!("-v {kib}"), &["--version"]).0 == Some(0);
    let least = (10_000..120_000).step_by(2_000).find(starts).unwrap();
    for kib in [least, least + 10_000, least + 20_000] {
        let (code, stderr) = limited(&place, &format!("-v {kib}"), &train);
        assert_eq!(code, Some(1), "{kib}: {stderr}");
    }
    let little = format!("-v {}", least + 15_000);
    let (_, stderr) = limited(&place, &little, &[&train[..], &["--json"]].concat());
    if let Some(line) = stderr.lines().last() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    assert_eq!(place.names(), ["wide.svm"]);
}

#[cfg(unix)]
#[test]
fn a_file_that_may_not_grow_is_an_error_and_leaves_nothing() {
    let place = Place::new();
    place.write("rows.svm", words());
    // A block of `ulimit -f` has 512 bytes or 1024.
    let train = [
        "train",
        "similarity",
        "rows.svm",
        "--rank",
        "9",
        "--steps",
        "200",
        "-o",
        "m",
    ];
    let (code, stderr) = limited(&place, "-f 1", &[&train[..], &["--quiet"]].concat());
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.starts_with("error: m: cannot write: "), "{stderr}");
    let (code, stderr) = limited(&place, "-f 1", &["split", "rows.svm", "-o", "part"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert_eq!(place.names(), ["rows.svm"]);
}

/// Sends a signal as soon as the command is at work, and says how long it then took.
#[cfg(unix)]
fn stopped(place: &Place, arguments: &[&str], signal: &str) -> (Option<i32>, Duration) {
    let mut child = place
        .command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Waiting would close the pipe, and end what reads from it.
    let stdin = child.stdin.take();
    std::thread::sleep(Duration::from_millis(600));
    let sent = Instant::now();
    let kill = Command::new("kill")
        .args([signal, &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success(), "it was still running");
    let code = child.wait().unwrap().code();
    drop(stdin);
    (code, sent.elapsed())
}

#[cfg(unix)]
#[test]
fn signals_are_answered_and_leave_no_temporary_file() {
    let place = Place::new();
    let rows = |n: usize| -> String {
        let cell = |i: usize, j: usize| format!("{}:{}", 1 + j, (i * 7 + j * 3) % 11);
        let line = |i| (0..60).map(|j| cell(i, j)).collect::<Vec<_>>().join(" ");
        (0..n).map(|i| format!("{} {}\n", i % 3, line(i))).collect()
    };
    place.write("rows.svm", rows(4_000));
    // Reads for as long as it takes: the pipe stays open.
    let waiting = ["split", "-", "--format", "csv", "-o", "part"];
    let metric = ["train", "metric", "rows.svm", "--rank", "50", "-o", "m"];
    let vectorize = ["vectorize", "-", "--fit", "v", "-o", "rows.out"];
    let update = ["train", "similarity", "-", "-o", "s"];
    for signal in ["-INT", "-TERM"] {
        for command in [&waiting[..], &metric, &vectorize, &update] {
            let (code, took) = stopped(&place, command, signal);
            assert_eq!(code, Some(130), "{command:?}");
            // A second, and as much again for a machine that is busy.
            assert!(took < Duration::from_secs(3), "{command:?}: {took:?}");
            let left = place
                .names()
                .into_iter()
                .find(|name| name.starts_with(".rankfold-"));
            assert_eq!(left, None, "{command:?}");
        }
    }
}

/// The run goes on where a model cannot be saved on the way, and the end names where the
/// model is.
#[cfg(unix)]
#[test]
fn a_full_disk_costs_an_update_nothing() {
    let place = with(&["completion-als-f32.safetensors"]);
    std::fs::create_dir(place.path("temporary")).unwrap();
    let lines: String = (0..20)
        .map(|i| {
            format!(
                "{{\"user\":\"u{}\",\"item\":\"i{}\",\"rating\":4}}\n",
                i % 5,
                i % 7
            )
        })
        .collect();
    place.write("ratings.jsonl", lines);
    let out = place
        .command(&[
            "update",
            "completion-als-f32.safetensors",
            "ratings.jsonl",
            "-o",
            "/dev/full",
        ])
        .args(["--save-every", "5"])
        .env("TMPDIR", place.path("temporary"))
        .output()
        .unwrap();
    let stderr = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{stderr}");
    assert_eq!(
        stderr.matches("was not saved, learning goes on").count(),
        4,
        "{stderr}"
    );
    assert!(stderr.contains("the model is in `"), "{stderr}");
    let rescued = place.path("temporary/full");
    let info = place
        .run(&["info", rescued.to_str().unwrap(), "--json"])
        .json_without_seconds();
    assert_eq!(info["steps"], 20 + before(&place));
}

fn before(place: &Place) -> u64 {
    let info = place.run(&["info", "completion-als-f32.safetensors", "--json"]);
    info.json_without_seconds()["steps"].as_u64().unwrap()
}

#[test]
fn the_next_run_removes_what_a_killed_one_left() {
    let place = Place::new();
    place.write("rows.svm", words());
    place.write(".rankfold-00112233-abc", "half a model");
    assert_eq!(place.run(&["split", "rows.svm", "-o", "part"]).code, 0);
    assert_eq!(
        place.names(),
        ["part.test.svm", "part.train.svm", "rows.svm"]
    );
}

#[cfg(unix)]
#[test]
fn outputs_are_where_they_may_be() {
    let place = Place::new();
    place.write("rows.svm", words());
    // Bad paths are bad input for every command.
    place
        .run(&["split", "rows.svm", "-o", "missing/part"])
        .refused("missing/part.train.svm: cannot write: its folder does not exist");
    // A hard link of an input is the input.
    std::fs::hard_link(place.path("rows.svm"), place.path("link.svm")).unwrap();
    let train = [
        "train",
        "similarity",
        "rows.svm",
        "--rank",
        "2",
        "--steps",
        "99",
        "-o",
        "m",
    ];
    place
        .run(&[&train[..], &["--curve", "link.svm"]].concat())
        .refused("link.svm: cannot write: this file is read by the same command");
    assert_eq!(place.read("rows.svm"), words());
    // A link to nothing is followed and stays.
    std::os::unix::fs::symlink("target", place.path("m")).unwrap();
    assert_eq!(place.run(&train).code, 0);
    assert!(place.path("m").symlink_metadata().unwrap().is_symlink());
    assert_eq!(place.run(&["info", "target"]).code, 0);
    // Nothing is put beside a device, and devices take models.
    let device = [
        "train",
        "similarity",
        "rows.svm",
        "--rank",
        "2",
        "--steps",
        "99",
        "-o",
        "/dev/null",
    ];
    assert_eq!(place.run(&device).code, 0);
    assert!(!Path::new("/dev/null.checkpoint").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_no_utf_8_work() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let name = OsStr::from_bytes(b"r\xff.svm");
    std::fs::write(place.path("").join(name), words()).unwrap();
    let model = OsStr::from_bytes(b"m\xff.safetensors");
    let run = |arguments: &[&OsStr]| {
        let out = place.command(&[]).args(arguments).output().unwrap();
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        String::from_utf8(out.stdout).unwrap()
    };
    let word = OsStr::new;
    run(&[
        word("train"),
        word("similarity"),
        name,
        word("--rank"),
        word("2"),
        word("--steps"),
        word("99"),
        word("-o"),
        model,
    ]);
    let printed = run(&[word("eval"), model, name, word("--json")]);
    serde_json::from_str::<serde_json::Value>(&printed).unwrap();
    run(&[word("split"), name, word("-o"), OsStr::from_bytes(b"p\xff")]);
}

#[test]
fn values_that_no_model_can_hold_are_told_in_their_own_file() {
    let place = Place::new();
    place.write("rows.csv", "a,b\n1,2\n2,1\n0,1\n");
    for value in ["1e150", "-1e200"] {
        place.write("pairs.tsv", format!("0\t1\t1\n1\t2\t{value}\n"));
        let train = [
            "train",
            "pairs",
            "rows.csv",
            "--pairs",
            "pairs.tsv",
            "--rank",
            "1",
            "-o",
            "m",
        ];
        place
            .run(&train)
            .refused(&format!("pairs.tsv:2: the value `{value}` is too large"));
    }
}
