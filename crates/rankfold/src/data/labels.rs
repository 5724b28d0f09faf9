//! Labels from memory, or from a file of their own, for rows that bring none.

use std::fmt::Display;
use std::io::Read;
use std::path::Path;

use super::format::extension;
use super::npy::{Array, open_file};
use super::open::Lines;
use super::{Features, Labelled, Labels, RowIds};
use crate::{Error, Ids, Real, Result, Rows, memory};

/// Reads labels, one for each of so many rows of another file: an `.npy` array of
/// numbers or texts, or any other file as text, a label a line. An empty text is no
/// label. More labels than rows are an error; no more are read.
pub fn read_labels(path: impl AsRef<Path>, rows: usize) -> Result<Labels> {
    let path = path.as_ref();
    let too_many = |found: &str| {
        let message = format!("expected {rows} labels, one a row, found {found}");
        Error::input(message).in_file(path)
    };
    if extension(path).0 == "npy" {
        let mut array = open_file(path)?;
        let count = array.vector("labels")?;
        if count > rows as u64 {
            return Err(too_many(&count.to_string()));
        }
        let out = labels_of(&mut array)?;
        array.finish()?;
        return Ok(out);
    }
    let mut lines = Lines::open(path)?;
    let mut out = Labels::default();
    while let Some(line) = lines.next_line()? {
        let Ok(label) = std::str::from_utf8(line.trim_ascii()) else {
            return Err(lines.error("expected UTF-8 text"));
        };
        if out.len() == rows {
            return Err(too_many("more"));
        }
        out.push(Some(label).filter(|label| !label.is_empty()));
    }
    Ok(out)
}

/// Reads the names of labels that rows call by number, one a line: the first line
/// names label 0.
pub fn read_label_names(path: impl AsRef<Path>) -> Result<Ids> {
    let mut lines = Lines::open(path)?;
    let mut out = Ids::new();
    while let Some(line) = lines.next_line()? {
        let Ok(name) = std::str::from_utf8(line.trim_ascii()) else {
            return Err(lines.error("expected UTF-8 text"));
        };
        if name.is_empty() {
            return Err(lines.error("expected the name of a label, found an empty line"));
        }
        let count = out.len();
        if (out.intern(name) as usize) < count {
            let message = format!("the label `{name}` stands twice");
            return Err(lines.error(message));
        }
    }
    if out.is_empty() {
        return Err(Error::input("no names of labels").in_file(lines.path()));
    }
    Ok(out)
}

/// The items of an array as labels.
pub(super) fn labels_of(array: &mut Array<'_, impl Read>) -> Result<Labels> {
    let count = array.vector("labels")?;
    memory::require(u128::from(count) * 16, &format!("{count} labels"))?;
    let mut out = Labels::default();
    for _ in 0..count {
        let label = array.next_name()?;
        out.push(Some(label.as_str()).filter(|label| !label.is_empty()));
    }
    Ok(out)
}

impl Labels {
    /// One label for each row, a text or a number. An empty text is no label.
    pub fn single<L: Display>(labels: impl IntoIterator<Item = L>) -> Self {
        Self::several(labels.into_iter().map(|label| [label]))
    }

    /// Any number of labels for each row, each of which counts once. An empty text is
    /// no label.
    ///
    /// ```
    /// use rankfold::data::Labels;
    ///
    /// let labels = Labels::several([vec!["sea", "sky"], vec![], vec!["sky", "sky"]]);
    /// assert_eq!((labels.of(0), labels.of(1), labels.of(2)), (&[0, 1][..], &[][..], &[1][..]));
    /// ```
    pub fn several<L: Display, I: IntoIterator<Item = L>>(
        rows: impl IntoIterator<Item = I>,
    ) -> Self {
        let mut out = Labels::default();
        for row in rows {
            let names: Vec<String> = row.into_iter().map(|label| label.to_string()).collect();
            let of_row = names.iter().map(String::as_str);
            out.push(of_row.filter(|label| !label.is_empty()));
        }
        out
    }
}

impl<R: Real> Labelled<R> {
    /// Rows without labels, named by their positions, with numbers for features.
    pub fn new(rows: Rows<R>) -> Self {
        let mut labels = Labels::default();
        (0..rows.len()).for_each(|_| labels.push([]));
        Labelled {
            rows,
            labels,
            ids: RowIds::Positions,
            features: Features::Numbered,
        }
    }

    /// The same rows with these names; there must be as many as rows.
    pub fn with_ids<D: Display>(self, ids: impl IntoIterator<Item = D>) -> Result<Self> {
        let names: Vec<String> = ids.into_iter().map(|id| id.to_string()).collect();
        let (rows, found) = (self.rows.len(), names.len());
        if found != rows {
            return Err(Error::input(format!(
                "expected {rows} ids, one a row, found {found}"
            )));
        }
        let ids = RowIds::Named(names);
        Ok(Labelled { ids, ..self })
    }

    /// The same rows with these labels instead of their own; there must be as
    /// many as rows.
    pub fn with_labels(self, labels: Labels) -> Result<Self> {
        let (rows, found) = (self.rows.len(), labels.len());
        if found != rows {
            return Err(Error::input(format!(
                "expected {rows} labels, one a row, found {found}"
            )));
        }
        Ok(Labelled { labels, ..self })
    }

    /// The same rows, whose labels are numbers from 0 on and have these names.
    /// All names are labels, whether a row has them or not.
    pub fn with_label_names(self, names: Ids) -> Result<Self> {
        let known = names.len();
        let number = |label: &str| label.parse().ok().filter(|&n: &usize| n < known);
        let numbers: Vec<Option<usize>> = self.labels.names.iter().map(number).collect();
        let mut labels = Labels {
            names,
            numbered: true,
            ..Labels::default()
        };
        for i in 0..self.labels.len() {
            for &label in self.labels.of(i) {
                let Some(number) = numbers[label as usize] else {
                    return Err(Error::input(format!(
                        "row `{}` has label {}, expected a number from 0 to {}: there are {known} names",
                        self.ids.name(i),
                        self.labels.names.get(label),
                        known - 1
                    )));
                };
                labels.numbers.push(number as u32);
            }
            labels.starts.push(labels.numbers.len());
        }
        Ok(Labelled { labels, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::super::npy::fixture::{array, texts};
    use super::*;

    #[test]
    fn labels_come_from_memory() {
        let of = |labels: &Labels| -> Vec<Vec<u32>> {
            (0..labels.len()).map(|i| labels.of(i).to_vec()).collect()
        };
        let single = Labels::single([3, -1, 3]);
        assert_eq!(of(&single), [[0], [1], [0]]);
        assert_eq!(single.names.iter().collect::<Vec<_>>(), ["3", "-1"]);
        let texts = Labels::single(["b", "", "a", "b"].map(String::from));
        assert_eq!(of(&texts), [vec![0], vec![], vec![1], vec![0]]);
        let several = Labels::several([vec!["a", "b", "a"], vec![], vec!["", "b"]]);
        assert_eq!(of(&several), [vec![0, 1], vec![], vec![1]]);
        let none: [u8; 0] = [];
        assert_eq!(Labels::single(none), Labels::default());
        // Few and many labels of a row are told apart in two ways.
        let many: Vec<usize> = (0..200).map(|i| i * i % 37).collect();
        let labels = Labels::several([&many]);
        let mut want: Vec<usize> = Vec::new();
        many.iter().for_each(|&label| {
            if !want.contains(&label) {
                want.push(label);
            }
        });
        let found: Vec<&str> = labels.names.iter().collect();
        assert_eq!(found, want.iter().map(usize::to_string).collect::<Vec<_>>());
        assert_eq!(labels.of(0), (0..want.len() as u32).collect::<Vec<_>>());
    }

    #[test]
    fn rows_get_labels_names_and_features() {
        let rows = || Labelled::new(Rows::from_dense([[1.0_f32, 0.0], [0.0, 0.0]]).unwrap());
        let data = rows()
            .with_labels(Labels::single(["x", "y"]))
            .and_then(|data| data.with_ids([10, 20]))
            .and_then(|data| data.with_features(Features::named(["a", "b", "c"])?))
            .unwrap();
        assert_eq!(
            (data.ids.name(1), data.labels.of(1)),
            ("20".into(), &[1][..])
        );
        assert_eq!((data.rows.columns(), data.features.kind()), (3, "named"));
        assert_eq!((rows().ids, rows().labels.len()), (RowIds::Positions, 2));
        let columns = |names: &[&str]| Features::columns(names).map(|_| rows());
        let few = rows().with_features(Features::columns(["a"]).unwrap());
        let twice = Features::named([7, 7]).map(|_| rows());
        for (found, message) in [
            (
                rows().with_labels(Labels::single([1])),
                "expected 2 labels, one a row, found 1",
            ),
            (rows().with_ids(["a"]), "expected 2 ids, one a row, found 1"),
            (few, "expected 2 names of features, one a column, found 1"),
            (twice, "feature `7` stands twice"),
            (columns(&["a", "b", "a"]), "column `a` stands twice"),
            (columns(&["a", ""]), "column 2 has no name"),
        ] {
            assert_eq!(found.unwrap_err().message, message);
        }
        let empty = Labelled::new(Rows::<f64>::new());
        let empty = empty.with_labels(Labels::default()).unwrap();
        assert_eq!((empty.rows.len(), empty.labels.len()), (0, 0));
    }

    #[test]
    fn labels_from_text_and_from_arrays() {
        let dir = tempfile::tempdir().unwrap();
        let read = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            crate::data::write_atomically(&path, |out| out.write_all(bytes)).unwrap();
            read_labels(&path, 4)
        };
        let text = read("l.txt.gz", b"b c\r\n\na\nb c").unwrap();
        let of: Vec<&[u32]> = (0..text.len()).map(|i| text.of(i)).collect();
        assert_eq!(of, [&[0][..], &[], &[1], &[0]]);
        assert_eq!(text.names.iter().collect::<Vec<_>>(), ["b c", "a"]);
        let items = texts(&["b c", "", "a", "b c"], 3);
        let same = read("l.npy", &array("<U3", false, "(4,)", &items)).unwrap();
        assert_eq!(same, text);
        let numbers = read("l.npy.zst", &array("|i1", false, "(2,)", &[0xff, 3])).unwrap();
        assert_eq!(numbers.names.iter().collect::<Vec<_>>(), ["-1", "3"]);
        let error = read("l.txt", b"a\n\xff\n").unwrap_err();
        assert_eq!(
            (error.message.as_str(), error.line),
            ("expected UTF-8 text", Some(2))
        );
        let error = read("l.npy", &array("|i1", false, "(1, 1)", &[3])).unwrap_err();
        let want = "expected labels, one after the other, found an array of shape [1, 1]";
        assert_eq!(error.message, want);

        let bomb = vec![b'\n'; 1 << 24];
        for (name, bytes, found) in [
            ("l.txt.gz", &bomb[..], "more"),
            ("l.txt.zst", &bomb, "more"),
            ("l.npy", &array("|i1", false, "(5,)", &[0; 5]), "5"),
        ] {
            let error = read(name, bytes).unwrap_err();
            let want = format!("expected 4 labels, one a row, found {found}");
            assert_eq!(error.message, want, "{name}");
        }

        let data = Labelled::new(Rows::<f32>::new());
        let error = data.with_labels(text).unwrap_err();
        assert_eq!(error.message, "expected 0 labels, one a row, found 4");
    }
}
