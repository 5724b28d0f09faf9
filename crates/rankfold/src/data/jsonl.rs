//! Rows as JSON lines: `{"id":…, "label":"x", "row":{"feature":value,…}}`, or
//! `"labels":[…]`; other fields are ignored. A `null` value is missing. A row may be a list of
//! numbers, whose features are called 1, 2, …, and be called `embedding`.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use super::fields::json_fields;
use super::lookup::NamesRead;
use super::number::{label_name, shown};
use super::open::Lines;
use super::stream::other_shape;
use super::table::no_rows;
use super::text::Documents;
use super::{Features, Labelled, Labels};
use crate::{Ids, Real, Result, Rows, SparseRow};

/// Reads a file of JSON rows.
pub fn read_jsonl<R: Real>(path: impl AsRef<Path>) -> Result<Labelled<R>> {
    read_named(&Documents::new(path))
}

/// The same with other fields for labels and ids, and rows of one value only.
pub(super) fn read_named<R: Real>(source: &Documents) -> Result<Labelled<R>> {
    read_lines(Lines::open_with(&source.path, &source.reading)?, source)
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    id: Option<Scalar<'a>>,
    #[serde(borrow)]
    label: Option<Scalar<'a>>,
    #[serde(borrow)]
    labels: Option<Vec<LabelText<'a>>>,
    #[serde(borrow)]
    row: Option<Entries<'a>>,
    #[serde(borrow)]
    embedding: Option<Entries<'a>>,
}

/// A label in a list: a text, a number, or an object that names it.
struct LabelText<'a>(Cow<'a, str>);

/// The fields of an object that name a label, the clearest first.
const NAMES: [&str; 4] = ["name", "label", "text", "id"];

impl<'de: 'a, 'a> Deserialize<'de> for LabelText<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Label;
        impl<'de> Visitor<'de> for Label {
            type Value = LabelText<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number or an object with a `name`")
            }
            fn visit_borrowed_str<E>(self, v: &'de str) -> std::result::Result<Self::Value, E> {
                Ok(LabelText(v.into()))
            }
            fn visit_str<E>(self, v: &str) -> std::result::Result<Self::Value, E> {
                Ok(LabelText(v.to_owned().into()))
            }
            fn visit_u64<E>(self, v: u64) -> std::result::Result<Self::Value, E> {
                Ok(LabelText(v.to_string().into()))
            }
            fn visit_i64<E>(self, v: i64) -> std::result::Result<Self::Value, E> {
                Ok(LabelText(v.to_string().into()))
            }
            fn visit_f64<E: serde::de::Error>(self, v: f64) -> std::result::Result<Self::Value, E> {
                Scalar::deserialize(serde::de::value::F64Deserializer::new(v))
                    .map(|Scalar(text)| LabelText(text))
            }
            fn visit_map<M: MapAccess<'de>>(
                self,
                mut map: M,
            ) -> std::result::Result<Self::Value, M::Error> {
                let mut best: Option<(usize, Cow<'de, str>)> = None;
                while let Some(Scalar(key)) = map.next_key()? {
                    let place = NAMES.iter().position(|name| *name == key);
                    let better = |place: &usize| best.as_ref().is_none_or(|found| *place < found.0);
                    match place.filter(better) {
                        Some(place) => best = Some((place, map.next_value::<Scalar<'de>>()?.0)),
                        None => {
                            map.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                let missing = || serde::de::Error::custom("expected a field `name` of the label");
                best.map(|(_, text)| LabelText(text)).ok_or_else(missing)
            }
        }
        from.deserialize_any(Label)
    }
}

/// A text or a number, or a list of labels.
#[derive(Clone)]
pub(super) struct Listed<'a> {
    pub(super) texts: Vec<Cow<'a, str>>,
    pub(super) is_list: bool,
}

impl<'de: 'a, 'a> Deserialize<'de> for Listed<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct OneOrMore;
        fn one<'a>(Scalar(text): Scalar<'a>) -> Listed<'a> {
            Listed {
                texts: vec![text],
                is_list: false,
            }
        }
        impl<'de> Visitor<'de> for OneOrMore {
            type Value = Listed<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number or a list of them")
            }
            fn visit_borrowed_str<E>(self, v: &'de str) -> std::result::Result<Self::Value, E> {
                Ok(one(Scalar(v.into())))
            }
            fn visit_str<E>(self, v: &str) -> std::result::Result<Self::Value, E> {
                Ok(one(Scalar(v.to_owned().into())))
            }
            fn visit_u64<E>(self, v: u64) -> std::result::Result<Self::Value, E> {
                Ok(one(Scalar(v.to_string().into())))
            }
            fn visit_i64<E>(self, v: i64) -> std::result::Result<Self::Value, E> {
                Ok(one(Scalar(v.to_string().into())))
            }
            fn visit_f64<E: serde::de::Error>(self, v: f64) -> std::result::Result<Self::Value, E> {
                Scalar::deserialize(serde::de::value::F64Deserializer::new(v)).map(one)
            }
            fn visit_seq<S: SeqAccess<'de>>(
                self,
                mut list: S,
            ) -> std::result::Result<Self::Value, S::Error> {
                let mut texts = Vec::new();
                while let Some(LabelText(text)) = list.next_element()? {
                    texts.push(text);
                }
                Ok(Listed {
                    texts,
                    is_list: true,
                })
            }
        }
        from.deserialize_any(OneOrMore)
    }
}

/// A text, or a number in its one spelling as a label.
#[derive(Clone)]
pub(super) struct Scalar<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Scalars;
        impl<'de> Visitor<'de> for Scalars {
            type Value = Scalar<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a number")
            }
            fn visit_borrowed_str<E>(self, v: &'de str) -> std::result::Result<Scalar<'de>, E> {
                Ok(Scalar(v.into()))
            }
            fn visit_str<E>(self, v: &str) -> std::result::Result<Scalar<'de>, E> {
                Ok(Scalar(v.to_owned().into()))
            }
            fn visit_u64<E>(self, v: u64) -> std::result::Result<Scalar<'de>, E> {
                Ok(Scalar(v.to_string().into()))
            }
            fn visit_i64<E>(self, v: i64) -> std::result::Result<Scalar<'de>, E> {
                Ok(Scalar(v.to_string().into()))
            }
            fn visit_f64<E>(self, v: f64) -> std::result::Result<Scalar<'de>, E> {
                let text = v.to_string();
                let name = label_name(text.as_bytes()).map(Cow::into_owned);
                Ok(Scalar(name.unwrap_or(text).into()))
            }
        }
        from.deserialize_any(Scalars)
    }
}

/// The features of a row, in the order of the line.
pub(super) struct Entries<'a>(pub(super) Vec<(Cow<'a, str>, Option<f64>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Entries<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of features and numbers, or a list of numbers")
            }
            fn visit_seq<S: SeqAccess<'de>>(
                self,
                mut list: S,
            ) -> std::result::Result<Entries<'de>, S::Error> {
                let mut out = Vec::new();
                while let Some(value) = list.next_element()? {
                    out.push(((out.len() + 1).to_string().into(), value));
                }
                Ok(Entries(out))
            }
            fn visit_map<M: MapAccess<'de>>(
                self,
                mut map: M,
            ) -> std::result::Result<Entries<'de>, M::Error> {
                let mut out = Vec::new();
                while let Some((Scalar(key), value)) = map.next_entry()? {
                    out.push((key, value));
                }
                Ok(Entries(out))
            }
        }
        from.deserialize_any(Map)
    }
}

/// A line that is an object; the parser would take an array for one as well.
pub(super) fn object(line: &[u8]) -> std::result::Result<&[u8], String> {
    if line.trim_ascii_start().starts_with(b"{") {
        Ok(line)
    } else {
        Err(format!("expected a JSON object, found {}", shown(line)))
    }
}

/// What is wrong with a line, without the parser's own line number.
pub(super) fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(what) if error.is_eof() => {
            format!("column {}: {what}; is the line cut short?", error.column())
        }
        Some(what) => format!("column {}: {what}", error.column()),
        None => text,
    }
}

fn read_lines<R: Real>(mut lines: Lines, source: &Documents) -> Result<Labelled<R>> {
    let condition = source.condition.as_ref();
    let other_label = (source.label != "label").then_some(source.label.as_str());
    let wanted = [
        other_label,
        source.id.as_deref(),
        condition.map(|c| c.field.as_str()),
    ];
    let picks = wanted.iter().any(Option::is_some);
    let mut rows = Rows::new();
    let mut labels = Labels::default();
    let mut features = Ids::new();
    let mut names = NamesRead::default();
    let mut entries: Vec<(u32, R)> = Vec::new();
    while let Some(line) = lines.next_line()? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        entries.clear();
        let picked = match picks {
            true => json_fields(line, wanted),
            false => Ok([const { None }; 3]),
        };
        let added = picked.and_then(|[label, id, value]| {
            if condition.is_some_and(|c| value.as_deref() != Some(&c.value)) {
                return Ok(false);
            }
            let raw = line;
            let line = object(line)?;
            let mut line: Line = serde_json::from_slice(line).map_err(|e| message(&e))?;
            if other_label.is_some() && (source.strict || label.is_some()) {
                (line.label, line.labels) = (label.map(Scalar), None);
            }
            match (&source.id, id) {
                (Some(_), Some(id)) => line.id = Some(Scalar(id)),
                (Some(name), None) if source.strict => {
                    return Err(format!("expected a field `{name}`"));
                }
                _ => {}
            }
            if line.label.is_some() && line.labels.is_some() {
                return Err("both `label` and `labels` are given".into());
            }
            let row = match (&line.row, &line.embedding) {
                (Some(row), _) | (None, Some(row)) => row,
                (None, None) => {
                    return Err(other_shape("a field `row` or `embedding`", raw));
                }
            };
            intern(row, &mut features, &mut entries)?;
            let listed = line.labels.iter().flatten().map(|label| &label.0);
            let of_row = line.label.iter().map(|label| &label.0).chain(listed);
            labels.push(of_row.map(AsRef::as_ref));
            if let Some(Scalar(id)) = line.id {
                names.put(rows.len(), id);
            }
            Ok(true)
        });
        match added {
            Ok(true) => {}
            Ok(false) => continue,
            Err(message) => {
                lines.bad(message)?;
                continue;
            }
        }
        let (indices, values): (Vec<u32>, Vec<R>) = entries.iter().copied().unzip();
        rows.push(SparseRow {
            indices: &indices,
            values: &values,
        });
    }
    if rows.is_empty() {
        return Err(no_rows(source).in_file(lines.path()));
    }
    rows.widen(features.len());
    Ok(names.rows(rows, labels, Features::Named(features)))
}

/// Numbers the features of a row and sorts them; zeros are not stored.
fn intern<R: Real>(
    row: &Entries<'_>,
    features: &mut Ids,
    entries: &mut Vec<(u32, R)>,
) -> std::result::Result<(), String> {
    for (name, value) in &row.0 {
        let index = features.intern(name);
        let value = value.unwrap_or(f64::NAN);
        if value.abs() > R::MAX {
            return Err(format!(
                "the value of `{name}` is too large for {}: {value:e}",
                R::NAME
            ));
        }
        entries.push((index, R::from_f64(value)));
    }
    entries.sort_by_key(|e| e.0);
    if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(format!(
            "feature `{}` stands twice",
            features.get(pair[0].0)
        ));
    }
    entries.retain(|e| e.1 != R::default());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::RowIds;
    use super::*;

    fn read(text: &str) -> Result<Labelled<f32>> {
        let source = std::io::Cursor::new(text.as_bytes().to_vec());
        let lines = Lines::new(Box::new(source), "r.jsonl");
        read_lines(lines, &Documents::new("r.jsonl"))
    }

    #[test]
    fn good_and_awkward_rows() {
        let text = r#"{"row":{"b":1,"a":2.5},"label":"x","extra":[1]}

{"row":{"a":1,"\u00fc":null,"b":0},"labels":["y",1.0,1],"id":7}
{"row":{},"label":null}"#;
        let data = read(text).unwrap();
        assert_eq!(
            data.rows.row(0).iter().collect::<Vec<_>>(),
            [(0, 1.0), (1, 2.5)]
        );
        assert_eq!(data.rows.row(1).indices, [1, 2]);
        assert!(data.rows.row(1).values[1].is_nan());
        assert!(data.rows.row(2).is_empty());
        assert_eq!(
            data.labels.names.iter().collect::<Vec<_>>(),
            ["x", "y", "1"]
        );
        assert_eq!(data.labels.of(1), [1, 2]);
        assert_eq!(data.labels.of(2), [0u32; 0]);
        assert_eq!(
            data.ids,
            RowIds::Named(["0", "7", "2"].map(String::from).into())
        );
        let Features::Named(features) = data.features else {
            panic!("features have names");
        };
        assert_eq!(features.iter().collect::<Vec<_>>(), ["b", "a", "ü"]);
    }

    #[test]
    fn rows_are_lists_and_labels_objects() {
        let text = r#"{"row":[0,1.5],"labels":[{"id":7,"name":"x"},"y",{"id":3}]}
{"embedding":[1,null],"label":"x"}"#;
        let data = read(text).unwrap();
        assert_eq!(data.rows.row(0).iter().collect::<Vec<_>>(), [(1, 1.5)]);
        assert!(data.rows.row(1).values[1].is_nan());
        let names: Vec<&str> = data.labels.names.iter().collect();
        assert_eq!((names, data.labels.of(1)), (vec!["x", "y", "3"], &[0][..]));
        let Features::Named(features) = data.features else {
            panic!("features have names");
        };
        assert_eq!(features.iter().collect::<Vec<_>>(), ["1", "2"]);
    }

    #[test]
    fn every_bad_line_says_what_is_wrong() {
        let cases = [
            (
                "{\"row\":{\"a\":1}",
                "column 14: EOF while parsing an object; is the line cut short?",
            ),
            ("[1]", "expected a JSON object, found `[1]`"),
            (
                "{\"label\":1}",
                "expected a field `row` or `embedding`, found `label`",
            ),
            (
                "{\"row\":{\"a\":\"b\"}}",
                "column 15: invalid type: string \"b\", expected f64",
            ),
            (
                "{\"row\":{\"a\":1e39}}",
                "the value of `a` is too large for f32: 1e39",
            ),
            ("{\"row\":{\"a\":1e999}}", "column 17: number out of range"),
            ("{\"row\":{\"a\":NaN}}", "column 13: expected value"),
            ("{\"row\":{\"a\":1,\"a\":2}}", "feature `a` stands twice"),
            (
                "{\"row\":{},\"label\":true}",
                "column 22: invalid type: boolean `true`, expected a text or a number",
            ),
            (
                "{\"row\":{},\"label\":1,\"labels\":[]}",
                "both `label` and `labels` are given",
            ),
        ];
        for (line, want) in cases {
            let got = read(&format!("{{\"row\":{{}}}}\n{line}\n"))
                .unwrap_err()
                .to_string();
            assert_eq!(got, format!("r.jsonl:2: {want}"));
        }
        assert_eq!(read("\n").unwrap_err().to_string(), "r.jsonl: no rows");
    }
}
