//! What each folder of the library may use, held against the table of layers in
//! ARCHITECTURE.md.
//!
//! A unit is a folder or a file of `src`. Tests inside of `src` may use what they
//! like: they make no cycle of the library.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Uses that the table does not allow, each until its cycle is cut.
const EXCEPTIONS: &[(&str, &str)] = &[];

/// A unit, another that it uses, and the file that does.
type Use = (String, String, PathBuf);

/// What each unit may use; a line may name the lines above it only.
type Layers = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

#[test]
fn no_unit_uses_what_lies_above_it() {
    let book = root().join("../../../ARCHITECTURE.md");
    let table = layers(&std::fs::read_to_string(book).unwrap()).unwrap();
    let files = sources(&root());
    let found = faults(&table, &units(&files), &uses(&files), EXCEPTIONS);
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// What stands against the table.
fn faults(
    table: &Layers,
    units: &BTreeSet<String>,
    uses: &[Use],
    exceptions: &[(&str, &str)],
) -> Vec<String> {
    let missing = units.iter().filter(|unit| !table.contains_key(*unit));
    let gone = table.keys().filter(|unit| !units.contains(*unit));
    let mut out: Vec<String> = missing
        .map(|unit| format!("`{unit}` is missing in the table of layers"))
        .chain(gone.map(|unit| format!("`{unit}` of the table of layers does not exist")))
        .collect();
    let excepted = |from: &str, to: &str| exceptions.contains(&(from, to));
    for (from, to, file) in uses {
        let allowed = table.get(from).is_some_and(|known| known.contains(to));
        if !allowed && !excepted(from, to) {
            let file = file.display();
            out.push(format!("{file}: `{from}` may not use `{to}`"));
        }
    }
    for (from, to) in exceptions {
        if !uses.iter().any(|(a, b, _)| a == from && b == to) {
            out.push(format!(
                "`{from}` does not use `{to}` any more: delete the exception"
            ));
        }
    }
    out
}

/// Reads the table below the heading "Layers": units in backticks, then what they
/// may use. A line may have a name of its own, in bold, that later lines call it by.
fn layers(book: &str) -> Result<Layers, String> {
    let (_, section) = book
        .split_once("\n### Layers\n")
        .ok_or("no section is called Layers")?;
    let lines = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    let mut out = Layers::new();
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let [units, may_use] = cells[..] else {
            return Err(format!("expected two cells: {row}"));
        };
        let mut known = BTreeSet::new();
        for name in quoted(may_use, "`").into_iter() {
            known.insert(name.to_owned());
        }
        for group in quoted(may_use, "**") {
            let members = groups.get(group).ok_or(format!("no line is {group}"))?;
            known.extend(members.iter().map(|name| (*name).to_owned()));
        }
        if let Some(name) = known.iter().find(|name| !out.contains_key(*name)) {
            return Err(format!("`{name}` stands in no line above: {row}"));
        }
        let units = quoted(units, "`");
        for group in quoted(cells[0], "**") {
            groups.insert(group, units.clone());
        }
        for unit in units {
            if out.insert(unit.to_owned(), known.clone()).is_some() {
                return Err(format!("`{unit}` stands in two lines"));
            }
        }
    }
    match out.is_empty() {
        true => Err("the table of layers is empty".into()),
        false => Ok(out),
    }
}

/// The texts between two marks each.
fn quoted<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    text.split(mark).skip(1).step_by(2).collect()
}

/// The files of a folder and those below it, by their path in it, with their text
/// as [`plain`] gives it. Files that are tests are left out.
fn sources(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut out = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = plain(&std::fs::read_to_string(&path).unwrap());
                out.insert(path.strip_prefix(root).unwrap().to_owned(), text);
            }
        }
    }
    let mut tests = Vec::new();
    for (path, text) in &mut out {
        let (library, files) = without_tests(text);
        *text = library;
        tests.extend(files.iter().map(|name| module_folder(path).join(name)));
    }
    out.retain(|path, _| !tests.contains(&path.with_extension("")));
    out
}

/// The folder that the modules of a file lie in.
fn module_folder(path: &Path) -> PathBuf {
    match path.file_stem().unwrap().to_str() {
        Some("mod" | "lib") => path.parent().unwrap().to_owned(),
        _ => path.with_extension(""),
    }
}

fn unit(path: &Path) -> String {
    let first = path.components().next().unwrap();
    let name = first.as_os_str().to_str().unwrap();
    name.trim_end_matches(".rs").to_owned()
}

/// All units but the root of the library itself.
fn units(files: &BTreeMap<PathBuf, String>) -> BTreeSet<String> {
    let all = files.keys().map(|path| unit(path));
    all.filter(|unit| unit != "lib").collect()
}

fn uses(files: &BTreeMap<PathBuf, String>) -> Vec<Use> {
    let units = units(files);
    let home = |name: &str| -> String {
        if units.contains(name) {
            return name.to_owned();
        }
        let reexported = names_of(&files[Path::new("lib.rs")], "pub use ");
        let found = reexported.iter().find(|path| path.last().unwrap() == name);
        let declared = |text: &String| text.contains(&format!("macro_rules! {name} "));
        let of_macro = || files.iter().find(|(_, text)| declared(text));
        found
            .map(|path| path[0].clone())
            .or_else(|| of_macro().map(|(path, _)| unit(path)))
            .unwrap_or_else(|| panic!("crate::{name} is not known"))
    };
    let mut out = BTreeSet::new();
    for (path, text) in files {
        let from = unit(path);
        let depth = module_folder(path).components().count();
        let up = "super::".repeat(depth);
        let mut starts = vec!["crate::"];
        starts.extend((depth > 0).then_some(up.as_str()));
        for names in starts.iter().flat_map(|start| names_of(text, start)) {
            let to = home(&names[0]);
            if from != "lib" && from != to {
                out.insert((from.clone(), to, path.clone()));
            }
        }
    }
    out.into_iter().collect()
}

/// The paths behind each place where a text begins, taken apart: `a::{b, c::d}` is
/// `[a, b]` and `[a, c, d]`.
fn names_of(text: &str, start: &str) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    let word = |c: char| c.is_alphanumeric() || c == '_';
    for (at, _) in text.match_indices(start) {
        let before = &text[..at];
        // `$crate::` is used where its macro is.
        let own = !before.ends_with(|c| word(c) || c == '$');
        if own && !before.ends_with("::") {
            let mut rest = &text[at + start.len()..];
            path(&mut rest, &mut Vec::new(), &mut out);
        }
    }
    out
}

/// Reads one path, or a list of them in braces.
fn path(rest: &mut &str, before: &mut Vec<String>, out: &mut Vec<Vec<String>>) {
    *rest = rest.trim_start();
    if let Some(inner) = rest.strip_prefix('{') {
        *rest = inner;
        while !rest.starts_with('}') && !rest.is_empty() {
            path(rest, before, out);
            *rest = rest.trim_start();
            *rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        }
        *rest = rest.strip_prefix('}').unwrap_or(rest);
        return;
    }
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '*';
    let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
    before.push(rest[..end].to_owned());
    *rest = &rest[end..];
    match rest.strip_prefix("::") {
        Some(more) if more.starts_with(|c| is_name(c) || c == '{') => {
            *rest = more;
            path(rest, before, out);
        }
        _ => {
            out.push(before.clone());
            // `as name`.
            let end = rest.find([',', '}', ';']).unwrap_or(rest.len());
            if rest.trim_start().starts_with("as ") {
                *rest = &rest[end..];
            }
        }
    }
    before.pop();
}

/// A text without what is behind `#[cfg(test)]`, and the modules in files of their
/// own that were left out.
fn without_tests(text: &str) -> (String, Vec<String>) {
    const MARK: &str = "#[cfg(test)]";
    let (mut out, mut files, mut rest) = (String::new(), Vec::new(), text);
    while let Some((before, behind)) = rest.split_once(MARK) {
        out.push_str(before);
        let end = behind.find(['{', ';']).unwrap_or(behind.len());
        if behind[end..].starts_with(';') {
            let item = behind[..end].trim();
            let name = item.rsplit_once("mod ").map(|(_, name)| name);
            files.extend(name.map(str::to_owned));
            rest = &behind[end + 1..];
            continue;
        }
        let mut depth = 0;
        let close = behind.char_indices().find(|&(_, c)| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == '}' && depth == 0
        });
        rest = close.map_or("", |(at, _)| &behind[at + 1..]);
    }
    out.push_str(rest);
    (out, files)
}

/// A text without comments, and with nothing in its strings and characters.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (kept, length) = if rest.starts_with("//") {
            (" ", rest.find('\n').unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            (" ", block_comment(rest))
        } else if c == '"' {
            ("\"\"", string(rest))
        } else if let Some(length) = raw_string(rest).filter(|_| !ends_in_word(&out)) {
            ("\"\"", length)
        } else if let Some(length) = character(rest) {
            ("' '", length)
        } else {
            (&rest[..c.len_utf8()], c.len_utf8())
        };
        out.push_str(kept);
        rest = &rest[length..];
    }
    out
}

fn ends_in_word(text: &str) -> bool {
    text.ends_with(|c: char| c.is_alphanumeric() || c == '_')
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    loop {
        let rest = &text[at..];
        let step = match rest {
            _ if rest.starts_with("/*") => 1,
            _ if rest.starts_with("*/") => -1,
            "" => return at,
            _ => 0,
        };
        depth += step;
        at += if step == 0 {
            rest.chars().next().unwrap().len_utf8()
        } else {
            2
        };
        if depth == 0 {
            return at;
        }
    }
}

fn string(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|&(_, c)| {
        let closes = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        closes
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// The length of `r"…"`, `r#"…"#` and so on.
fn raw_string(text: &str) -> Option<usize> {
    let start = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let inner = start.trim_start_matches('#');
    let hashes = &start[..start.len() - inner.len()];
    let body = inner.strip_prefix('"')?;
    let close = format!("\"{hashes}");
    let end = body.find(&close)? + close.len();
    Some(text.len() - body.len() + end)
}

/// The length of a character such as `'{'`, where it is no lifetime.
fn character(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('\'')?;
    if inner.starts_with('\\') {
        return Some(3 + inner[2..].find('\'')? + 1);
    }
    let c = inner.chars().next()?;
    inner[c.len_utf8()..]
        .starts_with('\'')
        .then(|| 2 + c.len_utf8())
}

#[test]
fn uses_are_found_wherever_they_stand() {
    let text = r##"
        use crate::{alpha::{One, two::*}, Beta as B, gamma};
        pub(crate) use crate::delta::Thing;
        // crate::comment
        /* crate::block /* crate::inner */ crate::still */
        fn f<'a>(x: &'a str) -> char {
            let text = ("crate::string \" crate::escaped", r#"crate::raw""#, '"', '\'', '{');
            crate::epsilon::call(x, super::super::zeta::VALUE, super::near, mycrate::x);
            crate::macro_here!(x)
        }
        macro_rules! m { () => { $crate::elsewhere::VALUE } }
        #[cfg(test)]
        mod tests { use crate::hidden; fn g() { { } } }
        #[cfg(test)]
        mod far;
        use crate::eta::{self};
    "##;
    let (library, files) = without_tests(&plain(text));
    assert_eq!(files, ["far"]);
    let first = |start| -> Vec<String> {
        let names = names_of(&library, start);
        names.into_iter().map(|path| path[0].clone()).collect()
    };
    let want = [
        "alpha",
        "alpha",
        "Beta",
        "gamma",
        "delta",
        "epsilon",
        "macro_here",
        "eta",
    ];
    assert_eq!(first("crate::"), want);
    assert_eq!(first("super::super::"), ["zeta"]);
    let all = names_of("use crate::{a::{b, c::d}};", "crate::");
    assert_eq!(all, [vec!["a", "b"], vec!["a", "c", "d"]]);
}

#[test]
fn uses_against_the_table_are_faults() {
    let table = |rows: &str| layers(&format!("\n### Layers\n\n|a|b|\n|-|-|\n{rows}\n"));
    let rows = "| **basics**: `error`, `real` | nothing |\n\
        | `sparse` | **basics** |\n| `data` | **basics**, `sparse` |\n| `task` | `data` |\n";
    let layers = table(rows).unwrap();
    let units = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let all: BTreeSet<String> = units(&["error", "real", "sparse", "data", "task"]);
    let uses = |from: &str, to: &str| vec![(from.to_owned(), to.to_owned(), "x.rs".into())];
    let none: [String; 0] = [];
    assert_eq!(faults(&layers, &all, &uses("data", "real"), &[]), none);
    assert_eq!(
        faults(&layers, &all, &uses("sparse", "task"), &[]),
        ["x.rs: `sparse` may not use `task`"]
    );
    let exception = [("sparse", "task")];
    assert_eq!(
        faults(&layers, &all, &uses("sparse", "task"), &exception),
        none
    );
    assert_eq!(
        faults(&layers, &all, &uses("data", "real"), &exception),
        ["`sparse` does not use `task` any more: delete the exception"]
    );
    let more: BTreeSet<String> = units(&["error", "real", "sparse", "data", "new"]);
    assert_eq!(
        faults(&layers, &more, &[], &[]),
        [
            "`new` is missing in the table of layers",
            "`task` of the table of layers does not exist"
        ]
    );
    let cycle = table("| `a` | `b` |\n| `b` | `a` |");
    assert_eq!(
        cycle.unwrap_err(),
        "`b` stands in no line above: | `a` | `b` |"
    );
    assert!(table("| `a` | nothing |\n| `a` | nothing |").is_err());
    assert!(table("").is_err() && super::layers::layers("").is_err());
}
