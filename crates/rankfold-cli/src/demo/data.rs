//! The handwritten digits that the demo learns from: 1,500 to train on and
//! 1,000 to test on. `DATA.md` has their source and license.

use serde::Serialize;

/// Plain text rather than packed: the file stays readable, and reading it
/// needs no decoder. Its columns are `split`, `label`, and the coordinates of the pen.
pub const CSV: &str = include_str!("pendigits.csv");

/// One handwritten digit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Digit {
    /// What the writer meant, 0 to 9.
    pub label: u8,
    /// Eight pen positions along the stroke, x1, y1, …, x8, y8, each from 0 to
    /// 100; y grows upwards.
    pub points: [f64; 16],
}

/// The training rows and the test rows, each part in its order in the file.
pub fn digits() -> (Vec<Digit>, Vec<Digit>) {
    let (mut train, mut test) = (Vec::new(), Vec::new());
    for line in CSV.lines().skip(1) {
        // The file is part of the program and a test reads all of it, so a bad
        // line is a bug of ours and not an error to report.
        let (split, digit) = parse(line).expect("the embedded digits are well formed");
        match split {
            "train" => train.push(digit),
            _ => test.push(digit),
        }
    }
    (train, test)
}

fn parse(line: &str) -> Option<(&str, Digit)> {
    let mut fields = line.split(',');
    let split = fields.next()?;
    let label = fields.next()?.parse().ok()?;
    let mut points = [0.0; 16];
    for point in &mut points {
        *point = fields.next()?.parse().ok()?;
    }
    fields
        .next()
        .is_none()
        .then_some((split, Digit { label, points }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digit_is_there_equally_often_and_within_the_page() {
        let (train, test) = digits();
        for (rows, each) in [(&train, 150), (&test, 100)] {
            assert_eq!(rows.len(), 10 * each);
            for label in 0..10 {
                let found = rows.iter().filter(|digit| digit.label == label).count();
                assert_eq!(found, each, "digit {label}");
            }
            let mut numbers = rows.iter().flat_map(|digit| digit.points);
            assert!(numbers.all(|number| (0.0..=100.0).contains(&number)));
        }
    }

    #[test]
    fn no_row_is_in_both_parts() {
        let (train, test) = digits();
        assert!(test.iter().all(|row| !train.contains(row)));
    }

    #[test]
    fn the_split_names_are_the_two_expected() {
        let mut splits = CSV.lines().skip(1).map(|line| line.split(',').next());
        assert!(splits.all(|split| matches!(split, Some("train" | "test"))));
    }

    #[test]
    fn lines_of_the_wrong_shape_are_refused() {
        let good = CSV.lines().nth(1).unwrap();
        assert!(parse(good).is_some());
        assert!(parse(&format!("{good},1")).is_none());
        assert!(parse(good.rsplit_once(',').unwrap().0).is_none());
        assert!(parse(&good.replacen("train,", "train,x", 1)).is_none());
    }
}
