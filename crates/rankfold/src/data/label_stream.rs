//! A stream of rows with labels as JSON lines: `{"row":R,"labels":[…]}`, where R is
//! the id of a row, or features by value, and labels are texts or numbers.
//!
//! Other fields are ignored, empty lines are skipped.

use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::jsonl::{message, object};
use super::open::Lines;
use super::stream::{Names, Role, RoleSeed, StreamRow, TextSeed, other_shape};
use crate::{Error, Real, Result};

/// A label as a line gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelName {
    /// A text.
    Name(String),
    /// A whole number.
    Number(u64),
}

impl<'de> Deserialize<'de> for LabelName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Label;
        impl Visitor<'_> for Label {
            type Value = LabelName;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a label, a text or a whole number")
            }
            fn visit_str<E>(self, text: &str) -> std::result::Result<LabelName, E> {
                Ok(LabelName::Name(text.to_owned()))
            }
            fn visit_u64<E>(self, number: u64) -> std::result::Result<LabelName, E> {
                Ok(LabelName::Number(number))
            }
        }
        from.deserialize_any(Label)
    }
}

/// Rows and labels read one by one from a file, a pipe, or anything else.
pub struct LabelStream<R> {
    lines: Lines,
    /// The line of the last row.
    line: u64,
    role: Role<R>,
    labels: Vec<LabelName>,
}

impl<R: Real> LabelStream<R> {
    /// Opens a file; `-` is stdin.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Lines::open(path).map(Self::new)
    }

    /// Rows from any lines.
    pub fn new(lines: Lines) -> Self {
        LabelStream {
            lines,
            line: 0,
            role: Role::default(),
            labels: Vec::new(),
        }
    }

    /// The next row with its labels, or `None` after the last.
    pub fn read(&mut self, names: Names<'_>) -> Result<Option<(StreamRow<'_, R>, &[LabelName])>> {
        loop {
            let Some(line) = self.lines.next_line()? else {
                return Ok(None);
            };
            if !line.trim_ascii().is_empty() {
                match parse(line, &mut self.role, names) {
                    Ok(labels) => self.labels = labels,
                    Err(message) => {
                        self.lines.bad(message)?;
                        continue;
                    }
                }
                self.line = self.lines.number();
                return Ok(Some((self.role.get(), &self.labels)));
            }
        }
    }

    /// The line of the last row, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// An error at that line.
    pub fn place(&self, error: Error) -> Error {
        error.in_file(self.lines.path()).at_line(self.line)
    }
}

fn parse<R: Real>(
    line: &[u8],
    role: &mut Role<R>,
    names: Names<'_>,
) -> std::result::Result<Vec<LabelName>, String> {
    role.clear();
    let mut reader = serde_json::Deserializer::from_slice(object(line)?);
    let row = &mut *role;
    let read = LineSeed { role: row, names }.deserialize(&mut reader);
    let read = read.and_then(|labels| reader.end().map(|()| labels));
    let labels = read.map_err(|e| message(&e))?;
    match labels {
        Some(labels) if role.is_found() => {
            role.settle(names)?;
            Ok(labels)
        }
        _ => Err(other_shape("the fields `row` and `labels`", line)),
    }
}

struct LineSeed<'s, R> {
    role: &'s mut Role<R>,
    names: Names<'s>,
}

impl<'de, R: Real> DeserializeSeed<'de> for LineSeed<'_, R> {
    type Value = Option<Vec<LabelName>>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        from: D,
    ) -> std::result::Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, R: Real> Visitor<'de> for LineSeed<'_, R> {
    type Value = Option<Vec<LabelName>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(
        self,
        mut map: M,
    ) -> std::result::Result<Self::Value, M::Error> {
        let LineSeed { role, names } = self;
        let field = TextSeed(|key: &str| match key {
            "row" => Some(0),
            "labels" => Some(1),
            _ => None,
        });
        let mut labels = None;
        while let Some(field) = map.next_key_seed(field)? {
            match field {
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
                Some(0) if role.is_found() => return Err(M::Error::custom("`row` stands twice")),
                Some(0) => {
                    let role = &mut *role;
                    map.next_value_seed(RoleSeed { role, names })?;
                }
                Some(_) if labels.is_some() => {
                    return Err(M::Error::custom("`labels` stands twice"));
                }
                Some(_) => labels = Some(map.next_value::<Vec<LabelName>>()?),
            }
        }
        Ok(labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Features, RowIds, RowLookup};

    fn stream(text: &str) -> LabelStream<f32> {
        let source = std::io::Cursor::new(text.as_bytes().to_vec());
        LabelStream::new(Lines::new(Box::new(source), "s.jsonl"))
    }

    #[test]
    fn rows_come_by_id_or_by_value_and_labels_as_texts_or_numbers() {
        let ids = RowIds::Positions;
        let rows = RowLookup::new(&ids, 3);
        let names = Names::new(&Features::Numbered, Some(&rows));
        let text = "{\"row\":2,\"labels\":[\"sea\",17]}\n\n\
                    {\"labels\":[],\"row\":{\"4\":1.5},\"time\":0}\n";
        let mut stream = stream(text);
        let (row, labels) = stream.read(names).unwrap().unwrap();
        assert_eq!(row, StreamRow::Row(2));
        let want = [LabelName::Name("sea".into()), LabelName::Number(17)];
        assert_eq!(labels, want);
        let (row, labels) = stream.read(names).unwrap().unwrap();
        let known = &[(3, 1.5)];
        assert_eq!(row, StreamRow::Features { known, new: &[] });
        assert_eq!(labels, []);
        assert_eq!(stream.read(names), Ok(None));
        assert_eq!(stream.line(), 3);
    }

    #[test]
    fn every_bad_line_says_what_is_wrong() {
        let shape = "expected the fields `row` and `labels`, found";
        let cases = [
            ("{\"row\":{}}", format!("{shape} `row`")),
            (
                "{\"query\":1,\"positive\":2}",
                format!("{shape} `query`, `positive`"),
            ),
            (
                "{\"row\":{},\"labels\":\"sea\"}",
                "column 24: invalid type: string \"sea\", expected a sequence".into(),
            ),
            (
                "{\"row\":{},\"labels\":[1.5]}",
                "column 23: invalid type: floating point `1.5`, expected a label, a text or a whole number"
                    .into(),
            ),
            (
                "{\"row\":{\"1\":1,\"1\":2},\"labels\":[]}",
                "feature 1 stands twice".into(),
            ),
            (
                "{\"row\":{},\"row\":{},\"labels\":[]}",
                "column 15: `row` stands twice".into(),
            ),
            (
                "{\"row\":{},\"labels\":[1",
                "column 21: EOF while parsing a list; is the line cut short?".into(),
            ),
        ];
        for (line, want) in cases {
            let names = Names::new(&Features::Numbered, None);
            let error = stream(&format!("\n{line}\n")).read(names).unwrap_err();
            assert_eq!(error.to_string(), format!("s.jsonl:2: {want}"), "{line}");
        }
    }
}
