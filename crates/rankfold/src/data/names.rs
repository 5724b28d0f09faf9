//! Names that people read, such as the titles of items.

use std::path::Path;

use super::columns::Source;
use super::format::{Format, LineFormat};
use super::open::Lines;
use crate::{Error, Result};
use hashbrown::HashMap;

/// What the columns of ids and of names may be called, besides the first two of a file
/// without a header.
const IDS: [&str; 4] = ["item", "id", "movieId", "itemId"];
const NAMES: [&str; 3] = ["title", "name", "label"];

/// Reads the names of items: a table with the columns `item` (or `id`) and `title` (or
/// `name`), or JSON lines with such fields.
pub fn read_names(path: impl AsRef<Path>) -> Result<HashMap<String, String>> {
    let path = path.as_ref();
    let kind = match Format::of(path) {
        Ok(Format::Lines(kind)) if kind != LineFormat::Svmlight => kind,
        _ => {
            let message = "names are read from .csv, .tsv or .jsonl, plain or with .gz or .zst, .parquet or .arrow";
            return Err(Error::input(message).in_file(path));
        }
    };
    let mut source = Source::new(Lines::open_as(path, path, path)?, kind)?;
    let mut column = |names: &[&str], number: &str| {
        let found = names.iter().find_map(|name| source.column(name).ok());
        match found {
            Some(column) => Ok(column),
            None if source.header().is_none() => source.column(number),
            None => {
                let message = format!("no column of names: expected one called `{}`", names[0]);
                Err(Error::input(message).in_file(path))
            }
        }
    };
    let (id, name) = (column(&IDS, "1")?, column(&NAMES, "2")?);
    let mut out = HashMap::new();
    while source.advance()? {
        let [id, name] = source.values([&id, &name])?;
        let texts = [id, name].map(|field| String::from_utf8(field.into_owned()));
        let [Ok(id), Ok(name)] = texts else {
            return Err(source.error("expected an id and a name in UTF-8"));
        };
        out.insert(id, name);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_under_usual_columns() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            read_names(&path)
        };
        for (name, text) in [
            ("a.csv", "item,year,title\nm1,1999,\"One, Two\"\n"),
            ("a.tsv", "name\tid\nOne, Two\tm1\n"),
            ("a.jsonl", "{\"item\":\"m1\",\"title\":\"One, Two\"}\n"),
        ] {
            let found = read(name, text).unwrap();
            assert_eq!(
                found.get("m1").map(String::as_str),
                Some("One, Two"),
                "{name}"
            );
        }
        let error = read("b.csv", "item,year\nm1,1999\n").unwrap_err();
        assert!(error.message.contains("`title`"), "{error}");
        assert!(read("b.npy", "").is_err());
    }
}
