//! The guides and the help name only commands and flags that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::support::Place;

/// The flags of every command, by its name.
type Commands = BTreeMap<String, BTreeSet<String>>;

fn commands(place: &Place) -> Commands {
    let listed = place.run(&["commands"]).json_without_seconds();
    let listed = listed["commands"].as_array().expect("a list");
    let flags = |command: &serde_json::Value| {
        let options = command["options"].as_array().expect("a list").iter();
        let names = options.flat_map(|one| [one["flag"].as_str(), one["short"].as_str()]);
        let global = ["--json", "--quiet", "-q", "--help", "-h", "--version", "-V"].map(Some);
        names.chain(global).flatten().map(str::to_owned).collect()
    };
    let named = |command: &serde_json::Value| {
        (
            command["name"].as_str().expect("a name").to_owned(),
            flags(command),
        )
    };
    listed.iter().map(named).collect()
}

/// The flags in a text: `-o`, `--rank`.
fn flags(text: &str) -> Vec<&str> {
    let ends = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
    let mut found = Vec::new();
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let apart = before.is_whitespace() || "`([,'".contains(before);
        before = c;
        let word = text[at..].split(ends).next().unwrap_or_default();
        let name = word.trim_start_matches('-');
        if apart && word.starts_with("--") && name.starts_with(|c: char| c.is_ascii_lowercase()) {
            found.push(word);
        }
    }
    found
}

/// What is wrong with the flags of a line: of code, which may be a command, or of prose.
fn faults(line: &str, is_code: bool, commands: &Commands, all: &BTreeSet<&str>) -> Vec<String> {
    let typed = line.trim_start().trim_start_matches("$ ");
    if let Some(rest) = typed.strip_prefix("rankfold ").filter(|_| is_code) {
        // A second program of a pipe has flags of its own.
        let rest = rest.split(" | ").next().unwrap_or_default();
        let fits = |name: &&String| rest == name.as_str() || rest.starts_with(&format!("{name} "));
        let Some(name) = commands.keys().filter(fits).max_by_key(|name| name.len()) else {
            return match rest.starts_with("--") || rest.starts_with('<') {
                true => Vec::new(),
                false => vec![format!("no such command: {line}")],
            };
        };
        let known = &commands[name];
        let unknown = flags(rest)
            .into_iter()
            .filter(|flag| !known.contains(*flag));
        return unknown
            .map(|flag| format!("`{name}` has no {flag}: {line}"))
            .collect();
    }
    let others = [
        "cargo",
        "scripts/",
        "zstd",
        "pip ",
        "python",
        "examples/",
        "golden",
    ];
    if others.iter().any(|other| line.contains(other)) {
        return Vec::new();
    }
    let unknown = flags(line).into_iter().filter(|flag| !all.contains(flag));
    unknown
        .map(|flag| format!("nothing has {flag}: {line}"))
        .collect()
}

fn pages(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => pages(&path, out),
            false if path.extension().is_some_and(|e| e == "md") => out.push(path),
            false => {}
        }
    }
}

#[test]
fn the_guides_name_only_flags_that_exist() {
    let place = Place::new();
    let commands = commands(&place);
    let all: BTreeSet<&str> = commands.values().flatten().map(String::as_str).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    pages(&root.join("docs"), &mut files);
    assert!(files.len() > 20, "{files:?}");
    let mut found = Vec::new();
    // The service is tested where it is built: the tests of `serve` run this one, too.
    let served = cfg!(feature = "serve");
    let of_service = |path: &Path| path.file_name().is_some_and(|name| name == "service.md");
    // The same holds for agents on a network.
    let networked = cfg!(feature = "network");
    let of_network = |path: &Path| path.file_name().is_some_and(|name| name == "network.md");
    let files = files.into_iter().filter(|path| served || !of_service(path));
    for path in files.filter(|path| networked || !of_network(path)) {
        let text = std::fs::read_to_string(&path).expect("a page");
        let text = match text.split_once("\n## On a real network\n") {
            Some((before, _)) if !networked => before.to_owned(),
            _ => text,
        };
        let mut is_code = false;
        for (i, line) in text.lines().enumerate() {
            is_code ^= line.starts_with("```");
            let elsewhere =
                (!served && line.contains("serve")) || (!networked && line.contains("--network"));
            if elsewhere {
                continue;
            }
            let faults = faults(line, is_code, &commands, &all);
            found.extend(
                faults
                    .iter()
                    .map(|fault| format!("{}:{}: {fault}", path.display(), i + 1)),
            );
        }
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn every_command_has_help_with_examples_that_exist() {
    let place = Place::new();
    let commands = commands(&place);
    let all: BTreeSet<&str> = commands.values().flatten().map(String::as_str).collect();
    let mut found = Vec::new();
    for name in commands.keys().filter(|name| *name != "commands") {
        let words: Vec<&str> = name.split(' ').chain(["--help"]).collect();
        let said = place.run(&words);
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{name}");
        let example = format!("  rankfold {name}");
        if !said.stdout.lines().any(|line| line.starts_with(&example)) {
            found.push(format!("`{name}` has no example"));
        }
        for line in said.stdout.lines() {
            found.extend(faults(line, line.starts_with("  "), &commands, &all));
        }
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn faults_of_guides_are_found() {
    let place = Place::new();
    let commands = commands(&place);
    let all: BTreeSet<&str> = commands.values().flatten().map(String::as_str).collect();
    let count = |line: &str| faults(line, true, &commands, &all).len();
    assert_eq!(
        count("$ rankfold split a.csv -o p --test 0.1 | cat --all"),
        0
    );
    assert_eq!(count("$ rankfold split a.csv -o p --rank 2"), 1);
    assert_eq!(count("rankfold train nothing a.csv"), 1);
    assert_eq!(count("rows with `--rank` and `--warm-start on`"), 1);
}
