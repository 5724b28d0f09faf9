//! Ratings: users, items, and what users made of some of them.

use std::fmt::Display;
use std::path::Path;

use super::about;
use super::columns::{Column, Columns, Source};
use super::format::{Format, LineFormat};
use super::number::{NoNumber, number, shown};
use super::open::{Lines, is_dash, open};
use super::rating_blocks::{self, Block, Entries};
use crate::ids::IdText;
use crate::sparse::{Observed, Shape};
use crate::{Error, Ids, Result};

/// The names of the columns of users, items and ratings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RatingColumns {
    /// Users.
    pub user: String,
    /// Items.
    pub item: String,
    /// Ratings.
    pub rating: String,
}

impl Default for RatingColumns {
    fn default() -> Self {
        RatingColumns {
            user: "user".into(),
            item: "item".into(),
            rating: "rating".into(),
        }
    }
}

impl std::str::FromStr for RatingColumns {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let names: Vec<&str> = text.split(',').map(str::trim).collect();
        match names[..] {
            [user, item, rating] if names.iter().all(|name| !name.is_empty()) => {
                Ok(RatingColumns {
                    user: user.into(),
                    item: item.into(),
                    rating: rating.into(),
                })
            }
            _ => Err(format!(
                "expected three names, USER,ITEM,RATING, found `{text}`"
            )),
        }
    }
}

/// The largest rating, by size: squares of it, and sums of those, are finite in
/// double precision, and itself in single.
pub const LARGEST_RATING: f64 = 1e30;

/// What a file of ratings holds.
#[derive(Debug, Clone)]
pub struct Ratings {
    /// The users, in the order they first came.
    pub users: Ids,
    /// The items.
    pub items: Ids,
    /// The ratings: users are rows, items are columns.
    pub entries: Observed,
    /// Ratings that a later one for the same user and item replaced.
    pub repeated: usize,
}

/// The lines of a file of ratings, one by one.
pub struct RatingLines {
    source: Source,
    user: Column,
    item: Column,
    /// Absent where only pairs are wanted and there is no such column.
    rating: Option<Column>,
}

/// An id, which is any text that is not empty.
pub(super) fn text<'a>(field: &'a [u8], what: &str) -> std::result::Result<&'a str, String> {
    match std::str::from_utf8(field) {
        Ok("") => Err(format!("expected {what}, found nothing")),
        Ok(text) => Ok(text),
        Err(_) => Err(format!("expected {what} in UTF-8, found {}", shown(field))),
    }
}

fn rating(field: &[u8]) -> std::result::Result<f64, String> {
    let value = number::<f64>(field).unwrap_or_else(|why| match why {
        NoNumber::TooLarge => f64::INFINITY,
        NoNumber::Syntax => f64::NAN,
    });
    in_range(value, || shown(field))
}

fn in_range(rating: f64, shown: impl Fn() -> String) -> std::result::Result<f64, String> {
    match rating.abs() {
        size if size <= LARGEST_RATING => Ok(rating),
        size if size.is_nan() => Err(format!("expected a rating, found {}", shown())),
        _ => Err(format!("the rating {} is too large", shown())),
    }
}

impl RatingLines {
    /// Opens `.csv`, `.tsv`, `.jsonl`, or `.dat` with `::`, tabs, commas or spaces,
    /// each also `.gz` or `.zst`; `-` is stdin, as `.dat`. Without a header, and in
    /// `.dat`, the first three columns are meant.
    pub fn open(path: impl AsRef<Path>, columns: &RatingColumns) -> Result<Self> {
        Self::with(path.as_ref(), columns, true)
    }

    /// The same for pairs of a user and an item, whether ratings follow or not.
    pub fn open_pairs(path: impl AsRef<Path>, columns: &RatingColumns) -> Result<Self> {
        Self::with(path.as_ref(), columns, false)
    }

    /// Ratings from anywhere, in the format that the name of the lines says; JSON lines
    /// where it says none.
    pub fn stream(lines: Lines, columns: &RatingColumns) -> Result<Self> {
        let kind = match Format::of(lines.path()) {
            Ok(Format::Lines(kind)) if !is_dash(lines.path()) && kind != LineFormat::Svmlight => {
                kind
            }
            _ => LineFormat::Jsonl,
        };
        Self::of(Source::new(lines, kind)?, columns, true)
    }

    fn with(path: &Path, columns: &RatingColumns, rated: bool) -> Result<Self> {
        let kind = match is_dash(path) {
            true => LineFormat::Ratings,
            false => match Format::of(path) {
                Ok(Format::Lines(kind)) if kind != LineFormat::Svmlight => kind,
                _ => {
                    let message = "ratings are read from .csv, .tsv, .jsonl, .dat or .data, plain or \
                        with .gz or .zst";
                    return Err(Error::input(message).in_file(path));
                }
            },
        };
        let lines = Lines::new(open(path)?, path);
        Self::of(Source::new(lines, kind)?, columns, rated)
    }

    fn of(mut source: Source, columns: &RatingColumns, rated: bool) -> Result<Self> {
        let (user, item) = (source.column(&columns.user)?, source.column(&columns.item)?);
        let rating = match rated {
            true => Some(source.column(&columns.rating)?),
            false => None,
        };
        Ok(RatingLines {
            source,
            user,
            item,
            rating,
        })
    }

    /// Goes to the next line; false after the last.
    pub fn advance(&mut self) -> Result<bool> {
        self.source.advance()
    }

    /// The user and the item of the line, made into something.
    pub fn pair<T>(&mut self, make: impl FnOnce(&str, &str) -> T) -> Result<T> {
        let [user, item] = self.source.values([&self.user, &self.item])?;
        let made = text(&user, "a user")
            .and_then(|user| text(&item, "an item").map(|item| make(user, item)));
        made.map_err(|message| self.source.error(message))
    }

    /// The user, the item and the rating of the line, made into something.
    pub fn rating<T>(&mut self, make: impl FnOnce(&str, &str, f64) -> T) -> Result<T> {
        let column = self.rating.as_ref().expect("opened with ratings");
        let [user, item, value] = self.source.values([&self.user, &self.item, column])?;
        let made = text(&user, "a user").and_then(|user| {
            let item = text(&item, "an item")?;
            Ok(make(user, item, rating(&value)?))
        });
        made.map_err(|message| self.source.error(message))
    }

    /// Where columns stand, in a file of plain lines.
    fn plain(&self) -> Option<Columns> {
        let rating = self.rating.as_ref()?;
        self.source.plain([&self.user, &self.item, rating])
    }

    /// An error at the line.
    pub fn error(&self, message: impl Into<String>) -> Error {
        self.source.error(message)
    }
}

impl Ratings {
    /// Reads a file as [`RatingLines`] does.
    pub fn read(path: impl AsRef<Path>, columns: &RatingColumns) -> Result<Self> {
        let path = path.as_ref();
        let mut lines = RatingLines::open(path, columns)?;
        if let Some(plain) = lines.plain().filter(|_| can_be_read_again(path))
            && let Some(Block {
                users,
                items,
                entries,
            }) = rating_blocks::read(path, &plain)?
            && !users.is_empty()
        {
            return Self::of_checked(users, items, entries);
        }
        let (mut users, mut items, mut entries) = (Ids::new(), Ids::new(), Vec::new());
        while lines.advance()? {
            let entry = lines
                .rating(|user, item, rating| (users.intern(user), items.intern(item), rating))?;
            entries.push(entry);
        }
        if entries.is_empty() {
            return Err(Error::input("no ratings").in_file(path));
        }
        Self::new(users, items, entries)
    }

    /// From ratings `(user, item, rating)` in memory, numbered as they first come; of
    /// repeated ones the last counts. No ratings are an error.
    ///
    /// ```
    /// use rankfold::data::Ratings;
    ///
    /// let ratings = Ratings::from_entries([("ann", 7, 4.5), ("bob", 7, 2.0), ("ann", 9, 5.0)])?;
    /// assert_eq!((ratings.users.len(), ratings.items.get(1)), (2, "9"));
    /// # Ok::<(), rankfold::Error>(())
    /// ```
    pub fn from_entries<U: Display, I: Display>(
        entries: impl IntoIterator<Item = (U, I, f64)>,
    ) -> Result<Self> {
        let (mut users, mut items, mut name) = (Ids::new(), Ids::new(), IdText::default());
        let mut entry = |(user, item, rating): (U, I, f64)| {
            Ok((
                users.intern(text(name.of(user).as_bytes(), "a user")?),
                items.intern(text(name.of(item).as_bytes(), "an item")?),
                rating,
            ))
        };
        let entries = entries.into_iter().enumerate();
        let numbered = entries.map(|(i, given)| entry(given).map_err(|m| bad_entry(i, m)));
        let entries = numbered.collect::<Result<Vec<_>>>()?;
        match entries.is_empty() {
            true => Err(Error::input("no ratings")),
            false => Self::new(users, items, entries),
        }
    }

    /// From ratings `(user, item, rating)` by number; of repeated ones the last
    /// counts. `(0..count).collect()` are the ids of users without names.
    pub fn new(users: Ids, items: Ids, entries: Vec<(u32, u32, f64)>) -> Result<Self> {
        let check = |&(user, item, rating): &(u32, u32, f64)| {
            let index = |number: u32, ids: &Ids| Shape::index(number.into(), ids.len());
            index(user, &users).map_err(|m| format!("user {m}"))?;
            index(item, &items).map_err(|m| format!("item {m}"))?;
            in_range(rating, || format!("`{rating:?}`"))
        };
        for (i, entry) in entries.iter().enumerate() {
            check(entry).map_err(|message| bad_entry(i, message))?;
        }
        Self::of_checked(users, items, entries)
    }

    /// The same from entries that were checked.
    fn of_checked(users: Ids, items: Ids, entries: Entries) -> Result<Self> {
        let (entries, repeated) = Observed::new((users.len(), items.len()), entries)?;
        Ok(Ratings {
            users,
            items,
            entries,
            repeated: repeated.0,
        })
    }
}

/// Whether a path is a file: stdin and pipes give their lines once.
fn can_be_read_again(path: &Path) -> bool {
    !is_dash(path) && std::fs::metadata(path).is_ok_and(|m| m.is_file())
}

fn bad_entry(number: usize, message: String) -> Error {
    about("rating", number, Error::input(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sparse::Part;

    fn read(name: &str, text: &str) -> Result<Ratings> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        Ratings::read(&path, &RatingColumns::default()).map_err(|mut e| {
            e.file = Some(name.into());
            e
        })
    }

    #[test]
    fn ratings_come_in_many_forms() {
        let forms = [
            (
                "a.csv",
                "user,item,rating,time\nu1,i1,3,9\nu2,i1,4.5,9\nu1,i1,5,9\n",
            ),
            (
                "a.csv",
                "time,rating,item,user\n1,3,i1,u1\n1,4.5,i1,u2\n1,5,i1,u1\n",
            ),
            (
                "a.tsv",
                "user\titem\trating\nu1\ti1\t3\nu2\ti1\t4.5\nu1\ti1\t5\n",
            ),
            ("a.dat", "u1::i1::3::99\nu2::i1::4.5::99\nu1::i1::5::99\n"),
            ("a.dat", "u1 i1 3\nu2 i1 4.5\nu1 i1 5\n"),
            (
                "a.jsonl",
                "{\"user\":\"u1\",\"item\":\"i1\",\"rating\":3}\n{\"item\":\"i1\",\"user\":\"u2\",\"rating\":4.5}\n{\"user\":\"u1\",\"item\":\"i1\",\"rating\":5}\n",
            ),
        ];
        for (name, text) in forms {
            let ratings = read(name, text).unwrap();
            assert_eq!((ratings.users.len(), ratings.items.len()), (2, 1), "{name}");
            let view = ratings.entries.part(Part::All);
            assert_eq!(view.columns.line(0), (&[0, 1][..], &[5.0, 4.5][..]));
            assert_eq!(ratings.repeated, 1);
        }
        let plain = read("a.csv", "7,9,3\n8,9,4\n").unwrap();
        assert_eq!(plain.users.iter().collect::<Vec<_>>(), ["7", "8"]);
    }

    #[test]
    fn ratings_by_number_are_checked() {
        let ids = |name: &str| {
            let mut ids = Ids::new();
            ids.intern(name);
            ids
        };
        for (entry, message) in [
            ((1, 0, 3.0), "user index 1 is beyond the last one, 0"),
            ((0, 1, 3.0), "item index 1 is beyond the last one, 0"),
            ((0, 0, f64::NAN), "expected a rating, found `NaN`"),
            ((0, 0, f64::INFINITY), "the rating `inf` is too large"),
            ((0, 0, 1e31), "the rating `1e31` is too large"),
        ] {
            let entries = vec![(0, 0, 1.0), entry];
            let error = Ratings::new(ids("u"), ids("i"), entries).unwrap_err();
            assert_eq!(error.message, format!("rating 1: {message}"));
        }
        let none = Ratings::new(Ids::new(), Ids::new(), vec![(0, 0, 1.0)]).unwrap_err();
        let want = "rating 0: user index 0 is beyond the last one: there are none";
        assert_eq!(none.message, want);
        assert!(Ratings::new(ids("u"), ids("i"), vec![(0, 0, -1e30)]).is_ok());
    }

    #[test]
    fn ratings_come_from_memory() {
        let file = read("a.csv", "user,item,rating\nu1,7,3\nu2,7,4.5\nu1,7,5\n").unwrap();
        let memory = [("u1", 7, 3.0), ("u2", 7, 4.5), ("u1", 7, 5.0)];
        let memory = Ratings::from_entries(memory).unwrap();
        assert_eq!((&memory.users, &memory.items), (&file.users, &file.items));
        assert_eq!(memory.repeated, 1);
        let columns = |ratings: &Ratings| {
            let (users, values) = ratings.entries.part(Part::All).columns.line(0);
            (users.to_vec(), values.to_vec())
        };
        assert_eq!(columns(&memory), columns(&file));
        let one = Ratings::from_entries([(String::from("u"), 1u64, -2.0)]).unwrap();
        assert_eq!(one.entries.count(), 1);
        for (list, message) in [
            (vec![], "no ratings"),
            (
                vec![("u", "i", 1.0), ("", "i", 1.0)],
                "rating 1: expected a user, found nothing",
            ),
            (
                vec![("u", "", 1.0)],
                "rating 0: expected an item, found nothing",
            ),
            (
                vec![("u", "i", f64::NAN)],
                "rating 0: expected a rating, found `NaN`",
            ),
        ] {
            assert_eq!(Ratings::from_entries(list).unwrap_err().message, message);
        }
    }

    #[test]
    fn bad_lines_say_where_and_what() {
        let message = |name: &str, text: &str| read(name, text).unwrap_err().to_string();
        assert_eq!(
            message("a.csv", "user,item,rating\nu,i,good\n"),
            "a.csv:2: expected a rating, found `good`"
        );
        assert_eq!(
            message("a.csv", "user,item,rating\nu,i,nan\n"),
            "a.csv:2: expected a rating, found `nan`"
        );
        assert_eq!(
            message("a.csv", "user,item,rating\nu,i,1e999\n"),
            "a.csv:2: the rating `1e999` is too large"
        );
        assert_eq!(
            message("a.csv", "user,item,rating\nu,i,-2e30\n"),
            "a.csv:2: the rating `-2e30` is too large"
        );
        assert_eq!(
            message("a.csv", "user,item\nu,i\n"),
            "a.csv: no column is called `rating`: expected one of `user`, `item`"
        );
        assert_eq!(
            message("a.csv", "user,item,rating\nu,,3\n"),
            "a.csv:2: expected an item, found nothing"
        );
        assert_eq!(
            message("a.csv", "user,item,rating\nann,a,1\nann,a,1,5\n"),
            "a.csv:3: expected 3 fields, found 4"
        );
        assert_eq!(
            message("a.csv", "user,item,rating,time\nann,a,1\n"),
            "a.csv:2: expected 4 fields, found 3"
        );
        assert_eq!(
            message("a.dat", "1::2::3::99\n1::2::3\n"),
            "a.dat:2: expected 4 fields, found 3"
        );
        assert_eq!(
            message("a.csv", "\nuser,item,rating,rating\nann,a,1,5\n"),
            "a.csv:2: column `rating` stands twice"
        );
        assert_eq!(
            message(
                "a.jsonl",
                "{\"user\":1,\"item\":2,\"rating\":3,\"rating\":5}\n"
            ),
            "a.jsonl:1: column 38: `rating` stands twice"
        );
        assert_eq!(
            message("a.dat", "u::i\n"),
            "a.dat:1: expected `rating` in field 3, found 2 fields"
        );
        assert_eq!(message("a.csv", "user,item,rating\n"), "a.csv: no ratings");
        assert_eq!(message("a.csv", ""), "a.csv: no ratings");
        assert_eq!(
            message("a.svm", "1 1:1\n"),
            "a.svm: ratings are read from .csv, .tsv, .jsonl, .dat or .data, plain or with .gz or .zst"
        );
    }
}
