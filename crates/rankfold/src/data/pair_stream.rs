//! A stream of pairs as JSON lines, `{"left":R,"right":R,…}` with one more field that
//! says something of the pair, where R is the id of a row, or features by value. Lines of
//! a file of pairs are read as well: ids, separated by tabs, commas or spaces.
//!
//! Other fields are ignored, empty lines are skipped.

use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::constraints::header;
use super::jsonl::{message, object};
use super::open::Lines;
use super::records::Fields;
use super::stream::{Names, Role, RoleSeed, StreamRow, TextSeed, is_json, other_shape};
use super::values::separate;
use crate::{Error, Real, Result};

/// The fields of a line that hold rows.
const ROLES: [&str; 2] = ["left", "right"];

/// What a line may say of its pair.
pub trait Said: Sized {
    /// The fields of which one says it.
    const FIELDS: &'static [&'static str];
    /// What a line should have, in errors.
    const EXPECTED: &'static str;

    /// Reads the value of one of these fields.
    fn read<'de, M: MapAccess<'de>>(
        field: &str,
        map: &mut M,
    ) -> std::result::Result<Self, M::Error>;

    /// Reads what a line of a file of pairs says after the names of both.
    fn of_fields(fields: &[&[u8]]) -> Result<Self>;
}

/// Pairs read one by one from a file, a pipe, or anything else.
pub struct PairStream<R, S> {
    lines: Lines,
    /// The line of the last pair.
    line: u64,
    roles: [Role<R>; 2],
    said: PhantomData<S>,
}

impl<R: Real, S: Said> PairStream<R, S> {
    /// Opens a file; `-` is stdin.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Lines::open(path).map(Self::new)
    }

    /// Pairs from any lines.
    pub fn new(lines: Lines) -> Self {
        PairStream {
            lines,
            line: 0,
            roles: [(); 2].map(|()| Role::default()),
            said: PhantomData,
        }
    }

    /// The next pair and what is said of it, or `None` after the last.
    pub fn read(
        &mut self,
        left: Names<'_>,
        right: Names<'_>,
    ) -> Result<Option<([StreamRow<'_, R>; 2], S)>> {
        loop {
            let Some(line) = self.lines.next_line()? else {
                return Ok(None);
            };
            if !line.trim_ascii().is_empty() {
                let said = match parse(line, &mut self.roles, [left, right], self.line == 0) {
                    Ok(Some(said)) => said,
                    Ok(None) => continue,
                    Err(message) => {
                        self.lines.bad(message)?;
                        continue;
                    }
                };
                self.line = self.lines.number();
                return Ok(Some((self.roles.each_ref().map(Role::get), said)));
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

/// What a line says of the pair whose rows it puts into `roles`; `None` where the first
/// line names columns.
fn parse<R: Real, S: Said>(
    line: &[u8],
    roles: &mut [Role<R>; 2],
    names: [Names<'_>; 2],
    first: bool,
) -> std::result::Result<Option<S>, String> {
    roles.iter_mut().for_each(Role::clear);
    let mut separated = Fields::default();
    if !is_json(line) {
        separate(&mut separated, line);
    }
    let fields: Vec<&[u8]> = separated.iter().map(<[u8]>::trim_ascii).collect();
    if fields.len() > 1 {
        if first && header(&fields) {
            return Ok(None);
        }
        let (pair, said) = fields.split_at(2);
        for ((role, id), names) in roles.iter_mut().zip(pair).zip(names) {
            role.name(id, names)?;
        }
        return S::of_fields(said).map(Some).map_err(|e| e.message);
    }
    let mut reader = serde_json::Deserializer::from_slice(object(line)?);
    let seed = LineSeed {
        roles: &mut *roles,
        names,
        said: PhantomData,
    };
    let read = seed.deserialize(&mut reader);
    let read = read.and_then(|said| reader.end().map(|()| said));
    match read.map_err(|e| message(&e))? {
        Some(said) if roles.iter().all(Role::is_found) => {
            roles
                .iter_mut()
                .zip(names)
                .try_for_each(|(role, names)| role.settle(names))?;
            Ok(Some(said))
        }
        _ => Err(other_shape(S::EXPECTED, line)),
    }
}

struct LineSeed<'s, R, S> {
    roles: &'s mut [Role<R>; 2],
    names: [Names<'s>; 2],
    said: PhantomData<S>,
}

impl<'de, R: Real, S: Said> DeserializeSeed<'de> for LineSeed<'_, R, S> {
    type Value = Option<S>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        from: D,
    ) -> std::result::Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, R: Real, S: Said> Visitor<'de> for LineSeed<'_, R, S> {
    type Value = Option<S>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(
        self,
        mut map: M,
    ) -> std::result::Result<Self::Value, M::Error> {
        let LineSeed { roles, names, .. } = self;
        let mut said: Option<(&str, S)> = None;
        let place = |key: &str| {
            let mut fields = ROLES.iter().chain(S::FIELDS);
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
                    let name = S::FIELDS[number - ROLES.len()];
                    match said {
                        Some((before, _)) if before == name => return Err(twice(name)),
                        Some((before, _)) => {
                            return Err(M::Error::custom(format!(
                                "expected one of `{before}` and `{name}`, found both"
                            )));
                        }
                        None => said = Some((name, S::read(name, &mut map)?)),
                    }
                }
            }
        }
        Ok(said.map(|(_, said)| said))
    }
}
