//! Which columns of a file hold users, items and the like: those that were named, those that
//! a model keeps the names of, or those that are recognized.

use super::columns::{Column, Source};
use super::recognize::Role;
use crate::{Error, Result};

/// A column that is looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub role: Role,
    /// Its name, where one is known.
    pub name: Option<&'a str>,
    /// Whether the file must have it.
    pub needed: bool,
}

/// Columns that were found, and their names where the file has some.
pub(super) struct Found<const N: usize> {
    pub columns: [Option<Column>; N],
    pub names: [Option<String>; N],
}

impl Source {
    /// Finds columns. Names must be there where they are `given`; otherwise they are tried
    /// first. `usage` is what `--columns` expects.
    pub(super) fn choose<const N: usize>(
        &mut self,
        wanted: [Wanted<'_>; N],
        given: bool,
        usage: &str,
    ) -> Result<Found<N>> {
        if given {
            return self.named(wanted);
        }
        match self.names()? {
            Some(names)
                if !self.is_json() && !Self::is_clear(&wanted, &names) && self.header_is_data() =>
            {
                self.numbered(wanted)
            }
            Some(names) => self.recognized(wanted, &names, usage),
            None if self.is_json() => self.usual(wanted),
            None => self.numbered(wanted),
        }
    }

    /// Whether names tell which columns are needed.
    fn is_clear(wanted: &[Wanted<'_>], names: &[String]) -> bool {
        let there = |name: &str| names.iter().any(|other| other == name);
        let mut needed = wanted.iter().filter(|one| one.needed);
        needed.any(|one| one.role.find(names).is_some() || one.name.is_some_and(there))
    }

    fn named<const N: usize>(&mut self, wanted: [Wanted<'_>; N]) -> Result<Found<N>> {
        let mut out = Found::nothing();
        for (at, one) in wanted.iter().enumerate() {
            let column = match one.name {
                Some(name) => Some(self.column(name)?),
                // What stands beside the columns that were named may be there.
                None => {
                    let names = self.names()?.unwrap_or_default();
                    match one.role.find(&names) {
                        Some(found) => Some(self.column(&names[found])?),
                        None => self.column_if_there(&[one.role.usual()]),
                    }
                }
            };
            if one.needed && column.is_none() {
                let message = format!("no column of {} was found", one.role.plural());
                return Err(Error::input(message).in_file(self.path()));
            }
            out.names[at] = one.name.map(str::to_owned);
            out.columns[at] = column;
        }
        Ok(out)
    }

    fn recognized<const N: usize>(
        &mut self,
        wanted: [Wanted<'_>; N],
        names: &[String],
        usage: &str,
    ) -> Result<Found<N>> {
        let exact = |name: &str| names.iter().position(|other| other == name);
        let needed = || wanted.iter().filter(|one| one.needed);
        let kept = needed().all(|one| one.name.is_some_and(|name| exact(name).is_some()));
        let place = |one: &Wanted<'_>| {
            let kept = one.name.filter(|_| kept).and_then(exact);
            kept.or_else(|| one.role.find(names))
        };
        if needed().any(|one| place(one).is_none()) {
            if self.is_json() && (names.is_empty() || self.reading().skips()) {
                return self.usual(wanted);
            }
            return Err(self.unclear(&wanted, names, usage));
        }
        let mut out = Found::nothing();
        let (mut said, mut unusual) = (Vec::new(), false);
        for (at, one) in wanted.iter().enumerate() {
            let Some(found) = place(one) else {
                // A later line of JSON may have what the first has not.
                if self.is_json() && one.role != Role::Rating {
                    out.columns[at] = Some(Column::Name(one.role.usual().into()));
                }
                continue;
            };
            let name = &names[found];
            out.columns[at] = Some(self.column(name)?);
            out.names[at] = Some(name.clone());
            said.push(format!("{} in `{name}`", one.role.plural()));
            unusual |= one.needed && name != one.role.usual() && !kept;
        }
        if unusual {
            let path = self.path().display();
            self.reading().note(format!("{path}: {}", said.join(", ")));
        }
        Ok(out)
    }

    /// Columns of JSON lines of which none is known yet.
    fn usual<const N: usize>(&mut self, wanted: [Wanted<'_>; N]) -> Result<Found<N>> {
        let mut out = Found::nothing();
        for (column, one) in out.columns.iter_mut().zip(&wanted) {
            if one.needed || one.role != Role::Rating {
                *column = Some(Column::Name(one.role.usual().into()));
            }
        }
        Ok(out)
    }

    /// Columns of a file without a header.
    fn numbered<const N: usize>(&mut self, wanted: [Wanted<'_>; N]) -> Result<Found<N>> {
        let width = self.width();
        let number = |name: &str| name.parse::<usize>().ok()?.checked_sub(1);
        let inside = |one: &Wanted<'_>| one.name.and_then(number).filter(|at| *at < width);
        let mut needed = wanted.iter().filter(|one| one.needed);
        let kept = needed.all(|one| inside(one).is_some());
        let (mut out, mut said) = (Found::nothing(), Vec::new());
        for (at, one) in wanted.iter().enumerate() {
            let place = match kept {
                true => inside(one),
                false => one
                    .role
                    .place()
                    .filter(|place| one.needed || *place < width),
            };
            let Some(place) = place else { continue };
            out.columns[at] = Some(Column::Number(place, one.role.usual().into()));
            if kept {
                out.names[at] = Some((place + 1).to_string());
            }
            said.push(format!("{} in column {}", one.role.plural(), place + 1));
        }
        if width > 0 && !kept {
            let path = self.path().display();
            let note = format!("{path}: no header, so {}", said.join(", "));
            self.reading().note(note);
        }
        Ok(out)
    }

    /// What to say where columns are not clear.
    fn unclear(&self, wanted: &[Wanted<'_>], names: &[String], usage: &str) -> Error {
        const SHOWN: usize = 12;
        let mut found: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        if found.len() > SHOWN {
            found.truncate(SHOWN);
            found.push("…".into());
        }
        let missing = wanted
            .iter()
            .filter(|one| one.needed && one.role.find(names).is_none());
        let missing: Vec<&str> = missing.map(|one| one.role.plural()).collect();
        let message = format!(
            "found the columns {}, and it is not clear which has the {}; name them with `--columns {usage}`",
            found.join(", "),
            missing.join(" and which the ")
        );
        match self.is_json() {
            true => self.error(message),
            false => Error::input(message).in_file(self.path()),
        }
    }
}

impl<const N: usize> Found<N> {
    fn nothing() -> Self {
        Found {
            columns: [const { None }; N],
            names: [const { None }; N],
        }
    }

    /// Takes the column at a place that the file must have.
    pub(super) fn needed(&mut self, at: usize) -> Column {
        self.columns[at].take().expect("a column that was needed")
    }
}
