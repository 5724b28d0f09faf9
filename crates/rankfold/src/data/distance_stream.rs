//! A stream of what is known about distances: lines `{"left":R,"right":R,…}` with
//! `"same":true|false`, `"value":v`, `"at_most":v` or `"at_least":v`; or lines
//! `left right same` as in a file of constraints.

use serde::de::{Error as _, MapAccess};

use super::Relation;
use super::constraints::{DISTANCES, relation};
use super::pair_stream::{PairStream, Said};
use super::value_stream::Number;
use crate::Result;

/// What is known about distances.
pub type DistanceStream<R> = PairStream<R, Relation>;

impl Said for Relation {
    const FIELDS: &'static [&'static str] = &["same", "value", "at_most", "at_least"];
    const EXPECTED: &'static str =
        "the fields `left`, `right` and one of `same`, `value`, `at_most`, `at_least`";

    fn read<'de, M: MapAccess<'de>>(
        field: &str,
        map: &mut M,
    ) -> std::result::Result<Self, M::Error> {
        Ok(match field {
            "same" if map.next_value::<bool>()? => Relation::Same,
            "same" => Relation::Different,
            "value" => Relation::Equal(distance(map)?),
            "at_most" => Relation::AtMost(distance(map)?),
            _ => Relation::AtLeast(distance(map)?),
        })
    }

    fn of_fields(fields: &[&[u8]]) -> Result<Self> {
        relation(fields)
    }
}

fn distance<'de, M: MapAccess<'de>>(map: &mut M) -> std::result::Result<f64, M::Error> {
    let Number(value) = map.next_value()?;
    match DISTANCES.contains(&value) {
        true => Ok(value),
        false => Err(M::Error::custom(format!(
            "expected a distance from 0 to 1e150, found {value:?}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Features, Lines, Names, RowIds, RowLookup};

    fn read(text: &str) -> Result<Vec<Relation>> {
        let source = std::io::Cursor::new(text.as_bytes().to_vec());
        let mut stream = DistanceStream::<f32>::new(Lines::new(Box::new(source), "s"));
        let ids = RowIds::Positions;
        let rows = RowLookup::new(&ids, 3);
        let names = Names::new(&Features::Numbered, Some(&rows));
        let mut out = Vec::new();
        while let Some((_, relation)) = stream.read(names, names)? {
            out.push(relation);
        }
        Ok(out)
    }

    #[test]
    fn relations_are_read_and_bad_lines_named() {
        let good = r#"{"left":0,"right":{"2":1.5},"same":true}

            {"same":false,"x":[],"right":1,"left":2}
            {"left":0,"right":1,"value":2.5}
            {"left":0,"right":1,"at_most":0}
            {"at_least":3,"left":0,"right":1}"#;
        assert_eq!(
            read(good).unwrap(),
            [
                Relation::Same,
                Relation::Different,
                Relation::Equal(2.5),
                Relation::AtMost(0.0),
                Relation::AtLeast(3.0)
            ]
        );
        for (text, message) in [
            (
                r#"{"left":0,"right":1}"#,
                "s:1: expected the fields `left`, `right` and one of `same`, `value`, `at_most`, `at_least`, found `left`, `right`",
            ),
            (
                r#"{"left":0,"right":1,"same":1}"#,
                "s:1: column 28: invalid type: integer `1`, expected a boolean",
            ),
            (
                r#"{"left":0,"right":1,"value":-1}"#,
                "s:1: column 31: expected a distance from 0 to 1e150, found -1.0",
            ),
            (
                r#"{"left":0,"right":1,"at_most":1e200}"#,
                "s:1: column 36: expected a distance from 0 to 1e150, found 1e200",
            ),
            (
                r#"{"left":0,"right":1,"value":1,"same":true}"#,
                "s:1: column 36: expected one of `value` and `same`, found both",
            ),
            (
                r#"{"left":0,"right":1,"same":true,"same":true}"#,
                "s:1: column 38: `same` stands twice",
            ),
            ("7", "s:1: expected a JSON object, found `7`"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), message);
        }
    }
}
