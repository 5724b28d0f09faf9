//! A stream of what is known about distances as JSON lines: `{"left":R,"right":R,…}`
//! with `"same":true|false`, `"value":v`, `"at_most":v` or `"at_least":v`, where R is the
//! id of a row, or features by value.
//!
//! Other fields are ignored, empty lines are skipped.

use std::fmt;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::Relation;
use super::jsonl::{message, object};
use super::open::Lines;
use super::stream::{Names, Role, RoleSeed, StreamRow, TextSeed, other_shape};
use super::value_stream::Number;
use crate::{Error, Real, Result};

/// The fields of a line that hold rows, and those of which one says what is known.
const ROLES: [&str; 2] = ["left", "right"];
const RELATIONS: [&str; 4] = ["same", "value", "at_most", "at_least"];

/// Distances from here on have squares that learning could not add up.
const TOO_FAR: f64 = 1e150;

/// What is known about distances, read one by one from a file, a pipe, or anything else.
pub struct DistanceStream<R> {
    lines: Lines,
    /// The line of the last pair.
    line: u64,
    roles: [Role<R>; 2],
}

impl<R: Real> DistanceStream<R> {
    /// Opens a file; `-` is stdin.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Lines::open(path).map(Self::new)
    }

    /// Pairs from any lines.
    pub fn new(lines: Lines) -> Self {
        DistanceStream {
            lines,
            line: 0,
            roles: [(); 2].map(|()| Role::default()),
        }
    }

    /// The next pair and what is known about its distance, or `None` after the last.
    pub fn read(
        &mut self,
        left: Names<'_>,
        right: Names<'_>,
    ) -> Result<Option<([StreamRow<'_, R>; 2], Relation)>> {
        loop {
            let Some(line) = self.lines.next_line()? else {
                return Ok(None);
            };
            if !line.trim_ascii().is_empty() {
                let relation = match parse(line, &mut self.roles, [left, right]) {
                    Ok(relation) => relation,
                    Err(message) => return Err(self.lines.error(message)),
                };
                self.line = self.lines.number();
                return Ok(Some((self.roles.each_ref().map(Role::get), relation)));
            }
        }
    }

    /// The line of the last pair, from 1.
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
    roles: &mut [Role<R>; 2],
    names: [Names<'_>; 2],
) -> std::result::Result<Relation, String> {
    roles.iter_mut().for_each(Role::clear);
    let mut reader = serde_json::Deserializer::from_slice(object(line)?);
    let seed = LineSeed {
        roles: &mut *roles,
        names,
    };
    let read = seed.deserialize(&mut reader);
    let read = read.and_then(|relation| reader.end().map(|()| relation));
    let relation = read.map_err(|e| message(&e))?;
    match relation {
        Some(relation) if roles.iter().all(Role::is_found) => {
            roles
                .iter_mut()
                .zip(names)
                .try_for_each(|(role, names)| role.settle(names))?;
            Ok(relation)
        }
        _ => Err(other_shape(
            "the fields `left`, `right` and one of `same`, `value`, `at_most`, `at_least`",
            line,
        )),
    }
}

struct LineSeed<'s, R> {
    roles: &'s mut [Role<R>; 2],
    names: [Names<'s>; 2],
}

impl<'de, R: Real> DeserializeSeed<'de> for LineSeed<'_, R> {
    type Value = Option<Relation>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        from: D,
    ) -> std::result::Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, R: Real> Visitor<'de> for LineSeed<'_, R> {
    type Value = Option<Relation>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(
        self,
        mut map: M,
    ) -> std::result::Result<Self::Value, M::Error> {
        let LineSeed { roles, names } = self;
        let mut said: Option<(&str, Relation)> = None;
        let place = |key: &str| {
            let mut fields = ROLES.iter().chain(&RELATIONS);
            fields.position(|field| *field == key)
        };
        while let Some(field) = map.next_key_seed(TextSeed(place))? {
            let twice = |name: &str| M::Error::custom(format!("`{name}` stands twice"));
            match field {
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
                Some(number) if number < ROLES.len() => {
                    let role = &mut roles[number];
                    if role.is_found() {
                        return Err(twice(ROLES[number]));
                    }
                    let names = names[number];
                    map.next_value_seed(RoleSeed { role, names })?;
                }
                Some(number) => {
                    let name = RELATIONS[number - ROLES.len()];
                    match said {
                        Some((before, _)) if before == name => return Err(twice(name)),
                        Some((before, _)) => {
                            return Err(M::Error::custom(format!(
                                "expected one of `{before}` and `{name}`, found both"
                            )));
                        }
                        None => {}
                    }
                    let relation = match name {
                        "same" if map.next_value::<bool>()? => Relation::Same,
                        "same" => Relation::Different,
                        "value" => Relation::Equal(distance(&mut map)?),
                        "at_most" => Relation::AtMost(distance(&mut map)?),
                        _ => Relation::AtLeast(distance(&mut map)?),
                    };
                    said = Some((name, relation));
                }
            }
        }
        Ok(said.map(|(_, relation)| relation))
    }
}

fn distance<'de, M: MapAccess<'de>>(map: &mut M) -> std::result::Result<f64, M::Error> {
    let Number(value) = map.next_value()?;
    match (0.0..TOO_FAR).contains(&value) {
        true => Ok(value),
        false => Err(M::Error::custom(format!(
            "expected a distance from 0 to 1e150, found {value:?}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Features, RowIds, RowLookup};

    fn read(text: &str) -> Result<Vec<Relation>> {
        let source = std::io::Cursor::new(text.as_bytes().to_vec());
        let mut stream = DistanceStream::<f32>::new(Lines::new(Box::new(source), "s"));
        let ids = RowIds::Positions;
        let rows = RowLookup::new(&ids, 3);
        let names = Names::new(&Features::Numbered, Some(&rows));
        let mut out = Vec::new();
        while let Some((_, relation)) = stream.read(names, names)? {
            out.push(relation);
        }
        Ok(out)
    }

    #[test]
    fn relations_are_read_and_bad_lines_named() {
        let good = r#"{"left":0,"right":{"2":1.5},"same":true}

            {"same":false,"x":[],"right":1,"left":2}
            {"left":0,"right":1,"value":2.5}
            {"left":0,"right":1,"at_most":0}
            {"at_least":3,"left":0,"right":1}"#;
        assert_eq!(
            read(good).unwrap(),
            [
                Relation::Same,
                Relation::Different,
                Relation::Equal(2.5),
                Relation::AtMost(0.0),
                Relation::AtLeast(3.0)
            ]
        );
        for (text, message) in [
            (
                r#"{"left":0,"right":1}"#,
                "s:1: expected the fields `left`, `right` and one of `same`, `value`, `at_most`, `at_least`, found `left`, `right`",
            ),
            (
                r#"{"left":0,"right":1,"same":1}"#,
                "s:1: column 28: invalid type: integer `1`, expected a boolean",
            ),
            (
                r#"{"left":0,"right":1,"value":-1}"#,
                "s:1: column 31: expected a distance from 0 to 1e150, found -1.0",
            ),
            (
                r#"{"left":0,"right":1,"at_most":1e200}"#,
                "s:1: column 36: expected a distance from 0 to 1e150, found 1e200",
            ),
            (
                r#"{"left":0,"right":1,"value":1,"same":true}"#,
                "s:1: column 36: expected one of `value` and `same`, found both",
            ),
            (
                r#"{"left":0,"right":1,"same":true,"same":true}"#,
                "s:1: column 38: `same` stands twice",
            ),
            ("7", "s:1: expected a JSON object, found `7`"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), message);
        }
    }
}
