//! A stream of pairs with values as JSON lines: `{"left":R,"right":R,"value":…}`,
//! where R is the id of a row, or features by value.
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

/// The fields of a line that hold rows, and the one that holds the number.
const ROLES: [&str; 2] = ["left", "right"];
const VALUE: &str = "value";

/// Pairs with values read one by one from a file, a pipe, or anything else.
pub struct ValueStream<R> {
    lines: Lines,
    /// The line of the last pair.
    line: u64,
    roles: [Role<R>; 2],
}

impl<R: Real> ValueStream<R> {
    /// Opens a file; `-` is stdin.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Lines::open(path).map(Self::new)
    }

    /// Pairs from any lines.
    pub fn new(lines: Lines) -> Self {
        ValueStream {
            lines,
            line: 0,
            roles: [(); 2].map(|()| Role::default()),
        }
    }

    /// The next pair with its value, or `None` after the last.
    pub fn read(
        &mut self,
        rows: Names<'_>,
        objects: Names<'_>,
    ) -> Result<Option<([StreamRow<'_, R>; 2], f64)>> {
        loop {
            let Some(line) = self.lines.next_line()? else {
                return Ok(None);
            };
            if !line.trim_ascii().is_empty() {
                let value = match parse(line, &mut self.roles, [rows, objects]) {
                    Ok(value) => value,
                    Err(message) => return Err(self.lines.error(message)),
                };
                self.line = self.lines.number();
                return Ok(Some((self.roles.each_ref().map(Role::get), value)));
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
) -> std::result::Result<f64, String> {
    roles.iter_mut().for_each(Role::clear);
    let mut reader = serde_json::Deserializer::from_slice(object(line)?);
    let seed = LineSeed {
        roles: &mut *roles,
        names,
    };
    let read = seed.deserialize(&mut reader);
    let read = read.and_then(|value| reader.end().map(|()| value));
    let value = read.map_err(|e| message(&e))?;
    match value {
        Some(value) if roles.iter().all(Role::is_found) => {
            roles
                .iter_mut()
                .zip(names)
                .try_for_each(|(role, names)| role.settle(names))?;
            Ok(value)
        }
        _ => Err(other_shape(
            "the fields `left`, `right` and `value` of a pair",
            line,
        )),
    }
}

/// A number, called so in errors.
pub(super) struct Number(pub f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_f64<E>(self, value: f64) -> std::result::Result<Number, E> {
                Ok(Number(value))
            }
            fn visit_u64<E>(self, value: u64) -> std::result::Result<Number, E> {
                Ok(Number(value as f64))
            }
            fn visit_i64<E>(self, value: i64) -> std::result::Result<Number, E> {
                Ok(Number(value as f64))
            }
        }
        from.deserialize_any(Any)
    }
}

struct LineSeed<'s, R> {
    roles: &'s mut [Role<R>; 2],
    names: [Names<'s>; 2],
}

impl<'de, R: Real> DeserializeSeed<'de> for LineSeed<'_, R> {
    type Value = Option<f64>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        from: D,
    ) -> std::result::Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, R: Real> Visitor<'de> for LineSeed<'_, R> {
    type Value = Option<f64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(
        self,
        mut map: M,
    ) -> std::result::Result<Self::Value, M::Error> {
        let LineSeed { roles, names } = self;
        let mut value = None;
        let place = |key: &str| {
            let role = ROLES.iter().position(|role| *role == key);
            role.or((key == VALUE).then_some(ROLES.len()))
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
                Some(_) if value.is_some() => return Err(twice(VALUE)),
                Some(_) => value = Some(map.next_value::<Number>()?.0),
            }
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Features, RowIds, RowLookup};

    fn read(text: &str) -> Result<Vec<f64>> {
        let source = std::io::Cursor::new(text.as_bytes().to_vec());
        let mut stream = ValueStream::<f32>::new(Lines::new(Box::new(source), "s"));
        let ids = RowIds::Positions;
        let rows = RowLookup::new(&ids, 3);
        let names = Names::new(&Features::Numbered, Some(&rows));
        let mut out = Vec::new();
        while let Some((_, value)) = stream.read(names, names)? {
            out.push(value);
        }
        Ok(out)
    }

    #[test]
    fn pairs_are_read_and_bad_lines_named() {
        let good = "{\"left\":0,\"right\":{\"2\":1.5},\"value\":3}\n\n{\"value\":-1e3,\"x\":[],\"right\":1,\"left\":2}\n";
        assert_eq!(read(good).unwrap(), [3.0, -1000.0]);
        for (text, message) in [
            (
                "{\"left\":0,\"right\":1}",
                "s:1: expected the fields `left`, `right` and `value` of a pair, found `left`, `right`",
            ),
            (
                "{\"left\":0,\"right\":1,\"value\":\"x\"}",
                "s:1: column 31: invalid type: string \"x\", expected a number",
            ),
            (
                "{\"left\":0,\"right\":9,\"value\":1}",
                "s:1: column 19: no row is called `9`",
            ),
            (
                "{\"left\":0,\"left\":1,\"right\":1,\"value\":1}",
                "s:1: column 16: `left` stands twice",
            ),
            (
                "{\"left\":0,\"right\":1,\"value\":1,\"value\":2}",
                "s:1: column 37: `value` stands twice",
            ),
            ("[1]", "s:1: expected a JSON object, found `[1]`"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), message);
        }
    }
}
