//! Choices: users, and the items that they clicked, played or bought.

use std::fmt::Display;
use std::path::Path;

use super::about;
use super::columns::{Column, Source};
use super::format::{Format, LineFormat};
use super::number::{number, shown};
use super::open::{Lines, is_dash, open};
use super::ratings::text;
use crate::ids::IdText;
use crate::sparse::Shape;
use crate::{Error, Ids, Result, Rows, memory};

/// The names of the columns of users and items, and of what may stand beside them.
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
}

impl Default for ChoiceColumns {
    fn default() -> Self {
        ChoiceColumns {
            user: "user".into(),
            item: "item".into(),
            weight: None,
            time: None,
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
            }),
            _ => Err(format!(
                "expected two to four names, USER,ITEM[,WEIGHT[,TIME]], found `{text}`"
            )),
        }
    }
}

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
    source: Source,
    user: Column,
    item: Column,
    weight: Option<Column>,
    time: Option<Column>,
    rating: Option<Column>,
    liked_from: Option<f64>,
    /// Whether ratings stand in the file and are not looked at.
    pub ignores_ratings: bool,
    /// Lines whose rating is too low to be a choice.
    pub disliked: u64,
}

fn finite(field: &[u8], what: &str) -> std::result::Result<f64, String> {
    match number::<f64>(field) {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(format!("expected {what}, found {}", shown(field))),
    }
}

fn checked_weight(weight: f64, shown: impl Fn() -> String) -> std::result::Result<f64, String> {
    match WEIGHTS.contains(&weight) {
        true => Ok(weight),
        false => Err(format!(
            "expected a weight above 0, from 1e-9 to 1e9, found {}",
            shown()
        )),
    }
}

impl ChoiceLines {
    /// Opens `.csv`, `.tsv`, `.jsonl`, or `.dat` with `::`, tabs, commas or spaces, each also
    /// `.gz` or `.zst`; `-` is stdin, as `.dat`. Without a header the first two columns are
    /// meant. Where `liked_from` is given, lines with a lower rating are left out.
    pub fn open(
        path: impl AsRef<Path>,
        columns: &ChoiceColumns,
        liked_from: Option<f64>,
    ) -> Result<Self> {
        let path = path.as_ref();
        let kind = match is_dash(path) {
            true => LineFormat::Ratings,
            false => match Format::of(path) {
                Ok(Format::Lines(kind)) if kind != LineFormat::Svmlight => kind,
                _ => {
                    let message = "choices are read from .csv, .tsv, .jsonl, .dat or .data, plain \
                        or with .gz or .zst";
                    return Err(Error::input(message).in_file(path));
                }
            },
        };
        let lines = Lines::new(open(path)?, path);
        Self::of(Source::new(lines, kind)?, columns, liked_from)
    }

    /// Choices from anywhere, in the format that the name of the lines says; JSON lines
    /// where it says none.
    pub fn stream(lines: Lines, columns: &ChoiceColumns, liked_from: Option<f64>) -> Result<Self> {
        let kind = match Format::of(lines.path()) {
            Ok(Format::Lines(kind)) if !is_dash(lines.path()) && kind != LineFormat::Svmlight => {
                kind
            }
            _ => LineFormat::Jsonl,
        };
        Self::of(Source::new(lines, kind)?, columns, liked_from)
    }

    fn of(mut source: Source, columns: &ChoiceColumns, liked_from: Option<f64>) -> Result<Self> {
        let (user, item) = (source.column(&columns.user)?, source.column(&columns.item)?);
        let mut beside = |given: &Option<String>, usual: &[&str]| -> Result<Option<Column>> {
            match given {
                Some(name) => source.column(name).map(Some),
                None => Ok(source.column_if_there(usual)),
            }
        };
        let weight = beside(&columns.weight, &["weight"])?;
        let time = beside(&columns.time, &["time", "timestamp"])?;
        let (rating, ignores_ratings) = match liked_from {
            Some(_) => (Some(source.column("rating")?), false),
            None => (None, source.column_if_there(&["rating"]).is_some()),
        };
        Ok(ChoiceLines {
            source,
            user,
            item,
            weight,
            time,
            rating,
            liked_from,
            ignores_ratings,
            disliked: 0,
        })
    }

    /// Goes to the next choice; false after the last.
    pub fn advance(&mut self) -> Result<bool> {
        while self.source.advance()? {
            let (Some(rating), Some(least)) = (&self.rating, self.liked_from) else {
                return Ok(true);
            };
            let field = self.source.value(rating)?.into_owned();
            let rating = finite(&field, "a rating").map_err(|m| self.source.error(m))?;
            if rating >= least {
                return Ok(true);
            }
            self.disliked += 1;
        }
        Ok(false)
    }

    /// The choice of the line, made into something.
    pub fn choice<T>(&mut self, make: impl FnOnce(Choice<'_>) -> T) -> Result<T> {
        let weight = match &self.weight {
            None => 1.0,
            Some(column) => match self.source.value_if_there(column)? {
                None => 1.0,
                Some(field) => {
                    let field = field.into_owned();
                    let value = finite(&field, "a weight above 0");
                    let value = value.and_then(|w| checked_weight(w, || shown(&field)));
                    value.map_err(|message| self.source.error(message))?
                }
            },
        };
        let time = match &self.time {
            None => None,
            Some(column) => match self.source.value_if_there(column)? {
                None => None,
                Some(field) => {
                    let field = field.into_owned();
                    let value = finite(&field, "a time as a number");
                    Some(value.map_err(|message| self.source.error(message))?)
                }
            },
        };
        let [user, item] = self.source.values([&self.user, &self.item])?;
        let made = text(&user, "a user").and_then(|user| {
            let item = text(&item, "an item")?;
            Ok(make(Choice {
                user,
                item,
                weight,
                time,
            }))
        });
        made.map_err(|message| self.source.error(message))
    }

    /// An error at the line.
    pub fn error(&self, message: impl Into<String>) -> Error {
        self.source.error(message)
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
            })?;
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
                let weight = checked_weight(weight, || format!("`{weight:?}`"))?;
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
        assert!(error.message.contains("`rating`"), "{error}");
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
