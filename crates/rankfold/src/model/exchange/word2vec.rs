//! Word vectors as text: a line with the number of words and of columns, then a line a word.

use crate::data::Lines;
use crate::{Ids, Result};
use std::path::Path;

/// Reads the text format of word2vec: names, rows one behind the other, and their length.
pub fn read_word2vec(path: impl AsRef<Path>) -> Result<(Ids, Vec<f64>, usize)> {
    let mut lines = Lines::open(path)?;
    let first = lines
        .next_line()?
        .map(|line| String::from_utf8_lossy(line).into_owned());
    let head = first.unwrap_or_default();
    let numbers: Vec<Option<usize>> = head.split_whitespace().map(|f| f.parse().ok()).collect();
    let [Some(rows), Some(k @ 1..=65_536)] = numbers[..] else {
        return Err(lines.error(format!(
            "expected the number of words and of columns, as word2vec text begins, found `{head}`"
        )));
    };
    // Sizes are claims: memory grows with the lines that are there.
    let (mut names, mut values) = (Ids::new(), Vec::new());
    while let Some(line) = lines.next_line()? {
        let text = match std::str::from_utf8(line) {
            Ok(text) => text.trim_end().to_owned(),
            Err(_) => return Err(lines.error("expected UTF-8")),
        };
        let mut fields = text.split(' ');
        let name = fields.next().unwrap_or_default();
        let before = (names.len(), values.len());
        if name.is_empty() || names.intern(name) as usize != before.0 {
            return Err(lines.error(format!("the word `{name}` is empty, or stands twice")));
        }
        for field in fields {
            match field.parse::<f64>() {
                Ok(value) if value.is_finite() => values.push(value),
                _ => return Err(lines.error(format!("expected a number, found `{field}`"))),
            }
        }
        let found = values.len() - before.1;
        if found != k {
            return Err(lines.error(format!(
                "expected {k} numbers behind `{name}`, found {found}"
            )));
        }
    }
    match names.len() == rows {
        true => Ok((names, values, k)),
        false => Err(lines.error(format!("expected {rows} words, found {}", names.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_and_damage_has_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.vec");
        let text = "2 3\nking 1 0.5 -2\nqueen 0 1e-3 4 \n";
        std::fs::write(&path, text).unwrap();
        let (names, values, k) = read_word2vec(&path).unwrap();
        assert_eq!((names.get(1), k), ("queen", 3));
        assert_eq!(values, [1.0, 0.5, -2.0, 0.0, 1e-3, 4.0]);
        for (from, to, what) in [
            ("2 3", "two 3", "word2vec text begins"),
            ("2 3", "3 3", "expected 3 words, found 2"),
            ("0.5", "x", "`x`"),
            ("queen", "king", "twice"),
            (" -2", "", "found 2"),
        ] {
            std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
            let error = read_word2vec(&path).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
    }
}
