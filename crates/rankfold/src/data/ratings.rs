//! Ratings: users, items, and what users made of some of them.

use std::fmt::Display;
use std::path::Path;

use super::about;
use super::columns::{Column, Columns, Source};
use super::format::{Format, LineFormat};
use super::number::{NoNumber, number, shown};
use super::open::{Lines, is_dash};
use super::rating_blocks::{self, Block, Entries};
use super::reading::Reading;
use super::recognize::Role;
use super::roles::{Found, Wanted};
use super::wide::{MatrixEntries, WideTable};
use crate::ids::IdText;
use crate::sparse::{Observed, Shape};
use crate::{Error, Ids, Result};

/// Which columns hold users, items and ratings, and how files of ratings are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RatingColumns {
    /// Users.
    pub user: String,
    /// Items.
    pub item: String,
    /// Ratings.
    pub rating: String,
    /// Whether these names were given, and must be there. Others are tried first, and then
    /// columns are recognized by what people call them.
    pub given: bool,
    /// Whether a file is a table with a row for each user and a column for each item. Empty
    /// cells are unknown.
    pub wide: bool,
    /// The format of files, and what is done with bad lines.
    pub reading: Reading,
}

impl Default for RatingColumns {
    fn default() -> Self {
        RatingColumns {
            user: "user".into(),
            item: "item".into(),
            rating: "rating".into(),
            given: false,
            wide: false,
            reading: Reading::default(),
        }
    }
}

impl RatingColumns {
    /// The columns of an earlier file, as [`Ratings::columns`] names them.
    pub fn kept(names: Option<&[String]>) -> Self {
        match names {
            Some([user, item, rating]) => RatingColumns {
                user: user.clone(),
                item: item.clone(),
                rating: rating.clone(),
                ..Default::default()
            },
            _ => RatingColumns::default(),
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
                    given: true,
                    ..Default::default()
                })
            }
            _ => Err(format!("expected three names, {USAGE}, found `{text}`")),
        }
    }
}

/// What `--columns` expects.
const USAGE: &str = "USER,ITEM,RATING";

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
    /// The columns of users, items and ratings, where they have other than the usual names.
    pub columns: Option<Vec<String>>,
}

/// The lines of a file of ratings, one by one.
pub struct RatingLines {
    from: From,
    user: String,
    item: String,
    rating: f64,
}

/// Where ratings come from.
enum From {
    Columns {
        source: Source,
        user: Column,
        item: Column,
        /// Absent where only pairs are wanted.
        rating: Option<Column>,
        names: Option<Vec<String>>,
    },
    Wide(WideTable),
    Matrix(MatrixEntries),
}

/// An id, which is any text that is not empty.
pub(super) fn text<'a>(field: &'a [u8], what: &str) -> std::result::Result<&'a str, String> {
    match std::str::from_utf8(field) {
        Ok("") => Err(format!("expected {what}, found nothing")),
        Ok(text) => Ok(text),
        Err(_) => Err(format!("expected {what} in UTF-8, found {}", shown(field))),
    }
}

pub(super) fn rating(field: &[u8]) -> std::result::Result<f64, String> {
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
    /// Opens `.csv`, `.tsv`, `.jsonl`, or `.dat` with `::`, tabs, commas, `;`, `|` or spaces,
    /// each also `.gz` or `.zst`, `.parquet` or `.arrow`; `-` is stdin, as `.dat`. Without a
    /// header the first three columns are meant. `.npz` and `.mtx` hold a matrix of users by items.
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
        let kind = stream_format(&lines, &columns.reading)?;
        let lines = lines.read_by(&columns.reading);
        Self::of(Source::new(lines, kind)?, columns, true)
    }

    fn with(path: &Path, columns: &RatingColumns, rated: bool) -> Result<Self> {
        let kind = match line_format(path, &columns.reading) {
            Ok(kind) => kind,
            Err(Format::Npz | Format::MatrixMarket) if !columns.wide => {
                let entries = MatrixEntries::read(path, &columns.reading)?;
                return Ok(Self::new(From::Matrix(entries)));
            }
            Err(_) => {
                let message = "ratings are read from .csv, .tsv, .jsonl, .dat, .data, .base, .txt or \
                    .inter, plain or with .gz or .zst, .parquet, .arrow, .npz or .mtx; --format names the format of other files";
                return Err(Error::input(message).in_file(path));
            }
        };
        let lines = Lines::open_with(path, &columns.reading)?;
        Self::of(Source::new(lines, kind)?, columns, rated)
    }

    fn new(from: From) -> Self {
        RatingLines {
            from,
            user: String::new(),
            item: String::new(),
            rating: f64::NAN,
        }
    }

    fn of(mut source: Source, columns: &RatingColumns, rated: bool) -> Result<Self> {
        if columns.wide {
            let wide = WideTable::of_ratings(source, &columns.user);
            return wide.map(|wide| Self::new(From::Wide(wide)));
        }
        let wanted = |role, name, needed| Wanted {
            role,
            name: Some(name),
            needed,
        };
        let wanted = [
            wanted(Role::User, columns.user.as_str(), true),
            wanted(Role::Item, &columns.item, true),
            wanted(Role::Rating, &columns.rating, rated),
        ];
        let mut found = match rated {
            true => source.choose(wanted, columns.given, USAGE)?,
            false => {
                let [user, item, _] = wanted;
                let pair = source.choose([user, item], columns.given, USAGE)?;
                let ([user, item], [a, b]) = (pair.columns, pair.names);
                Found {
                    columns: [user, item, None],
                    names: [a, b, None],
                }
            }
        };
        let names = found.names.iter().flatten().cloned().collect::<Vec<_>>();
        let usual = wanted.map(|one| one.role.usual());
        Ok(Self::new(From::Columns {
            source,
            user: found.needed(0),
            item: found.needed(1),
            rating: found.columns[2].take(),
            names: (names.len() == 3 && names != usual).then_some(names),
        }))
    }

    /// The columns of users, items and ratings, where they have other than the usual names.
    pub fn columns(&self) -> Option<&[String]> {
        match &self.from {
            From::Columns { names, .. } => names.as_deref(),
            From::Wide(_) | From::Matrix(_) => None,
        }
    }

    /// Goes to the next line that can be read; false after the last.
    pub fn advance(&mut self) -> Result<bool> {
        let RatingLines {
            from,
            user,
            item,
            rating,
        } = self;
        match from {
            From::Columns {
                source,
                user: of_user,
                item: of_item,
                rating: of_rating,
                ..
            } => {
                let mut put = |found: [&[u8]; 2], value: Option<&[u8]>| {
                    put(user, text(found[0], "a user")?);
                    put_item(item, found[1])?;
                    *rating = value.map_or(Ok(f64::NAN), self::rating)?;
                    Ok(())
                };
                while source.advance()? {
                    let read: std::result::Result<(), String> = match of_rating {
                        Some(of_rating) => source
                            .fields([of_user, of_item, of_rating])
                            .and_then(|[user, item, value]| put([&user, &item], Some(&value))),
                        None => source
                            .fields([of_user, of_item])
                            .and_then(|[user, item]| put([&user, &item], None)),
                    };
                    match read {
                        Ok(()) => return Ok(true),
                        Err(message) => source.bad(message)?,
                    }
                }
                Ok(false)
            }
            From::Wide(wide) => wide.advance(user, item, rating),
            From::Matrix(entries) => entries.advance(user, item, rating),
        }
    }

    /// The user and the item of the line, made into something.
    pub fn pair<T>(&mut self, make: impl FnOnce(&str, &str) -> T) -> T {
        make(&self.user, &self.item)
    }

    /// The user, the item and the rating of the line, made into something.
    pub fn rating<T>(&mut self, make: impl FnOnce(&str, &str, f64) -> T) -> T {
        make(&self.user, &self.item, self.rating)
    }

    /// Where columns stand, in a file of plain lines.
    fn plain(&self) -> Option<Columns> {
        match &self.from {
            From::Columns {
                source,
                user,
                item,
                rating,
                ..
            } => source.plain([user, item, rating.as_ref()?]),
            From::Wide(_) | From::Matrix(_) => None,
        }
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

/// Puts a text into memory that is used again.
pub(super) fn put(place: &mut String, text: &str) {
    place.clear();
    place.push_str(text);
}

fn put_item(place: &mut String, field: &[u8]) -> std::result::Result<(), String> {
    put(place, text(field, "an item")?);
    Ok(())
}

/// The format of the lines of a file, or the other format that it has; svmlight where it is
/// not known.
pub(super) fn line_format(
    path: &Path,
    reading: &Reading,
) -> std::result::Result<LineFormat, Format> {
    if is_dash(path) && reading.format().is_none() {
        return Ok(LineFormat::Ratings);
    }
    let none = Format::Lines(LineFormat::Svmlight);
    match reading.format_of(path).unwrap_or(none) {
        Format::Lines(kind) if kind != LineFormat::Svmlight => Ok(kind),
        other => Err(other),
    }
}

/// The format of a stream: JSON lines where its name says none.
pub(super) fn stream_format(lines: &Lines, reading: &Reading) -> Result<LineFormat> {
    if is_dash(lines.path()) && reading.format().is_none() {
        return Ok(LineFormat::Jsonl);
    }
    match (reading.format_of(lines.path()), reading.format()) {
        (Ok(Format::Lines(kind)), _) if kind != LineFormat::Svmlight => Ok(kind),
        (_, None) => Ok(LineFormat::Jsonl),
        (_, Some(format)) => Err(Error::option(
            "format",
            format!("of a stream must be csv, tsv, jsonl or dat, found `{format}`"),
        )),
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
            let read = Self::of_checked(users, items, entries)?;
            return Ok(read.with_columns(&lines));
        }
        let (mut users, mut items, mut entries) = (Ids::new(), Ids::new(), Vec::new());
        while lines.advance()? {
            let entry =
                lines.rating(|user, item, rating| (users.intern(user), items.intern(item), rating));
            entries.push(entry);
        }
        if entries.is_empty() {
            return Err(Error::input("no ratings").in_file(path));
        }
        Self::new(users, items, entries).map(|read| read.with_columns(&lines))
    }

    fn with_columns(mut self, lines: &RatingLines) -> Self {
        self.columns = lines.columns().map(<[String]>::to_vec);
        self
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
            columns: None,
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
            "a.csv: found the columns `user`, `item`, and it is not clear which has the ratings; name \
             them with `--columns USER,ITEM,RATING`"
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
            "a.svm: ratings are read from .csv, .tsv, .jsonl, .dat, .data, .base, .txt or .inter, plain \
             or with .gz or .zst, .parquet, .arrow, .npz or .mtx; --format names the format of other files"
        );
    }
}
