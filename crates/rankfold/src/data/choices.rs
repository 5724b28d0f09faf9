//! Choices: users, and the items that they clicked, played or bought.

use std::borrow::Cow;
use std::fmt::Display;
use std::path::Path;

use super::about;
use super::columns::{Column, Source};
use super::format::Format;
use super::number::{moment, number, shown};
use super::open::Lines;
use super::ratings::{line_format, put, stream_format, text};
use super::reading::Reading;
use super::recognize::Role;
use super::roles::Wanted;
use super::wide::{MatrixEntries, WideTable};
use crate::ids::IdText;
use crate::sparse::Shape;
use crate::{Error, Ids, Result, Rows, memory};

/// Which columns hold users and items, and what may stand beside them, and how files of choices
/// are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChoiceColumns {
    /// Users.
    pub user: String,
    /// Items.
    pub item: String,
    /// How much a choice counts; by default `weight`, where there is such a column.
    pub weight: Option<String>,
    /// When it was made; by default `time` or `timestamp`, where there is such a column.
    pub time: Option<String>,
    /// Whether these names were given, and must be there. Others are tried first, and then
    /// columns are recognized by what people call them.
    pub given: bool,
    /// Whether a file is a table with a row for each user and a column for each item. What
    /// stands in a cell is the weight; cells that are empty or 0 are not chosen.
    pub wide: bool,
    /// The format of files, and what is done with bad lines.
    pub reading: Reading,
}

impl Default for ChoiceColumns {
    fn default() -> Self {
        ChoiceColumns {
            user: "user".into(),
            item: "item".into(),
            weight: None,
            time: None,
            given: false,
            wide: false,
            reading: Reading::default(),
        }
    }
}

impl ChoiceColumns {
    /// The columns of an earlier file, as [`Choices::columns`] names them.
    pub fn kept(names: Option<&[String]>) -> Self {
        let some = |name: &String| Some(name.clone()).filter(|name| !name.is_empty());
        match names {
            Some([user, item, weight, time]) => ChoiceColumns {
                user: user.clone(),
                item: item.clone(),
                weight: some(weight),
                time: some(time),
                ..Default::default()
            },
            _ => ChoiceColumns::default(),
        }
    }
}

impl std::str::FromStr for ChoiceColumns {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        let named = |at: usize| {
            let name = names.get(at).filter(|name| !name.is_empty());
            name.map(|name| (*name).to_owned())
        };
        match (named(0), named(1)) {
            (Some(user), Some(item)) if names.len() <= 4 => Ok(ChoiceColumns {
                user,
                item,
                weight: named(2),
                time: named(3),
                given: true,
                ..Default::default()
            }),
            _ => Err(format!(
                "expected two to four names, {USAGE}, found `{text}`"
            )),
        }
    }
}

/// What `--columns` expects.
const USAGE: &str = "USER,ITEM[,WEIGHT[,TIME]]";

/// The least and the largest weight of a choice: their squares, and sums of those, are above 0 and
/// finite in single precision.
pub const WEIGHTS: std::ops::RangeInclusive<f64> = 1e-9..=1e9;

/// One line of a file of choices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice<'a> {
    /// Who chose.
    pub user: &'a str,
    /// What.
    pub item: &'a str,
    /// How much it counts, above 0.
    pub weight: f64,
    /// When; later is more.
    pub time: Option<f64>,
}

/// The lines of a file of choices, one by one.
pub struct ChoiceLines {
    from: From,
    user: String,
    item: String,
    weight: f64,
    time: Option<f64>,
    liked_from: Option<f64>,
    /// Whether ratings stand in the file and are not looked at.
    pub ignores_ratings: bool,
    /// Lines whose rating is too low to be a choice.
    pub disliked: u64,
}

/// Where choices come from.
enum From {
    Columns {
        source: Source,
        user: Column,
        item: Column,
        weight: Option<Column>,
        time: Option<Column>,
        rating: Option<Column>,
        names: Option<Vec<String>>,
    },
    Wide(WideTable),
    Matrix(MatrixEntries),
}

fn finite(field: &[u8], what: &str) -> std::result::Result<f64, String> {
    match number::<f64>(field) {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(format!("expected {what}, found {}", shown(field))),
    }
}

pub(super) fn weight_in_range(
    weight: f64,
    shown: impl Fn() -> String,
) -> std::result::Result<f64, String> {
    match WEIGHTS.contains(&weight) {
        true => Ok(weight),
        false => Err(format!(
            "expected a weight above 0, from 1e-9 to 1e9, found {}",
            shown()
        )),
    }
}

impl ChoiceLines {
    /// Opens `.csv`, `.tsv`, `.jsonl`, or `.dat` with `::`, tabs, commas, `;`, `|` or spaces,
    /// each also `.gz` or `.zst`, `.parquet` or `.arrow`; `-` is stdin, as `.dat`. Without a
    /// header the first two columns are meant. `.npz` and `.mtx` hold a matrix of users by items, whose entries are
    /// weights. Where `liked_from` is given, lines with a lower rating are left out.
    pub fn open(
        path: impl AsRef<Path>,
        columns: &ChoiceColumns,
        liked_from: Option<f64>,
    ) -> Result<Self> {
        let path = path.as_ref();
        let kind = match line_format(path, &columns.reading) {
            Ok(kind) => kind,
            Err(Format::Npz | Format::MatrixMarket) if !columns.wide => {
                let entries = MatrixEntries::read(path, &columns.reading)?;
                return Ok(Self::new(From::Matrix(entries), liked_from, false));
            }
            Err(_) => {
                let message = "choices are read from .csv, .tsv, .jsonl, .dat, .data, .base, .txt or \
                    .inter, plain or with .gz or .zst, .parquet, .arrow, .npz or .mtx; --format names the format of other files";
                return Err(Error::input(message).in_file(path));
            }
        };
        let lines = Lines::open_with(path, &columns.reading)?;
        Self::of(Source::new(lines, kind)?, columns, liked_from)
    }

    /// Choices from anywhere, in the format that the name of the lines says; JSON lines
    /// where it says none.
    pub fn stream(lines: Lines, columns: &ChoiceColumns, liked_from: Option<f64>) -> Result<Self> {
        let kind = stream_format(&lines, &columns.reading)?;
        let lines = lines.read_by(&columns.reading);
        Self::of(Source::new(lines, kind)?, columns, liked_from)
    }

    fn new(from: From, liked_from: Option<f64>, ignores_ratings: bool) -> Self {
        ChoiceLines {
            from,
            user: String::new(),
            item: String::new(),
            weight: 1.0,
            time: None,
            liked_from,
            ignores_ratings,
            disliked: 0,
        }
    }

    fn of(mut source: Source, columns: &ChoiceColumns, liked_from: Option<f64>) -> Result<Self> {
        if columns.wide {
            // With `liked_from` cells are ratings, of which 0 is one.
            let wide = match liked_from {
                Some(_) => WideTable::of_ratings(source, &columns.user)?,
                None => WideTable::of_choices(source, &columns.user)?,
            };
            return Ok(Self::new(From::Wide(wide), liked_from, false));
        }
        let wanted = |role, name, needed| Wanted { role, name, needed };
        let wanted = [
            wanted(Role::User, Some(columns.user.as_str()), true),
            wanted(Role::Item, Some(columns.item.as_str()), true),
            wanted(Role::Weight, columns.weight.as_deref(), false),
            wanted(Role::Time, columns.time.as_deref(), false),
            wanted(Role::Rating, None, liked_from.is_some()),
        ];
        let mut found = source.choose(wanted, columns.given, USAGE)?;
        let names = found.names.clone().map(Option::unwrap_or_default);
        let [user, item, weight, time, _] = names;
        let is_usual = |name: &str, usual: &[&str]| name.is_empty() || usual.contains(&name);
        let usual = is_usual(&user, &["user"])
            && is_usual(&item, &["item"])
            && is_usual(&weight, &["weight"])
            && is_usual(&time, &["time", "timestamp"]);
        let names = (!usual).then(|| vec![user, item, weight, time]);
        let rating = found.columns[4].take();
        let ignores_ratings = liked_from.is_none() && rating.is_some();
        let from = From::Columns {
            source,
            user: found.needed(0),
            item: found.needed(1),
            weight: found.columns[2].take(),
            time: found.columns[3].take(),
            rating: rating.filter(|_| liked_from.is_some()),
            names,
        };
        Ok(Self::new(from, liked_from, ignores_ratings))
    }

    /// The columns of users, items, weights and times, where they have other than the usual
    /// names.
    pub fn columns(&self) -> Option<&[String]> {
        match &self.from {
            From::Columns { names, .. } => names.as_deref(),
            From::Wide(_) | From::Matrix(_) => None,
        }
    }

    /// Goes to the next choice that can be read; false after the last.
    pub fn advance(&mut self) -> Result<bool> {
        loop {
            let read = match &mut self.from {
                From::Columns { source, .. } => match source.advance()? {
                    false => return Ok(false),
                    true => self.read(),
                },
                From::Wide(_) | From::Matrix(_) => {
                    let weight = &mut self.weight;
                    let (user, item) = (&mut self.user, &mut self.item);
                    let more = match &mut self.from {
                        From::Wide(wide) => wide.advance(user, item, weight)?,
                        From::Matrix(entries) => entries.advance(user, item, weight)?,
                        From::Columns { .. } => false,
                    };
                    if !more {
                        return Ok(false);
                    }
                    match self.liked_from {
                        Some(least) if *weight < least => Ok(false),
                        Some(_) => {
                            *weight = 1.0;
                            Ok(true)
                        }
                        None => weight_in_range(*weight, || format!("`{weight}`")).map(|_| true),
                    }
                }
            };
            match read {
                Ok(true) => return Ok(true),
                Ok(false) => self.disliked += 1,
                Err(message) => match &self.from {
                    From::Columns { source, .. } => source.bad(message)?,
                    From::Wide(_) | From::Matrix(_) => return Err(self.error(message)),
                },
            }
        }
    }

    /// Reads the line; false where its rating is too low.
    fn read(&mut self) -> std::result::Result<bool, String> {
        let From::Columns {
            source,
            user,
            item,
            weight,
            time,
            rating,
            ..
        } = &mut self.from
        else {
            return Ok(true);
        };
        if let (Some(column), Some(least)) = (&*rating, self.liked_from) {
            let field = source.value(column).map_err(|e| e.message)?;
            if finite(&field, "a rating")? < least {
                return Ok(false);
            }
        }
        let mut optional = |column: &Option<Column>| match column {
            None => Ok(None),
            Some(column) => {
                let value = source.value_if_there(column).map_err(|e| e.message)?;
                Ok::<_, String>(value.map(Cow::into_owned))
            }
        };
        self.weight = match optional(weight)? {
            None => 1.0,
            Some(field) => {
                let weight = finite(&field, "a weight above 0")?;
                weight_in_range(weight, || shown(&field))?
            }
        };
        self.time = match optional(time)? {
            None => None,
            Some(field) => match moment(&field) {
                Some(time) => Some(time),
                None => {
                    let found = shown(&field);
                    return Err(format!(
                        "expected a time as a number or a date, found {found}"
                    ));
                }
            },
        };
        let [of_user, of_item] = source.fields([&*user, &*item])?;
        put(&mut self.user, text(&of_user, "a user")?);
        put(&mut self.item, text(&of_item, "an item")?);
        Ok(true)
    }

    /// The choice of the line, made into something.
    pub fn choice<T>(&mut self, make: impl FnOnce(Choice<'_>) -> T) -> T {
        make(Choice {
            user: &self.user,
            item: &self.item,
            weight: self.weight,
            time: self.time,
        })
    }

    /// An error at the line.
    pub fn error(&self, message: impl Into<String>) -> Error {
        match &self.from {
            From::Columns { source, .. } => source.error(message),
            From::Wide(wide) => wide.error(message),
            From::Matrix(entries) => entries.error(message),
        }
    }
}

/// What users chose.
#[derive(Debug, Clone)]
pub struct Choices {
    /// The users, in the order they first came.
    pub users: Ids,
    /// The items.
    pub items: Ids,
    /// A row for each user, with the weight of each item chosen; those of repeated choices
    /// are added.
    pub weights: Rows<f32>,
    /// For each entry of the rows, how many items the user chose later.
    pub later: Vec<u32>,
    /// How often each item was chosen lately, where all choices have a time: a choice counts
    /// half as much for each twentieth of the whole time that lies behind it.
    pub recent: Option<Vec<f64>>,
    /// Choices that repeat an earlier one.
    pub repeated: usize,
    /// Whether ratings stand in the file and were not looked at.
    pub ignores_ratings: bool,
    /// Lines whose rating is too low to be a choice.
    pub disliked: u64,
    /// The columns of users, items, weights and times, where they have other than the usual
    /// names.
    pub columns: Option<Vec<String>>,
}

/// Choices by number, and their times where all have one.
#[derive(Default)]
struct Listed {
    entries: Vec<(u32, u32, f32)>,
    times: Vec<f64>,
}

impl Listed {
    fn push(&mut self, user: u32, item: u32, weight: f64, time: Option<f64>) {
        // Where some have no time, the order of the lines counts for all.
        if self.times.len() == self.entries.len()
            && let Some(time) = time
        {
            self.times.push(time);
        }
        self.entries.push((user, item, weight as f32));
    }
}

impl Choices {
    /// Reads a file as [`ChoiceLines`] does.
    pub fn read(
        path: impl AsRef<Path>,
        columns: &ChoiceColumns,
        liked_from: Option<f64>,
    ) -> Result<Self> {
        let path = path.as_ref();
        let mut lines = ChoiceLines::open(path, columns, liked_from)?;
        let (mut users, mut items, mut listed) = (Ids::new(), Ids::new(), Listed::default());
        while lines.advance()? {
            lines.choice(|choice| {
                let (user, item) = (users.intern(choice.user), items.intern(choice.item));
                listed.push(user, item, choice.weight, choice.time);
            });
        }
        if listed.entries.is_empty() {
            let message = match lines.disliked {
                0 => "no choices".to_owned(),
                n => format!("no choices: all {n} ratings are below what `--liked-from` asks for"),
            };
            return Err(Error::input(message).in_file(path));
        }
        let made = Self::of(users, items, listed)?;
        Ok(Choices {
            ignores_ratings: lines.ignores_ratings,
            disliked: lines.disliked,
            columns: lines.columns().map(<[String]>::to_vec),
            ..made
        })
    }

    /// From choices `(user, item, weight)` in memory, in the order in which they were made.
    ///
    /// ```
    /// use rankfold::data::Choices;
    ///
    /// let choices = Choices::from_entries([("ann", 7, 1.0), ("bob", 7, 1.0), ("ann", 9, 2.0)])?;
    /// assert_eq!((choices.users.len(), choices.items.get(1)), (2, "9"));
    /// # Ok::<(), rankfold::Error>(())
    /// ```
    pub fn from_entries<U: Display, I: Display>(
        entries: impl IntoIterator<Item = (U, I, f64)>,
    ) -> Result<Self> {
        let (mut users, mut items, mut name) = (Ids::new(), Ids::new(), IdText::default());
        let mut listed = Listed::default();
        for (i, (user, item, weight)) in entries.into_iter().enumerate() {
            let one = || -> std::result::Result<(), String> {
                let user = users.intern(text(name.of(user).as_bytes(), "a user")?);
                let item = items.intern(text(name.of(item).as_bytes(), "an item")?);
                let weight = weight_in_range(weight, || format!("`{weight:?}`"))?;
                listed.push(user, item, weight, None);
                Ok(())
            };
            one().map_err(|m| about("choice", i, Error::input(m)))?;
        }
        match listed.entries.is_empty() {
            true => Err(Error::input("no choices")),
            false => Self::of(users, items, listed),
        }
    }

    fn of(users: Ids, items: Ids, listed: Listed) -> Result<Self> {
        let Listed { entries, times } = listed;
        let count = entries.len();
        Shape::new(users.len() as u64, items.len() as u64)?;
        memory::require(count as u128 * 16, &format!("{count} choices"))?;
        // By users, in the order they came.
        let mut starts = vec![0usize; users.len() + 1];
        for entry in &entries {
            starts[entry.0 as usize + 1] += 1;
        }
        for i in 0..users.len() {
            starts[i + 1] += starts[i];
        }
        let mut order = vec![0u32; count];
        let mut next = starts.clone();
        for (number, entry) in entries.iter().enumerate() {
            let at = &mut next[entry.0 as usize];
            order[*at] = number as u32;
            *at += 1;
        }
        let mut weights = Rows::new();
        let (mut later, mut line) = (Vec::new(), Vec::new());
        let (mut indices, mut values) = (Vec::new(), Vec::new());
        for user in 0..users.len() {
            let chosen = &mut order[starts[user]..starts[user + 1]];
            if times.len() == count {
                chosen.sort_by(|&a, &b| times[a as usize].total_cmp(&times[b as usize]));
            }
            line.clear();
            let numbered = chosen.iter().enumerate();
            line.extend(numbered.map(|(place, &number)| {
                let (_, item, weight) = entries[number as usize];
                (item, place as u32, weight)
            }));
            line.sort_unstable_by_key(|&(item, place, _)| (item, place));
            indices.clear();
            values.clear();
            let first = later.len();
            for same in line.chunk_by(|a, b| a.0 == b.0) {
                let &(item, place, _) = same.last().expect("a choice");
                indices.push(item);
                let sum: f64 = same.iter().map(|choice| f64::from(choice.2)).sum();
                values.push(sum.min(*WEIGHTS.end()) as f32);
                later.push(place);
            }
            // From the place of the last choice to how many others came after it.
            let mut places: Vec<u32> = later[first..].to_vec();
            places.sort_unstable();
            for place in &mut later[first..] {
                let after = places.partition_point(|other| other <= place);
                *place = (places.len() - after) as u32;
            }
            weights.push(crate::SparseRow {
                indices: &indices,
                values: &values,
            });
        }
        weights.widen(items.len());
        weights.shrink();
        let recent = (times.len() == count).then(|| recent(&entries, &times, items.len()));
        let repeated = count - weights.nnz();
        Ok(Choices {
            users,
            items,
            weights,
            later,
            recent,
            repeated,
            ignores_ratings: false,
            disliked: 0,
            columns: None,
        })
    }
}

/// The parts of the whole time after each of which a choice counts half.
const TWENTIETH: f64 = 0.05;

fn recent(entries: &[(u32, u32, f32)], times: &[f64], items: usize) -> Vec<f64> {
    let ends = times.iter().fold((f64::MAX, f64::MIN), |(first, last), t| {
        (first.min(*t), last.max(*t))
    });
    let half = TWENTIETH * (ends.1 - ends.0).max(f64::MIN_POSITIVE);
    let mut out = vec![0.0; items];
    for ((_, item, _), time) in entries.iter().zip(times) {
        out[*item as usize] += ((time - ends.1) / half).exp2();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_chosen_lately_counts_more() {
        let text = "user,item,time\na,old,0\nb,old,0\na,half,95\na,new,100\n";
        let found = read("c.csv", text, None).unwrap();
        let recent = found.recent.unwrap();
        assert_eq!(found.items.get(2), "new");
        assert!((recent[1] - 0.5).abs() < 1e-12 && recent[2] == 1.0);
        assert!((recent[0] - 2.0 * 0.5_f64.powi(20)).abs() < 1e-12);
        let untimed = read("c.csv", "user,item\na,x\n", None).unwrap();
        assert_eq!(untimed.recent, None);
    }

    fn read(name: &str, text: &str, liked_from: Option<f64>) -> Result<Choices> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let read = Choices::read(&path, &ChoiceColumns::default(), liked_from);
        read.map_err(|mut e| {
            e.file = Some(name.into());
            e
        })
    }

    fn row(choices: &Choices, user: &str) -> Vec<(String, f32, u32)> {
        let user = choices.users.find(user).unwrap() as usize;
        let first: usize = (0..user).map(|u| choices.weights.row(u).len()).sum();
        let entries = choices.weights.row(user).iter().enumerate();
        entries
            .map(|(at, (item, weight))| {
                let name = choices.items.get(item).to_owned();
                (name, weight, choices.later[first + at])
            })
            .collect()
    }

    #[test]
    fn choices_come_with_and_without_weights_and_times() {
        let plain = "user,item\nu1,a\nu1,b\nu2,a\nu1,a\n";
        let found = read("a.csv", plain, None).unwrap();
        assert_eq!(found.repeated, 1);
        assert_eq!(
            row(&found, "u1"),
            [("a".into(), 2.0, 0), ("b".into(), 1.0, 1)]
        );
        let timed = "time,user,weight,item\n9,u1,2,a\n5,u1,1,b\n7,u1,.5,c\n";
        let found = read("a.csv", timed, None).unwrap();
        let want = [
            ("a".into(), 2.0, 0),
            ("b".into(), 1.0, 2),
            ("c".into(), 0.5, 1),
        ];
        assert_eq!(row(&found, "u1"), want);
        let json =
            "{\"user\":\"u1\",\"item\":\"a\"}\n{\"user\":\"u1\",\"item\":\"b\",\"weight\":3}\n";
        let found = read("a.jsonl", json, None).unwrap();
        assert_eq!(
            row(&found, "u1"),
            [("a".into(), 1.0, 1), ("b".into(), 3.0, 0)]
        );
        let spaces = read("a.dat", "1 2\n1 3\n2 2\n", None).unwrap();
        assert_eq!((spaces.users.len(), spaces.items.len()), (2, 2));
    }

    #[test]
    fn ratings_are_left_aside_or_asked() {
        let text = "user,item,rating\nu1,a,5\nu1,b,2\nu2,a,4\n";
        let all = read("a.csv", text, None).unwrap();
        assert!(all.ignores_ratings && all.weights.nnz() == 3);
        let liked = read("a.csv", text, Some(4.0)).unwrap();
        assert!(!liked.ignores_ratings && liked.weights.nnz() == 2 && liked.disliked == 1);
        assert_eq!(row(&liked, "u1"), [("a".into(), 1.0, 0)]);
        let none = read("a.csv", text, Some(6.0)).unwrap_err();
        assert!(none.message.contains("--liked-from"), "{none}");
        let error = read("a.csv", "user,item\nu1,a\n", Some(4.0)).unwrap_err();
        assert!(error.message.contains("which has the ratings"), "{error}");
    }

    #[test]
    fn bad_lines_are_named() {
        let cases = [
            ("user,item,weight\nu1,a,0\n", 2, "weight above 0"),
            ("user,item,weight\nu1,a,1\nu1,b,-1\n", 3, "weight above 0"),
            ("user,item,weight\nu1,a,nan\n", 2, "weight above 0"),
            ("user,item,weight\nu1,a,1e-300\n", 2, "weight above 0"),
            ("user,item,time\nu1,a,noon\n", 2, "a time as a number"),
            ("user,item\nu1,\n", 2, "expected an item, found nothing"),
            ("user,item\nu1,a,b\n", 2, "expected 2 fields, found 3"),
        ];
        for (text, line, message) in cases {
            let error = read("a.csv", text, None).unwrap_err();
            assert_eq!(error.line, Some(line), "{error}");
            assert!(error.message.contains(message), "{error}");
        }
        assert_eq!(
            read("a.csv", "user,item\n", None).unwrap_err().message,
            "no choices"
        );
        assert!(read("a.csv", "person,item\nu1,a\n", None).is_err());
        assert!(Choices::from_entries([("a", "b", f64::NAN)]).is_err());
    }
}
