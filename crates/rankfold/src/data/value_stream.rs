//! A stream of pairs with values: lines `{"left":R,"right":R,"value":…}`, or
//! `left right value` as in a file of pairs.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::pair_stream::{PairStream, Said};
use super::values::value_of;
use crate::{Error, Result};

/// Pairs with values.
pub type ValueStream<R> = PairStream<R, f64>;

impl Said for f64 {
    const FIELDS: &'static [&'static str] = &["value"];
    const EXPECTED: &'static str = "the fields `left`, `right` and `value` of a pair";

    fn read<'de, M: MapAccess<'de>>(_: &str, map: &mut M) -> std::result::Result<Self, M::Error> {
        let Number(value) = map.next_value::<Number>()?;
        if value.abs() > super::values::LARGEST_VALUE {
            let message = format!("the value `{value:e}` is too large");
            return Err(serde::de::Error::custom(message));
        }
        Ok(value)
    }

    fn of_fields(fields: &[&[u8]]) -> Result<Self> {
        match fields {
            [value] => value_of(value),
            found => Err(Error::input(format!(
                "expected 3 fields (left right value), found {}",
                found.len() + 2
            ))),
        }
    }
}

/// A number, called so in errors.
pub(super) struct Number(pub f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Number;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_f64<E>(self, value: f64) -> std::result::Result<Number, E> {
                Ok(Number(value))
            }
            fn visit_u64<E>(self, value: u64) -> std::result::Result<Number, E> {
                Ok(Number(value as f64))
            }
            fn visit_i64<E>(self, value: i64) -> std::result::Result<Number, E> {
                Ok(Number(value as f64))
            }
        }
        from.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Features, Lines, Names, RowIds, RowLookup};

    fn read(text: &str) -> Result<Vec<f64>> {
        let source = std::io::Cursor::new(text.as_bytes().to_vec());
        let mut stream = ValueStream::<f32>::new(Lines::new(Box::new(source), "s"));
        let ids = RowIds::Positions;
        let rows = RowLookup::new(&ids, 3);
        let names = Names::new(&Features::Numbered, Some(&rows));
        let mut out = Vec::new();
        while let Some((_, value)) = stream.read(names, names)? {
            out.push(value);
        }
        Ok(out)
    }

    #[test]
    fn pairs_are_read_and_bad_lines_named() {
        let good = "{\"left\":0,\"right\":{\"2\":1.5},\"value\":3}\n\n{\"value\":-1e3,\"x\":[],\"right\":1,\"left\":2}\n";
        assert_eq!(read(good).unwrap(), [3.0, -1000.0]);
        assert_eq!(read("0 1 2.5\n2,0,-1\n").unwrap(), [2.5, -1.0]);
        for (text, message) in [
            (
                "{\"left\":0,\"right\":1}",
                "s:1: expected the fields `left`, `right` and `value` of a pair, found `left`, `right`",
            ),
            (
                "{\"left\":0,\"right\":1,\"value\":\"x\"}",
                "s:1: column 31: invalid type: string \"x\", expected a number",
            ),
            (
                "{\"left\":0,\"right\":9,\"value\":1}",
                "s:1: column 19: no row is called `9`",
            ),
            (
                "{\"left\":0,\"left\":1,\"right\":1,\"value\":1}",
                "s:1: column 16: `left` stands twice",
            ),
            (
                "{\"left\":0,\"right\":1,\"value\":1,\"value\":2}",
                "s:1: column 37: `value` stands twice",
            ),
            ("[1]", "s:1: expected a JSON object, found `[1]`"),
            ("7", "s:1: expected a JSON object, found `7`"),
            ("0 9 1", "s:1: no row is called `9`"),
            ("0 1 x", "s:1: expected a number as value, found `x`"),
            ("0 1", "s:1: expected 3 fields (left right value), found 2"),
        ] {
            assert_eq!(read(text).unwrap_err().to_string(), message);
        }
    }
}
