//! Some entries of a matrix: one by one, or at hand by rows and by columns.

use crate::{Error, Result, memory};

/// Two items and how unlike they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dissimilarity {
    /// One item, by number.
    pub left: u32,
    /// The other.
    pub right: u32,
    /// How unlike they are: a distance.
    pub value: f64,
}

/// A row, another one or an object, and the number that belongs to them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValuedPair {
    /// The row on the left, by number.
    pub left: u32,
    /// The row on the right, or the object.
    pub right: u32,
    /// What leftᵀ W right should be.
    pub value: f64,
}

/// The known entries of a matrix, stored by rows and again by columns: 24 bytes
/// each.
///
/// A part of them may be held out. In each row and column the entries that were
/// kept come first, so that both parts are there without a copy.
#[derive(Debug, Clone)]
pub struct Observed {
    rows: Stored,
    columns: Stored,
}

/// One side of the entries: line after line.
#[derive(Debug, Clone)]
struct Stored {
    /// Where each line starts, with the end at last.
    starts: Vec<usize>,
    /// Where the entries of each line end that were kept.
    kept: Vec<usize>,
    index: Vec<u32>,
    value: Vec<f64>,
}

/// Which of the entries are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All of them.
    All,
    /// Those that are learned from.
    Kept,
    /// Those that were held out.
    Held,
}

/// The entries of a part, line by line: rows or columns.
#[derive(Debug, Clone, Copy)]
pub struct Lines<'a> {
    starts: &'a [usize],
    ends: &'a [usize],
    index: &'a [u32],
    value: &'a [f64],
}

impl<'a> Lines<'a> {
    /// Lines in the memory of somebody else: where each starts, with the end at last, and the
    /// places and values of all entries. `places` is how many there are in a line.
    pub fn lent(
        starts: &'a [usize],
        index: &'a [u32],
        value: &'a [f64],
        places: usize,
    ) -> Result<Self> {
        let rising = starts.windows(2).all(|pair| pair[0] <= pair[1]);
        let whole = starts.first() == Some(&0) && starts.last() == Some(&index.len());
        if !(rising && whole && index.len() == value.len()) {
            return Err(Error::input(
                "starts, places and values of lines do not fit together",
            ));
        }
        if let Some(place) = index.iter().find(|place| **place as usize >= places) {
            return Err(Error::input(format!("place {place} of {places} in a line")));
        }
        if !value.iter().all(|v| v.is_finite()) {
            return Err(Error::input("a value that is not finite"));
        }
        Ok(Lines {
            starts: &starts[..starts.len() - 1],
            ends: &starts[1..],
            index,
            value,
        })
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The entries of line `i`: their places in it, and their values.
    #[inline]
    pub fn line(&self, i: usize) -> (&'a [u32], &'a [f64]) {
        let range = self.starts[i]..self.ends[i];
        (&self.index[range.clone()], &self.value[range])
    }

    /// How many entries line `i` has.
    pub fn count(&self, i: usize) -> usize {
        self.ends[i] - self.starts[i]
    }
}

/// A part of the entries, by rows and by columns.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Row by row.
    pub rows: Lines<'a>,
    /// Column by column.
    pub columns: Lines<'a>,
    /// How many entries there are.
    pub count: usize,
}

impl View<'_> {
    /// The same entries with rows for columns.
    pub fn transposed(self) -> Self {
        View {
            rows: self.columns,
            columns: self.rows,
            count: self.count,
        }
    }

    /// The mean of the entries; 0 without any.
    pub fn mean(&self) -> f64 {
        let lines = (0..self.rows.len()).map(|i| self.rows.line(i).1);
        let sum: f64 = lines.map(|values| values.iter().sum::<f64>()).sum();
        sum / self.count.max(1) as f64
    }

    /// The mean square of what is left of the entries after `center` is
    /// subtracted; 0 without any.
    pub fn mean_square(&self, center: f64) -> f64 {
        let lines = (0..self.rows.len()).map(|i| self.rows.line(i).1);
        let square = |values: &[f64]| -> f64 { values.iter().map(|v| (v - center).powi(2)).sum() };
        lines.map(square).sum::<f64>() / self.count.max(1) as f64
    }
}

/// What became of entries that came twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeated(pub usize);

impl Observed {
    /// Entries `(row, column, value)` of a matrix with so many rows and columns,
    /// in any order. Of entries for the same place the last counts.
    ///
    /// # Panics
    /// When an entry lies outside, or is not finite.
    #[track_caller]
    pub fn new(
        shape: (usize, usize),
        entries: Vec<(u32, u32, f64)>,
    ) -> Result<(Observed, Repeated)> {
        let count = entries.len();
        let room = count as u128 * 24 + (shape.0 as u128 + shape.1 as u128) * 24;
        memory::require(room, &format!("a matrix of {count} entries"))?;
        let inside = |&(i, j, v): &(u32, u32, f64)| {
            (i as usize) < shape.0 && (j as usize) < shape.1 && v.is_finite()
        };
        assert!(entries.iter().all(inside), "entries inside and finite");
        // By columns first and then by rows: the rows are then sorted, without a
        // comparison, and equal places stand in the order they came.
        let columns = Stored::by_counting(shape.1, count, || {
            entries.iter().map(|&(i, j, v)| (j, i, v))
        });
        drop(entries);
        let rows = columns.transposed(shape.0);
        drop(columns);
        let rows = rows.without_repeats();
        let repeated = Repeated(count - rows.index.len());
        let columns = rows.transposed(shape.1);
        Ok((Observed { rows, columns }, repeated))
    }

    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows.kept.len(), self.columns.kept.len())
    }

    /// How many entries there are.
    pub fn count(&self) -> usize {
        self.rows.index.len()
    }

    /// A part of the entries.
    pub fn part(&self, part: Part) -> View<'_> {
        let (rows, columns) = (self.rows.lines(part), self.columns.lines(part));
        let count = (0..rows.len()).map(|i| rows.count(i)).sum();
        View {
            rows,
            columns,
            count,
        }
    }

    /// The same places with other values, from row, column and value; what is held
    /// out stays so.
    pub fn map(&self, value: impl Fn(usize, usize, f64) -> f64) -> Result<Observed> {
        let room = self.count() as u128 * 24;
        memory::require(room, &format!("a copy of {} entries", self.count()))?;
        let mut out = self.clone();
        for (stored, flip) in [(&mut out.rows, false), (&mut out.columns, true)] {
            for i in 0..stored.kept.len() {
                for at in stored.starts[i]..stored.starts[i + 1] {
                    let j = stored.index[at] as usize;
                    let (row, column) = if flip { (j, i) } else { (i, j) };
                    stored.value[at] = value(row, column, stored.value[at]);
                }
            }
        }
        Ok(out)
    }

    /// Holds out the entries that are asked for by their number, in the order of
    /// rows and then columns; all others are kept.
    pub fn hold_out(&mut self, held: impl Fn(usize) -> bool) {
        // The number of an entry is its place among entries sorted by row and
        // column, whatever was held out before.
        self.rows.sort();
        self.rows.partition(|at, _, _| held(at));
        let rows = &self.rows;
        let is_held = |row: u32, column: u32| {
            let end = rows.starts[row as usize + 1];
            rows.index[rows.kept[row as usize]..end]
                .binary_search(&column)
                .is_ok()
        };
        self.columns.sort();
        self.columns
            .partition(|_, column, row| is_held(row, column));
    }
}

impl Stored {
    /// Entries put in their lines, in the order they come.
    fn by_counting<I: Iterator<Item = (u32, u32, f64)>>(
        lines: usize,
        count: usize,
        entries: impl Fn() -> I,
    ) -> Self {
        let mut starts = vec![0usize; lines + 1];
        for (line, _, _) in entries() {
            starts[line as usize + 1] += 1;
        }
        for i in 0..lines {
            starts[i + 1] += starts[i];
        }
        let (mut index, mut value) = (vec![0u32; count], vec![0.0; count]);
        let mut next = starts.clone();
        for (line, place, v) in entries() {
            let at = &mut next[line as usize];
            (index[*at], value[*at]) = (place, v);
            *at += 1;
        }
        Stored {
            kept: starts[1..].to_vec(),
            starts,
            index,
            value,
        }
    }

    /// The same, of lines that are sorted, with the last of equal places only.
    fn without_repeats(mut self) -> Self {
        let (mut to, mut start) = (0, 0);
        for line in 0..self.kept.len() {
            let end = self.starts[line + 1];
            self.starts[line] = to;
            for at in start..end {
                let last = at + 1 == end || self.index[at] != self.index[at + 1];
                if last {
                    (self.index[to], self.value[to]) = (self.index[at], self.value[at]);
                    to += 1;
                }
            }
            start = end;
            self.kept[line] = to;
        }
        *self.starts.last_mut().expect("an end") = to;
        self.index.truncate(to);
        self.value.truncate(to);
        self
    }

    /// Sorts each line by place, equal places in the order they came, and keeps
    /// all of it.
    fn sort(&mut self) {
        let mut line: Vec<(u32, f64)> = Vec::new();
        for i in 0..self.kept.len() {
            let range = self.starts[i]..self.starts[i + 1];
            self.kept[i] = range.end;
            let (index, value) = (&mut self.index[range.clone()], &mut self.value[range]);
            if index.is_sorted() {
                continue;
            }
            line.clear();
            line.extend(index.iter().copied().zip(value.iter().copied()));
            line.sort_by_key(|&(place, _)| place);
            for (at, &(place, v)) in line.iter().enumerate() {
                (index[at], value[at]) = (place, v);
            }
        }
    }

    /// Puts the entries that are held to the end of each line, else in order.
    /// `held` is asked with the number of the entry, its line and its place.
    fn partition(&mut self, held: impl Fn(usize, u32, u32) -> bool) {
        let mut later: Vec<(u32, f64)> = Vec::new();
        for i in 0..self.kept.len() {
            let (start, end) = (self.starts[i], self.starts[i + 1]);
            later.clear();
            let mut to = start;
            for at in start..end {
                let entry = (self.index[at], self.value[at]);
                if held(at, i as u32, entry.0) {
                    later.push(entry);
                } else {
                    (self.index[to], self.value[to]) = entry;
                    to += 1;
                }
            }
            self.kept[i] = to;
            for (at, &(place, v)) in (to..).zip(&later) {
                (self.index[at], self.value[at]) = (place, v);
            }
        }
    }

    fn transposed(&self, lines: usize) -> Stored {
        Stored::by_counting(lines, self.index.len(), || {
            (0..self.kept.len()).flat_map(|i| {
                let range = self.starts[i]..self.starts[i + 1];
                range.map(move |at| (self.index[at], i as u32, self.value[at]))
            })
        })
    }

    fn lines(&self, part: Part) -> Lines<'_> {
        let (starts, ends) = match part {
            Part::All => (&self.starts[..], &self.starts[1..]),
            Part::Kept => (&self.starts[..], &self.kept[..]),
            Part::Held => (&self.kept[..], &self.starts[1..]),
        };
        Lines {
            starts,
            ends,
            index: &self.index,
            value: &self.value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(view: View<'_>) -> [Vec<(u32, u32, f64)>; 2] {
        [(view.rows, false), (view.columns, true)].map(|(lines, flip)| {
            let entries = (0..lines.len()).flat_map(|i| {
                let (index, value) = lines.line(i);
                let entry = move |(&j, &v): (&u32, &f64)| match flip {
                    false => (i as u32, j, v),
                    true => (j, i as u32, v),
                };
                index.iter().zip(value).map(entry)
            });
            let mut entries: Vec<_> = entries.collect();
            entries.sort_by_key(|e| (e.0, e.1));
            entries
        })
    }

    #[test]
    fn the_last_of_repeated_entries_counts() {
        let entries = vec![
            (2, 1, 1.0),
            (0, 3, 2.0),
            (2, 1, 3.0),
            (0, 0, 4.0),
            (2, 1, 5.0),
        ];
        let (observed, repeated) = Observed::new((4, 5), entries).unwrap();
        assert_eq!((repeated, observed.count()), (Repeated(2), 3));
        let want = vec![(0, 0, 4.0), (0, 3, 2.0), (2, 1, 5.0)];
        assert_eq!(listed(observed.part(Part::All)), [want.clone(), want]);
        assert_eq!(observed.part(Part::All).mean(), 11.0 / 3.0);
    }

    #[test]
    fn both_sides_agree_on_what_is_held_out() {
        let entries: Vec<(u32, u32, f64)> = (0..60u32)
            .map(|t| ((t * 7) % 11, (t * t) % 13, f64::from(t)))
            .collect();
        let (mut observed, _) = Observed::new((11, 13), entries).unwrap();
        let all = listed(observed.part(Part::All));
        assert_eq!(all[0], all[1]);
        for modulus in [3, 4] {
            observed.hold_out(|number| number % modulus == 1);
            let [kept, held] = [Part::Kept, Part::Held].map(|part| listed(observed.part(part)));
            assert_eq!((&kept[0], &held[0]), (&kept[1], &held[1]));
            let chosen: Vec<_> = all[0].iter().skip(1).step_by(modulus).copied().collect();
            assert_eq!(held[0], chosen);
            assert_eq!(kept[0].len() + held[0].len(), all[0].len());
            assert_eq!(listed(observed.part(Part::All)), all);
        }
    }

    #[test]
    fn a_matrix_may_be_empty() {
        let (observed, _) = Observed::new((3, 2), Vec::new()).unwrap();
        assert_eq!((observed.count(), observed.shape()), (0, (3, 2)));
        assert_eq!(observed.part(Part::All).mean(), 0.0);
    }
}
