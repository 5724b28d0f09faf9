//! The text model of LIBMF: `f`, `m`, `n`, `k` and `b`, then a line for each row `p0`, `p1`, … of
//! users and `q0`, `q1`, … of items. A row that no rating has is marked `F` instead of `T`; where
//! one is asked for, the mean `b` is predicted.

use super::PlainFactors;
use crate::data::{Lines, write_atomically};
use crate::{Error, Ids, Result, memory};
use std::path::Path;

/// The solvers of LIBMF whose models predict real values by products: `f` is at most this.
const REAL_VALUED: u32 = 2;

/// Reads a text model.
pub fn read_libmf(path: impl AsRef<Path>) -> Result<PlainFactors> {
    let path = path.as_ref();
    let mut lines = Lines::open(path)?;
    let mut head = [0.0; 5];
    for (name, value) in ["f", "m", "n", "k", "b"].iter().zip(&mut head) {
        let fields = next(&mut lines)?;
        let number = fields.get(1).and_then(|text| text.parse::<f64>().ok());
        *value = match (fields.first().is_some_and(|f| f == name), number) {
            (true, Some(number)) if number.is_finite() => number,
            _ => {
                let found = fields.join(" ");
                return Err(lines.error(format!(
                    "expected `{name}` and a number, as LIBMF's text models begin, found `{found}`"
                )));
            }
        };
    }
    let [solver, rows @ .., mean] = head;
    if solver > f64::from(REAL_VALUED) {
        return Err(lines.error(format!(
            "a model of LIBMF's loss {solver}, which does not predict ratings: expected 0, 1 or 2"
        )));
    }
    let [users, items, rank] = rows;
    let whole = |v: f64| v >= 1.0 && v.fract() == 0.0 && v < f64::from(u32::MAX);
    if !rows.iter().all(|v| whole(*v)) || rank > 65_536.0 {
        return Err(lines.error(format!(
            "{users} users and {items} items of rank {rank} are not possible"
        )));
    }
    let k = rank as usize;
    memory::require(
        8 * (users as u128 + items as u128) * k as u128,
        "the factors of a LIBMF model",
    )?;
    let (mut ids, mut values) = (Vec::new(), Vec::new());
    for (letter, count) in [("p", users as usize), ("q", items as usize)] {
        let (mut known, mut all) = (Ids::new(), Vec::new());
        for i in 0..count {
            let fields = next(&mut lines)?;
            let name = format!("{letter}{i}");
            if fields.first() != Some(&name) || fields.len() != k + 2 {
                return Err(lines.error(format!(
                    "expected `{name}`, T or F, and {k} numbers, found {} fields that begin with `{}`",
                    fields.len(),
                    fields.first().map_or("", |f| f)
                )));
            }
            match &fields[1][..] {
                "F" => continue,
                "T" => known.intern(&i.to_string()),
                other => {
                    return Err(lines.error(format!("expected T or F, found `{other}`")));
                }
            };
            for text in &fields[2..] {
                match text.parse::<f64>() {
                    Ok(value) if value.is_finite() => all.push(value),
                    _ => {
                        return Err(lines.error(format!("expected a number, found `{text}`")));
                    }
                }
            }
        }
        if known.is_empty() {
            return Err(lines.error(format!("no row `{letter}` is marked T: nothing is known")));
        }
        ids.push(known);
        values.push(all);
    }
    Ok(PlainFactors {
        ids,
        values,
        rank: k,
        mean,
        notes: Vec::new(),
    })
}

/// The fields of the next line.
fn next(lines: &mut Lines) -> Result<Vec<String>> {
    let Some(line) = lines.next_line()? else {
        return Err(lines.error("the file ends too early"));
    };
    let text = String::from_utf8_lossy(line);
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// Writes a text model. Ids that are whole numbers stay what they are, others are numbered in
/// their order.
pub fn write_libmf(path: impl AsRef<Path>, factors: &PlainFactors) -> Result<()> {
    let path = path.as_ref();
    let [left, right] = &factors.values[..] else {
        return Err(super::one_side().in_file(path));
    };
    let k = factors.rank;
    let places = [places(&factors.ids[0]), places(&factors.ids[1])];
    let size = |side: usize| places[side].iter().map(|p| p + 1).max().unwrap_or(0);
    // Numbers of users and items may have large gaps.
    for (side, what) in ["users", "items"].iter().enumerate() {
        if size(side) > 100 * factors.ids[side].len() + 1_000_000 {
            let message = format!(
                "the largest number of {what} is {}, and LIBMF has a line for each below it: \
                 number them from 0",
                size(side) - 1
            );
            return Err(Error::input(message).in_file(path));
        }
    }
    write_atomically(path, |out| {
        writeln!(
            out,
            "f 0\nm {}\nn {}\nk {k}\nb {}",
            size(0),
            size(1),
            factors.mean as f32
        )?;
        for (side, (letter, rows)) in [("p", left), ("q", right)].into_iter().enumerate() {
            let mut at = vec![None; size(side)];
            for (row, &place) in places[side].iter().enumerate() {
                at[place] = Some(row);
            }
            for (i, row) in at.into_iter().enumerate() {
                write!(out, "{letter}{i} {}", if row.is_some() { "T" } else { "F" })?;
                for j in 0..k {
                    let value = row.map_or(0.0, |row| rows[row * k + j] as f32);
                    write!(out, " {value}")?;
                }
                writeln!(out, " ")?;
            }
        }
        Ok(())
    })
}

/// The number of each id: its own where all are whole numbers, else its place.
fn places(ids: &Ids) -> Vec<usize> {
    let own = ids.iter().map(|id| {
        let number = id.parse::<u32>().ok()?;
        (number.to_string() == id).then_some(number as usize)
    });
    let own: Option<Vec<usize>> = own.collect();
    own.unwrap_or_else(|| (0..ids.len()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As LIBMF 2.01 writes it, with a user that has no rating.
    const TEXT: &str = "f 0\nm 3\nn 2\nk 2\nb 3.5\np0 T 0.5 1 \np1 F 0 0 \np2 T 2 -1 \n\
        q0 T 1 1 \nq1 T 0.25 4 \n";

    #[test]
    fn a_text_model_is_read_and_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.libmf");
        std::fs::write(&path, TEXT).unwrap();
        let found = read_libmf(&path).unwrap();
        assert_eq!(found.ids[0].iter().collect::<Vec<_>>(), ["0", "2"]);
        assert_eq!(found.values[1], [1.0, 1.0, 0.25, 4.0]);
        let model = found.clone().into_model::<f32>().unwrap();
        let predictor = model.rating_predictor().unwrap();
        assert!((predictor.raw(Some(1), Some(0)) - 1.0).abs() < 1e-6);
        // LIBMF predicts the mean for a user that it does not know.
        assert_eq!(predictor.raw(None, Some(0)), 3.5);
        write_libmf(&path, &found).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), TEXT);
    }

    #[test]
    fn damaged_models_are_refused_with_their_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.libmf");
        for (from, to, what) in [
            ("f 0", "f 5", "loss 5"),
            ("k 2", "k 0", "not possible"),
            ("m 3", "m 99999999999", "not possible"),
            ("p2 T 2 -1", "p2 T 2 oops", "`oops`"),
            ("p2 T 2 -1", "p2 T 2", "expected `p2`"),
            ("q1 T", "q1 X", "T or F"),
            ("q1 T 0.25 4 \n", "", "too early"),
            ("b 3.5", "b nan", "expected `b`"),
        ] {
            std::fs::write(&path, TEXT.replace(from, to)).unwrap();
            let error = read_libmf(&path).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
            assert!(error.line.is_some(), "{error}");
        }
    }
}
