//! A stream of triplets as JSON lines: `{"query":R,"positive":R,"negative":R}`,
//! where R is the id of a row, or features by value, `{"feature":value,…}`.
//!
//! A line may also name three rows as a file of triplets does: `query positive negative`,
//! separated by tabs or spaces.
//!
//! Other fields are ignored, empty lines are skipped, a `null` value is missing.
//! A line is read as a whole before anything is done with it, and once the
//! buffers have their size a line of known ids or features allocates nothing.

use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::jsonl::{Scalar, message, object};
use super::number::shown;
use super::open::Lines;
use super::svmlight::index_number;
use super::{Features, RowLookup};
use crate::sample::Triplet;
use crate::sparse::MAX_INDEX;
use crate::{Error, Real, Result};

/// The fields of a line.
const ROLES: [&str; 3] = ["query", "positive", "negative"];

/// Triplets read one by one from a file, a pipe, or anything else.
pub struct TripletStream<R> {
    lines: Lines,
    /// The line of the last triplet.
    line: u64,
    roles: [Role<R>; 3],
}

/// A row as a line gives it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StreamRow<'a, R> {
    /// The row of this number among those that ids name.
    Row(usize),
    /// Features by value, without zeros; NaN is missing.
    Features {
        /// Columns that are known, rising.
        known: &'a [(u32, R)],
        /// Names that are not, as they came, each once.
        new: &'a [(String, R)],
    },
}

/// One of the three rows of a line, in memory that is used again.
#[derive(Debug, Default)]
pub(super) struct Role<R> {
    found: Option<Found>,
    known: Vec<(u32, R)>,
    new: Vec<(String, R)>,
}

#[derive(Debug, Clone, Copy)]
enum Found {
    Row(usize),
    Features,
}

/// Where the names in a line lead.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    features: &'a Features,
    rows: Option<&'a RowLookup<'a>>,
    /// What errors call a row.
    noun: &'static str,
}

impl<'a> Names<'a> {
    /// Features are found by what these are called, ids in these rows.
    pub fn new(features: &'a Features, rows: Option<&'a RowLookup<'a>>) -> Self {
        Names {
            features,
            rows,
            noun: "row",
        }
    }

    /// The same, for rows that errors call objects.
    pub fn of_objects(self) -> Self {
        Names {
            noun: "object",
            ..self
        }
    }
}

impl<R: Real> TripletStream<R> {
    /// Opens a file; `-` is stdin.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Lines::open(path).map(Self::new)
    }

    /// Triplets from any lines.
    pub fn new(lines: Lines) -> Self {
        let roles = [(); 3].map(|()| Role::default());
        TripletStream {
            lines,
            line: 0,
            roles,
        }
    }

    /// The next triplet, or `None` after the last: ids are found in `rows`,
    /// features by what `features` calls them.
    pub fn read(
        &mut self,
        features: &Features,
        rows: Option<&RowLookup<'_>>,
    ) -> Result<Option<Triplet<StreamRow<'_, R>>>> {
        let names = Names::new(features, rows);
        self.read_between(names, names)
    }

    /// The same where the query is a row and the others are objects.
    pub fn read_between(
        &mut self,
        rows: Names<'_>,
        objects: Names<'_>,
    ) -> Result<Option<Triplet<StreamRow<'_, R>>>> {
        let names = [rows, objects, objects];
        loop {
            let Some(line) = self.lines.next_line()? else {
                return Ok(None);
            };
            if !line.trim_ascii().is_empty() {
                if let Err(message) = parse(line, &mut self.roles, names) {
                    self.lines.bad(message)?;
                    continue;
                }
                self.line = self.lines.number();
                break;
            }
        }
        let [query, positive, negative] = self.roles.each_ref().map(Role::get);
        Ok(Some(Triplet {
            query,
            positive,
            negative,
        }))
    }

    /// The line of the last triplet, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// An error at that line.
    pub fn place(&self, error: Error) -> Error {
        error.in_file(self.lines.path()).at_line(self.line)
    }
}

impl<R: Real> Role<R> {
    /// Whether a row was found since it was emptied.
    pub fn is_found(&self) -> bool {
        self.found.is_some()
    }

    pub fn clear(&mut self) {
        self.found = None;
        self.known.clear();
        self.new.clear();
    }

    pub fn get(&self) -> StreamRow<'_, R> {
        match self.found {
            Some(Found::Row(row)) => StreamRow::Row(row),
            _ => StreamRow::Features {
                known: &self.known,
                new: &self.new,
            },
        }
    }

    /// The row of this id.
    pub fn name(&mut self, id: &[u8], names: Names<'_>) -> std::result::Result<(), String> {
        let id = std::str::from_utf8(id).map_err(|_| "expected UTF-8 text")?;
        let noun = names.noun;
        let rows = names.rows.ok_or_else(|| {
            format!("found the {noun} id `{id}` and no {noun}s to look it up in: give --{noun}s")
        })?;
        let row = rows.find(id).map_err(|e| e.message)?;
        self.found = Some(Found::Row(row));
        Ok(())
    }

    /// Sorts what was found, and leaves out zeros.
    pub fn settle(&mut self, names: Names<'_>) -> std::result::Result<(), String> {
        self.known.sort_unstable_by_key(|e| e.0);
        if let Some(pair) = self.known.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let column = pair[0].0;
            return Err(match names.features {
                Features::Numbered | Features::Terms(_) => {
                    format!("feature {} stands twice", u64::from(column) + 1)
                }
                Features::Named(ids) | Features::Columns(ids) => twice(ids.get(column)),
            });
        }
        if !self.new.is_empty() {
            let mut sorted: Vec<&str> = self.new.iter().map(|e| e.0.as_str()).collect();
            sorted.sort_unstable();
            if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(twice(pair[0]));
            }
        }
        self.known.retain(|e| e.1 != R::default());
        self.new.retain(|e| e.1 != R::default());
        Ok(())
    }
}

/// Reads rows one at a time, each as a stream gives it: an id, or features by value.
#[derive(Debug, Default)]
pub struct RowReader<R> {
    role: Role<R>,
}

impl<R: Real> RowReader<R> {
    /// The row that a piece of JSON stands for.
    pub fn read(&mut self, json: &[u8], names: Names<'_>) -> Result<StreamRow<'_, R>> {
        self.role.clear();
        let mut reader = serde_json::Deserializer::from_slice(json);
        let role = &mut self.role;
        let read = RoleSeed { role, names }.deserialize(&mut reader);
        let read = read.and_then(|()| reader.end());
        read.map_err(|e| Error::input(message(&e)))?;
        self.role.settle(names).map_err(Error::input)?;
        Ok(self.role.get())
    }
}

/// Whether a line is an object or a list of JSON.
pub(super) fn is_json(line: &[u8]) -> bool {
    matches!(line.trim_ascii_start().first(), Some(b'{' | b'['))
}

/// Fields separated by tabs where the line has a tab, else by spaces.
fn relation_fields(line: &[u8]) -> Vec<&[u8]> {
    match line.contains(&b'\t') {
        true => line
            .split(|b| *b == b'\t')
            .map(<[u8]>::trim_ascii)
            .collect(),
        false => {
            let words = line.split(u8::is_ascii_whitespace);
            words.filter(|word| !word.is_empty()).collect()
        }
    }
}

fn twice(name: &str) -> String {
    format!("feature `{name}` stands twice")
}

fn parse<R: Real>(
    line: &[u8],
    roles: &mut [Role<R>; 3],
    names: [Names<'_>; 3],
) -> std::result::Result<(), String> {
    roles.iter_mut().for_each(Role::clear);
    // A line of JSON allocates nothing here.
    let fields = if is_json(line) {
        Vec::new()
    } else {
        relation_fields(line)
    };
    if fields.len() > 1 {
        let ids: [&[u8]; 3] = fields[..].try_into().map_err(|_| {
            let expected = ROLES.join(" ");
            format!("expected 3 fields ({expected}), found {}", fields.len())
        })?;
        let mut roles = roles.iter_mut().zip(names);
        return ids.into_iter().try_for_each(|id| {
            let (role, names) = roles.next().expect("as many roles as fields");
            role.name(id, names)
        });
    }
    let mut reader = serde_json::Deserializer::from_slice(object(line)?);
    let read = TripletSeed { roles, names }.deserialize(&mut reader);
    let read = read.and_then(|()| reader.end());
    read.map_err(|e| message(&e))?;
    if roles.iter().any(|role| role.found.is_none()) {
        let wanted = "the fields `query`, `positive` and `negative` of a triplet";
        return Err(other_shape(wanted, line));
    }
    roles
        .iter_mut()
        .zip(names)
        .try_for_each(|(role, names)| role.settle(names))
}

/// What to say of a line that is not what was wanted: perhaps another task's.
pub(super) fn other_shape(wanted: &str, line: &[u8]) -> String {
    let fields = keys(line);
    let found: Vec<String> = fields.iter().take(5).map(|f| shown(f.as_bytes())).collect();
    let found = match &found[..] {
        [] => "none".to_owned(),
        all => all.join(", "),
    };
    format!("expected {wanted}, found {found}")
}

struct TripletSeed<'s, R> {
    roles: &'s mut [Role<R>; 3],
    names: [Names<'s>; 3],
}

impl<'de, R: Real> DeserializeSeed<'de> for TripletSeed<'_, R> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, R: Real> Visitor<'de> for TripletSeed<'_, R> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> std::result::Result<(), M::Error> {
        let TripletSeed { roles, names } = self;
        let field = TextSeed(|key: &str| ROLES.iter().position(|role| *role == key));
        while let Some(field) = map.next_key_seed(field)? {
            let Some(number) = field else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let role = &mut roles[number];
            if role.found.is_some() {
                let message = format!("`{}` stands twice", ROLES[number]);
                return Err(M::Error::custom(message));
            }
            let names = names[number];
            map.next_value_seed(RoleSeed { role, names })?;
        }
        Ok(())
    }
}

pub(super) struct RoleSeed<'s, R> {
    pub role: &'s mut Role<R>,
    pub names: Names<'s>,
}

impl<R> RoleSeed<'_, R> {
    fn row<E: serde::de::Error>(
        self,
        id: impl fmt::Display,
        find: impl FnOnce(&RowLookup<'_>) -> Result<usize>,
    ) -> std::result::Result<(), E> {
        let Some(rows) = self.names.rows else {
            return Err(E::custom(format!(
                "expected an object of features, found the {0} id `{id}` and no {0}s to look it up in",
                self.names.noun
            )));
        };
        let row = find(rows).map_err(|e| E::custom(e.message))?;
        self.role.found = Some(Found::Row(row));
        Ok(())
    }
}

impl<'de, R: Real> DeserializeSeed<'de> for RoleSeed<'_, R> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de, R: Real> Visitor<'de> for RoleSeed<'_, R> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row id or an object of features and numbers")
    }

    fn visit_str<E: serde::de::Error>(self, id: &str) -> std::result::Result<(), E> {
        self.row(id, |rows| rows.find(id))
    }

    fn visit_u64<E: serde::de::Error>(self, id: u64) -> std::result::Result<(), E> {
        self.row(id, |rows| rows.find_number(id))
    }

    fn visit_i64<E: serde::de::Error>(self, id: i64) -> std::result::Result<(), E> {
        self.row(id, |rows| rows.find(&id.to_string()))
    }

    fn visit_f64<E: serde::de::Error>(self, id: f64) -> std::result::Result<(), E> {
        // Adding zero turns −0 into 0; a whole number has no point.
        self.row(id, |rows| rows.find(&(id + 0.0).to_string()))
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> std::result::Result<(), M::Error> {
        let RoleSeed { role, names } = self;
        let column = TextSeed(|name: &str| Column::of(name, names.features));
        while let Some(column) = map.next_key_seed(column)? {
            let value = map.next_value::<Option<f64>>()?.unwrap_or(f64::NAN);
            if value.abs() > R::MAX {
                return Err(M::Error::custom(format!(
                    "the value {value:e} is too large for {}",
                    R::NAME
                )));
            }
            let value = R::from_f64(value);
            match column {
                Column::Known(column) => role.known.push((column, value)),
                Column::New(name) => role.new.push((name, value)),
                Column::Bad(message) => return Err(M::Error::custom(message)),
            }
        }
        role.found = Some(Found::Features);
        Ok(())
    }
}

/// Where the name of a feature leads.
enum Column {
    Known(u32),
    New(String),
    Bad(String),
}

impl Column {
    fn of(name: &str, features: &Features) -> Self {
        match features {
            Features::Numbered => match index_number(name.as_bytes()) {
                Some(number) if (1..=u64::from(MAX_INDEX) + 1).contains(&number) => {
                    Column::Known((number - 1) as u32)
                }
                _ => Column::Bad(format!(
                    "expected the number of a feature, from 1 to {}, found {}",
                    u64::from(MAX_INDEX) + 1,
                    shown(name.as_bytes())
                )),
            },
            Features::Terms(vocabulary) => match vocabulary.column(name) {
                Some(column) => Column::Known(column),
                None => Column::Bad(format!(
                    "expected a term of the model's vocabulary or its number, found {}",
                    shown(name.as_bytes())
                )),
            },
            Features::Named(ids) | Features::Columns(ids) => match ids.find(name) {
                Some(column) => Column::Known(column),
                None => Column::New(name.to_owned()),
            },
        }
    }
}

/// Reads a text and hands it on, borrowed from wherever it is.
#[derive(Clone, Copy)]
pub(super) struct TextSeed<F>(pub F);

impl<'de, T, F: Fn(&str) -> T> DeserializeSeed<'de> for TextSeed<F> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<T, D::Error> {
        from.deserialize_str(self)
    }
}

impl<T, F: Fn(&str) -> T> Visitor<'_> for TextSeed<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E>(self, text: &str) -> std::result::Result<T, E> {
        Ok((self.0)(text))
    }
}

/// The names of the fields of an object; none where a line is no object.
pub(super) fn keys(line: &[u8]) -> Vec<String> {
    let fields: Keys = serde_json::from_slice(line).unwrap_or_default();
    fields.0
}

/// Fields of a line that are looked at.
const MOST_KEYS: usize = 1000;

/// The first fields of an object.
#[derive(Default)]
struct Keys(Vec<String>);

impl<'de> Deserialize<'de> for Keys {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Keys;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<M: MapAccess<'de>>(
                self,
                mut map: M,
            ) -> std::result::Result<Keys, M::Error> {
                let mut out = Vec::new();
                while let Some((Scalar(key), IgnoredAny)) = map.next_entry()? {
                    if out.len() < MOST_KEYS {
                        out.push(key.into_owned());
                    }
                }
                Ok(Keys(out))
            }
        }
        from.deserialize_map(Map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ids;
    use crate::data::RowIds;

    fn stream(text: &str) -> TripletStream<f32> {
        let source = std::io::Cursor::new(text.as_bytes().to_vec());
        TripletStream::new(Lines::new(Box::new(source), "s.jsonl"))
    }

    #[test]
    fn ids_and_values_may_be_mixed() {
        let ids = RowIds::Named(["a", "7", "b \u{fc}", "1.5"].map(String::from).into());
        let rows = RowLookup::new(&ids, 4);
        let features = Features::Named(["red", "round"].iter().collect());
        let text = r#"{"query":"a","positive":7,"negative":"b \u00fc","time":[1]}

            {"negative":{"round":2,"red":1,"odd":0.5,"none":0},"query":1.5,"positive":{"round":null}}"#;
        let mut stream = stream(text);
        let triplet = stream.read(&features, Some(&rows)).unwrap().unwrap();
        let row = StreamRow::Row;
        let want = Triplet {
            query: row(0),
            positive: row(1),
            negative: row(2),
        };
        assert_eq!(triplet, want);
        let triplet = stream.read(&features, Some(&rows)).unwrap().unwrap();
        assert_eq!(triplet.query, row(3));
        let want = StreamRow::Features {
            known: &[(0, 1.0), (1, 2.0)],
            new: &[("odd".to_owned(), 0.5)],
        };
        assert_eq!(triplet.negative, want);
        let StreamRow::Features { known, new: [] } = triplet.positive else {
            panic!("features: {triplet:?}");
        };
        assert!(known.len() == 1 && known[0].0 == 1 && known[0].1.is_nan());
        assert_eq!(stream.read(&features, Some(&rows)), Ok(None));
        assert_eq!(stream.line(), 3);
    }

    #[test]
    fn every_bad_line_says_what_is_wrong() {
        let with = |query: &str| format!(r#"{{"query":{query},"positive":{{}},"negative":{{}}}}"#);
        let shape = "expected the fields `query`, `positive` and `negative` of a triplet";
        let cases = [
            (
                r#"{"query":{"1":1}"#.to_owned(),
                "column 16: EOF while parsing an object; is the line cut short?".to_owned(),
            ),
            (
                r#"{"user":1,"item":2,"rating":3}"#.into(),
                format!("{shape}, found `user`, `item`, `rating`"),
            ),
            ("{}".into(), format!("{shape}, found none")),
            (
                r#"{"query":{},"positive":{}}"#.into(),
                format!("{shape}, found `query`, `positive`"),
            ),
            ("[1]".into(), "expected a JSON object, found `[1]`".into()),
            (
                with("null"),
                "column 13: invalid type: null, expected a row id or an object of features and numbers"
                    .into(),
            ),
            (with("3"), "column 10: no row is called `3`".into()),
            (with("\"x\""), "column 12: no row is called `x`".into()),
            (with("-1"), "column 11: no row is called `-1`".into()),
            (
                with(r#"{"1":"a"}"#),
                "column 17: invalid type: string \"a\", expected f64".into(),
            ),
            (with(r#"{"1":NaN}"#), "column 15: expected value".into()),
            (with(r#"{"1":1e999}"#), "column 19: number out of range".into()),
            (
                with(r#"{"1":-1e39}"#),
                "column 20: the value -1e39 is too large for f32".into(),
            ),
            (with(r#"{"2":1,"2":2}"#), "feature 2 stands twice".into()),
            (
                with(r#"{"4000000000":1}"#),
                "column 25: expected the number of a feature, from 1 to 2147483647, found `4000000000`"
                    .into(),
            ),
            (
                with(r#"{"0":1}"#),
                "column 16: expected the number of a feature, from 1 to 2147483647, found `0`".into(),
            ),
            (
                with(r#"{},"query":{}"#),
                "column 19: `query` stands twice".into(),
            ),
        ];
        let ids = RowIds::Positions;
        let rows = RowLookup::new(&ids, 3);
        for (line, want) in cases {
            let mut stream = stream(&format!("{}\n{line}\n", with("2")));
            assert!(stream.read(&Features::Numbered, Some(&rows)).is_ok());
            let error = stream.read(&Features::Numbered, Some(&rows)).unwrap_err();
            assert_eq!(error.to_string(), format!("s.jsonl:2: {want}"), "{line}");
        }
        let error = stream(&with("2"))
            .read(&Features::Numbered, None)
            .unwrap_err();
        assert_eq!(
            error.message,
            "column 10: expected an object of features, found the row id `2` and no rows to look it up in"
        );
        let features = Features::Named(Ids::new());
        let mut twice = stream(&with(r#"{"b":1,"a":1,"b":0}"#));
        let error = twice.read(&features, None).unwrap_err();
        assert_eq!(error.message, "feature `b` stands twice");
    }
}
